"""Options of QUIC (``QuicSpec``), with all defaults.

==================  ===========================================================================================
mtu                 1452 B of UDP payload: 1500 B of Ethernet minus the larger (IPv6) headers, the result of
                    path MTU discovery in common stacks
initial_window      10 packets, no more than 14720 B (RFC 9002 section 7.2)
initial_rtt         333 ms (RFC 9002 section 6.2.2)
packet_threshold    3 (RFC 9002 section 6.1.1)
time_threshold      9/8 (RFC 9002 section 6.1.2)
idle_timeout        none: only the other timers of the transport decide whether it survives an outage
==================  ===========================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import QuicSpec
    from bentpipe.scenario.flow.quic import Quic

__all__ = ["MTU_BYTES", "defaults", "initial_window_bytes", "mtu_bytes", "quic_spec", "wire_bytes"]

MTU_BYTES = 1452
INITIAL_WINDOW_BYTES = 14_720
INITIAL_RTT_NS = 333_000_000
PACKET_THRESHOLD = 3
NO_PACKET_THRESHOLD = 2**32 - 1
"""Packet threshold that no packet reaches, so that only the time threshold detects a loss."""
HEADER_BYTES = {4: 28, 6: 48}


def wire_bytes(quic: Quic) -> int:
    """Return the size of a full packet with all headers."""
    return mtu_bytes(quic) + HEADER_BYTES[quic.ip or 4]


def mtu_bytes(quic: Quic) -> int:
    """Return the UDP payload of a full packet."""
    return quic.mtu.bytes if quic.mtu is not None else MTU_BYTES


def initial_window_bytes(quic: Quic) -> int:
    """Return the initial congestion window."""
    mtu = mtu_bytes(quic)
    return quic.initial_window.in_bytes(mtu) if quic.initial_window is not None else _initial_window(mtu)


def _initial_window(mtu: int) -> int:
    return min(10 * mtu, max(INITIAL_WINDOW_BYTES, 2 * mtu))


def defaults(mtu_bytes: int, ip: int, windows: tuple[int, int]) -> QuicSpec:
    """Return the default options of a connection.

    Args:
        mtu_bytes: UDP payload of a full packet.
        ip: version of IP.
        windows: receive and send window, bytes.
    """
    receive, send = windows
    return {
        "crypto": "modelled",
        "handshake": "1-rtt",
        "mtu_bytes": mtu_bytes,
        "header_bytes": HEADER_BYTES[ip],
        "initial_window_bytes": _initial_window(mtu_bytes),
        "initial_rtt_ns": INITIAL_RTT_NS,
        "ack_eliciting_threshold": None,
        "max_ack_delay_ns": None,
        "ecn": False,
        "receive_window_bytes": receive,
        "stream_receive_window_bytes": receive,
        "send_window_bytes": send,
        "idle_timeout_ns": None,
        "packet_threshold": PACKET_THRESHOLD,
    }


def quic_spec(quic: Quic, windows: tuple[int, int], burst: int) -> QuicSpec:
    """Return the options of a flow.

    Args:
        quic: options of the scenario, merged.
        windows: default receive and send window, bytes.
        burst: default number of packets sent unpaced with nothing in flight.
    """
    mtu = mtu_bytes(quic)
    default = defaults(mtu, quic.ip or 4, windows)
    receive, send = windows
    spec: QuicSpec = {
        **default,
        "crypto": quic.crypto or default["crypto"],
        "handshake": quic.handshake or default["handshake"],
        "initial_window_bytes": initial_window_bytes(quic),
        "initial_rtt_ns": quic.initial_rtt.ns if quic.initial_rtt is not None else INITIAL_RTT_NS,
        "ack_eliciting_threshold": quic.packets_per_ack - 1 if quic.packets_per_ack is not None else None,
        "max_ack_delay_ns": quic.max_ack_delay.ns if quic.max_ack_delay is not None else None,
        "ecn": bool(quic.ecn),
        "receive_window_bytes": quic.receive_window.bytes if quic.receive_window is not None else receive,
        "stream_receive_window_bytes": (
            quic.stream_receive_window.bytes if quic.stream_receive_window is not None else receive
        ),
        "send_window_bytes": quic.send_window.bytes if quic.send_window is not None else send,
        "idle_timeout_ns": quic.idle_timeout.ns if isinstance(quic.idle_timeout, Duration) else None,
        "packet_threshold": NO_PACKET_THRESHOLD
        if quic.packet_threshold == "none"
        else quic.packet_threshold or PACKET_THRESHOLD,
    }
    if quic.time_threshold is not None:
        spec["time_threshold_permille"] = max(1001, round(quic.time_threshold * 1000))
    # The key is absent without a burst, as for every bulk transfer, so that such runs keep their ids.
    if packets := quic.unpaced_burst if quic.unpaced_burst is not None else burst:
        spec["unpaced_burst_packets"] = packets
    return spec
