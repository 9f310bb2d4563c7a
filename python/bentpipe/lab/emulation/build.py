"""A resolved run as a lab: namespaces behind the emulated path, and the processes in them.

Every flow is a server and a client, in the namespaces of its two hosts (every arrival of a Poisson load: a client of
its own), and every bundle node one process at its host. QUIC is bentpipe's own over UDP sockets; TCP is the kernel's,
set up by sysctls and routes of the namespaces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bentpipe.lab.emulation.bundle_processes import begin, node_processes
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
        AnswerPlan,
        CallPlan,
        LabPlan,
        LabSpec,
        MeasuredSide,
        PerfClientPlan,
        PerfServerPlan,
        Process,
        Sides,
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

__all__ = ["FlowFiles", "RunLab", "Session", "hosts_of", "lab_plan", "refusals", "round_trips_ns"]

FIRST_PORT = 4433
HANDSHAKE_NS = 60 * 10**9
"""Longest handshake: those of the simulation have no end but the run's."""

CONNECTIONS = 4096
"""Most at once at a server."""

PAUSE_S = 0.3
"""A client's process stays this long, and a round trip, after its end: what it sent last is on its way."""

FRAME_NS = 50_000_000
"""Longest interval between samples: with it the last sample before the end of a run is near it."""

LAST_S = 10.0
"""Who calls hears for 4 s more what was sent last (crates/transport/src/media), and what the other side has heard."""

WRAP = (
    'sed "s/@FAR@/$1/g" "$2" > "$2.ready" || exit 2; '
    'timeout --foreground --signal=INT --kill-after=5 "$3" "$5" perf "$2.ready"; s=$?; sleep "$4"; '
    "[ $s = 124 ] && s=0; exit $s"
)
"""A client, ended like by Ctrl-C when the run's time is over."""


@dataclass(frozen=True)
class Session:
    """One client's process."""

    start_ns: int
    frames: Path


@dataclass(frozen=True)
class FlowFiles:
    """Where a flow's measurements will be."""

    name: str
    server: Path
    sessions: tuple[Session, ...]
    calls: bool = False
    """What a client says is one line on a call, in place of frames."""


@dataclass(frozen=True)
class RunLab:
    """What the lab runs."""

    plan: LabPlan
    flows: tuple[FlowFiles, ...]
    """Of flows that are not between bundle nodes, which come before those that are."""
    nodes: tuple[NodeFiles, ...]
    result: Path
    record: Path


