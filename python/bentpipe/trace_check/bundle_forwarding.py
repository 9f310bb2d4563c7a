"""Checks of the forwarding of bundles: planned routes, transmissions within contacts, and times of links."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from bentpipe.trace_check.bundle_trace import BundleTrace, Contact, Event, Id, Links, bundle_id, contacts
from bentpipe.trace_check.trace import Finding, nanoseconds

__all__ = ["check_forwarding"]

_CONFIRMING = ("quiccl", "tcpcl")
"""Convergence layers in which the node of the neighbour confirms the acceptance."""


def check_forwarding(trace: BundleTrace) -> Iterator[Finding]:
    """Check every bundle between every two nodes."""
    added = contacts(trace)
    yield from _check_routes(trace, added)
    yield from _check_transmissions(trace, added)
    yield from _check_links(trace, Links(trace.spec["graph"]))


def _check_routes(trace: BundleTrace, added: list[Contact]) -> Iterator[Finding]:
    """Check that each planned route is a chain of known contacts, not faster than the light time of the plan."""
    light_times = _light_times(trace)
    by_name: dict[str, list[Contact]] = defaultdict(list)
    for contact in added:
        by_name[contact.name].append(contact)
    for row in trace.routes:
        decision_time, arrival = nanoseconds(row["time_s"]) or 0, nanoseconds(row["arrival_s"])
        if row["decision"] != "planned":
            continue
        node, earliest, is_closed = row["node"], decision_time, False
        for position, name in enumerate(row["contacts"].split(", ")):
            hop = next(
                (c for c in by_name[name] if c.from_ == node and c.added <= decision_time <= c.removed), None
            )
            if hop is None or (position == 0 and hop.to != row["next"]):
                text = f"{bundle_id(row)} at {decision_time} ns: {name} does not start at {node}"
                yield Finding("planned routes", row["node"], text)
                break
            earliest = max(earliest, hop.start)
            is_closed |= earliest >= hop.stop
            earliest += light_times.get((hop.from_, hop.to), 0)
            node = hop.to
        else:
            if node != row["to"] or is_closed or arrival is None or arrival < earliest:
                text = (
                    f"{bundle_id(row)} at {decision_time} ns: {row['to']} at {arrival} ns, expected "
                    f"{node} at {earliest} ns"
                )
                yield Finding("planned routes", row["node"], text)


def _light_times(trace: BundleTrace) -> dict[tuple[str, str], int]:
    """Return the minimum one-way light time of each pair in the plan in ns."""
    ranges = trace.dtn["plan"].get("ranges", [])
    min_time: dict[tuple[str, str], int] = {}
    for light_range in ranges:
        pairs = [(light_range["from"], light_range["to"])]
        pairs += [(light_range["to"], light_range["from"])] if light_range.get("implies_reverse") else []
        for pair in pairs:
            min_time[pair] = min(int(light_range["owlt_ns"]), min_time.get(pair, int(light_range["owlt_ns"])))
    return min_time


def _check_transmissions(trace: BundleTrace, added: list[Contact]) -> Iterator[Finding]:
    """Check that each transmission follows a decision and happens during a contact."""
    decided: dict[tuple[str, Id, str], int] = {}
    for row in trace.routes:
        if row["decision"] != "kept":
            instant = nanoseconds(row["time_s"]) or 0
            key = (row["node"], bundle_id(row), row["next"])
            decided[key] = min(instant, decided.get(key, instant))
    by_pair: dict[tuple[str, str], list[Contact]] = defaultdict(list)
    for contact in added:
        by_pair[contact.from_, contact.to].append(contact)
    for event in trace.events:
        if event.action != "sent":
            continue
        if decided.get((event.node, event.id.whole, event.peer), trace.end + 1) > event.instant:
            text = f"{event.id} was sent to {event.peer} at {event.instant} ns without a decision"
            yield Finding("routing decisions", event.node, text)
        # A contact that changes at this instant may count or not.
        current = [
            contact
            for contact in by_pair[event.node, event.peer]
            if contact.added <= event.instant <= contact.removed
        ]
        certain = [
            contact
            for contact in current
            if contact.added < event.instant < contact.removed or contact.added == 0
        ]
        if certain and not any(contact.start <= event.instant < contact.stop for contact in current):
            text = f"{event.id} was sent to {event.peer} at {event.instant} ns, without a contact"
            yield Finding("contacts", event.node, text)


def _check_links(trace: BundleTrace, links: Links) -> Iterator[Finding]:
    """Check that a received bundle was sent early enough, and that a forwarded one was received."""
    sent: dict[tuple[str, str, Id], list[int]] = defaultdict(list)
    received: dict[tuple[str, str, Id], list[int]] = defaultdict(list)
    for event in trace.events:
        if event.action == "sent":
            sent[event.node, event.peer, event.id].append(event.instant)
        elif event.action == "received":
            received[event.peer, event.node, event.id].append(event.instant)
    count: Counter[tuple[str, str, Id]] = Counter()
    confirms = _confirmed_pairs(trace)
    for event in trace.events:
        if event.action == "received":
            crossing = (event.peer, event.node, event.id)
            min_time = links.min_time(event.peer, event.node, event.bytes)
            count[crossing] += 1
            if bisect_right(sent[crossing], event.instant - min_time) < count[crossing]:
                text = f"{event.id} of {event.bytes} B arrived from {event.peer} at {event.instant} ns"
                yield Finding(
                    "transfer time",
                    event.node,
                    f"{text}, sent {_format_time(sent[crossing], min_time)}",
                )
        elif event.action == "forwarded" and confirms.get((event.node, event.peer)):
            return_time = links.min_time(event.peer, event.node)
            crossing = (event.node, event.peer, event.id)
            if not bisect_right(received[crossing], event.instant - return_time):
                text = f"{event.id} was forwarded to {event.peer} at {event.instant} ns, received "
                text += f"{_format_time(received[crossing], return_time)}"
                yield Finding("forwarded bundles", event.node, text)
    yield from _check_deliveries(trace, links)


def _format_time(times: list[int], min_time: int) -> str:
    sent = f"at {times[0]} ns" if times else "never"
    return f"{sent}; the links take {min_time} ns"


def _check_deliveries(trace: BundleTrace, links: Links) -> Iterator[Finding]:
    """Check that a delivery takes at least the time of the links from the source."""
    generated: dict[Id, Event] = {}
    for event in trace.events:
        if event.action == "generated":
            generated[event.id] = event
        elif event.action == "delivered" and (origin := generated.get(event.id)) is not None:
            min_time = (
                links.min_time(origin.node, event.node, event.bytes) if origin.node != event.node else 0
            )
            if event.instant < origin.instant + min_time:
                text = (
                    f"{event.id} of {origin.instant} ns was delivered at {event.instant} ns; the links "
                    f"take {min_time} ns"
                )
                yield Finding("transfer time", event.node, text)


def _confirmed_pairs(trace: BundleTrace) -> dict[tuple[str, str], bool]:
    """Return for each pair of nodes whether every layer between them confirms the acceptance."""
    flows: dict[str, Any] = {flow["name"]: flow for flow in trace.spec["flows"]}
    result: dict[tuple[str, str], bool] = {}
    for link in trace.dtn["links"]:
        nodes = flows[link["flow"]]["client"], flows[link["flow"]]["server"]
        for pair in (nodes, nodes[::-1]):
            layer = link["cla"]
            confirms = layer["kind"] in _CONFIRMING or (
                layer["kind"] == "ltp" and layer.get("colour", "red") == "red"
            )
            result[pair] = confirms and result.get(pair, True)
    return result
