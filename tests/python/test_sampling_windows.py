"""Metrics do not depend on how often a run is sampled; above its window a metric is null, with a reason."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import bentpipe
from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.metrics import fairness as fair
from bentpipe.metrics.bundles import bundle_metrics
from bentpipe.metrics.call_quality import aggregate_cells, blocked_calls, rate_calls
from bentpipe.metrics.compute import link_metrics, run_metrics
from bentpipe.metrics.flow_kinds import KINDS
from bentpipe.metrics.groups import group_metrics
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.store_comparison import compare_stores
from bentpipe.metrics.summary_table import summary_rows
from bentpipe.metrics.users import aggregate_users, user_metrics
from bentpipe.metrics.windows import goodput_windows, sample_intervals, smoothing_span
from bentpipe.report.store_page import write_report
from bentpipe.store.reader import Store, open_store
from commands import bentpipe as command
from test_schedulers import radio

SAMPLES = ["10 ms", "100 ms", "1 s"]
SCENARIOS = Path(__file__).parents[2] / "scenarios"

ELSEWHERE = {
    "cwnd_bytes": "a series, of which cwnd_max_bytes is the metric",
    **dict.fromkeys(("delay_p95_ms", "residual_loss_ratio"), "of packets, whose table has no samples"),
    "completion_s": "of one stream; the metrics are its quantiles",
    "smoothed_rtt_ms": "of agree: the mean of samples",
    "rtt_min_ms": "of agree",
    "share_percent": "of agree and of headlines, from goodput",
    "delivery_p50_s": "of agree, from bundles",
    **dict.fromkeys(("completion_mean_s", "finished_ratio", "loads_finished"), "of diff, which has a test of its own"),
    **dict.fromkeys(
        ("interval_goodput_bit_s", "finish_s", "loss_ratio", "lost_packets", "rtt_max_ms", "in_flight_max_bytes", "load_ratio", "rise_s"),
        "of the suite, whose scenarios state their sampling interval",
    ),
    "command_s": "of real programs", "up_bytes": "of real programs", "down_bytes": "of real programs",
}  # fmt: skip
"""Metrics that no run in virtual time has."""


def path(**direction: Any) -> dict[str, Any]:
    both = {"rate": "5 Mbit/s", "queue": "1 BDP", "loss": "0.1 %"} | direction
    return {"segment": [{"name": "sky", "delay": "20 ms", "both": both}]}


def shared(**other: Any) -> dict[str, Any]:
    """Two flows, of which the second begins later; in some cells the first is alone."""
    flow = {"congestion": "cubic", "direction": "up"}
    rival = {**flow, "name": "rival", "start": "3 s"}
    return {
        "duration": "40.25 s",
        "seeds": 2,
        "path": path(),
        "flow": [{**flow, "name": "first", "load": {"time": "40 s"}}, {**rival, "load": {"time": "37 s"}}],
        **other,
    }


def grouped() -> dict[str, Any]:
    flow = {"name": "web", "congestion": "cubic", "direction": "down", "count": 3, "time_series": "per-flow"}
    poisson = {"poisson": {"interval": "1 s", "size": {"exponential": "20 kB"}}}
    return {"duration": "20.25 s", "path": path(), "flow": [{**flow, "load": poisson}]}


def users() -> dict[str, Any]:
    data = radio("proportional-fair", queue="20 packets")
    data["flow"][0] |= {"count": 3, "congestion": "cubic"}
    return data


def calls() -> dict[str, Any]:
    call = {
        "name": "call",
        "count": 3,
        "transport": "udp",
        "load": {"call": "g711"},
        "admission_rate": "200 kbit/s",
    }
    load = {
        "name": "load",
        "transport": "tcp",
        "congestion": "cubic",
        "direction": "down",
        "load": {"time": "20 s"},
    }
    return {"path": path(rate="300 kbit/s"), "duration": "20.25 s", "flow": [call, load]}


def pages() -> dict[str, Any]:
    flow = {"name": "browser", "congestion": "cubic", "load": {"page": "target-a", "http": "2", "loads": 2}}
    return {"duration": "60.25 s", "path": path(rate="20 Mbit/s"), "flow": [flow]}


def bundles() -> dict[str, Any]:
    data = tomllib.loads((SCENARIOS / "dtn" / "both-clocks.toml").read_text())
    data["flow"][0]["load"]["bundles"]["dtnperf"] = "-W 4 -P 100k -T 22 -l 600"
    return data | {"seeds": 1, "duration": "38.25 s"}


def sampled(scenario: dict[str, Any], samples: list[str], out: Path) -> Store:
    swept = scenario.get("sweep", {}) | {"sample_interval": samples}
    bentpipe.run(scenario | {"sweep": swept}, out=out)
    return open_store(out)


FRAMES = {
    "flows": group_metrics,
    "links": link_metrics,
    "users": lambda store: aggregate_users(user_metrics(store), list(store.columns)),
    "calls": rate_calls,
    "bundles": lambda store: store.index.join(bundle_metrics(store), on="run", how="left"),
    **{
        f"compared {number}": lambda store, kind=kind: store.index.join(
            kind.frame(store).select(pl.exclude("seed", *store.columns)), on="run"
        )
        for number, kind in enumerate(KINDS)
    },
}

CASES = {
    "shared": (shared, ["flows", "links"]),
    "grouped": (grouped, ["flows", "links"]),
    "users": (users, ["flows", "links", "users", "compared 1"]),
    "calls": (calls, ["flows", "links", "calls", "compared 0"]),
    "pages": (pages, ["flows", "links"]),
    "bundles": (bundles, ["flows", "links", "bundles", "compared 2"]),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    found = {}
    for name, (scenario, _) in CASES.items():
        data = scenario()
        if name == "shared":
            data["sweep"] = {"flow.rival.start": ["3 s", "40.2 s"]}
        found[name] = sampled(data, SAMPLES, tmp_path_factory.mktemp("sampled") / name)
    return found


def alike(store: Store, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of one sampling interval, after a check that the others are equal to the last digit."""
    assert frame.height, "nothing to compare"
    parts = [
        frame.filter(pl.col("sweep.sample_interval") == sample).drop("run", "sweep.sample_interval")
        for sample in SAMPLES
    ]
    assert all(part.height == frame.height / len(SAMPLES) for part in parts)
    for one, other in pairwise(parts):
        assert one.equals(other), [name for name in one.columns if not one[name].equals(other[name])]
    return parts[0]


