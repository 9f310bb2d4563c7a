"""Whether a node reaches its neighbours: what its connections came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NeighbourStatus"]


class NeighbourStatus:
    """What is known of the connections of each of a node's doors."""

    def __init__(self) -> None:
        self._doors: dict[int, Mapping[str, Any]] = {}

    def take(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """A row of the table ``connections``; that one was lost, if it says so first."""
        before = self._doors.get(row["end"])
        self._doors[row["end"]] = row
        if row["lost"] <= (before["lost"] if before is not None else 0):
            return None
        return {
            "time_s": row["time_s"], "node": row["node"], "event": "connection_lost",
            "neighbour": row["neighbour"], "reason": row["why"],
        }  # fmt: skip

    def problems(self) -> tuple[str, ...]:
        """A sentence for each door with which something is wrong."""
        return tuple(filter(None, map(_problem, self._doors.values())))


def _problem(row: Mapping[str, Any]) -> str | None:
    who = f"neighbour {row['neighbour']}"
    if row["lost"]:
        count = f"{row['lost']} of {row['begun']} connections" if row["begun"] > 1 else "the connection"
        last = ", the last one" if row["lost"] > 1 else ""
        were = "were" if row["begun"] > 1 else "was"
        return f"{who}: {count} {were} lost{last}: {row['why']}"
    if row["begun"] and row["started_s"] is None:
        return f"{who} has not answered"
    return None
