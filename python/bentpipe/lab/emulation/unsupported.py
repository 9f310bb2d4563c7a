"""What real time cannot do: each refusal names the key of the scenario, what it asks for, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.lab.access import other_ways
from bentpipe.lab.kernel_tcp import SYSCTLS, Machine, fixed, wrong_controller, wrong_proxies
from bentpipe.plan.flow.controllers import by_name
from bentpipe.plan.flow.groups import flow_groups
from bentpipe.plan.flow.loads import senders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.spec.run_spec import (
        CongestionSpec,
        DatagramsLoadSpec,
        FlowSpec,
        QuicSpec,
        RunSpec,
        TcpSides,
    )

__all__ = ["refusals"]

SHARED = (*SYSCTLS, "initial_window_bytes", "receive_buffer_bytes", "send_buffer_bytes")
"""Options that a namespace has once, for all of its TCP."""

MOST_ARRIVALS = 500
"""Clients of one flow: each arrival is a process."""

MOST_HOSTS = 40
"""Ends of flows: each is a namespace, its links are devices and threads."""

MOST_BIT_S, LEAST_INTERVAL_NS, LEAST_PERIOD_NS = 200_000_000, 10_000, 1_000_000
"""Of a call (crates/programs/src/media)."""

MOST_FLOWS = 250
"""Flows of one group: each is a server and a client."""


def refusals(
    spec: RunSpec,
    catalogue: Sequence[Mapping[str, Any]],
    machine: Machine | None = None,
    proxies: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Keys and reasons why the resolved run cannot be had in real time; none when it can. ``proxies`` are the keys of
    proxies by their nodes."""
    machine = machine or Machine()
    known = by_name(catalogue)
    problems = [
        (f"trace.{key}", "found true; only simulated packets are traced")
        for key in ("qlog", "pcapng", "packets", "stages", "tcp")
        if spec["trace"].get(key)
    ]
    problems += _graph(spec)
    groups = flow_groups(spec)
    for group in spec.get("groups", ()):
        if (count := len(group["flows"])) > MOST_FLOWS:
            said = f"found {count}, each two processes; expected at most {MOST_FLOWS}"
            problems.append((f"flow.{group['name']}.count", said))
    for flow in spec["flows"]:
        key = f"flow.{groups.get(flow['name'], flow['name'])}"
        problems += _load(flow, f"{key}.load", spec["duration_ns"])
        transport = flow["transport"]
        if transport["kind"] == "quic":
            problems += _quic(flow, transport, key, known)
        elif transport["kind"] == "tcp":
            problems += _tcp(flow, transport, key, catalogue, machine)
    over_tcp = (flow for flow in spec["flows"] if flow["transport"]["kind"] == "tcp")
    send = {side for flow in over_tcp for side in senders(flow["load"])}
    problems += wrong_proxies(spec, catalogue, machine, keys=proxies, senders=send)
    problems += _bundle_nodes(spec)
    if spec.get("admissions"):
        problems.append(("admission", "is there; real time refuses no flow when it begins"))
    return list(dict.fromkeys(problems + _agree(spec, groups)))


def _graph(spec: RunSpec) -> list[tuple[str, str]]:
    """Of other graphs than one way between two hosts that stays."""
    pairs = {(flow["client"], flow["server"]) for flow in spec["flows"]}
    hosts = {end for pair in pairs for end in pair}
    problems = []
    if len(hosts) > MOST_HOSTS:
        problems.append(
            ("flow", f"found {len(hosts)} hosts, each a namespace; expected at most {MOST_HOSTS}")
        )
    moved = other_ways(spec["graph"])
    if moved or len(pairs) > 1:
        why = "ways change" if moved else "flows have other ends"
        told = f"split TCP, and {why}; expected one way between the same two ends for all flows, or no proxy"
        problems += _nodes("proxy", [proxy["node"] for proxy in spec.get("proxies", ())], told)
    if moved:
        told = "hold packets while no way leads on, which a kernel does not; expected no hold, or no gap"
        held = [node["name"] for node in spec["graph"]["nodes"] if node.get("hold_bytes") is not None]
        problems += _nodes("hold", held, told)
    return problems


def _nodes(key: str, names: Sequence[str], told: str) -> list[tuple[str, str]]:
    """What is told of these nodes, if there are any."""
    listed = ", ".join(f'"{name}"' for name in names)
    return [(key, f"nodes {listed} {told}")] if names else []


