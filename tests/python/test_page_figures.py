"""Figures and tables of page loads: what they draw of stores whose numbers are known."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import bentpipe
from bentpipe.figures import style
from bentpipe.figures.downsample import MAX_ROWS
from bentpipe.figures.packet_rows import equivalent
from bentpipe.figures.packet_sequence import nodes_in_order
from bentpipe.figures.page_load_samples import PageLoads, Sample, compare_samples, pairs
from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.metrics.intervals import ConfidenceInterval, median_ci
from bentpipe.metrics.summary_table import page_rows
from bentpipe.report import page_load_tables, store_page
from bentpipe.report.html_table import TabularCell
from bentpipe.store.reader import open_store
from store_edit import put

if TYPE_CHECKING:
    from types import ModuleType

KEYS = page_load_tables.FIGURES
TARGETS = (("target-a", 5_300_000), ("target-b", 11_000))


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    place = Path(__file__).with_name("synthetic_pages.py")
    spec = importlib.util.spec_from_file_location("synthetic_pages", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["synthetic_pages"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def store(maker: ModuleType, synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found: Path = maker.page_store(
        tmp_path_factory.mktemp("pages") / "study", synthetic, seeds=12, sizes=TARGETS
    )
    return found


@pytest.fixture(scope="module")
def material(store: Path) -> FigureContext:
    return FigureContext(open_store(store))


def _data(spec: dict[str, Any]) -> list[pl.DataFrame]:
    return [pl.read_csv(io.StringIO(text)) for text in spec["datasets"].values()]


def _figure(material: FigureContext, key: str) -> tuple[Any, list[pl.DataFrame]]:
    figure = FIGURES[key](material)
    assert figure is not None
    return figure, _data(figure.spec())


@pytest.mark.parametrize("key", KEYS)
def test_every_figure_is_small_and_can_be_drawn(material: FigureContext, key: str, tmp_path: Path) -> None:
    figure, _ = _figure(material, key)
    assert 0 < figure.rows <= MAX_ROWS
    text = figure.write(tmp_path / f"{key}.svg").read_text(encoding="utf-8")
    assert figure.title in text
    assert "NaN" not in text
    assert "null" not in text
    assert figure.spec() == FIGURES[key](material).spec(), "the same every time"  # type: ignore[union-attr]


def test_stores_without_page_loads_have_none(synthetic: ModuleType, tmp_path: Path) -> None:
    plain = FigureContext(open_store(synthetic.pair_store(tmp_path / "pair", [(5.0, 4.0)])))
    assert all(FIGURES[key](plain) is None for key in KEYS)


def test_empty_tables_are_no_page_loads(maker: ModuleType, synthetic: ModuleType, tmp_path: Path) -> None:
    """An engine writes the tables of every run, empty where nothing loads pages."""
    place = synthetic.pair_store(tmp_path / "pair", [(5.0, 4.0), (5.0, 4.5)])
    for run in (place / "runs").iterdir():
        maker.write_tables(run, 1000, "2", 1, packets=False, loads=1)
        for name in ("pages", "requests"):
            pl.read_parquet(run / f"{name}.parquet").clear().pipe(put, run / f"{name}.parquet")
    assert all(FIGURES[key](FigureContext(open_store(place))) is None for key in KEYS)
    assert "Page loads" not in store_page.write_report(place).read_text(encoding="utf-8")


def test_loads_that_never_got_a_response(maker: ModuleType, synthetic: ModuleType, tmp_path: Path) -> None:
    place = maker.page_store(tmp_path / "dead", synthetic, seeds=2)
    for run in (place / "runs").iterdir():
        rows = pl.read_parquet(run / "pages.parquet")
        nothing = [pl.lit(None, pl.Float64).alias(name) for name in ("response_start_s", "ttr_s", "plt_s")]
        rows.with_columns(*nothing, pl.lit(0, pl.Int64).alias("completed")).pipe(put, run / "pages.parquet")
    text = store_page.write_report(place).read_text(encoding="utf-8")
    assert "0 of 2" in text
    dead = FigureContext(open_store(place))
    assert FIGURES["page-load-time"](dead) is None
    assert FIGURES["packet-sequence"](dead) is None


def test_arms_are_versions_of_http(material: FigureContext) -> None:
    found = PageLoads(material)
    assert found.variants == ["Alt-Svc", "HTTP/2"]
    assert found.loads == [1, 2, 3]
    assert [dim.title for dim in found.cell_dims] == ["page"]
    samples = found.samples("plt_s")
    assert [(s.cell["flow.chrome.load.page"], s.load, s.variant) for s in samples[:4]] == [
        ("target-a", 1, "Alt-Svc"), ("target-a", 1, "HTTP/2"), ("target-a", 2, "Alt-Svc"), ("target-a", 2, "HTTP/2"),
    ]  # fmt: skip
    assert [s.protocols for s in samples[:4]] == [("h2",), ("h2",), ("h3",), ("h2",)]
    assert {(len(s.values), s.loads) for s in samples if s.load == 3} == {(11, 12)}, (
        "seed 7 never finishes its third"
    )
    assert 7 not in samples[4].seeds


def test_arms_without_a_sweep(maker: ModuleType, synthetic: ModuleType, tmp_path: Path) -> None:
    place = maker.page_store(tmp_path / "one", synthetic, seeds=1, arms=("3",), packets=False)
    alone = FigureContext(open_store(place))
    assert PageLoads(alone).variants == ["HTTP/3"]
    box = FIGURES["page-load-time"](alone)
    assert box is not None
    assert "Each dot is one load" in box.caption
    assert FIGURES["time-sequence"](alone) is None, "the scenario kept no packets"
    assert FIGURES["packet-sequence"](alone) is None
    assert FIGURES["autocorrelation"](alone) is None, "one unit has no autocorrelation"
    assert page_load_tables.tables(alone)[1] is None, "nothing is compared"


def test_boxes_hold_the_numbers_of_the_table(material: FigureContext, store: Path) -> None:
    _, frames = _figure(material, "page-load-time")
    row = pl.concat(frames).filter((pl.col("load") == 2) & (pl.col("variant") == "HTTP/2"))
    runs = material.store.index.filter(
        (pl.col("flow.chrome.load.http") == "2") & (pl.col("flow.chrome.load.page") == "target-a")
    )["run"]
    values = [
        pl.read_parquet(store / "runs" / run / "pages.parquet").filter(pl.col("load") == 2)["plt_s"][0]
        for run in runs
    ]
    found = median_ci(values)
    drawn = row.row(0, named=True)
    assert drawn["median"] == pytest.approx(median(values), rel=1e-4)
    assert (drawn["notch_low"], drawn["notch_high"]) == pytest.approx((found.low, found.high), rel=1e-4)
    assert (drawn["low"], drawn["high"]) == pytest.approx((min(values), max(values)), rel=1e-4)
    assert drawn["n"] == 12


def test_a_box_of_few_values_has_no_notch(maker: ModuleType, synthetic: ModuleType, tmp_path: Path) -> None:
    few = FigureContext(open_store(maker.page_store(tmp_path / "few", synthetic, seeds=5, packets=False)))
    figure, frames = _figure(few, "time-to-response")
    assert "no notch below 6 values" in figure.caption
    row = frames[0].row(0, named=True)
    assert row["bottom"] == row["median"] == row["top"]


def test_fewer_than_five_values_are_dots(maker: ModuleType, synthetic: ModuleType, tmp_path: Path) -> None:
    few = FigureContext(open_store(maker.page_store(tmp_path / "few", synthetic, seeds=4, packets=False)))
    figure, frames = _figure(few, "time-to-response")
    assert "Each dot is one load" in figure.caption
    assert "box" not in figure.caption
    assert {len(str(text).split(";")) for frame in frames for text in frame["each"]} == {4}
    drawn = figure.write(tmp_path / "few.svg").read_text(encoding="utf-8")
    samples = sum(frame.height for frame in frames)
    assert drawn.count('aria-roledescription="point"') == (4 + 1) * samples, "dots, and one for the lower end"


def test_a_distribution_counts_loads_that_did_not_finish(material: FigureContext) -> None:
    _, frames = _figure(material, "page-load-distribution")
    for frame in frames:
        ends = dict(frame.group_by("column").agg(pl.col("y").max()).iter_rows())
        assert ends == {"load 1": 100, "load 2": 100, "load 3": pytest.approx(100 * 11 / 12, rel=1e-4)}
    assert all(frame["y"].min() == 0 for frame in frames)


def test_the_zone_of_independence(material: FigureContext) -> None:
    _, frames = _figure(material, "autocorrelation")
    frame = frames[0].filter(pl.col("column") == "load 1")
    assert frame["zone"].to_list() == pytest.approx([1.95996 / 12**0.5] * frame.height, rel=1e-4)
    assert frame["lag"].max() == 3, "a quarter of the units"


def test_quic_ends_where_tcp_ends(material: FigureContext) -> None:
    """Every load of target A ends at one number: TCP's last sequence number, 5.3 MB and the server's handshake."""
    _, frames = _figure(material, "time-sequence")
    large = next(frame for frame in frames if frame["y"].max() > 1e6)  # type: ignore[operator]
    ends = large.group_by("column", "series", "seed").agg(pl.col("y").max())
    assert ends.filter(pl.col("column") == "load 1")["y"].to_list() == pytest.approx(
        [5_302_920] * 4, rel=1e-4
    )
    quic = ends.filter((pl.col("series") == "Alt-Svc") & (pl.col("column") != "load 1"))
    assert quic["y"].to_list() == pytest.approx([5_302_920] * 4, rel=1e-2)
    marks = large.filter(pl.col("mark") != "line")
    assert marks.height == 12, "two instants of three loads of two arms, of the first unit"
    response = marks.filter((pl.col("mark") == "responseStart") & (pl.col("column") == "load 2"))
    assert dict(response.select("series", "time_s").iter_rows())["Alt-Svc"] == pytest.approx(1.5, rel=1e-3)


def test_equivalent_numbers_by_hand() -> None:
    """In unit 1 the larger QUIC connection has 800 bytes, the larger TCP one 1000: a factor of 1.25; unit 2 has no TCP."""
    curves = pl.DataFrame(
        {
            "seed": [1, 1, 1, 1, 1, 2],
            "transport": ["quic", "quic", "quic", "tcp", "tcp", "quic"],
            "bytes": [400.0, 800.0, 80.0, 10.0, 1000.0, 300.0],
        }
    )
    assert equivalent(curves, ["seed"])["bytes"].to_list() == [500, 1000, 100, 10, 1000, 300]
    only = curves.filter(pl.col("transport") == "quic")
    assert equivalent(only, ["seed"]).equals(only)


def test_nodes_stand_in_the_order_of_the_path() -> None:
    quic = [("client", "server"), ("server", "client")]
    tcp = [("gateway", "server"), ("client", "terminal"), ("terminal", "gateway"), ("gateway", "terminal")]
    assert nodes_in_order(quic, "client") == ["client", "server"]
    assert nodes_in_order(tcp, "client") == ["client", "terminal", "gateway", "server"]
    assert nodes_in_order([*quic, *tcp], "client") == ["client", "terminal", "gateway", "server"]


def test_the_ladder_shows_every_handshake_and_thins_the_rest(material: FigureContext) -> None:
    figure, frames = _figure(material, "packet-sequence")
    lines = [frame for frame in frames if "kind" in frame.columns]
    texts = [text for frame in frames if "text" in frame.columns for text in frame["text"].to_list()]
    assert "Initial, Handshake ×2" in texts
    assert "ServerHello, Certificate" in texts
    split = next(frame for frame in lines if frame["x"].max() == 3)
    labels = dict(split["label"].value_counts().iter_rows())
    assert (labels["SYN"], labels["ClientHello"]) == (2, 3), (
        "two handshakes of TCP; one of TLS, over three legs"
    )
    assert labels["data"] < 300
    assert split.filter(pl.col("thin") == 1).height
    lost = next(frame for frame in lines if frame["x"].max() == 1).filter(pl.col("kind") == "lost")
    assert lost["x2"].to_list() == [0.5], "a lost packet ends half way"
    assert "Load 3 of seed 1" in figure.caption
    titles = [part["title"] for part in figure.spec()["vconcat"]]
    assert titles[1].startswith("HTTP/2: load 3 over h2, ")


def test_many_controllers_over_one_load(maker: ModuleType, synthetic: ModuleType, tmp_path: Path) -> None:
    runs, cells = [], []
    for congestion in ("newreno", "cubic", "bbr", "hybla"):
        for window in ("10 packets", "32 packets"):
            cell = {"flow.chrome.congestion": congestion, "quic.initial_window": window}
            runs.append((cell, 1, [synthetic.Flow("chrome", congestion)], {"interval_s": 1.0}))
            cells.append(synthetic.run_id(cell, 1))
    place = synthetic.write_store(tmp_path / "many", runs)
    for name in cells:
        maker.write_tables(place / "runs" / name, 100_000, "3", 1, packets=True, loads=1)
    many = FigureContext(open_store(place))
    assert PageLoads(many).variants == ["newreno", "cubic", "bbr", "hybla"]
    curves, frames = _figure(many, "time-sequence")
    assert "the store has no TCP connection" in curves.caption
    assert set(frames[0]["column"]) == {"initial window 10 packets", "initial window 32 packets"}
    ladder, _ = _figure(many, "packet-sequence")
    assert len(ladder.spec()["vconcat"]) == 3
    assert "initial window 10 packets; 3 of 4 variants" in ladder.caption
    compared = page_load_tables.tables(many)[1]
    assert compared is not None
    assert len(compared.rows) == 2 * 3 * 2, "three pairs of each window, two metrics"


def test_pairs_share_seeds() -> None:
    one = Sample({}, 1, "a", (1, 2, 3), (1.0, 2.0, 3.0), 3)
    two = Sample({}, 1, "b", (2, 3, 4), (20.0, 30.0, 40.0), 3)
    other = Sample({}, 2, "b", (9,), (1.0,), 1)
    assert compare_samples(one, two).ratio == ConfidenceInterval(
        pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.1), 2
    )
    assert compare_samples(one, other).ratio == ConfidenceInterval(pytest.approx(6 ** (1 / 3)), None, None, 1)
    group = Sample({}, 1, "b", (2, 2, 3), (10.0, 30.0, 30.0), 3)
    assert compare_samples(one, group).ratio == compare_samples(one, two).ratio
    assert group.median == ConfidenceInterval(30.0, None, None, 3)
    assert list(pairs([one, two, other])) == [(one, two)]
    many = [Sample({}, 1, name, (1,), (1.0,), 1) for name in "abcde"]
    assert [(x.variant, y.variant) for x, y in pairs(many)] == [("a", other) for other in "bcde"]


@pytest.fixture(scope="module")
def page(store: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return store_page.write_report(store, tmp_path_factory.mktemp("page") / "page.html").read_text(
        encoding="utf-8"
    )


def test_the_report_has_a_section(page: str) -> None:
    assert page.index("<h2>Page loads</h2>") < page.index("<h2>Results</h2>")
    boxes = re.findall(r'class="figure" data-key="([a-z-]+)"', page)
    assert boxes[: len(KEYS)] == list(KEYS)
    for key in KEYS:
        spec = re.search(rf'id="spec-{key}-0">(.*?)</script>', page, re.DOTALL)
        assert spec is not None
        json.loads(spec[1])
    assert "<dt>faster</dt>" in page


def test_the_tables_say_who_is_faster(page: str) -> None:
    rows = [
        re.sub(r"<[^>]+>", "|", row)
        for row in re.findall(
            r"<tr(?: class=\"first\")?>(.*?)</tr>", page.split("Pairwise comparison", maxsplit=1)[1]
        )
    ]
    second = next(row for row in rows if "|2|" in row and "page load time" in row)
    assert "|HTTP/2|||ratio, intervals (P1) and dominance|" in second, (
        "split TCP is faster by every order at load 2"
    )
    assert "|&lt; 0.001|" in second
    first = next(row for row in rows if "|1|" in row and "page load time" in row)
    assert first.count("|none|") >= 1, "load 1 is TCP for both"
    assert "11 of 12" in page


def test_a_browser_draws_every_figure(store: Path, tmp_path: Path) -> None:
    """Headless Chromium with a tall window: every box has its figure, and the library had nothing to complain of."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    address = store_page.write_report(store, tmp_path / "page.html").as_uri()
    done = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path}",
         "--window-size=1300,12000", "--virtual-time-budget=30000", "--dump-dom", "--enable-logging=stderr", address],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    boxes = re.findall(r'class="(figure[^"]*)" data-key="([a-z-]+)"', done.stdout)
    assert [key for _, key in boxes][: len(KEYS)] == list(KEYS)
    assert all("drawn" in words for words, _ in boxes)


