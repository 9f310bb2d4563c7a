"""Settings that emulation does not support.

Each problem names the key of the scenario, its value and the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.lab.access import find_route_changes
from bentpipe.lab.kernel_tcp import SYSCTLS, Machine, check_controller, check_fixed_options, check_proxies
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

NAMESPACE_OPTIONS = (*SYSCTLS, "initial_window_bytes", "receive_buffer_bytes", "send_buffer_bytes")
"""Options of a namespace that are common to all of its TCP sockets."""

MAX_ARRIVALS = 500
"""Maximum number of clients of a flow: each arrival is a process."""

MAX_HOSTS = 40
"""Maximum number of endpoints of flows: each is a namespace, and its links are devices and threads."""

MAX_BIT_S, MIN_INTERVAL_NS, MIN_PERIOD_NS = 200_000_000, 10_000, 1_000_000
"""Limits of a call: maximum rate, minimum packet interval, minimum mean on-period
(crates/programs/src/media)."""

MAX_FLOWS = 250
"""Maximum number of flows of a group: each is a server and a client."""


def refusals(
    spec: RunSpec,
    catalogue: Sequence[Mapping[str, Any]],
    machine: Machine | None = None,
    proxies: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Return the keys of a resolved run that emulation does not support, with the reasons.

    Args:
        spec: the run.
        catalogue: controllers of the engine.
        machine: controllers of the kernel; None: of this host.
        proxies: keys of the proxies in the scenario, by their nodes.
    """
    machine = machine or Machine()
    known = by_name(catalogue)
    problems = [
        (f"trace.{key}", "found true; only simulated packets are traced")
        for key in ("qlog", "pcapng", "packets", "packet_steps", "tcp")
        if spec["trace"].get(key)
    ]
    problems += _check_graph(spec)
    groups = flow_groups(spec)
    for group in spec.get("groups", ()):
        if (count := len(group["flows"])) > MAX_FLOWS:
            problem = f"found {count}, each two processes; expected at most {MAX_FLOWS}"
            problems.append((f"flow.{group['name']}.count", problem))
    for flow in spec["flows"]:
        key = f"flow.{groups.get(flow['name'], flow['name'])}"
        problems += _check_load(flow, f"{key}.load", spec["duration_ns"])
        transport = flow["transport"]
        if transport["kind"] == "quic":
            problems += _check_quic(flow, transport, key, known)
        elif transport["kind"] == "tcp":
            problems += _check_tcp(flow, transport, key, catalogue, machine)
    tcp_flows = (flow for flow in spec["flows"] if flow["transport"]["kind"] == "tcp")
    tcp_senders = {side for flow in tcp_flows for side in senders(flow["load"])}
    problems += check_proxies(spec, catalogue, machine, keys=proxies, senders=tcp_senders)
    problems += _check_bundle_nodes(spec)
    if spec.get("admissions"):
        problems.append(("admission_rate", "emulation has no admission control"))
    return list(dict.fromkeys(problems + _check_shared_options(spec, groups)))


def _check_graph(spec: RunSpec) -> list[tuple[str, str]]:
    """Return the problems of graphs other than one constant route between two hosts."""
    pairs = {(flow["client"], flow["server"]) for flow in spec["flows"]}
    hosts = {end for pair in pairs for end in pair}
    problems = []
    if len(hosts) > MAX_HOSTS:
        problems.append(("flow", f"found {len(hosts)} hosts, each a namespace; expected at most {MAX_HOSTS}"))
    route_changes = find_route_changes(spec["graph"])
    if route_changes or len(pairs) > 1:
        reason = "routes change" if route_changes else "flows have different endpoints"
        problem = f"split TCP, but {reason}; expected one route between the same two hosts for all flows, or no proxy"
        problems += _node_problem("proxy", [proxy["node"] for proxy in spec.get("proxies", ())], problem)
    if route_changes:
        problem = "hold packets while no route exists, unlike a kernel; expected no hold, or no gap"
        buffering_nodes = [
            node["name"] for node in spec["graph"]["nodes"] if node.get("store_and_forward_bytes") is not None
        ]
        problems += _node_problem("store_and_forward", buffering_nodes, problem)
    return problems


def _node_problem(key: str, names: Sequence[str], problem: str) -> list[tuple[str, str]]:
    """Return the problem of these nodes; none without nodes."""
    listed = ", ".join(f'"{name}"' for name in names)
    return [(key, f"nodes {listed} {problem}")] if names else []


