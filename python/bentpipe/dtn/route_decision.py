"""Decision of a node about a bundle, contact by contact, with the reasons against the alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.dtn.contact_loss import contact_key, earliest_arrival
from bentpipe.metrics.format import CommandOutput, TextTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.dtn.contact_loss import ContactLoss
    from bentpipe.dtn.contact_plan import CheckedPlan
    from bentpipe.dtn.route_query import BundleQuery

__all__ = ["headline", "summarise"]

NEVER_NS = 2**64 - 1


def summarise(
    plan: CheckedPlan, bundle: BundleQuery, answer: Mapping[str, Any], losses: Sequence[ContactLoss] = ()
) -> CommandOutput:
    """Return the decision as data and as text.

    Args:
        plan: contact plan.
        bundle: query.
        answer: answer of the engine.
        losses: arrivals without each contact of the route.
    """
    forwarded = answer["forwarded"]
    chosen = [_hop_key(forwarding["route"]) for forwarding in forwarded if forwarding["route"] is not None]
    considered = [_describe_alternative(forwarding, chosen) for forwarding in answer["alternatives"]]
    arrival = earliest_arrival(answer)
    data: dict[str, Any] = {
        "plan": plan.name,
        "from": bundle.source,
        "to": bundle.destination,
        "arrival_s": None if arrival is None else arrival.time_ns / 1e9,
        "arrival_node": None if arrival is None else arrival.node,
        "consumption_bytes": answer["consumption_bytes"],
        "by": answer["by"],
        "reason": answer["no_route_reason"],
        "forwarded": [
            {"next": forwarding["next"], "route": _seconds(forwarding["route"])} for forwarding in forwarded
        ],
        "losses": [_loss_data(loss) for loss in losses],
        "considered": considered,
    }
    shown: list[str | TextTable] = [headline(bundle, answer)]
    if losses:
        shown.append(_worst_loss(losses))
    shown += _describe_bundle(bundle, answer)
    for forwarding in forwarded:
        shown += _describe_forwarding(forwarding, answer, losses)
    if considered:
        rows = [
            {
                "route": " - ".join(forwarding["nodes"]),
                "contacts": ", ".join(forwarding["contacts"]),
                "best-case arrival, s": _time(forwarding["best_case_s"], MS),
                "projected arrival, s": _time(forwarding["projected_s"], MS),
                "": forwarding["verdict"],
            }
            for forwarding in considered
        ]
        shown += [
            "",
            TextTable("Routes by best-case arrival (zero size, no bookings, empty queues)", rows),
        ]
    return CommandOutput(data, tuple(shown), good=True)


def headline(bundle: BundleQuery, answer: Mapping[str, Any]) -> str:
    """Return the answer as one sentence: instant and route of the arrival, or the reason against it."""
    arrival = earliest_arrival(answer)
    if arrival is not None:
        nodes = " - ".join([arrival.hops[0]["from"], *(hop["to"] for hop in arrival.hops)])
        contacts = "one contact" if len(arrival.hops) == 1 else f"{len(arrival.hops)} contacts"
        target = arrival.node if arrival.node == bundle.destination else f"the next hop {arrival.node}"
        return f"The bundle arrives at {target} at {_time(arrival.time_ns / 1e9)} s over {contacts}: {nodes}."
    if answer["no_route_reason"] is not None:
        return f"The bundle stays at {bundle.source}: {answer['no_route_reason']}."
    return f"The bundle stays at {bundle.source}: no contact can carry it over its static route."


def _worst_loss(losses: Sequence[ContactLoss]) -> str:
    """Return the contact of the route whose loss costs most, as one sentence."""
    needed = [loss for loss in losses if loss.arrival_ns is None]
    if needed:
        names = " or ".join(_contact_name(loss) for loss in needed)
        return f"No route remains without {names}."
    worst = max(losses, key=lambda loss: loss.delay_ns or 0)
    if not worst.delay_ns:
        return "The loss of one contact does not delay the bundle."
    text = f"The loss of {_contact_name(worst)} costs {'most' if len(losses) > 1 else 'a delay'}"
    return f"{text}: {_significant(worst.delay_ns / 1e9)} s, arrival at {_time((worst.arrival_ns or 0) / 1e9)} s."


def _contact_name(loss: ContactLoss) -> str:
    return f"{loss.hop['declared_at']} ({loss.hop['from']} to {loss.hop['to']})"


def _describe_bundle(bundle: BundleQuery, answer: Mapping[str, Any]) -> list[str | TextTable]:
    kind = f"{bundle.priority}{', critical' if bundle.critical else ''}"
    text = f"Bundle: {bundle.size}, {kind}, from {bundle.source} to {bundle.destination} at {bundle.at}, "
    text += f"{answer['consumption_bytes']:,} B of each contact"
    return ["", text + (f"; lifetime {bundle.lifetime}" if bundle.lifetime is not None else "")]


def _loss_data(loss: ContactLoss) -> dict[str, Any]:
    return {
        "contact": loss.hop["declared_at"],
        "from": loss.hop["from"],
        "to": loss.hop["to"],
        "start_s": loss.hop["start_ns"] / 1e9,
        "arrival_s": None if loss.arrival_ns is None else loss.arrival_ns / 1e9,
        "delay_s": None if loss.delay_ns is None else loss.delay_ns / 1e9,
    }


def _describe_forwarding(
    forwarding: Mapping[str, Any], answer: Mapping[str, Any], losses: Sequence[ContactLoss]
) -> list[str | TextTable]:
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
    by_contact = {contact_key(loss.hop): loss for loss in losses}
    times, volumes = [], []
    for hop in route["contacts"]:
        loss = by_contact.get(contact_key(hop))
        without = "no route" if loss is None or loss.arrival_ns is None else _time(loss.arrival_ns / 1e9, MS)
        delay = None if loss is None or loss.delay_ns is None else _significant(loss.delay_ns / 1e9)
        times.append(
            {
                "contact": hop["declared_at"],
                "from": hop["from"],
                "to": hop["to"],
                "open, s": f"{_time(hop['start_ns'] / 1e9, MS)} to {_time(hop['stop_ns'] / 1e9, MS)}",
                "first byte, s": _time(hop["first_ns"] / 1e9, MS),
                "arrival, s": _time(hop["arrival_ns"] / 1e9, MS),
                **({"without it, s": without, "delay, s": delay} if losses else {}),
            }
        )
        volumes.append(
            {
                "contact": hop["declared_at"],
                "last byte, s": _time(hop["last_ns"] / 1e9, MS),
                "light time, s": _time((hop["owlt_ns"] + hop["margin_ns"]) / 1e9),
                "queued before it, B": hop["ahead_bytes"],
                "free, B": hop["available_bytes"],
                "effective end, s": _time(hop["effective_stop_ns"] / 1e9, MS),
                "volume limit, B": hop["limit_bytes"],
            }
        )
    return [
        f"{text}.",
        "",
        TextTable("Contacts of the route; arrival and delay without each", times),
        "",
        TextTable("Transmission and volume", volumes),
    ]


MS = 3
"""Decimals of a time in a table, s."""


def _significant(seconds: float) -> str:
    return f"{seconds:.4g}" if seconds < 1e4 else f"{seconds:.0f}"


def _time(seconds: float | None, decimals: int = 6) -> str | None:
    """Format seconds to the microsecond, or with other decimals, without trailing zeros."""
    return None if seconds is None else f"{seconds:.{decimals}f}".rstrip("0").rstrip(".")


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
