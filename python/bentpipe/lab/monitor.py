"""``bentpipe watch``: a running session as it goes on, and the steps by which its path is changed from there."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bentpipe.lab.control import CONTROL_FOLDER, LinkState, PathNow, get_path
from bentpipe.scenario.errors import ScenarioError

__all__ = ["KINDS", "PathMonitor", "Sample", "running", "step"]

KINDS = ("rate", "delay", "loss")
"""What of a line can be changed."""

LOSSES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The steps of a loss: 1, 2 and 5 of each power of ten."""

FACTOR = 1.25
"""A step of a rate and of a delay: ten of them are a factor of nine."""


def running() -> str:
    """The socket of the one session of a shell that runs on this machine.

    Raises:
        ScenarioError: none, or several: these by name.
    """
    found = []
    for place in sorted(Path(tempfile.gettempdir()).glob(f"{CONTROL_FOLDER}*/socket")):
        try:
            get_path(control=str(place))
        except ScenarioError:
            continue
        found.append(str(place))
    if not found:
        raise ScenarioError(
            [("", "no shell is running; bentpipe shell ACCESS, in another terminal, begins one")]
        )
    if len(found) > 1:
        several = ", ".join(found)
        raise ScenarioError([("--control", f"missing while several shells run, expected one of: {several}")])
    return found[0]


@dataclass(frozen=True)
class Sample:
    """What a direction did between two looks."""

    at_s: float
    rate_bit_s: float
    """Of the IP packets that left it."""
    queued_bytes: int
    dropped: int
    """Packets, since the look before."""


@dataclass
class PathMonitor:
    """A session, look by look."""

    most: int = 120
    """Looks that are kept."""
    series: dict[str, deque[Sample]] = field(default_factory=dict)
    """By ``SEGMENT.up`` and ``SEGMENT.down``."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Since the session began, likewise."""
    lines: tuple[LinkState, ...] = ()
    """As they are."""
    time_s: float = 0.0
    """Since the path's time began."""
    _before: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def take(self, now: PathNow) -> None:
        """One more look, of which :func:`bentpipe.lab.control.get_path` has the counters."""
        self.lines, self.time_s = now.lines, now.time_s
        for segment in now.segments:
            for way in ("up", "down"):
                self._line(f"{segment['name']}.{way}", segment[way])

    def _line(self, name: str, found: Mapping[str, Any]) -> None:
        dropped = sum(int(count) for count in found["dropped"].values())
        state = (int(found["time_ns"]), int(found["bytes_out"]), dropped)
        before = self._before.get(name)
        # the emulator renews its counters ten times a second
        if before is not None and state[0] <= before[0]:
            return
        self._before[name], self.dropped[name] = state, dropped
        if before is not None:
            rate = (state[1] - before[1]) * 8e9 / (state[0] - before[0])
            kept = self.series.setdefault(name, deque(maxlen=self.most))
            kept.append(Sample(state[0] / 1e9, rate, int(found["queued_bytes"]), dropped - before[2]))


def step(line: LinkState, kind: str, *, up: bool) -> str | None:
    """The words of a change of ``line`` by one step, for :func:`bentpipe.lab.control.set_path`; None where it has no
    such number, or no further step."""
    if kind == "loss":
        now = line.loss or 0.0
        steps = [one for one in (LOSSES if up else reversed(LOSSES)) if (one > now if up else one < now)]
        return f"{line.name}.loss={steps[0] * 100:g} %" if steps else None
    if kind == "rate":
        if line.rate is None:
            return None
        value = _stepped(line.rate.bit_s / 1e3, up=up)
        return f"{line.name}.rate={max(1.0, value):.10g} kbit/s" if (value >= 1 or up) else None
    if line.delay is None or (line.delay.ns == 0 and not up):
        return None
    ms = line.delay.ns / 1e6
    stepped = _stepped(ms, up=up) if ms >= 1 else float(up)
    return f"{line.name}.delay={stepped if stepped >= 1 else 0:g} ms"


def _stepped(value: float, *, up: bool) -> float:
    """To three significant digits."""
    return float(f"{value * FACTOR if up else value / FACTOR:.3g}")
