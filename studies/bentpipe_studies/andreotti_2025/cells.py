"""Keys of the study's sweeps, and its cells."""

from __future__ import annotations

DELAY, RATE, LOSS = "path.satellite.delay", "path.satellite.rate", "path.satellite.up.loss"
NETEM, ALONE, RIVAL = "path.satellite.netem", "flow.bulk.congestion", "flow.rival.congestion"
HYBLA, FIRST, SECOND = "flow.hybla.congestion", "flow.first.congestion", "flow.second.congestion"
CONTROLLERS = ("newreno", "cubic", "bbr", "hybla")
LEO, GEO = "15 ms", "250 ms"
LOSSES = {LEO: ("0.01 %", "0.1 %", "1 %", "10 %"), GEO: ("0.01 %", "0.1 %", "1 %")}
INTERPRETATIONS = {"netem": "single-flow", "waiting room": "single-flow-waiting-room"}
"""Interpretations of the queue, and the part with single flows under each."""
TCP = ("tcp", "tcp-split", "tcp-split-alone")
"""Parts of section 4.4: against TCP (LEO), against split TCP (GEO), and split TCP alone."""


def queue_key(interpretation: str) -> str:
    """Return the value of ``netem`` for an interpretation of the queue."""
    return "true" if interpretation == "netem" else "false"


def queue(interpretation: str) -> dict[str, str]:
    """Return the cell of a sweep over the interpretation alone."""
    return {NETEM: queue_key(interpretation)}


def alone(delay: str, loss: str, controller: str, rate: int = 10) -> dict[str, str]:
    """Return the cell of one flow."""
    return {DELAY: delay, RATE: f"{rate} Mbit/s", LOSS: loss, ALONE: controller}


def pair(interpretation: str, delay: str, loss: str, rival: str) -> dict[str, str]:
    """Return the cell of Hybla and a rival."""
    return {NETEM: queue_key(interpretation), DELAY: delay, LOSS: loss, RIVAL: rival}


def late(interpretation: str, first: str, second: str) -> dict[str, str]:
    """Return the cell of a flow and a second one that starts later."""
    return {NETEM: queue_key(interpretation), FIRST: first, SECOND: second}


def per_seed(*columns: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Return values of the same seed together; empty when a cell has not run."""
    return list(zip(*columns, strict=False)) if all(columns) else []
