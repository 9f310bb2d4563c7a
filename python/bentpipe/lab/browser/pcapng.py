"""Writer and reader of pcapng files of raw IP packets (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Packet", "Writer", "read"]

_SECTION, _INTERFACE, _PACKET, _STATISTICS = 0x0A0D0D0A, 1, 6, 5  # block types, section 4
_RAW_IP = 101  # LINKTYPE_RAW
_MAGIC = 0x1A2B3C4D
_NANOSECONDS = struct.pack("<HHB3x", 9, 1, 9)  # option if_tsresol: 10^-9
_END = struct.pack("<HH", 0, 0)
_INWARD, _OUTWARD = 1, 2  # option epb_flags, bits 0 and 1


@dataclass(frozen=True, slots=True)
class Packet:
    """Packet of a file: time (ns since 1970), first bytes, length, and True if this machine sent it."""

    time_ns: int
    data: bytes
    length: int
    outgoing: bool


class Writer:
    """Writer of a file, as a context manager."""

    def __init__(self, file: Path, snap: int) -> None:
        """Open ``file`` for packets of at most ``snap`` bytes. Raises OSError."""
        self.out = file.open("wb", buffering=1 << 16)
        self._block(_SECTION, struct.pack("<IHHq", _MAGIC, 1, 0, -1))
        self._block(_INTERFACE, struct.pack("<HHI", _RAW_IP, 0, snap) + _NANOSECONDS + _END)

    def _block(self, kind: int, body: bytes) -> None:
        total = 12 + len(body)
        self.out.write(struct.pack("<II", kind, total) + body + struct.pack("<I", total))

    def packet(self, time_ns: int, data: bytes | bytearray, length: int, outgoing: bool) -> None:
        """Append a packet."""
        head = struct.pack("<IIIII", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), length)
        flags = struct.pack("<HHI", 2, 4, _OUTWARD if outgoing else _INWARD)
        self._block(_PACKET, head + bytes(data) + bytes(-len(data) % 4) + flags + _END)

    def statistics(self, received: int, dropped: int) -> None:
        """Append the numbers of received packets and of packets that the kernel dropped."""
        options = struct.pack("<HHQ", 4, 8, received) + struct.pack("<HHQ", 5, 8, dropped) + _END
        self._block(_STATISTICS, struct.pack("<III", 0, 0, 0) + options)

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.out.close()


def read(data: bytes) -> Iterator[Packet]:
    """Yield the packets of a file of :class:`Writer`. A truncated file ends at its last complete packet."""
    at = 0
    while at + 12 <= len(data):
        kind, total = struct.unpack_from("<II", data, at)
        if total < 12 or at + total > len(data):
            return
        if kind == _PACKET:
            _, high, low, captured, length = struct.unpack_from("<IIIII", data, at + 8)
            start = at + 28
            options = start + captured + (-captured % 4)
            outgoing = False
            if options + 8 <= at + total - 4:
                code, size, flags = struct.unpack_from("<HHI", data, options)
                outgoing = code == 2 and size == 4 and flags & 3 == _OUTWARD
            yield Packet(high << 32 | low, data[start : start + captured], length, outgoing)
        at += total
