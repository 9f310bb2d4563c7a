"""Two stores compared."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import polars as pl
import pytest

import synthetic_pages
from bentpipe.stats.calls import judge
from bentpipe.stats.diff import compare
from bentpipe.store.reader import read_store
from commands import bentpipe

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

SHARES = [(5.0, 4.0), (5.3, 3.8), (4.9, 4.2), (5.1, 4.1), (5.2, 3.9), (5.0, 4.3)]


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
    for number, file in enumerate(sorted(after.glob("runs/*/pages.parquet"))):
        table = pl.read_parquet(file).with_columns(pl.col("plt_s") * 1.2)
        if number == 0:
            table = table.with_columns(finished=pl.lit(0, pl.Int64))
        table.write_parquet(file)
    changes = {c.metric: c for c in compare(before, after).changes}
    plt = changes["plt_s"]
    assert plt.verdict == "regression"
    assert plt.ratio.estimate == pytest.approx(1.2)
    assert changes["ttr_s"].verdict == "none"
    loads = pl.concat([pl.read_parquet(file) for file in before.glob("runs/*/pages.parquet")]).height
    lost = pl.read_parquet(min(after.glob("runs/*/pages.parquet"))).height
    assert (changes["loads_finished"].pairs, plt.pairs) == (loads, loads - lost)
    assert changes["loads_finished"].after == pytest.approx(1 - lost / loads)
    lines = {line["metric"]: line for line in compare(before, after).lines()}
    assert lines["PLT s"]["verdict"] == "regression"


def test_a_tenth_less_goodput_is_a_regression(synthetic: ModuleType, tmp_path: Path) -> None:
    before = synthetic.pair_store(tmp_path / "a", SHARES)
    after = synthetic.pair_store(tmp_path / "b", [(0.9 * a, b) for a, b in SHARES])
    got = compare(before, after)
    verdicts = {(c.metric, c.flow): c.verdict for c in got.changes}
    assert got.regressed
    assert verdicts["goodput_bit_s", "first"] == "regression"
    assert verdicts["goodput_bit_s", "second"] == "none"
    goodput = next(c for c in got.changes if c.flow == "first" and c.metric == "goodput_bit_s")
    assert goodput.pairs == 6
    assert goodput.ratio.estimate == pytest.approx(0.9, abs=1e-6)
    assert goodput.difference.high is not None
    assert goodput.difference.high < 0
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


def test_what_has_no_partner_is_counted(synthetic: ModuleType, tmp_path: Path) -> None:
    before, after = (
        synthetic.pair_store(tmp_path / "a", SHARES),
        synthetic.pair_store(tmp_path / "b", SHARES[:4]),
    )
    got = compare(before, after)
    assert (got.only_before, got.only_after) == (4, 0)
    other = synthetic.pair_store(tmp_path / "c", SHARES, {"path.satellite.delay": "1 s"})
    with pytest.raises(ValueError, match="no run in common"):
        compare(before, other)


CALLS = """
duration = "6 s"
seeds = 3
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


def test_calls_are_compared_and_those_of_a_group_are_one(tmp_path: Path) -> None:
    before, after = _both(tmp_path, CALLS, "path.sky.loss=8 %")
    changes = {(c.metric, c.direction): c for c in compare(before, after).changes}
    opinion = changes["mos", "up"]
    assert (opinion.flow, opinion.pairs, opinion.verdict) == ("phones", 3, "regression")
    judged = judge(read_store(before)).filter(pl.col("direction") == "up")
    assert opinion.before == pytest.approx(judged["mos"].mean())
    assert changes["lost_ratio", "down"].verdict == "regression"
    assert changes["delay_ms", "up"].before == pytest.approx(20, abs=3)
    done = bentpipe(tmp_path, "diff", "a", "b", "--metric", "mos")
    assert done.returncode == 1
    assert "MOS" in done.stdout


def test_bundles_are_compared(tmp_path: Path) -> None:
    before, after = _both(tmp_path, BUNDLES, "path.sky.delay=300 ms")
    changes = {c.metric: c for c in compare(before, after).changes}
    assert changes["delivered_bundles"].before == changes["delivered_bundles"].after == 10
    assert {changes[name].verdict for name in ("acknowledged_bit_s", "bundle_delay_p50_s")} == {"regression"}
