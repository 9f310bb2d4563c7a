"""A resolved run as a lab: namespaces at the emulated path, and the processes in them.

Every flow is a server and a client in the namespaces of its two hosts. Every arrival of a Poisson load is a
separate client. Every bundle node is a process at its host. QUIC is that of bentpipe over UDP sockets. TCP is
the kernel's, configured by sysctls and routes of the namespaces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bentpipe.lab.emulation.bundle_processes import node_processes, start_signal
from bentpipe.lab.emulation.random_streams import Random
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.lab.kernel_tcp import ETHERNET_MTU
from bentpipe.lab.process_plans import to_json
from bentpipe.plan.flow.datagrams import datagram_max_bytes
from bentpipe.plan.flow.loads import senders
from bentpipe.plan.flow.quic import defaults
from bentpipe.plan.spec.queries import delays_ns, quic_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bentpipe.lab.emulation.bundle_processes import NodeFiles
    from bentpipe.lab.process_plans import (
        CalleePlan,
        CallerPlan,
        LabPlan,
        LabSpec,
        MeasuredSide,
        PerfClientPlan,
        PerfServerPlan,
        PerHost,
        Process,
    )
    from bentpipe.plan.spec.run_spec import (
        AmountSpec,
        FlowSpec,
        RunSpec,
        SizeSpec,
        StreamSpec,
        TcpSpec,
        TopologySpec,
    )

__all__ = ["ClientFiles", "FlowFiles", "RunLab", "flow_hosts", "lab_plan", "refusals", "round_trips_ns"]

FIRST_PORT = 4433
"""Port of the server of the first flow; those of the other flows follow."""
HANDSHAKE_TIMEOUT_NS = 60 * 10**9
"""Timeout of a handshake, ns. A handshake of the simulation ends only with the run."""

MAX_CONNECTIONS = 4096
"""Maximum number of simultaneous connections of a server."""

CLIENT_END_S = 0.3
"""Time that the process of a client remains after its end, in addition to an RTT, s. Its last packets are in
flight."""

MAX_SAMPLE_INTERVAL_NS = 50_000_000
"""Maximum interval between samples, ns, so that the last sample is close to the end of the run."""

CALL_END_S = 10.0
"""Additional time of a call, s. The client receives for 4 s more (crates/transport/src/media), then gets the
server's result."""

CLIENT_SCRIPT = (
    'sed "s/@FAR@/$1/g" "$2" > "$2.ready" || exit 2; '
    'timeout --foreground --signal=INT --kill-after=5 "$3" "$5" perf "$2.ready"; s=$?; sleep "$4"; '
    "[ $s = 124 ] && s=0; exit $s"
)
"""Shell script of a client, which receives SIGINT at the end of the run."""


@dataclass(frozen=True)
class ClientFiles:
    """Process of a client."""

    start_ns: int
    """Start since the start of the run, ns."""
    frames: Path
    """File of its JSON stream, or of the result of a call."""


@dataclass(frozen=True)
class FlowFiles:
    """Files of the measurements of a flow."""

    name: str
    server: Path
    clients: tuple[ClientFiles, ...]
    calls: bool = False
    """The output of a client is one line with the result of a call, not a JSON stream."""


@dataclass(frozen=True)
class RunLab:
    """Lab of a run."""

    plan: LabPlan
    flows: tuple[FlowFiles, ...]
    """Files of the flows that are not between bundle nodes. They precede the flows between bundle nodes."""
    nodes: tuple[NodeFiles, ...]
    result: Path
    record: Path


