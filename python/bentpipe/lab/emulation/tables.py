"""Frames and counters of a lab as the simulator's tables (docs/manual/results.md).

Instants count from the start of the run: the first client's first packet left at its planned start. What a transport or
the emulator does not know is null, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.lab.emulation.bundle_tables import Linked
from bentpipe.lab.emulation.call_tables import Called
from bentpipe.lab.emulation.group_series import with_groups
from bentpipe.lab.emulation.perf_stream import Connection, Frames, Pair, pairs
from bentpipe.plan.spec.result_columns import COLUMNS, COUNTERS, GAUGES
from bentpipe.store.codec import Measurements
from bentpipe.store.schema import Row, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.lab.counters import Series
    from bentpipe.plan.spec.run_spec import RunSpec

__all__ = ["Flow", "NothingSent", "first_start", "measurements"]


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


def measurements(
    engine: str,
    spec: RunSpec,
    flows: Sequence[Flow | Called | Linked],
    series: Series,
    zero_ns: int | None = None,
) -> Measurements:
    """The tables of a run.

    Args:
        engine: version of the engine.
        spec: the run.
        flows: what its processes have said.
        series: what the emulator has.
        zero_ns: the start of the run on the machine's clock; None: what the flows say of it.

    Raises:
        NothingSent: no client of any flow has a connection.
    """
    origin = first_start(flows) if zero_ns is None else zero_ns
    duration = int(spec["duration_ns"])
    clock = _Clock(origin, _last_tick(flows, origin, duration))
    tables: dict[str, list[Row]] = {name: [] for name in COLUMNS}
    ticks = list(_ticks(clock, int(spec["sample_ns"])))
    rare: dict[str, list[Row]] = {"calls": [], "call_delays": []}
    own: dict[str, list[Row]] = {}
    for flow in flows:
        if isinstance(flow, Called):
            for name, rows in flow.totals(origin, ticks, clock.seconds).items():
                tables[name] += rows
            for name, rows in flow.rows().items():
                rare[name] += rows
        elif isinstance(flow, Linked):
            end_s, ticks_s = clock.at(clock.end_ns), [clock.at(tick) for tick in ticks]
            for name, rows in flow.totals(end_s, ticks_s).items():
                tables[name] += rows
            own = flow.nodes.rows()
        else:
            _flow(flow, clock, int(spec["sample_ns"]), tables)
    split = [flow["name"] for flow in spec["flows"] if flow["transport"]["kind"] == "tcp"]
    tables["links"], tables["link_summary"] = series.link_rows(spec["graph"], origin, ticks)
    tables["proxies"] = series.proxy_rows(split, origin, ticks)
    if rare["calls"]:
        tables |= rare
    rare = {"users": series.user_rows(origin, ticks), "user_queues": series.queue_rows(ticks), **own}
    tables |= {name: rows for name, rows in rare.items() if rows}
    packets = sum(int(row.get("arrived_packets") or 0) for row in tables["link_summary"])
    frames = {name: table(name, rows) for name, rows in tables.items()}
    return Measurements(engine, with_groups(frames, spec), {}, packets, 0)


@dataclass(frozen=True)
class _Clock:
    """The run's time: where it begins, and its last sample."""

    origin_ns: int
    end_ns: int

    def at(self, time_ns: int) -> float:
        return round((time_ns - self.origin_ns) / 1e9, 9)

    def seconds(self, time_ns: int | None) -> float | None:
        return None if time_ns is None else self.at(time_ns)

    def within(self, time_ns: int | None) -> float | None:
        """The instant, if the run had not ended by then."""
        return None if time_ns is None or time_ns > self.end_ns else self.seconds(time_ns)


def first_start(flows: Sequence[Flow | Called | Linked]) -> int:
    """The start of the run on the machine's clock, as its flows have it: the first of them begins when it was to."""
    found = [flow.origin_ns for flow in flows if isinstance(flow, Called) and flow.origin_ns is not None]
    found += [
        min(int(one.opening["start_ns"]) for one in frames.connections.values()) - start
        for flow in flows
        if isinstance(flow, Flow)
        for start, frames in zip(flow.starts_ns, flow.clients, strict=True)
        if frames.connections
    ]
    if not found:
        raise NothingSent("no connection came about")
    return min(found)


def _last_tick(flows: Sequence[Flow | Called | Linked], origin: int, duration: int) -> int:
    """The last sample by the end of the run; the end itself where every connection had ended before it."""
    end = origin + duration
    each = [
        connection
        for flow in flows
        if isinstance(flow, Flow)
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


def _flow(flow: Flow, clock: _Clock, sample_ns: int, tables: Mapping[str, list[Row]]) -> None:
    both = pairs(flow.clients, flow.server)
    sides: dict[str, list[Connection]] = {
        "client": [pair.client for pair in both],
        "server": [pair.server for pair in both if pair.server is not None],
    }
    rows = [_stream_row(flow.name, number, pair, clock) for number, pair in enumerate(both)]
    streams = [row for group in rows for row in group]
    for row in streams:
        tables["streams"].append(row)
    for side, connections in sides.items():
        for row in _samples(flow.name, side, connections, clock, sample_ns):
            tables["flows"].append(row)
        for row in _events(flow.name, side, both, clock):
            tables["events"].append(row)
        tables["summary"].append(_summary(flow, side, sides, streams, clock))


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

    # Of a side that sends nothing but requests there are none.
    states = [state for one in mine for state in (one.end or {}, *one.samples)]
    names = ("largest_cwnd_bytes", "cwnd_bytes")
    windows = [int(state[name]) for state in states for name in names if state.get(name) is not None]
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
        "largest_cwnd_bytes": max(windows, default=None),
        "delivered_bytes": delivered["received_bytes"],
        "delivered_in_order_bytes": delivered["received_in_order_bytes"],
    }
