"""Bundle nodes of a run in its lab: one process a node at its host, a door for each side of a flow between two of them.

They are there before the path's schedule begins and wait for a file with its instant: that is their time zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bentpipe.lab.process_plans import to_json
from bentpipe.plan.flow.quic import defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bentpipe.lab.process_plans import BundleNodePlan, NeighbourPlan, Process
    from bentpipe.plan.spec.run_spec import ClaLinkSpec, ClaSpec, FlowSpec, LtpClaSpec, RunSpec

__all__ = ["Door", "NodeFiles", "begin", "node_processes"]

Side = Literal["client", "server"]

START = 'plan=$1; program=$2; shift 2; sed "$@" "$plan" > "$plan.ready" && exec "$program" dtn "$plan.ready"; exit 2'
"""A node, once the addresses of its peers stand in its plan."""

BEGIN = 'echo "$BENTPIPE_ZERO" > "$1.new" && mv "$1.new" "$1" && exec sleep "$2"'
"""Tells all nodes when the schedule of the path has begun, and stays until they have ended."""

PAUSE_S = 0.5
"""So long after the end of the run: nodes have written what they still have."""


@dataclass(frozen=True)
class Door:
    """One side of a flow: the node, and which of its ends."""

    flow: str
    side: Side
    node: str
    end: int


@dataclass(frozen=True)
class NodeFiles:
    """Where what a node says will be."""

    name: str
    lines: Path
    doors: tuple[Door, ...]


def node_processes(
    spec: RunSpec, folder: Path, program: str, address: Callable[[FlowSpec, Side], str], first_port: int
) -> tuple[list[Process], tuple[NodeFiles, ...]]:
    """The processes of a run's bundle nodes, services of the lab, and what they write; their plans lie in ``folder``.

    Args:
        spec: the run.
        folder: for plans and lines.
        program: ``bentpipe-rt``.
        address: the lab's word for the address of a flow's side.
        first_port: that of the first flow's server; others follow.
    """
    dtn = spec.get("dtn")
    if dtn is None:
        return [], ()
    links = {link["flow"]: link for link in dtn["links"]}
    doors: dict[str, list[NeighbourPlan]] = {node["name"]: [] for node in dtn["nodes"]}
    ends: dict[str, list[Door]] = {name: [] for name in doors}
    ports: dict[str, int] = {}
    words: dict[str, list[str]] = {name: [] for name in doors}
    for number, flow in enumerate(spec["flows"]):
        if flow["name"] not in links:
            continue
        port, six = first_port + number, address(flow, "server").startswith(("{far6", "{host6"))
        peer = f"[@{number}@]:{port}" if six else f"@{number}@:{port}"
        anywhere = "[::]" if six else "0.0.0.0"  # noqa: S104  in a namespace of its own
        here = f"{anywhere}:{port}"
        # over UDP no side opens anything: each knows the other's address
        unconnected = flow["transport"]["kind"] == "udp"
        ways: tuple[tuple[Side, Side, str, str | None], ...] = (
            ("client", "server", here if unconnected else f"{anywhere}:0", peer),
            ("server", "client", here, peer if unconnected else None),
        )
        for side, other, listen, to in ways:
            own = flow[side]
            ends[own].append(Door(flow["name"], side, own, len(doors[own])))
            doors[own].append(_door(flow, links[flow["name"]], side, (listen, to)))
            if to is not None:
                words[own] += ["-e", f"s/@{number}@/{address(flow, other)}/g"]
        ports[flow["server"]] = port
    zero = str(folder / "zero")
    files, processes = [], []
    for number, (name, own_doors) in enumerate(doors.items()):
        plan: BundleNodePlan = {
            "name": name,
            "dtn": dtn,
            "doors": own_doors,
            "zero": zero,
            "duration_ns": int(spec["duration_ns"]),
        }
        file, lines = folder / f"node.{number}.json", folder / f"node.{number}.lines"
        file.write_bytes(to_json(plan))
        process: Process = {
            "name": f"{name}.node",
            "command": ["/bin/sh", "-c", START, "bentpipe", str(file), program, "-e", "", *words[name]],
            "node": name,
            "output": str(lines),
            "errors": str(folder / f"node.{number}.errors"),
        }
        # Sockets are opened in the order of doors: once the last one listens, all do.
        if name in ports:
            process["listens"] = ports[name]
        processes.append(process)
        files.append(NodeFiles(name, lines, tuple(ends[name])))
    # Those that nobody waits for have more time.
    processes.sort(key=lambda process: "listens" in process)
    return processes, tuple(files)


def begin(spec: RunSpec, folder: Path) -> Process:
    """What tells the nodes that the run has begun, and lasts as long as it."""
    stays_s = int(spec["duration_ns"]) / 1e9 + PAUSE_S
    words = [str(folder / "zero"), f"{stays_s:.3f}"]
    return {
        "name": "bundles",
        "command": ["/bin/sh", "-c", BEGIN, "bentpipe", *words],
        "output": str(folder / "begin.log"),
        "errors": str(folder / "begin.errors"),
    }


def _door(flow: FlowSpec, link: ClaLinkSpec, side: Side, at: tuple[str, str | None]) -> NeighbourPlan:
    listen, peer = at
    transport = flow["transport"]
    quic = transport if transport["kind"] == "quic" else defaults(1200, 4, (1 << 20, 1 << 20))
    own: Mapping[str, object] = {key: value for key, value in quic.items() if key != "kind"}
    return {
        "neighbour": flow["server" if side == "client" else "client"],
        "layer": _layer(flow, link),
        "listen": listen,
        "peer": peer,
        "sends": peer is not None or link["shared"],
        "with_contact": link["with_contact"],
        "closes": link["closes"],
        "on_return": link.get("on_return", "alone"),
        "quic": {**own, "crypto": "rustls"},  # type: ignore[typeddict-item]
        "congestion": flow["server_congestion" if side == "server" else "client_congestion"],
        # TCP has none, in virtual time neither
        "idle_timeout_ns": quic["idle_timeout_ns"] if transport["kind"] == "quic" else None,
        "by_plan": link.get("by_plan", True),
    }


def _layer(flow: FlowSpec, link: ClaLinkSpec) -> ClaSpec:
    """A link's layer; LTP's segments are as long as the flow's packets."""
    layer, transport = link["layer"], flow["transport"]
    if layer["kind"] != "ltp" or transport["kind"] != "udp":
        return layer
    words: LtpClaSpec = {**layer, "header_bytes": transport["header_bytes"]}
    if (payload := transport.get("payload_bytes")) is not None:
        words["segment_bytes"] = payload
    return words


def files_of(nodes: Sequence[NodeFiles], flow: str, side: Side) -> tuple[NodeFiles, int]:
    """The node at a side of a flow, and which of its ends leads there."""
    return next(
        (node, door.end) for node in nodes for door in node.doors if (door.flow, door.side) == (flow, side)
    )
