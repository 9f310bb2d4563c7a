"""Groups of a resolved run: flows that one table of the scenario stands for, by its ``count``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import FlowSpec, RunSpec

__all__ = ["count_series", "flow_groups", "representative_flows"]


def flow_groups(spec: RunSpec) -> dict[str, str]:
    """The group of each flow that has one."""
    return {flow: str(group["name"]) for group in spec.get("groups", ()) for flow in group["flows"]}


def representative_flows(spec: RunSpec) -> list[tuple[str, FlowSpec]]:
    """One flow of each table of the scenario, by the table's name: those of a group are alike."""
    groups = flow_groups(spec)
    found: dict[str, FlowSpec] = {}
    for flow in spec["flows"]:
        found.setdefault(groups.get(flow["name"], flow["name"]), flow)
    return list(found.items())


def count_series(spec: RunSpec) -> tuple[int, int]:
    """How many time series a run has of flows, and how many of links (one for both directions)."""
    flows, links = len(spec["flows"]), len(spec["graph"]["links"])
    for group in spec.get("groups", ()):
        flows += 1 - (0 if group.get("each") else len(group["flows"]))
        own = group.get("links", ())
        links += bool(own) - (0 if group.get("each") else len(own))
    return flows, links
