"""Frames and counters of a lab as the simulator's tables (docs/manual/results.md).

Instants count from the start of the run: the first client's first packet left at its planned start. What a transport or
the emulator does not know is null, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.results import Measurements
from bentpipe.runners.emu_frames import Connection, Frames, Pair, pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.runners.emu_links import Columns, Links

__all__ = ["COLUMNS", "Flow", "NothingSent", "measurements"]

COUNTERS = (
    "sent_packets", "sent_bytes", "ack_packets", "ack_bytes", "lost_packets", "lost_bytes", "congestion_events",
    "persistent_congestion", "ptos", "timeouts", "undone", "retransmitted_bytes", "written_bytes", "received_bytes",
    "received_in_order_bytes",
)  # fmt: skip
LINK_COUNTERS = (
    "queued_packets", "queued_bytes", "sent_bytes", "arrived_packets", "arrived_bytes", "delivered_packets",
    "delivered_bytes", "dropped_loss_packets", "dropped_overflow_packets", "dropped_aqm_packets",
    "dropped_outage_packets", "dropped_link_packets", "marked_packets",
)  # fmt: skip
GAUGES = {
    "cwnd_bytes": "f64", "ssthresh_bytes": "f64", "in_flight_bytes": "i64", "smoothed_rtt_ms": "f64",
    "latest_rtt_ms": "f64", "min_rtt_ms": "f64", "pacing_rate_bit_s": "f64",
}  # fmt: skip


def _kinds(words: str) -> dict[str, str]:
    """``name`` is f64, ``name#`` i64, ``name=`` cat."""
    marks = {"#": "i64", "=": "cat"}
    return {word.rstrip("#="): marks.get(word[-1], "f64") for word in words.split()}


COLUMNS: dict[str, dict[str, str]] = {
    "summary": _kinds(
        "flow= side= congestion= start_s connected_s first_byte_s data_start_s data_end_s fin_s end_s connections# "
        "completed_connections#"
    )
    | dict.fromkeys(COUNTERS, "i64")
    | _kinds("largest_cwnd_bytes# delivered_bytes# delivered_in_order_bytes#"),
    "streams": _kinds(
        "flow= connection# stream_id# mode= start_s up_written_bytes# up_bytes# up_first_byte_s up_last_byte_s "
        "up_fin_s down_written_bytes# down_bytes# down_first_byte_s down_last_byte_s down_fin_s"
    ),
    "link_summary": _kinds("link= rate_bit_s propagation_ms")
    | dict.fromkeys(LINK_COUNTERS, "i64")
    | _kinds("queueing_p50_ms queueing_p95_ms queueing_p99_ms queueing_max_ms"),
    "flows": _kinds("time_s flow= side=") | GAUGES | dict.fromkeys(COUNTERS, "i64"),
    "links": _kinds("time_s link=") | dict.fromkeys(LINK_COUNTERS, "i64"),
    "events": _kinds("time_s flow= side= connection# kind= value"),
    "internals": _kinds("time_s flow= side= name= value"),
    "proxies": _kinds(
        "time_s flow= proxy= socket= connections# cwnd_bytes ssthresh_bytes in_flight_bytes# smoothed_rtt_ms "
        "min_rtt_ms pacing_rate_bit_s buffered_bytes# sent_packets# sent_bytes# lost_packets# retransmitted_bytes# "
        "congestion_events# timeouts# ptos#"
    ),
    "pages": _kinds(
        "flow= load# http= protocol= start_s connect_start_s connect_end_s request_start_s response_start_s "
        "response_end_s content_loaded_s load_event_end_s ttr_s plt_s objects# bytes# connections# finished#"
    ),
    "requests": _kinds(
        "flow= load# object= host= protocol= connection# queued_s sent_s response_start_s end_s bytes#"
    ),
    "packets": _kinds(
        "packet# flow= connection# transport= from_node= to_node= sent_s received_s dropped= bytes# payload_bytes# "
        "label= sequence retransmission#"
    ),
}
"""Columns of every table, as the engine has them."""


class NothingSent(ValueError):
    """No client ever began."""


@dataclass(frozen=True)
class Flow:
    """A flow's frames."""

    name: str
    congestion: tuple[str, str]
    """Of client and server, in the scenario's words."""
    starts_ns: tuple[int, ...]
    """When each client was to begin, from the start of the run."""
    clients: tuple[Frames, ...]
    server: Frames


