"""What the executable tells of a call at its end, as rows of the tables of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["call_rows"]


def call_rows(
    name: str, one: Mapping[str, Any], load: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of ``calls`` and of ``call_delays`` of what the executable told of a call with ``load``."""
    calls: list[dict[str, Any]] = []
    delays: list[dict[str, Any]] = []
    for way in ("up", "down"):
        source = load[way]
        if source is None or one[way] is None:
            continue
        whose = {"flow": name, "direction": way}
        own = {"source": source["name"], "payload_bytes": source["payload_bytes"],
               "interval_ms": source["interval_ns"] / 1e6}  # fmt: skip
        for window in one[way]["windows"]:
            calls.append(
                {**whose, **own, **{k: v for k, v in window.items() if k not in ("delays", "window")}}
            )
            delays += [
                {**whose, "window_s": window["window_s"], "delay_ms": delay, "packets": packets,
                 "before_slower_packets": slower, "after_quicker_packets": quicker}
                for delay, packets, slower, quicker in window["delays"]
            ]  # fmt: skip
    return calls, delays
