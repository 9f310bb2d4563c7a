"""Two stores compared."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import polars as pl
import pytest

import synthetic_pages
from bentpipe.stats.diff import compare

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
