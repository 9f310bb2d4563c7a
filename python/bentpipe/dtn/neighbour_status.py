"""Connections of a node to its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NeighbourStatus"]


class NeighbourStatus:
    """State of the connections of each neighbour interface."""

    def __init__(self) -> None:
        self._interfaces: dict[int, Mapping[str, Any]] = {}

    def take(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Process a row of the table ``connections``; return an event if a connection was lost."""
        previous = self._interfaces.get(row["end"])
        self._interfaces[row["end"]] = row
        if row["lost"] <= (previous["lost"] if previous is not None else 0):
            return None
        return {
            "time_s": row["time_s"], "node": row["node"], "event": "connection_lost",
            "neighbour": row["neighbour"], "reason": row["why"],
        }  # fmt: skip

    def problems(self) -> tuple[str, ...]:
        """Return a sentence for each interface with a problem."""
        return tuple(filter(None, map(_problem, self._interfaces.values())))


def _problem(row: Mapping[str, Any]) -> str | None:
    name = f"neighbour {row['neighbour']}"
    if row["lost"]:
        count = f"{row['lost']} of {row['begun']} connections" if row["begun"] > 1 else "the connection"
        suffix = ", the last one" if row["lost"] > 1 else ""
        verb = "were" if row["begun"] > 1 else "was"
        return f"{name}: {count} {verb} lost{suffix}: {row['why']}"
    if row["begun"] and row["started_s"] is None:
        return f"{name} has not answered"
    return None
