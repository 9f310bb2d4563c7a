"""What ``shell --record`` has kept of a session, read again: rate, queue and drops of every direction over time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bentpipe.lab.counters import CAUSES, LINKS, read_series
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.input_file import parse_json, read_input_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.store.schema import Row

__all__ = ["Recorded", "is_record", "read_record"]

RESULT, PLAN = "result.json", "plan.json"


@dataclass(frozen=True)
class Recorded:
    """A session that has ended."""

    command: Sequence[str]
    wall_s: float
    check: Mapping[str, Any] | None
    """As measured before; None where it was not."""
    reasons: Sequence[str]
    """Why the machine did not keep the path's time."""
    record_error: str | None
    """Why the series end before the session."""
    rows: Sequence[Row]
    """Of each ``line`` between two instants that were kept, at the later, ``time_s``: ``rate_bit_s`` of what left it,
    ``queued_bytes``, ``dropped_packets``."""
    totals: Sequence[Row]
    """Of each ``line``: ``delivered_packets``, ``delivered_bytes``, and ``dropped_CAUSE_packets``."""


def is_record(folder: Path) -> bool:
    """Whether ``folder`` is what ``shell --record`` makes."""
    return (folder / LINKS).is_file() and (folder / PLAN).is_file() and not (folder / "runs").exists()


def read_record(folder: Path) -> Recorded:
    """The session of a record. Raises ScenarioError: it has not ended, or cannot be read."""
    try:
        plan = parse_json(read_input_text(folder / PLAN))
        result = parse_json(read_input_text(folder / RESULT))
        series = read_series(folder, result)
        command = list(plan["near"][0]["command"])
        started, rows = int(result["started_ns"]), []
        for line, points in series.links.items():
            for (before, old), (at, new) in pairwise(points):
                if at <= before:
                    continue
                rows.append({
                    "line": line, "time_s": (at - started) / 1e9, "queued_bytes": new["queued_bytes"],
                    "rate_bit_s": (new["delivered_bytes"] - old["delivered_bytes"]) * 8e9 / (at - before),
                    "dropped_packets": _dropped(new) - _dropped(old),
                })  # fmt: skip
        totals = [{"line": line, **total} for line, total in series.totals.items()]
        return Recorded(
            command, float(result["wall_s"]), result["check"], result["reasons"], result["record_error"], rows, totals
        )  # fmt: skip
    except FileNotFoundError:
        raise ScenarioError([("", f"{folder} has no {RESULT}: its session goes on, or was killed")]) from None
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ScenarioError([("", f"{folder} is no whole record of a session: {error!r}")]) from None


def _dropped(counters: Mapping[str, Any]) -> int:
    return sum(int(counters[f"dropped_{cause}_packets"]) for cause in CAUSES)
