"""Flows of a run (``FlowSpec``): transport, load and controllers, users, groups and admission.

The start of a flow has a random delay of up to 10 ms if there are several flows. It is more than the time of one full
packet at 1.2 Mbit/s. Without it, results would show the phase effects of drop-tail queues (Floyd and Jacobson 1992,
section 4). The delay is 0 for a single flow outside a group, which has no other flow to be in phase with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.plan.flow.datagrams import datagram_max_bytes, datagrams_spec, load_datagram_max_bytes, udp_spec
from bentpipe.plan.flow.flow_control import flow_control_windows
from bentpipe.plan.flow.loads import load_spec
from bentpipe.plan.flow.pages import page_load_spec
from bentpipe.plan.flow.quic import mtu_bytes, quic_spec, wire_bytes
from bentpipe.plan.flow.quic_profiles import PathProperties, apply_profile, profile_controller_options
from bentpipe.plan.flow.tcp import header_bytes, mss_bytes, tcp_spec
from bentpipe.plan.network.graph import access_of
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.plan.input_files import Files
    from bentpipe.plan.network.graph import Hop
    from bentpipe.plan.spec.run_spec import (
        AdmissionSpec,
        CongestionSpec,
        FlowSpec,
        GroupSpec,
        LoadSpec,
        TcpSides,
        TransportSpec,
    )
    from bentpipe.scenario.flow.quic import Quic
    from bentpipe.scenario.flow.tcp import Tcp
    from bentpipe.scenario.model import Congestion, Flow, Scenario

__all__ = ["admission_spec", "flow_spec", "full_packet_bytes", "group_spec", "number_users"]

START_JITTER_NS = 10_000_000
QUIC_DATAGRAM_OVERHEAD_BYTES = 1 + 8 + 4 + 16 + 9
"""Largest overhead of a datagram in a packet: flags, connection id of 8, packet number of 4, tag, type and length.

