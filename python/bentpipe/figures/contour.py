"""Contour lines of a quantity on a grid, by interpolation (marching squares)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

Point = tuple[float, float]
Segment = tuple[Point, Point]
Box = tuple[float, float, float, float]
"""Left, low, right, high."""


def contour(
    xs: Sequence[float], ys: Sequence[float], values: Mapping[Point, float], level: float = 0.0
) -> list[Segment]:
    """Return the segments of the contour line at ``level``, by linear interpolation along the sides of grid squares.

    A square with an unknown corner has no line. A corner exactly at the level counts as above it. The mean of the
    corners resolves a saddle. Pass logarithms for interpolation on logarithmic axes.

    Args:
        xs: ascending x coordinates of the grid.
        ys: ascending y coordinates of the grid.
        values: known values by (x, y).
        level: value of the contour line.
    """
    segments: list[Segment] = []
    for left, right in itertools.pairwise(xs):
        for low, high in itertools.pairwise(ys):
            corners = [(left, low), (right, low), (right, high), (left, high)]
            if any(corner not in values for corner in corners):
                continue
            heights = [values[corner] - level for corner in corners]
            segments += _square(corners, heights)
    return segments


def _square(corners: Sequence[Point], heights: Sequence[float]) -> list[Segment]:
    above = [height >= 0 for height in heights]
    cuts = {
        side: _cut(corners[side], corners[(side + 1) % 4], heights[side], heights[(side + 1) % 4])
        for side in range(4)
        if above[side] != above[(side + 1) % 4]
    }
    if len(cuts) == 2:
        one, two = cuts.values()
        return [(one, two)]
    if len(cuts) != 4:
        return []
    # A saddle: opposite corners agree. The line separates the corners that differ from the centre.
    if (sum(heights) >= 0) == above[0]:
        return [(cuts[0], cuts[1]), (cuts[2], cuts[3])]
    return [(cuts[3], cuts[0]), (cuts[1], cuts[2])]


def _cut(one: Point, two: Point, first: float, second: float) -> Point:
    part = first / (first - second)
    return (one[0] + part * (two[0] - one[0]), one[1] + part * (two[1] - one[1]))


def outside(segments: Sequence[Segment], boxes: Sequence[Box]) -> list[Segment]:
    """Return the parts of ``segments`` outside all boxes, so that a line does not cross labels."""
    parts = list(segments)
    for box in boxes:
        parts = [part for segment in parts for part in _clip_outside(segment, box)]
    return parts


def _clip_outside(segment: Segment, box: Box) -> list[Segment]:
    """Return the up to two parts of a segment outside a box (intersections by Liang and Barsky 1984)."""
    (x, y), (x2, y2) = segment
    low, high = 0.0, 1.0
    for start, step, least, most in ((x, x2 - x, box[0], box[2]), (y, y2 - y, box[1], box[3])):
        if step == 0:
            if not least < start < most:
                return [segment]
            continue
        enter, leave = sorted(((least - start) / step, (most - start) / step))
        low, high = max(low, enter), min(high, leave)
    if low >= high:
        return [segment]
    at = [(x + part * (x2 - x), y + part * (y2 - y)) for part in (low, high)]
    return [part for part, exists in ((((x, y), at[0]), low > 0), ((at[1], (x2, y2)), high < 1)) if exists]
