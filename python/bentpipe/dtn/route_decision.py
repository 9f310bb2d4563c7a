"""What a node does with a bundle, by contact, and why not otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import CommandOutput, TextTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.dtn.contact_plan import Found
    from bentpipe.dtn.route_query import BundleQuery

__all__ = ["summarise"]

NEVER_NS = 2**64 - 1


def summarise(found: Found, bundle: BundleQuery, answer: Mapping[str, Any]) -> CommandOutput:
    """The decision as data, and as text for people."""
    forwarded = answer["forwarded"]
    taken = [_way(one["route"]) for one in forwarded if one["route"] is not None]
    considered = [_alternative(one, taken) for one in answer["alternatives"]]
    data: dict[str, Any] = {
        "plan": found.name,
        "from": bundle.source,
        "to": bundle.destination,
        "consumption_bytes": answer["consumption_bytes"],
        "by": answer["by"],
        "kept": answer["kept"],
        "forwarded": [{"next": one["next"], "route": _seconds(one["route"])} for one in forwarded],
        "considered": considered,
    }
    kind = f"{bundle.priority}{', critical' if bundle.critical else ''}"
    head = f"{bundle.size}, {kind}, from {bundle.source} to {bundle.destination} at {bundle.at}: "
    head += f"takes {answer['consumption_bytes']:,} B of each contact"
    if bundle.lifetime is not None:
        head += f", lives for {bundle.lifetime}"
    shown: list[str | TextTable] = [head]
    if answer["kept"] is not None:
        shown.append(f"Kept: {answer['kept']}.")
    for one in forwarded:
        shown += _forwarded(one, answer)
    if considered:
        rows = [
            {
                "route": " - ".join(one["nodes"]),
                "contacts": ", ".join(one["contacts"]),
                "best case, s": _time(one["best_case_s"]),
                "arrives, s": _time(one["projected_s"]),
                "ends, s": _time(one["termination_s"]),
                "carries, B": one["limit_bytes"],
                "": one["verdict"],
            }
            for one in considered
        ]
        shown += [
            "",
            TextTable(
                "Routes in the order of their best case (no size, nothing booked, nothing waits)", rows
            ),
        ]
    return CommandOutput(data, tuple(shown), good=True)


def _forwarded(one: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str | TextTable]:
    how = "by hand" if answer["by"] == "static" else "by the plan"
    route = one["route"]
    if route is None:
        return [f"To {one['next']}, {how}: no contact with it carries the bundle; it waits until one does."]
    nodes = " - ".join(_nodes(route))
    text = f"To {one['next']}, {how}: {nodes}, arrives at {_time(route['projected_ns'] / 1e9)} s"
    if route["limit_bytes"] < answer["consumption_bytes"]:
        text += f"; {route['limit_bytes']:,} B of it at most, so it is cut"
    if route["reason"]:
        text += f". But {route['reason']}"
    if route["confidence"] < 1:
        text += f"; likely to {100 * route['confidence']:.3g} %"
    rows = [
        {
            "from": leg["from"],
            "to": leg["to"],
            "contact": leg["at"],
            "open, s": f"{_time(leg['start_ns'] / 1e9)} to {_time(leg['stop_ns'] / 1e9)}",
            "before it, B": leg["ahead_bytes"],
            "first byte, s": _time(leg["first_ns"] / 1e9),
            "last byte, s": _time(leg["last_ns"] / 1e9),
            "light, s": _time((leg["owlt_ns"] + leg["margin_ns"]) / 1e9),
            "arrives, s": _time(leg["arrival_ns"] / 1e9),
            "unbooked, B": leg["available_bytes"],
            "until, s": _time(leg["effective_stop_ns"] / 1e9),
            "carries, B": leg["limit_bytes"],
        }
        for leg in route["contacts"]
    ]
    return [f"{text}.", "", TextTable("By contact", rows)]


def _time(seconds: float | None) -> str | None:
    """Seconds to the microsecond, without zeros that say nothing."""
    return None if seconds is None else f"{seconds:.6f}".rstrip("0").rstrip(".")


def _nodes(route: Mapping[str, Any]) -> list[str]:
    legs = route["contacts"]
    return [legs[0]["from"], *(leg["to"] for leg in legs)] if legs else []


def _way(route: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [(leg["from"], leg["to"], leg["at"], leg["start_ns"]) for leg in route["contacts"]]


def _alternative(route: Mapping[str, Any], taken: list[Any]) -> dict[str, Any]:
    if route["reason"]:
        clause = f" ({route['clause']})" if route["clause"] else ""
        verdict = f"no: {route['reason']}{clause}"
    else:
        verdict = "taken" if _way(route) in taken else "a candidate"
    return {
        "nodes": _nodes(route),
        "contacts": [leg["at"] for leg in route["contacts"]],
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
    legs = [dict(_in_seconds(key, value) for key, value in leg.items()) for leg in route["contacts"]]
    return {
        "nodes": _nodes(route),
        "projected_s": route["projected_ns"] / 1e9,
        "best_case_s": route["best_case_ns"] / 1e9,
        "termination_s": route["termination_ns"] / 1e9,
        "limit_bytes": route["limit_bytes"],
        "confidence": route["confidence"],
        "reason": route["reason"],
        "clause": route["clause"],
        "contacts": legs,
    }


def _in_seconds(key: str, value: Any) -> tuple[str, Any]:
    if not key.endswith("_ns"):
        return key, value
    return f"{key.removesuffix('_ns')}_s", None if value is None else value / 1e9