RFC 9000 section 17.3.1, RFC 9221 section 4."""
PAGE_BURST = 10
"""Packets that browsers and servers send unpaced with nothing in flight (Chromium's kInitialUnpacedBurst)."""


def full_packet_bytes(flow: Flow, scenario: Scenario) -> list[int]:
    """Return the size of a full packet, with all headers, of each transport of a flow, in bytes."""
    page = _has_page(flow)
    sizes = []
    if page or flow.transport == "quic":
        sizes.append(wire_bytes(flow.quic.with_defaults(scenario.quic)))
    if flow.transport == "udp" and flow.load is not None:
        udp = udp_spec(flow.udp.with_defaults(scenario.udp), load := _udp_load(flow, scenario.duration.ns))
        sizes.append(datagram_max_bytes(udp, load) + udp["header_bytes"])
    if page or flow.transport == "tcp":
        tcp = flow.tcp.with_defaults(scenario.tcp)
        sizes += [mss_bytes(end) + header_bytes(end) for end in (tcp, tcp.server_end())]
    return sizes


def _udp_load(flow: Flow, remaining_ns: int) -> LoadSpec:
    if flow.load is None:
        raise TypeError("UDP without a load")
    if flow.load.bundles is not None:
        return {"kind": "bundles"}
    return datagrams_spec(flow.load, flow.direction, remaining_ns)


def _has_page(flow: Flow) -> bool:
    return flow.load is not None and flow.load.page is not None


def number_users(scenario: Scenario) -> dict[str, int]:
    """Return the user number of each flow.

    It is 0 without a user, then one number for each named user, then one for each flow of a group without a named
    user.
    """
    user_names = list(dict.fromkeys(flow.user for flow in scenario.flow if flow.user is not None))
    number_of = {name: number for number, name in enumerate(user_names, 1)}
    numbers: dict[str, int] = {}
    highest = len(user_names)
    for flow in scenario.flow:
        for name in flow.names:
            if flow.user is not None:
                numbers[name] = number_of[flow.user]
            elif flow.count is None:
                numbers[name] = 0
            else:
                highest += 1
                numbers[name] = highest
    return numbers


def group_spec(flow: Flow, links: set[str]) -> GroupSpec:
    """Return the group of the flows of one table; ``links`` are the names of all links."""
    group: GroupSpec = {"name": flow.name, "flows": flow.names}
    access_links = [access for name in flow.names if (access := access_of(name)) in links]
    if access_links:
        group["links"] = access_links
    if flow.time_series == "per-flow":
        group["per_flow"] = True
    return group


def admission_spec(flow: Flow) -> AdmissionSpec | None:
    """Return the rate reserved for the flows of one table; None without admission control."""
    if flow.admission_rate is None:
        return None
    return {"name": flow.name, "flows": flow.names, "rate_bit_s": flow.admission_rate.bit_s}


def flow_spec(
    flow: Flow,
    scenario: Scenario,
    files: Files,
    ends: tuple[str, str],
    round_trips: Sequence[tuple[Hop, ...]],
    path: PathProperties,
) -> FlowSpec:
    """Return the first flow of a table.

    Args:
        flow: the table of the scenario.
        scenario: the scenario.
        files: input files, for HAR files.
        ends: nodes of client and server.
        round_trips: hops up and down on each route of the flow.
        path: properties of the path, for profiles of QUIC.

    Raises:
        ScenarioError: keys that cannot be combined.
    """
    if flow.start.ns >= scenario.duration.ns:
        text = f"found {flow.start}, expected less than duration = {scenario.duration}"
        raise ScenarioError([(f"flow.{flow.name}.start", text)])
    # A group of one flow has it too, so that its first flow starts at the same time in every cell of a sweep.
    several = len(scenario.flow) > 1 or flow.count is not None
    jitter = START_JITTER_NS if several else 0
    client, server = _congestion(flow.congestion), _congestion(flow.server_congestion or flow.congestion)
    quic = flow.quic.with_defaults(scenario.quic)
    if flow.transport == "quic":
        client = _add_options(client, profile_controller_options(quic, path, client["name"], down=False))
        server = _add_options(server, profile_controller_options(quic, path, server["name"], down=True))
    if flow.transport == "tcp" and not _has_page(flow):
        client, server = _tcp_congestion(flow.tcp.with_defaults(scenario.tcp), flow) or (client, server)
    load: LoadSpec
    if flow.load is not None and flow.load.bundles is not None:
        load = {"kind": "bundles"}
    elif _has_page(flow):
        load = page_load_spec(flow, scenario.page, files)
    elif flow.load is not None and flow.datagrams:
        load = datagrams_spec(flow.load, flow.direction, scenario.duration.ns - flow.start.ns)
        _check_datagram_size(flow, load, scenario)
    else:
        load = load_spec(flow.load, flow.direction, scenario.duration.ns - flow.start.ns)
    return {
        "name": flow.names[0],
        "client": ends[0],
        "server": ends[1],
        "start_ns": flow.start.ns,
        "start_jitter_ns": flow.start_jitter.ns if flow.start_jitter is not None else jitter,
        "client_congestion": client,
        "server_congestion": server,
        "transport": _transport(
            flow, apply_profile(quic, path), scenario, flow_control_windows(round_trips), load
        ),
        "load": load,
    }


def _check_datagram_size(flow: Flow, load: LoadSpec, scenario: Scenario) -> None:
    """Check that datagrams fit into a QUIC packet. Raises ScenarioError."""
    if flow.transport != "quic":
        return
    limit = mtu_bytes(flow.quic.with_defaults(scenario.quic)) - QUIC_DATAGRAM_OVERHEAD_BYTES
    if (size := load_datagram_max_bytes(load)) > limit:
        text = f"found datagrams of {size} B, expected at most {limit} B in a packet of QUIC (quic.mtu)"
        raise ScenarioError([(f"flow.{flow.name}.load", text)])


def _transport(
    flow: Flow, quic: Quic, scenario: Scenario, buffers: tuple[int, int], load: LoadSpec
) -> TransportSpec:
    tcp = flow.tcp.with_defaults(scenario.tcp)
    if not _has_page(flow):
        if flow.transport == "tcp":
            return {"kind": "tcp", **_tcp(tcp, buffers, flow.name)}
        if flow.transport == "udp":
            return udp_spec(flow.udp.with_defaults(scenario.udp), load)
        return {"kind": "quic", **quic_spec(quic, buffers, burst=0)}
    if quic.handshake == "0-rtt":
        key = "quic" if flow.quic.handshake is None else f"flow.{flow.name}.quic"
        text = 'found "0-rtt" for a page, whose first load has no ticket; expected early_data beside the page'
        raise ScenarioError([(f"{key}.handshake", text)])
    return {
        "kind": "web",
        "quic": quic_spec(quic, buffers, burst=PAGE_BURST),
        "tcp": _tcp(tcp, buffers, flow.name),
        "tcp_congestion": _tcp_congestion(tcp, flow),
    }


def _tcp_congestion(tcp: Tcp, flow: Flow) -> tuple[CongestionSpec, CongestionSpec] | None:
    """Return the controllers of ``[tcp]`` or ``flow.tcp`` for client and server; None if both name none."""
    server = tcp.server_end().congestion
    if tcp.congestion is None and server is None:
        return None
    return (
        _congestion(tcp.congestion or flow.congestion),
        _congestion(server or flow.server_congestion or flow.congestion),
    )


def _add_options(congestion: CongestionSpec, options: dict[str, int]) -> CongestionSpec:
    configured = congestion.get("options")
    if not options or not isinstance(configured, dict):
        return congestion
    return {"name": congestion["name"], "options": {**options, **configured}}


def _congestion(congestion: Congestion) -> CongestionSpec:
    return {"name": congestion.name, "options": congestion.options}


def _tcp(tcp: Tcp, buffers: tuple[int, int], flow: str) -> TcpSides:
    key = f"flow.{flow}.tcp"
    return {
        "client": tcp_spec(tcp, buffers, key),
        "server": tcp_spec(tcp.server_end(), buffers, f"{key}.server"),
    }
