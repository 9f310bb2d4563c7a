"""Decision of a node about a bundle, contact by contact, with the reasons against the alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.dtn.contact_loss import contact_key, earliest_arrival, is_fragmented
from bentpipe.dtn.summary import warning_lines
from bentpipe.metrics.format import CommandOutput, TextTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.dtn.contact_loss import Arrival, ContactLoss
    from bentpipe.dtn.contact_plan import CheckedPlan
    from bentpipe.dtn.route_query import BundleQuery

__all__ = ["headline", "summarise"]

OVERHEAD = (
    "Contacts carry 3 % above the size (CCSDS 734.3-B-1, 2.4.3: convergence layer).",
    "Light times have a margin of 0.067 % for the motion of nodes (2.4.2).",
)
"""Lines on sizes and light times that differ from those of the query and the plan."""

MAX_PARTS = 4
"""Maximum number of fragments in the headline."""


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
    sent = answer["fragments"] if is_fragmented(answer) else forwarded
    chosen = [_hop_key(one["route"]) for one in sent if one["route"] is not None]
    needed = answer["consumption_bytes"]
    considered = [_describe_alternative(route, chosen, needed) for route in answer["alternatives"]]
    arrival = earliest_arrival(answer)
    data: dict[str, Any] = {
        "plan": plan.name,
        "from": bundle.source,
        "to": bundle.destination,
        "arrival_s": None if arrival is None or arrival.rest_bytes else arrival.time_ns / 1e9,
        "arrival_node": None if arrival is None else arrival.node,
        "bytes": answer["bytes"],
        "delivered_bytes": 0 if arrival is None else arrival.delivered_bytes,
        "delivered_s": None if arrival is None else arrival.time_ns / 1e9,
        "consumption_bytes": answer["consumption_bytes"],
        "by": answer["by"],
        "reason": answer["no_route_reason"],
        "forwarded": [
            {"next": forwarding["next"], "route": _seconds(forwarding["route"])} for forwarding in forwarded
        ],
        "fragments": [
            {"bytes": fragment["bytes"], "route": _seconds(fragment["route"])}
            for fragment in (answer["fragments"] if is_fragmented(answer) else ())
        ],
        "losses": [_loss_data(loss) for loss in losses],
        "considered": considered,
        "warnings": [{"at": list(warning.at), "text": warning.text} for warning in plan.warnings],
    }
    shown: list[str | TextTable] = [headline(bundle, answer)]
    if losses:
        shown.append(_worst_loss(losses))
    shown += _describe_bundle(bundle, answer)
    if is_fragmented(answer):
        shown += _describe_fragments(answer, losses)
    else:
        for forwarding in forwarded:
            shown += _describe_forwarding(forwarding, answer, losses)
    if considered:
        rows = [
            {
                "route": " - ".join(forwarding["nodes"]),
                "contacts": ", ".join(forwarding["contacts"]),
                "best-case arrival, s": _time(forwarding["best_case_s"]),
                "projected arrival, s": _time(forwarding["projected_s"]),
                "": forwarding["verdict"],
            }
            for forwarding in considered
        ]
        shown += [
            "",
            TextTable("Routes by best-case arrival (zero size, no bookings, empty queues)", rows),
        ]
    shown += warning_lines(plan)
    return CommandOutput(data, tuple(shown), good=True)


def headline(bundle: BundleQuery, answer: Mapping[str, Any]) -> str:
    """Return the answer as one sentence: instant and route of the arrival, or the reason against it."""
    arrival = earliest_arrival(answer)
    if arrival is not None and is_fragmented(answer):
        return _fragment_headline(bundle, answer, arrival)
    if arrival is not None:
        nodes = " - ".join([arrival.hops[0]["from"], *(hop["to"] for hop in arrival.hops)])
        contacts = "one contact" if len(arrival.hops) == 1 else f"{len(arrival.hops)} contacts"
        target = arrival.node if arrival.node == bundle.destination else f"the next hop {arrival.node}"
        return f"The bundle arrives at {target} at {_time(arrival.time_ns / 1e9)} s over {contacts}: {nodes}."
    stays = f"The bundle stays at {bundle.source}: "
    if answer["no_route_reason"] is None and answer["by"] == "static":
        return f"{stays}no contact can carry it over its static route."
    if answer["no_route_reason"] is None:
        return f"{stays}no neighbour has a route for all of it, and a bundle of several copies is not fragmented."
    text = f"{stays}{answer['no_route_reason']}."
    largest = answer["largest_bytes"]
    if largest and largest < answer["bytes"] and not bundle.fragment:
        text += f" At most {_size(largest)} fit one route; --fragment sends the bundle in parts."
    return text


def _fragment_headline(bundle: BundleQuery, answer: Mapping[str, Any], arrival: Arrival) -> str:
    """Return the arrival of a fragmented bundle, or of the part that arrives, as sentences."""
    fragments = answer["fragments"]
    count = f"{len(fragments)} fragment{'s' * (len(fragments) != 1)}"
    parts = [
        f"{_size(fragment['bytes'])} over {' - '.join(_nodes(fragment['route']))}" for fragment in fragments
    ]
    if len(parts) > MAX_PARTS:
        parts = [*parts[: MAX_PARTS - 1], f"{len(parts) - MAX_PARTS + 1} more"]
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    at = f"{_time(arrival.time_ns / 1e9)} s"
    if not arrival.rest_bytes:
        return f"The bundle arrives at {arrival.node} at {at} in {count}: {listed}."
    return (
        f"{_size(arrival.delivered_bytes)} of {_size(answer['bytes'])} arrive at {arrival.node} by {at} in {count}: "
        f"{listed}. The rest, {_size(arrival.rest_bytes)}, stays at {bundle.source}: it needs another contact."
    )


def _worst_loss(losses: Sequence[ContactLoss]) -> str:
    """Return the contacts of the routes whose loss costs most, as one sentence."""
    lowest = min(loss.delivered_bytes for loss in losses)
    needed = [loss for loss in losses if loss.arrival_ns is None and loss.delivered_bytes == lowest]
    if needed:
        names = _contact_names(needed)
        return (
            f"Without {names} only {_size(lowest)} arrive."
            if lowest
            else f"No route remains without {names}."
        )
    delay_ns = max(loss.delay_ns or 0 for loss in losses)
    if not delay_ns:
        return "The loss of one contact does not delay the bundle."
    worst = [loss for loss in losses if loss.delay_ns == delay_ns]
    costs = "costs a delay of" if len(worst) == len(losses) else "costs most:"
    at = _time((worst[0].arrival_ns or 0) / 1e9)
    return f"The loss of {_contact_names(worst)} {costs} {_significant(delay_ns / 1e9)} s, arrival at {at} s."


def _contact_names(losses: Sequence[ContactLoss]) -> str:
    return " or ".join(_contact_name(loss) for loss in losses)


def _contact_name(loss: ContactLoss) -> str:
    return f"{loss.hop['declared_at']} ({loss.hop['from']} to {loss.hop['to']})"


def _describe_bundle(bundle: BundleQuery, answer: Mapping[str, Any]) -> list[str | TextTable]:
    kind = f"{bundle.priority}{', critical' if bundle.critical else ''}"
    text = f"Bundle: {bundle.size}, {kind}, from {bundle.source} to {bundle.destination} at {bundle.at}, "
    text += f"{answer['consumption_bytes']:,} B of each contact"
    return ["", text + (f"; lifetime {bundle.lifetime}" if bundle.lifetime is not None else ""), *OVERHEAD]


def _loss_data(loss: ContactLoss) -> dict[str, Any]:
    return {
        "contact": loss.hop["declared_at"],
        "from": loss.hop["from"],
        "to": loss.hop["to"],
        "start_s": loss.hop["start_ns"] / 1e9,
        "arrival_s": None if loss.arrival_ns is None else loss.arrival_ns / 1e9,
        "delay_s": None if loss.delay_ns is None else loss.delay_ns / 1e9,
        "delivered_bytes": loss.delivered_bytes,
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
    text = f"To {forwarding['next']}, {origin}: {nodes}"
    if route["reason"]:
        text += f"; rejected: {route['reason']}"
    elif route["carried_bytes"] < answer["consumption_bytes"]:
        text += f"; it carries at most {route['carried_bytes']:,} B of the bundle"
    else:
        text += f", projected arrival at {_time(route['projected_ns'] / 1e9)} s"
    if route["confidence"] < 1:
        text += f"; confidence {100 * route['confidence']:.3g} %"
    return [f"{text}.", *_contact_tables([("", route)], losses)]


def _describe_fragments(answer: Mapping[str, Any], losses: Sequence[ContactLoss]) -> list[str | TextTable]:
    routes = [(str(number), fragment["route"]) for number, fragment in enumerate(answer["fragments"], 1)]
    rows = [
        {
            "fragment": number,
            "size, B": fragment["bytes"],
            "route": " - ".join(_nodes(route)),
            "of each contact, B": route["carried_bytes"],
            "arrival, s": _time(route["projected_ns"] / 1e9),
        }
        for (number, route), fragment in zip(routes, answer["fragments"], strict=True)
    ]
    return ["", TextTable("Fragments", rows), *_contact_tables(routes, losses)]


def _contact_tables(
    routes: Sequence[tuple[str, Mapping[str, Any]]], losses: Sequence[ContactLoss]
) -> list[str | TextTable]:
    """Return the tables of the contacts of routes: times, and volumes."""
    by_contact = {contact_key(loss.hop): loss for loss in losses}
    times, volumes = [], []
    for label, hop in ((label, hop) for label, route in routes for hop in route["contacts"]):
        loss = by_contact.get(contact_key(hop))
        fragment = {"fragment": label} if label else {}
        delay = None if loss is None or loss.delay_ns is None else _significant(loss.delay_ns / 1e9)
        times.append(
            {
                **fragment,
                "contact": hop["declared_at"],
                "from": hop["from"],
                "to": hop["to"],
                "open, s": f"{_time(hop['start_ns'] / 1e9)} to {_time(hop['stop_ns'] / 1e9)}",
                "first byte, s": _time(hop["first_ns"] / 1e9),
                "arrival, s": _time(hop["arrival_ns"] / 1e9),
                **({"without it, s": _without(loss), "delay, s": delay} if losses else {}),
            }
        )
        volumes.append(
            {
                **fragment,
                "contact": hop["declared_at"],
                "last byte, s": _time(hop["last_ns"] / 1e9),
                "light time, s": _time((hop["owlt_ns"] + hop["margin_ns"]) / 1e9),
                "queued before it, B": hop["ahead_bytes"],
                "free, B": hop["available_bytes"],
                "effective end, s": _time(hop["effective_stop_ns"] / 1e9),
                "volume limit, B": hop["limit_bytes"],
            }
        )
    title = "Contacts of the route" if len(routes) == 1 else "Contacts of the routes"
    title += "; arrival and delay without each" if losses else ""
    return ["", TextTable(title, times), "", TextTable("Transmission and volume", volumes)]


def _without(loss: ContactLoss | None) -> str | None:
    """Return what arrives without a contact: an instant, or less than with it."""
    if loss is None or (loss.arrival_ns is None and not loss.delivered_bytes):
        return "no route"
    return f"only {_size(loss.delivered_bytes)}" if loss.arrival_ns is None else _time(loss.arrival_ns / 1e9)


def _size(bytes_: int) -> str:
    """Format a size to four significant digits; a small one in full."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if bytes_ >= 10 * unit or (unit < 10**9 and bytes_ >= unit):
            return f"{bytes_ / unit:,.4g} {name}"
    return f"{bytes_} B"


