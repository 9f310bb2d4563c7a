"""Flows that the bundles of each client will use: those on a route with the fewest flows.

The cost estimate needs them before the run. Contacts may favour another route; if that one has more flows, the run
costs more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.spec.run_spec import DtnPerfSpec, FlowSpec, RunSpec

__all__ = ["BundleShare", "bundle_shares"]

BUNDLE_OVERHEAD_BYTES = 100
"""Bytes of a bundle without its payload: blocks with ipn names (RFC 9171 section 4.3) and the convergence layer."""


@dataclass(frozen=True, slots=True)
class BundleShare:
    """Share of a client's bundles that crosses a flow in one direction."""

    direction: str
    """``up`` or ``down``."""
    client: DtnPerfSpec
    """The client."""
    share: float
    """Share of the client's bundles, at most 1."""

    def bytes(self, per_s: float) -> float:
        """Return the bytes that cross the flow.

        Args:
            per_s: capacity of the flow in bytes per second. A client with a window fills it.
        """
        amount, pace, payload = self.client["amount"], self.client["pace"], self.client["payload_bytes"]
        if amount["kind"] == "data":
            offered = float(amount["bytes"])
        elif pace["kind"] == "rate":
            offered = pace["bit_s"] / 8 * amount["duration_ns"] / 1e9
        else:
            offered = per_s * amount["duration_ns"] / 1e9 + pace["bundles"] * payload
        return self.share * offered * (1 + BUNDLE_OVERHEAD_BYTES / payload)


def bundle_shares(spec: RunSpec) -> Mapping[str, Sequence[BundleShare]]:
    """Return the bundles that cross each flow, by name of the flow."""
    dtn = spec.get("dtn")
    by_flow: dict[str, list[BundleShare]] = defaultdict(list)
    if not dtn:
        return by_flow
    names = {link["flow"] for link in dtn["links"]}
    flows = [flow for flow in spec["flows"] if flow["name"] in names]
    for client in dtn.get("perf", ()):
        to_client, to_server = _distances(flows, client["client"]), _distances(flows, client["server"])
        distance = to_client.get(client["server"])
        if distance is None:
            continue
        alternatives: dict[tuple[object, ...], list[tuple[FlowSpec, str]]] = defaultdict(list)
        for flow, direction, start, end in _directed_flows(flows):
            if start not in to_client or to_client[end] != to_client[start] + 1:
                continue
            if dtn.get("epidemic"):
                alternatives[start, end].append((flow, direction))
            elif to_client[start] + 1 + to_server[end] == distance:
                # All shortest routes carry the same share.
                alternatives[to_client[start],].append((flow, direction))
        for parallel in alternatives.values():
            for flow, direction in parallel:
                by_flow[flow["name"]].append(BundleShare(direction, client, 1 / len(parallel)))
    return by_flow


def _directed_flows(flows: Sequence[FlowSpec]) -> Iterator[tuple[FlowSpec, str, str, str]]:
    """Yield (flow, direction, first node, second node)."""
    for flow in flows:
        yield flow, "up", flow["client"], flow["server"]
        yield flow, "down", flow["server"], flow["client"]


def _distances(flows: Sequence[FlowSpec], start: str) -> dict[str, int]:
    """Return the number of flows between ``start`` and each node."""
    distances, frontier = {start: 0}, [start]
    while frontier:
        frontier = list(
            dict.fromkeys(
                end
                for node in frontier
                for _, _, near, end in _directed_flows(flows)
                if near == node and end not in distances
            )
        )
        distances |= dict.fromkeys(frontier, max(distances.values()) + 1)
    return distances
