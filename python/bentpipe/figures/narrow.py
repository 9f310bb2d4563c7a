"""A figure as wide as a paper's column: panels narrower, or fewer side by side; letters keep their size."""

from __future__ import annotations

import copy
import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["PX_PER_MM", "narrowed", "width_px"]

PX_PER_MM = 96 / 25.4
"""CSS pixels, of which an inch has 96; letters of 11 of them are 8.25 points."""

LEAST_PANEL = 90
"""A panel narrower than this has no room for its axis's numbers; fewer then stand side by side."""

LETTER = 7.0
"""About the width of a letter of a title."""

CLOSE = 1.0
"""Pixels that a figure may be narrower or wider than asked; the writer stretches the rest."""


def width_px(text: str) -> float:
    """``"88mm"``, ``"8.8 cm"``, ``"3.5in"`` as CSS pixels. Raises ValueError."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(mm|cm|in)\s*", text)
    if found is None or float(found[1]) == 0:
        raise ValueError(f'found "{text}", expected a width in mm, cm or in, such as "88mm"')
    return float(found[1]) * {"mm": PX_PER_MM, "cm": 10 * PX_PER_MM, "in": 96.0}[found[2]]


def narrowed(spec: dict[str, Any], wide: float, measure: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
    """``spec`` with panels such that it is ``wide`` pixels; ``measure`` says how wide a specification comes out.

    Raises ValueError: there is no room.
    """
    most = max((part["columns"] for part in _parts(spec) if isinstance(part.get("columns"), int)), default=1)
    for columns in range(most, 0, -1):
        for legend in (None, 3, 2, 1):
            found = _at(spec, wide, columns, legend, measure)
            if found is not None:
                return found
    raise ValueError("too narrow for its axes and legend")


def _at(
    spec: dict[str, Any],
    wide: float,
    columns: int,
    legend: int | None,
    measure: Callable[[dict[str, Any]], float],
) -> dict[str, Any] | None:
    def made(factor: float) -> dict[str, Any]:
        new = copy.deepcopy(spec)
        for part in _parts(new):
            if isinstance(part.get("columns"), int):
                part["columns"] = min(columns, part["columns"])
            if isinstance(part.get("width"), (int, float)):
                part["width"] = round(part["width"] * factor, 2)
        if legend is not None:
            new.setdefault("config", {}).setdefault("legend", {})["columns"] = legend
        title = new.get("title")
        if isinstance(title, dict):
            for key in ("text", "subtitle"):
                if isinstance(title.get(key), str) and title[key]:
                    title[key] = textwrap.wrap(title[key], max(8, int(wide / LETTER)))
        return new

    least = LEAST_PANEL / max(
        (part["width"] for part in _parts(spec) if "width" in part), default=LEAST_PANEL
    )
    low = measure(made(least))
    if low > wide + CLOSE:
        return None
    high = measure(made(1.0))
    factor = 1.0
    for _ in range(4):
        factor = least + (1.0 - least) * (wide - low) / max(high - low, 1e-9) if factor == 1.0 else factor
        found = made(factor)
        actual = measure(found)
        if abs(actual - wide) <= CLOSE:
            return found
        factor *= 1 + (wide - actual) / wide
    return None


def _parts(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A specification and those in it that are drawn side by side or in one another."""
    yield spec
    inner = [spec["spec"]] if isinstance(spec.get("spec"), dict) else []
    for key in ("concat", "hconcat", "vconcat"):
        inner += spec.get(key, [])
    for one in inner:
        yield from _parts(one)
