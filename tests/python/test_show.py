"""Metrics in ``show`` and reports: how many runs have one, windows without a limit, handshakes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import bentpipe
from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.metrics.compute import handshake_times, run_metrics
from bentpipe.metrics.format import UNLIMITED_BYTES, format_metric_mean, mean_of
from bentpipe.metrics.intervals import ConfidenceInterval, format_significant, mean_columns
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.summary_table import page_rows, summary_rows
from bentpipe.report.ods import sheets
from bentpipe.report.store_page import write_report
from bentpipe.store.reader import Store, open_store
from commands import bentpipe as command

DELAY_S = 0.05


def scenario(
    *flows: dict[str, Any], loss: str = "0 %", rate: str = "10 Mbit/s", **other: Any
) -> dict[str, Any]:
    both = {"rate": rate, "queue": "1 BDP", "loss": loss}
    segment = {"name": "sky", "delay": f"{1000 * DELAY_S:g} ms", "both": both}
    return {"duration": "4 s", "path": {"segment": [segment]}, "flow": list(flows), **other}


def flow(**other: Any) -> dict[str, Any]:
    return {"name": "bulk", "congestion": "cubic", "direction": "up", "load": {"bytes": "100 kB"}, **other}


def stored(data: dict[str, Any], out: Path) -> Store:
    bentpipe.run(data, out=out)
    return open_store(out)


def text_of(page: Path) -> str:
    """A page's tables, without tags."""
    body = re.sub(r"<(script|style).*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body).replace("\u00a0", " "))


@pytest.fixture(scope="module")
def partly(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Transfers that some seeds finish in 4 s and others do not."""
    data = scenario(flow(load={"bytes": "900 kB"}), loss="2 %", seeds=6)
    return stored(data, tmp_path_factory.mktemp("partly") / "store")


def test_each_number_says_of_how_many_runs_it_is(partly: Store) -> None:
    done = run_metrics(partly)["completion_p50_s"].drop_nulls()
    assert 1 < done.len() < 6
    (row,) = summary_rows(partly).rows
    assert row["seeds"] == 6
    text = f"{format_significant(done.mean())}? ({done.len()} of 6)"
    assert row["completion s"] == text, "no interval: it would be that of the quick runs"
    assert "; ? (n of m): of the n runs with a value only)" in summary_rows(partly).title
    assert "of 6" not in row["goodput Mbit/s"]
    assert f"({done.len()} of 6)" in text_of(write_report(partly))


def test_streams_that_did_not_finish_are_part_of_the_distribution(partly: Store) -> None:
    done = run_metrics(partly)["completion_p50_s"].drop_nulls().len()
    figure = FIGURES["completion-time"](FigureContext(partly))
    assert figure is not None
    (rows,) = (pl.read_csv(text.encode()) for text in figure.spec()["datasets"].values())
    assert rows.height == done
    assert rows["y"].max() == pytest.approx(100 * done / 6, abs=0.01)


def test_a_mean_of_some_runs_says_of_how_many() -> None:
    metric = METRICS["delay_ms"]
    known = {"seeds": 4, **mean_columns("delay_ms", [10.0, 12.0])}
    found = mean_of(known, "delay_ms")
    assert found == ConfidenceInterval(11.0, known["delay_ms_low"], known["delay_ms_high"], 2)
    assert format_metric_mean(metric, found, 4) == "11 [0, 23.7]? (2 of 4)"  # no goodput is negative
    assert format_metric_mean(metric, found, 2) == "11 [0, 23.7]?"
    assert mean_of(mean_columns("delay_ms", []), "delay_ms") is None


def test_a_median_of_one_run_is_marked() -> None:
    metric = METRICS["convergence_s"]
    assert format_metric_mean(metric, ConfidenceInterval(236.9, None, None, 1), 10) == "236.9? (1 of 10)"
    assert format_metric_mean(metric, ConfidenceInterval(236.9, None, None, 1), 1) == "236.9"
    assert format_metric_mean(metric, ConfidenceInterval(236.9, None, None, 9), 10) == "236.9 (9 of 10)"


def test_one_transfer_of_a_run_has_one_column(partly: Store, tmp_path: Path) -> None:
    page = text_of(write_report(partly, tmp_path / "one.html"))
    assert "completion time" in page
    assert "completion, " not in page
    two = stored(scenario(flow(load={"bytes": "50 kB", "streams": 2}), seeds=1), tmp_path / "two")
    assert "median completion s" in summary_rows(two).rows[0]
    page = text_of(write_report(two))
    assert "completion, median" in page
    assert "completion, p95" in page


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (0.4388026, 0.0000046, "0.4388"),
        (94.4527, 0.0010, "94.45"),
        (12.6085, 0.0070, "12.61 ± 0.01"),
        (4607.0, 3.2, "4607 ± 3"),
        (5.7253, 0.1137, "5.73 ± 0.11"),
    ],
)
def test_a_metric_has_at_most_four_digits(mean: float, half: float, text: str) -> None:
    interval = ConfidenceInterval(mean, mean - half, mean + half, 5)
    assert format_metric_mean(METRICS["propagation_ms"], interval, 5) == text


def test_the_columns_word_is_what_it_holds(partly: Store) -> None:
    """Over the streams of a run the median, over seeds the mean of these."""
    assert METRICS["completion_p50_s"].heading_alone == "median completion s"
    assert METRICS["completion_s"].heading_alone == "completion s"
    headings = {metric.heading_alone for metric in METRICS.values()}
    assert summary_rows(partly).rows[0].keys() - {"flow", "direction", "controller", "seeds"} <= headings


@pytest.fixture(scope="module")
def unlimited(tmp_path_factory: pytest.TempPathFactory) -> Store:
    controllers = [
        "cubic",
        {"name": "fixed", "rate_bit_s": 5_000_000},
        {"name": "open-loop", "rate_bit_s": 5_000_000},
    ]
    data = scenario(flow(), seeds=2, loss="1 %", sweep={"flow.bulk.congestion": controllers})
    return stored(data, tmp_path_factory.mktemp("unlimited") / "store")


def test_a_window_without_a_limit_is_no_number_of_bytes(unlimited: Store) -> None:
    """2^40 bytes, which controllers with a rate and no window report, printed as 1099511628 kB."""
    assert (run_metrics(unlimited)["cwnd_max_bytes"] == UNLIMITED_BYTES).sum() == 4
    windows = [row["max cwnd kB"] for row in summary_rows(unlimited).rows]
    assert windows[1:] == ["unlimited", "unlimited"]
    assert float(windows[0].split(" ")[0]) < 1000
    page = text_of(write_report(unlimited))
    assert "unlimited" in page
    assert "1099511628" not in page
    figure = FIGURES["cwnd"](FigureContext(unlimited))
    assert figure is not None
    drawn = pl.concat(pl.read_csv(text.encode()) for text in figure.spec()["datasets"].values())
    assert drawn["y"].max() < 1000  # type: ignore[operator]
    sheet = sheets(unlimited)["cwnd"].drop("time_s")
    assert sheet.select(pl.max_horizontal(pl.all()).max()).item() < 1000


@pytest.mark.parametrize(
    ("transport", "handshake", "round_trips"),
    [("tcp", None, 1), ("quic", "1-rtt", 1)],
)
def test_the_handshake_takes_a_round_trip(
    transport: str, handshake: str | None, round_trips: int, tmp_path: Path
) -> None:
    """RFC 9293 section 3.5, RFC 9001 section 4.1.1: the client is connected when the server's answer has come."""
    quic = {} if handshake is None else {"quic": {"handshake": handshake}}
    store = stored(scenario(flow(transport=transport), rate="1 Gbit/s", **quic), tmp_path / "store")
    (took,) = run_metrics(store)["handshake_s"]
    assert took == pytest.approx(round_trips * 2 * DELAY_S, abs=1e-3)
    (row,) = summary_rows(store).rows
    assert float(row["handshake s"]) == pytest.approx(took, rel=1e-3)
    assert "handshake" in text_of(write_report(store))
    message = json.loads(command(store.path, "show", ".", "--json").stdout)
    (value,) = [one["mean"] for one in message if one["metric"] == "handshake_s"]
    assert value == took


def test_the_handshake_of_a_flow_with_many_connections_is_their_median(tmp_path: Path) -> None:
    """A lost SYN is retransmitted after a second (RFC 6298 section 2.1); the median does not see a few of them."""
    load = {"poisson": {"interval": "200 ms", "size": {"exponential": "5 kB"}}}
    data = scenario(flow(transport="tcp", direction="down", load=load), rate="1 Gbit/s", loss="5 %", seeds=3)
    store = stored(data | {"duration": "20 s"}, tmp_path / "store")
    wanted = (pl.col("side") == "client") & pl.col("kind").is_in(["start", "connected"])
    events = store.rows("events", where=wanted).filter(pl.col("run") == store.index["run"][0])
    times: dict[int, dict[str, float]] = {}
    for row in events.iter_rows(named=True):
        times.setdefault(row["connection"], {})[row["kind"]] = row["time_s"]
    took = sorted(one["connected"] - one["start"] for one in times.values() if len(one) == 2)
    assert took[-1] > 1.0
    found = handshake_times(store).row(0, named=True)["handshake_s"]
    middle = (took[(len(took) - 1) // 2] + took[len(took) // 2]) / 2
    assert found == pytest.approx(middle, rel=1e-12)
    assert found == pytest.approx(2 * DELAY_S, abs=1e-3)


def test_loads_of_pages_say_how_long_their_connection_took(tmp_path: Path) -> None:
    """connectEnd - connectStart: TCP and TLS 1.3 take two round trips, QUIC one."""
    load = {"page": "target-a", "http": "2", "loads": 1}
    browser = {"name": "browser", "congestion": "cubic", "load": load}
    data = scenario(browser, rate="100 Mbit/s", sweep={"flow.browser.load.http": ["2", "3"]})
    store = stored(data | {"duration": "20 s"}, tmp_path / "store")
    connects = [float(row["connect median s"]) for row in page_rows(store)]
    assert connects == pytest.approx([4 * DELAY_S, 2 * DELAY_S], abs=2e-3)
    page = text_of(write_report(store))
    assert "connect, median" in page
