"""Between the stages: ways through the graph, packets and bytes, and what the engine's own tables say of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from bentpipe.trace_check.handovers import Versions
from bentpipe.trace_check.trace import Crossing, Finding, Line, Trace, nanoseconds

if TYPE_CHECKING:
    import polars as pl

__all__ = ["counters", "flows", "groups", "held", "ways"]

Events = list[tuple[int, int]]
"""Of packets when something came to them, ns, and their bytes."""

CAUSES = ("loss", "overflow", "aqm", "outage", "link", "route")


def ways(trace: Trace) -> Iterator[Finding]:
    """Every packet goes a way from its first node to its last that holds when it is there, without a gap, and ends
    once."""
    versions = Versions(trace.spec["graph"])
    for number, packet in enumerate(trace.sent):
        flow, to, crossings = packet["flow"], packet["to_node"], trace.ways.get(number, [])
        node, sent = packet["from_node"], round(packet["sent_s"] * 1e9)
        if not crossings:
            unrouted = packet["dropped"] == f"{node}: route" and not versions.goes_on(sent, node, to)
            if node in trace.holds or not unrouted or packet["received_s"] is not None:
                yield Finding("bytes are conserved", flow, f"packet {number} was sent and never seen")
            continue
        at: int | None = sent
        for crossing in crossings:
            line = trace.place(crossing.line)
            if line is None:
                continue  # was told of before
            if line.start != node or crossing.entered != at:
                text = f"packet {number} was at {node} at {at} ns, and entered {line.name} at {crossing.entered} ns"
                yield Finding("one link after the other", flow, text)
            if line.name in trace.lines and not versions.allows(crossing.entered, line.name, to):
                text = f"packet {number} for {to} went over {line.name} at {crossing.entered} ns"
                yield Finding("a way that holds", flow, text)
            node, at = line.end, crossing.left
        if crossings[-1].stranded and at is not None:
            if versions.goes_on(at, node, to):
                text = f"packet {number} for {to} found no way at {node} at {at} ns, where one led on"
                yield Finding("a way that holds", flow, text)
            elif node in trace.holds:
                text = f"packet {number} for {to} found no way at {node} at {at} ns, and was not held"
                yield Finding("held until a way leads on", flow, text)
        yield from _ending(number, packet, crossings[-1])


def _ending(number: int, packet: dict[str, Any], last: Crossing) -> Iterator[Finding]:
    """What the table of packets says of a packet's end is what the last link says."""
    received = None if last.stranded else last.left
    said = nanoseconds(packet["received_s"])
    cause = "route" if last.stranded else last.cause
    dropped = f"{last.line}: {cause}" if cause else ""
    if said != received or packet["dropped"] != dropped:
        text = (
            f"packet {number} is said to have come at {said} ns and been dropped by {packet['dropped']!r}; "
            f"its link says {received} and {dropped!r}"
        )
        yield Finding("bytes are conserved", packet["flow"], text)


def counters(trace: Trace, line: Line) -> Iterator[Finding]:
    """The counters of a link at every sample are the number of its packets."""
    events: dict[str, Events] = {
        name: [] for name in ("arrived", "delivered", *(f"dropped_{cause}" for cause in CAUSES))
    }
    for one in line.crossings:
        size = trace.sent[one.packet]["bytes"]
        events["arrived"].append((one.entered, size))
        if one.left is not None:
            events["dropped_route" if one.stranded else "delivered"].append((one.left, size))
        if one.dropped is not None and one.cause in CAUSES and not (one.stranded and one.cause == "route"):
            events[f"dropped_{one.cause}"].append((one.dropped, size))
    counts = {name: _sums(known) for name, known in events.items()}
    for table in ("links", "link_summary"):
        rows = trace.tables[table]
        yield from _counted(table, rows.filter(rows["link"] == line.name), counts, line, trace.end)