def lab_plan(spec: RunSpec, folder: Path, program: str) -> RunLab:
    """Return the lab of the resolved run ``spec``, and write the plans of its processes into ``folder``.

    Args:
        spec: a run without unsupported settings (:func:`refusals`).
        folder: directory for plans and measurements.
        program: path of ``bentpipe-rt``.
    """
    first = spec["flows"][0]
    record = folder / "record"
    record.mkdir()
    result = folder / "result.json"
    server_processes: list[Process] = []
    client_processes: list[Process] = []
    flows = []
    rtt_ns = max(round_trips_ns(spec))
    hosts = flow_hosts(spec)
    interval = min(int(spec["sample_interval_ns"]), MAX_SAMPLE_INTERVAL_NS)
    for number, flow in enumerate(spec["flows"]):
        if flow["load"]["kind"] == "bundles":
            continue
        port = FIRST_PORT + number
        calls = flow["load"]["kind"] == "datagrams"
        files = FlowFiles(flow["name"], folder / f"{number}.server.frames", (), calls)
        server_plan_file = _write_plan(
            folder / f"{number}.server.json",
            _call_server_plan(port) if calls else _server_plan(flow, port, files.server, interval),
        )
        server: Process = {
            "name": f"{flow['name']}.server",
            "command": [program, "perf", str(server_plan_file)],
            "listen_port": port,
            "output": str(folder / f"{number}.server.log"),
            "errors": str(folder / f"{number}.server.errors"),
        }
        if flow["server"] != first["server"]:
            server["node"] = flow["server"]
        server_processes.append(server)
        clients = []
        for index, (start_ns, streams) in enumerate(
            _client_starts(flow, int(spec["seed"]), int(spec["duration_ns"]))
        ):
            frames = folder / f"{number}.{index}.client.frames"
            client_plan_file = _write_plan(
                folder / f"{number}.{index}.client.json",
                _call_client_plan(flow, port, int(spec["seed"]), start_ns, int(spec["duration_ns"]))
                if calls
                else _client_plan(flow, port, streams, frames, interval),
            )
            stop_s = (int(spec["duration_ns"]) - start_ns) / 1e9 + (CALL_END_S if calls else 0)
            arguments = [
                _address(flow, (first["client"], first["server"]), "server"),
                str(client_plan_file),
                f"{stop_s:.3f}",
                f"{CLIENT_END_S + rtt_ns / 1e9:.3f}",
                program,
            ]
            client: Process = {
                "name": f"{flow['name']}.{index}",
                "command": ["/bin/sh", "-c", CLIENT_SCRIPT, "bentpipe", *arguments],
                "start_ns": start_ns,
                "output": str(frames if calls else folder / f"{number}.{index}.client.log"),
                "errors": str(folder / f"{number}.{index}.client.errors"),
            }
            if flow["client"] != first["client"]:
                client["node"] = flow["client"]
            client_processes.append(client)
            clients.append(ClientFiles(start_ns, frames))
        flows.append(replace(files, clients=tuple(clients)))

    def address(flow: FlowSpec, side: Literal["client", "server"]) -> str:
        return _address(flow, (first["client"], first["server"]), side)

    processes, nodes = node_processes(spec, folder, program, address, FIRST_PORT)
    server_processes += processes
    if nodes:
        client_processes.append(start_signal(spec, folder))
    lab: LabSpec = {
        "graph": spec["graph"],
        "client": first["client"],
        "server": first["server"],
        "seed": spec["seed"],
        "mtu": _mtu(spec),
    }
    if others := hosts[2:]:
        lab["hosts"] = others
    # The emulator identifies a user by the port of the server of its flow.
    if users := [(FIRST_PORT + n, flow["user"]) for n, flow in enumerate(spec["flows"]) if flow.get("user")]:
        lab["users"] = users
    plan: LabPlan = {
        "lab": lab,
        "proxies": list(spec.get("proxies", ())),
        "server_namespace": True,
        "has_uplink": False,
        "check": not _starts_in_outage(spec["graph"]),
        "services": server_processes,
        "commands": client_processes,
        "tcp": _tcp_options(spec),
        "record": {"directory": str(record), "interval_ns": int(spec["sample_interval_ns"])},
        "result": str(result),
    }
    return RunLab(plan, tuple(flows), nodes, result, record)


def _write_plan(file: Path, plan: PerfServerPlan | PerfClientPlan | CalleePlan | CallerPlan) -> Path:
    file.write_bytes(to_json(plan))
    return file


# --- Flows ----------------------------------------------------------------------------------------------------


def _client_starts(flow: FlowSpec, seed: int, end_ns: int) -> Iterator[tuple[int, Sequence[StreamSpec]]]:
    """Yield the start of each client and its streams, from the random streams of the simulation."""
    name, load = flow["name"], flow["load"]
    start = flow["start_ns"] + Random(seed, name, "start").below(flow["start_jitter_ns"] + 1)
    if load["kind"] in ("perf", "datagrams"):
        yield start, load["streams"] if load["kind"] == "perf" else []
        return
    if load["kind"] != "poisson":
        raise TypeError(f"{name}: no client for a load of kind {load['kind']}")
    arrivals, sizes = Random(seed, name, "arrivals"), Random(seed, name, "sizes")
    end_of_load_ns, mean_s = min(start + load["duration_ns"], end_ns), load["mean_interarrival_ns"] / 1e9
    time_ns = start
    while (time_ns := time_ns + round(arrivals.exponential(mean_s) * 1e9)) < end_of_load_ns:
        size = draw_size(load["size"], sizes)
        up, down = (size, 0) if load["direction"] == "up" else (8, size)
        amount: AmountSpec = {"mode": "data", "up_bytes": up, "down_bytes": down}
        yield time_ns, [{"stream_id": 0, "after": None, "amount": amount}]


