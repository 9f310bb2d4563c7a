"""Flows in the engine's words (``FlowSpec``): who sends, whose packets they are, what is measured together.

A start is delayed by up to 10 ms where several flows meet, which is more than one full packet takes at 1.2 Mbit/s:
without it drop-tail phase effects are the result (Floyd and Jacobson 1992, section 4); 0 for a flow alone, which has
nothing to be in phase with, unless it is a group of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.plan.flow.datagrams import datagram_max_bytes, datagrams_spec, largest_bytes, udp_spec
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
PAGE_BURST = 10
"""Packets that browsers and their servers send unpaced when nothing is in flight (Chromium's kInitialUnpacedBurst)."""


def full_packet_bytes(flow: Flow, scenario: Scenario) -> list[int]:
    """Bytes of full packets of the transports that a flow uses, all headers counted."""
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


def _udp_load(flow: Flow, rest_ns: int) -> LoadSpec:
    if flow.load is None:
        raise TypeError("UDP without a load")
    if flow.load.bundles is not None:
        return {"kind": "bundles"}
    return datagrams_spec(flow.load, flow.send, rest_ns)


def _has_page(flow: Flow) -> bool:
    return flow.load is not None and flow.load.page is not None


def number_users(scenario: Scenario) -> dict[str, int]:
    """Whose packets each flow's are: 0 where nothing is said, then those that are named, then of each group without
    a name one user a flow."""
    named = list(dict.fromkeys(flow.user for flow in scenario.flow if flow.user is not None))
    numbers = {name: number for number, name in enumerate(named, 1)}
    found: dict[str, int] = {}
    apart = len(named)
    for flow in scenario.flow:
        for name in flow.names:
            if flow.user is not None:
                found[name] = numbers[flow.user]
            elif flow.count is None:
                found[name] = 0
            else:
                apart += 1
                found[name] = apart
    return found


def group_spec(flow: Flow, links: set[str]) -> GroupSpec:
    """What is measured together of the flows that ``flow`` stands for."""
    group: GroupSpec = {"name": flow.name, "flows": flow.names}
    own = [access for name in flow.names if (access := access_of(name)) in links]
    if own:
        group["links"] = own
    if flow.series == "each":
        group["each"] = True
    return group


def admission_spec(flow: Flow) -> AdmissionSpec | None:
    """The rate that is kept for the flows that ``flow`` stands for."""
    if flow.admission is None:
        return None
    return {"name": flow.name, "flows": flow.names, "rate_bit_s": flow.admission.bit_s}


def flow_spec(
    flow: Flow,
    scenario: Scenario,
    files: Files,
    ends: tuple[str, str],
    ways: Sequence[tuple[Hop, ...]],
    path: PathProperties,
) -> FlowSpec:
    """The first of the flows that ``flow`` stands for.

    Args:
        flow: as the scenario has it.
        scenario: whose.
        files: HAR files beside it.
        ends: the nodes of client and server.
        ways: what packets cross there and back, by each way that it has.
        path: what profiles know of these.

    Raises:
        ScenarioError: keys that do not go together.
    """
    if flow.start.ns >= scenario.duration.ns:
        found = f"found {flow.start}, expected less than duration = {scenario.duration}"
        raise ScenarioError([(f"flow.{flow.name}.start", found)])
    # Of a group also where it is one flow: in the next cell of a sweep it may be many, and that one begins as here.
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
        load = datagrams_spec(flow.load, flow.send, scenario.duration.ns - flow.start.ns)
        _fits(flow, load, scenario)
    else:
        load = load_spec(flow.load, flow.send, scenario.duration.ns - flow.start.ns)
    return {
        "name": flow.names[0],
        "client": ends[0],
        "server": ends[1],
        "start_ns": flow.start.ns,
        "start_jitter_ns": flow.start_jitter.ns if flow.start_jitter is not None else jitter,
        "client_congestion": client,
        "server_congestion": server,
        "transport": _transport(flow, apply_profile(quic, path), scenario, flow_control_windows(ways), load),
        "load": load,
    }


QUIC_DATAGRAM_BYTES = 1 + 8 + 4 + 16 + 9
"""Of a packet beside a datagram, at the most: flags, connection id of 8, packet number of 4, tag, type and length
(RFC 9000 section 17.3.1, RFC 9221 section 4)."""


def _fits(flow: Flow, load: LoadSpec, scenario: Scenario) -> None:
    """A datagram has room in a packet of QUIC. Raises ScenarioError."""
    if flow.transport != "quic":
        return
    room = mtu_bytes(flow.quic.with_defaults(scenario.quic)) - QUIC_DATAGRAM_BYTES
    if (found := largest_bytes(load)) > room:
        text = f"found datagrams of {found} B, expected at most {room} B in a packet of QUIC (quic.mtu)"
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
        problem = (
            'found "0-rtt" for a page, whose first load has no ticket; expected early_data beside the page'
        )
        raise ScenarioError([(f"{key}.handshake", problem)])
    return {
        "kind": "web",
        "quic": quic_spec(quic, buffers, burst=PAGE_BURST),
        "tcp": _tcp(tcp, buffers, flow.name),
        "tcp_congestion": _tcp_congestion(tcp, flow),
    }


def _tcp_congestion(tcp: Tcp, flow: Flow) -> tuple[CongestionSpec, CongestionSpec] | None:
    """Controllers of TCP connections where ``[tcp]`` or ``flow.tcp`` names one."""
    server = tcp.server_end().congestion
    if tcp.congestion is None and server is None:
        return None
    return (
        _congestion(tcp.congestion or flow.congestion),
        _congestion(server or flow.server_congestion or flow.congestion),
    )


def _add_options(congestion: CongestionSpec, options: dict[str, int]) -> CongestionSpec:
    own = congestion.get("options")
    if not options or not isinstance(own, dict):
        return congestion
    return {"name": congestion["name"], "options": {**options, **own}}


def _congestion(congestion: Congestion) -> CongestionSpec:
    return {"name": congestion.name, "options": congestion.options}


def _tcp(tcp: Tcp, buffers: tuple[int, int], flow: str) -> TcpSides:
    key = f"flow.{flow}.tcp"
    return {
        "client": tcp_spec(tcp, buffers, key),
        "server": tcp_spec(tcp.server_end(), buffers, f"{key}.server"),
    }
