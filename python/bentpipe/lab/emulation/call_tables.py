"""Calls of a lab as the simulator's tables: both endpoints report at their end, by windows of ten seconds.

A counter grows at the end of each window, and at the end of the run by the rest. No values exist in between.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.lab.call_rows import call_rows
from bentpipe.plan.spec.result_columns import CALL_WINDOW_S, COUNTERS, GAUGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bentpipe.plan.spec.run_spec import DatagramsLoadSpec
    from bentpipe.store.schema import Row

__all__ = ["CallFlow", "read_result"]

Direction = Literal["up", "down"]

LINGER_S = 4.0
"""Time between the last datagram of the client and its end, s."""

SIDES: tuple[tuple[str, Direction, Direction], ...] = (("client", "up", "down"), ("server", "down", "up"))
"""Endpoints, each with the direction that it sends and the direction that it receives."""


def read_result(file: Path) -> Mapping[str, Any] | None:
    """Return the result that the client reported at its end; None if it did not report."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class CallFlow:
    """Flow that is a call."""

    name: str
    load: DatagramsLoadSpec
    header_bytes: int
    result: Mapping[str, Any] | None
    """Result of the call; None if the client did not report."""

    def late_ns(self) -> Iterator[int]:
        """Yield the lateness of each endpoint, ns."""
        if self.result is not None:
            yield from (late for late in self.result["late_ns"] if late is not None)

    @property
    def origin_ns(self) -> int | None:
        """Return the start of the run on the host's clock, ns."""
        return None if self.result is None else int(self.result["zero_ns"])

    def rows(self) -> dict[str, list[Row]]:
        """Return the rows of the tables ``calls`` and ``call_delays``."""
        if self.result is None:
            return {}
        calls, delays = call_rows(self.name, self.result, self.load)
        return {"calls": calls, "call_delays": delays}

    def totals(
        self, origin_ns: int, ticks_ns: Sequence[int], seconds: Callable[[int], float | None]
    ) -> dict[str, list[Row]]:
        """Return the rows of the tables that every flow has.

        Args:
            origin_ns: start of the run on the host's clock, ns.
            ticks_ns: times of the samples on the host's clock, ns.
            seconds: converts a time to the time of the run, s.
        """
        start_ns = (
            origin_ns if self.result is None else int(self.result["zero_ns"]) + int(self.result["start_ns"])
        )
        last_ns = min(start_ns + int(self.load["duration_ns"]), ticks_ns[-1])
        is_over = self.result is not None and last_ns + LINGER_S * 1e9 <= ticks_ns[-1]
        tables: dict[str, list[Row]] = {"flow_summary": [], "flows": [], "streams": [], "events": []}
        start, last = seconds(start_ns), seconds(last_ns)
        if self.result is None:
            start = last = None
        for side, sent_direction, received_direction in SIDES:
            for tick in ticks_ns:
                until_s = None if tick == ticks_ns[-1] else (tick - origin_ns) / 1e9
                tables["flows"].append({"time_s": seconds(tick), "flow": self.name, "side": side,
                                       **dict.fromkeys(GAUGES),
                                       **self._counters(sent_direction, received_direction, until_s)})  # fmt: skip
            counters = self._counters(sent_direction, received_direction, None)
            delivered_bytes = self._count_bytes(sent_direction, "received_packets", None)
            tables["flow_summary"].append(
                counters
                | {
                    "flow": self.name, "side": side, "congestion": "none", "start_s": start, "connected_s": start,
                    "first_byte_s": None, "data_start_s": start, "data_end_s": last, "fin_s": None, "end_s": None,
                    "connections": int(self.result is not None), "completed_connections": int(is_over),
                    "cwnd_max_bytes": None, "delivered_bytes": delivered_bytes,
                    "delivered_in_order_bytes": delivered_bytes,
                }
            )  # fmt: skip
        if self.result is not None:
            row: Row = {
                "flow": self.name,
                "connection": 0,
                "stream_id": 0,
                "mode": "datagrams",
                "start_s": start,
            }
            for direction in ("up", "down"):
                row[f"{direction}_written_bytes"] = self._count_bytes(direction, "sent_packets", None)
                row[f"{direction}_bytes"] = self._count_bytes(direction, "received_packets", None)
            tables["streams"].append(row)
            event = {
                "time_s": start,
                "flow": self.name,
                "side": "client",
                "connection": 0,
                "kind": "start",
                "value": 0.0,
            }
            tables["events"].append(event)
        return tables

    def _counters(
        self, sent_direction: Direction, received_direction: Direction, until_s: float | None
    ) -> Row:
        packets, received = (
            self._count_packets(sent_direction, "sent_packets", until_s),
            self._count_bytes(received_direction, "received_packets", until_s),
        )
        written = self._count_bytes(sent_direction, "sent_packets", until_s)
        # Nothing controls or acknowledges datagrams over UDP.
        return dict.fromkeys(COUNTERS, 0) | {
            "sent_packets": packets, "sent_bytes": written + packets * self.header_bytes, "written_bytes": written,
            "received_bytes": received, "received_in_order_bytes": received,
        }  # fmt: skip

    def _count_bytes(self, direction: Direction, counter: str, until_s: float | None) -> int:
        source = self.load[direction]
        return (
            0
            if source is None
            else self._count_packets(direction, counter, until_s) * source["payload_bytes"]
        )

    def _count_packets(self, direction: Direction, counter: str, until_s: float | None) -> int:
        """Return the sum of a counter over the windows that had ended at ``until_s``."""
        own_result = None if self.result is None else self.result[direction]
        if own_result is None:
            return 0
        return sum(
            int(window[counter])
            for window in own_result["windows"]
            if until_s is None or window["window_s"] + CALL_WINDOW_S <= until_s
        )
