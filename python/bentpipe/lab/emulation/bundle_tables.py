"""Messages of the bundle nodes of a lab as the simulator's tables.

The tables are ``bundles``, ``routes``, ``reports`` and ``stored``, and those of each flow between two nodes,
from the traffic of its connections. Times are those of the nodes' clocks, whose zero is the start of the run.
No node reports packets and windows in between: these columns are null.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.lab.emulation.bundle_processes import find_node
from bentpipe.plan.spec.result_columns import COUNTERS, GAUGES
from bentpipe.runners.runner import RunnerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bentpipe.lab.emulation.bundle_processes import NodeFiles, Side
    from bentpipe.plan.spec.run_spec import FlowSpec
    from bentpipe.store.schema import Row

__all__ = ["BundleFlow", "NodeEndedError", "Nodes", "read_nodes"]

NODE_TABLES = ("bundles", "bundle_routes", "bundle_status_reports", "bundle_store")
"""Tables of bundle nodes."""


class NodeEndedError(ValueError):
    """A bundle node has ended before the run."""


@dataclass(frozen=True)
class Nodes:
    """Messages of all bundle nodes of a run."""

    files: tuple[NodeFiles, ...]
    lines: tuple[tuple[Row, ...], ...]
    """Messages of each node in the order of their output."""

    def late_ns(self) -> Iterator[int]:
        """Yield the lateness of each node: the 95th percentile of its clock readings, ns."""
        yield from (
            int(line["lateness_p95_ns"])
            for line in self._messages_of("node")
            if line["lateness_p95_ns"] is not None
        )

    def check(self) -> None:
        """Check that all nodes have run to the end.

        Raises:
            NodeEndedError: a node has ended before the run.
        """
        for file, lines in zip(self.files, self.lines, strict=True):
            if not any(line["table"] == "node" for line in lines):
                raise NodeEndedError(f"bundle node {file.name} ended before the run")

    def rows(self) -> dict[str, list[Row]]:
        """Return the rows of the tables that only bundle nodes have."""
        tables: dict[str, list[Row]] = {name: [] for name in NODE_TABLES}
        for name, rows in tables.items():
            rows += [
                {key: _fill_name(key, value) for key, value in line.items()}
                for line in self._messages_of(name)
            ]
        # The sort is stable: messages of the same time keep the order of the nodes.
        tables["bundles"].sort(key=lambda row: float(row["time_s"]))
        return tables

    def _messages_of(self, table: str) -> Iterator[Row]:
        """Yield the messages of one table."""
        yield from (line for lines in self.lines for line in lines if line["table"] == table)

    def connection_rows(self, flow: str, side: Side) -> list[Row]:
        """Return the traffic of the connections at an end of a flow, a row for each change."""
        node, end = find_node(self.files, flow, side)
        lines = self.lines[self.files.index(node)]
        return [line for line in lines if line["table"] == "connections" and line["end"] == end]


def _fill_name(key: str, value: object) -> object:
    """Return the value; a missing name is empty in the simulator's tables."""
    return "" if value is None and key in ("peer", "reason", "next") else value


def read_nodes(files: Sequence[NodeFiles]) -> Nodes:
    """Return the messages of the nodes.

    Raises:
        RunnerError: an output is not JSON.
    """
    return Nodes(tuple(files), tuple(tuple(_read_lines(one.lines)) for one in files))


def _read_lines(file: Path) -> Iterator[Row]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            return  # The node was killed during the write.
        try:
            row: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise RunnerError(f"{file.name}: found {line.strip()!r}, expected JSON") from error
        if "ready" not in row:
            yield {"table": "bundles", **row}


@dataclass(frozen=True)
class BundleFlow:
    """Flow between two bundle nodes."""

    flow: FlowSpec
    nodes: Nodes

    @property
    def name(self) -> str:
        """Return the name of the flow."""
        return self.flow["name"]

    def totals(self, end_s: float, ticks_s: Sequence[float]) -> dict[str, list[Row]]:
        """Return the rows of the tables that every flow has.

        Args:
            end_s: end of the run, s.
            ticks_s: times of the samples, s.
        """
        sides: tuple[Side, Side] = ("client", "server")
        names = {
            side: self.flow["client_congestion" if side == "client" else "server_congestion"]["name"]
            for side in sides
        }
        carried = {side: self.nodes.connection_rows(self.name, side) for side in sides}
        tables: dict[str, list[Row]] = {"flow_summary": [], "flows": [], "streams": [], "events": []}
        for side, other in (sides, sides[::-1]):
            own_end, other_end = _last_message(carried[side], end_s), _last_message(carried[other], end_s)
            times = [float(line["time_s"]) for line in carried[side]]
            for tick in ticks_s:
                index = bisect_right(times, tick)
                state = carried[side][index - 1] if index else {}
                tables["flows"].append(
                    {
                        "time_s": tick,
                        "flow": self.name,
                        "side": side,
                        **dict.fromkeys(GAUGES),
                        **_counters(state),
                    }
                )
            started, ended = int(own_end.get("begun", 0)), int(own_end.get("ended", 0))
            tables["flow_summary"].append(
                _counters(own_end)
                | {
                    "flow": self.name, "side": side, "congestion": names[side],
                    "start_s": own_end.get("begun_s"), "first_byte_s": own_end.get("first_received_s"),
                    "data_start_s": own_end.get("first_written_s"), "data_end_s": other_end.get("last_received_s"),
                    "connections": started, "completed_connections": ended - int(own_end.get("lost", 0)),
                    "delivered_bytes": other_end.get("received_bytes", 0),
                    "delivered_in_order_bytes": other_end.get("received_bytes", 0),
                }
            )  # fmt: skip
            if own_end.get("begun_s") is not None:
                row: Row = {"time_s": own_end["begun_s"], "flow": self.name, "side": side, "connection": 0}
                tables["events"].append(row | {"kind": "start", "value": 0.0})
        return tables


def _last_message(lines: Sequence[Row], end_s: float) -> Row:
    """Return the last message at or before ``end_s``."""
    return next((line for line in reversed(lines) if float(line["time_s"]) <= end_s), {})


def _counters(state: Row) -> Row:
    """Return the counters of an endpoint.

    A node knows only the bundle bytes of its connections; the other counters are null.
    """
    received = int(state.get("received_bytes", 0))
    known = {"written_bytes": int(state.get("written_bytes", 0)), "received_bytes": received,
             "received_in_order_bytes": received}  # fmt: skip
    return dict.fromkeys(COUNTERS) | known
