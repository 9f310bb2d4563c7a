"""JSON streams and counters of a lab as the simulator's tables (docs/reference/results.md).

Times count from the start of the run: the first packet of the first client leaves at its planned start. A
value that a transport or the emulator does not know is null, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.lab.emulation.bundle_tables import BundleFlow
from bentpipe.lab.emulation.call_tables import CallFlow
from bentpipe.lab.emulation.group_series import add_groups
from bentpipe.lab.emulation.perf_stream import Connection, ConnectionPair, Frames, match_connections
from bentpipe.plan.spec.result_columns import COLUMNS, COUNTERS, GAUGES
from bentpipe.store.codec import Measurements
from bentpipe.store.schema import Row, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.lab.counters import Series
    from bentpipe.plan.spec.run_spec import RunSpec

__all__ = ["NothingSentError", "PerfFlow", "build_measurements", "first_start"]


class NothingSentError(ValueError):
    """No client has started a connection."""


@dataclass(frozen=True)
class PerfFlow:
    """JSON streams of a flow."""

    name: str
    congestion: tuple[str, str]
    """Controllers of client and server, with the names of the scenario."""
    starts_ns: tuple[int, ...]
    """Planned start of each client since the start of the run, ns."""
    clients: tuple[Frames, ...]
    server: Frames


def build_measurements(
    engine: str,
    spec: RunSpec,
    flows: Sequence[PerfFlow | CallFlow | BundleFlow],
    series: Series,
    start_ns: int | None = None,
) -> Measurements:
    """Return the tables of a run.

    Args:
        engine: version of the engine.
        spec: the run.
        flows: output of its processes.
        series: counters of the emulator.
        start_ns: start of the run on the host's clock, ns; None: derived from the flows.

    Raises:
        NothingSentError: no client of any flow has a connection.
    """
    origin = first_start(flows) if start_ns is None else start_ns
    duration = int(spec["duration_ns"])
    clock = _Clock(origin, _last_tick(flows, origin, duration))
    tables: dict[str, list[Row]] = {name: [] for name in COLUMNS}
    ticks = list(_ticks(clock, int(spec["sample_interval_ns"])))
    optional_tables: dict[str, list[Row]] = {"calls": [], "call_delays": []}
    node_tables: dict[str, list[Row]] = {}
    for flow in flows:
        if isinstance(flow, CallFlow):
            for name, rows in flow.totals(origin, ticks, clock.seconds).items():
                tables[name] += rows
            for name, rows in flow.rows().items():
                optional_tables[name] += rows
        elif isinstance(flow, BundleFlow):
            end_s, ticks_s = clock.at(clock.end_ns), [clock.at(tick) for tick in ticks]
            for name, rows in flow.totals(end_s, ticks_s).items():
                tables[name] += rows
            node_tables = flow.nodes.rows()
        else:
            _add_flow(flow, clock, int(spec["sample_interval_ns"]), tables)
    tcp_flows = [flow["name"] for flow in spec["flows"] if flow["transport"]["kind"] == "tcp"]
    tables["links"], tables["link_summary"] = series.link_rows(spec["graph"], origin, ticks)
    tables["proxies"] = series.proxy_rows(tcp_flows, origin, ticks)
    if optional_tables["calls"]:
        tables |= optional_tables
    optional_tables = {
        "radio_users": series.user_rows(origin, ticks),
        "user_queues": series.queue_rows(ticks),
        **node_tables,
    }
    tables |= {name: rows for name, rows in optional_tables.items() if rows}
    packets = sum(int(row.get("arrived_packets") or 0) for row in tables["link_summary"])
    frames = {name: table(name, rows) for name, rows in tables.items()}
    return Measurements(engine, add_groups(frames, spec), {}, packets, 0)


@dataclass(frozen=True)
class _Clock:
    """Time of the run: its start and its last sample."""

    origin_ns: int
    end_ns: int

    def at(self, time_ns: int) -> float:
        """Return a time of the host's clock as a time of the run, s."""
        return round((time_ns - self.origin_ns) / 1e9, 9)

    def seconds(self, time_ns: int | None) -> float | None:
        """Return a time of the host's clock as a time of the run, s; None for None."""
        return None if time_ns is None else self.at(time_ns)

    def within(self, time_ns: int | None) -> float | None:
        """Return the time of the run, s; None for None and for times after the end."""
        return None if time_ns is None or time_ns > self.end_ns else self.seconds(time_ns)


