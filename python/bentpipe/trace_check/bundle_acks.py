"""Checks of dtnperf clients, acknowledgements and status reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from bentpipe.trace_check.bundle_trace import BundleTrace, Event, Id, Links, bundle_id, node_of
from bentpipe.trace_check.handovers import Spec
from bentpipe.trace_check.trace import Finding, nanoseconds

__all__ = ["check_acknowledgements"]

_MARKS = ("received", "forwarded", "delivered", "deleted")
_CODES = {
    "lifetime expired": 1, "transmission canceled": 3, "depleted storage": 4, "destination endpoint unavailable": 5,
    "no known route": 6, "no timely contact": 7, "block unintelligible": 8, "hop limit exceeded": 9,
    "block unsupported": 11, "missing security operation": 12, "unknown security operation": 13,
    "unexpected security operation": 14, "failed security operation": 15, "conflicting security operation": 16,
}  # fmt: skip
"""Reason codes (RFC 9171 section 9.5, RFC 9172 section 11.3)."""
_MIN_PAYLOAD = 16
"""Payload of the smallest bundle of a client in bytes."""


def check_acknowledgements(trace: BundleTrace) -> Iterator[Finding]:
    """Check all clients, acknowledgements and status reports."""
    for name, perf in trace.clients.items():
        yield from _check_client(trace, name, perf)
    yield from _check_reports(trace)


def _check_client(trace: BundleTrace, name: str, perf: Spec) -> Iterator[Finding]:
    client_events = [
        event for event in trace.events if event.id.source == name and event.node == perf["client"]
    ]
    generated = [event for event in client_events if event.action == "generated"]
    yield from _check_amount(generated, name, perf)
    stops = next(node.get("outages", []) for node in trace.dtn["nodes"] if node["name"] == perf["client"])
    yield from _check_pace(client_events, generated, name, perf, stops)
    yield from _check_acknowledged(trace, client_events, name, perf)


def _check_amount(generated: list[Event], name: str, perf: Spec) -> Iterator[Finding]:
    amount, size, start = perf["amount"], int(perf["payload_bytes"]), int(perf["start_ns"])
    total = 0
    for event in generated:
        expected_bytes = size
        if amount["kind"] == "data":
            expected_bytes = max(_MIN_PAYLOAD, min(size, int(amount["bytes"]) - total))
        elif not start <= event.instant < start + int(amount["duration_ns"]):
            yield Finding(
                "client load",
                name,
                f"{event.id} at {event.instant} ns, outside its duration",
            )
        total += event.bytes
        if event.bytes != expected_bytes or (
            amount["kind"] == "data" and total >= int(amount["bytes"]) + _MIN_PAYLOAD
        ):
            text = f"{event.id} has {event.bytes} B, expected {expected_bytes}; {total} B by then"
            yield Finding("client load", name, text)


def _check_pace(
    client_events: list[Event], generated: list[Event], name: str, perf: Spec, stops: list[Spec]
) -> Iterator[Finding]:
    pace, start = perf["pace"], int(perf["start_ns"])
    if pace["kind"] == "rate":
        for number, event in enumerate(generated):
            bits = number * int(perf["payload_bytes"]) * 8 * 10**9
            due = start + bits // int(pace["bit_s"])
            # A bundle that is due while its node is stopped is sent at the restart.
            restarts = (
                stop["until_ns"] for stop in stops if stop["at_ns"] <= due < (stop["until_ns"] or due + 1)
            )
            due = next(restarts, None) or due
            if abs(event.instant - due) > 2:
                text = f"{event.id} at {event.instant} ns, expected {due} ns"
                yield Finding("client rate", name, text)
        return
    unacknowledged = 0
    for event in client_events:
        unacknowledged += (event.action == "generated") - (event.action == "acknowledged")
        if unacknowledged > int(pace["bundles"]):
            text = (
                f"{unacknowledged} bundles are not acknowledged at {event.instant} ns, of {pace['bundles']}"
            )
            yield Finding("client window", name, text)
            return


def _check_acknowledged(
    trace: BundleTrace, client_events: list[Event], name: str, perf: Spec
) -> Iterator[Finding]:
    """Check that each bundle is acknowledged once, after its delivery, when an acknowledgement arrived."""
    links = Links(trace.spec["graph"])
    receiver = trace.nodes.get(node_of(next((event.destination for event in client_events), "")), "")
    deliveries = {
        event.id: event
        for event in trace.events
        if event.action == "delivered" and event.node == receiver and event.id.source == name
    }
    arrivals = Counter(
        event.instant
        for event in trace.events
        if event.action == "delivered" and event.kind == "acknowledgement" and event.destination == name
    )
    sizes = {event.id: event.bytes for event in client_events if event.action == "generated"}
    counts: Counter[int] = Counter()
    acknowledged: set[Id] = set()
    for event in client_events:
        if event.action != "acknowledged":
            continue
        counts[event.instant] += 1
        delivery = deliveries.get(event.id)
        min_time = 0 if receiver in ("", perf["client"]) else links.min_time(receiver, perf["client"])
        if delivery is None or event.instant < delivery.instant + min_time or event.id in acknowledged:
            text = f"{event.id} at {event.instant} ns, " + (
                "never delivered" if delivery is None else f"delivered at {delivery.instant} ns"
            )
            yield Finding("acknowledgements", name, text)
        if event.bytes != sizes.get(event.id):
            text = f"{event.id} is acknowledged with {event.bytes} B, generated with {sizes.get(event.id)} B"
            yield Finding("acknowledgements", name, text)
        acknowledged.add(event.id)
    for instant in sorted((counts | arrivals).keys()):
        if counts[instant] != arrivals[instant]:
            text = f"{counts[instant]} bundles acknowledged at {instant} ns, found {arrivals[instant]} acknowledgements"
            yield Finding("acknowledgements", name, text)


def _check_reports(trace: BundleTrace) -> Iterator[Finding]:
    """Check that a status report was requested, arrived as a bundle, and reports an event of that millisecond."""
    occurrences: dict[tuple[str, Id, str], list[Event]] = defaultdict(list)
    for event in trace.events:
        if event.action in _MARKS:
            occurrences[event.node, event.id, event.action].append(event)
    epoch = int(trace.dtn["epoch_ms"])
    for row in trace.reports:
        instant, bundle, node = (
            nanoseconds(row["time_s"]) or 0,
            bundle_id(row),
            trace.nodes.get(node_of(row["report_source"])),
        )
        report = Id(row["report_source"], int(row["report_created_ms"]), int(row["report_sequence"]), None)
        if not any(event.instant == instant for event in occurrences[row["node"], report, "delivered"]):
            yield Finding(
                "status reports",
                row["node"],
                f"the report {report} of {bundle} was not delivered at {instant} ns",
            )
        client = trace.clients.get(bundle.source)
        for mark in _MARKS:
            time = row[f"{mark}_ms"]
            if time is None:
                continue
            if client is not None and not client["reports"][mark]:
                yield Finding(
                    "status reports", row["node"], f"no request for a report that {bundle} was {mark}"
                )
            # A node reports reception when the bundle is durable.
            storage_delay = next(
                (event.get("store_delay_ns", 0) for event in trace.dtn["nodes"] if event["name"] == node), 0
            )
            delay = storage_delay if mark == "received" else 0
            times = occurrences[node or "", bundle, mark]
            candidates = [
                event for event in times if epoch + (event.instant + delay) // 1_000_000 == int(time)
            ]
            matching = [
                event
                for event in candidates
                if mark != "deleted" or _CODES.get(event.reason, 0) == int(row["reason"])
            ]
            if not matching:
                text = f"{bundle} was not {mark} at {node} at {int(time) - epoch} ms (reason {row['reason']})"
                yield Finding("status reports", row["node"], text)
