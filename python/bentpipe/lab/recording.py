"""Reader of a recording of ``shell --record``: rate, queue and drops of every link direction over time."""

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

__all__ = ["Recording", "is_recording", "read_recording"]

RESULT, PLAN = "result.json", "plan.json"


@dataclass(frozen=True)
class Recording:
    """Recording of a lab that has ended."""

    command: Sequence[str]
    """Command and its arguments."""
    wall_s: float
    """Duration of the lab, s."""
    check: Mapping[str, Any] | None
    """Result of the path check before the command; None without a check."""
    reasons: Sequence[str]
    """Reasons why the lab missed its deadlines."""
    record_error: str | None
    """Reason why the series end before the lab."""
    rows: Sequence[Row]
    """Rows of each ``line`` between two recorded times, at the later one, ``time_s``.

    Columns: ``rate_bit_s`` of the packets that left the link direction, ``queued_bytes``,
    ``dropped_packets``."""
    totals: Sequence[Row]
    """Totals of each ``line``: ``delivered_packets``, ``delivered_bytes``, and ``dropped_CAUSE_packets``."""


def is_recording(folder: Path) -> bool:
    """Return whether ``folder`` is a recording of ``shell --record``."""
    return (folder / LINKS).is_file() and (folder / PLAN).is_file() and not (folder / "runs").exists()


def read_recording(folder: Path) -> Recording:
    """Return the recording in ``folder``.

    Raises:
        ScenarioError: the lab has not ended, or the recording cannot be read.
    """
    try:
        plan = parse_json(read_input_text(folder / PLAN))
        result = parse_json(read_input_text(folder / RESULT))
        series = read_series(folder, result)
        command = list(plan["commands"][0]["command"])
        start_ns, rows = int(result["started_ns"]), []
        for line, points in series.links.items():
            for (previous_ns, previous), (time_ns, current) in pairwise(points):
                if time_ns <= previous_ns:
                    continue
                rows.append({
                    "line": line, "time_s": (time_ns - start_ns) / 1e9, "queued_bytes": current["queued_bytes"],
                    "rate_bit_s": (current["delivered_bytes"] - previous["delivered_bytes"])
                    * 8e9
                    / (time_ns - previous_ns),
                    "dropped_packets": _sum_dropped(current) - _sum_dropped(previous),
                })  # fmt: skip
        totals = [{"line": line, **total} for line, total in series.totals.items()]
        return Recording(
            command, float(result["wall_s"]), result["check"], result["reasons"], result["record_error"], rows, totals
        )  # fmt: skip
    except FileNotFoundError:
        raise ScenarioError([("", f"{folder} has no {RESULT}: its lab still runs, or was killed")]) from None
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ScenarioError([("", f"{folder} is not a complete recording: {error!r}")]) from None


def _sum_dropped(counters: Mapping[str, Any]) -> int:
    """Return the number of dropped packets of all causes."""
    return sum(int(counters[f"dropped_{cause}_packets"]) for cause in CAUSES)
