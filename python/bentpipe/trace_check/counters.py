"""Checks between stages: paths through the graph, conservation of packets and bytes, and counters of the engine."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from bentpipe.trace_check.handovers import Routing
from bentpipe.trace_check.trace import Crossing, Direction, Finding, Trace, nanoseconds

if TYPE_CHECKING:
    import polars as pl

__all__ = ["check_flows", "check_groups", "check_link_counters", "check_node_counters", "check_paths"]

Events = list[tuple[int, int]]
"""Instants in ns of the events of packets, each with the bytes of the packet."""

CAUSES = ("loss", "overflow", "aqm", "outage", "retry_limit", "no_route")


def check_paths(trace: Trace) -> Iterator[Finding]:
    """Check that each packet follows valid routes from its first node to its last, without a gap, and ends once."""
    routing = Routing(trace.spec["graph"])
    for number, packet in enumerate(trace.sent):
        flow, destination, crossings = packet["flow"], packet["to_node"], trace.paths.get(number, [])
        node, sent = packet["from_node"], round(packet["sent_s"] * 1e9)
        if not crossings:
            had_no_route = packet["dropped"] == f"{node}: no_route" and not routing.can_forward(
                sent, node, destination
            )
            if node in trace.node_buffers or not had_no_route or packet["received_s"] is not None:
                yield Finding("byte conservation", flow, f"packet {number} was sent and has no steps")
            continue
        instant: int | None = sent
        for crossing in crossings:
            direction = trace.find_direction(crossing.direction)
            if direction is None:
                continue  # the trace reports this step
            if direction.start != node or crossing.entry != instant:
                text = f"packet {number} was at {node} at {instant} ns, entered {direction.name} at {crossing.entry} ns"
                yield Finding("link order", flow, text)
            if direction.name in trace.directions and not routing.allows(
                crossing.entry, direction.name, destination
            ):
                text = f"packet {number} for {destination} crossed {direction.name} at {crossing.entry} ns"
                yield Finding("valid route", flow, text)
            node, instant = direction.end, crossing.departure
        if crossings[-1].no_route and instant is not None:
            if routing.can_forward(instant, node, destination):
                text = f"packet {number} for {destination} found no route at {node} at {instant} ns, where one exists"
                yield Finding("valid route", flow, text)
            elif node in trace.node_buffers:
                text = (
                    f"packet {number} for {destination} found no route at {node} at {instant} ns and was "
                    "not buffered"
                )
                yield Finding("store and forward", flow, text)
        yield from _check_end(number, packet, crossings[-1])


def _check_end(number: int, packet: dict[str, Any], crossing: Crossing) -> Iterator[Finding]:
    """Compare the end of a packet in the table of packets with the last link."""
    received = None if crossing.no_route else crossing.departure
    reported = nanoseconds(packet["received_s"])
    cause = "no_route" if crossing.no_route else crossing.cause
    dropped = f"{crossing.direction}: {cause}" if cause else ""
    if reported != received or packet["dropped"] != dropped:
        text = (
            f"packet {number} was received at {reported} ns and dropped by {packet['dropped']!r}; "
            f"its link has {received} and {dropped!r}"
        )
        yield Finding("byte conservation", packet["flow"], text)


def check_link_counters(trace: Trace, direction: Direction) -> Iterator[Finding]:
    """Compare the counters of a link at every sample with the number of its packets."""
    events: dict[str, Events] = {
        name: [] for name in ("arrived", "delivered", *(f"dropped_{cause}" for cause in CAUSES))
    }
    for crossing in direction.crossings:
        size = trace.sent[crossing.packet]["bytes"]
        events["arrived"].append((crossing.entry, size))
        if crossing.departure is not None:
            events["dropped_no_route" if crossing.no_route else "delivered"].append(
                (crossing.departure, size)
            )
        if (
            crossing.dropped is not None
            and crossing.cause in CAUSES
            and not (crossing.no_route and crossing.cause == "no_route")
        ):
            events[f"dropped_{crossing.cause}"].append((crossing.dropped, size))
    counts = {name: _accumulate(packet_events) for name, packet_events in events.items()}
    for table in ("links", "link_summary"):
        rows = trace.tables[table]
        yield from _compare_rows(
            table, rows.filter(rows["link"] == direction.name), counts, direction, trace.end
        )


def check_node_counters(trace: Trace) -> Iterator[Finding]:
    """Compare the counters of store-and-forward nodes with the number of their packets."""
    for node in trace.node_buffers.values():
        if "node_buffers" not in trace.tables:
            yield Finding("counters", node.name, "the run has no table of node buffers")
            continue
        events: dict[str, Events] = {"arrived": [], "released": [], "dropped_overflow": []}
        for crossing in node.crossings:
            size = trace.sent[crossing.packet]["bytes"]
            events["arrived"].append((crossing.entry, size))
            if crossing.departure is not None:
                events["released"].append((crossing.departure, size))
            if crossing.dropped is not None and crossing.cause == "overflow":
                events["dropped_overflow"].append((crossing.dropped, size))
        counts = {name: _accumulate(packet_events) for name, packet_events in events.items()}
        rows = trace.tables["node_buffers"]
        yield from _compare_rows(
            "node_buffers", rows.filter(rows["node"] == node.name), counts, node, trace.end
        )


def _compare_rows(
    table: str,
    rows: pl.DataFrame,
    counts: Mapping[str, tuple[list[int], list[int]]],
    direction: Direction,
    end: int,
) -> Iterator[Finding]:
    """Compare each row with the counts at its instant."""
    for row in rows.iter_rows(named=True):
        instant = round(row["time_s"] * 1e9) if "time_s" in row else end
        for name, (instants, sums) in counts.items():
            packets = bisect_right(instants, instant)
            expected = {f"{name}_packets": packets, f"{name}_bytes": sums[packets]}
            for column, value in expected.items():
                if column in row and row[column] != value:
                    text = (
                        f"{table}.{column} at {instant} ns is {row[column]}, found {value} packets or bytes"
                    )
                    yield Finding("counters", direction.name, text)


def _accumulate(events: Events) -> tuple[list[int], list[int]]:
    """Return the instants in order, and the cumulative bytes."""
    ordered = sorted(events)
    return [instant for instant, _ in ordered], list(accumulate((size for _, size in ordered), initial=0))


def check_flows(trace: Trace) -> Iterator[Finding]:
    """Compare the counters of endpoints with their packets; applications get no more bytes than arrived."""
    sent: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    received_bytes: dict[tuple[str, str], int] = defaultdict(int)
    for packet in trace.sent:
        counts = sent[packet["flow"], packet["from_node"]]
        counts[0] += 1
        counts[1] += packet["bytes"]
        if packet["received_s"] is not None:
            received_bytes[packet["flow"], packet["to_node"]] += packet["payload_bytes"]
    nodes = {flow["name"]: flow for flow in trace.spec["flows"]}
    for row in trace.tables["flow_summary"].iter_rows(named=True):
        flow, node = row["flow"], nodes[row["flow"]][row["side"]]
        for column, value in zip(("sent_packets", "sent_bytes"), sent[flow, node], strict=True):
            if row[column] != value:
                text = f"the {row['side']}'s {column} is {row[column]}, found {value} from {node}"
                yield Finding("counters", flow, text)
        if row["received_in_order_bytes"] > received_bytes[flow, node]:
            text = f"the {row['side']} received {row['received_in_order_bytes']} bytes of {received_bytes[flow, node]}"
            yield Finding("byte conservation", flow, text)


def check_groups(trace: Trace) -> Iterator[Finding]:
    """Compare the last sample of a group with the sum over its flows or links."""
    summary = {(row["flow"], row["side"]): row for row in trace.tables["flow_summary"].iter_rows(named=True)}
    links = {row["link"]: row for row in trace.tables["link_summary"].iter_rows(named=True)}
    for group in trace.spec.get("groups", ()):
        name = group["name"]
        members = {
            **{
                (name, side): [summary[flow, side] for flow in group["flows"]]
                for side in ("client", "server")
            },
            **{
                (f"{name}.access.{side}", ""): [links[f"{link}.{side}"] for link in group["links"]]
                for side in (("up", "down") if group.get("links") else ())
            },
        }
        for (series, side), rows in members.items():
            yield from _check_last_sample(trace, series, side, rows)


def _check_last_sample(
    trace: Trace, series: str, side: str, members: Sequence[dict[str, Any]]
) -> Iterator[Finding]:
    """Compare the last sample of a series with the counters of its members."""
    table = trace.tables["flows" if side else "links"]
    series_rows = table.filter(table["flow" if side else "link"] == series)
    sample = series_rows.filter(series_rows["side"] == side).tail(1) if side else series_rows.tail(1)
    if not sample.height:
        yield Finding("counters", series, "the series has no samples")
        return
    for column, found in sample.row(0, named=True).items():
        if column in members[0] and isinstance(found, int) and column not in ("run", "seed"):
            expected = sum(member[column] for member in members)
            if found != expected:
                text = f"{column} is {found} at the end, expected {expected}, the sum of all members"
                yield Finding("counters", f"{series} {side}".strip(), text)
