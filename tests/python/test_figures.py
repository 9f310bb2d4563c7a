"""Figures: their data by store, downsampling, and files."""

from __future__ import annotations

import io
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.figures import style
from bentpipe.figures.downsample import MAX_ROWS, downsample
from bentpipe.figures.export import FigureExport
from bentpipe.figures.figure import Figure
from bentpipe.figures.registry import FIGURES, FigureContext, figures, parse_range, write_figures
from bentpipe.figures.style import DARK, PALETTE, RED, palette, panels_in_row
from bentpipe.figures.sweep_dimensions import Dimension, Grid
from bentpipe.store.reader import open_store

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def stores(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("stores")
    one = [({}, 1, [synthetic.Flow("hybla", "hybla", 9e6, ripple=0.1)], {})]
    return {
        "one": synthetic.write_store(base / "one store", one),
        "matrix": synthetic.matrix_store(base / "matrix", seeds=2, rates=(10, 25), duration_s=20.0),
        "rivals": synthetic.rivals_store(base / "rivals", duration_s=20.0),
        "sizes": synthetic.sizes_store(base / "sizes"),
    }


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (
            "one",
            {
                "goodput",
                "goodput-since-start",
                "cwnd",
                "rtt",
                "queue-length",
                "queueing-delay",
                "controller-state",
            },
        ),
        (
            "matrix",
            {
                "goodput-by-parameter",
                "goodput",
                "goodput-since-start",
                "cwnd",
                "rtt",
                "queue-length",
                "queueing-delay",
            },
        ),
        (
            "rivals",
            {
                "goodput-shares",
                "goodput",
                "goodput-since-start",
                "cwnd",
                "rtt",
                "queue-length",
                "queueing-delay",
                "fairness",
            },
        ),
        (
            "sizes",
            {
                "completion-time",
                "goodput-by-parameter",
                "goodput",
                "goodput-since-start",
                "cwnd",
                "rtt",
                "queue-length",
                "queueing-delay",
            },
        ),
    ],
)
def test_a_store_gets_the_figures_it_has_something_for(
    stores: dict[str, Path], store: str, expected: set[str]
) -> None:
    drawn = list(figures(FigureContext(open_store(stores[store]))))
    assert {figure.key for figure in drawn} == expected
    for figure in drawn:
        assert 0 < figure.rows <= MAX_ROWS
        assert figure.title
        assert figure.caption


def test_captions_say_which_cells_are_shown(stores: dict[str, Path]) -> None:
    figure = FIGURES["cwnd"](FigureContext(open_store(stores["matrix"])))
    assert figure is not None
    assert "Shown: rate 10 Mbit/s (of 10 Mbit/s, 25 Mbit/s)." in figure.note
    assert "seed 1 of 2 seeds" in figure.note


def _data(spec: dict[str, Any]) -> pl.DataFrame:
    """All rows that lie in a figure."""
    frames = [pl.read_csv(io.StringIO(text)) for text in spec["datasets"].values()]
    return pl.concat(frames, how="diagonal_relaxed")


def test_a_time_range_stays(stores: dict[str, Path]) -> None:
    figure = FIGURES["cwnd"](FigureContext(open_store(stores["rivals"]), (2.0, 7.5)))
    assert figure is not None
    times = _data(figure.spec())["time_s"]
    assert times.min() == 2.0
    assert times.max() == 7.5


def test_a_figure_draws_the_means_of_the_summary(stores: dict[str, Path]) -> None:
    material = FigureContext(open_store(stores["matrix"]))
    figure = FIGURES["goodput-by-parameter"](material)
    assert figure is not None
    drawn = _data(figure.spec())["y"].sort()
    means = material.cells.filter(pl.col("metric") == "goodput_bit_s")["mean"].sort() / 1e6
    assert drawn.to_list() == pytest.approx(means.to_list(), rel=1e-4)


@pytest.mark.nightly
def test_figures_are_the_same_every_time(stores: dict[str, Path]) -> None:
    first, second = (
        [f.spec() for f in figures(FigureContext(open_store(stores["rivals"])))] for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    ("text", "span"),
    [(None, (0.0, None)), ("30 s", (0.0, 30.0)), ("500ms", (0.0, 0.5)), ("10 s..80 s", (10.0, 80.0)),
     ("10 s..", (10.0, None)), ("0..1.5 s", (0.0, 1.5)), ("..2 s", (0.0, 2.0)), ("1 min", (0.0, 60.0))],
)  # fmt: skip
def test_parse_range(text: str | None, span: tuple[float, float | None]) -> None:
    assert parse_range(text) == span


@pytest.mark.parametrize(
    "text", ["soon", "80 s..10 s", "-3 s", "", "30", "10..80", "10..80 s", "0 s..30", "1e99999999 s"]
)
def test_a_wrong_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="time range"):
        parse_range(text)


