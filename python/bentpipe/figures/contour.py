"""Where a quantity on a grid has a given value: segments of its contour, by interpolation (marching squares)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

Point = tuple[float, float]
Segment = tuple[Point, Point]


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