def held(trace: Trace) -> Iterator[Finding]:
    """So are those of nodes that hold packets."""
    for hold in trace.holds.values():
        if "holds" not in trace.tables:
            yield Finding("counters count", hold.name, "the run has no table of what its nodes hold")
            continue
        events: dict[str, Events] = {"arrived": [], "released": [], "dropped_overflow": []}
        for one in hold.crossings:
            size = trace.sent[one.packet]["bytes"]
            events["arrived"].append((one.entered, size))
            if one.left is not None:
                events["released"].append((one.left, size))
            if one.dropped is not None and one.cause == "overflow":
                events["dropped_overflow"].append((one.dropped, size))
        counts = {name: _sums(known) for name, known in events.items()}
        rows = trace.tables["holds"]
        yield from _counted("holds", rows.filter(rows["node"] == hold.name), counts, hold, trace.end)


def _counted(
    table: str, rows: pl.DataFrame, counts: Mapping[str, tuple[list[int], list[int]]], line: Line, end: int
) -> Iterator[Finding]:
    """Each row says as many as there were by then."""
    for row in rows.iter_rows(named=True):
        at = round(row["time_s"] * 1e9) if "time_s" in row else end
        for name, (instants, sums) in counts.items():
            packets = bisect_right(instants, at)
            wanted = {f"{name}_packets": packets, f"{name}_bytes": sums[packets]}
            for column, value in wanted.items():
                if column in row and row[column] != value:
                    text = f"{table}.{column} at {at} ns is {row[column]}, and {value} packets or bytes were seen"
                    yield Finding("counters count", line.name, text)


def _sums(events: Events) -> tuple[list[int], list[int]]:
    """Instants in order, and the bytes up to each number of them."""
    known = sorted(events)
    return [at for at, _ in known], list(accumulate((size for _, size in known), initial=0))


def flows(trace: Trace) -> Iterator[Finding]:
    """Ends count what they send, and no application gets more than its packets carried."""
    sent: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    carried: dict[tuple[str, str], int] = defaultdict(int)
    for packet in trace.sent:
        entry = sent[packet["flow"], packet["from_node"]]
        entry[0] += 1
        entry[1] += packet["bytes"]
        if packet["received_s"] is not None:
            carried[packet["flow"], packet["to_node"]] += packet["payload_bytes"]
    nodes = {flow["name"]: flow for flow in trace.spec["flows"]}
    for row in trace.tables["summary"].iter_rows(named=True):
        flow, node = row["flow"], nodes[row["flow"]][row["side"]]
        for column, value in zip(("sent_packets", "sent_bytes"), sent[flow, node], strict=True):
            if row[column] != value:
                text = f"the {row['side']}'s {column} is {row[column]}, and {value} left {node}"
                yield Finding("counters count", flow, text)
        if row["received_in_order_bytes"] > carried[flow, node]:
            text = f"the {row['side']} got {row['received_in_order_bytes']} bytes of {carried[flow, node]} that came"
            yield Finding("bytes are conserved", flow, text)


def groups(trace: Trace) -> Iterator[Finding]:
    """At the end of the run the series of a group are the sums of what its flows, or their links, count."""
    summary = {(row["flow"], row["side"]): row for row in trace.tables["summary"].iter_rows(named=True)}
    links = {row["link"]: row for row in trace.tables["link_summary"].iter_rows(named=True)}
    for group in trace.spec.get("groups", ()):
        name = group["name"]
        members = {
            **{
                (name, side): [summary[flow, side] for flow in group["flows"]]
                for side in ("client", "server")
            },
            **{
                (f"{name}.access.{way}", ""): [links[f"{link}.{way}"] for link in group["links"]]
                for way in (("up", "down") if group.get("links") else ())
            },
        }
        for (series, side), rows in members.items():
            yield from _last(trace, series, side, rows)


def _last(trace: Trace, series: str, side: str, members: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """The last sample of a series against the counters of its members."""
    table = trace.tables["flows" if side else "links"]
    own = table.filter(table["flow" if side else "link"] == series)
    last = own.filter(own["side"] == side).tail(1) if side else own.tail(1)
    if not last.height:
        yield Finding("counters count", series, "it has no samples")
        return
    for column, found in last.row(0, named=True).items():
        if column in members[0] and isinstance(found, int) and column not in ("run", "seed"):
            wanted = sum(member[column] for member in members)
            if found != wanted:
                text = f"{column} is {found} at the end, and {wanted} all members together"
                yield Finding("counters count", f"{series} {side}".strip(), text)
