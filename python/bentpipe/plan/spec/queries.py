"""Rate and propagation delay of a stage, and transport of a flow, in a resolved run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import (
        FlowSpec,
        ObjectSpec,
        PageLoadSpec,
        PageSpec,
        QuicSpec,
        QuicTransportSpec,
        StageSpec,
        TcpTransportSpec,
        UdpTransportSpec,
    )

__all__ = ["data_transport", "delays_ns", "document_chain", "needs_tcp", "quic_of", "rate_bit_s"]


def delays_ns(stage: StageSpec, *, changed: bool = True) -> list[int]:
    """Return the propagation delays of a stage in ns: at the start, then of its trace or its changes.

    Jitter and queueing are not part of it; the list is empty for stages without propagation.

    Args:
        stage: the stage.
        changed: include the changes of a constant delay.
    """
    if stage["kind"] == "delay":
        changes = stage.get("changes", ()) if changed else ()
        return [stage["delay_ns"], *(change["delay_ns"] for change in changes)]
    if stage["kind"] == "netem":
        return [stage["delay_ns"]]
    if stage["kind"] == "reconfiguration_delay":
        jitter = stage["jitter_ns"] or [0]
        return [stage["delay_ns"][0] + jitter[0], stage["delay_ns"][-1] + jitter[-1]]
    return [delay for _, delay in stage["points"]] if stage["kind"] == "delay_trace" else []


def rate_bit_s(stage: StageSpec) -> float | None:
    """Return the rate of a stage at the start in bit/s; None without one, or with a rate that varies by a trace."""
    if stage["kind"] == "netem":
        return float(stage["rate_bit_s"])
    if stage["kind"] == "radio":
        return float(stage["link_layer"]["rate_bit_s"])
    if stage["kind"] == "nr":
        return stage["block_bytes"] * 8e9 / (stage["slot_ns"] * stage["repetitions"])
    if stage["kind"] == "acm":
        fastest = stage["modes"][-1]
        return float(stage["symbols_s"] * fastest["data_bits"] // fastest["symbols"])
    if stage["kind"] == "transmit" and stage["service"]["kind"] == "rate":
        return float(stage["service"]["rate_bit_s"])
    return None


def data_transport(flow: FlowSpec) -> QuicTransportSpec | TcpTransportSpec | UdpTransportSpec:
    """Return the transport of a flow's data; for a page, which has QUIC and TCP, that of the first load."""
    transport, load = flow["transport"], flow["load"]
    if transport["kind"] != "web":
        return transport
    if load["kind"] == "page" and load["http"] == "3":
        return {"kind": "quic", **transport["quic"]}
    return {"kind": "tcp", **transport["tcp"]}


def document_chain(page: PageSpec) -> list[ObjectSpec]:
    """Return the first object of a page and its redirects in order; the last one is the document."""
    chain = [page["objects"][0]]
    while (target := chain[-1].get("redirect")) is not None:
        chain.append(page["objects"][target])
    return chain


def needs_tcp(load: PageLoadSpec) -> bool:
    """Return whether any object of a page may use TCP."""
    return load["http"] != "3" or not all(host.get("tls", True) for host in load["page"]["hosts"])


def quic_of(flow: FlowSpec) -> QuicSpec:
    """Return the QUIC options of a flow.

    Raises:
        TypeError: the flow uses TCP or UDP alone.
    """
    transport = flow["transport"]
    if transport["kind"] == "tcp" or transport["kind"] == "udp":
        raise TypeError(f"{flow['name']} is over {transport['kind'].upper()} alone")
    if transport["kind"] == "web":
        return transport["quic"]
    return cast("QuicSpec", {key: value for key, value in transport.items() if key != "kind"})
