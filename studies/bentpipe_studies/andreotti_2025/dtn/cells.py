"""Cells of chapter 5: swept keys, and the cells that each selection needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bentpipe_studies.parts import CellFilter
from bentpipe_studies.study import match_any, match_cells

__all__ = [
    "BUNDLE_BITS", "BURST_S", "CONTROLLER", "CONTROLLERS", "DISRUPTION", "LONG", "LOSS", "RATE", "RELAY",
    "RTT", "SHORT", "STARTS", "STREAM", "STREAMS", "WINDOW", "WORDS", "cells_of", "long", "short",
]  # fmt: skip

SHORT, LONG = "dtn", "dtn-long"
CONTROLLER, STREAMS, RTT, DISRUPTION, RELAY = "controller", "streams", "rtt", "disruption", "relay"
LOSS = "graph.direct.up.loss"
CONTROLLERS, STREAM = ("cubic", "bbr"), ("one stream", "a stream a bundle")
STARTS = {SHORT: 14.5, LONG: 30.0}
"""Start of disruptions by part, s."""

WINDOW, BUNDLE_BITS, RATE = 32, 8e6, 100e6
BURST_S = WINDOW * BUNDLE_BITS / RATE
"""Time of a window of bundles at the rate of the link, s."""


def short(
    controller: str, rtt: str, *, loss: str = "0.01 %", disruption: str = "1 s", streams: str = STREAM[0],
    relay: str = "without",
) -> dict[str, str]:  # fmt: skip
    """Return a cell of the runs of 30 s."""
    return {
        CONTROLLER: controller,
        STREAMS: streams,
        RTT: rtt,
        LOSS: loss,
        DISRUPTION: disruption,
        RELAY: relay,
    }


def long(controller: str, rtt: str, disruption: str, relay: str = "with relay") -> dict[str, str]:
    """Return a cell of the runs of 300 s, with one stream and the least loss."""
    return {
        CONTROLLER: controller,
        STREAMS: STREAM[0],
        RTT: rtt,
        LOSS: "0.01 %",
        DISRUPTION: f"{disruption}, {relay}",
    }


def cells_of(cells: Sequence[Mapping[str, str]]) -> CellFilter:
    """Return a filter of exactly these cells."""
    return match_any([match_cells({key: [value] for key, value in cell.items()}) for cell in cells])


def _each(make: Callable[[str], Sequence[Mapping[str, str]]]) -> CellFilter:
    return cells_of([cell for controller in CONTROLLERS for cell in make(controller)])


_RELAYED = _each(
    lambda c: [
        short(c, "10 ms", disruption=d, relay="in the plan")
        for d in ("none", "10 ms", "50 ms", "100 ms", "1 s")
    ]
)
_FIGURES = _each(
    lambda c: [
        short(c, "10 ms", disruption="none"), short(c, "10 ms"), short(c, "125 ms"), short(c, "125 ms", loss="1 %"),
        short(c, "2 s"), short(c, "10 ms", disruption="none", streams=STREAM[1]),
    ]
)  # fmt: skip
_LONG = _each(lambda c: [long(c, "10 ms", "100 s"), long(c, "10 ms", "100 s", "without relay")])

WORDS: dict[str, dict[str, CellFilter]] = {
    "dtn": {SHORT: match_any([_FIGURES, _RELAYED]), LONG: _LONG},
    "dtn-grid": {SHORT: match_cells({RELAY: ["without"]}), LONG: match_cells()},
    "dtn-short": {SHORT: cells_of([short("cubic", "10 ms")])},
}
"""Selections: the cells that chapter 5 draws and states; every cell of its grid; one run for a test."""
