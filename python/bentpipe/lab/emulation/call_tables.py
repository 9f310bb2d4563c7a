"""Calls of a lab as the simulator's tables: what the two sides have told at their end, by windows of ten seconds.

A counter grows at the end of each window, and with what is left at the end of the run: in between nobody was asked.
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

__all__ = ["Called", "read_told"]

Way = Literal["up", "down"]

LINGER_S = 4.0
"""The calling side closes so long after its last datagram."""

SIDES: tuple[tuple[str, Way, Way], ...] = (("client", "up", "down"), ("server", "down", "up"))
"""What each sends, and hears."""


def read_told(file: Path) -> Mapping[str, Any] | None:
    """What the calling side has said at its end; None where it has not come to that."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class Called:
    """A flow that is a call."""

    name: str
    load: DatagramsLoadSpec
    header_bytes: int
    told: Mapping[str, Any] | None

    def late_ns(self) -> Iterator[int]:
        """How late each side was."""
        if self.told is not None:
            yield from (late for late in self.told["late_ns"] if late is not None)

    @property
    def origin_ns(self) -> int | None:
        """When the run began, on the machine's clock."""
        return None if self.told is None else int(self.told["zero_ns"])

    def rows(self) -> dict[str, list[Row]]:
        """Of the tables ``calls`` and ``call_delays``."""
        if self.told is None:
            return {}
        calls, delays = call_rows(self.name, self.told, self.load)
        return {"calls": calls, "call_delays": delays}

    def totals(
        self, origin_ns: int, ticks_ns: Sequence[int], seconds: Callable[[int], float | None]
    ) -> dict[str, list[Row]]:
        """Of the tables that every flow has; ``seconds`` is an instant in the run's time."""
        start_ns = origin_ns if self.told is None else int(self.told["zero_ns"]) + int(self.told["start_ns"])
        last_ns = min(start_ns + int(self.load["duration_ns"]), ticks_ns[-1])
        is_over = self.told is not None and last_ns + LINGER_S * 1e9 <= ticks_ns[-1]
        found: dict[str, list[Row]] = {"summary": [], "flows": [], "streams": [], "events": []}
        start, last = seconds(start_ns), seconds(last_ns)
        if self.told is None:
            start = last = None
        for side, sent, heard in SIDES:
            for tick in ticks_ns:
                until = None if tick == ticks_ns[-1] else (tick - origin_ns) / 1e9
                found["flows"].append({"time_s": seconds(tick), "flow": self.name, "side": side,
                                       **dict.fromkeys(GAUGES), **self._counters(sent, heard, until)})  # fmt: skip
            counters = self._counters(sent, heard, None)
            reached = self._bytes(sent, "received_packets", None)
            found["summary"].append(
                counters
                | {
                    "flow": self.name, "side": side, "congestion": "none", "start_s": start, "connected_s": start,
                    "first_byte_s": None, "data_start_s": start, "data_end_s": last, "fin_s": None, "end_s": None,
                    "connections": int(self.told is not None), "completed_connections": int(is_over),
                    "largest_cwnd_bytes": None, "delivered_bytes": reached, "delivered_in_order_bytes": reached,
                }
            )  # fmt: skip
        if self.told is not None:
            row: Row = {
                "flow": self.name,
                "connection": 0,
                "stream_id": 0,
                "mode": "datagrams",
                "start_s": start,
            }
            for way in ("up", "down"):
                row[f"{way}_written_bytes"] = self._bytes(way, "sent_packets", None)
                row[f"{way}_bytes"] = self._bytes(way, "received_packets", None)
            found["streams"].append(row)
            event = {
                "time_s": start,
                "flow": self.name,
                "side": "client",
                "connection": 0,
                "kind": "start",
                "value": 0.0,
            }
            found["events"].append(event)
        return found

    def _counters(self, sent: Way, heard: Way, until_s: float | None) -> Row:
        packets, received = (
            self._packets(sent, "sent_packets", until_s),
            self._bytes(heard, "received_packets", until_s),
        )
        written = self._bytes(sent, "sent_packets", until_s)
        # Nothing controls or acknowledges datagrams over UDP.
        return dict.fromkeys(COUNTERS, 0) | {
            "sent_packets": packets, "sent_bytes": written + packets * self.header_bytes, "written_bytes": written,
            "received_bytes": received, "received_in_order_bytes": received,
        }  # fmt: skip

    def _bytes(self, way: Way, counter: str, until_s: float | None) -> int:
        source = self.load[way]
        return 0 if source is None else self._packets(way, counter, until_s) * source["payload_bytes"]

    def _packets(self, way: Way, counter: str, until_s: float | None) -> int:
        """Of windows that had ended ``until_s`` of the run."""
        direction = None if self.told is None else self.told[way]
        if direction is None:
            return 0
        return sum(
            int(window[counter])
            for window in direction["windows"]
            if until_s is None or window["window_s"] + CALL_WINDOW_S <= until_s
        )