@pytest.mark.parametrize("case", CASES)
def test_no_metric_depends_on_the_sampling_interval(case: str, stores: dict[str, Store]) -> None:
    for name in CASES[case][1]:
        alike(stores[case], FRAMES[name](stores[case]))


def test_every_metric_is_among_them(stores: dict[str, Store]) -> None:
    """Each is a number somewhere, so the comparison tests it."""
    seen: set[str] = set()
    for case, (_, names) in CASES.items():
        store = stores[case]
        frames = [FRAMES[name](store) for name in names]
        if case == "calls":
            frames.append(aggregate_cells(rate_calls(store), list(store.columns), blocked_calls(store)))
        if case == "pages":
            loads = store.rows("pages")
            frames.append(loads.with_columns(connect_s=pl.col("connect_end_s") - pl.col("connect_start_s")))
        for frame in frames:
            seen |= {name for name in frame.columns if frame[name].null_count() < frame.height}
    assert METRICS.keys() - seen - ELSEWHERE.keys() == set()
    assert not seen & ELSEWHERE.keys() - {"up_bytes", "down_bytes"}


@pytest.mark.parametrize(
    ("scenario", "worse", "names"),
    [
        (
            grouped,
            {"rate": "200 kbit/s", "loss": "5 %"},
            {"completion_mean_s", "completion_p95_s", "finished_ratio"},
        ),
        (pages, {"rate": "200 kbit/s"}, {"plt_s", "loads_finished"}),
    ],
)
def test_no_comparison_of_stores_depends_on_the_sampling_interval(
    scenario: Callable[[], dict[str, Any]], worse: dict[str, Any], names: set[str], tmp_path: Path
) -> None:
    """The second store is so much slower that some transfers do not finish."""
    data = scenario()
    before = sampled(data, SAMPLES, tmp_path / "before")
    after = sampled(data | {"path": path(**worse)}, SAMPLES, tmp_path / "after")
    changes = compare_stores(before, after).changes
    rows = [
        [
            replace(change, cell={}, p_adjusted=None)
            for change in changes
            if change.cell["sample_interval"] == one
        ]
        for one in SAMPLES
    ]
    assert rows[0] == rows[1] == rows[2]
    assert {change.metric for change in rows[0]} >= names
    shares = [change for change in rows[0] if change.metric in ("finished_ratio", "loads_finished")]
    assert all(change.before == 1.0 and change.after < 1.0 for change in shares)


