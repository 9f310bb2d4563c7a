"""Where a quantity on a grid has a given value: segments of its contour, by interpolation (marching squares)."""

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
    """Segments along which ``values``, interpolated linearly along the sides of every grid square, are ``level``.

    ``xs`` and ``ys`` rise; ``values`` has a value for (x, y), or none where it is not known: squares with an unknown
    corner have no line. A corner that is exactly at the level counts as above it. Where a square could be cut in two
    ways (a saddle), the mean of its corners decides. Pass logarithms for an interpolation on logarithmic axes.
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
    # A saddle: opposite corners agree. The line goes round those that the middle disagrees with.
    if (sum(heights) >= 0) == above[0]:
        return [(cuts[0], cuts[1]), (cuts[2], cuts[3])]
    return [(cuts[3], cuts[0]), (cuts[1], cuts[2])]


def _cut(one: Point, two: Point, first: float, second: float) -> Point:
    part = first / (first - second)
    return (one[0] + part * (two[0] - one[0]), one[1] + part * (two[1] - one[1]))


def outside(segments: Sequence[Segment], boxes: Sequence[Box]) -> list[Segment]:
    """The parts of ``segments`` that no box covers: a line that leaves room for the labels on its way."""
    left = list(segments)
    for box in boxes:
        left = [part for one in left for part in _around(one, box)]
    return left


def _around(segment: Segment, box: Box) -> list[Segment]:
    """The one or two parts of a segment beside a box, or none (Liang and Barsky 1984: where it goes in and out)."""
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
    return [part for part, there in ((((x, y), at[0]), low > 0), ((at[1], (x2, y2)), high < 1)) if there]
