"""Flows over UDP: their datagrams leave as their sources say, and what the tables of calls count is what came."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from bentpipe.trace_check.trace import Finding, Trace, nanoseconds

__all__ = ["calls"]

WINDOW_NS = 10_000_000_000
BIN_NS = 1_000_000


def calls(trace: Trace) -> Iterator[Finding]:
    """Every flow over UDP, each direction by itself."""
    legs: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for packet in trace.sent:
        legs[packet["flow"], packet["from_node"]].append(packet)
    summary = trace.tables["summary"]
    starts = {row["flow"]: round(row["start_s"] * 1e9) for row in summary.iter_rows(named=True)}
    refused = {
        flow for admission in trace.spec.get("admissions", ()) for flow in _refused(trace, admission, starts)
    }
    for flow in trace.spec["flows"]:
        load = flow["load"]
        if flow["transport"]["kind"] != "udp" or load["kind"] != "datagrams":
            continue
        if flow["name"] in refused:
            if any(legs[flow["name"], flow[end]] for end in ("client", "server")):
                yield Finding(
                    "calls are made while they fit", flow["name"], "it sent packets, and did not fit"
                )
            continue
        start = starts[flow["name"]]
        for way, node in (("up", flow["client"]), ("down", flow["server"])):
            sent = legs[flow["name"], node]
            if load[way] is None:
                if sent:
                    yield Finding(
                        "sources keep their rate",
                        flow["name"],
                        f"{node} sent {len(sent)} packets, and has none",
                    )
                continue
            yield from _source(flow, way, start, sent, trace.end)
            yield from _counted(trace, flow["name"], way, sent)


def _refused(trace: Trace, admission: Mapping[str, Any], starts: Mapping[str, int]) -> Iterator[str]:
    """Flows that do not fit beside those that have begun and not ended."""
    flows = {flow["name"]: flow for flow in trace.spec["flows"]}
    made: list[tuple[int, dict[str, float]]] = []
    places = {name: place for place, name in enumerate(flows)}
    for name in sorted(admission["flows"], key=lambda name: (starts[name], places[name])):
        flow, begin = flows[name], starts[name]
        # 38 bytes: what a packet of QUIC has beside a datagram
        header = flow["transport"]["header_bytes"] + (38 if flow["transport"]["kind"] == "quic" else 0)
        own = {
            way: -(-(source["payload_bytes"] + header) * 8 * 10**9 // source["interval_ns"]) if source else 0
            for way in ("up", "down")
            for source in (flow["load"][way],)
        }
        under_way = [rates for end, rates in made if end > begin]
        if all(sum(rates[way] for rates in under_way) + own[way] <= admission["rate_bit_s"] for way in own):
            made.append((begin + flow["load"]["duration_ns"], own))
        else:
            yield name


def _source(
    flow: Mapping[str, Any], way: str, start: int, sent: list[Mapping[str, Any]], end: int
) -> Iterator[Finding]:
    """Each datagram is full an interval after the last, or later where the source pauses; and all are there."""
    source, place = flow["load"][way], f"{flow['name']} {way}"
    interval, last = source["interval_ns"], min(start + flow["load"]["duration_ns"], end)
    size = source["payload_bytes"] + flow["transport"]["header_bytes"]
    at = start
    for packet in sent:
        due = nanoseconds(packet["sent_s"])
        if packet["bytes"] != size:
            yield Finding(
                "sources keep their rate", place, f"a packet of {packet['bytes']} bytes, expected {size}"
            )
        if (
            due is None
            or due < at + interval
            or due > last
            or (source["periods"] is None and due != at + interval)
        ):
            yield Finding(
                "sources keep their rate", place, f"a packet left at {due} ns, after one at {at} ns"
            )
            return
        at = due
    if source["periods"] is None and at + interval <= last:
        yield Finding("sources keep their rate", place, f"no packet left after {at} ns, until {last} ns")


def _counted(trace: Trace, flow: str, way: str, sent: list[Mapping[str, Any]]) -> Iterator[Finding]:
    """The rows of ``calls`` and ``call_delays``."""
    place = f"{flow} {way}"
    if "calls" not in trace.tables:
        yield Finding("counters count", place, "the run has no table of calls")
        return
    seen: Counter[tuple[str, int, int]] = Counter()
    for packet in sent:
        due, come = nanoseconds(packet["sent_s"]), nanoseconds(packet["received_s"])
        window = (due or 0) // WINDOW_NS
        seen["sent_packets", window, 0] += 1
        if due is not None and come is not None:
            seen["received_packets", window, 0] += 1
            seen["packets", window, (come - due) // BIN_NS] += 1
    said: Counter[tuple[str, int, int]] = Counter()
    for row in _rows(trace, "calls", flow, way):
        window = round(row["window_s"] * 1e9) // WINDOW_NS
        for name in ("sent_packets", "received_packets"):
            said[name, window, 0] += row[name]
        # What is undecided has left, and has not come.
        if (undecided := row["undecided_packets"]) > row["sent_packets"] - row["received_packets"]:
            yield Finding(
                "counters count", place, f"{undecided} packets are undecided at {row['window_s']} s"
            )
    for row in _rows(trace, "call_delays", flow, way):
        said["packets", round(row["window_s"] * 1e9) // WINDOW_NS, row["delay_ms"]] += row["packets"]
    for key in sorted((seen | said).keys()):
        if seen[key] != said[key]:
            name, window, delay = key
            where = f" of {delay} ms" if name == "packets" else ""
            text = f"{said[key]} {name}{where} from {10 * window} s on, and {seen[key]} were seen"
            yield Finding("counters count", place, text)


def _rows(trace: Trace, table: str, flow: str, way: str) -> Iterator[dict[str, Any]]:
    rows = trace.tables[table]
    yield from rows.filter((rows["flow"] == flow) & (rows["direction"] == way)).iter_rows(named=True)