def test_a_window_that_has_no_sample_leaves_no_gap_in_those_that_must_follow_each_other(
    tmp_path: Path,
) -> None:
    """Samples of 5 s have no windows of 1 s: the time is null, and a message has the reason."""
    store = sampled(shared(), ["1 s", "5 s"], tmp_path / "s")
    rows = run_metrics(store)
    fine, coarse = (rows.filter(pl.col("sweep.sample_interval") == one) for one in ("1 s", "5 s"))
    assert fine["convergence_s"].null_count() < fine.height
    assert coarse["convergence_s"].null_count() == coarse.height
    why = "samples are 5 s apart, a window takes 1 s (sample_interval of the scenario)"
    assert set(coarse["convergence_reason"]) == {why}
    (note,) = [one for one in summary_rows(store).notes if why in one]
    assert note.startswith("“convergence time” is unknown in 2 of 4 runs: ")
    printed = command(store.path, "show", ".")
    assert note in printed.stdout
    asked = command(store.path, "show", ".", "--json")
    assert note in asked.stderr
    assert json.loads(asked.stdout)
    assert note in write_report(store).read_text().replace("\u00a0", " ")


def test_figures_say_the_window_that_their_samples_allow(tmp_path: Path) -> None:
    store = sampled(shared(seeds=1), ["5 s"], tmp_path / "s")
    material = FigureContext(store)
    figure = FIGURES["goodput"](material)
    assert figure is not None
    assert "moving mean over 15 s" in figure.caption
    assert "windows of 5 s" in figure.caption
    assert FIGURES["fairness"](material) is None
    (rows,) = (pl.read_csv(text.encode()) for text in figure.spec()["datasets"].values())
    whole = rows.filter(pl.col("time_s") <= 40, pl.col("kind") == "step")
    assert sorted(set(whole["time_s"])) == [5.0 * number for number in range(1, 9)]
    (at,) = store.rows("flows", where=(pl.col("time_s") == 40) & (pl.col("side") == "server")).select(
        pl.col("received_in_order_bytes").sum()
    ).row(0)  # fmt: skip
    assert 5e6 / 8 * whole["y"].sum() == pytest.approx(at, rel=1e-6)


def test_lines_of_goodput_are_means_over_a_round_trip(tmp_path: Path) -> None:
    """Lines are means of the steps, and the dashed line is the rate of the bottleneck."""
    material = FigureContext(sampled(shared(seeds=1), ["1 s"], tmp_path / "s"))
    figure = FIGURES["goodput"](material)
    assert figure is not None
    (rows,) = (pl.read_csv(text.encode()) for text in figure.spec()["datasets"].values())
    for (series,), steps in rows.filter(kind="step").group_by("series"):
        lines = rows.filter(kind="line", series=series).sort("time_s")
        raw = steps.sort("time_s")["y"].to_list()
        assert lines.height == len(raw) > 10
        assert lines["time_s"][5] == pytest.approx(steps.sort("time_s")["time_s"][5] - 0.5)
        assert lines["y"][5] == pytest.approx(sum(raw[4:7]) / 3, rel=1e-3)
    limit = rows.filter(kind="limit")
    assert limit.height == 2
    assert limit["y"].unique().to_list() == [material.metrics["bottleneck_bit_s"].max() / 1e6]