def test_other_reports_have_no_such_section(synthetic: ModuleType, tmp_path: Path) -> None:
    text = store_page.write_report(synthetic.pair_store(tmp_path / "pair", [(5.0, 4.0)])).read_text(
        encoding="utf-8"
    )
    assert "Page loads" not in text
    assert "Welch" not in text


def test_show_has_the_loads(maker: ModuleType, synthetic: ModuleType, tmp_path: Path) -> None:
    """A row for each load and protocol; a load that was not finished counts in no median."""
    place = maker.page_store(tmp_path / "shown", synthetic, seeds=7, arms=("alt-svc",), packets=False)
    rows = page_rows(place)
    assert [(row["load"], row["protocol"], row["finished"]) for row in rows] == [
        (1, "h2", "7 of 7"), (2, "h3", "7 of 7"), (3, "h3", "6 of 7"),
    ]  # fmt: skip
    third = pl.concat([pl.read_parquet(run / "pages.parquet") for run in (place / "runs").iterdir()])
    done = third.filter((pl.col("load") == 3) & (pl.col("completed") == 1))["plt_s"].median()
    assert float(rows[2]["PLT median s"]) == pytest.approx(done, rel=1e-3)
    assert page_rows(synthetic.pair_store(tmp_path / "none", [(5.0, 4.0)])) == []


