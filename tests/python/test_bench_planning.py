"""Planning cases of ``python -m benchmarks cli-latency``."""

from __future__ import annotations

import pytest

from benchmarks import planning
from benchmarks.cli_latency import CommandError
from benchmarks.planning import Case
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan


def test_cases_are_what_they_are_called() -> None:
    pages, axis = planning.CASES
    plan = build_plan(load_scenario(pages.scenario()), "1")
    assert len(plan.cells) == 100
    named = {cell.resolved.spec["flows"][0]["load"]["page"]["name"] for cell in plan.cells}
    assert len(named) == 4
    assert [len(values) for values in axis.sweep.values()] == [8000]


def test_each_plan_is_timed_in_a_process_of_its_own() -> None:
    small = Case("two", {"direction": "up"}, {"path.satellite.delay": ["10 ms", "20 ms"]}, 1.0)
    messages: list[str] = []
    (found,) = planning.bench(2, messages.append, [small])
    assert messages == ["1 of 2: two", "2 of 2: two"]
    assert (found.case, found.runs, found.most_s) == ("two", 2, 1.0)
    assert 0 < found.lowest_s <= found.median_s <= found.highest_s


def test_a_plan_that_is_refused_is_not_timed() -> None:
    wrong = Case("wrong", {"direction": "sideways"}, {}, 1.0)
    with pytest.raises(CommandError, match=r"(?s)wrong: .*sideways"):
        planning.bench(1, None, [wrong])
