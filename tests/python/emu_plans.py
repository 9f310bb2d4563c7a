"""Helpers of tests of plans for real time: a small scenario, its plan, and its unsupported parts."""

from __future__ import annotations

from typing import Any

from bentpipe.lab.emulation import runner as emu
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.lab.kernel_tcp import Machine
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.runners import engine

__all__ = ["CLASSIC", "Linux", "plan_of", "refused", "scenario", "triangle"]

CLASSIC = {"name": "cubic", "slow_start_exit": "classic", "avoidance": "linux"}


def scenario(*flows: dict[str, Any], **more: Any) -> dict[str, Any]:
    segment = {"name": "satellite", "delay": "50 ms", "both": {"rate": "10 Mbit/s"}}
    usual = {"congestion": CLASSIC, "load": {"bytes": "500 kB"}, "direction": "down"}
    merged = [usual | flow for flow in flows]
    named = [{key: value for key, value in flow.items() if value is not None} for flow in merged]
    return {"duration": "3 s", "path": {"segment": [segment]}, "flow": named} | more


def plan_of(data: dict[str, Any], seeds: int = 1) -> Plan:
    version = emu.engine_version(engine.version())
    chosen = range(1, seeds + 1)
    return build_plan(
        load_scenario(data), version, seeds=chosen, catalogue=engine.catalogue(), all_seeds=True
    )


def triangle(*flows: dict[str, Any], **more: Any) -> dict[str, Any]:
    link = {"delay": "50 ms", "both": {"rate": "10 Mbit/s"}}
    sides = [("ab", "a", "b"), ("bc", "b", "c"), ("ca", "c", "a")]
    links = [{**link, "name": name, "client_side": one, "server_side": two} for name, one, two in sides]
    usual = {"congestion": CLASSIC, "load": {"bytes": "500 kB"}, "direction": "up"}
    graph = {"node": ["a", "b", "c"], "link": links}
    return {"duration": "3 s", "graph": graph, "flow": [usual | flow for flow in flows]} | more


def refused(*flows: dict[str, Any], machine: Machine | None = None, **more: Any) -> list[tuple[str, str]]:
    spec = plan_of(scenario(*flows, **more)).runs[0].spec
    return refusals(spec, engine.catalogue(), machine)


class Linux(Machine):
    def __init__(self, *controllers: str) -> None:
        self.controllers = list(controllers)
        self.hystart = ["1"]
