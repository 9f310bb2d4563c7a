"""Reconfiguration intervals in a scenario: invalid combinations, lint warnings, and a run that follows them."""

from __future__ import annotations

import pytest

from bentpipe.plan.analysis.bounds import bounds
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.randomness import RandomInput, random_inputs
from bentpipe.scenario.errors import ScenarioError
from traced_runs import TCP, made, scenario, spec_of

SLOTS = {
    "interval": "500 ms", "delay": ["10 ms", "20 ms", "60 ms"], "rate": ["8 Mbit/s", "10 Mbit/s", "20 Mbit/s"],
}  # fmt: skip


def one(**both: object) -> dict[str, object]:
    return scenario({"name": "dish", "both": both}, flows=(TCP,))


@pytest.mark.parametrize(
    ("both", "message"),
    [
        ({"reconfiguration": SLOTS, "rate": "1 Mbit/s"}, r"rate: found rate beside reconfiguration"),
        ({"reconfiguration": {"loss": ["1 %"]}, "loss": "1 %"}, r"loss: found loss beside reconfiguration"),
        (
            {"reconfiguration": {"rate": ["2 Mbit/s", "1 Mbit/s"]}},
            r"quantiles fall from 2 Mbit/s to 1 Mbit/s",
        ),
        ({"reconfiguration": {"delay": []}}, r"reconfiguration\.delay"),
        (
            {"reconfiguration": {"interval": "1 s", "phase": "1 s", "delay": ["1 ms"]}},
            r"phase: found 1 s, expected less than",
        ),
        (
            {"reconfiguration": {"interval": "1 s", "jitter": "500 ms", "delay": ["1 ms"]}},
            r"jitter: found 500 ms",
        ),
        (
            {"reconfiguration": {"delay": ["1 ms"], "delay_correlation": 1}},
            r"delay_correlation: found 1, expected 0 to below 1",
        ),
        (
            {"reconfiguration": {"delay": ["1 ms"], "delay_correlation": 0.5}},
            r"delay_correlation and no delay_jitter",
        ),
        (
            {"reconfiguration": {"delay": ["1 ms"], "delay_step": "1 s"}},
            r"found delay_step and no delay_jitter",
        ),
        ({"reconfiguration": {"interval": "1 s"}}, r"empty table"),
        (
            {"reconfiguration": SLOTS, "changes": [{"at": "1 s", "rate": "1 Mbit/s"}]},
            r"changes: found changes beside reconfiguration",
        ),
    ],
)
def test_invalid_combinations_are_refused(both: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        spec_of(one(**both))


def test_bounds_and_queues_count_with_what_slots_have() -> None:
    plan = build_plan(load_scenario(one(reconfiguration=SLOTS, queue="10 ms")), "test")
    (bound,) = bounds(plan)
    assert bound.rate_bit_s == 20_000_000, "the largest"
    assert 20 < bound.min_rtt_ms < 22, "the least delay both ways"
    assert bound.queue_bytes == 12_500, "10 ms at the median rate"
    assert RandomInput.PATH in random_inputs(spec_of(one(reconfiguration=SLOTS)))


def test_a_run_has_other_slots_by_seed_and_the_same_again() -> None:
    spec = spec_of(one(reconfiguration=SLOTS, queue="50 ms"))
    first, again, other = made(spec), made(spec), made({**spec, "seed": spec["seed"] + 1})
    assert first["flow_summary"].equals(again["flow_summary"])
    assert not first["flow_summary"].equals(other["flow_summary"])
    # Six slots: what arrived is within what the fastest and, slow start aside, half of the slowest one let through.
    assert 8e6 / 2 < first["flow_summary"]["delivered_bytes"].sum() * 8 / 3 < 20e6
