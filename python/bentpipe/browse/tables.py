"""A unit as the tables of a store: the simulator's, with what a browser and a capture at the client know.

Instants count from the unit's start. What only the server or the path would know is null.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.browse.far import object_of
from bentpipe.browse.links import COUNTERS as LINK_COUNTERS
from bentpipe.browse.links import lab_links
from bentpipe.browse.packets import Connection, connections
from bentpipe.browse.pcapng import read
from bentpipe.results import Measurements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan import Run

__all__ = ["measurements"]

CLIENT, SERVER = "client", "server"
COUNTERS = (
    "sent_packets", "sent_bytes", "ack_packets", "ack_bytes", "lost_packets", "lost_bytes", "congestion_events",
    "persistent_congestion", "ptos", "timeouts", "undone", "retransmitted_bytes", "written_bytes", "received_bytes",
    "received_in_order_bytes",
)  # fmt: skip
INTERFACE = "client-interface"
"""The link that a capture at the client sees."""


def _schema(columns: str, whole: str, text: str) -> dict[str, pl.DataType]:
    """Columns in order: those in ``whole`` are whole numbers, those in ``text`` words, the others seconds."""
    kinds: dict[str, pl.DataType] = dict.fromkeys(columns.split(), pl.Float64())
    return kinds | dict.fromkeys(whole.split(), pl.Int64()) | dict.fromkeys(text.split(), pl.String())


_PAGES = _schema(
    "flow load http protocol start_s connect_start_s connect_end_s request_start_s response_start_s response_end_s "
    "content_loaded_s load_event_end_s ttr_s plt_s objects bytes connections finished",
    "load objects bytes connections finished", "flow http protocol",
)  # fmt: skip
_REQUESTS = _schema(
    "flow load object host protocol connection queued_s sent_s response_start_s end_s bytes",
    "load connection bytes", "flow object host protocol",
)  # fmt: skip
_PACKETS = _schema(
    "packet flow connection transport from_node to_node sent_s received_s dropped bytes payload_bytes label sequence "
    "retransmission",
    "packet connection bytes payload_bytes retransmission", "flow transport from_node to_node dropped label",
)  # fmt: skip


def measurements(run: Run, unit: dict[str, Any], capture: bytes, series: str, engine: str) -> Measurements:
    """The tables of a unit: its ``unit.json``, its capture and its lab's ``links.csv`` (empty without one).

    ``unit`` gets a record of its connections, those that no request used among them.
    """
    made = _Tables(run, unit, capture, series)
    unit["connections"] = made.connections()
    packets = sum(len(one.segments) for one in made.found)
    return Measurements(engine, made.tables(), {}, packets, 0)


class _Tables:
    def __init__(self, run: Run, unit: Mapping[str, Any], capture: bytes, series: str) -> None:
        self.graph, self.series = run.spec["graph"], series
        self.flow = run.spec["flows"][0]
        self.load = self.flow["load"]
        self.sample_s = run.spec["sample_ns"] / 1e9
        self.unit = unit
        self.zero = float(unit["began_s"])
        self.end = float(unit["ended_s"]) - self.zero
        self.found = connections(read(capture), unit["port"], unit["addresses"])
        self.number = self._numbers()
        self.of_load = {one["load"]: self._connections(one) for one in unit["loads"]}

    def connections(self) -> list[dict[str, Any]]:
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
        """Connections by their number in the table ``packets``: with Alt-Svc each transport counts its own."""
        counts: dict[str, int] = {}
        numbers = {}
        for one in self.found:
            kind = one.transport if self.load["http"] == "alt-svc" else ""
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
        pages, requests = [], []
        for one in self.unit["loads"]:
            rows = self._requests(one)
            requests += rows
            pages.append(self._page(one, rows))
        frames = {
            "pages": pl.DataFrame(pages, schema=_PAGES, orient="row"),
            "requests": pl.DataFrame(requests, schema=_REQUESTS, orient="row").sort("load", "queued_s"),
            "packets": pl.DataFrame(self._packets(), schema=_PACKETS, orient="row"),
            "flows": pl.DataFrame(self._flows(), infer_schema_length=None),
            "summary": pl.DataFrame(self._summary(pages), infer_schema_length=None),
        }
        links, totals = self._links()
        frames["links"] = pl.DataFrame(links, infer_schema_length=None)
        frames["link_summary"] = pl.DataFrame(totals, infer_schema_length=None)
        for name, columns in (("flows", COUNTERS), ("summary", COUNTERS), ("links", LINK_COUNTERS),
                              ("link_summary", LINK_COUNTERS)):  # fmt: skip
            frames[name] = frames[name].with_columns(pl.col(list(columns)).cast(pl.Int64))
        return frames

    def _page(self, one: Mapping[str, Any], rows: Sequence[Sequence[Any]]) -> list[Any]:
        timings = one["timings"]
        navigation = timings.get("navigation") or {}
        origin = timings.get("time_origin_ms", 0.0) / 1e3

        def at(name: str) -> float | None:
            value = navigation.get(name)
            return self.at(origin + value / 1e3) if value else None

        def span(last: str) -> float | None:
            a, b = navigation.get("connectStart"), navigation.get(last)
            return round((b - a) / 1e3, 7) if a and b else None

        opened = len(self.of_load[one["load"]])
        if not self.found:
            opened = len({request["connection"] for request in one["requests"]})
        whole = [row for row in rows if row[9] is not None]
        return [
            self.flow["name"], one["load"], self.load["http"], navigation.get("nextHopProtocol") or None,
            self.at(one["start_s"]), at("connectStart"), at("connectEnd"), at("requestStart"), at("responseStart"),
            at("responseEnd"), at("domContentLoadedEventEnd"), at("loadEventEnd"), span("responseStart"),
            span("loadEventEnd"), len(whole), sum(row[10] for row in rows), opened, int(one["finished"]),
        ]  # fmt: skip

    def _requests(self, one: Mapping[str, Any]) -> list[list[Any]]:
        used = self._used(one)
        found = []
        for request in one["requests"]:
            known = object_of(self.load["page"], request["url"])
            name, host = known or (request["url"], request["url"].split("/")[2])
            found.append([
                self.flow["name"], one["load"], name, host, request["protocol"],
                used.get(request["connection"], request["connection"]), self.at(request["queued_s"]),
                self.at(request["sent_s"]), self.at(request["response_start_s"]),
                self.at(request["end_s"]) if not request["error"] else None, request["bytes"],
            ])  # fmt: skip
        return found

    def _used(self, one: Mapping[str, Any]) -> dict[int, int]:
        """The browser's numbers of connections as those of this table.

        A capture does not know the browser's numbers. Both number in order of opening: of each transport as many
        connections as requests name, those that received most, are taken in that order.
        """
        shared = self.load["http"] == "alt-svc"
        return {
            number: 2 * self.number[id(one)] + (one.transport == "tcp") if shared else self.number[id(one)]
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

    def _packets(self) -> list[list[Any]]:
        ordered = sorted(
            ((segment, one) for one in self.found for segment in one.segments),
            key=lambda pair: pair[0].time_ns,
        )
        rows = []
        for number, (segment, one) in enumerate(ordered):
            time = self.seconds(segment.time_ns)
            ends = (CLIENT, SERVER) if segment.outgoing else (SERVER, CLIENT)
            sequence = None if segment.sequence is None else float(segment.sequence)
            rows.append([
                number, self.flow["name"], self.number[id(one)], one.transport, *ends,
                time if segment.outgoing else None, None if segment.outgoing else time, "",
                segment.bytes, segment.payload, segment.label, sequence, int(segment.again),
            ])  # fmt: skip
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

    def _flows(self) -> list[dict[str, Any]]:
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
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"time_s": tick, "flow": self.flow["name"], "side": side}
        row |= dict.fromkeys(("cwnd_bytes", "ssthresh_bytes"), None)
        row |= dict.fromkeys(
            ("in_flight_bytes", "smoothed_rtt_ms", "latest_rtt_ms", "min_rtt_ms", "pacing_rate_bit_s")
        )
        return row | self._counters(sent, received, written)

    def _counters(self, sent: tuple[int, int, int, int, int], received: int, written: int) -> dict[str, Any]:
        """Of the server what arrived at the client: of what was lost on the way a capture there knows nothing."""
        row: dict[str, Any] = dict.fromkeys(COUNTERS)
        if self.found:
            row |= dict(
                zip(("sent_packets", "sent_bytes", "ack_packets", "ack_bytes"), sent[:4], strict=True)
            )
        return row | {
            "written_bytes": written,
            "received_bytes": received,
            "received_in_order_bytes": received,
        }

    def _summary(self, pages: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        counted, (times, sums) = self._counted(), self._bodies()
        received = sums[-1] if sums else 0
        first = next((row[5] for row in pages if row[5] is not None), None)
        connected = next((row[6] for row in pages if row[6] is not None), None)
        last = max((row[11] for row in pages if row[11] is not None), default=None)
        rows = []
        for side in (CLIENT, SERVER):
            client = side == CLIENT
            row: dict[str, Any] = {
                "flow": self.flow["name"], "side": side,
                "congestion": self.flow[f"{side}_congestion"]["name"], "start_s": 0.0, "connected_s": connected,
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

    def _links(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        if self.series:
            zero = float(self.unit["began_monotonic_s"]) - self.unit["lab"]["started_ns"] / 1e9
            return lab_links(self.graph, self.series, zero, self._ticks())
        counted = self._counted()
        rows, totals = [], []
        for way, outgoing in (("down", False), ("up", True)):
            for tick in [*self._ticks(), None]:
                packets, size, *_ = _until(counted[outgoing], self.end if tick is None else tick)
                row: dict[str, Any] = {"link": f"{INTERFACE}.{way}", **dict.fromkeys(LINK_COUNTERS)}
                row |= {"sent_bytes": size, "arrived_packets": packets, "arrived_bytes": size,
                        "delivered_packets": packets, "delivered_bytes": size}  # fmt: skip
                if tick is not None:
                    rows.append({"time_s": tick, **row})
                    continue
                quantiles = {f"queueing_{q}_ms": None for q in ("p50", "p95", "p99", "max")}
                totals.append(
                    {"link": row["link"], "rate_bit_s": None, "propagation_ms": None, **row, **quantiles}
                )
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
