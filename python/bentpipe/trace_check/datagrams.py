"""Checks of datagram flows: departures follow the source, and the tables of calls count the packets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from bentpipe.trace_check.trace import Finding, Trace, nanoseconds

__all__ = ["check_datagrams"]

WINDOW_NS = 10_000_000_000
BIN_NS = 1_000_000


def check_datagrams(trace: Trace) -> Iterator[Finding]:
    """Check every flow over UDP, each direction separately."""
    sent_by: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for packet in trace.sent:
        sent_by[packet["flow"], packet["from_node"]].append(packet)
    summary = trace.tables["flow_summary"]
    starts = {row["flow"]: round(row["start_s"] * 1e9) for row in summary.iter_rows(named=True)}
    blocked = {
        flow
        for admission in trace.spec.get("admissions", ())
        for flow in _blocked_flows(trace, admission, starts)
    }
    for flow in trace.spec["flows"]:
        load = flow["load"]
        if flow["transport"]["kind"] != "udp" or load["kind"] != "datagrams":
            continue
        if flow["name"] in blocked:
            if any(sent_by[flow["name"], flow[end]] for end in ("client", "server")):
                yield Finding("admission control", flow["name"], "a blocked flow sent packets")
            continue
        start = starts[flow["name"]]
        for direction, node in (("up", flow["client"]), ("down", flow["server"])):
            sent = sent_by[flow["name"], node]
            if load[direction] is None:
                if sent:
                    yield Finding(
                        "source rate",
                        flow["name"],
                        f"{node} sent {len(sent)} packets without a source",
                    )
                continue
            yield from _check_source(flow, direction, start, sent, trace.end)
            yield from _compare_tables(trace, flow["name"], direction, sent)


def _blocked_flows(trace: Trace, admission: Mapping[str, Any], starts: Mapping[str, int]) -> Iterator[str]:
    """Yield the flows that exceed the admitted rate beside the active flows."""
    flows = {flow["name"]: flow for flow in trace.spec["flows"]}
    admitted: list[tuple[int, dict[str, float]]] = []
    order = {name: place for place, name in enumerate(flows)}
    for name in sorted(admission["flows"], key=lambda name: (starts[name], order[name])):
        flow, start = flows[name], starts[name]
        # A QUIC packet has 38 bytes beside the datagram.
        header = flow["transport"]["header_bytes"] + (38 if flow["transport"]["kind"] == "quic" else 0)
        rates = {
            direction: -(-(source["payload_bytes"] + header) * 8 * 10**9 // source["interval_ns"])
            if source
            else 0
            for direction in ("up", "down")
            for source in (flow["load"][direction],)
        }
        active = [other for end, other in admitted if end > start]
        if all(
            sum(other[direction] for other in active) + rates[direction] <= admission["rate_bit_s"]
            for direction in rates
        ):
            admitted.append((start + flow["load"]["duration_ns"], rates))
        else:
            yield name


def _check_source(
    flow: Mapping[str, Any], direction: str, start: int, sent: list[Mapping[str, Any]], end: int
) -> Iterator[Finding]:
    """Check the departures of a source.

    A datagram is complete one interval after the previous one, or later if the source pauses. No datagram is missing.
    """
    source, place = flow["load"][direction], f"{flow['name']} {direction}"
    interval, until = source["interval_ns"], min(start + flow["load"]["duration_ns"], end)
    size = source["payload_bytes"] + flow["transport"]["header_bytes"]
    previous = start
    for packet in sent:
        due = nanoseconds(packet["sent_s"])
        if packet["bytes"] != size:
            yield Finding("source rate", place, f"a packet of {packet['bytes']} bytes, expected {size}")
        if (
            due is None
            or due < previous + interval
            or due > until
            or (source["periods"] is None and due != previous + interval)
        ):
            yield Finding("source rate", place, f"a packet left at {due} ns, after one at {previous} ns")
            return
        previous = due
    if source["periods"] is None and previous + interval <= until:
        yield Finding("source rate", place, f"no packet left after {previous} ns, until {until} ns")


def _compare_tables(
    trace: Trace, flow: str, direction: str, sent: list[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Compare the rows of ``check_datagrams`` and ``call_delays`` with the packets."""
    place = f"{flow} {direction}"
    if "calls" not in trace.tables:
        yield Finding("counters", place, "the run has no table of calls")
        return
    counted: Counter[tuple[str, int, int]] = Counter()
    for packet in sent:
        departure, arrival = nanoseconds(packet["sent_s"]), nanoseconds(packet["received_s"])
        window = (departure or 0) // WINDOW_NS
        counted["sent_packets", window, 0] += 1
        if departure is not None and arrival is not None:
            counted["received_packets", window, 0] += 1
            counted["packets", window, (arrival - departure) // BIN_NS] += 1
    reported: Counter[tuple[str, int, int]] = Counter()
    for row in _rows(trace, "calls", flow, direction):
        window = round(row["window_s"] * 1e9) // WINDOW_NS
        for name in ("sent_packets", "received_packets"):
            reported[name, window, 0] += row[name]
        # Pending packets are sent and not received.
        if (pending := row["pending_packets"]) > row["sent_packets"] - row["received_packets"]:
            yield Finding("counters", place, f"{pending} packets are pending at {row['window_s']} s")
    for row in _rows(trace, "call_delays", flow, direction):
        reported["packets", round(row["window_s"] * 1e9) // WINDOW_NS, row["delay_ms"]] += row["packets"]
    for key in sorted((counted | reported).keys()):
        if counted[key] != reported[key]:
            name, window, delay = key
            where = f" of {delay} ms" if name == "packets" else ""
            text = f"{reported[key]} {name}{where} from {10 * window} s on, found {counted[key]}"
            yield Finding("counters", place, text)


def _rows(trace: Trace, table: str, flow: str, direction: str) -> Iterator[dict[str, Any]]:
    rows = trace.tables[table]
    yield from rows.filter((rows["flow"] == flow) & (rows["direction"] == direction)).iter_rows(named=True)
