"""Results of a call, as the executable reports them at its end, as rows of the tables of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["call_rows"]


def call_rows(
    name: str, result: Mapping[str, Any], load: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of the tables ``calls`` and ``call_delays`` for one call.

    Args:
        name: name of the flow.
        result: result of the call, as ``bentpipe-rt`` reports it.
        load: sources of the call by direction, as in its plan.
    """
    calls: list[dict[str, Any]] = []
    delays: list[dict[str, Any]] = []
    for direction in ("up", "down"):
        source = load[direction]
        if source is None or result[direction] is None:
            continue
        key_columns = {"flow": name, "direction": direction}
        source_columns = {"source": source["name"], "payload_bytes": source["payload_bytes"],
               "interval_ms": source["interval_ns"] / 1e6}  # fmt: skip
        for window in result[direction]["windows"]:
            calls.append(
                {
                    **key_columns,
                    **source_columns,
                    **{
                        column: value
                        for column, value in window.items()
                        if column not in ("delays", "window")
                    },
                }
            )
            delays += [
                {**key_columns, "window_s": window["window_s"], "delay_ms": delay, "packets": packets,
                 "before_slower_packets": slower, "after_quicker_packets": faster}
                for delay, packets, slower, faster in window["delays"]
            ]  # fmt: skip
    return calls, delays
