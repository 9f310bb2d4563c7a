"""``bentpipe change``: the path of a session that runs, told and changed from inside it."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.lab.process_plans import GROUND
from bentpipe.metrics.format import format_cell
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.quantities import Duration, Probability, Rate, UnitError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CONTROL", "CONTROL_FOLDER", "LinkState", "PathNow", "get_path", "set_path"]

CONTROL = "BENTPIPE_CONTROL"
"""Environment variable that names the socket of the session that a command runs in."""

CONTROL_FOLDER = "bentpipe-control-"
"""How the folder begins that a shell has its socket in, among the temporary ones."""


@dataclass(frozen=True)
class LinkState:
    """One direction of a segment as it is."""

    name: str
    """``SEGMENT.up`` or ``SEGMENT.down``."""
    rate: Rate | None
    """None: unlimited, or none that can be changed."""
    delay: Duration | None
    """One-way; None where it follows a trace."""
    loss: float | None
    """Probability for each packet; None where a model draws it."""
    beside: tuple[str, ...]
    """What else its packets meet: kinds of stages."""

    def as_row(self) -> dict[str, Any]:
        """A row for a table of people."""
        return {
            "line": self.name,
            "rate": str(self.rate) if self.rate else None,
            "delay": None if self.delay is None else str(self.delay),
            "loss": None if self.loss is None else f"{self.loss * 100:g} %",
            "and": ", ".join(self.beside) or None,
        }


@dataclass(frozen=True)
class PathNow:
    """A session's path as it is."""

    time_s: float
    """Since the path's time began."""
    lines: tuple[LinkState, ...]
    segments: tuple[Mapping[str, Any], ...]
    """Counters of each segment, with the names of a result; none where they were not asked for."""

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        lines = [
            {"line": one.name, "rate_bit_s": one.rate.bit_s if one.rate else None,
             "delay_ms": None if one.delay is None else one.delay.ns / 1e6, "loss": one.loss, "and": list(one.beside)}
            for one in self.lines
        ]  # fmt: skip
        return {"time_s": self.time_s, "lines": lines}


def get_path(*, control: str | None = None, counters: bool = False) -> PathNow:
    """The path of a running session as it is, after its schedule and all changes.

    Args:
        control: as for :func:`change`.
        counters: with the counters of its segments.

    Raises:
        ScenarioError: no session; what it says is wrong.
    """
    found = _told({"ask": "counters" if counters else "path"}, control)
    lines = tuple(
        LinkState(
            one["line"],
            None if one["rate_bit_s"] is None else Rate(one["rate_bit_s"]),
            None if one["delay_ns"] is None else Duration(one["delay_ns"]),
            one["loss"],
            tuple(word.replace("_", " ") for word in one["beside"]),
        )
        for one in found["lines"]
    )
    return PathNow(found["time_ns"] / 1e9, lines, tuple(found["segments"] or ()))


def set_path(words: str, *, control: str | None = None) -> list[str]:
    """Changes the path of a running session: ``[SEGMENT[.up|.down].]rate|delay|loss=VALUE``.

    Args:
        words: as above, with units as in a scenario; without a direction both change, without a segment the only one
            but for the wire behind a proxy that was put at the path's end.
        control: the session's socket; that of the session this process runs in without.

    Returns:
        What has changed, a line each: ``konnect.down: rate 2 Mbit/s, was 25 Mbit/s``.

    Raises:
        ScenarioError: words that say no change; no session; what the session says is wrong.
    """
    kind, wish = _wish(words)
    before = get_path(control=control)
    segments = {one.name.rpartition(".")[0] for one in before.lines} - {GROUND}
    if wish["segment"] is None and len(segments) == 1:
        wish["segment"] = segments.pop()
    _told(wish, control)
    after = get_path(control=control)
    segment, direction = wish["segment"], wish["direction"]
    rows = zip(before.lines, after.lines, strict=True)
    return [
        f"{new.name}: {kind} {format_cell(new.as_row()[kind])}, was {format_cell(old.as_row()[kind])}"
        for old, new in rows
        if (segment is None or new.name.rpartition(".")[0] == segment)
        and (direction is None or new.name.rpartition(".")[2] == direction)
    ]


def _told(words: Mapping[str, object], control: str | None) -> Mapping[str, Any]:
    """What a session answers. Raises ScenarioError."""
    place = control or os.environ.get(CONTROL)
    if place is None:
        raise ScenarioError(
            [("", "not behind an emulated access; --control SOCKET names the session from outside")]
        )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as session:
            session.settimeout(5)
            session.connect(place)
            session.sendall(json.dumps(words).encode() + b"\n")
            answer = json.loads(session.makefile().readline() or "{}")
    except OSError as error:
        raise ScenarioError([("", f"no session answers at {place} ({error.strerror or error})")]) from None
    if answer.get("done") is not True:
        raise ScenarioError([("", str(answer.get("error", "the session did not answer")))])
    found: Mapping[str, Any] = answer
    return found


def _wish(words: str) -> tuple[str, dict[str, object]]:
    """What changes, and the change as ``bentpipe-rt`` reads it."""
    expected = f"found {words!r}, expected [SEGMENT[.up|.down].]rate|delay|loss=VALUE"
    key, equals, value = words.partition("=")
    parts = key.strip().removeprefix("path.").split(".")
    if "" in parts:
        raise ScenarioError([("", expected)])
    if not equals or len(parts) not in (1, 2, 3):
        raise ScenarioError([("", expected)])
    kinds = ("rate", "delay", "loss")
    if parts[-1] not in kinds:
        raise ScenarioError([("", unknown_name(parts[-1], kinds))])
    if len(parts) == 3 and parts[1] not in ("up", "down"):
        raise ScenarioError([("", expected)])
    wish: dict[str, object] = {
        "segment": parts[0] if len(parts) > 1 else None,
        "direction": parts[1] if len(parts) == 3 else None,
    }
    try:
        if parts[-1] == "rate":
            wish["rate_bit_s"] = Rate.parse(value.strip()).bit_s
        elif parts[-1] == "delay":
            wish["delay_ns"] = Duration.parse(value.strip()).ns
        else:
            wish["loss"] = float(Probability.parse(value.strip()).value)
    except UnitError as error:
        raise ScenarioError([("", f"{key.strip()}: {error}")]) from None
    return parts[-1], wish
