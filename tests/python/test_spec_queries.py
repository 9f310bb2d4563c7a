"""Rate and propagation of the stages of a resolved run equal those of its scenario."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.spec.queries import delays_ns, rate_bit_s

SCENARIO: dict[str, Any] = {
    "duration": "1 s",
    "path": {"segment": [{"name": "s", "delay": "20 ms", "both": {"rate": "10 Mbit/s", "queue": "1 BDP"}}]},
    "flow": [{"name": "f", "congestion": "cubic", "direction": "down", "load": {"bytes": "1 kB"}}],
}


def stages(folder: Path, **segment: Any) -> list[dict[str, Any]]:
    """The stages of the direction up."""
    data = {**SCENARIO, "path": {"segment": [{**SCENARIO["path"]["segment"][0], **segment}]}}
    document = replace(load_scenario(data), folder=folder)
    (link,) = build_plan(document, "test").runs[0].spec["graph"]["links"]
    return list(link["up"])


def found(of: list[dict[str, Any]], **how: bool) -> tuple[list[list[int]], list[float]]:
    """Propagation and rates of all stages that have some."""
    delays = [delays for stage in of if (delays := delays_ns(stage, **how))]
    return delays, [rate for stage in of if (rate := rate_bit_s(stage)) is not None]


def test_a_constant_delay_and_rate(tmp_path: Path) -> None:
    assert found(stages(tmp_path)) == ([[20_000_000]], [10e6])


def test_netem_has_both_in_one_stage(tmp_path: Path) -> None:
    of = stages(tmp_path, both={"rate": "10 Mbit/s", "queue": "100 packets", "netem": True})
    assert found(of) == ([[20_000_000]], [10e6])
    assert [stage["kind"] for stage in of if delays_ns(stage)] == ["netem"]


def test_changes_come_after_what_it_begins_with(tmp_path: Path) -> None:
    changes = [{"at": "100 ms", "delay": "5 ms"}, {"at": "200 ms", "delay": "40 ms"}]
    of = stages(tmp_path, up={"changes": changes})
    assert found(of)[0] == [[20_000_000, 5_000_000, 40_000_000]]
    assert found(of, changed=False)[0] == [[20_000_000]]


def test_a_trace_of_delays_is_all_its_points_and_a_rate_is_that_of_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "delay.csv").write_text("time_s,delay_ms\n0,30\n0.5,10\n")
    (tmp_path / "rate.csv").write_text("time_s,rate_Mbit_s\n0,5\n0.5,10\n")
    of = stages(
        tmp_path, delay={"trace": "delay.csv"}, both={"rate": {"trace": "rate.csv"}, "queue": "100 packets"}
    )
    assert found(of, changed=False) == ([[30_000_000, 10_000_000]], [5e6])
