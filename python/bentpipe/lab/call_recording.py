"""What ``perf call-client --record`` has kept of calls, read again: what was told of each, and with what they are judged."""

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

    from bentpipe.lab.process_plans import CallPlan

__all__ = ["KEPT", "KeptCalls", "is_kept", "keep", "read"]

KEPT = "calls.jsonl"
VERSION = 1


@dataclass(frozen=True)
class KeptCalls:
    """As :func:`bentpipe.lab.calls.call` has told them."""

    load: Mapping[str, Any]
    """``load`` of their plan."""
    told: Sequence[Mapping[str, Any]]
    how: RatingConfig


def keep(folder: Path, plan: CallPlan, told: Sequence[Mapping[str, Any]], how: RatingConfig) -> None:
    """Writes them into ``folder``, which is made."""
    head = {
        "frame": "calls", "version": VERSION, "load": plan["load"],
        "playout": str(how.playout), "advantage": how.advantage, "plc": how.plc,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / KEPT, "".join(f"{json.dumps(one)}\n" for one in (head, *told)).encode())


def is_kept(place: Path) -> bool:
    """Whether calls are kept at ``place``, a folder or their file."""
    file = _file(place)
    try:
        with open_input(file) as content:
            head = parse_json(content.read(1 << 20).decode(errors="replace").partition("\n")[0])
    except (OSError, ValueError):
        return False
    return isinstance(head, dict) and head.get("frame") == "calls"


def read(place: Path) -> KeptCalls:
    """Raises ScenarioError, which names file and fault."""
    file = _file(place)
    try:
        head, *told = map(parse_json, read_input_text(file).splitlines())
        if int(head["version"]) > VERSION:
            text = f"{file} has calls of a newer bentpipe, expected version {VERSION}"
            raise ScenarioError([("", text)])
        how = RatingConfig(None, parse(head["playout"]), float(head["advantage"]), bool(head["plc"]))
        kept = KeptCalls(head["load"], told, how)
    except (ValueError, LookupError, TypeError, PlayoutError) as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError([("", f"{file} has no whole calls of perf: {error!r}")]) from None
    if not told:
        raise ScenarioError([("", f"{file} has no calls of perf")])
    return kept


def _file(place: Path) -> Path:
    return place / KEPT if place.is_dir() else place