def measurements(engine: str, spec: Mapping[str, Any], flows: Sequence[Flow], links: Links) -> Measurements:
    """The tables of a run.

    Raises:
        NothingSent: no client of any flow has a connection.
    """
    origin = _origin(flows)
    duration = int(spec["duration_ns"])
    clock = _Clock(origin, _last_tick(flows, origin, duration))
    tables: dict[str, Columns] = {name: {column: [] for column in kinds} for name, kinds in COLUMNS.items()}
    for flow in flows:
        _flow(flow, clock, int(spec["sample_ns"]), tables)
    links.fill(tables["links"], tables["link_summary"], origin, clock.end_ns)
    packets = sum(int(value or 0) for value in tables["link_summary"]["arrived_packets"])
    return Measurements(engine, {name: _table(name, rows) for name, rows in tables.items()}, {}, packets, 0)


_TYPES = {"f64": pl.Float64, "i64": pl.Int64, "cat": pl.String}
_SORTED = {
    "flows": ["time_s", "flow", "side"], "links": ["time_s", "link"], "summary": ["flow", "side"],
    "link_summary": ["link"], "streams": ["flow", "connection", "stream_id"],
    "events": ["time_s", "flow", "connection", "side", "kind"],
}  # fmt: skip
"""Order of rows, as the engine's tables have it."""


def _table(name: str, rows: Columns) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema={column: _TYPES[kind] for column, kind in COLUMNS[name].items()})
    keys = _SORTED.get(name)
    return frame.sort(keys, nulls_last=True, maintain_order=True) if keys else frame


@dataclass(frozen=True)
class _Clock:
    """The run's time: where it begins, and its last sample."""

    origin_ns: int
    end_ns: int

    def seconds(self, time_ns: int | None) -> float | None:
        return None if time_ns is None else round((time_ns - self.origin_ns) / 1e9, 9)

    def within(self, time_ns: int | None) -> float | None:
        """The instant, if the run had not ended by then."""
        return None if time_ns is None or time_ns > self.end_ns else self.seconds(time_ns)


def _origin(flows: Sequence[Flow]) -> int:
    """The start of the run on the machine's clock."""
    found = [
        min(int(one.opening["start_ns"]) for one in frames.connections.values()) - start
        for flow in flows
        for start, frames in zip(flow.starts_ns, flow.clients, strict=True)
        if frames.connections
    ]
    if not found:
        raise NothingSent("no connection came about")
    return min(found)


def _last_tick(flows: Sequence[Flow], origin: int, duration: int) -> int:
    """The last sample by the end of the run; the end itself where every connection had ended before it."""
    end = origin + duration
    each = [
        connection
        for flow in flows
        for frames in (*flow.clients, flow.server)
        for connection in frames.connections.values()
    ]
    if all(one.end is not None and int(one.end["ended_ns"]) <= end for one in each):
        return end
    times = [
        int(sample["time_ns"]) for one in each for sample in one.samples if int(sample["time_ns"]) <= end
    ]
    return max(times, default=end)


# --- one flow -------------------------------------------------------------------------------------------------


def _flow(flow: Flow, clock: _Clock, sample_ns: int, tables: Mapping[str, Columns]) -> None:
    both = pairs(flow.clients, flow.server)
    sides: dict[str, list[Connection]] = {
        "client": [pair.client for pair in both],
        "server": [pair.server for pair in both if pair.server is not None],
    }
    rows = [_stream_row(flow.name, number, pair, clock) for number, pair in enumerate(both)]
    streams = [row for group in rows for row in group]
    for row in streams:
        _append(tables["streams"], row)
    for side, connections in sides.items():
        for row in _samples(flow.name, side, connections, clock, sample_ns):
            _append(tables["flows"], row)
        for row in _events(flow.name, side, both, clock):
            _append(tables["events"], row)
        _append(tables["summary"], _summary(flow, side, sides, streams, clock))


def _append(columns: Columns, row: Mapping[str, Any]) -> None:
    for name, values in columns.items():
        values.append(row.get(name))


def _added(connections: Sequence[Connection], time_ns: int) -> dict[str, Any]:
    """Counters of all connections together; null when one does not know."""
    states = [state for one in connections if (state := one.at(time_ns)) is not None]
    return {
        name: None
        if any(state.get(name) is None for state in states)
        else sum(int(state[name]) for state in states)
        for name in COUNTERS
    }


def _ticks(clock: _Clock, sample_ns: int) -> Iterator[int]:
    at = clock.origin_ns + sample_ns
    while at < clock.end_ns:
        yield at
        at += sample_ns
    yield clock.end_ns


