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

BOLD, PLAIN = 0.56, 0.5
"""About the width of a letter of a title and of the note below it, by the size of the font."""

APART = 5
"""Pixels between the numbers of an axis, of which those that are closer are left out."""

AXIS_LETTER = 5.5
"""About the width of a letter of an axis's title."""

CLOSE = 1.0
"""Pixels that a figure may be narrower or wider than asked; the writer stretches the rest."""

STRETCHED = 0.03
"""Where no panel's width gives just the one that is asked for, the writer stretches by up to this share."""

STEPS = 9
"""Of the search for the panels' width."""


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
    bare = {key: value for key, value in spec.items() if key != "title"}
    for columns in range(most, 0, -1):
        for legend in (None, 3, 2, 1):
            found = _at(bare, wide, columns, legend, measure)
            if found is not None:
                return _titled(found, spec.get("title"), wide, measure)
    raise ValueError("too narrow for its axes and legend")


def _at(
    spec: dict[str, Any],
    wide: float,
    columns: int,
    legend: int | None,
    measure: Callable[[dict[str, Any]], float],
) -> dict[str, Any] | None:
    """The widest panels with which it is no wider; None where they would be too narrow, or the whole much narrower."""

    def made(factor: float) -> dict[str, Any]:
        new = copy.deepcopy(spec)
        for part in _parts(new):
            if isinstance(part.get("columns"), int):
                part["columns"] = min(columns, part["columns"])
            if isinstance(part.get("width"), (int, float)):
                part["width"] = round(part["width"] * factor, 2)
                _wrap_across(part, int(part["width"] / AXIS_LETTER))
        new.setdefault("config", {}).setdefault("axis", {})["labelSeparation"] = APART
        if legend is not None:
            new["config"].setdefault("legend", {})["columns"] = legend
            for own in _legends(new):
                own["columns"] = min(legend, own["columns"])
        return new

    panel = max((part["width"] for part in _parts(spec) if "width" in part), default=LEAST_PANEL)
    low, high = LEAST_PANEL / panel, max(1.0, wide / panel)
    below = measure(made(low))
    if below > wide + CLOSE:
        return None
    above = measure(made(high))
    for step in range(STEPS):
        if above <= wide + CLOSE:
            low, below = high, above
        if wide - below <= CLOSE:
            break
        # Labels come and go with the width, so that it is no straight line: every other step halves.
        part = (wide - below) / (above - below) if step % 2 == 0 and above > below else 0.5
        at = low + (high - low) * min(0.97, max(0.03, part))
        actual = measure(made(at))
        if actual <= wide + CLOSE:
            low, below = at, actual
        else:
            high, above = at, actual
    return made(low) if wide - below <= STRETCHED * wide else None


def _titled(
    spec: dict[str, Any], title: Any, wide: float, measure: Callable[[dict[str, Any]], float]
) -> dict[str, Any]:
    """``spec`` with its title in as many lines as it takes."""
    if not isinstance(title, dict):
        return spec
    room = wide
    while True:
        lines = dict(title)
        for key, size, letter in (("text", "fontSize", BOLD), ("subtitle", "subtitleFontSize", PLAIN)):
            if isinstance(title.get(key), str) and title[key]:
                lines[key] = textwrap.wrap(title[key], max(8, int(room / (letter * title[size]))))
        found = spec | {"title": lines}
        if measure(found) <= wide + CLOSE or room < wide / 2:
            return found
        room *= 0.9


def _wrap_across(part: dict[str, Any], letters: int) -> None:
    """The titles of horizontal axes in lines of so many letters, lest they run into those of the panel beside it."""
    for layer in [part, *part.get("layer", [])]:
        across = layer.get("encoding", {}).get("x", {})
        if isinstance(across.get("title"), str) and len(across["title"]) > letters:
            across["title"] = textwrap.wrap(across["title"], max(8, letters))


def _legends(part: Any) -> Iterator[dict[str, Any]]:
    """Legends that say how many stand side by side, wherever they are in a specification."""
    if isinstance(part, list):
        for one in part:
            yield from _legends(one)
    elif isinstance(part, dict):
        legend = part.get("legend")
        if isinstance(legend, dict) and isinstance(legend.get("columns"), int):
            yield legend
        for key, one in part.items():
            if key not in ("config", "datasets"):
                yield from _legends(one)


def _parts(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A specification and those in it that are drawn side by side or in one another."""
    yield spec
    inner = [spec["spec"]] if isinstance(spec.get("spec"), dict) else []
    for key in ("concat", "hconcat", "vconcat"):
        inner += spec.get(key, [])
    for one in inner:
        yield from _parts(one)
