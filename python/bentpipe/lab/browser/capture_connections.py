"""Connections of a capture at the client: received bytes over time, handshake and retransmissions."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from bentpipe.lab.browser.pcapng import Packet

__all__ = ["Connection", "Segment", "connections"]

_TCP, _UDP = 6, 17
_SYN, _ACK, _FIN, _RST = 0x02, 0x10, 0x01, 0x04
_QUIC_TYPES = {0: "Initial", 1: "0-RTT", 2: "Handshake", 3: "Retry"}  # RFC 9000, table 5
_TLS_HANDSHAKES = {1: "ClientHello", 2: "ServerHello"}  # RFC 8446, section 4
_CHANGE, _HANDSHAKE = 20, 22  # content types, RFC 8446 section 5.1


@dataclass(frozen=True, slots=True)
class Segment:
    """Packet of a connection."""

    time_ns: int
    outgoing: bool
    """True if the client sent it."""
    bytes: int
    """Length of the IP packet."""
    payload: int
    """Bytes after the TCP or UDP header."""
    label: str
    """Label as in the table ``packets``."""
    sequence: int | None
    """Bytes of the TCP stream up to the end of this segment."""
    again: bool
    """True if the segment retransmits TCP data."""
    acknowledged: int | None = None
    """Bytes of the TCP stream of the other side that it acknowledges."""


@dataclass
class Connection:
    """Connection between the client and the port of the server."""

    transport: str
    port: int
    """Port of the client."""
    segments: list[Segment] = field(default_factory=list)
    starts: dict[bool, int] = field(default_factory=dict)
    """First sequence numbers, by direction (outgoing or not)."""
    reached: dict[bool, int] = field(default_factory=dict)

    @property
    def began_ns(self) -> int:
        """Time of the first packet, in ns."""
        return self.segments[0].time_ns

    @property
    def received(self) -> int:
        """Bytes of IP packets that the client received."""
        return sum(one.bytes for one in self.segments if not one.outgoing)

    def first_ns(self, *labels: str, outgoing: bool) -> int | None:
        """Return the time in ns of the first packet with one of ``labels`` in this direction."""
        return next((s.time_ns for s in self.segments if s.outgoing == outgoing and s.label in labels), None)


def connections(packets: Iterable[Packet], port: int, addresses: Collection[str]) -> list[Connection]:
    """Return the connections with ``port`` at ``addresses``, in the order of their first packets."""
    known: dict[tuple[str, str, int], Connection] = {}
    found: list[Connection] = []
    servers = {ipaddress.ip_address(one) for one in addresses}
    for packet in packets:
        parsed = _ip(packet.data)
        if parsed is None:
            continue
        source, destination, protocol, at, size = parsed
        if protocol not in (_TCP, _UDP) or len(packet.data) < at + 8:
            continue
        from_port, to_port = struct.unpack_from("!HH", packet.data, at)
        # Over loopback both endpoints have the same address; the port distinguishes them.
        outgoing = to_port == port and destination in servers
        if not outgoing and not (from_port == port and source in servers):
            continue
        client = from_port if outgoing else to_port
        transport = "tcp" if protocol == _TCP else "quic"
        server = destination if outgoing else source
        key = (transport, str(server), client)
        flags = packet.data[at + 13] if protocol == _TCP and len(packet.data) > at + 13 else 0
        opening = protocol == _TCP and flags & _SYN and not flags & _ACK
        if key not in known or (opening and False in known[key].starts):
            known[key] = Connection(transport, client)
            found.append(known[key])
        one = known[key]
        if protocol == _TCP:
            _tcp(one, packet, at, size, outgoing)
        else:
            payload = size - at - 8
            one.segments.append(
                Segment(packet.time_ns, outgoing, size, payload, _quic(packet.data, at + 8), None, False)
            )
    return found


def _ip(data: bytes) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address,
                              ipaddress.IPv4Address | ipaddress.IPv6Address, int, int, int] | None:  # fmt: skip
    """Parse an IP header.

    Returns:
        Source, destination, protocol, offset of the transport header and length of the packet. None for other packets
        and for fragments without a transport header.
    """
    if len(data) >= 20 and data[0] >> 4 == 4:
        if int.from_bytes(data[6:8], "big") & 0x1FFF:
            return None
        size, at = int.from_bytes(data[2:4], "big"), (data[0] & 15) * 4
        return ipaddress.IPv4Address(data[12:16]), ipaddress.IPv4Address(data[16:20]), data[9], at, size
    if len(data) >= 40 and data[0] >> 4 == 6:
        size = 40 + int.from_bytes(data[4:6], "big")
        return ipaddress.IPv6Address(data[8:24]), ipaddress.IPv6Address(data[24:40]), data[6], 40, size
    return None


def _quic(data: bytes, at: int) -> str:
    """Return the label of the first packet of the datagram (RFC 9000, section 17)."""
    if len(data) <= at:
        return ""
    first = data[at]
    return _QUIC_TYPES[first >> 4 & 3] if first & 0x80 else "1-RTT"


def _tcp(one: Connection, packet: Packet, at: int, size: int, outgoing: bool) -> None:
    data = packet.data
    if len(data) < at + 16:
        return
    number, acked = struct.unpack_from("!II", data, at + 4)
    head, flags = (data[at + 12] >> 4) * 4, data[at + 13]
    payload = max(0, size - at - head)
    if flags & _SYN:
        one.starts[outgoing] = (number + 1) & 0xFFFFFFFF
    start = one.starts.setdefault(outgoing, number)
    end = None
    again = False
    if not flags & _RST:
        before = one.reached.get(outgoing, 0)
        end = 0 if flags & _SYN else _extend_sequence(number, start, before) + payload
        again = payload > 0 and end <= before
        one.reached[outgoing] = max(before, end)
    acknowledged = None
    other = one.starts.get(not outgoing)
    if flags & _ACK and other is not None:
        acknowledged = _extend_sequence(acked, other, one.reached.get(not outgoing, 0))
    label = _tcp_label(flags, payload, data[at + head :])
    one.segments.append(Segment(packet.time_ns, outgoing, size, payload, label, end, again, acknowledged))


def _extend_sequence(number: int, start: int, near: int) -> int:
    """Extend a 32-bit sequence number to the bytes after ``start`` nearest to ``near``."""
    low = (number - start) & 0xFFFFFFFF
    wraps = (near - low + (1 << 31)) >> 32
    return max(0, low + (wraps << 32))


def _tcp_label(flags: int, payload: int, data: bytes) -> str:
    if flags & _RST:
        return "RST"
    if flags & _SYN:
        return "SYN-ACK" if flags & _ACK else "SYN"
    if payload:
        if len(data) > 5 and data[0] == _HANDSHAKE and data[1] == 3:
            return _TLS_HANDSHAKES.get(data[5], "data")
        return "ChangeCipherSpec" if len(data) > 1 and data[0] == _CHANGE and data[1] == 3 else "data"
    return "FIN" if flags & _FIN else "ACK"
