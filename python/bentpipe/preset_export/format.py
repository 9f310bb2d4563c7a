"""Contract of a format, and the text that formats share."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.preset_export.access import Access, AccessDirection, Outages

__all__ = ["Format", "by_direction", "comment_header", "describe_windows", "omitted_properties"]


@dataclass(frozen=True)
class Format:
    """Files of presets for a tool."""

    write: Callable[[Access], Mapping[str, str]]
    """Contents by file name of one preset; the first file is the one to run or to read."""
    describe_limits: Callable[[Access], Sequence[str]] | None = None
    """One line for each property of a preset that the tool lacks or has differently; None: it has every property."""
    write_together: Callable[[Sequence[Access]], str] | None = None
    """One text for several presets, for standard output; None: there is no such text."""


def by_direction(
    access: Access, describe: Callable[[AccessDirection], str | Sequence[str] | None]
) -> list[str]:
    """Return lines about both directions: a line that both have once, others with their direction."""
    lines: dict[str, list[str]] = {}
    for side, direction in access.directions.items():
        found = describe(direction) or ()
        for line in (found,) if isinstance(found, str) else found:
            lines.setdefault(line, []).append(side)
    both = len(access.directions)
    return [line if len(sides) == both else f"{sides[0]}: {line}" for line, sides in lines.items()]


def omitted_properties(access: Access) -> list[str]:
    """Return lines about properties that no format has."""
    return by_direction(access, lambda direction: [f"{text}: not expressed" for text in direction.omitted])


def describe_windows(outages: Outages) -> str:
    """Return the durations of outages in words."""
    lengths = sorted({(end - start) / 1e6 for start, end in outages.windows_ns})
    text = f"{lengths[0]:g} ms" if len(lengths) == 1 else f"{lengths[0]:g} to {lengths[-1]:g} ms"
    if outages.repeat_ns and len(outages.windows_ns) == 1:
        return f"{text} every {outages.repeat_ns / 1e9:g} s"
    return f"{len(outages.windows_ns)} of {text}"


def comment_header(access: Access, lines: Sequence[str], limits: Sequence[str]) -> str:
    """Return the comment at the start of a shell script.

    Args:
        access: the preset.
        lines: use of the script.
        limits: lines of :attr:`Format.describe_limits`.
    """
    preset = access.preset
    texts = [f"{preset.name}: {preset.title}", f"Source: {preset.source}", *preset.links, ""]
    texts += [*lines, ""]
    texts += ["Expressed differently or not at all:", *(f"- {line}" for line in limits)] if limits else []
    wrapped = [
        part
        for text in texts
        for part in (textwrap.wrap(text, 110, subsequent_indent="  ", break_on_hyphens=False) or [""])
    ]
    return "\n".join(["#!/bin/sh", *(f"# {line}".rstrip() for line in wrapped)]).rstrip("#\n") + "\n"