def test_an_axis_of_times_begins_at_zero_or_says_so() -> None:
    assert style.axis([6.6, 7.4], "page load time, s")["title"] == [
        "page load time, s",
        "(does not begin at 0)",
    ]
    assert style.axis([0.3, 7.4], "page load time, s")["title"] == "page load time, s"
    for values, zero in (([6.6, 7.4], False), ([0.3, 7.4], True)):
        assert style.axis(values, "s")["scale"].to_dict() == {"zero": zero}


def test_the_tables_of_many_cells_have_the_first(
    maker: ModuleType, synthetic: ModuleType, tmp_path: Path
) -> None:
    store = maker.page_store(
        tmp_path / "far", synthetic, seeds=2, packets=False, delays=("1 ms", "2 ms", "3 ms")
    )
    material = FigureContext(open_store(store))
    whole, part = page_load_tables.tables(material), page_load_tables.tables(material, most=1)
    for all_, some in zip(whole, part, strict=True):
        assert all_ is not None
        assert some is not None
        assert (all_.more, some.more, some.what) == (0, 2, "cells")
        assert len(all_.rows) == 3 * len(some.rows)
        assert [row.cells for row in some.rows] == [row.cells for row in all_.rows[: len(some.rows)]]


def test_each_row_names_the_faster_once(maker: ModuleType, synthetic: ModuleType, tmp_path: Path) -> None:
    """With five seeds a median has no interval, so only the ratio's can name an arm, with dominance or without."""
    few = FigureContext(open_store(maker.page_store(tmp_path / "few", synthetic, seeds=5, packets=False)))
    compared = page_load_tables.tables(few)[1]
    assert compared is not None
    heads = [head.title for head in compared.heads]
    at, by = heads.index("faster"), heads.index("by")
    message = [
        (faster.text, row.cells[by])
        for row in compared.rows
        if isinstance(faster := row.cells[at], TabularCell)
    ]
    assert len(message) == len(compared.rows)
    assert ("HTTP/2", "ratio and dominance") in message
    assert not any(faster == "none" and why != "–" for faster, why in message)