def draw_size(size: SizeSpec, random: Random) -> int:
    """Return a random size of a short flow, bytes."""
    if size["kind"] == "exponential":
        return math.ceil(random.exponential(size["mean_bytes"]))
    if size["kind"] == "pareto":
        size_bytes = int(random.pareto(size["shape"], float(size["min_bytes"])))
        return min(size_bytes, size["max_bytes"])
    return size["bytes"]


def _address(flow: FlowSpec, ends: tuple[str, str], side: Literal["client", "server"]) -> str:
    """Return the placeholder of the address of a flow's endpoint.

    ``ends`` are the client and the server of the lab.
    """
    version_suffix = "6" if _ip_version(flow) == 6 else ""
    for placeholder, name in zip(("client", "server"), ends, strict=True):
        if flow[side] == name:
            return f"{{{placeholder}{version_suffix}}}"
    return f"{{host{version_suffix}:{flow[side]}}}"


def _ip_version(flow: FlowSpec) -> int:
    """Return the IP version of a flow."""
    transport = flow["transport"]
    if transport["kind"] == "tcp":
        return 4 if transport["client"]["header_bytes"] == 40 else 6
    if transport["kind"] == "udp":
        return 4 if transport["header_bytes"] == 28 else 6
    return 4 if quic_of(flow)["header_bytes"] == 28 else 6


def _endpoint_plan(
    flow: FlowSpec, side: Literal["client", "server"], frames: Path, interval_ns: int
) -> MeasuredSide:
    """Return the keys common to server and client of ``bentpipe-rt perf``."""
    transport = flow["transport"]
    congestion = flow["client_congestion" if side == "client" else "server_congestion"]
    if transport["kind"] == "tcp":
        # The options equal those of the kernel, or the run is rejected. An endpoint that sends only requests may have a
        # controller that the kernel lacks.
        sends = side in senders(flow["load"])
        congestion = {"name": congestion["name"] if sends else "newreno", "options": {}}
        # The plan requires options of QUIC, which the endpoint does not use.
        quic, mss_bytes = defaults(1200, 4, (1 << 20, 1 << 20)), transport[side]["mss_bytes"]
    else:
        quic, mss_bytes = quic_of(flow), None
    return {
        "transport": transport["kind"],
        "quic": {**quic, "crypto": "rustls"},
        "tcp": {"mss_bytes": mss_bytes, "buffer_bytes": None, "idle_timeout_ns": HANDSHAKE_TIMEOUT_NS},
        "congestion": congestion,
        "report": {
            "interval_ns": None,
            "csv": None,
            "json": True,
            "frames": {"file": str(frames), "interval_ns": interval_ns},
        },
    }


def _server_plan(flow: FlowSpec, port: int, frames: Path, interval_ns: int) -> PerfServerPlan:
    return {
        "role": "server",
        "listen": f"[::]:{port}",
        "once": False,
        "certificate": None,
        # handshakes: no Retry, as in the simulation
        "limits": {"connections": MAX_CONNECTIONS, "handshakes": MAX_CONNECTIONS, "streams": 10_000},
        "controller_policy": "named",
        **_endpoint_plan(flow, "server", frames, interval_ns),
    }


def _client_plan(
    flow: FlowSpec, port: int, streams: Sequence[StreamSpec], frames: Path, interval_ns: int
) -> PerfClientPlan:
    return {
        "role": "client",
        "host": "@FAR@",
        "port": port,
        "load": streams,
        "alpn": "perf",
        "server_verification": "insecure",
        "timeout_ns": HANDSHAKE_TIMEOUT_NS,
        "negotiates_controller": False,
        "requested_controller": None,
        **_endpoint_plan(flow, "client", frames, interval_ns),
    }


def _call_server_plan(port: int) -> CalleePlan:
    """Return the plan of a call server; its datagrams have the port that identifies the user."""
    return {"role": "callee", "listen": f"[::]:{port}", "once": False, "calls": 1, "media": port}


def _call_client_plan(flow: FlowSpec, port: int, seed: int, start_ns: int, end_ns: int) -> CallerPlan:
    load = flow["load"]
    if load["kind"] != "datagrams":
        raise TypeError(f"{flow['name']}: a load without datagrams")
    duration = min(load["duration_ns"], end_ns - start_ns)
    return {
        "role": "caller",
        "host": "@FAR@",
        "port": port,
        "count": 1,
        "load": {"up": load["up"], "down": load["down"], "duration_ns": duration},
        "seed": seed,
        "timeout_ns": HANDSHAKE_TIMEOUT_NS,
        "flow": {"name": flow["name"], "since_ns": start_ns},
    }


