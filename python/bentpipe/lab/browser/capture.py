"""Capture of one interface: truncated packets with timestamps of the kernel."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bentpipe.lab.browser.pcapng import Writer

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["SNAP", "Capture", "CaptureError", "interface_to"]

SNAP = 128
"""Bytes saved of a packet: headers of IP and TCP with all options and of the first TLS record; no content."""

_ALL = 0x0003  # ETH_P_ALL, linux/if_ether.h
_OUTGOING = 4  # PACKET_OUTGOING, linux/if_packet.h
_PACKET, _STATISTICS = 263, 6  # SOL_PACKET, PACKET_STATISTICS
_TIMESTAMP_NS = 35  # SO_TIMESTAMPNS_OLD, asm-generic/socket.h
_BUFFER_FORCE = 33  # SO_RCVBUFFORCE
_ADDRESS_OF = 0x8915  # SIOCGIFADDR, linux/sockios.h
BUFFER = 16 << 20
"""Receive buffer of the socket in bytes: a second at 100 Mbit/s."""


class CaptureError(RuntimeError):
    """Failure of a capture, with a message for the user."""


def interface_to(address: str) -> tuple[str, str]:
    """Return the interface that leads to ``address``, and the address of this machine on it.

    Raises:
        CaptureError: no route exists.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError as error:
            raise CaptureError(f"no route to {address}: {error.strerror}") from None
        local: str = probe.getsockname()[0]
    for name in (name for _, name in socket.if_nameindex()):
        if local in _addresses(name):
            return name, local
    raise CaptureError(f"no interface has the address {local}")


def _addresses(name: str) -> list[str]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        raw = fcntl.ioctl(probe.fileno(), _ADDRESS_OF, struct.pack("256s", name.encode()[:15]))
        found.append(socket.inet_ntoa(raw[20:24]))
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[5] == name:
                found.append(str(ipaddress.IPv6Address(bytes.fromhex(fields[0]))))
    return found


class Capture(threading.Thread):
    """Thread that writes the packets of ``interface`` to ``file``, as a context manager."""

    def __init__(self, interface: str, file: Path) -> None:
        """Open the socket. Raises CaptureError without root or CAP_NET_RAW."""
        super().__init__(daemon=True, name="capture")
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        except PermissionError:
            raise CaptureError("a capture requires root or CAP_NET_RAW") from None
        self.socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMP_NS, 1)
        with contextlib.suppress(OSError):  # an ordinary user gets net.core.rmem_max
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            self.socket.setsockopt(socket.SOL_SOCKET, _BUFFER_FORCE, BUFFER)
        self.socket.bind((interface, _ALL))
        self.socket.settimeout(0.1)
        self.file = file
        self.loopback = interface == "lo"
        self.packets = self.bytes = self.missed = 0
        self.error = ""
        self.stopping = threading.Event()

    def run(self) -> None:
        """Write packets until the capture is stopped."""
        buffer = bytearray(SNAP)
        try:
            with Writer(self.file, SNAP) as writer:
                while True:
                    try:
                        _, extra, _, sender = self.socket.recvmsg_into([buffer], 64, socket.MSG_TRUNC)
                    except TimeoutError:
                        if self.stopping.is_set():
                            break
                        continue
                    outgoing = sender[2] == _OUTGOING
                    if outgoing and self.loopback:
                        continue  # over loopback every packet comes twice
                    self._write(writer, buffer, extra, outgoing)
                dropped = self.socket.getsockopt(_PACKET, _STATISTICS, 8)
                self.missed = struct.unpack("=II", dropped)[1]
                writer.statistics(self.packets, self.missed)
        except OSError as error:
            self.error = f"{self.file.name}: {error.strerror}"

    def _write(
        self, writer: Writer, buffer: bytearray, extra: list[tuple[int, int, bytes]], outgoing: bool
    ) -> None:
        time_ns = 0
        for _, kind, data in extra:
            if kind == _TIMESTAMP_NS:
                seconds, nanoseconds = struct.unpack("=qq", data[:16])
                time_ns = seconds * 10**9 + nanoseconds
        length = _length(buffer)
        writer.packet(time_ns, buffer[: min(length, SNAP)], length, outgoing)
        self.packets += 1
        self.bytes += length

    def __enter__(self) -> Self:
        """Start the capture."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the capture after the packets that have arrived."""
        self.stopping.set()
        self.join(5)
        self.socket.close()


def _length(buffer: bytearray) -> int:
    """Return the length of the IP packet in bytes, from its header."""
    if buffer[0] >> 4 == 4:
        return int.from_bytes(buffer[2:4], "big")
    if buffer[0] >> 4 == 6:
        return 40 + int.from_bytes(buffer[4:6], "big")
    return SNAP  # ARP and others: padded