def test_vectors(stores: dict[str, Path], tmp_path: Path) -> None:
    files = write_figures(
        stores["rivals"], FigureExport(tmp_path, only=("cwnd", "goodput-shares")), (0.0, 10.0)
    )
    assert [file.name for file in files] == [
        "cwnd.pdf",
        "cwnd.svg",
        "goodput-shares.pdf",
        "goodput-shares.svg",
    ]
    assert files[0].read_bytes().startswith(b"%PDF")
    svg = files[1].read_text(encoding="utf-8")
    assert "Congestion window" in svg
    assert f'stroke="{RED.lower()}"' in svg.lower()
    figure = FIGURES["cwnd"](FigureContext(open_store(stores["one"])))
    assert figure is not None
    with pytest.raises(ValueError, match=r"\.pdf, \.svg or \.png"):
        figure.write(tmp_path / "cwnd.gif")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1000, 1000)), min_size=1, max_size=400),
    st.integers(20, 200),
)
def test_downsampling_keeps_extremes_ends_and_order(points: list[tuple[str, int]], most: int) -> None:
    """Each series is independent of the others."""
    names, values = zip(*points, strict=True)
    frame = pl.DataFrame({"s": names, "x": range(len(points)), "y": values})
    thinned = downsample(frame, ["s"], "x", "y", most)
    assert thinned.height <= most
    assert frame.height > most or thinned.equals(frame)
    assert thinned["x"].is_sorted()
    assert thinned.join(frame, on=["s", "x", "y"]).height == thinned.height
    for (name,), whole in frame.group_by("s"):
        left = thinned.filter(s=name)
        assert (left["y"].min(), left["y"].max()) == (whole["y"].min(), whole["y"].max())
        assert (left["x"][0], left["x"][-1]) == (whole["x"][0], whole["x"][-1])


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=300), st.integers(20, 200))
def test_downsampling_treats_series_alike(values: list[int], most: int) -> None:
    frame = pl.concat(pl.DataFrame({"s": name, "x": range(len(values)), "y": values}) for name in "abcd")
    thinned = downsample(frame, ["s"], "x", "y", most)
    first, *others = (thinned.filter(s=name).drop("s") for name in "abcd")
    assert all(other.equals(first) for other in others)


def test_a_controller_keeps_its_colour() -> None:
    assert (
        dict(zip(*palette(["hybla", "cubic"]), strict=True))["hybla"]
        == dict(zip(*palette(["x", "hybla"]), strict=True))["hybla"]
    )
    _, shades = palette([f"flow {i}" for i in range(8)])
    assert len(set(shades)) == 8


def test_a_label_keeps_the_colour_of_the_store() -> None:
    """A figure without the first series does not shift the colours of the others."""
    known = dict(zip(*palette(["first", "second", "rival (hybla)"]), strict=True))
    assert palette(["second"], known) == (["second"], [known["second"]])
    assert dict(zip(*palette(["new", "second"], known), strict=True))["new"] != known["second"]
    assert known["rival (hybla)"] == palette(["hybla"])[1][0]
    assert len(set(palette(["bbr", "bbr3", "a (bbr)"])[1])) == 3


def _luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _grounds() -> list[str]:
    """Return the background of a light and of a dark page from the style sheet."""
    sheet = resources.files("bentpipe.report").joinpath("page.css").read_text(encoding="utf-8")
    return re.findall(r"--ground: (#[0-9a-f]{6})", sheet)[:2]


def test_every_colour_stands_out_from_its_page() -> None:
    """WCAG 2.2, 1.4.3: a contrast of 4.5."""
    light, dark = _grounds()
    assert _luminance(light) > 0.9 > 0.1 > _luminance(dark)
    assert set(DARK) == set(PALETTE)
    assert not [shade for shade in PALETTE if _contrast(shade, light) < 4.5]
    assert not [shade for shade in DARK.values() if _contrast(shade, dark) < 4.5]
    assert all(len(set(shades)) == 8 for shades in (PALETTE, DARK.values()))


def test_rows_of_panels_have_equal_numbers() -> None:
    assert [panels_in_row(panels) for panels in range(1, 13)] == [1, 2, 3, 2, 3, 3, 4, 4, 3, 4, 4, 4]


def test_rows_of_equal_data_are_drawn_each(tmp_path: Path) -> None:
    """Vega-Lite takes equal data for one set, of which it could not make two rows of panels."""
    row = Dimension("delay", ("delay",), ("1 ms", "2 ms"), "delay")
    column = Dimension("loss", ("loss",), ("1 %", "2 %"), "loss")
    where = Grid(column, row, column.values, row.values, ())
    frame = pl.DataFrame(
        [
            {"row": row.label(delay), "column": column.label(loss), "x": at, "y": at * at}
            for delay in row.values for loss in column.values for at in (1.0, 2.0, 3.0)
        ]
    )  # fmt: skip
    line = alt.Chart().mark_line().encode(x="x:Q", y="y:Q")
    figure = Figure("k", "title", "", style.facet_grid([line], frame, where), frame.height)
    figure.write_all([tmp_path / "k.svg"])
    text = (tmp_path / "k.svg").read_text(encoding="utf-8")
    assert text.count(">loss 1 %<") == text.count(">loss 2 %<") == 2
    assert text.count("mark-line") == 4
