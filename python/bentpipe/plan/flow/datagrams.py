"""Calls, live streams and on-off sources of datagrams (``DatagramsSpec``).

A codec with voice activity detection follows ITU-T P.59 (table 1). Talk spurts and pauses are exponential, with means
of 1.004 s and 1.587 s, independently on each side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.plan.flow.quic import MTU_BYTES
from bentpipe.scenario.flow.codecs import CODECS, RTP_BYTES
from bentpipe.scenario.quantities import Size

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import (
        Direction,
        LoadSpec,
        PeriodDistribution,
        PeriodsSpec,
        SourceSpec,
        UdpTransportSpec,
    )
    from bentpipe.scenario.flow.datagrams import Call, ConstantBitRate, OnOff, Udp
    from bentpipe.scenario.model import Load

__all__ = [
    "datagram_max_bytes",
    "datagrams_spec",
    "load_datagram_max_bytes",
    "offered_bit_s",
    "udp_header_bytes",
    "udp_spec",
]  # fmt: skip

TALK_NS, PAUSE_NS = 1_004_000_000, 1_587_000_000
"""Mean duration of talk spurts and pauses (ITU-T P.59 table 1)."""

DYNAMIC_PAYLOAD_TYPE = 96
"""First dynamic RTP payload type (RFC 3551 section 6)."""

DEFAULT_PACKET = Size(210)
"""Default packet of an on-off source: ns-2's ``packetSize_``."""

HEADER_BYTES = {4: 28, 6: 48}


def udp_header_bytes(udp: Udp) -> int:
    """Return the bytes of IP and UDP headers."""
    return HEADER_BYTES[udp.ip or 4]


def datagrams_spec(load: Load, send: str | None, remaining_ns: int) -> LoadSpec:
    """Return the load of a flow that sends datagrams.

    Args:
        load: the table of the scenario.
        send: direction; None means both for a call, and up for other sources.
        remaining_ns: time from the start of the flow to the end of the run.
    """
    source, time = _source_and_time(load)
    direction = send or ("both" if load.call is not None else "up")
    return {
        "kind": "datagrams",
        "up": source if direction in ("up", "both") else None,
        "down": source if direction in ("down", "both") else None,
        "duration_ns": time if time is not None else remaining_ns,
    }


def udp_spec(udp: Udp, load: LoadSpec) -> UdpTransportSpec:
    """Return the UDP transport of a resolved load."""
    spec: UdpTransportSpec = {"kind": "udp", "header_bytes": udp_header_bytes(udp)}
    if load["kind"] == "bundles":
        spec["payload_bytes"] = udp.mtu.bytes if udp.mtu is not None else MTU_BYTES
    return spec


def datagram_max_bytes(transport: UdpTransportSpec, load: LoadSpec) -> int:
    """Return the largest datagram of a resolved flow over UDP in bytes, without headers."""
    return transport.get("payload_bytes") or load_datagram_max_bytes(load)


def load_datagram_max_bytes(load: LoadSpec) -> int:
    """Return the largest datagram of a resolved load in bytes, without headers; 0 without datagrams."""
    if load["kind"] != "datagrams":
        return 0
    return max(
        (source["payload_bytes"] for source in (load["up"], load["down"]) if source is not None), default=0
    )


def offered_bit_s(load: LoadSpec, direction: Direction) -> float:
    """Return the rate of a source while it is on, in bit/s without headers; 0 without a source."""
    source = (load["up"] if direction == "up" else load["down"]) if load["kind"] == "datagrams" else None
    return 0.0 if source is None else source["payload_bytes"] * 8e9 / source["interval_ns"]


def _source_and_time(load: Load) -> tuple[SourceSpec, int | None]:
    if load.call is not None:
        return _call(load.call), load.call.time.ns if load.call.time is not None else None
    if load.cbr is not None:
        return _live(load.cbr), load.cbr.time.ns if load.cbr.time is not None else None
    if load.on_off is None:
        raise TypeError("a load without datagrams")
    return _on_off(load.on_off), load.on_off.time.ns if load.on_off.time is not None else None


def _call(call: Call) -> SourceSpec:
    codec = CODECS[call.codec]
    has_vad = call.vad if call.vad is not None else codec.vad
    periods: PeriodsSpec = {"on_ns": TALK_NS, "off_ns": PAUSE_NS, "distribution": {"kind": "exponential"}}
    return {
        "name": codec.name,
        "rtp_type": codec.rtp_type,
        "payload_bytes": RTP_BYTES + codec.bit_s * call.packet.ns // (8 * 10**9),
        "interval_ns": call.packet.ns,
        "periods": periods if has_vad else None,
    }


def _live(live: ConstantBitRate) -> SourceSpec:
    return {
        "name": "live",
        "rtp_type": DYNAMIC_PAYLOAD_TYPE,
        "payload_bytes": live.packet.bytes,
        "interval_ns": _interval_ns(live.packet, live.rate.bit_s),
        "periods": None,
    }


def _on_off(source: OnOff) -> SourceSpec:
    packet = source.packet or DEFAULT_PACKET
    if source.rate is None:
        raise TypeError("a source of datagrams without a rate")
    distribution: PeriodDistribution = (
        {"kind": "exponential"} if source.distribution == "exponential" else {"kind": "fixed"}
    )
    if source.pareto_shape is not None:
        distribution = {"kind": "pareto", "shape": source.pareto_shape}
    return {
        "name": "on_off",
        "rtp_type": DYNAMIC_PAYLOAD_TYPE,
        "payload_bytes": packet.bytes,
        "interval_ns": _interval_ns(packet, source.rate.bit_s),
        "periods": {"on_ns": source.on.ns, "off_ns": source.off.ns, "distribution": distribution},
    }


def _interval_ns(packet: Size, bit_s: int) -> int:
    """Return the interval between datagrams in ns, rounded."""
    return (packet.bytes * 8 * 10**9 + bit_s // 2) // bit_s