def _samples(
    flow: str, side: str, connections: Sequence[Connection], clock: _Clock, sample_ns: int
) -> Iterator[dict[str, Any]]:
    """One row a tick: what was last known then."""
    for at in _ticks(clock, sample_ns):
        begun = [one for one in connections if int(one.opening["start_ns"]) <= at]
        newest = begun[-1].at(at) if begun else None
        gauges = {name: None if newest is None else newest.get(name) for name in GAUGES}
        if newest is None:
            gauges["in_flight_bytes"] = 0
        yield {"time_s": clock.seconds(at), "flow": flow, "side": side, **gauges, **_added(begun, at)}


def _stream_row(flow: str, number: int, pair: Pair, clock: _Clock) -> Iterator[dict[str, Any]]:
    theirs = {} if pair.server is None else {frame["stream_id"]: frame for frame in pair.server.streams}
    for ours in sorted(pair.client.streams, key=lambda frame: int(frame["label"])):
        if int(ours["opened_ns"]) > clock.end_ns:
            continue
        other = theirs.get(ours["stream_id"])
        row = {
            "flow": flow,
            "connection": number,
            "stream_id": ours["label"],
            "mode": ours["mode"],
            "start_s": clock.seconds(ours["opened_ns"]),
        }
        for way, sent, got in (("up", ours, other), ("down", other, ours)):
            row[f"{way}_written_bytes"] = 0 if sent is None else sent["written_bytes"]
            row[f"{way}_bytes"] = 0 if got is None else got["received_in_order_bytes"]
            for end, word in (
                ("first_byte", "first_byte_ns"),
                ("last_byte", "last_byte_ns"),
                ("fin", "fin_ns"),
            ):
                row[f"{way}_{end}_s"] = None if got is None else clock.within(got[word])
        yield row


def _events(flow: str, side: str, both: Sequence[Pair], clock: _Clock) -> Iterator[dict[str, Any]]:
    for number, pair in enumerate(both):
        one = pair.client if side == "client" else pair.server
        if one is None:
            continue
        found = [("start", one.opening["start_ns"]), ("connected", one.opening["connected_ns"])]
        if one.end is not None:
            found.append(
                ("lost" if str(one.end["end"]).startswith("lost") else "closed", one.end["ended_ns"])
            )
        for kind, time_ns in found:
            if time_ns is not None and time_ns <= clock.end_ns:
                yield {
                    "time_s": clock.seconds(time_ns), "flow": flow, "side": side, "connection": number, "kind": kind,
                    "value": 0.0 if kind != "lost" else None,
                }  # fmt: skip


def _summary(
    flow: Flow,
    side: str,
    sides: Mapping[str, Sequence[Connection]],
    streams: Sequence[Mapping[str, Any]],
    clock: _Clock,
) -> dict[str, Any]:
    peer = "server" if side == "client" else "client"
    sent, heard = ("up", "down") if side == "client" else ("down", "up")
    mine, other = sides[side], sides[peer]
    ended = [int(one.end["ended_ns"]) for one in mine if one.end is not None]
    totals, delivered = _added(mine, clock.end_ns), _added(other, clock.end_ns)
    first = min((int(one.opening["start_ns"]) for one in sides["client"]), default=None)

    def known(column: str, pick: Any) -> float | None:
        return pick((row[column] for row in streams if row[column] is not None), default=None)  # type: ignore[no-any-return]

    windows = [
        (one.end or {}).get("largest_cwnd_bytes")
        or max((int(s["cwnd_bytes"]) for s in one.samples if s.get("cwnd_bytes") is not None), default=0)
        for one in mine
    ]
    return totals | {
        "flow": flow.name,
        "side": side,
        "congestion": flow.congestion[0 if side == "client" else 1],
        "start_s": clock.seconds(first),
        "connected_s": clock.within(min((int(one.opening["connected_ns"]) for one in mine), default=None)),
        "first_byte_s": known(f"{heard}_first_byte_s", min),
        "data_start_s": known("start_s", min),
        "data_end_s": known(f"{sent}_last_byte_s", max),
        "fin_s": known(f"{sent}_fin_s", max),
        "end_s": clock.within(max(ended)) if len(ended) == len(mine) and ended else None,
        "connections": len(mine),
        "completed_connections": sum(
            1 for one in mine if one.end is not None and not str(one.end["end"]).startswith("lost")
        ),
        "largest_cwnd_bytes": max(windows, default=0),
        "delivered_bytes": delivered["received_bytes"],
        "delivered_in_order_bytes": delivered["received_in_order_bytes"],
    }
