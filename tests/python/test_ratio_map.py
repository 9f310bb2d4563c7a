"""The map of ratios: its line, its colours and its texts."""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from bentpipe.figures.contour import contour, outside
from bentpipe.figures.ratio_map import LABEL, RatioCell, ratio_map

if TYPE_CHECKING:
    from pathlib import Path

WORDS = {"above": "split TCP is faster", "below": "QUIC is faster"}


def test_the_contour_of_a_plane_is_straight() -> None:
    xs, ys = [0.0, 1.0, 2.0], [0.0, 1.0, 3.0]
    values = {(x, y): x + y for x in xs for y in ys}
    found = contour(xs, ys, values, 1.5)
    assert found
    for ends in found:
        for x, y in ends:
            assert x + y == pytest.approx(1.5)
    lengths = sum(math.dist(a, b) for a, b in found)
    assert lengths == pytest.approx(1.5 * math.sqrt(2)), "the whole line from one edge to the other, once"


def test_the_contour_of_a_cone_is_a_circle() -> None:
    steps = [i / 20 for i in range(-30, 31)]
    values = {(x, y): math.hypot(x, y) for x in steps for y in steps}
    found = contour(steps, steps, values, 1.0)
    assert all(math.hypot(x, y) == pytest.approx(1, abs=2e-3) for ends in found for x, y in ends)
    assert sum(math.dist(a, b) for a, b in found) == pytest.approx(2 * math.pi, rel=2e-3)


@pytest.mark.parametrize(("middle", "stays_together"), [(3.0, True), (-3.0, False)])
def test_a_saddle_is_cut_as_its_middle_says(middle: float, stays_together: bool) -> None:
    values = {(0.0, 0.0): 1.0 + middle / 4, (1.0, 1.0): 1.0 + middle / 4,
              (1.0, 0.0): -1.0 + middle / 4, (0.0, 1.0): -1.0 + middle / 4}  # fmt: skip
    found = contour([0.0, 1.0], [0.0, 1.0], values)
    assert len(found) == 2
    near_origin = any(all(x + y < 1 for x, y in ends) for ends in found)
    assert near_origin != stays_together, "low ground is cut off where the middle is high"


def test_unknown_corners_have_no_line() -> None:
    values = {(0.0, 0.0): -1.0, (1.0, 0.0): 1.0, (0.0, 1.0): -1.0}
    assert contour([0.0, 1.0], [0.0, 1.0], values) == []


def _frames(spec: dict[str, Any]) -> list[pl.DataFrame]:
    return [pl.read_csv(io.StringIO(text)) for text in spec["datasets"].values()]


def _cells() -> list[RatioCell]:
    """Ratios that rise with the size alone, through 1 at 31,623 bytes (half way between 10 kB and 100 kB)."""
    return [
        RatioCell(size, rtt, (size / 1e4) ** 0.5 / 10**0.25)
        for size in (1e3, 1e4, 1e5, 1e6)
        for rtt in (0.02, 0.1, 0.8)
    ]


def test_the_line_is_where_the_ratio_is_one() -> None:
    """Vertical in each row, and on to the next: from the first row to the last without a gap but for the numbers."""
    spec = ratio_map(_cells(), "map", "A map", "", **WORDS).spec()
    line = next(frame for frame in _frames(spec) if "x2" in frame.columns)
    assert line["x"].to_list() + line["x2"].to_list() == pytest.approx([10**4.5] * 2 * line.height, rel=1e-6)
    ends = sorted({*line["y"].to_list(), *line["y2"].to_list()})
    assert (ends[0], ends[-1]) == pytest.approx((0.08, 2.92))


def test_the_own_row_is_first_and_apart() -> None:
    """All rows have the same height; the caption names the own one, and its line is not joined to the others."""
    figure = ratio_map(_cells(), "map", "A map", "", own=0.1, **WORDS)
    assert figure.caption.endswith("The row in the frame is yours.")
    spec = figure.spec()
    frames = _frames(spec)
    rows = next(frame for frame in frames if "text" in frame.columns).unique(["y"]).sort("low")
    assert rows["y"].to_list() == [0.1, 0.02, 0.8]
    assert (rows["high"] - rows["low"]).to_list() == pytest.approx([1.0] * 3)
    assert rows["low"].to_list() == pytest.approx([0, 1.35, 2.35])
    line = next(frame for frame in frames if "x2" in frame.columns)
    low, high = line.select(
        pl.min_horizontal("y", "y2").alias("low"), pl.max_horizontal("y", "y2").alias("high")
    )
    assert not any(start < 1.1 < end for start, end in zip(low, high, strict=True)), "nothing crosses the gap"
    axis = next(
        layer["encoding"]["y"]["axis"] for layer in spec["layer"] if "axis" in layer["encoding"].get("y", {})
    )
    assert axis["labelExpr"].startswith("['100 ms', '20 ms', '800 ms']")


def test_numbers_that_are_bounds_or_uncertain_look_so() -> None:
    cells = [*_cells(), RatioCell(1e7, 0.02, 24.6, bound="≥"), RatioCell(1e7, 0.1, 0.123, bound="≤"),
             RatioCell(1e7, 0.8, 1.01, is_uncertain=True)]  # fmt: skip
    figure = ratio_map(cells, "map", "A map", "", **WORDS)
    rows = next(frame for frame in _frames(figure.spec()) if "text" in frame.columns).tail(3)
    assert rows["text"].to_list() == ["≥25", "≤0.1", "1.01"]
    assert rows["pale"].to_list() == [0, 0, 1]
    assert "The interval of a pale number includes 1. A number with ≥ or ≤ is a bound" in figure.caption