def _load(flow: FlowSpec, key: str, duration_ns: int) -> list[tuple[str, str]]:
    load = flow["load"]
    if load["kind"] == "on_off":
        return [(key, "is an on-off source of a stream; real time has those of datagrams over UDP")]
    if load["kind"] == "datagrams":
        return _datagrams(load, key) if flow["transport"]["kind"] == "udp" else [
            (key, "sends datagrams over QUIC; `bentpipe perf` sends them over UDP")
        ]  # fmt: skip
    if load["kind"] == "page":
        return [(key, "is a page, which `bentpipe browse` loads")]
    if load["kind"] == "poisson":
        expected = min(load["duration_ns"], duration_ns) / load["mean_interarrival_ns"]
        if expected > MOST_ARRIVALS:
            said = f"about {expected:,.0f} arrivals, each a process; expected at most {MOST_ARRIVALS}"
            return [(f"{key}.poisson", f"found {said}")]
    return []


def _bundle_nodes(spec: RunSpec) -> Iterator[tuple[str, str]]:
    """What bundle nodes on sockets do not do."""
    dtn = spec.get("dtn")
    if dtn is None:
        return
    for link in dtn["links"]:
        if link.get("on_return") == "resume":
            yield (
                f"flow.{link['flow']}.load.bundles.on_return",
                'found "resume"; a bundle node on sockets has no ticket',
            )
    for node in dtn["nodes"]:
        for key, word in (("store_ns", "store_delay"), ("stops", "stops")):
            if node.get(key):
                yield (
                    f"dtn.node.{node['name']}.{word}",
                    "is there; the store of a process is its memory, while it runs",
                )


def _datagrams(load: DatagramsLoadSpec, key: str) -> list[tuple[str, str]]:
    """What the answering side does for nobody."""
    for source in (load["up"], load["down"]):
        if source is None:
            continue
        bit_s = source["payload_bytes"] * 8e9 / source["interval_ns"]
        if bit_s > MOST_BIT_S:
            return [(key, f"sends {bit_s / 1e6:,.0f} Mbit/s; expected at most {MOST_BIT_S / 1e6:,.0f}")]
        if source["interval_ns"] < LEAST_INTERVAL_NS:
            said = f"sends every {source['interval_ns']:,} ns; expected at least {LEAST_INTERVAL_NS:,} between two"
            return [(key, said)]
        periods = source["periods"]
        if periods is not None and periods["on_ns"] < LEAST_PERIOD_NS:
            return [(key, "has periods of less than 1 ms; expected 1 ms or more on the average")]
    return []


def _controllers(flow: FlowSpec) -> Iterator[tuple[str, str, CongestionSpec]]:
    """Sides, the scenario's words for their controllers, and these."""
    yield "client", "congestion", flow["client_congestion"]
    yield "server", "server_congestion", flow["server_congestion"]


def _quic(flow: FlowSpec, quic: QuicSpec, key: str, known: Mapping[str, Any]) -> list[tuple[str, str]]:
    problems = []
    if quic["handshake"] != "1-rtt":
        who = (
            "a bundle node on sockets" if flow["load"]["kind"] == "bundles" else "a client of `bentpipe perf`"
        )
        problems.append((f"{key}.quic.handshake", f'found "0-rtt"; {who} has no ticket'))
    for _, word, named in _controllers(flow):
        if named["name"] not in known:
            why = "a controller in Python, which has no real clock"
            problems.append((f"{key}.{word}", f'found "{named["name"]}", {why}'))
    return problems


def _tcp(
    flow: FlowSpec, tcp: TcpSides, key: str, catalogue: Sequence[Mapping[str, Any]], machine: Machine
) -> list[tuple[str, str]]:
    problems = []
    sends = senders(flow["load"])
    alike = flow["client_congestion"] == flow["server_congestion"]
    for side, word, named in _controllers(flow):
        if side in sends:
            where = f"{key}.congestion" if alike else f"{key}.{word}"
            problems += wrong_controller(named, where, catalogue, machine)
    problems += fixed(tcp, f"{key}.tcp")
    return list(dict.fromkeys(problems))


def _agree(spec: RunSpec, groups: Mapping[str, str]) -> list[tuple[str, str]]:
    """Options that a namespace has once."""
    hosts: dict[str, tuple[str, Mapping[str, object]]] = {}
    problems = []
    for flow in spec["flows"]:
        own = flow["transport"]
        if own["kind"] != "tcp":
            continue
        name = groups.get(flow["name"], flow["name"])
        for host, ours in ((flow["client"], own["client"]), (flow["server"], own["server"])):
            options: Mapping[str, object] = {**ours}
            other, theirs = hosts.setdefault(host, (name, options))
            for option in (one for one in SHARED if options[one] != theirs[one]):
                why = f'differs from that of flow "{other}"; expected the same for all TCP of a side'
                problems.append((f"flow.{name}.tcp.{option.removesuffix('_bytes')}", why))
    return problems