def _starts_in_outage(graph: TopologySpec) -> bool:
    """Return whether a link starts in an outage: a path check would wait for its end."""
    stages = [
        stage for link in graph["links"] for direction in (link["up"], link["down"]) for stage in direction
    ]
    return any(
        start_signal == 0
        for stage in stages
        if stage["kind"] == "outage"
        for start_signal, _ in stage["windows"]
    )


# --- Kernel ---------------------------------------------------------------------------------------------------


def _mtu(spec: RunSpec) -> int:
    """Return the size of the largest IP packet of the lab: that of Ethernet, or as a flow requires, bytes."""
    sizes = [ETHERNET_MTU]
    for flow in spec["flows"]:
        transport = flow["transport"]
        if transport["kind"] == "tcp":
            sizes += [
                end["mss_bytes"] + end["header_bytes"] for end in (transport["client"], transport["server"])
            ]
        elif transport["kind"] == "udp":
            sizes.append(datagram_max_bytes(transport, flow["load"]) + transport["header_bytes"])
        else:
            quic = quic_of(flow)
            sizes.append(quic["mtu_bytes"] + quic["header_bytes"])
    return max(sizes)


def _tcp_options(spec: RunSpec) -> PerHost[TcpSpec | None]:
    """Return the TCP options of each host's kernel. :func:`refusals` ensures that all flows agree."""
    options: dict[str, TcpSpec | None] = {}
    for flow in spec["flows"]:
        transport = flow["transport"]
        if transport["kind"] == "tcp":
            options.setdefault(flow["client"], transport["client"])
            options.setdefault(flow["server"], transport["server"])
    if not options:
        return {}
    client, server, *_ = flow_hosts(spec)
    sides: PerHost[TcpSpec | None] = {
        "client": options.pop(client, None),
        "server": options.pop(server, None),
    }
    if options:
        sides["hosts"] = options
    return sides


def flow_hosts(spec: RunSpec) -> list[str]:
    """Return the endpoints of the flows, those of the first flow first."""
    return list(dict.fromkeys(end for flow in spec["flows"] for end in (flow["client"], flow["server"])))


def round_trips_ns(spec: RunSpec) -> list[int]:
    """Return the maximum two-way propagation delay between every two hosts with a flow, ns.

    For a single pair of hosts it is the delay of all links, otherwise that of the links of the shortest
    route.
    """
    pairs = {(flow["client"], flow["server"]) for flow in spec["flows"]}
    trips = _link_round_trips_ns(spec)
    if len(pairs) == 1:
        return [sum(trips.values())]
    hosts = frozenset(node["name"] for node in spec["graph"]["nodes"] if node["kind"] == "host")
    ends = [(link["name"], link["client_side"], link["server_side"]) for link in spec["graph"]["links"]]
    routes = (_shortest_route(ends, client, server, hosts) for client, server in sorted(pairs))
    return [sum(trips[link] for link in route) for route in routes]


def _shortest_route(
    ends: Sequence[tuple[str, str, str]], start: str, end: str, hosts: frozenset[str]
) -> tuple[str, ...]:
    """Return the links of the route with the fewest links, which passes no host; empty without a route."""
    routes: dict[str, tuple[str, ...]] = {start: ()}
    frontier = [start]
    while frontier and end not in routes:
        nodes, frontier = frontier, []
        for node in nodes:
            for link, client_side, server_side in ends:
                neighbour = (
                    server_side if client_side == node else client_side if server_side == node else None
                )
                if neighbour is not None and neighbour not in routes and (node == start or node not in hosts):
                    routes[neighbour] = (*routes[node], link)
                    frontier.append(neighbour)
    return routes.get(end, ())


def _link_round_trips_ns(spec: RunSpec) -> dict[str, int]:
    """Return the maximum two-way propagation delay of each link, ns."""
    changed_delays: dict[tuple[str, int], list[int]] = {}
    for event in spec["graph"].get("changes", ()):
        for change in event.get("stages", ()):
            if change["update"]["kind"] == "delay":
                delays = changed_delays.setdefault((change["simplex_link"], change["stage"]), [])
                delays.append(change["update"]["delay_ns"])
    return {
        link["name"]: sum(
            max([0, *delays_ns(stage), *changed_delays.get((f"{link['name']}.{side}", number), [])])
            for side in ("up", "down")
            for number, stage in enumerate(link[side])
        )
        for link in spec["graph"]["links"]
    }