def first_start(flows: Sequence[PerfFlow | CallFlow | BundleFlow]) -> int:
    """Return the start of the run on the host's clock, ns: the earliest client starts at its planned time.

    Raises:
        NothingSentError: no client of any flow has a connection.
    """
    starts = [flow.origin_ns for flow in flows if isinstance(flow, CallFlow) and flow.origin_ns is not None]
    starts += [
        min(int(one.opening["start_ns"]) for one in frames.connections.values()) - start
        for flow in flows
        if isinstance(flow, PerfFlow)
        for start, frames in zip(flow.starts_ns, flow.clients, strict=True)
        if frames.connections
    ]
    if not starts:
        raise NothingSentError("no connection was established")
    return min(starts)


def _last_tick(flows: Sequence[PerfFlow | CallFlow | BundleFlow], origin: int, duration: int) -> int:
    """Return the last sample before the end of the run, ns; the end if all connections had ended before."""
    end = origin + duration
    connections_of_flows = [
        connection
        for flow in flows
        if isinstance(flow, PerfFlow)
        for frames in (*flow.clients, flow.server)
        for connection in frames.connections.values()
    ]
    if all(one.end is not None and int(one.end["ended_ns"]) <= end for one in connections_of_flows):
        return end
    times = [
        int(sample["time_ns"])
        for one in connections_of_flows
        for sample in one.samples
        if int(sample["time_ns"]) <= end
    ]
    return max(times, default=end)


# --- one flow -------------------------------------------------------------------------------------------------


def _add_flow(flow: PerfFlow, clock: _Clock, sample_ns: int, tables: Mapping[str, list[Row]]) -> None:
    pairs = match_connections(flow.clients, flow.server)
    sides: dict[str, list[Connection]] = {
        "client": [pair.client for pair in pairs],
        "server": [pair.server for pair in pairs if pair.server is not None],
    }
    rows = [_stream_rows(flow.name, number, pair, clock) for number, pair in enumerate(pairs)]
    streams = [row for group in rows for row in group]
    for row in streams:
        tables["streams"].append(row)
    for side, connections in sides.items():
        for row in _samples(flow.name, side, connections, clock, sample_ns):
            tables["flows"].append(row)
        for row in _events(flow.name, side, pairs, clock):
            tables["events"].append(row)
        tables["flow_summary"].append(_summary(flow, side, sides, streams, clock))


def _sum_counters(connections: Sequence[Connection], time_ns: int) -> dict[str, Any]:
    """Return the sums of the counters over all connections; null if a connection does not know a counter."""
    states = [state for one in connections if (state := one.at(time_ns)) is not None]
    return {
        name: None
        if any(state.get(name) is None for state in states)
        else sum(int(state[name]) for state in states)
        for name in COUNTERS
    }


def _ticks(clock: _Clock, sample_ns: int) -> Iterator[int]:
    time_ns = clock.origin_ns + sample_ns
    while time_ns < clock.end_ns:
        yield time_ns
        time_ns += sample_ns
    yield clock.end_ns


def _samples(
    flow: str, side: str, connections: Sequence[Connection], clock: _Clock, sample_ns: int
) -> Iterator[dict[str, Any]]:
    """Yield one row for each tick with the last known values."""
    for time_ns in _ticks(clock, sample_ns):
        started = [one for one in connections if int(one.opening["start_ns"]) <= time_ns]
        newest = started[-1].at(time_ns) if started else None
        gauges = {name: None if newest is None else newest.get(name) for name in GAUGES}
        if newest is None:
            gauges["in_flight_bytes"] = 0
        yield {
            "time_s": clock.seconds(time_ns),
            "flow": flow,
            "side": side,
            **gauges,
            **_sum_counters(started, time_ns),
        }