def test_the_span_of_a_moving_mean_is_odd_and_covers_a_round_trip() -> None:
    assert [smoothing_span(1.0, rtt) for rtt in (0.0, 0.6, 3.0, 3.1)] == [3.0, 3.0, 3.0, 5.0]
    assert smoothing_span(0.2, 0.7) == pytest.approx(1.0)


def fairness_of(jain: dict[int, float]) -> pl.DataFrame:
    """Jain's index of windows of 1 s by the second in which they begin."""
    return pl.DataFrame(
        {"run": "r", "direction": "up", "time_s": [at + 1.0 for at in jain], "jain": list(jain.values())}
    )


def starts_at(*seconds: float) -> pl.DataFrame:
    names = [f"flow {number}" for number in range(len(seconds))]
    return pl.DataFrame({"run": "r", "flow": names, "direction": "up", "data_start_s": list(seconds)})


def converged(jain: dict[int, float], *starts: float) -> tuple[float | None, str | None]:
    (row,) = fair.convergence_times(fairness_of(jain), starts_at(*starts)).select(
        "convergence_s", "convergence_reason"
    ).rows()  # fmt: skip
    return row


def test_windows_that_are_fair_follow_each_other_in_time() -> None:
    """Five fair seconds, five in which fewer than two flows run, and ten fair ones: 20 s, not 10."""
    jain = dict.fromkeys([*range(10, 15), *range(20, 30)], 0.99)
    assert converged(jain, 0.0, 10.0) == (10.0, None)
    del jain[29]
    assert converged(jain, 0.0, 10.0) == (None, fair.TOO_SHORT)
    jain = {at: 0.99 if at % 5 else 0.5 for at in range(10, 30)}
    assert converged(jain, 0.0, 10.0) == (None, fair.NEVER_FAIR)


def test_fairness_before_the_last_flow_is_not_convergence() -> None:
    """Two flows share fairly from 2 s on, a third begins at 30.5 s, and all are fair from 40 s on: 9.5 s."""
    jain = {at: 0.99 if at < 30 or at >= 40 else 0.7 for at in range(2, 60)}
    assert converged(jain, 0.0, 0.5, 30.5) == (9.5, None)


def counters(times: list[float], bytes_: list[int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    flows = pl.DataFrame(
        {"run": "r", "time_s": times, "flow": "f", "side": "server", "received_in_order_bytes": bytes_}
    )
    ways = pl.DataFrame({"flow": "f", "direction": "up", "sender": "client", "receiver": "server"})
    return flows, ways


def test_a_counter_between_two_samples_is_on_a_straight_line() -> None:
    """Samples at 0.8, 1.6 and 2.4 s: at 1 s 100 + 1/4 of 400 bytes, at 2 s 500 + 1/2 of 200."""
    windows = goodput_windows(*counters([0.8, 1.6, 2.4], [100, 500, 700]))
    assert windows["time_s"].to_list() == [1.0, 2.0, 3.0]
    assert windows["goodput_bit_s"].to_list() == pytest.approx([8 * 200, 8 * 400, 8 * 100 / 0.4])


def test_late_samples_of_real_time_leave_no_window_out() -> None:
    """Ticks of 1 s that are some milliseconds late, now and then: each window has its second."""
    times = [1.0, 2.003, 3.0005, 4.02, 5.0, 6.01]
    flows, ways = counters(times, [round(1e6 * at) for at in times])
    windows = goodput_windows(flows, ways)
    assert windows["goodput_bit_s"].to_list() == pytest.approx([8e6] * 7, rel=1e-4)
    assert sample_intervals(flows)["interval_s"].item() == pytest.approx(1.0, abs=0.01)
