"""Tables of a session for the store: those of the simulator, from a browser and a capture at the client.

Times count from the start of the session. Values that only the server or the path could measure are null.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from bentpipe.lab.browser.capture_connections import Connection, connections
from bentpipe.lab.browser.pcapng import read
from bentpipe.lab.browser.session_lab import object_of
from bentpipe.lab.browser.spec import page_load
from bentpipe.plan.spec.queries import document_chain, needs_tcp
from bentpipe.store.codec import Measurements
from bentpipe.store.schema import Row, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from bentpipe.lab.counters import Series
    from bentpipe.plan.plan import Run

__all__ = ["measurements"]

CLIENT, SERVER = "client", "server"
INTERFACE = "client-interface"
"""Name of the link at the interface of the client."""


def measurements(
    run: Run, unit: dict[str, Any], capture: bytes, series: Series | None, engine: str
) -> Measurements:
    """Return the tables of a session, and add its connections to ``unit``.

    Args:
        run: run of the session.
        unit: content of ``unit.json``; it gets ``connections``, including those without requests.
        capture: content of the capture at the client.
        series: record of the lab; None on a real access.
        engine: name of the engine.
    """
    tables = _Tables(run, unit, capture, series)
    unit["connections"] = tables.connections()
    packets = sum(len(one.segments) for one in tables.found)
    return Measurements(engine, tables.tables(), {}, packets, 0)


class _Tables:
    def __init__(self, run: Run, unit: Mapping[str, Any], capture: bytes, series: Series | None) -> None:
        self.graph, self.series = run.spec["graph"], series
        self.flow = run.spec["flows"][0]
        self.load = page_load(self.flow)
        # With QUIC and TCP in one load, each transport numbers its connections separately.
        self.both = self.load["http"] == "alt-svc" or (self.load["http"] == "3" and needs_tcp(self.load))
        self.sample_s = run.spec["sample_interval_ns"] / 1e9
        self.unit = unit
        self.zero = float(unit["began_s"])
        self.end = float(unit["ended_s"]) - self.zero
        self.found = connections(read(capture), unit["port"], unit["addresses"])
        self.number = self._numbers()
        self.of_load = {one["load"]: self._connections(one) for one in unit["loads"]}

    def connections(self) -> list[Row]:
        """Return the connections with their round trips, received bytes over time and use by requests."""
        rows = []
        for load in self.unit["loads"]:
            used = {id(connection) for connection in self._matched(load).values()}
            for one in self.of_load[load["load"]]:
                start = one.segments[0]
                answer = one.first_ns("SYN-ACK", "Initial", "Retry", outgoing=False)
                hello, back = (
                    one.first_ns("ClientHello", outgoing=True),
                    one.first_ns("ServerHello", outgoing=False),
                )
                after = back or answer or start.time_ns
                syns = sum(s.label in ("SYN", "Initial") and s.outgoing for s in one.segments)
                rows.append({
                    "load": load["load"], "transport": one.transport, "port": one.port,
                    "began_s": self.seconds(one.began_ns), "used": id(one) in used,
                    "handshake_ms": None if answer is None else (answer - start.time_ns) / 1e6,
                    "tls_ms": None if hello is None or back is None else (back - hello) / 1e6,
                    "again": syns > 1 and one.transport == "tcp",
                    "sent_bytes": sum(s.bytes for s in one.segments if s.outgoing), "received_bytes": one.received,
                    "received": _downsample([((s.time_ns - start.time_ns) / 1e6, s.payload) for s in one.segments
                                          if not s.outgoing and s.payload and s.time_ns > after]),
                })  # fmt: skip
        return rows

    def _numbers(self) -> dict[int, int]:
        """Return the numbers of connections in the table ``packets``, separate for each of two transports."""
        counts: dict[str, int] = {}
        numbers = {}
        for one in self.found:
            kind = one.transport if self.both else ""
            numbers[id(one)] = counts.get(kind, 0)
            counts[kind] = numbers[id(one)] + 1
        return numbers

    def _connections(self, load: Mapping[str, Any]) -> list[Connection]:
        """Return the connections opened between the start of this load (or its preparation) and that of the next."""
        starts = [
            one["start_s"] - sum(one["wall"].get(key, 0.0) for key in ("open",)) for one in self.unit["loads"]
        ]
        index = load["load"] - 1
        low, high = starts[index] * 1e9, starts[index + 1] * 1e9 if index + 1 < len(starts) else float("inf")
        return [one for one in self.found if low <= one.began_ns < high]

    def seconds(self, time_ns: int) -> float:
        return round(time_ns / 1e9 - self.zero, 9)

    def at(self, epoch_s: float | None) -> float | None:
        return None if epoch_s is None else round(epoch_s - self.zero, 7)

    def tables(self) -> dict[str, pl.DataFrame]:
        pages: list[Row] = []
        requests: list[Row] = []
        for one in self.unit["loads"]:
            rows = self._requests(one)
            requests += rows
            pages.append(self._page(one, rows))
        frames: dict[str, list[Row]] = {
            "pages": pages, "requests": requests, "packets": self._packets(), "flows": self._flows(),
            "flow_summary": self._summary(pages), **self._path_tables(),
        }  # fmt: skip
        return {name: table(name, rows) for name, rows in frames.items()}

    def _page(self, one: Mapping[str, Any], rows: Sequence[Row]) -> Row:
        timings = one["timings"]
        navigation = timings.get("navigation") or {}
        origin = timings.get("time_origin_ms", 0.0) / 1e3

        def at(name: str) -> float | None:
            value = navigation.get(name)
            return self.at(origin + value / 1e3) if value else None

        def span(last: str) -> float | None:
            a, b = navigation.get("connectStart"), navigation.get(last)
            return round((b - a) / 1e3, 7) if a and b else None

        start = {name: at(name) for name in ("connectStart", "connectEnd", "requestStart")}
        whole_s = {name: span(name) for name in ("responseStart", "loadEventEnd")}
        if len(document_chain(self.load["page"])) > 1 and one["requests"]:
            # Navigation Timing starts at the last request; the first redirect is in the network events.
            first = one["requests"][0]
            sent = first["sent_s"]
            keys = {
                "connectStart": "connect_start_s",
                "connectEnd": "connect_end_s",
                "requestStart": "sent_s",
            }
            start = {
                name: self.at(first[key] if first[key] is not None else sent) for name, key in keys.items()
            }
            whole_s = {
                name: round(end - start["connectStart"], 7)
                if (end := at(name)) is not None and start["connectStart"] is not None
                else None
                for name in whole_s
            }

        opened = len(self.of_load[one["load"]])
        if not self.found:
            opened = len({request["connection"] for request in one["requests"]})
        whole = [row for row in rows if row["end_s"] is not None]
        return {
            "flow": self.flow["name"], "load": one["load"], "http": self.load["http"],
            "protocol": navigation.get("nextHopProtocol") or None, "start_s": self.at(one["start_s"]),
            "connect_start_s": start["connectStart"], "connect_end_s": start["connectEnd"],
            "request_start_s": start["requestStart"], "response_start_s": at("responseStart"),
            "response_end_s": at("responseEnd"), "content_loaded_s": at("domContentLoadedEventEnd"),
            "load_event_end_s": at("loadEventEnd"), "ttr_s": whole_s["responseStart"], "plt_s": whole_s["loadEventEnd"],
            "objects": len(whole), "bytes": sum(row["bytes"] for row in rows), "connections": opened,
            "completed": int(one["finished"]),
        }  # fmt: skip

    def _requests(self, one: Mapping[str, Any]) -> list[Row]:
        used = self._connection_numbers(one)
        found = []
        for request in one["requests"]:
            known = object_of(self.load["page"], request["url"])
            name, host = known or (request["url"], request["url"].split("/")[2])
            found.append({
                "flow": self.flow["name"], "load": one["load"], "object": name, "host": host,
                "protocol": request["protocol"],
                "connection": used.get(request["connection"], request["connection"]),
                "queued_s": self.at(request["queued_s"]), "sent_s": self.at(request["sent_s"]),
                "response_start_s": self.at(request["response_start_s"]),
                "end_s": self.at(request["end_s"]) if not request["error"] else None, "bytes": request["bytes"],
            })  # fmt: skip
        return found

    def _connection_numbers(self, one: Mapping[str, Any]) -> dict[int, int]:
        """Map the connection numbers of the browser to those of this table.

        A capture does not have the numbers of the browser. Both count in order of opening. For each transport, the
        method takes as many connections as the requests name, those with the most received bytes, in that order.
        """
        return {
            number: 2 * self.number[id(one)] + (one.transport == "tcp") if self.both else self.number[id(one)]
            for number, one in self._matched(one).items()
        }

    def _matched(self, load: Mapping[str, Any]) -> dict[int, Connection]:
        """Return connections of the capture by the connection numbers of the browser."""
        found: dict[int, Connection] = {}
        for transport in ("tcp", "quic"):
            quic = transport == "quic"
            numbers = sorted(
                {
                    r["connection"]
                    for r in load["requests"]
                    if r["protocol"] and (r["protocol"] == "h3") == quic
                }
            )
            candidates = [one for one in self.of_load[load["load"]] if one.transport == transport]
            largest = sorted(candidates, key=lambda one: one.received, reverse=True)[: len(numbers)]
            found |= dict(zip(numbers, sorted(largest, key=lambda one: one.began_ns), strict=False))
        return found

    def _packets(self) -> list[Row]:
        ordered = sorted(
            ((segment, one) for one in self.found for segment in one.segments),
            key=lambda pair: pair[0].time_ns,
        )
        rows = []
        for number, (segment, one) in enumerate(ordered):
            time = self.seconds(segment.time_ns)
            ends = (CLIENT, SERVER) if segment.outgoing else (SERVER, CLIENT)
            sequence = None if segment.sequence is None else float(segment.sequence)
            rows.append({
                "packet": number, "flow": self.flow["name"], "connection": self.number[id(one)],
                "transport": one.transport, "from_node": ends[0], "to_node": ends[1],
                "sent_s": time if segment.outgoing else None, "received_s": None if segment.outgoing else time,
                "dropped": "", "bytes": segment.bytes, "payload_bytes": segment.payload, "label": segment.label,
                "sequence": sequence, "retransmission": int(segment.again),
            })  # fmt: skip
        return rows

    def _ticks(self) -> list[float]:
        count = int(self.end / self.sample_s)
        return [round((index + 1) * self.sample_s, 9) for index in range(count)] + [round(self.end, 9)]

    def _counter_series(self) -> dict[bool, tuple[list[float], list[tuple[int, int, int, int, int]]]]:
        """Return times and cumulative counters by direction (outgoing or not).

        The counters are packets, bytes, ACKs, bytes of ACKs and retransmitted bytes.
        """
        series: dict[bool, tuple[list[float], list[tuple[int, int, int, int, int]]]] = {}
        for outgoing in (True, False):
            mine = sorted(
                (s for one in self.found for s in one.segments if s.outgoing == outgoing),
                key=lambda s: s.time_ns,
            )
            times, sums = [], []
            total = (0, 0, 0, 0, 0)
            for s in mine:
                bare = s.label == "ACK"
                step = (1, s.bytes, int(bare), s.bytes * bare, s.payload * s.again)
                total = tuple(a + b for a, b in zip(total, step, strict=True))  # type: ignore[assignment]
                times.append(self.seconds(s.time_ns))
                sums.append(total)
            series[outgoing] = (times, sums)
        return series

    def _body_series(self) -> tuple[list[float], list[int]]:
        """Return times and cumulative bytes of bodies."""
        steps = sorted(
            (time - self.zero, count) for one in self.unit["loads"] for time, count in one["progress"]
        )
        times, sums = [], []
        total = 0
        for time, count in steps:
            total += count
            times.append(time)
            sums.append(total)
        return times, sums

    def _flows(self) -> list[Row]:
        counted, (times, sums) = self._counter_series(), self._body_series()
        rows = []
        for tick in self._ticks():
            place = bisect_right(times, tick)
            received = sums[place - 1] if place else 0
            sent = _value_at(counted[True], tick)
            server_sent = _value_at(counted[False], tick)
            rows.append(self._flow_row(tick, CLIENT, sent, received, 0))
            rows.append(self._flow_row(tick, SERVER, server_sent, 0, received))
        return rows

    def _flow_row(
        self, tick: float, side: str, sent: tuple[int, int, int, int, int], received: int, written: int
    ) -> Row:
        row: Row = {"time_s": tick, "flow": self.flow["name"], "side": side}
        return row | self._counters(sent, received, written)

    def _counters(self, sent: tuple[int, int, int, int, int], received: int, written: int) -> Row:
        """Return the counters of a side; those of the server count packets that arrived at the client.

        A capture at the client does not see losses on the path. It does not identify pure ACKs of QUIC either, because
        they are encrypted.
        """
        row: Row = {}
        if self.found:
            row |= {"sent_packets": sent[0], "sent_bytes": sent[1]}
            if all(one.transport == "tcp" for one in self.found):
                row |= {"ack_packets": sent[2], "ack_bytes": sent[3]}
        return row | {
            "written_bytes": written,
            "received_bytes": received,
            "received_in_order_bytes": received,
        }

    def _summary(self, pages: Sequence[Row]) -> list[Row]:
        counted, (times, sums) = self._counter_series(), self._body_series()
        received = sums[-1] if sums else 0
        first = next((row["connect_start_s"] for row in pages if row["connect_start_s"] is not None), None)
        connected = next((row["connect_end_s"] for row in pages if row["connect_end_s"] is not None), None)
        last = max(
            (row["load_event_end_s"] for row in pages if row["load_event_end_s"] is not None), default=None
        )
        rows = []
        for side in (CLIENT, SERVER):
            client = side == CLIENT
            row: Row = {
                "flow": self.flow["name"], "side": side,
                "congestion": self.flow["client_congestion" if client else "server_congestion"]["name"],
                "start_s": 0.0, "connected_s": connected,
                "first_byte_s": times[0] if client and times else None,
                "data_start_s": first, "data_end_s": times[-1] if times and not client else None,
                "fin_s": last if not client else None, "end_s": self.end,
                "connections": len(self.found), "completed_connections": len(self.found),
            }  # fmt: skip
            sent = _value_at(counted[client], self.end)
            row |= self._counters(sent, received if client else 0, 0 if client else received)
            row |= {"cwnd_max_bytes": None, "delivered_bytes": 0 if client else received,
                    "delivered_in_order_bytes": 0 if client else received}  # fmt: skip
            rows.append(row)
        return rows

    def _path_tables(self) -> dict[str, list[Row]]:
        """Return the tables of the path from the record of the lab, or from the interface of the client."""
        if self.series is None:
            links, totals = self._interface()
            proxies: list[Row] = []
            rare: dict[str, list[Row]] = {}
        else:
            origin = round(self.unit["began_monotonic_s"] * 1e9)
            ticks = [origin + round(tick * 1e9) for tick in self._ticks()]
            links, totals = self.series.link_rows(self.graph, origin, ticks)
            proxies = self.series.proxy_rows([self.flow["name"]], origin, ticks)
            rare = {
                "radio_users": self.series.user_rows(origin, ticks),
                "user_queues": self.series.queue_rows(ticks),
            }
        found = {"links": links, "link_summary": totals, "proxies": proxies}
        return found | {name: rows for name, rows in rare.items() if rows}

    def _interface(self) -> tuple[list[Row], list[Row]]:
        counted = self._counter_series()
        rows, totals = [], []
        for direction, outgoing in (("down", False), ("up", True)):
            for tick in [*self._ticks(), None]:
                packets, size, *_ = _value_at(counted[outgoing], self.end if tick is None else tick)
                row: Row = {
                    "link": f"{INTERFACE}.{direction}", "sent_bytes": size, "arrived_packets": packets,
                    "arrived_bytes": size, "delivered_packets": packets, "delivered_bytes": size,
                }  # fmt: skip
                if tick is None:
                    totals.append(row)
                else:
                    rows.append({"time_s": tick, **row})
        return rows, totals


def _value_at(
    series: tuple[list[float], list[tuple[int, int, int, int, int]]], tick: float
) -> tuple[int, int, int, int, int]:
    times, sums = series
    place = bisect_right(times, tick)
    return sums[place - 1] if place else (0, 0, 0, 0, 0)


STEP_MS = 10.0
"""Interval in ms of the record of the received bytes of a connection."""


def _downsample(received: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return the sums of received bytes over :data:`STEP_MS`."""
    steps: dict[int, int] = {}
    for time, count in received:
        steps[int(time / STEP_MS)] = steps.get(int(time / STEP_MS), 0) + count
    return [(step * STEP_MS, count) for step, count in steps.items()]
