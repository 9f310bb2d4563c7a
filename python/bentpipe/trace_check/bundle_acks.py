"""Clients of dtnperf send what they were asked for; acknowledgements and status reports say what happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from bentpipe.trace_check.bundle_trace import Event, Id, Links, Told, identity, node_of
from bentpipe.trace_check.handovers import Spec
from bentpipe.trace_check.trace import Finding, nanoseconds

__all__ = ["answers"]

_MARKS = ("received", "forwarded", "delivered", "deleted")
_CODES = {
    "lifetime expired": 1, "transmission canceled": 3, "depleted storage": 4, "destination endpoint unavailable": 5,
    "no known route": 6, "no timely contact": 7, "block unintelligible": 8, "hop limit exceeded": 9,
    "block unsupported": 11, "missing security operation": 12, "unknown security operation": 13,
    "unexpected security operation": 14, "failed security operation": 15, "conflicting security operation": 16,
}  # fmt: skip
"""RFC 9171 section 9.5, RFC 9172 section 11.3."""
_LEAST = 16
"""Payload of the least bundle of a client."""


def answers(told: Told) -> Iterator[Finding]:
    """All clients, acknowledgements and reports."""
    for name, perf in told.clients.items():
        yield from _client(told, name, perf)
    yield from _reports(told)


def _client(told: Told, name: str, perf: Spec) -> Iterator[Finding]:
    own = [event for event in told.events if event.id.source == name and event.node == perf["client"]]
    made = [event for event in own if event.what == "generated"]
    yield from _amount(made, name, perf)
    stops = next(node.get("stops", []) for node in told.dtn["nodes"] if node["name"] == perf["client"])
    yield from _pace(own, made, name, perf, stops)
    yield from _acknowledged(told, own, name, perf)


def _amount(made: list[Event], name: str, perf: Spec) -> Iterator[Finding]:
    amount, size, start = perf["amount"], int(perf["payload_bytes"]), int(perf["start_ns"])
    total = 0
    for event in made:
        most = size
        if amount["kind"] == "data":
            most = max(_LEAST, min(size, int(amount["bytes"]) - total))
        elif not start <= event.at < start + int(amount["duration_ns"]):
            yield Finding(
                "clients send what they are to", name, f"{event.id} at {event.at} ns, after its time"
            )
        total += event.bytes
        if event.bytes != most or (amount["kind"] == "data" and total >= int(amount["bytes"]) + _LEAST):
            text = f"{event.id} has {event.bytes} B, expected {most}; {total} B by then"
            yield Finding("clients send what they are to", name, text)


def _pace(own: list[Event], made: list[Event], name: str, perf: Spec, stops: list[Spec]) -> Iterator[Finding]:
    pace, start = perf["pace"], int(perf["start_ns"])
    if pace["kind"] == "rate":
        for number, event in enumerate(made):
            bits = number * int(perf["payload_bytes"]) * 8 * 10**9
            due = start + bits // int(pace["bit_s"])
            # What is due while its node is stopped is sent as that goes on.
            ends = (
                stop["until_ns"] for stop in stops if stop["at_ns"] <= due < (stop["until_ns"] or due + 1)
            )
            due = next(ends, None) or due
            if abs(event.at - due) > 2:
                text = f"{event.id} at {event.at} ns, expected {due} ns"
                yield Finding("clients keep their rate", name, text)
        return
    open_ = 0
    for event in own:
        open_ += (event.what == "generated") - (event.what == "acknowledged")
        if open_ > int(pace["bundles"]):
            text = f"{open_} bundles are not acknowledged at {event.at} ns, of {pace['bundles']}"
            yield Finding("clients keep their window", name, text)
            return


def _acknowledged(told: Told, own: list[Event], name: str, perf: Spec) -> Iterator[Finding]:
    """A bundle is acknowledged once, after it was delivered, by an acknowledgement that came at that instant."""
    links = Links(told.spec["graph"])
    far = told.nodes.get(node_of(next((event.destination for event in own), "")), "")
    there = {
        event.id: event
        for event in told.events
        if event.what == "delivered" and event.node == far and event.id.source == name
    }
    came = Counter(
        event.at
        for event in told.events
        if event.what == "delivered" and event.kind == "acknowledgement" and event.destination == name
    )
    sizes = {event.id: event.bytes for event in own if event.what == "generated"}
    said: Counter[int] = Counter()
    seen: set[Id] = set()
    for event in own:
        if event.what != "acknowledged":
            continue
        said[event.at] += 1
        first = there.get(event.id)
        least = 0 if far in ("", perf["client"]) else links.least(far, perf["client"])
        if first is None or event.at < first.at + least or event.id in seen:
            text = (
                f"{event.id} at {event.at} ns, delivered {'never' if first is None else f'at {first.at} ns'}"
            )
            yield Finding("acknowledged is delivered", name, text)
        if event.bytes != sizes.get(event.id):
            text = f"{event.id} is acknowledged with {event.bytes} B, generated with {sizes.get(event.id)} B"
            yield Finding("acknowledged is delivered", name, text)
        seen.add(event.id)
    for at in sorted((said | came).keys()):
        if said[at] != came[at]:
            text = f"{came[at]} acknowledgements came at {at} ns, and {said[at]} bundles were acknowledged"
            yield Finding("acknowledged is delivered", name, text)


def _reports(told: Told) -> Iterator[Finding]:
    """A status report was asked for, came as a bundle, and says what happened at its node at that millisecond."""
    happened: dict[tuple[str, Id, str], list[Event]] = defaultdict(list)
    for event in told.events:
        if event.what in _MARKS:
            happened[event.node, event.id, event.what].append(event)
    epoch = int(told.dtn["epoch_ms"])
    for row in told.reports:
        at, id_, node = (
            nanoseconds(row["time_s"]) or 0,
            identity(row),
            told.nodes.get(node_of(row["report_source"])),
        )
        own = Id(row["report_source"], int(row["report_created_ms"]), int(row["report_sequence"]), None)
        if not any(one.at == at for one in happened[row["node"], own, "delivered"]):
            yield Finding(
                "reports are true", row["node"], f"the report {own} of {id_} was not delivered at {at} ns"
            )
        client = told.clients.get(id_.source)
        for mark in _MARKS:
            time = row[f"{mark}_ms"]
            if time is None:
                continue
            if client is not None and not client["reports"][mark]:
                yield Finding("reports are true", row["node"], f"nobody asked whether {id_} was {mark}")
            # What is received is reported when it is durable.
            stored = next((one.get("store_ns", 0) for one in told.dtn["nodes"] if one["name"] == node), 0)
            later = stored if mark == "received" else 0
            times = happened[node or "", id_, mark]
            found = [one for one in times if epoch + (one.at + later) // 1_000_000 == int(time)]
            good = [
                one for one in found if mark != "deleted" or _CODES.get(one.reason, 0) == int(row["reason"])
            ]
            if not good:
                text = f"{id_} was not {mark} at {node} at {int(time) - epoch} ms (reason {row['reason']})"
                yield Finding("reports are true", row["node"], text)
