"""Which flows of bundle nodes the bundles of each client will cross, before the run: those on a way of fewest flows.

Contacts may make another way the first to arrive; as far as bundles then cross more flows, a run costs more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.spec.run_spec import DtnPerfSpec, FlowSpec, RunSpec

__all__ = ["BundleShare", "bundle_shares"]

BUNDLE_BYTES = 100
"""Of a bundle beside its payload: its blocks with names of the scheme ipn (RFC 9171 section 4.3), its layer's frame."""


@dataclass(frozen=True, slots=True)
class BundleShare:
    """A part of a client's bundles, one way over a flow."""

    way: str
    """``up`` or ``down``."""
    client: DtnPerfSpec
    share: float

    def bytes(self, per_s: float) -> float:
        """What crosses a flow of ``per_s`` bytes a second, all of which a window fills while its client generates."""
        amount, pace, payload = self.client["amount"], self.client["pace"], self.client["payload_bytes"]
        if amount["kind"] == "data":
            offered = float(amount["bytes"])
        elif pace["kind"] == "rate":
            offered = pace["bit_s"] / 8 * amount["duration_ns"] / 1e9
        else:
            offered = per_s * amount["duration_ns"] / 1e9 + pace["bundles"] * payload
        return self.share * offered * (1 + BUNDLE_BYTES / payload)


def bundle_shares(spec: RunSpec) -> Mapping[str, Sequence[BundleShare]]:
    """What crosses each flow, by its name."""
    dtn = spec.get("dtn")
    found: dict[str, list[BundleShare]] = defaultdict(list)
    if not dtn:
        return found
    carrying = {link["flow"] for link in dtn["links"]}
    flows = [flow for flow in spec["flows"] if flow["name"] in carrying]
    for client in dtn.get("perf", ()):
        far, back = _far(flows, client["client"]), _far(flows, client["server"])
        all_of_it = far.get(client["server"])
        if all_of_it is None:
            continue
        steps: dict[tuple[object, ...], list[tuple[FlowSpec, str]]] = defaultdict(list)
        for flow, way, near, next_to in _ways(flows):
            if near not in far or far[next_to] != far[near] + 1:
                continue
            if dtn.get("epidemic"):
                steps[near, next_to].append((flow, way))
            elif far[near] + 1 + back[next_to] == all_of_it:
                # Of several ways, each is taken as often.
                steps[far[near],].append((flow, way))
        for side_by_side in steps.values():
            for flow, way in side_by_side:
                found[flow["name"]].append(BundleShare(way, client, 1 / len(side_by_side)))
    return found


def _ways(flows: Sequence[FlowSpec]) -> Iterator[tuple[FlowSpec, str, str, str]]:
    """(flow, way, from, to)."""
    for flow in flows:
        yield flow, "up", flow["client"], flow["server"]
        yield flow, "down", flow["server"], flow["client"]


def _far(flows: Sequence[FlowSpec], start: str) -> dict[str, int]:
    """How many flows lie between ``start`` and each node."""
    found, edge = {start: 0}, [start]
    while edge:
        edge = list(
            dict.fromkeys(
                to for node in edge for _, _, near, to in _ways(flows) if near == node and to not in found
            )
        )
        found |= dict.fromkeys(edge, max(found.values()) + 1)
    return found
