"""Recording of calls (``perf call-client --record``): their results and the configuration of their rating."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.call_quality import PlayoutError, RatingConfig, parse
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.input_file import open_input, parse_json, read_input_text
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.lab.process_plans import CallerPlan

__all__ = ["CALLS_FILE", "CallRecording", "is_call_recording", "read", "write"]

CALLS_FILE = "calls.jsonl"
"""Name of the file with the calls."""
VERSION = 1
"""Version of the format."""


@dataclass(frozen=True)
class CallRecording:
    """Recording of calls."""

    load: Mapping[str, Any]
    """Key ``load`` of their plan."""
    results: Sequence[Mapping[str, Any]]
    """Result of each call (:func:`bentpipe.lab.calls.call`)."""
    config: RatingConfig
    """Configuration of the rating."""


def write(folder: Path, plan: CallerPlan, results: Sequence[Mapping[str, Any]], config: RatingConfig) -> None:
    """Write the recording of calls into ``folder``, which is created.

    Args:
        folder: directory of the recording.
        plan: plan of the calls.
        results: result of each call.
        config: configuration of the rating.
    """
    head = {
        "frame": "calls", "version": VERSION, "load": plan["load"],
        "playout": str(config.playout), "advantage": config.advantage, "plc": config.plc,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / CALLS_FILE, "".join(f"{json.dumps(line)}\n" for line in (head, *results)).encode())


def is_call_recording(place: Path) -> bool:
    """Return whether ``place``, a directory or file, is a recording of calls."""
    file = _calls_file(place)
    try:
        with open_input(file) as content:
            head = parse_json(content.read(1 << 20).decode(errors="replace").partition("\n")[0])
    except (OSError, ValueError):
        return False
    return isinstance(head, dict) and head.get("frame") == "calls"


def read(place: Path) -> CallRecording:
    """Return the recording at ``place``, a directory or file.

    Raises:
        ScenarioError: the recording cannot be read; the message names the file.
    """
    file = _calls_file(place)
    try:
        head, *results = map(parse_json, read_input_text(file).splitlines())
        if int(head["version"]) > VERSION:
            text = f"{file} has the format of a newer bentpipe, expected version {VERSION}"
            raise ScenarioError([("", text)])
        config = RatingConfig(None, parse(head["playout"]), float(head["advantage"]), bool(head["plc"]))
        recording = CallRecording(head["load"], results, config)
    except (ValueError, LookupError, TypeError, PlayoutError) as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError([("", f"{file} is not a complete recording of calls: {error!r}")]) from None
    if not results:
        raise ScenarioError([("", f"{file} has no calls")])
    return recording


def _calls_file(place: Path) -> Path:
    """Return the file of the recording at ``place``."""
    return place / CALLS_FILE if place.is_dir() else place