def lab_plan(spec: RunSpec, folder: Path, program: str) -> RunLab:
    """The lab of the resolved run ``spec``; the plans of its processes are written into ``folder``.

    Args:
        spec: a run that :func:`refusals` has nothing against.
        folder: for plans and measurements.
        program: ``bentpipe-rt``.
    """
    first = spec["flows"][0]
    record = folder / "record"
    record.mkdir()
    result = folder / "result.json"
    far: list[Process] = []
    near: list[Process] = []
    flows = []
    trip_ns = max(round_trips_ns(spec))
    hosts = hosts_of(spec)
    interval = min(int(spec["sample_ns"]), FRAME_NS)
    for number, flow in enumerate(spec["flows"]):
        if flow["load"]["kind"] == "bundles":
            continue
        port = FIRST_PORT + number
        calls = flow["load"]["kind"] == "datagrams"
        files = FlowFiles(flow["name"], folder / f"{number}.server.frames", (), calls)
        serves = _put(
            folder / f"{number}.server.json",
            _answer(port) if calls else _server(flow, port, files.server, interval),
        )
        server: Process = {
            "name": f"{flow['name']}.server",
            "command": [program, "perf", str(serves)],
            "listens": port,
            "output": str(folder / f"{number}.server.log"),
            "errors": str(folder / f"{number}.server.errors"),
        }
        if flow["server"] != first["server"]:
            server["node"] = flow["server"]
        far.append(server)
        sessions = []
        for index, (start_ns, streams) in enumerate(
            _starts(flow, int(spec["seed"]), int(spec["duration_ns"]))
        ):
            frames = folder / f"{number}.{index}.client.frames"
            asks = _put(
                folder / f"{number}.{index}.client.json",
                _call(flow, port, int(spec["seed"]), start_ns, int(spec["duration_ns"]))
                if calls
                else _client(flow, port, streams, frames, interval),
            )
            stop_s = (int(spec["duration_ns"]) - start_ns) / 1e9 + (LAST_S if calls else 0)
            words = [
                _address(flow, (first["client"], first["server"]), "server"),
                str(asks),
                f"{stop_s:.3f}",
                f"{PAUSE_S + trip_ns / 1e9:.3f}",
                program,
            ]
            client: Process = {
                "name": f"{flow['name']}.{index}",
                "command": ["/bin/sh", "-c", WRAP, "bentpipe", *words],
                "start_ns": start_ns,
                "output": str(frames if calls else folder / f"{number}.{index}.client.log"),
                "errors": str(folder / f"{number}.{index}.client.errors"),
            }
            if flow["client"] != first["client"]:
                client["node"] = flow["client"]
            near.append(client)
            sessions.append(Session(start_ns, frames))
        flows.append(replace(files, sessions=tuple(sessions)))

    def address(flow: FlowSpec, side: Literal["client", "server"]) -> str:
        return _address(flow, (first["client"], first["server"]), side)

    processes, nodes = node_processes(spec, folder, program, address, FIRST_PORT)
    far += processes
    if nodes:
        near.append(begin(spec, folder))
    lab: LabSpec = {
        "graph": spec["graph"],
        "client": first["client"],
        "server": first["server"],
        "seed": spec["seed"],
        "mtu": _mtu(spec),
    }
    if others := hosts[2:]:
        lab["hosts"] = others
    # A user is told by the port of its flow's server.
    if users := [(FIRST_PORT + n, flow["user"]) for n, flow in enumerate(spec["flows"]) if flow.get("user")]:
        lab["users"] = users
    plan: LabPlan = {
        "lab": lab,
        "proxies": list(spec.get("proxies", ())),
        "private": True,
        "outside": False,
        "check": not _begins_dark(spec["graph"]),
        "far": far,
        "near": near,
        "tcp": _kernel(spec),
        "record": {"directory": str(record), "interval_ns": int(spec["sample_ns"])},
        "result": str(result),
    }
    return RunLab(plan, tuple(flows), nodes, result, record)


def _put(file: Path, plan: PerfServerPlan | PerfClientPlan | AnswerPlan | CallPlan) -> Path:
    file.write_bytes(to_json(plan))
    return file


# --- one flow -------------------------------------------------------------------------------------------------


def _starts(flow: FlowSpec, seed: int, end_ns: int) -> Iterator[tuple[int, Sequence[StreamSpec]]]:
    """When each client begins, and its streams: the draws of the simulation."""
    name, load = flow["name"], flow["load"]
    start = flow["start_ns"] + Random(seed, name, "start").below(flow["start_jitter_ns"] + 1)
    if load["kind"] in ("perf", "datagrams"):
        yield start, load["streams"] if load["kind"] == "perf" else []
        return
    if load["kind"] != "poisson":
        raise TypeError(f"{name}: no client does this: {load['kind']}")
    arrivals, sizes = Random(seed, name, "arrivals"), Random(seed, name, "sizes")
    until, mean_s = min(start + load["duration_ns"], end_ns), load["mean_interarrival_ns"] / 1e9
    at = start
    while (at := at + round(arrivals.exponential(mean_s) * 1e9)) < until:
        size = drawn(load["size"], sizes)
        up, down = (size, 0) if load["send"] == "up" else (8, size)
        amount: AmountSpec = {"mode": "data", "up_bytes": up, "down_bytes": down}
        yield at, [{"stream_id": 0, "after": None, "amount": amount}]