def _stream_rows(flow: str, number: int, pair: ConnectionPair, clock: _Clock) -> Iterator[dict[str, Any]]:
    server_streams = (
        {} if pair.server is None else {frame["stream_id"]: frame for frame in pair.server.streams}
    )
    for client_stream in sorted(pair.client.streams, key=lambda frame: int(frame["label"])):
        if int(client_stream["opened_ns"]) > clock.end_ns:
            continue
        server_stream = server_streams.get(client_stream["stream_id"])
        row = {
            "flow": flow,
            "connection": number,
            "stream_id": client_stream["label"],
            "mode": client_stream["mode"],
            "start_s": clock.seconds(client_stream["opened_ns"]),
        }
        for direction, sender, receiver in (
            ("up", client_stream, server_stream),
            ("down", server_stream, client_stream),
        ):
            row[f"{direction}_written_bytes"] = 0 if sender is None else sender["written_bytes"]
            row[f"{direction}_bytes"] = 0 if receiver is None else receiver["received_in_order_bytes"]
            for end, key in (
                ("first_byte", "first_byte_ns"),
                ("last_byte", "last_byte_ns"),
                ("fin", "fin_ns"),
            ):
                row[f"{direction}_{end}_s"] = None if receiver is None else clock.within(receiver[key])
        yield row


def _events(flow: str, side: str, pairs: Sequence[ConnectionPair], clock: _Clock) -> Iterator[dict[str, Any]]:
    for number, pair in enumerate(pairs):
        connection = pair.client if side == "client" else pair.server
        if connection is None:
            continue
        events = [
            ("start", connection.opening["start_ns"]),
            ("connected", connection.opening["connected_ns"]),
        ]
        if connection.end is not None:
            events.append(
                (
                    "lost" if str(connection.end["end"]).startswith("lost") else "closed",
                    connection.end["ended_ns"],
                )
            )
        for kind, time_ns in events:
            if time_ns is not None and time_ns <= clock.end_ns:
                yield {
                    "time_s": clock.seconds(time_ns), "flow": flow, "side": side, "connection": number, "kind": kind,
                    "value": 0.0 if kind != "lost" else None,
                }  # fmt: skip


def _summary(
    flow: PerfFlow,
    side: str,
    sides: Mapping[str, Sequence[Connection]],
    streams: Sequence[Mapping[str, Any]],
    clock: _Clock,
) -> dict[str, Any]:
    peer = "server" if side == "client" else "client"
    sent, received = ("up", "down") if side == "client" else ("down", "up")
    own, peer_connections = sides[side], sides[peer]
    ended = [int(one.end["ended_ns"]) for one in own if one.end is not None]
    totals, delivered = _sum_counters(own, clock.end_ns), _sum_counters(peer_connections, clock.end_ns)
    first_start_ns = min((int(one.opening["start_ns"]) for one in sides["client"]), default=None)

    def extreme(column: str, choose: Any) -> float | None:
        return choose((row[column] for row in streams if row[column] is not None), default=None)  # type: ignore[no-any-return]

    # An endpoint that sends only requests has no windows.
    states = [state for one in own for state in (one.end or {}, *one.samples)]
    names = ("cwnd_max_bytes", "cwnd_bytes")
    windows = [int(state[name]) for state in states for name in names if state.get(name) is not None]
    return totals | {
        "flow": flow.name,
        "side": side,
        "congestion": flow.congestion[0 if side == "client" else 1],
        "start_s": clock.seconds(first_start_ns),
        "connected_s": clock.within(min((int(one.opening["connected_ns"]) for one in own), default=None)),
        "first_byte_s": extreme(f"{received}_first_byte_s", min),
        "data_start_s": extreme("start_s", min),
        "data_end_s": extreme(f"{sent}_last_byte_s", max),
        "fin_s": extreme(f"{sent}_fin_s", max),
        "end_s": clock.within(max(ended)) if len(ended) == len(own) and ended else None,
        "connections": len(own),
        "completed_connections": sum(
            1 for one in own if one.end is not None and not str(one.end["end"]).startswith("lost")
        ),
        "cwnd_max_bytes": max(windows, default=None),
        "delivered_bytes": delivered["received_bytes"],
        "delivered_in_order_bytes": delivered["received_in_order_bytes"],
    }
