"""Checks of signed bundles: nodes that verify signatures accept and delete bundles by their keys and policies."""

from __future__ import annotations

from collections.abc import Iterator

from bentpipe.trace_check.bundle_trace import BundleTrace, Event, node_of
from bentpipe.trace_check.trace import Finding

__all__ = ["check_signatures"]

_FORWARDING = frozenset({"sent", "forwarded"})


def check_signatures(trace: BundleTrace) -> Iterator[Finding]:
    """Check every bundle at a node that verifies signatures."""
    policies = {node["name"]: node.get("integrity") or {} for node in trace.dtn["nodes"]}
    for event in trace.events:
        source = trace.nodes.get(node_of(event.id.source), "")
        if source == event.node:
            continue
        is_destination = trace.nodes.get(node_of(event.destination)) == event.node
        policy = policies.get(event.node, {})
        verifies = bool(policy.get("check")) and (is_destination or bool(policy.get("checks_forwarded")))
        expected = _deletion_reason(policies, event.node, source) if verifies else None
        if event.reason.endswith(" security operation"):
            if event.reason != expected:
                yield _finding(event, f"expected {expected or 'no deletion'}")
        elif expected is not None and (event.action == "delivered" or _is_forwarded(event)):
            yield _finding(event, f"expected deletion: {expected}")


def _is_forwarded(event: Event) -> bool:
    """Return whether the node forwards a whole bundle; fragments cannot be verified."""
    return event.action in _FORWARDING and event.id.offset is None


def _deletion_reason(policies: dict[str, dict[str, object]], node: str, source: str) -> str | None:
    """Return the reason why a node deletes bundles of this source; None: it does not."""
    policy, sign = policies[node], policies.get(source, {}).get("sign")
    check = policy.get("check")
    keys = {entry["node"]: entry["key"] for entry in check} if isinstance(check, list) else {}
    key = sign["key"] if isinstance(sign, dict) else None
    if source in keys and key is not None:
        return None if key == keys[source] else "failed security operation"
    if policy.get("unsigned" if source in keys else "other_sources") != "delete":
        return None
    return "missing security operation" if key is None else "unexpected security operation"


def _finding(event: Event, text: str) -> Finding:
    outcome = f"{event.action}{f' ({event.reason})' if event.reason else ''}"
    return Finding("bundle integrity", event.node, f"{event.id} at {event.instant} ns: {outcome}, {text}")