def drawn(size: SizeSpec, random: Random) -> int:
    """Bytes of a short flow."""
    if size["kind"] == "exponential":
        return math.ceil(random.exponential(size["mean_bytes"]))
    if size["kind"] == "pareto":
        found = int(random.pareto(size["shape"], float(size["least_bytes"])))
        return min(found, size["most_bytes"])
    return size["bytes"]


def _address(flow: FlowSpec, ends: tuple[str, str], side: Literal["client", "server"]) -> str:
    """The word for the address of a flow's side; ``ends`` are the client and the server of the lab."""
    six = "6" if _ip(flow) == 6 else ""
    for word, name in zip(("near", "far"), ends, strict=True):
        if flow[side] == name:
            return f"{{{word}{six}}}"
    return f"{{host{six}:{flow[side]}}}"


def _ip(flow: FlowSpec) -> int:
    transport = flow["transport"]
    if transport["kind"] == "tcp":
        return 4 if transport["client"]["header_bytes"] == 40 else 6
    if transport["kind"] == "udp":
        return 4 if transport["header_bytes"] == 28 else 6
    return 4 if quic_of(flow)["header_bytes"] == 28 else 6


def _side(flow: FlowSpec, side: Literal["client", "server"], frames: Path, interval_ns: int) -> MeasuredSide:
    """What both roles of ``bentpipe-rt perf`` have in common."""
    transport = flow["transport"]
    congestion = flow["client_congestion" if side == "client" else "server_congestion"]
    if transport["kind"] == "tcp":
        # Options are the kernel's own, or refused. Who sends but a request may have a controller that the kernel has
        # not.
        sends = side in senders(flow["load"])
        congestion = {"name": congestion["name"] if sends else "newreno", "options": {}}
        # what it says of the QUIC that it does not use
        quic, own = defaults(1200, 4, (1 << 20, 1 << 20)), transport[side]["mss_bytes"]
    else:
        quic, own = quic_of(flow), None
    return {
        "transport": transport["kind"],
        "quic": {**quic, "crypto": "rustls"},
        "tcp": {"mss_bytes": own, "buffer_bytes": None, "idle_timeout_ns": HANDSHAKE_NS},
        "congestion": congestion,
        "report": {
            "interval_ns": None,
            "csv": None,
            "json": True,
            "frames": {"file": str(frames), "interval_ns": interval_ns},
        },
    }


def _server(flow: FlowSpec, port: int, frames: Path, interval_ns: int) -> PerfServerPlan:
    return {
        "role": "server",
        "listen": f"[::]:{port}",
        "once": False,
        "certificate": None,
        # handshakes: no Retry, which the simulation does not have
        "limits": {"connections": CONNECTIONS, "handshakes": CONNECTIONS, "streams": 10_000},
        "choose": "named",
        **_side(flow, "server", frames, interval_ns),
    }


def _client(
    flow: FlowSpec, port: int, streams: Sequence[StreamSpec], frames: Path, interval_ns: int
) -> PerfClientPlan:
    return {
        "role": "client",
        "host": "@FAR@",
        "port": port,
        "load": streams,
        "alpn": "perf",
        "trust": "insecure",
        "timeout_ns": HANDSHAKE_NS,
        "asks": False,
        "wish": None,
        **_side(flow, "client", frames, interval_ns),
    }


def _answer(port: int) -> AnswerPlan:
    """Who is called: its datagrams have the port that tells whose they are."""
    return {"role": "answer", "listen": f"[::]:{port}", "once": False, "calls": 1, "media": port}