def _significant(seconds: float) -> str:
    return f"{seconds:.4g}" if seconds < 1e4 else f"{seconds:.0f}"


def _time(seconds: float | None) -> str | None:
    """Format seconds to the millisecond, without trailing zeros."""
    return None if seconds is None else f"{seconds:.3f}".rstrip("0").rstrip(".")


def _nodes(route: Mapping[str, Any]) -> list[str]:
    hops = route["contacts"]
    return [hops[0]["from"], *(hop["to"] for hop in hops)] if hops else []


def _hop_key(route: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [(hop["from"], hop["to"], hop["declared_at"], hop["start_ns"]) for hop in route["contacts"]]


def _describe_alternative(route: Mapping[str, Any], chosen: list[Any], needed: int) -> dict[str, Any]:
    carries_all = route["carried_bytes"] == needed
    if route["reason"]:
        clause = f" ({route['clause']})" if route["clause"] else ""
        verdict = f"no: {route['reason']}{clause}"
    else:
        verdict = "selected" if _hop_key(route) in chosen else "candidate"
        verdict += "" if carries_all else f" for a part of the bundle, at most {route['carried_bytes']:,} B"
    return {
        "nodes": _nodes(route),
        "contacts": [hop["declared_at"] for hop in route["contacts"]],
        "best_case_s": route["best_case_ns"] / 1e9,
        "projected_s": route["projected_ns"] / 1e9 if carries_all or not route["reason"] else None,
        "termination_s": route["termination_ns"] / 1e9,
        "carried_bytes": route["carried_bytes"],
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
        "carried_bytes": route["carried_bytes"],
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
