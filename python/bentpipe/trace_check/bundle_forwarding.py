"""Bundles on their way: decided on, sent while there is a contact, no sooner there than links can carry them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from bentpipe.trace_check.bundle_trace import Contact, Event, Id, Links, Told, contacts, identity
from bentpipe.trace_check.trace import Finding, nanoseconds

__all__ = ["moves"]

_ANSWERED = ("quiccl", "tcpcl")
"""Layers whose acceptance comes from the neighbour's node."""


def moves(told: Told) -> Iterator[Finding]:
    """Every bundle between every two nodes."""
    known = contacts(told)
    yield from _decided(told, known)
    yield from _sent(told, known)
    yield from _carried(told, Links(told.spec["graph"]))


def _decided(told: Told, known: list[Contact]) -> Iterator[Finding]:
    """A planned route is a chain of contacts that nodes know of, no quicker than the plan's light."""
    light = _light(told)
    said: dict[str, list[Contact]] = defaultdict(list)
    for one in known:
        said[one.at].append(one)
    for row in told.routes:
        at, arrival = nanoseconds(row["time_s"]) or 0, nanoseconds(row["arrival_s"])
        if row["decision"] != "planned":
            continue
        node, when, closed = row["node"], at, False
        for place, name in enumerate(row["contacts"].split(", ")):
            leg = next((c for c in said[name] if c.from_ == node and c.known <= at <= c.forgotten), None)
            if leg is None or (place == 0 and leg.to != row["next"]):
                text = f"{identity(row)} at {at} ns: {name} does not lead on from {node}"
                yield Finding("routes are of the plan", row["node"], text)
                break
            when = max(when, leg.start)
            closed |= when >= leg.stop
            when += light.get((leg.from_, leg.to), 0)
            node = leg.to
        else:
            if node != row["to"] or closed or arrival is None or arrival < when:
                text = f"{identity(row)} for {row['to']} at {at} ns: {arrival} ns, and at {node} at {when} ns"
                yield Finding("routes are of the plan", row["node"], text)


def _light(told: Told) -> dict[tuple[str, str], int]:
    """The least light time that the plan has for each pair."""
    ranges = told.dtn["plan"].get("ranges", [])
    least: dict[tuple[str, str], int] = {}
    for one in ranges:
        ways = [(one["from"], one["to"])]
        ways += [(one["to"], one["from"])] if one.get("implies_reverse") else []
        for way in ways:
            least[way] = min(int(one["owlt_ns"]), least.get(way, int(one["owlt_ns"])))
    return least


def _sent(told: Told, known: list[Contact]) -> Iterator[Finding]:
    """What is sent was decided on, and is sent while there is a contact."""
    decided: dict[tuple[str, Id, str], int] = {}
    for row in told.routes:
        if row["decision"] != "kept":
            at = nanoseconds(row["time_s"]) or 0
            key = (row["node"], identity(row), row["next"])
            decided[key] = min(at, decided.get(key, at))
    pairs: dict[tuple[str, str], list[Contact]] = defaultdict(list)
    for one in known:
        pairs[one.from_, one.to].append(one)
    for event in told.events:
        if event.what != "sent":
            continue
        if decided.get((event.node, event.id.whole, event.peer), told.end + 1) > event.at:
            text = f"{event.id} was sent to {event.peer} at {event.at} ns without a decision"
            yield Finding("sent as decided", event.node, text)
        # What changes at this instant may count or not.
        now = [one for one in pairs[event.node, event.peer] if one.known <= event.at <= one.forgotten]
        sure = [one for one in now if one.known < event.at < one.forgotten or one.known == 0]
        if sure and not any(one.start <= event.at < one.stop for one in now):
            text = f"{event.id} was sent to {event.peer} at {event.at} ns, without a contact"
            yield Finding("sent while there is a contact", event.node, text)


def _carried(told: Told, links: Links) -> Iterator[Finding]:
    """What comes was sent, early enough; what a neighbour is said to have has come there."""
    sent: dict[tuple[str, str, Id], list[int]] = defaultdict(list)
    came: dict[tuple[str, str, Id], list[int]] = defaultdict(list)
    for event in told.events:
        if event.what == "sent":
            sent[event.node, event.peer, event.id].append(event.at)
        elif event.what == "received":
            came[event.peer, event.node, event.id].append(event.at)
    taken: Counter[tuple[str, str, Id]] = Counter()
    answered = _layers(told)
    for event in told.events:
        if event.what == "received":
            way = (event.peer, event.node, event.id)
            least = links.least(event.peer, event.node, event.bytes)
            taken[way] += 1
            if bisect_right(sent[way], event.at - least) < taken[way]:
                text = f"{event.id} of {event.bytes} B came from {event.peer} at {event.at} ns"
                yield Finding(
                    "no sooner than links carry", event.node, f"{text}, sent {_when(sent[way], least)}"
                )
        elif event.what == "forwarded" and answered.get((event.node, event.peer)):
            back = links.least(event.peer, event.node)
            way = (event.node, event.peer, event.id)
            if not bisect_right(came[way], event.at - back):
                text = f"{event.peer} was said to have {event.id} at {event.at} ns; it came {_when(came[way], back)}"
                yield Finding("forwarded is received", event.node, text)
    yield from _delivered(told, links)


def _when(times: list[int], least: int) -> str:
    found = f"at {times[0]} ns" if times else "never"
    return f"{found}; it takes {least} ns"


def _delivered(told: Told, links: Links) -> Iterator[Finding]:
    """From the source to the destination it takes what links take, however it went."""
    made: dict[Id, Event] = {}
    for event in told.events:
        if event.what == "generated":
            made[event.id] = event
        elif event.what == "delivered" and (first := made.get(event.id)) is not None:
            least = links.least(first.node, event.node, event.bytes) if first.node != event.node else 0
            if event.at < first.at + least:
                text = f"{event.id} of {first.at} ns was delivered at {event.at} ns; it takes {least} ns"
                yield Finding("no sooner than links carry", event.node, text)


def _layers(told: Told) -> dict[tuple[str, str], bool]:
    """Whether every layer between two nodes answers for the neighbour's node."""
    flows: dict[str, Any] = {flow["name"]: flow for flow in told.spec["flows"]}
    found: dict[tuple[str, str], bool] = {}
    for link in told.dtn["links"]:
        ends = flows[link["flow"]]["client"], flows[link["flow"]]["server"]
        for way in (ends, ends[::-1]):
            layer = link["layer"]
            answers = layer["kind"] in _ANSWERED or (
                layer["kind"] == "ltp" and layer.get("colour", "red") == "red"
            )
            found[way] = answers and found.get(way, True)
    return found
