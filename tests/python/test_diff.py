"""Two stores compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bentpipe.diff import compare

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
