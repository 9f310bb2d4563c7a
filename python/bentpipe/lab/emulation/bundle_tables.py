"""What bundle nodes of a lab have said, as the simulator's tables: ``bundles``, ``routes``, ``reports``, ``stored``,
and of each flow between two nodes what its connections have carried.

Instants are those of the nodes' own clocks, whose zero is the start of the run. What packets and windows did in between
no node says: null.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.lab.emulation.bundle_processes import files_of
from bentpipe.plan.spec.result_columns import COUNTERS, GAUGES
from bentpipe.runners.runner import RunnerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bentpipe.lab.emulation.bundle_processes import NodeFiles, Side
    from bentpipe.plan.spec.run_spec import FlowSpec
    from bentpipe.store.schema import Row

__all__ = ["Linked", "NodeEnded", "Nodes", "read_nodes"]

OWN = ("bundles", "routes", "reports", "stored")
"""Tables of bundle nodes."""


class NodeEnded(ValueError):
    """A bundle node has ended before its time."""


@dataclass(frozen=True)
class Nodes:
    """What all nodes of a run have said."""

    files: tuple[NodeFiles, ...]
    lines: tuple[tuple[Row, ...], ...]
    """Of each node, in the order in which it said them."""

    def late_ns(self) -> Iterator[int]:
        """How late each node was: the 95th percentile of the looks at its clock."""
        yield from (int(line["late_p95_ns"]) for line in self._of("node") if line["late_p95_ns"] is not None)

    def check(self) -> None:
        """Raises NodeEnded if one has not come to the end of the run."""
        for file, lines in zip(self.files, self.lines, strict=True):
            if not any(line["table"] == "node" for line in lines):
                raise NodeEnded(f"bundle node {file.name} ended before the run")

    def rows(self) -> dict[str, list[Row]]:
        """Of the tables that only bundle nodes have."""
        found: dict[str, list[Row]] = {name: [] for name in OWN}
        for name, rows in found.items():
            rows += [{key: _word(key, value) for key, value in line.items()} for line in self._of(name)]
        # Nodes in their order at the same instant: the sort is stable.
        found["bundles"].sort(key=lambda row: float(row["time_s"]))
        return found

    def _of(self, table: str) -> Iterator[Row]:
        yield from (line for lines in self.lines for line in lines if line["table"] == table)

    def carried(self, flow: str, side: Side) -> list[Row]:
        """What the connections of one side of a flow had carried, as that changed."""
        node, end = files_of(self.files, flow, side)
        lines = self.lines[self.files.index(node)]
        return [line for line in lines if line["table"] == "connections" and line["end"] == end]


def _word(key: str, value: object) -> object:
    """Words that are not there are empty in the simulator's tables."""
    return "" if value is None and key in ("peer", "reason", "next") else value


def read_nodes(files: Sequence[NodeFiles]) -> Nodes:
    """What the nodes have written.

    Raises:
        RunnerError: one has written what is no line of a node.
    """
    return Nodes(tuple(files), tuple(tuple(_lines(one.lines)) for one in files))


def _lines(file: Path) -> Iterator[Row]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            return  # it was killed while it wrote
        try:
            row: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise RunnerError(f"{file.name}: found {line.strip()!r}, expected JSON") from error
        if "ready" not in row:
            yield {"table": "bundles", **row}


@dataclass(frozen=True)
class Linked:
    """A flow between two bundle nodes."""

    flow: FlowSpec
    nodes: Nodes

    @property
    def name(self) -> str:
        """The flow's."""
        return self.flow["name"]

    def totals(self, end_s: float, ticks_s: Sequence[float]) -> dict[str, list[Row]]:
        """Of the tables that every flow has; samples at ``ticks_s``."""
        sides: tuple[Side, Side] = ("client", "server")
        names = {
            side: self.flow["client_congestion" if side == "client" else "server_congestion"]["name"]
            for side in sides
        }
        carried = {side: self.nodes.carried(self.name, side) for side in sides}
        found: dict[str, list[Row]] = {"summary": [], "flows": [], "streams": [], "events": []}
        for side, other in (sides, sides[::-1]):
            mine, theirs = _last(carried[side], end_s), _last(carried[other], end_s)
            times = [float(line["time_s"]) for line in carried[side]]
            for tick in ticks_s:
                place = bisect_right(times, tick)
                state = carried[side][place - 1] if place else {}
                found["flows"].append(
                    {
                        "time_s": tick,
                        "flow": self.name,
                        "side": side,
                        **dict.fromkeys(GAUGES),
                        **_counters(state),
                    }
                )
            begun, ended = int(mine.get("begun", 0)), int(mine.get("ended", 0))
            found["summary"].append(
                _counters(mine)
                | {
                    "flow": self.name, "side": side, "congestion": names[side],
                    "start_s": mine.get("begun_s"), "first_byte_s": mine.get("first_received_s"),
                    "data_start_s": mine.get("first_written_s"), "data_end_s": theirs.get("last_received_s"),
                    "connections": begun, "completed_connections": ended - int(mine.get("lost", 0)),
                    "delivered_bytes": theirs.get("received_bytes", 0),
                    "delivered_in_order_bytes": theirs.get("received_bytes", 0),
                }
            )  # fmt: skip
            if mine.get("begun_s") is not None:
                row: Row = {"time_s": mine["begun_s"], "flow": self.name, "side": side, "connection": 0}
                found["events"].append(row | {"kind": "start", "value": 0.0})
        return found


def _last(lines: Sequence[Row], end_s: float) -> Row:
    """What was said last by an instant."""
    return next((line for line in reversed(lines) if float(line["time_s"]) <= end_s), {})


def _counters(state: Row) -> Row:
    """Of one side: what a node knows of its connections is what bundles they carry."""
    received = int(state.get("received_bytes", 0))
    known = {"written_bytes": int(state.get("written_bytes", 0)), "received_bytes": received,
             "received_in_order_bytes": received}  # fmt: skip
    return dict.fromkeys(COUNTERS) | known
