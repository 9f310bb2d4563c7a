"""Cost of the loss of each contact of a route: the arrival of the bundle by the plan without this contact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bentpipe.dtn.contact_plan import ignore_step
from bentpipe.dtn.route_query import ask, pair
from bentpipe.dtn.summary import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bentpipe.dtn.contact_plan import CheckedPlan
    from bentpipe.dtn.route_query import BundleQuery

__all__ = [
    "Arrival",
    "ContactLoss",
    "contact_key",
    "earliest_arrival",
    "is_fragmented",
    "route_without_contacts",
]


@dataclass(frozen=True)
class Arrival:
    """Projected arrival of the earliest copy of a bundle, or of all its fragments."""

    node: str
    """The destination, or the next hop of a static route."""
    time_ns: int
    hops: tuple[Mapping[str, Any], ...]
    """Contacts of its routes, as the engine describes them."""
    delivered_bytes: int
    """Size of the bundle, or of the fragments that arrive."""
    rest_bytes: int = 0
    """Part of the bundle that no route carries."""


@dataclass(frozen=True)
class ContactLoss:
    """Arrival without one contact of the route; the node knows the loss in advance."""

    hop: Mapping[str, Any]
    """The lost contact."""
    arrival_ns: int | None
    """None: less arrives without it."""
    delay_ns: int | None
    """Delay against the arrival with the contact."""
    delivered_bytes: int = 0
    """Bytes that arrive without it."""
    alternative: tuple[Mapping[str, Any], ...] = ()
    """Contacts of the route without it."""


def contact_key(hop: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return what identifies a contact: contacts of a direction do not overlap."""
    return hop["from"], hop["to"], hop["start_ns"]


def is_fragmented(answer: Mapping[str, Any]) -> bool:
    """Return whether the node sends the bundle in fragments, or only a part of it."""
    return bool(answer["fragments"]) and answer["fragments"][0]["bytes"] < answer["bytes"]


def earliest_arrival(answer: Mapping[str, Any]) -> Arrival | None:
    """Return the earliest projected arrival of the forwarded copies; None if no contact carries one.

    A fragmented bundle arrives with its last fragment.
    """
    if is_fragmented(answer):
        routes = [fragment["route"] for fragment in answer["fragments"]]
        delivered = sum(fragment["bytes"] for fragment in answer["fragments"])
        return Arrival(
            routes[0]["contacts"][-1]["to"],
            max(route["projected_ns"] for route in routes),
            tuple(hop for route in routes for hop in route["contacts"]),
            delivered,
            answer["bytes"] - delivered,
        )
    routes = [forwarding["route"] for forwarding in answer["forwarded"] if forwarding["route"] is not None]
    arrivals = [
        Arrival(route["contacts"][-1]["to"], route["projected_ns"], tuple(route["contacts"]), answer["bytes"])
        for route in routes
        if route["reason"] is None and route["carried_bytes"] == answer["consumption_bytes"]
    ]
    return min(arrivals, key=lambda arrival: arrival.time_ns, default=None)


def route_without_contacts(
    plan: CheckedPlan,
    bundle: BundleQuery,
    answer: Mapping[str, Any],
    step: Callable[[str], None] = ignore_step,
) -> tuple[ContactLoss, ...]:
    """Return the cost of the loss of each contact of the forwarded routes.

    Args:
        plan: contact plan.
        bundle: query.
        answer: answer of the engine to the query.
        step: callback at the begin of each step.

    Raises:
        ScenarioError: invalid query.
    """
    base = earliest_arrival(answer)
    if base is None:
        return ()
    sent = answer["fragments"] if is_fragmented(answer) else answer["forwarded"]
    routes = [one["route"] for one in sent if one["route"] is not None]
    hops = {contact_key(hop): hop for route in routes for hop in route["contacts"]}
    losses = []
    for number, hop in enumerate(hops.values(), 1):
        step(f"searching routes without contact {number} of {len(hops)}")
        found = earliest_arrival(ask(*_remove_contact(plan, bundle, hop)))
        # The next hop of a default static route is no arrival at the destination.
        if found is None or found.node != base.node:
            losses.append(ContactLoss(hop, None, None))
        elif found.delivered_bytes < base.delivered_bytes:
            losses.append(ContactLoss(hop, None, None, found.delivered_bytes, found.hops))
        else:
            delay = found.time_ns - base.time_ns
            losses.append(ContactLoss(hop, found.time_ns, delay, found.delivered_bytes, found.hops))
    return tuple(losses)


def _remove_contact(
    plan: CheckedPlan, bundle: BundleQuery, hop: Mapping[str, Any]
) -> tuple[CheckedPlan, BundleQuery]:
    """Return plan and query without a contact and without its booked volume."""
    contacts = [one for one in plan.spec["contacts"] if contact_key(one) != contact_key(hop)]
    declared = {one["declared_at"] for one in contacts}
    lost = {hop["declared_at"]} - declared
    booked = tuple(text for text in bundle.booked if pair("--booked", text, "")[0] not in lost)
    spec = {**plan.spec, "contacts": contacts, "nodes": nodes(plan)}
    return replace(plan, spec=spec), replace(bundle, booked=booked, alternatives=0)
