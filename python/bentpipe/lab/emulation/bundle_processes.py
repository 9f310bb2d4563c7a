"""Bundle nodes of a run in its lab: a process for each node at its host.

A node has a neighbour entry for each end of a flow between two nodes. The nodes start before the schedule of
the path. They wait for a file with the start of the schedule, which is their time zero.
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

__all__ = ["FlowEnd", "NodeFiles", "node_processes", "start_signal"]

Side = Literal["client", "server"]

NODE_SCRIPT = (
    "plan=$1; program=$2; shift 2; "
    'sed "$@" "$plan" > "$plan.ready" && exec "$program" dtn "$plan.ready"; exit 2'
)
"""Shell script of a node, which inserts the addresses of its peers into its plan."""

START_SCRIPT = 'echo "$BENTPIPE_START_NS" > "$1.new" && mv "$1.new" "$1" && exec sleep "$2"'
"""Shell script that tells all nodes the start of the schedule and remains until they have ended."""

NODE_END_S = 0.5
"""Time after the end of the run in which nodes write their last messages, s."""


@dataclass(frozen=True)
class FlowEnd:
    """End of a flow between two bundle nodes."""

    flow: str
    side: Side
    node: str
    """Name of the node."""
    end: int
    """Index of the neighbour entry in the node's plan."""


@dataclass(frozen=True)
class NodeFiles:
    """Files of the messages of a node."""

    name: str
    lines: Path
    ends: tuple[FlowEnd, ...]


def node_processes(
    spec: RunSpec, folder: Path, program: str, address: Callable[[FlowSpec, Side], str], first_port: int
) -> tuple[list[Process], tuple[NodeFiles, ...]]:
    """Return the processes of a run's bundle nodes, services of the lab, and the files that they write.

    Args:
        spec: the run.
        folder: directory for plans and messages.
        program: path of ``bentpipe-rt``.
        address: returns the lab's placeholder of the address of a flow's endpoint.
        first_port: port of the server of the first flow; those of the other flows follow.
    """
    dtn = spec.get("dtn")
    if dtn is None:
        return [], ()
    links = {link["flow"]: link for link in dtn["links"]}
    neighbours: dict[str, list[NeighbourPlan]] = {node["name"]: [] for node in dtn["nodes"]}
    ends: dict[str, list[FlowEnd]] = {name: [] for name in neighbours}
    ports: dict[str, int] = {}
    sed_arguments: dict[str, list[str]] = {name: [] for name in neighbours}
    for number, flow in enumerate(spec["flows"]):
        if flow["name"] not in links:
            continue
        port, is_ipv6 = first_port + number, address(flow, "server").startswith(("{server6", "{host6"))
        peer = f"[@{number}@]:{port}" if is_ipv6 else f"@{number}@:{port}"
        any_address = "[::]" if is_ipv6 else "0.0.0.0"  # noqa: S104  in a namespace of its own
        listen_address = f"{any_address}:{port}"
        # Over UDP, no endpoint opens a connection: each knows the address of the other.
        unconnected = flow["transport"]["kind"] == "udp"
        sides: tuple[tuple[Side, Side, str, str | None], ...] = (
            ("client", "server", listen_address if unconnected else f"{any_address}:0", peer),
            ("server", "client", listen_address, peer if unconnected else None),
        )
        for side, other, listen, peer_address in sides:
            node_name = flow[side]
            ends[node_name].append(FlowEnd(flow["name"], side, node_name, len(neighbours[node_name])))
            neighbours[node_name].append(
                _neighbour_plan(flow, links[flow["name"]], side, (listen, peer_address))
            )
            if peer_address is not None:
                sed_arguments[node_name] += ["-e", f"s/@{number}@/{address(flow, other)}/g"]
        ports[flow["server"]] = port
    zero = str(folder / "zero")
    files, processes = [], []
    for number, (name, node_neighbours) in enumerate(neighbours.items()):
        plan: BundleNodePlan = {
            "name": name,
            "dtn": dtn,
            "neighbours": node_neighbours,
            "time_zero_file": zero,
            "duration_ns": int(spec["duration_ns"]),
        }
        file, lines = folder / f"node.{number}.json", folder / f"node.{number}.lines"
        file.write_bytes(to_json(plan))
        process: Process = {
            "name": f"{name}.node",
            "command": [
                "/bin/sh",
                "-c",
                NODE_SCRIPT,
                "bentpipe",
                str(file),
                program,
                "-e",
                "",
                *sed_arguments[name],
            ],
            "node": name,
            "output": str(lines),
            "errors": str(folder / f"node.{number}.errors"),
        }
        # A node opens its sockets in the order of its neighbours: once the last one listens, all do.
        if name in ports:
            process["listen_port"] = ports[name]
        processes.append(process)
        files.append(NodeFiles(name, lines, tuple(ends[name])))
    # Nodes that do not listen start first, which gives them more time.
    processes.sort(key=lambda process: "listen_port" in process)
    return processes, tuple(files)


def start_signal(spec: RunSpec, folder: Path) -> Process:
    """Return the process that tells the nodes the start of the run, and lasts as long as the run."""
    duration_s = int(spec["duration_ns"]) / 1e9 + NODE_END_S
    arguments = [str(folder / "zero"), f"{duration_s:.3f}"]
    return {
        "name": "bundles",
        "command": ["/bin/sh", "-c", START_SCRIPT, "bentpipe", *arguments],
        "output": str(folder / "begin.log"),
        "errors": str(folder / "begin.errors"),
    }


def _neighbour_plan(
    flow: FlowSpec, link: ClaLinkSpec, side: Side, addresses: tuple[str, str | None]
) -> NeighbourPlan:
    """Return the neighbour entry of an end of a flow; ``at`` is the local address and that of the peer."""
    listen, peer = addresses
    transport = flow["transport"]
    quic = transport if transport["kind"] == "quic" else defaults(1200, 4, (1 << 20, 1 << 20))
    quic_options: Mapping[str, object] = {key: value for key, value in quic.items() if key != "kind"}
    return {
        "neighbour": flow["server" if side == "client" else "client"],
        "cla": _layer(flow, link),
        "listen": listen,
        "peer": peer,
        "can_send": peer is not None or link["shared"],
        "opens_with_contact": link["opens_with_contact"],
        "closes_after_contact": link["closes_after_contact"],
        "on_contact_start": link.get("on_contact_start", "keep"),
        "quic": {**quic_options, "crypto": "rustls"},  # type: ignore[typeddict-item]
        "congestion": flow["server_congestion" if side == "server" else "client_congestion"],
        # TCP has no idle timeout, and neither has the simulation.
        "idle_timeout_ns": quic["idle_timeout_ns"] if transport["kind"] == "quic" else None,
        "adapts_to_plan": link.get("adapts_to_plan", True),
    }


def _layer(flow: FlowSpec, link: ClaLinkSpec) -> ClaSpec:
    """Return the convergence layer of a link; LTP segments are as long as the packets of the flow."""
    layer, transport = link["cla"], flow["transport"]
    if layer["kind"] != "ltp" or transport["kind"] != "udp":
        return layer
    ltp_layer: LtpClaSpec = {**layer, "header_bytes": transport["header_bytes"]}
    if (payload := transport.get("payload_bytes")) is not None:
        ltp_layer["segment_bytes"] = payload
    return ltp_layer


def find_node(nodes: Sequence[NodeFiles], flow: str, side: Side) -> tuple[NodeFiles, int]:
    """Return the node at an end of a flow, and the index of its neighbour entry."""
    return next(
        (node, end.end) for node in nodes for end in node.ends if (end.flow, end.side) == (flow, side)
    )
