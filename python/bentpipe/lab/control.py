"""Control of the path of a running lab: its state, and changes of it."""

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

__all__ = ["CONTROL", "CONTROL_FOLDER", "LinkState", "PathState", "get_path", "set_path"]

CONTROL = "BENTPIPE_CONTROL"
"""Environment variable with the control socket of the lab that a command runs in."""

CONTROL_FOLDER = "bentpipe-control-"
"""Prefix of the temporary directory with the control socket of a shell."""


@dataclass(frozen=True)
class LinkState:
    """Current state of one link direction of a segment."""

    name: str
    """Name: ``SEGMENT.up`` or ``SEGMENT.down``."""
    rate: Rate | None
    """Rate; None: unlimited, or a rate that cannot be changed."""
    delay: Duration | None
    """One-way delay; None if it follows a trace."""
    loss: float | None
    """Loss probability of a packet; None if a loss model decides."""
    other_stages: tuple[str, ...]
    """Kinds of the other stages of the link direction."""

    def as_row(self) -> dict[str, Any]:
        """Return the state as a row of a text table."""
        return {
            "line": self.name,
            "rate": str(self.rate) if self.rate else None,
            "delay": None if self.delay is None else str(self.delay),
            "loss": None if self.loss is None else f"{self.loss * 100:g} %",
            "and": ", ".join(self.other_stages) or None,
        }


@dataclass(frozen=True)
class PathState:
    """Current state of a path."""

    time_s: float
    """Time since the start of the path, s."""
    lines: tuple[LinkState, ...]
    """State of the link directions."""
    segments: tuple[Mapping[str, Any], ...]
    """Counters of each segment, with the names of a result; empty without a request for counters."""

    def as_json(self) -> dict[str, Any]:
        """Return the state as plain data."""
        lines = [
            {"line": one.name, "rate_bit_s": one.rate.bit_s if one.rate else None,
             "delay_ms": None if one.delay is None else one.delay.ns / 1e6, "loss": one.loss,
             "and": list(one.other_stages)}
            for one in self.lines
        ]  # fmt: skip
        return {"time_s": self.time_s, "lines": lines}


def get_path(*, control: str | None = None, counters: bool = False) -> PathState:
    """Return the current state of the path of a running lab, after its schedule and all changes.

    Args:
        control: as for :func:`set_path`.
        counters: include the counters of the segments.

    Raises:
        ScenarioError: no lab runs, or it rejects the request.
    """
    response = _request({"query": "counters" if counters else "path"}, control)
    lines = tuple(
        LinkState(
            line["simplex_link"],
            None if line["rate_bit_s"] is None else Rate(line["rate_bit_s"]),
            None if line["delay_ns"] is None else Duration(line["delay_ns"]),
            line["loss"],
            tuple(kind.replace("_", " ") for kind in line["other_stages"]),
        )
        for line in response["simplex_links"]
    )
    return PathState(response["time_ns"] / 1e9, lines, tuple(response["links"] or ()))


def set_path(assignment: str, *, control: str | None = None) -> list[str]:
    """Change the path of a running lab: ``[SEGMENT.][up.|down.]rate|delay|loss=VALUE``.

    Args:
        assignment: the change, with units as in a scenario. Without a direction, both change. Without a segment,
            the only one changes; the link behind an inserted proxy does not count.
        control: control socket of the lab; None: that of the lab in which this process runs.

    Returns:
        The changes, a line each: ``konnect.down: rate 2 Mbit/s, was 25 Mbit/s``.

    Raises:
        ScenarioError: the change is invalid, no lab runs, or it rejects the change.
    """
    kind, change = _parse_change(assignment)
    before = get_path(control=control)
    segments = {line.name.rpartition(".")[0] for line in before.lines} - {GROUND}
    if change["link"] in ("up", "down") and change["link"] not in segments and change["direction"] is None:
        change["link"], change["direction"] = None, change["link"]
    if change["link"] is None and len(segments) == 1:
        change["link"] = segments.pop()
    _request(change, control)
    after = get_path(control=control)
    segment, direction = change["link"], change["direction"]
    rows = zip(before.lines, after.lines, strict=True)
    return [
        f"{current.name}: {kind} {format_cell(current.as_row()[kind])}, was {format_cell(previous.as_row()[kind])}"
        for previous, current in rows
        if (segment is None or current.name.rpartition(".")[0] == segment)
        and (direction is None or current.name.rpartition(".")[2] == direction)
    ]


def _request(request: Mapping[str, object], control: str | None) -> Mapping[str, Any]:
    """Return the response of a lab to a request.

    Args:
        request: the request.
        control: as for :func:`set_path`.

    Raises:
        ScenarioError: no lab runs, or it rejects the request.
    """
    control_socket = control or os.environ.get(CONTROL)
    if control_socket is None:
        raise ScenarioError([("", "not inside a lab; use --control SOCKET to select one")])
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect(control_socket)
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(connection.makefile().readline() or "{}")
    except OSError as error:
        raise ScenarioError(
            [("", f"no response from a lab at {control_socket} ({error.strerror or error})")]
        ) from None
    if answer.get("done") is not True:
        raise ScenarioError([("", str(answer.get("error", "no response from the lab")))])
    response: Mapping[str, Any] = answer
    return response


def _parse_change(assignment: str) -> tuple[str, dict[str, object]]:
    """Return the changed setting, and the change as ``bentpipe-rt`` reads it."""
    expected = f"found {assignment!r}, expected [SEGMENT.][up.|down.]rate|delay|loss=VALUE"
    key, equals, value = assignment.partition("=")
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
    change: dict[str, object] = {
        "link": parts[0] if len(parts) > 1 else None,
        "direction": parts[1] if len(parts) == 3 else None,
    }
    try:
        if parts[-1] == "rate":
            change["rate_bit_s"] = Rate.parse(value.strip()).bit_s
        elif parts[-1] == "delay":
            change["delay_ns"] = Duration.parse(value.strip()).ns
        else:
            change["loss"] = float(Probability.parse(value.strip()).value)
    except UnitError as error:
        raise ScenarioError([("", f"{key.strip()}: {error}")]) from None
    return parts[-1], change
