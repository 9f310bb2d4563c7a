"""Users that share a link on both clocks: shares, what all have together, and how many numbers are judged at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bentpipe
from bentpipe.engine_validation import compare_engines
from bentpipe.engine_validation.bounds import verdict
from bentpipe.engine_validation.summary_table import Part, markdown
from bentpipe.metrics.compare import Equivalence
from bentpipe.metrics.intervals import CONFIDENCE, mean_ci

SCENARIO: dict[str, Any] = {
    "title": "shares",
    "duration": "4 s",
    "sample_interval": "1 s",
    "seeds": 3,
    "path": {
        "segment": [
            {
                "name": "s",
                "delay": "10 ms",
                "down": {"rate": "6 Mbit/s", "queue": "30 packets", "scheduler": {"name": "deficit-round-robin"}},
            }
        ]
    },
    "flow": [
        {"name": "web", "count": 3, "transport": "tcp", "congestion": "cubic", "direction": "down"},
        {"name": "gold", "user": "gold", "transport": "tcp", "congestion": "cubic", "direction": "down"},
    ],
}  # fmt: skip


def store(out: Path, **weights: int) -> Path:
    data = {**SCENARIO, "path": {"segment": [dict(SCENARIO["path"]["segment"][0])]}}
    down = data["path"]["segment"][0]["down"]
    scheduler = down["scheduler"] | ({"weights": weights} if weights else {})
    data["path"]["segment"][0]["down"] = down | {"scheduler": scheduler}
    bentpipe.run(data, out=out)
    return out


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(tmp_path_factory.mktemp("even") / "store")


def test_users_have_shares_and_their_table_a_sum(even: Path) -> None:
    found = compare_engines(even, even)
    rows = {(row.flow, row.metric.name): row for row in found.rows}
    shares = [row for row in found.rows if row.metric.name == "share_percent"]
    assert [row.flow for row in shares] == ["gold", "web-1", "web-2", "web-3"]
    assert sum(row.real.estimate for row in shares) == pytest.approx(100)
    assert all(row.real.estimate == pytest.approx(25, rel=0.05) for row in shares)
    assert {row.verdict for row in shares} == {Equivalence.WITHIN}
    assert [row.among for row in shares] == [1, 3, 3, 3]
    assert shares[1].bound == "5 %, of 3 together"
    members = [rows[f"web-{n}", "goodput_bit_s"].real.estimate for n in (1, 2, 3)]
    assert rows["web", "goodput_sum_bit_s"].real.estimate == pytest.approx(sum(members))
    assert 0.99 < rows["web", "group_jain"].real.estimate <= 1
    assert ("gold", "goodput_sum_bit_s") not in rows
    # The document has the sum in place of each flow's goodput.
    text = markdown([Part("users", found)], {})
    assert text.count("| goodput Mbit/s") == text.count("| total goodput Mbit/s") == 1
    assert "| web | " in text
    assert "| web-2 | cubic | share % |" in text
    assert "| gold down | cubic | share % |" in text


def test_other_shares_are_not_within(even: Path, tmp_path: Path) -> None:
    found = compare_engines(even, store(tmp_path / "store", gold=3))
    shares = {row.flow: row for row in found.rows if row.metric.name == "share_percent"}
    assert shares["gold"].real.estimate == pytest.approx(50, rel=0.05)
    assert {row.verdict for row in shares.values()} == {Equivalence.EXCEEDED}
    assert found.exceeded


def test_numbers_of_a_kind_are_judged_together() -> None:
    differences = [2.0, 2.5, 3.0, 0.5]
    alone, ten = (mean_ci(differences, 1 - (1 - CONFIDENCE) / many) for many in (1, 10))
    assert (alone.high or 9) < 5 < (ten.high or 0)
    assert verdict("share_percent", 100.0, differences) is Equivalence.WITHIN
    assert verdict("share_percent", 100.0, differences, 10) is Equivalence.UNDECIDED
    assert verdict("share_percent", 100.0, [one + 20 for one in differences], 10) is Equivalence.EXCEEDED
