"""Groups of a resolved run: flows of one table of the scenario, by its ``count``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import FlowSpec, RunSpec

__all__ = ["count_series", "flow_groups", "representative_flows"]


def flow_groups(spec: RunSpec) -> dict[str, str]:
    """Return the group of each flow that belongs to one."""
    return {flow: str(group["name"]) for group in spec.get("groups", ()) for flow in group["flows"]}


def representative_flows(spec: RunSpec) -> list[tuple[str, FlowSpec]]:
    """Return (name of the table, first flow) for each flow table of the scenario; flows of a group are equal."""
    groups = flow_groups(spec)
    first_flows: dict[str, FlowSpec] = {}
    for flow in spec["flows"]:
        first_flows.setdefault(groups.get(flow["name"], flow["name"]), flow)
    return list(first_flows.items())


def count_series(spec: RunSpec) -> tuple[int, int]:
    """Return the number of time series of flows, and of links (one for both directions)."""
    flows, links = len(spec["flows"]), len(spec["graph"]["links"])
    for group in spec.get("groups", ()):
        flows += 1 - (0 if group.get("per_flow") else len(group["flows"]))
        access_links = group.get("links", ())
        links += bool(access_links) - (0 if group.get("per_flow") else len(access_links))
    return flows, links
