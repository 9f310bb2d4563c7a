"""``bentpipe change``: the path of a session that runs, changed from inside it."""

from __future__ import annotations

import json
import os
import socket

from bentpipe.scenario.problems import ScenarioError, unknown_word
from bentpipe.scenario.units import Duration, Probability, Rate, UnitError

__all__ = ["CONTROL", "change"]

CONTROL = "BENTPIPE_CONTROL"
"""Environment variable that names the socket of the session that a command runs in."""


def change(words: str, *, control: str | None = None) -> None:
    """Changes the path of a running session: ``[SEGMENT[.up|.down].]rate|delay|loss=VALUE``.

    Args:
        words: as above, with units as in a scenario; without a direction both change, without a segment the only one.
        control: the session's socket; that of the session this process runs in without.

    Raises:
        ScenarioError: words that say no change; no session; what the session says is wrong.
    """
    wish = _wish(words)
    place = control or os.environ.get(CONTROL)
    if place is None:
        raise ScenarioError(
            [("", "not behind an emulated access; --control SOCKET names the session from outside")]
        )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as session:
            session.settimeout(5)
            session.connect(place)
            session.sendall(json.dumps(wish).encode() + b"\n")
            answer = json.loads(session.makefile().readline() or "{}")
    except OSError as error:
        raise ScenarioError([("", f"no session answers at {place} ({error.strerror or error})")]) from None
    if answer.get("done") is not True:
        raise ScenarioError([("", str(answer.get("error", "the session did not answer")))])


def _wish(words: str) -> dict[str, object]:
    """A change as ``bentpipe-rt`` reads it."""
    expected = f"found {words!r}, expected [SEGMENT[.up|.down].]rate|delay|loss=VALUE"
    key, equals, value = words.partition("=")
    parts = key.strip().removeprefix("path.").split(".")
    if "" in parts:
        raise ScenarioError([("", expected)])
    if not equals or len(parts) not in (1, 2, 3):
        raise ScenarioError([("", expected)])
    kinds = ("rate", "delay", "loss")
    if parts[-1] not in kinds:
        raise ScenarioError([("", unknown_word(parts[-1], kinds))])
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
    return wish
