"""A unit as the tables of a store: the simulator's, with what a browser and a capture at the client know.

Instants count from the unit's start. What only the server or the path would know is null.
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
"""The link that a capture at the client sees."""


def measurements(
    run: Run, unit: dict[str, Any], capture: bytes, series: Series | None, engine: str
) -> Measurements:
    """The tables of a unit: its ``unit.json``, its capture and what its lab recorded (None without one).

    ``unit`` gets a record of its connections, those that no request used among them.
    """
    made = _Tables(run, unit, capture, series)
    unit["connections"] = made.connections()
    packets = sum(len(one.segments) for one in made.found)
    return Measurements(engine, made.tables(), {}, packets, 0)


class _Tables:
    def __init__(self, run: Run, unit: Mapping[str, Any], capture: bytes, series: Series | None) -> None:
        self.graph, self.series = run.spec["graph"], series
        self.flow = run.spec["flows"][0]
        self.load = page_load(self.flow)
        # QUIC and TCP side by side: each numbers its own connections.
        self.both = self.load["http"] == "alt-svc" or (self.load["http"] == "3" and needs_tcp(self.load))
        self.sample_s = run.spec["sample_ns"] / 1e9
        self.unit = unit
        self.zero = float(unit["began_s"])
        self.end = float(unit["ended_s"]) - self.zero
        self.found = connections(read(capture), unit["port"], unit["addresses"])
        self.number = self._numbers()
        self.of_load = {one["load"]: self._connections(one) for one in unit["loads"]}

    def connections(self) -> list[Row]:
        """Each connection: its round trips, what it received when, and whether a request went over it."""
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
                    "received": _thinned([((s.time_ns - start.time_ns) / 1e6, s.payload) for s in one.segments
                                          if not s.outgoing and s.payload and s.time_ns > after]),
                })  # fmt: skip
        return rows

    def _numbers(self) -> dict[int, int]:
        """Connections by their number in the table ``packets``: of two transports each counts its own."""
        counts: dict[str, int] = {}
        numbers = {}
        for one in self.found:
            kind = one.transport if self.both else ""
            numbers[id(one)] = counts.get(kind, 0)
            counts[kind] = numbers[id(one)] + 1
        return numbers

    def _connections(self, load: Mapping[str, Any]) -> list[Connection]:
        """Connections that were opened from this load's start (with the ones opened beforehand) to the next one's."""
        starts = [
            one["start_s"] - sum(one["wall"].get(key, 0.0) for key in ("open",)) for one in self.unit["loads"]
        ]
        here = load["load"] - 1
        low, high = starts[here] * 1e9, starts[here + 1] * 1e9 if here + 1 < len(starts) else float("inf")
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
            "summary": self._summary(pages), **self._recorded(),
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
            # Navigation Timing begins with the last request: the first redirect is in the network's events.
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
            "finished": int(one["finished"]),
        }  # fmt: skip

    def _requests(self, one: Mapping[str, Any]) -> list[Row]:
        used = self._used(one)
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

    def _used(self, one: Mapping[str, Any]) -> dict[int, int]:
        """The browser's numbers of connections as those of this table.

        A capture does not know the browser's numbers. Both number in order of opening: of each transport as many
        connections as requests name, those that received most, are taken in that order.
        """
        return {
            number: 2 * self.number[id(one)] + (one.transport == "tcp") if self.both else self.number[id(one)]
            for number, one in self._matched(one).items()
        }

    def _matched(self, load: Mapping[str, Any]) -> dict[int, Connection]:
        """Connections of the capture by the browser's numbers."""
        found: dict[int, Connection] = {}
        for transport in ("tcp", "quic"):
            quic = transport == "quic"
            asked = sorted(
                {
                    r["connection"]
                    for r in load["requests"]
                    if r["protocol"] and (r["protocol"] == "h3") == quic
                }
            )
            there = [one for one in self.of_load[load["load"]] if one.transport == transport]
            largest = sorted(there, key=lambda one: one.received, reverse=True)[: len(asked)]
            found |= dict(zip(asked, sorted(largest, key=lambda one: one.began_ns), strict=False))
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

    def _counted(self) -> dict[bool, tuple[list[float], list[tuple[int, int, int, int, int]]]]:
        """By direction (outgoing or not): instants, and packets, bytes, ACKs, their bytes, bytes again until then."""
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

    def _bodies(self) -> tuple[list[float], list[int]]:
        """When the page had how many bytes of bodies."""
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
        counted, (times, sums) = self._counted(), self._bodies()
        rows = []
        for tick in self._ticks():
            place = bisect_right(times, tick)
            received = sums[place - 1] if place else 0
            sent = _until(counted[True], tick)
            there = _until(counted[False], tick)
            rows.append(self._flow_row(tick, CLIENT, sent, received, 0))
            rows.append(self._flow_row(tick, SERVER, there, 0, received))
        return rows

    def _flow_row(
        self, tick: float, side: str, sent: tuple[int, int, int, int, int], received: int, written: int
    ) -> Row:
        row: Row = {"time_s": tick, "flow": self.flow["name"], "side": side}
        return row | self._counters(sent, received, written)

    def _counters(self, sent: tuple[int, int, int, int, int], received: int, written: int) -> Row:
        """Of the server what arrived at the client: of what was lost on the way a capture there knows nothing.

        Which packets of QUIC are ACKs alone it does not see either: they are encrypted.
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
        counted, (times, sums) = self._counted(), self._bodies()
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
            sent = _until(counted[client], self.end)
            row |= self._counters(sent, received if client else 0, 0 if client else received)
            row |= {"largest_cwnd_bytes": None, "delivered_bytes": 0 if client else received,
                    "delivered_in_order_bytes": 0 if client else received}  # fmt: skip
            rows.append(row)
        return rows

    def _recorded(self) -> dict[str, list[Row]]:
        """The tables of the path: the lab's record, or what crossed the client's interface."""
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
                "users": self.series.user_rows(origin, ticks),
                "user_queues": self.series.queue_rows(ticks),
            }
        found = {"links": links, "link_summary": totals, "proxies": proxies}
        return found | {name: rows for name, rows in rare.items() if rows}

    def _interface(self) -> tuple[list[Row], list[Row]]:
        counted = self._counted()
        rows, totals = [], []
        for way, outgoing in (("down", False), ("up", True)):
            for tick in [*self._ticks(), None]:
                packets, size, *_ = _until(counted[outgoing], self.end if tick is None else tick)
                row: Row = {
                    "link": f"{INTERFACE}.{way}", "sent_bytes": size, "arrived_packets": packets,
                    "arrived_bytes": size, "delivered_packets": packets, "delivered_bytes": size,
                }  # fmt: skip
                if tick is None:
                    totals.append(row)
                else:
                    rows.append({"time_s": tick, **row})
        return rows, totals


def _until(
    series: tuple[list[float], list[tuple[int, int, int, int, int]]], tick: float
) -> tuple[int, int, int, int, int]:
    times, sums = series
    place = bisect_right(times, tick)
    return sums[place - 1] if place else (0, 0, 0, 0, 0)


STEP_MS = 10.0
"""Of the record of what a connection received."""


def _thinned(received: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """What came, added up over :data:`STEP_MS`."""
    steps: dict[int, int] = {}
    for time, count in received:
        steps[int(time / STEP_MS)] = steps.get(int(time / STEP_MS), 0) + count
    return [(step * STEP_MS, count) for step, count in steps.items()]