def _check_load(flow: FlowSpec, key: str, duration_ns: int) -> list[tuple[str, str]]:
    load = flow["load"]
    if load["kind"] == "on_off":
        return [
            (key, "is an on-off source of a stream; emulation supports on-off sources of datagrams over UDP")
        ]
    if load["kind"] == "datagrams":
        return _check_datagrams(load, key) if flow["transport"]["kind"] == "udp" else [
            (key, "sends datagrams over QUIC; `bentpipe perf` sends them over UDP")
        ]  # fmt: skip
    if load["kind"] == "page":
        return [(key, "is a page, which `bentpipe browse` loads")]
    if load["kind"] == "poisson":
        expected = min(load["duration_ns"], duration_ns) / load["mean_interarrival_ns"]
        if expected > MAX_ARRIVALS:
            problem = f"about {expected:,.0f} arrivals, each a process; expected at most {MAX_ARRIVALS}"
            return [(f"{key}.poisson", f"found {problem}")]
    return []


def _check_bundle_nodes(spec: RunSpec) -> Iterator[tuple[str, str]]:
    """Yield the settings that bundle nodes on real sockets do not support."""
    dtn = spec.get("dtn")
    if dtn is None:
        return
    for link in dtn["links"]:
        if link.get("on_contact_start") == "resume":
            yield (
                f"flow.{link['flow']}.load.bundles.on_return",
                'found "resume"; a bundle node on real sockets has no session ticket',
            )
    for node in dtn["nodes"]:
        for key, word in (("store_delay_ns", "store_delay"), ("outages", "outages")):
            if node.get(key):
                yield (
                    f"dtn.node.{node['name']}.{word}",
                    "unsupported; the store of a process is its memory, while it runs",
                )


def _check_datagrams(load: DatagramsLoadSpec, key: str) -> list[tuple[str, str]]:
    """Return the problems of a datagram load that exceeds the limits of the server."""
    for source in (load["up"], load["down"]):
        if source is None:
            continue
        bit_s = source["payload_bytes"] * 8e9 / source["interval_ns"]
        if bit_s > MAX_BIT_S:
            return [(key, f"sends {bit_s / 1e6:,.0f} Mbit/s; expected at most {MAX_BIT_S / 1e6:,.0f}")]
        if source["interval_ns"] < MIN_INTERVAL_NS:
            problem = (
                f"sends every {source['interval_ns']:,} ns; expected at least {MIN_INTERVAL_NS:,} between two"
            )
            return [(key, problem)]
        periods = source["periods"]
        if periods is not None and periods["on_ns"] < MIN_PERIOD_NS:
            return [(key, "has a mean on-period below 1 ms; expected at least 1 ms")]
    return []


def _controllers(flow: FlowSpec) -> Iterator[tuple[str, str, CongestionSpec]]:
    """Yield each endpoint, the key of its controller in the scenario, and the controller."""
    yield "client", "congestion", flow["client_congestion"]
    yield "server", "server_congestion", flow["server_congestion"]


def _check_quic(flow: FlowSpec, quic: QuicSpec, key: str, known: Mapping[str, Any]) -> list[tuple[str, str]]:
    problems = []
    if quic["handshake"] != "1-rtt":
        endpoint = (
            "a bundle node on real sockets"
            if flow["load"]["kind"] == "bundles"
            else "a client of `bentpipe perf`"
        )
        problems.append((f"{key}.quic.handshake", f'found "0-rtt"; {endpoint} has no session ticket'))
    for _, key_of_controller, controller in _controllers(flow):
        if controller["name"] not in known:
            reason = "a controller in Python, which runs only in simulation"
            problems.append((f"{key}.{key_of_controller}", f'found "{controller["name"]}", {reason}'))
    return problems


def _check_tcp(
    flow: FlowSpec, tcp: TcpSides, key: str, catalogue: Sequence[Mapping[str, Any]], machine: Machine
) -> list[tuple[str, str]]:
    problems = []
    sends = senders(flow["load"])
    is_common = flow["client_congestion"] == flow["server_congestion"]
    for side, key_of_controller, controller in _controllers(flow):
        if side in sends:
            controller_key = f"{key}.congestion" if is_common else f"{key}.{key_of_controller}"
            problems += check_controller(controller, controller_key, catalogue, machine)
    problems += check_fixed_options(tcp, f"{key}.tcp")
    return list(dict.fromkeys(problems))


def _check_shared_options(spec: RunSpec, groups: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the problems of options that are common to a namespace."""
    hosts: dict[str, tuple[str, Mapping[str, object]]] = {}
    problems = []
    for flow in spec["flows"]:
        transport = flow["transport"]
        if transport["kind"] != "tcp":
            continue
        name = groups.get(flow["name"], flow["name"])
        for host, tcp in ((flow["client"], transport["client"]), (flow["server"], transport["server"])):
            options: Mapping[str, object] = {**tcp}
            other, other_options = hosts.setdefault(host, (name, options))
            for option in (one for one in NAMESPACE_OPTIONS if options[one] != other_options[one]):
                reason = f'differs from that of flow "{other}"; expected the same for all TCP of a side'
                problems.append((f"flow.{name}.tcp.{option.removesuffix('_bytes')}", reason))
    return problems
