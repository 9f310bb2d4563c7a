"""Figures for a paper: width, font size, and errors."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

import commands
import synthetic
from bentpipe.figures.context import FigureContext
from bentpipe.figures.layout import PX_PER_MM, narrowed, width_px
from bentpipe.figures.ratio_map import RatioCell, ratio_map
from bentpipe.figures.sweep_dimensions import chosen
from bentpipe.scenario.sweep_columns import sweep_key
from bentpipe.store.reader import open_store

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.rivals_store(tmp_path_factory.mktemp("paper") / "rivals", duration_s=20.0)


def test_a_figure_is_as_wide_as_a_column(store: Path, tmp_path: Path) -> None:
    """88 mm in every format, with letters of 8.25 points, and no title."""
    forms = [word for form in ("pdf", "svg", "png") for word in ("--format", form)]
    words = [
        "--figures",
        "figures",
        "--width",
        "88mm",
        "--figure",
        "cwnd",
        "--no-title",
        *forms,
        "-o",
        "page.html",
    ]
    done = commands.bentpipe(tmp_path, "report", str(store), *words)
    assert done.returncode == 0, done.stderr
    files = {file.suffix: file for file in (tmp_path / "figures").iterdir()}
    assert sorted(file.name for file in files.values()) == ["cwnd.pdf", "cwnd.png", "cwnd.svg"]
    drawing = files[".svg"].read_text(encoding="utf-8")
    size = re.search(r'width="([\d.]+)" height="([\d.]+)" viewBox="0 0 (\d+)', drawing)
    assert size is not None
    assert float(size[1]) == pytest.approx(88 / 25.4 * 96, abs=0.01)
    assert float(size[3]) == pytest.approx(float(size[1]), abs=1.5), (
        "the drawing itself, not a smaller copy of it"
    )
    assert min(map(float, re.findall(r'font-size="(\d+)px"', drawing))) >= 10
    assert "Congestion window<" not in drawing
    box = re.search(rb"/MediaBox ?\[0 0 ([\d.]+)", files[".pdf"].read_bytes())
    assert box is not None
    assert float(box[1]) == pytest.approx(88 / 25.4 * 72, abs=1)
    wide, _ = struct.unpack(">II", files[".png"].read_bytes()[16:24])
    assert wide == pytest.approx(88 / 25.4 * 300, abs=3)


@pytest.mark.nightly
def test_another_seed_is_another_run(store: Path, tmp_path: Path) -> None:
    """Figures over time show one seed, which is named; on request they show another."""
    drawn = {}
    for seed in ("1", "2"):
        words = ["--figures", seed, "--figure", "goodput", "--seed", seed, "-o", "page.html"]
        done = commands.bentpipe(tmp_path, "report", str(store), *words)
        assert done.returncode == 0, done.stderr
        drawn[seed] = (tmp_path / seed / "goodput.svg").read_text(encoding="utf-8")
        assert f"seed {seed}" in drawn[seed]
    lines = {seed: re.findall(r' d="(M[^"]{200,})"', text) for seed, text in drawn.items()}
    assert lines["1"]
    assert lines["1"] != lines["2"]


def test_any_panel_can_be_had(tmp_path: Path) -> None:
    """Rows and columns of panels, and dimensions that the page fixes at their first value."""
    store = synthetic.matrix_store(tmp_path / "matrix", seeds=1, rates=(10, 100), duration_s=10.0)
    whole = FigureContext(open_store(store))
    row, column, (rate, first) = whole.time_grid.row, whole.time_grid.column, whole.time_grid.fixed[0]
    assert row is not None
    assert column is not None
    wanted = {row: "250 ms", column: "1 %", rate: "100 Mbit/s"}
    assert first == "10 Mbit/s"
    words = [f"{sweep_key(dim.key)}={value}" for dim, value in wanted.items()]
    one = FigureContext(whole.store, fixed=chosen(whole.dims, words))
    for dim, value in wanted.items():
        assert one.time_runs[dim.key].unique().to_list() == [value]
    assert one.time_runs.height == len(synthetic.STRENGTH), "a line for each controller"

    def report(*at: str) -> subprocess.CompletedProcess[str]:
        given = [word for text in at for word in ("--cell", text)]
        figure = ["--figures", "f", "--figure", "cwnd", "--format", "svg", "-o", "page.html"]
        return commands.bentpipe(tmp_path, "report", str(store), *figure, *given)

    done = report(*words, "flow.main.congestion=cubic")
    assert done.returncode == 0, done.stderr
    drawn = (tmp_path / "f/cwnd.svg").read_text(encoding="utf-8")
    assert "250 ms" in drawn
    assert "15 ms<" not in drawn
    assert re.search(r"cubic \(of [^)]*newreno", drawn), "whose line it is"
    done = report("path.satellite.delay=250 ms", "path.satellite.up.loss=10 %")
    assert done.returncode == 2
    assert "--cell: no run of the store is of path.satellite.delay=250 ms and" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--figure cwnd", "--figure: requires --figures DIR"),
        ("--no-title", "--no-title: requires --figures DIR"),
        ("--figures f --figure cwd", '--figure: no figure "cwd", expected one of: page-load-time, '),
        ("--figures f --figure packet-sequence", "--figure: no data for the figure packet-sequence"),
        ("--figures f --seed 99", "--seed: found 99, expected one of: 1"),
        ("--cell flow.rival.congestion=bbr", "--cell: requires --figures DIR"),
        ("--figures f --cell bbr", '--cell: found "bbr", expected KEY=VALUE with a swept key: '),
        (
            "--figures f --cell flow.rivl.congestion=bbr",
            '--cell: no key that the sweep varies "flow.rivl.congestion", expected',
        ),
        ("--figures f --width 88", '--width: found "88", expected a width in mm, cm or in, such as "88mm"'),
        ("--figures f --format jpg", '--format: no form of a figure "jpg", expected one of: pdf, svg, png'),
        ("--figures f --figure cwnd --width 5mm", "--figures: cwnd: too narrow for its axes and legend"),
    ],
)
def test_refused_input_leaves_nothing(store: Path, tmp_path: Path, words: str, message: str) -> None:
    done = commands.bentpipe(tmp_path, "report", str(store), *words.split(), "-o", "page.html")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}"), done.stderr
    assert not (tmp_path / "page.html").exists()
    assert not list(tmp_path.glob("f/*"))


@pytest.mark.parametrize(
    ("words", "there"),
    [
        ("break-even no-such.toml", "map"),
        ("orbit Berlin Tokyo", "delay, hops, handovers, map, coverage"),
        ("fit no-such.log", "time, delay-whole, "),
        ("dtn plan relay.ionrc", "contacts, light"),
        ("compare-engines no-such.toml", "delivered, window"),
    ],
)
def test_every_command_that_draws_has_the_same_options(tmp_path: Path, words: str, there: str) -> None:
    """Their errors are reported before anything runs."""
    shutil.copy(ROOT / "examples/relay.ionrc", tmp_path)
    before = list(tmp_path.iterdir())
    for option in ("--figure map", "--no-title", "--width 88mm", "--format png"):
        done = commands.bentpipe(tmp_path, *words.split(), *option.split())
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {option.split()[0]}: requires --figures DIR"), done.stderr
    wrong = [*words.replace("no-such.toml", "starlink").split(), "--figures", "f", "--figure", "nothing"]
    done = commands.bentpipe(tmp_path, *wrong)
    if "compare-engines" not in words:  # whose file is read first
        assert done.stderr.startswith(f'error: --figure: no figure "nothing", expected one of: {there}')
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == before


def test_a_plan_drawn_for_a_column(tmp_path: Path) -> None:
    """Without a page, and also as data."""
    shutil.copy(ROOT / "examples/relay.ionrc", tmp_path)
    words = ["dtn", "plan", "relay.ionrc", "--figures", "f", "--width", "88mm", "--format", "svg", "--json"]
    done = commands.bentpipe(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["figures"] == ["f/contacts.svg"]
    drawing = (tmp_path / "f/contacts.svg").read_text(encoding="utf-8")
    assert float(re.findall(r'width="([\d.]+)"', drawing)[0]) == pytest.approx(88 / 25.4 * 96, abs=0.01)
    assert [file.name for file in tmp_path.iterdir() if file.is_dir()] == ["f"]


SIZES = ("1 kB", "10 kB", "100 kB", "1 MB", "10 MB", "100 MB")


@pytest.mark.parametrize(("wide", "numbers"), [(88, True), (55, False)])
def test_a_map_omits_numbers_without_space(tmp_path: Path, wide: int, numbers: bool) -> None:
    """And keeps every label of its sizes."""
    cells = [RatioCell(10.0**i, rtt, 2.5, name) for i in range(3, 9) for rtt in (0.02, 0.1) for name in "ab"]
    figure = ratio_map(cells, "map", "A title that has no room in one line", "", above="a", below="b")
    text = figure.write(tmp_path / "map.svg", wide * PX_PER_MM).read_text(encoding="utf-8")
    assert (text.count(">2.50<") > 2) == numbers
    assert all(text.count(f">{size}<") == 2 for size in SIZES)
    assert min(map(float, re.findall(r'font-size="(\d+)px"', text))) >= 8, "6 points"


def test_titles_of_axes_and_legends_take_the_lines_they_need() -> None:
    """For any renderer: here a panel has its stated width, with an axis of 60 pixels."""
    long = "page load time, s (does not begin at 0)"
    panel = {"width": 900, "layer": [{"mark": "line", "encoding": {"x": {"title": long}}}]}
    found = narrowed(panel, 200, lambda one: one["width"] + 60)
    assert found["width"] == pytest.approx(140, abs=1.5)
    assert found["layer"][0]["encoding"]["x"]["title"] == ["page load time, s (does", "not begin at 0)"]
    assert panel["width"] == 900
    with pytest.raises(ValueError, match="too narrow"):
        narrowed(panel, 120, lambda one: one["width"] + 60)


def test_widths() -> None:
    assert [width_px(text) for text in ("25.4 mm", "2.54cm", "1in")] == pytest.approx([96, 96, 96])
