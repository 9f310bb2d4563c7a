"""What a resolved run says of a stage's rate and propagation, and of a flow's transport, read in one place."""

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
    """Propagation of a stage: as it begins, then as its trace or (``changed``) its changes have it; none of others.

    Jitter is no propagation, nor is what waits.
    """
    if stage["kind"] == "delay":
        later = stage.get("changes", ()) if changed else ()
        return [stage["delay_ns"], *(change["delay_ns"] for change in later)]
    if stage["kind"] == "netem":
        return [stage["delay_ns"]]
    if stage["kind"] == "slot_delay":
        jitter = stage["jitter_ns"] or [0]
        return [stage["delay_ns"][0] + jitter[0], stage["delay_ns"][-1] + jitter[-1]]
    return [delay for _, delay in stage["points"]] if stage["kind"] == "delay_trace" else []


def rate_bit_s(stage: StageSpec) -> float | None:
    """Rate of a stage as it begins, where it is a number."""
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
    """The transport of a flow's data: of a page's flow, which has both, that of the first load."""
    transport, load = flow["transport"], flow["load"]
    if transport["kind"] != "web":
        return transport
    if load["kind"] == "page" and load["http"] == "3":
        return {"kind": "quic", **transport["quic"]}
    return {"kind": "tcp", **transport["tcp"]}


def document_chain(page: PageSpec) -> list[ObjectSpec]:
    """Return the first object of a page, what it redirects to, and so on: the last one is the document."""
    found = [page["objects"][0]]
    while (to := found[-1].get("redirect")) is not None:
        found.append(page["objects"][to])
    return found


def needs_tcp(load: PageLoadSpec) -> bool:
    """Whether anything of a page's loads comes over TCP."""
    return load["http"] != "3" or not all(host.get("tls", True) for host in load["page"]["hosts"])


def quic_of(flow: FlowSpec) -> QuicSpec:
    """Options of QUIC of a flow that has it."""
    transport = flow["transport"]
    if transport["kind"] == "tcp" or transport["kind"] == "udp":
        raise TypeError(f"{flow['name']} is over {transport['kind'].upper()} alone")
    if transport["kind"] == "web":
        return transport["quic"]
    return cast("QuicSpec", {key: value for key, value in transport.items() if key != "kind"})
