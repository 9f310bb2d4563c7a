"""State of a running lab over time, and the steps by which ``bentpipe watch`` changes its path."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bentpipe.lab.control import CONTROL_FOLDER, LinkState, PathState, get_path
from bentpipe.scenario.errors import ScenarioError

__all__ = ["KINDS", "PathMonitor", "Sample", "find_control_socket", "step"]

KINDS = ("rate", "delay", "loss")
"""Settings of a link direction that can be changed."""

LOSSES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Steps of the loss probability: 1, 2 and 5 of each power of ten."""

FACTOR = 1.25
"""Step of a rate and of a delay: ten steps are a factor of nine."""


def find_control_socket() -> str:
    """Return the control socket of the only running shell on this host.

    Raises:
        ScenarioError: no shell or several shells run; the message names them.
    """
    sockets = []
    for socket in sorted(Path(tempfile.gettempdir()).glob(f"{CONTROL_FOLDER}*/socket")):
        try:
            get_path(control=str(socket))
        except ScenarioError:
            continue
        sockets.append(str(socket))
    if not sockets:
        raise ScenarioError(
            [("", "no shell is running; start one in another terminal with bentpipe shell ACCESS")]
        )
    if len(sockets) > 1:
        names = ", ".join(sockets)
        raise ScenarioError([("--control", f"missing, but several shells run; expected one of: {names}")])
    return sockets[0]


@dataclass(frozen=True)
class Sample:
    """Traffic of a link direction between two updates."""

    at_s: float
    """Time of the update, on the clock of the counters, s."""
    rate_bit_s: float
    """Rate of the IP packets that left the link direction, bit/s."""
    queued_bytes: int
    """Bytes in the queue."""
    dropped: int
    """Packets dropped since the previous update."""


@dataclass
class PathMonitor:
    """Samples of a running path."""

    max_samples: int = 120
    """Number of samples that are stored for each link direction."""
    series: dict[str, deque[Sample]] = field(default_factory=dict)
    """Samples by ``SEGMENT.up`` and ``SEGMENT.down``."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Packets dropped since the start of the lab, by the same names."""
    lines: tuple[LinkState, ...] = ()
    """Current state of the link directions."""
    time_s: float = 0.0
    """Time since the start of the path, s."""
    _before: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, now: PathState) -> None:
        """Add a sample of each link direction.

        Args:
            now: state of the path with its counters (:func:`bentpipe.lab.control.get_path`).
        """
        self.lines, self.time_s = now.lines, now.time_s
        for segment in now.segments:
            for direction in ("up", "down"):
                self._add_sample(f"{segment['name']}.{direction}", segment[direction])

    def _add_sample(self, name: str, counters: Mapping[str, Any]) -> None:
        dropped = sum(int(count) for count in counters["dropped"].values())
        state = (int(counters["time_ns"]), int(counters["bytes_out"]), dropped)
        previous = self._before.get(name)
        # The emulator updates its counters ten times a second.
        if previous is not None and state[0] <= previous[0]:
            return
        self._before[name], self.dropped[name] = state, dropped
        if previous is not None:
            rate = (state[1] - previous[1]) * 8e9 / (state[0] - previous[0])
            samples = self.series.setdefault(name, deque(maxlen=self.max_samples))
            samples.append(Sample(state[0] / 1e9, rate, int(counters["queued_bytes"]), dropped - previous[2]))


def step(line: LinkState, kind: str, *, up: bool) -> str | None:
    """Return the change of ``line`` by one step, as :func:`bentpipe.lab.control.set_path` takes it.

    Args:
        line: state of the link direction.
        kind: one of :data:`KINDS`.
        up: increase the value.

    Returns:
        The change; None if the link direction has no such setting, or no further step.
    """
    if kind == "loss":
        current = line.loss or 0.0
        steps = [
            loss
            for loss in (LOSSES if up else reversed(LOSSES))
            if (loss > current if up else loss < current)
        ]
        return f"{line.name}.loss={steps[0] * 100:g} %" if steps else None
    if kind == "rate":
        if line.rate is None:
            return None
        value = _next_value(line.rate.bit_s / 1e3, up=up)
        return f"{line.name}.rate={max(1.0, value):.10g} kbit/s" if (value >= 1 or up) else None
    if line.delay is None or (line.delay.ns == 0 and not up):
        return None
    ms = line.delay.ns / 1e6
    stepped = _next_value(ms, up=up) if ms >= 1 else float(up)
    return f"{line.name}.delay={stepped if stepped >= 1 else 0:g} ms"


def _next_value(value: float, *, up: bool) -> float:
    """Return ``value`` changed by one step, with three significant digits."""
    return float(f"{value * FACTOR if up else value / FACTOR:.3g}")