def test_colours_are_centred_at_one() -> None:
    figure = ratio_map([*_cells(), RatioCell(1e7, 0.02, None)], "map", "A map", "Medians.", **WORDS)
    domains = [
        layer["encoding"]["color"]["scale"]["domain"]
        for layer in figure.spec()["layer"]
        if "color" in layer["encoding"]
    ]
    assert 2 < math.log2(10**0.75) < 3
    assert domains == [[-3, 0, 3]]
    assert figure.caption.startswith(
        "Medians. The numbers are ratios: above 1 split TCP is faster, below 1 QUIC"
    )
    cells = next(frame for frame in _frames(figure.spec()) if "text" in frame.columns)
    texts = cells["text"].cast(pl.String).to_list()
    assert texts[0] == "0.18"
    assert texts[-1] == "–"
    first = cells.row(0, named=True)
    assert first["right"] == pytest.approx(math.sqrt(1e3 * 1e4))
    assert first["left"] == pytest.approx(1e3 / math.sqrt(10))


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [
        (1.01, [-1, 0, 1]),
        (3.9, [-2, -1, 0, 1, 2]),
        (8.0, [-3, -2, -1, 0, 1, 2, 3]),
        (9.0, [-4, -2, 0, 2, 4]),
        (500.0, [-6, -4, -2, 0, 2, 4, 6]),
    ],
)
def test_the_legend_has_powers_of_two(largest: float, ticks: list[int]) -> None:
    cells = [RatioCell(size, 0.1, ratio) for size, ratio in ((1e3, 1.0), (1e4, largest))]
    spec = ratio_map(cells, "map", "A map", "", **WORDS).spec()
    legend = next(
        layer["encoding"]["color"]["legend"] for layer in spec["layer"] if "color" in layer["encoding"]
    )
    assert legend["values"] == ticks
    assert legend["direction"] == "horizontal"


def test_numbers_are_legible_on_both_ends_of_the_colours(tmp_path: Path) -> None:
    cells = [RatioCell(size, 0.1, ratio) for size, ratio in ((1e3, 0.02), (1e4, 1.0), (1e5, 60.0))]
    picture = (
        ratio_map(cells, "map", "A map", "", **WORDS).write(tmp_path / "map.svg").read_text(encoding="utf-8")
    )
    inks = {text: fill for fill, text in re.findall(r'<text[^>]*fill="(#\w+)"[^>]*>([\d.]+)</text>', picture)}
    assert (inks["0.02"], inks["1.00"], inks["60"]) == ("#ffffff", "#1c2330", "#ffffff")


def test_hidden_points_are_omitted() -> None:
    box = (1.0, 1.0, 2.0, 2.0)
    assert outside([((0.0, 0.0), (3.0, 3.0))], [box]) == [((0.0, 0.0), (1.0, 1.0)), ((2.0, 2.0), (3.0, 3.0))]
    assert outside([((1.5, 1.5), (1.5, 3.0))], [box]) == [((1.5, 2.0), (1.5, 3.0))]
    assert outside([((1.2, 1.2), (1.8, 1.4))], [box]) == []
    beside = [((0.0, 1.5), (0.0, 3.0)), ((0.0, 2.5), (1.4, 2.5)), ((0.0, 1.5), (1.5, 3.0))]
    assert outside(beside, [box]) == beside


def test_the_line_strikes_out_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the picture itself, where the line runs across many; one without gaps would."""
    assert _struck_out(tmp_path / "gaps.svg") == 0
    monkeypatch.setattr("bentpipe.figures.ratio_map.outside", lambda segments, _: segments)
    assert _struck_out(tmp_path / "none.svg") > 10


def _struck_out(file: Path) -> int:
    """Points of the line, a hundred a piece of it, that lie within the number of a cell."""
    steps = (1.0, 0.8, 1.1)
    cells = [
        RatioCell(size, rtt, steps[(i + j) % 3])
        for i, size in enumerate((1e3, 1e4, 1e5, 1e6))
        for j, rtt in enumerate((0.02, 0.1, 0.8))
    ]
    picture = ratio_map(cells, "map", "A map", "", **WORDS).write(file).read_text(encoding="utf-8")
    place = r"translate\(([-\d.]+),([-\d.]+)\)"
    rule = rf'<line [^>]*transform="{place}" x2="([-\d.]+)" y2="([-\d.]+)"[^>]*stroke="#1c2330"'
    text = rf'<text[^>]*transform="{place}"[^>]*>(?:1\.00|0\.80|1\.10)</text>'
    texts = [(float(x), float(y)) for x, y in re.findall(text, picture)]
    assert len(texts) == len(cells)
    rules = [tuple(map(float, one)) for one in re.findall(rule, picture)]
    assert rules
    line = [(x + dx * part / 100, y + dy * part / 100) for x, y, dx, dy in rules for part in range(101)]
    # From its baseline a digit reaches up by eight elevenths of the font's size; two and a half of them are 11 pixels.
    return sum(abs(x - at) < LABEL and base - 8 < y < base for x, y in line for at, base in texts)


def test_no_line_where_one_side_always_wins(tmp_path: Path) -> None:
    cells = [RatioCell(size, rtt, 2.0, "a panel") for size in (1e3, 1e4) for rtt in (0.1, 0.2)]
    figure = ratio_map(cells, "map", "A map", "", **WORDS)
    assert not any("x2" in frame.columns for frame in _frames(figure.spec()))
    assert ">2.00</text>" in figure.write(tmp_path / "map.svg").read_text(encoding="utf-8")


def test_a_map_needs_ratios() -> None:
    with pytest.raises(ValueError, match="needs ratios"):
        ratio_map([RatioCell(1.0, 1.0, None)], "map", "A map", "", **WORDS)
