"""Signed bundles: whoever checks signatures takes what is signed with the key that it has, and nothing that its policy
deletes; what is deleted for its signature says why."""

from __future__ import annotations

from collections.abc import Iterator

from bentpipe.trace_check.bundle_trace import Event, Told, node_of
from bentpipe.trace_check.trace import Finding

__all__ = ["signatures"]

_PASSED_ON = frozenset({"sent", "forwarded"})


def signatures(told: Told) -> Iterator[Finding]:
    """Every bundle at a node that checks."""
    policies = {node["name"]: node.get("integrity") or {} for node in told.dtn["nodes"]}
    for event in told.events:
        source = told.nodes.get(node_of(event.id.source), "")
        if source == event.node:
            continue
        here = told.nodes.get(node_of(event.destination)) == event.node
        policy = policies.get(event.node, {})
        looks = bool(policy.get("check")) and (here or bool(policy.get("on_the_way")))
        due = _due(policies, event.node, source) if looks else None
        if event.reason.endswith(" security operation"):
            if event.reason != due:
                yield _finding(event, f"expected {due or 'that it goes on'}")
        elif due is not None and (event.what == "delivered" or _goes_on(event)):
            yield _finding(event, f"expected that it is deleted: {due}")


def _goes_on(event: Event) -> bool:
    """Whether a whole bundle, which can be judged, goes to the next node."""
    return event.what in _PASSED_ON and event.id.offset is None


def _due(policies: dict[str, dict[str, object]], node: str, source: str) -> str | None:
    """Why a node deletes what this source has made; None: it does not."""
    policy, sign = policies[node], policies.get(source, {}).get("sign")
    check = policy.get("check")
    keys = {one["node"]: one["key"] for one in check} if isinstance(check, list) else {}
    key = sign["key"] if isinstance(sign, dict) else None
    if source in keys and key is not None:
        return None if key == keys[source] else "failed security operation"
    if policy.get("unsigned" if source in keys else "others") != "delete":
        return None
    return "missing security operation" if key is None else "unexpected security operation"


def _finding(event: Event, text: str) -> Finding:
    said = f"{event.what}{f' ({event.reason})' if event.reason else ''}"
    return Finding("signatures decide", event.node, f"{event.id} at {event.at} ns: {said}, {text}")