def _call(flow: FlowSpec, port: int, seed: int, start_ns: int, end_ns: int) -> CallPlan:
    load = flow["load"]
    if load["kind"] != "datagrams":
        raise TypeError(f"{flow['name']}: a load without datagrams")
    duration = min(load["duration_ns"], end_ns - start_ns)
    return {
        "role": "call",
        "host": "@FAR@",
        "port": port,
        "count": 1,
        "load": {"up": load["up"], "down": load["down"], "duration_ns": duration},
        "seed": seed,
        "timeout_ns": HANDSHAKE_NS,
        "flow": {"name": flow["name"], "since_ns": start_ns},
    }


def _begins_dark(graph: TopologySpec) -> bool:
    """Whether a link is in an outage from the first instant on: measuring the path first would wait for its end."""
    stages = [stage for link in graph["links"] for way in (link["up"], link["down"]) for stage in way]
    return any(begin == 0 for stage in stages if stage["kind"] == "outage" for begin, _ in stage["windows"])


# --- the kernel -----------------------------------------------------------------------------------------------


def _mtu(spec: RunSpec) -> int:
    """Largest IP packet of the lab: Ethernet's, or what a flow needs."""
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


def _kernel(spec: RunSpec) -> Sides[TcpSpec | None]:
    """Options of TCP of each host's kernel. :func:`refusals` holds that all flows agree."""
    found: dict[str, TcpSpec | None] = {}
    for flow in spec["flows"]:
        transport = flow["transport"]
        if transport["kind"] == "tcp":
            found.setdefault(flow["client"], transport["client"])
            found.setdefault(flow["server"], transport["server"])
    if not found:
        return {}
    near, far, *_ = hosts_of(spec)
    sides: Sides[TcpSpec | None] = {"near": found.pop(near, None), "far": found.pop(far, None)}
    if found:
        sides["hosts"] = found
    return sides


def hosts_of(spec: RunSpec) -> list[str]:
    """The ends of the flows, those of the first flow first."""
    return list(dict.fromkeys(end for flow in spec["flows"] for end in (flow["client"], flow["server"])))


def round_trips_ns(spec: RunSpec) -> list[int]:
    """Propagation both ways, when it is largest, between every two hosts that have a flow. Of two hosts alone it is
    that of all links, otherwise of those on the way with the fewest."""
    pairs = {(flow["client"], flow["server"]) for flow in spec["flows"]}
    trips = _round_trips_ns(spec)
    if len(pairs) == 1:
        return [sum(trips.values())]
    hosts = frozenset(node["name"] for node in spec["graph"]["nodes"] if node["kind"] == "host")
    ends = [(link["name"], link["client_side"], link["server_side"]) for link in spec["graph"]["links"]]
    ways = (_links(ends, client, server, hosts) for client, server in sorted(pairs))
    return [sum(trips[link] for link in way) for way in ways]


def _links(
    ends: Sequence[tuple[str, str, str]], start: str, end: str, hosts: frozenset[str]
) -> tuple[str, ...]:
    """Links of the way with the fewest, which passes no host. Empty if there is none."""
    reached: dict[str, tuple[str, ...]] = {start: ()}
    ahead = [start]
    while ahead and end not in reached:
        here, ahead = ahead, []
        for node in here:
            for link, one, other in ends:
                there = other if one == node else one if other == node else None
                if there is not None and there not in reached and (node == start or node not in hosts):
                    reached[there] = (*reached[node], link)
                    ahead.append(there)
    return reached.get(end, ())


def _round_trips_ns(spec: RunSpec) -> dict[str, int]:
    """Propagation of each link, both ways, when it is largest."""
    moved: dict[tuple[str, int], list[int]] = {}
    for event in spec["graph"].get("changes", ()):
        for one in event.get("stages", ()):
            if one["change"]["kind"] == "delay":
                delays = moved.setdefault((one["line"], one["stage"]), [])
                delays.append(one["change"]["delay_ns"])
    return {
        link["name"]: sum(
            max([0, *delays_ns(stage), *moved.get((f"{link['name']}.{side}", number), [])])
            for side in ("up", "down")
            for number, stage in enumerate(link[side])
        )
        for link in spec["graph"]["links"]
    }
