"""Decision of a node about a bundle, contact by contact, with the reasons against the alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import CommandOutput, TextTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.dtn.contact_plan import CheckedPlan
    from bentpipe.dtn.route_query import BundleQuery

__all__ = ["summarise"]

NEVER_NS = 2**64 - 1


def summarise(plan: CheckedPlan, bundle: BundleQuery, answer: Mapping[str, Any]) -> CommandOutput:
    """Return the decision as data and as text."""
    forwarded = answer["forwarded"]
    chosen = [_hop_key(forwarding["route"]) for forwarding in forwarded if forwarding["route"] is not None]
    considered = [_describe_alternative(forwarding, chosen) for forwarding in answer["alternatives"]]
    data: dict[str, Any] = {
        "plan": plan.name,
        "from": bundle.source,
        "to": bundle.destination,
        "consumption_bytes": answer["consumption_bytes"],
        "by": answer["by"],
        "kept": answer["no_route_reason"],
        "forwarded": [
            {"next": forwarding["next"], "route": _seconds(forwarding["route"])} for forwarding in forwarded
        ],
        "considered": considered,
    }
    kind = f"{bundle.priority}{', critical' if bundle.critical else ''}"
    head = f"{bundle.size}, {kind}, from {bundle.source} to {bundle.destination} at {bundle.at}: "
    head += f"uses {answer['consumption_bytes']:,} B of each contact"
    if bundle.lifetime is not None:
        head += f", lifetime {bundle.lifetime}"
    shown: list[str | TextTable] = [head]
    if answer["no_route_reason"] is not None:
        shown.append(f"Kept: {answer['no_route_reason']}.")
    for forwarding in forwarded:
        shown += _describe_forwarding(forwarding, answer)
    if considered:
        rows = [
            {
                "route": " - ".join(forwarding["nodes"]),
                "contacts": ", ".join(forwarding["contacts"]),
                "best-case arrival, s": _time(forwarding["best_case_s"]),
                "projected arrival, s": _time(forwarding["projected_s"]),
                "termination, s": _time(forwarding["termination_s"]),
                "volume limit, B": forwarding["limit_bytes"],
                "": forwarding["verdict"],
            }
            for forwarding in considered
        ]
        shown += [
            "",
            TextTable("Routes by best-case arrival (zero size, no bookings, empty queues)", rows),
        ]
    return CommandOutput(data, tuple(shown), good=True)


def _describe_forwarding(forwarding: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str | TextTable]:
    origin = "static route" if answer["by"] == "static" else "computed route"
    route = forwarding["route"]
    if route is None:
        return [
            (f"To {forwarding['next']}, {origin}: no contact can carry the bundle; the bundle stays queued.")
        ]
    nodes = " - ".join(_nodes(route))
    text = (
        f"To {forwarding['next']}, {origin}: {nodes}, projected arrival at "
        f"{_time(route['projected_ns'] / 1e9)} s"
    )
    if route["limit_bytes"] < answer["consumption_bytes"]:
        text += f"; volume limit {route['limit_bytes']:,} B, so the node fragments the bundle"
    if route["reason"]:
        text += f"; rejected: {route['reason']}"
    if route["confidence"] < 1:
        text += f"; confidence {100 * route['confidence']:.3g} %"
    rows = [
        {
            "from": hop["from"],
            "to": hop["to"],
            "contact": hop["declared_at"],
            "contact, s": f"{_time(hop['start_ns'] / 1e9)} to {_time(hop['stop_ns'] / 1e9)}",
            "queued before it, B": hop["ahead_bytes"],
            "first byte, s": _time(hop["first_ns"] / 1e9),
            "last byte, s": _time(hop["last_ns"] / 1e9),
            "light time, s": _time((hop["owlt_ns"] + hop["margin_ns"]) / 1e9),
            "projected arrival, s": _time(hop["arrival_ns"] / 1e9),
            "free, B": hop["available_bytes"],
            "effective end, s": _time(hop["effective_stop_ns"] / 1e9),
            "volume limit, B": hop["limit_bytes"],
        }
        for hop in route["contacts"]
    ]
    return [f"{text}.", "", TextTable("Contacts of the route", rows)]


def _time(seconds: float | None) -> str | None:
    """Format seconds to the microsecond, without trailing zeros."""
    return None if seconds is None else f"{seconds:.6f}".rstrip("0").rstrip(".")


def _nodes(route: Mapping[str, Any]) -> list[str]:
    hops = route["contacts"]
    return [hops[0]["from"], *(hop["to"] for hop in hops)] if hops else []


def _hop_key(route: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [(hop["from"], hop["to"], hop["declared_at"], hop["start_ns"]) for hop in route["contacts"]]


def _describe_alternative(route: Mapping[str, Any], chosen: list[Any]) -> dict[str, Any]:
    if route["reason"]:
        clause = f" ({route['clause']})" if route["clause"] else ""
        verdict = f"no: {route['reason']}{clause}"
    else:
        verdict = "selected" if _hop_key(route) in chosen else "candidate"
    return {
        "nodes": _nodes(route),
        "contacts": [hop["declared_at"] for hop in route["contacts"]],
        "best_case_s": route["best_case_ns"] / 1e9,
        "projected_s": route["projected_ns"] / 1e9 if route["projected_ns"] < NEVER_NS else None,
        "termination_s": route["termination_ns"] / 1e9,
        "limit_bytes": route["limit_bytes"],
        "confidence": route["confidence"],
        "candidate": route["reason"] is None,
        "reason": route["reason"],
        "clause": route["clause"],
        "verdict": verdict,
    }


def _seconds(route: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if route is None:
        return None
    hops = [dict(_in_seconds(key, value) for key, value in hop.items()) for hop in route["contacts"]]
    return {
        "nodes": _nodes(route),
        "projected_s": route["projected_ns"] / 1e9,
        "best_case_s": route["best_case_ns"] / 1e9,
        "termination_s": route["termination_ns"] / 1e9,
        "limit_bytes": route["limit_bytes"],
        "confidence": route["confidence"],
        "reason": route["reason"],
        "clause": route["clause"],
        "contacts": hops,
    }


def _in_seconds(key: str, value: Any) -> tuple[str, Any]:
    if not key.endswith("_ns"):
        return key, value
    return f"{key.removesuffix('_ns')}_s", None if value is None else value / 1e9
