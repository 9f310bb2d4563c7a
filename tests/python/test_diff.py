"""Two stores compared."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import synthetic_pages
from bentpipe.metrics import change_table
from bentpipe.metrics.call_quality import rate_calls
from bentpipe.metrics.censoring import restricted_times, restriction_times
from bentpipe.metrics.compare import Criteria
from bentpipe.metrics.compute import completion_times
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.store_comparison import compare_stores as compare
from bentpipe.runners import engine
from bentpipe.store.reader import open_store
from commands import bentpipe
from store_edit import change_plan, put

if TYPE_CHECKING:
    from types import ModuleType

SHARES = [(5.0, 4.0), (5.3, 3.8), (4.9, 4.2), (5.1, 4.1), (5.2, 3.9), (5.0, 4.3)]
TENTH = (0.9, 0.91, 0.89, 0.9, 0.905, 0.895)
"""A change of goodput by a tenth, seed by seed."""


def test_a_store_equals_itself(synthetic: ModuleType, tmp_path: Path) -> None:
    store = synthetic.pair_store(tmp_path / "a", SHARES)
    got = compare(store, store)
    assert not got.regressed
    assert {change.verdict for change in got.changes} == {"none"}
    assert (got.only_before, got.only_after) == (0, 0)


def test_loads_of_pages_are_compared(synthetic: ModuleType, tmp_path: Path) -> None:
    before = synthetic_pages.page_store(tmp_path / "a", synthetic, seeds=6, packets=False)
    after = shutil.copytree(before, tmp_path / "b")
    got = compare(before, after)
    assert {c.metric for c in got.changes} >= {"ttr_s", "plt_s"}
    assert "loads_finished" not in {c.metric for c in got.changes}
    assert {c.verdict for c in got.changes} == {"none"}
    noise = iter((1.2, 1.25, 1.15, 1.2, 1.22, 1.18) * 2)
    for file in sorted(after.glob("runs/*/pages.parquet")):
        table = pl.read_parquet(file).with_columns(pl.col("plt_s") * next(noise))
        table.pipe(put, file)
    changes = [c for c in compare(before, after).changes if c.metric == "plt_s"]
    assert len(changes) == 2, "one a cell"
    for plt in changes:
        assert (plt.verdict, plt.primary, plt.seeds) == ("regression", True, 6), "a value a run, not a load"
        assert plt.effect is not None
        assert plt.effect.estimate == pytest.approx(1.2, rel=0.03)
    assert {c.verdict for c in compare(before, after).changes if c.metric == "ttr_s"} == {"none"}
    lines = [line for line in change_table.format_rows(compare(before, after)) if line["metric"] == "PLT s"]
    assert {line["verdict"] for line in lines} == {"regression"}


def test_loads_that_do_not_finish_count(synthetic: ModuleType, tmp_path: Path) -> None:
    """The quickest load of each run is all that finishes: the mean of what finished is better."""
    before = synthetic_pages.page_store(tmp_path / "a", synthetic, seeds=6, packets=False, arms=("2",))
    after = shutil.copytree(before, tmp_path / "b")
    for file in sorted(after.glob("runs/*/pages.parquet")):
        table = pl.read_parquet(file)
        assert table.height > 1
        done = pl.col("plt_s") == pl.col("plt_s").min()
        table.with_columns(completed=done.cast(pl.Int64), plt_s=pl.when(done).then("plt_s")).pipe(put, file)
    changes = {c.metric: c for c in compare(before, after).changes}
    assert changes["loads_finished"].verdict == "regression" or changes["loads_finished"].reason
    assert changes["plt_s"].verdict == "regression"


def test_a_tenth_less_goodput_is_a_regression(synthetic: ModuleType, tmp_path: Path) -> None:
    before = synthetic.pair_store(tmp_path / "a", SHARES)
    after = synthetic.pair_store(
        tmp_path / "b", [(f * a, b) for (a, b), f in zip(SHARES, TENTH, strict=True)]
    )
    got = compare(before, after)
    verdicts = {(c.metric, c.flow): c.verdict for c in got.changes}
    assert got.regressed
    assert verdicts["goodput_bit_s", "first"] == "regression"
    assert verdicts["goodput_bit_s", "second"] == "none"
    goodput = next(c for c in got.changes if c.flow == "first" and c.metric == "goodput_bit_s")
    assert (goodput.seeds, goodput.primary) == (6, True)
    assert goodput.effect is not None
    assert goodput.effect.estimate == pytest.approx(math.prod(TENTH) ** (1 / 6), abs=1e-6)
    assert (goodput.effect.high or 1) < 1
    back = compare(after, before)
    assert {(c.metric, c.flow): c.verdict for c in back.changes}["goodput_bit_s", "first"] == "improvement"
    assert got.frame().height == len(got.changes)


def test_noise_is_no_verdict(synthetic: ModuleType, tmp_path: Path) -> None:
    before = synthetic.pair_store(tmp_path / "a", SHARES)
    after = synthetic.pair_store(
        tmp_path / "b", [(a * f, b) for (a, b), f in zip(SHARES, [1.1, 0.9] * 3, strict=True)]
    )
    assert not [
        c for c in compare(before, after).changes if c.metric == "goodput_bit_s" and c.verdict != "none"
    ]


def test_items_without_a_partner_are_counted(synthetic: ModuleType, tmp_path: Path) -> None:
    before, after = (
        synthetic.pair_store(tmp_path / "a", SHARES),
        synthetic.pair_store(tmp_path / "b", SHARES[:4]),
    )
    got = compare(before, after)
    assert (got.only_before, got.only_after) == (4, 0)
    other = synthetic.pair_store(tmp_path / "c", SHARES, {"path.satellite.delay": "1 s"})
    with pytest.raises(ValueError, match="no run in common"):
        compare(before, other)


def sweep(place: Path, synthetic: ModuleType, rates: dict[str, list[float]]) -> Path:
    """A store with a cell a controller, a seed a rate (Mbit/s)."""
    runs = [
        (
            {"flow.main.congestion": name},
            seed,
            [synthetic.Flow("main", name, rate * 1e6)],
            {"duration_s": 8.0},
        )
        for name, values in rates.items()
        for seed, rate in enumerate(values, start=1)
    ]
    written: Path = synthetic.write_store(place, runs, "Ten controllers")
    return written


def test_one_cell_of_ten_that_loses_half_is_found(synthetic: ModuleType, tmp_path: Path) -> None:
    """Nine other controllers gain 5 %: pooled, nothing has changed."""
    noise = (1.02, 0.97, 1.05, 0.98, 1.0)
    before = {f"cc{k}": [4 * one * (1 + k / 10) for one in noise] for k in range(10)}
    shaken = {
        name: [rate * (1.05 + 0.01 * ((seed + int(name[2:])) % 3 - 1)) for seed, rate in enumerate(rates)]
        for name, rates in before.items()
    }
    shaken["cc4"] = [
        rate * factor for rate, factor in zip(before["cc4"], (0.5, 0.54, 0.47, 0.5, 0.51), strict=True)
    ]
    a, b = sweep(tmp_path / "a", synthetic, before), sweep(tmp_path / "b", synthetic, shaken)
    got = compare(a, b, criteria=Criteria(metrics=("goodput_bit_s",)))
    worse = [c for c in got.changes if c.verdict == "regression"]
    assert [(c.cell, c.seeds) for c in worse] == [({"flow.main.congestion": "cc4"}, 5)]
    assert len(got.changes) == 10
    assert got.frame().filter(verdict="regression")["flow.main.congestion"].to_list() == ["cc4"]
    done = bentpipe(tmp_path, "diff", "a", "b")
    assert done.returncode == 1
    line = next(line for line in done.stdout.splitlines() if "regression" in line and "goodput" in line)
    assert line.startswith("cc4 ")


def test_directions_of_a_run_are_no_pairs_of_their_own(synthetic: ModuleType, tmp_path: Path) -> None:
    before = synthetic.pair_store(tmp_path / "a", SHARES)
    changes = [c for c in compare(before, before).changes if c.metric in ("jain", "queueing_p95_ms")]
    assert {(c.direction, c.seeds) for c in changes} == {("up", 6)}


def silenced(store: Path, seeds: int) -> None:
    """The server has nothing of the first runs but the request, and the client wrote no more."""
    for run in sorted(store.glob("runs/*"))[:seeds]:
        file = run / "flow_summary.parquet"
        client = pl.col("side") == "client"
        pl.read_parquet(file).with_columns(
            written_bytes=pl.when(client).then(0).otherwise(8).cast(pl.Int64),
            received_in_order_bytes=pl.when(client).then(8).otherwise(0).cast(pl.Int64),
        ).pipe(put, file)


@pytest.mark.parametrize("silent", [1, 5])
def test_runs_that_deliver_nothing_are_compared(synthetic: ModuleType, tmp_path: Path, silent: int) -> None:
    """Their direction has no bytes, and so no row of metrics; in the other one went a request."""
    rates = {"cubic": [5.0, 5.2, 4.9, 5.1, 4.8]}
    before = sweep(tmp_path / "a", synthetic, rates)
    silenced(sweep(tmp_path / "b", synthetic, rates), silent)
    got = compare(before, tmp_path / "b")
    goodput = [c for c in got.changes if c.metric == "goodput_bit_s"]
    assert [(c.direction, c.verdict, c.reason) for c in goodput] == [
        ("up", "regression", f"{silent} of 5 runs deliver nothing")
    ]
    assert (got.only_before, got.only_after) == (0, 0)
    back = compare(tmp_path / "b", before)
    assert [c.direction for c in back.changes if c.metric == "goodput_bit_s"] == ["up"]
    assert not back.regressed


TRANSFERS = """
duration = "40 s"
seeds = 5
[[path.segment]]
name = "sat"
delay = "100 ms"
both = { rate = "2 Mbit/s", queue = "1 BDP", loss = "1 %" }
[[flow]]
name = "web"
congestion = "cubic"
direction = "down"
load = { poisson = { interval = "500 ms", size = "60 kB" } }
"""


@pytest.fixture(scope="module")
def collapsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores ``a`` and ``b`` of the same transfers; of each run of ``b`` only the two quickest finish."""
    folder = tmp_path_factory.mktemp("collapsed")
    (folder / "s.toml").write_text(TRANSFERS)
    done = bentpipe(folder, "run", "s.toml", "--out", "a", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    shutil.copytree(folder / "a", folder / "b")
    for run in (folder / "b/runs").iterdir():
        file = run / "streams.parquet"
        quick = (pl.col("down_fin_s") - pl.col("start_s")).rank("ordinal") <= 2
        fins = [pl.when(quick).then(name).alias(name) for name in ("up_fin_s", "down_fin_s")]
        pl.read_parquet(file).with_columns(fins).pipe(put, file)
    return folder


def test_a_collapse_is_no_improvement(collapsed: Path) -> None:
    """The transfers that finish are the quickest: without the others, completion times are a third."""
    times = [
        completion_times(open_store(collapsed / name).rows("streams"))["completion_s"] for name in ("a", "b")
    ]
    assert times[1].count() == 10 < 0.1 * times[0].count()
    assert (times[1].max() or 1) < (times[0].median() or 0)
    got = compare(collapsed / "a", collapsed / "b")
    changes = {c.metric: c for c in got.changes}
    assert got.regressed
    for name in ("finished_ratio", "completion_mean_s", "completion_p50_s"):
        assert changes[name].verdict == "regression", name
    assert {c.limit_s for name, c in changes.items() if name.startswith("completion")} == {
        changes["completion_mean_s"].limit_s
    }
    assert {name for name, c in changes.items() if c.primary} == {"completion_mean_s", "finished_ratio"}
    done = bentpipe(collapsed, "diff", "a", "b")
    assert done.returncode == 1
    p95 = next(line for line in done.stdout.splitlines() if line.startswith("completion p95"))
    assert f"> {format_significant(changes['completion_p95_s'].limit_s)} " in p95
    limit = format_significant(changes["completion_mean_s"].limit_s, 3)
    note = f"Not every transfer finished within {limit} s: an unfinished transfer counts as that time"
    assert note in done.stdout
    assert note in bentpipe(collapsed, "diff", "a", "b", "--metric", "completion_p95_s").stdout
    back = {c.metric: c.verdict for c in compare(collapsed / "b", collapsed / "a").changes}
    assert back["completion_mean_s"] == back["finished_ratio"] == "improvement"


def test_metrics_that_are_asked_for_are_one_family(collapsed: Path) -> None:
    """Quantiles of completion times too, which are secondary by default."""
    criteria = Criteria(metrics=("goodput_bit_s", "completion_p95_s"))
    changes = compare(collapsed / "a", collapsed / "b", criteria=criteria).changes
    assert {(change.metric, change.primary) for change in changes} == {
        ("goodput_bit_s", True),
        ("completion_p95_s", True),
    }


def test_a_limit_is_named_only_where_it_cuts(collapsed: Path) -> None:
    got = compare(collapsed / "a", collapsed / "a")
    mean = next(change for change in got.changes if change.metric == "completion_mean_s")
    assert (mean.limit_s, "finished_ratio" in {change.metric for change in got.changes}) == (None, False)
    assert not any("finished within" in note for note in change_table.notes(got))


def test_a_browser_that_leaves_after_its_load_restricts_nothing(
    synthetic: ModuleType, tmp_path: Path
) -> None:
    """Its run ends 0.2 s after the load: page loads that take twice as long are twice as long."""
    before = synthetic_pages.page_store(tmp_path / "a", synthetic, seeds=6, packets=False, arms=("2",))
    change_plan(before, engine="1.2.3-browser,156")
    after = shutil.copytree(before, tmp_path / "b")
    for store, factor in ((before, 1.0), (after, 2.0)):
        for number, run in enumerate(sorted((store / "runs").iterdir())):
            loads = pl.read_parquet(run / "pages.parquet").head(1)
            noise = 1 + (factor - 1) * number / 100
            loads = loads.with_columns(pl.col("plt_s", "ttr_s") * factor * noise)
            loads.pipe(put, run / "pages.parquet")
            end_s = loads["start_s"][0] + loads["plt_s"][0] + 0.2
            links = pl.read_parquet(run / "links.parquet")
            links.with_columns(pl.col("time_s") / pl.col("time_s").max() * end_s).pipe(
                put, run / "links.parquet"
            )
    changes = {change.metric: change for change in compare(before, after).changes}
    plt = changes["plt_s"]
    assert (plt.verdict, plt.limit_s, "loads_finished" in changes) == ("regression", None, False)
    assert plt.effect is not None
    assert plt.effect.estimate == pytest.approx(2.05, rel=1e-3)


def test_transfers_that_never_begin_are_not_finished(collapsed: Path, tmp_path: Path) -> None:
    """A connection that is never made opens no stream, so that a run has no row of it."""
    silent = Path(shutil.copytree(collapsed / "b", tmp_path / "b"))
    for run in (silent / "runs").iterdir():
        pl.read_parquet(run / "streams.parquet").clear().pipe(put, run / "streams.parquet")
    changes = {c.metric: c for c in compare(collapsed / "a", silent).changes}
    assert changes["finished_ratio"].after == 0
    mean = changes["completion_mean_s"]
    assert (mean.after, mean.verdict) == (mean.limit_s, "regression")


def test_restricted_times_by_hand() -> None:
    """Two runs of 10 s. Had 10, 8, 4 and 2 s: the median is 6 s; had 10 and 9: 9.5 s. One that had 8 s is stuck."""
    rows = [
        (0, 1, 0.0, 10.0, 3.0), (0, 1, 2.0, 10.0, None), (0, 1, 6.0, 10.0, 1.0), (0, 1, 8.0, 10.0, 1.5),
        (1, 1, 0.0, 10.0, 7.0), (1, 1, 1.0, 10.0, 2.0),
    ]  # fmt: skip
    transfers = pl.DataFrame(rows, schema=["side", "run", "begun_s", "end_s", "completion_s"], orient="row")
    transfers = transfers.with_columns(flow=pl.lit("f"))
    limits = restriction_times(transfers, ["flow"])
    assert limits["tau_s"].to_list() == [6.0]
    found = restricted_times(transfers.join(limits, on="flow"), ["side", "run"], {"p50": 0.5, "p95": 0.95})
    # side 0: 3 and 6 (stuck); side 1: 6 (7 is more) and 2
    assert found["mean_s"].to_list() == [4.5, 4.0]
    assert found["finished_ratio"].to_list() == [0.5, 0.5]
    assert found["p50"].to_list() == [4.5, 4.0]
    assert found["p50_reached"].to_list() == [False, False]
    done = transfers.filter(pl.col("completion_s").is_not_null() & (pl.col("completion_s") < 5))
    assert restriction_times(done, ["flow"])["tau_s"].to_list() == [3.0], "all that had so much time finished"
    assert not restriction_times(transfers.with_columns(end_s=pl.col("begun_s")), ["flow"]).height


FIXED = TRANSFERS.replace(', loss = "1 %"', "").replace(
    '{ poisson = { interval = "500 ms", size = "60 kB" } }', '{ bytes = "1 MB" }'
)


def test_one_run_decides_where_the_plan_draws_nothing(tmp_path: Path) -> None:
    before, after = _both(
        tmp_path, FIXED.replace("[[flow]]", '[[flow]]\ntransport = "tcp"', 1), "path.sat.rate=1 Mbit/s"
    )
    assert open_store(before).index.height == 1, "one seed says all"
    controllers = engine.catalogue
    completion = {c.metric: c for c in compare(before, after, catalogue=controllers).changes}[
        "completion_mean_s"
    ]
    assert (completion.seeds, completion.verdict, completion.p) == (1, "regression", None)
    # The same two runs by a controller that is not the engine's may draw.
    unknown = {c.metric: c.verdict for c in compare(before, after, catalogue=list).changes}
    assert set(unknown.values()) <= {"too few seeds", "none"}


def test_one_pair_does_not_decide_where_the_plan_draws(tmp_path: Path) -> None:
    lossy = TRANSFERS.replace("seeds = 5", "seeds = 1")
    before, after = _both(tmp_path, lossy, "path.sat.rate=1900 kbit/s")
    got = compare(before, after, catalogue=engine.catalogue)
    assert {c.verdict for c in got.changes} == {"too few seeds"}
    done = bentpipe(tmp_path, "diff", "a", "b")
    assert done.returncode == 0
    assert (
        f"Too few seeds for a verdict in {len(got.changes)} of {len(got.changes)} comparisons" in done.stdout
    )


OWN = """
class Mine:
    factor = 1.0
    def __init__(self, config):
        self.cwnd = int(self.factor * config.initial_window)
    def on_event(self, now, event):
        return self.cwnd

class Slow(Mine):
    factor = 0.5
"""


@pytest.mark.parametrize(("seeds", "verdict"), [(1, "too few seeds"), (5, "regression")])
def test_equal_differences_show_that_a_controller_does_not_draw(
    tmp_path: Path, seeds: int, verdict: str
) -> None:
    """The plan draws nothing else: five equal pairs decide, one does not."""
    module = f"draws_nothing_{seeds}.py"  # of a process, one module a name
    (tmp_path / module).write_text(OWN)
    (tmp_path / "s.toml").write_text(FIXED.replace('"cubic"', '"mine"'))
    for out, name in (("a", "Mine"), ("b", "Slow")):
        words = ["--controller", f"mine={module}:{name}", "--seeds", str(seeds), "--jobs", "1", "--out", out]
        done = bentpipe(tmp_path, "run", "s.toml", *words)
        assert done.returncode == 0, done.stderr
    got = compare(tmp_path / "a", tmp_path / "b", catalogue=engine.catalogue)
    completion = {c.metric: c for c in got.changes}["completion_mean_s"]
    assert (completion.seeds, completion.verdict, got.notes) == (seeds, verdict, ())


def test_unfinished_runs_of_a_store_are_reported(synthetic: ModuleType, tmp_path: Path) -> None:
    before = sweep(tmp_path / "a", synthetic, {"cubic": [5.0, 5.2, 4.9, 5.1, 4.8, 5.0]})
    after = Path(shutil.copytree(before, tmp_path / "b"))
    shutil.rmtree(min(after.glob("runs/*")))
    got = compare(before, after)
    assert got.notes == ("5 of 6 runs of b have finished.",)
    assert (got.only_before, got.only_after) == (1, 0)


@pytest.mark.nightly
def test_many_comparisons_print_those_with_a_verdict(synthetic: ModuleType, tmp_path: Path) -> None:
    rates = {f"cc{k}": [5.0 + k / 10, 5.2, 4.9, 5.1, 4.8] for k in range(20)}
    before = sweep(tmp_path / "a", synthetic, rates)
    changed = rates | {"cc7": [2.5, 2.6, 2.4, 2.6, 2.3]}
    got = compare(before, sweep(tmp_path / "b", synthetic, changed))
    assert len(got.changes) == 60
    assert len(change_table.format_rows(got, 40)) == 20 + sum(
        c.verdict != "none" for c in got.changes if not c.primary
    )
    few = change_table.format_rows(got, 10)
    assert [line["verdict"] for line in few].count("regression") == 1
    assert all(line["verdict"] for line in few)
    assert len(change_table.format_rows(got)) == 60


def test_different_paths_are_named(tmp_path: Path) -> None:
    before, after = _both(tmp_path, FIXED, "path.sat.delay=10 ms")
    (note,) = compare(before, after).notes
    assert note == "The scenarios differ in path.sat.delay (100 ms before, 10 ms after)."
    assert not compare(before, before).notes
    done = bentpipe(tmp_path, "diff", "a", "b")
    assert note in done.stdout
    message = json.loads(bentpipe(tmp_path, "diff", "a", "b", "--json").stdout)
    assert note in message["notes"]


CALLS = """
duration = "6 s"
seeds = 5
[[path.segment]]
name = "sky"
delay = "20 ms"
both = { rate = "1 Mbit/s", loss = "1 %" }
[[flow]]
name = "phones"
count = 2
transport = "udp"
load = { call = "g711" }
"""

BUNDLES = """
duration = "9 s"
seeds = 5
[[path.segment]]
name = "sky"
delay = "20 ms"
both = { rate = "10 Mbit/s" }
[[flow]]
name = "hop"
congestion = "cubic"
load = { bundles = { layer = "quiccl", dtnperf = "-W 10 -P 100k -D 1M -r" } }
"""


def _both(folder: Path, scenario: str, change: str) -> tuple[Path, Path]:
    """A store of a scenario, and one with a change of ``--set``."""
    (folder / "s.toml").write_text(scenario)
    for name, words in (("a", []), ("b", ["--set", change])):
        done = bentpipe(folder, "run", "s.toml", "--out", name, "--jobs", "1", *words)
        assert done.returncode == 0, done.stderr
    return folder / "a", folder / "b"


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["completion_s"], 'error: --metric: no metric "completion_s", expected one of: '),
        (["plt_s"], "error: a and b have no plt_s; they have "),
    ],
)
def test_suggested_metrics_exist_in_the_stores(
    synthetic: ModuleType, tmp_path: Path, metrics: list[str], message: str
) -> None:
    """The stores have downloads for a time, so that no completion time can be compared."""
    for name in ("a", "b"):
        synthetic.pair_store(tmp_path / name, SHARES)
    done = bentpipe(tmp_path, "diff", "a", "b", *(word for name in metrics for word in ("--metric", name)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    listed = done.stderr.removeprefix(message).partition(";")[0].strip().split(", ")
    assert listed == [
        name
        for name in METRICS
        if name in {c.metric for c in compare(tmp_path / "a", tmp_path / "b").changes}
    ]
    assert listed[0] == "goodput_bit_s"
    assert "completion_p95_s" not in done.stderr


def test_a_missing_metric_beside_another_is_a_note(synthetic: ModuleType, tmp_path: Path) -> None:
    store = synthetic.pair_store(tmp_path / "a", SHARES)
    got = compare(store, store, criteria=Criteria(metrics=("plt_s", "goodput_bit_s")))
    assert {change.metric for change in got.changes} == {"goodput_bit_s"}
    assert "a and a have no plt_s." in got.notes


def test_calls_are_compared_and_those_of_a_group_are_one(tmp_path: Path) -> None:
    before, after = _both(tmp_path, CALLS, "path.sky.loss=8 %")
    changes = {(c.metric, c.direction): c for c in compare(before, after).changes}
    opinion = changes["mos", "up"]
    assert (opinion.flow, opinion.seeds, opinion.verdict) == ("phones", 5, "regression")
    judged = rate_calls(open_store(before)).filter(pl.col("direction") == "up")
    assert opinion.before == pytest.approx(judged["mos"].mean())
    assert changes["lost_ratio", "down"].verdict == "regression"
    assert changes["delay_ms", "up"].before == pytest.approx(20, abs=3)
    done = bentpipe(tmp_path, "diff", "a", "b", "--metric", "mos")
    assert done.returncode == 1
    assert "MOS" in done.stdout


def test_bundles_are_compared(tmp_path: Path) -> None:
    before, after = _both(tmp_path, BUNDLES, "path.sky.delay=300 ms")
    changes = {c.metric: c for c in compare(before, after, catalogue=engine.catalogue).changes}
    assert changes["delivered_bundles"].before == changes["delivered_bundles"].after == 10
    assert {changes[name].verdict for name in ("acknowledged_bit_s", "bundle_delay_p50_s")} == {"regression"}
