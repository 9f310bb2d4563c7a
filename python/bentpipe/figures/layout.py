"""Layout of a figure in a column of a paper: narrower or fewer panels; fonts keep their size."""

from __future__ import annotations

import copy
import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["PX_PER_MM", "narrowed", "width_px"]

PX_PER_MM = 96 / 25.4
"""CSS pixels (1/96 inch) per millimetre; a font of 11 pixels has 8.25 points."""

MIN_PANEL = 90
"""Narrowest panel with text_width for the numbers of its axis, CSS pixels; below, fewer panels share a row."""

BOLD, PLAIN = 0.56, 0.5
"""Approximate width of a character of a title and of its note, relative to the font size."""

LABEL_GAP = 5
"""Smallest gap between labels of an axis, pixels; Vega hides closer ones."""

AXIS_CHARACTER = 5.5
"""Approximate width of a character of an axis title, pixels."""

TOLERANCE = 1.0
"""Largest difference from the requested width, pixels; the writer scales the rest."""

MAX_STRETCH = 0.03
"""Largest scaling by the writer if no panel width gives the requested width, as a fraction."""

STEPS = 9
"""Steps of the search for the panel width."""


def width_px(text: str) -> float:
    """Parse a width such as ``"88mm"``, ``"8.8 cm"`` or ``"3.5in"`` to CSS pixels.

    Raises:
        ValueError: the text is not a width.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(mm|cm|in)\s*", text)
    if found is None or float(found[1]) == 0:
        raise ValueError(f'found "{text}", expected a width in mm, cm or in, such as "88mm"')
    return float(found[1]) * {"mm": PX_PER_MM, "cm": 10 * PX_PER_MM, "in": 96.0}[found[2]]


def narrowed(spec: dict[str, Any], wide: float, measure: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
    """Fit the panels of ``spec`` into a width.

    Args:
        spec: Vega-Lite specification.
        wide: width, pixels.
        measure: returns the width of a specification, pixels.

    Raises:
        ValueError: the width is too small.
    """
    most = max((part["columns"] for part in _parts(spec) if isinstance(part.get("columns"), int)), default=1)
    bare = {key: value for key, value in spec.items() if key != "title"}
    for columns in range(most, 0, -1):
        for legend in (None, 3, 2, 1):
            fitted = _fit(bare, wide, columns, legend, measure)
            if fitted is not None:
                return _add_title(fitted, spec.get("title"), wide, measure)
    raise ValueError("too narrow for its axes and legend")


def _fit(
    spec: dict[str, Any],
    wide: float,
    columns: int,
    legend: int | None,
    measure: Callable[[dict[str, Any]], float],
) -> dict[str, Any] | None:
    """Return ``spec`` with the widest panels that fit; None if panels are too narrow or the total width too small."""

    def scale(factor: float) -> dict[str, Any]:
        new = copy.deepcopy(spec)
        for part in _parts(new):
            if isinstance(part.get("columns"), int):
                part["columns"] = min(columns, part["columns"])
            if isinstance(part.get("width"), (int, float)):
                part["width"] = round(part["width"] * factor, 2)
                _wrap_across(part, int(part["width"] / AXIS_CHARACTER))
        new.setdefault("config", {}).setdefault("axis", {})["labelSeparation"] = LABEL_GAP
        if legend is not None:
            new["config"].setdefault("legend", {})["columns"] = legend
            for inner in _legends(new):
                inner["columns"] = min(legend, inner["columns"])
        return new

    panel = max((part["width"] for part in _parts(spec) if "width" in part), default=MIN_PANEL)
    low, high = MIN_PANEL / panel, max(1.0, wide / panel)
    below = measure(scale(low))
    if below > wide + TOLERANCE:
        return None
    above = measure(scale(high))
    for step in range(STEPS):
        if above <= wide + TOLERANCE:
            low, below = high, above
        if wide - below <= TOLERANCE:
            break
        # Labels appear and disappear with the width, so it is not linear: every other step bisects.
        part = (wide - below) / (above - below) if step % 2 == 0 and above > below else 0.5
        at = low + (high - low) * min(0.97, max(0.03, part))
        actual = measure(scale(at))
        if actual <= wide + TOLERANCE:
            low, below = at, actual
        else:
            high, above = at, actual
    return scale(low) if wide - below <= MAX_STRETCH * wide else None


def _add_title(
    spec: dict[str, Any], title: Any, wide: float, measure: Callable[[dict[str, Any]], float]
) -> dict[str, Any]:
    """Add the title to ``spec``, wrapped to the width."""
    if not isinstance(title, dict):
        return spec
    text_width = wide
    while True:
        lines = dict(title)
        for key, size, letter in (("text", "fontSize", BOLD), ("subtitle", "subtitleFontSize", PLAIN)):
            if isinstance(title.get(key), str) and title[key]:
                lines[key] = textwrap.wrap(title[key], max(8, int(text_width / (letter * title[size]))))
        found = spec | {"title": lines}
        if measure(found) <= wide + TOLERANCE or text_width < wide / 2:
            return found
        text_width *= 0.9


def _wrap_across(part: dict[str, Any], letters: int) -> None:
    """Wrap the titles of horizontal axes, so that they do not overlap those of the next panel."""
    for layer in [part, *part.get("layer", [])]:
        across = layer.get("encoding", {}).get("x", {})
        if isinstance(across.get("title"), str) and len(across["title"]) > letters:
            across["title"] = textwrap.wrap(across["title"], max(8, letters))


def _legends(part: Any) -> Iterator[dict[str, Any]]:
    """Yield all legends of a specification with a number of columns."""
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
    """Yield a specification and all nested ones."""
    yield spec
    inner = [spec["spec"]] if isinstance(spec.get("spec"), dict) else []
    for key in ("concat", "hconcat", "vconcat"):
        inner += spec.get(key, [])
    for one in inner:
        yield from _parts(one)