LINE = """
duration = "10 s"
[[path.segment]]
name = "satellite"
delay = "350 ms"
down = { rate = "10 Mbit/s" }
[[path.segment]]
name = "internet"
delay = "15 ms"
[[flow]]
name = "bulk"
transport = "tcp"
direction = "down"
congestion = "cubic"
load = { time = "10 s" }
"""
GATEWAY = '[[path.proxy]]\nname = "gateway"\nbetween = ["satellite", "internet"]\nhandshake = "early"\n'


@pytest.mark.parametrize(("proxy", "least_ms"), [("", 730.0), (GATEWAY, 700.0)])
def test_a_split_flow_draws_the_connection_over_the_satellite(
    tmp_path: Path, proxy: str, least_ms: float
) -> None:
    """Behind a gateway the connection of the server has only the 30 ms of the terrestrial link: the figure must exclude it."""
    file = tmp_path / "line.toml"
    file.write_text(LINE + proxy, encoding="utf-8")
    figure, frames = _figure(
        FigureContext(open_store(bentpipe.run(file, out=tmp_path / "store").path)), "rtt"
    )
    assert least_ms <= min(frames[0]["y"].to_list()) < least_ms + 5, "propagation, and at first no queue"
    message = "gateway towards the client (700 ms); other senders: the server (30 ms)."
    assert (message in figure.caption) == bool(proxy)
    assert ("Proxies" in figure.caption) == bool(proxy)
