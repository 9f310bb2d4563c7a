"""Calls, live streams and on-off sources of datagrams in the engine's words (``DatagramsSpec``).

Where a codec does not send silence, speech is as in ITU-T P.59: exponential talk spurts of 1.004 s and pauses of
1.587 s on average (table 1), each side by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.plan.flow.quic import MTU_BYTES
from bentpipe.scenario.flow.codecs import CODECS, RTP_BYTES
from bentpipe.scenario.quantities import Size

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import (
        Direction,
        DrawSpec,
        LoadSpec,
        PeriodsSpec,
        SourceSpec,
        UdpTransportSpec,
    )
    from bentpipe.scenario.flow.datagrams import Call, Live, OnOff, Udp
    from bentpipe.scenario.model import Load

__all__ = [
    "datagram_max_bytes",
    "datagrams_spec",
    "largest_bytes",
    "offered_bit_s",
    "udp_header_bytes",
    "udp_spec",
]  # fmt: skip

TALK_NS, PAUSE_NS = 1_004_000_000, 1_587_000_000
"""P.59 table 1."""

DYNAMIC = 96
"""The first payload type that stands for nothing by itself (RFC 3551 section 6)."""

NS2_PACKET = Size(210)
"""Of an on-off source where nothing is said: ns-2's ``packetSize_``."""

HEADER_BYTES = {4: 28, 6: 48}


def udp_header_bytes(udp: Udp) -> int:
    """IP and UDP headers."""
    return HEADER_BYTES[udp.ip or 4]


def datagrams_spec(load: Load, send: str | None, rest_ns: int) -> LoadSpec:
    """A load whose data goes in datagrams.

    Args:
        load: as the scenario has it.
        send: which way; None: both of a call, up of others.
        rest_ns: from the flow's start to the end of the run.
    """
    source, time = _source(load)
    way = send or ("both" if load.call is not None else "up")
    return {
        "kind": "datagrams",
        "up": source if way in ("up", "both") else None,
        "down": source if way in ("down", "both") else None,
        "duration_ns": time if time is not None else rest_ns,
    }


def udp_spec(udp: Udp, load: LoadSpec) -> UdpTransportSpec:
    """UDP for a resolved load."""
    words: UdpTransportSpec = {"kind": "udp", "header_bytes": udp_header_bytes(udp)}
    if load["kind"] == "bundles":
        words["payload_bytes"] = udp.mtu.bytes if udp.mtu is not None else MTU_BYTES
    return words


def datagram_max_bytes(transport: UdpTransportSpec, load: LoadSpec) -> int:
    """The largest datagram of a resolved flow over UDP, without headers."""
    return transport.get("payload_bytes") or largest_bytes(load)


def largest_bytes(load: LoadSpec) -> int:
    """The largest datagram of a resolved load, without headers of UDP; 0 where it has none."""
    if load["kind"] != "datagrams":
        return 0
    return max(
        (source["payload_bytes"] for source in (load["up"], load["down"]) if source is not None), default=0
    )


def offered_bit_s(load: LoadSpec, way: Direction) -> float:
    """What the source of a resolved load gives while it is on, without headers of UDP; 0 where there is none."""
    source = (load["up"] if way == "up" else load["down"]) if load["kind"] == "datagrams" else None
    return 0.0 if source is None else source["payload_bytes"] * 8e9 / source["interval_ns"]


def _source(load: Load) -> tuple[SourceSpec, int | None]:
    if load.call is not None:
        return _call(load.call), load.call.time.ns if load.call.time is not None else None
    if load.live is not None:
        return _live(load.live), load.live.time.ns if load.live.time is not None else None
    if load.on_off is None:
        raise TypeError("a load without datagrams")
    return _on_off(load.on_off), load.on_off.time.ns if load.on_off.time is not None else None


def _call(call: Call) -> SourceSpec:
    codec = CODECS[call.codec]
    silent = call.vad if call.vad is not None else codec.vad
    periods: PeriodsSpec = {"on_ns": TALK_NS, "off_ns": PAUSE_NS, "draw": {"kind": "exponential"}}
    return {
        "name": codec.name,
        "rtp_type": codec.rtp_type,
        "payload_bytes": RTP_BYTES + codec.bit_s * call.packet.ns // (8 * 10**9),
        "interval_ns": call.packet.ns,
        "periods": periods if silent else None,
    }


def _live(live: Live) -> SourceSpec:
    return {
        "name": "live",
        "rtp_type": DYNAMIC,
        "payload_bytes": live.packet.bytes,
        "interval_ns": _interval_ns(live.packet, live.rate.bit_s),
        "periods": None,
    }


def _on_off(source: OnOff) -> SourceSpec:
    packet = source.packet or NS2_PACKET
    if source.rate is None:
        raise TypeError("a source of datagrams without a rate")
    shape, draw = source.pareto_shape, source.distribution
    drawn: DrawSpec = {"kind": "exponential"} if draw == "exponential" else {"kind": "fixed"}
    if shape is not None:
        drawn = {"kind": "pareto", "shape": shape}
    return {
        "name": "on_off",
        "rtp_type": DYNAMIC,
        "payload_bytes": packet.bytes,
        "interval_ns": _interval_ns(packet, source.rate.bit_s),
        "periods": {"on_ns": source.on.ns, "off_ns": source.off.ns, "draw": drawn},
    }


def _interval_ns(packet: Size, bit_s: int) -> int:
    """What a datagram takes to fill, to the nearest nanosecond."""
    return (packet.bytes * 8 * 10**9 + bit_s // 2) // bit_s
