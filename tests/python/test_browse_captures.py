"""Tests of captures of ``bentpipe browse``: connections, and detection of split TCP."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bentpipe.lab.browser import split_tcp
from bentpipe.lab.browser.capture_connections import connections
from bentpipe.lab.browser.pcapng import Packet, Writer, read
from bentpipe.lab.browser.tables import _Tables

# --- captures --------------------------------------------------------------------------------------------------------


def _ipv4(source: int, target: int, protocol: int, body: bytes, length: int | None = None) -> bytes:
    total = 20 + (len(body) if length is None else length)
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, total, 0, 0, 64, protocol, 0, bytes([10, 0, 0, source]),
                       bytes([10, 0, 0, target])) + body  # fmt: skip


def _tcp(ports: tuple[int, int], number: int, acked: int, flags_: int, payload: bytes = b"") -> bytes:
    return (
        struct.pack("!HHIIBBHHH", *ports, number & 0xFFFFFFFF, acked & 0xFFFFFFFF, 0x50, flags_, 9, 0, 0)
        + payload
    )


def _handshake() -> list[Packet]:
    """SYN, SYN-ACK, ACK, ClientHello, ServerHello, data over the end of the numbers, the same data again."""
    isn, other = 1000, 0xFFFFFF00
    up, down = (50000, 4433), (4433, 50000)
    client_hello, server_hello = (
        b"\x16\x03\x01\x00\x80\x01" + bytes(20),
        b"\x16\x03\x03\x00\x80\x02" + bytes(94),
    )
    sent = [
        (0, True, _ipv4(2, 1, 6, _tcp(up, isn, 0, 0x02))),
        (100, False, _ipv4(1, 2, 6, _tcp(down, other, isn + 1, 0x12))),
        (100, True, _ipv4(2, 1, 6, _tcp(up, isn + 1, other + 1, 0x10))),
        (101, True, _ipv4(2, 1, 6, _tcp(up, isn + 1, other + 1, 0x18, client_hello))),
        (203, False, _ipv4(1, 2, 6, _tcp(down, other + 1, isn + 27, 0x18, server_hello))),
        (204, False, _ipv4(1, 2, 6, _tcp(down, other + 101, isn + 27, 0x18, bytes(1000)))),
        (205, False, _ipv4(1, 2, 6, _tcp(down, other + 101, isn + 27, 0x18, bytes(1000)))),
        (300, True, _ipv4(2, 1, 17, struct.pack("!HHHH", 50001, 4433, 1208, 0) + b"\xc3" + bytes(1199))),
        (350, True, _ipv4(2, 9, 17, struct.pack("!HHHH", 50001, 4433, 1208, 0) + b"\xc3" + bytes(1199))),
    ]
    return [Packet(ms * 10**6, data[:128], len(data), outgoing) for ms, outgoing, data in sent]


def test_captures_are_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    with Writer(file, 128) as writer:
        for packet in _handshake():
            writer.packet(packet.time_ns, packet.data, packet.length, packet.outgoing)
        writer.statistics(9, 0)
    data = file.read_bytes()
    assert list(read(data)) == _handshake()
    assert list(read(data[:-100]))  # cut short: what is whole
    assert list(read(b"\0" * 64)) == []
    if shutil.which("tshark"):
        words = [
            "tshark",
            "-r",
            str(file),
            "-T",
            "fields",
            "-e",
            "frame.time_epoch",
            "-e",
            "frame.len",
            "-e",
            "tcp.flags",
        ]
        message = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        assert len(message) == 9
        assert message[1].split()[2] == "0x0012"


def test_packets_are_connections_with_sequence_numbers() -> None:
    tcp, quic = connections(_handshake(), 4433, ["10.0.0.1"])
    assert [one.label for one in tcp.segments] == [
        "SYN", "SYN-ACK", "ACK", "ClientHello", "ServerHello", "data", "data",
    ]  # fmt: skip
    assert [one.sequence for one in tcp.segments if not one.outgoing] == [0, 100, 1100, 1100]
    assert [one.again for one in tcp.segments][-2:] == [False, True]
    assert tcp.segments[3].acknowledged == 0
    assert (quic.transport, [one.label for one in quic.segments]) == ("quic", ["Initial"])
    assert connections(_handshake(), 4434, ["10.0.0.1"]) == []


def test_bytes_that_are_no_packets_do_no_harm() -> None:
    chance = random.Random(3)  # noqa: S311
    for _ in range(2000):
        data = bytearray(chance.randbytes(chance.randrange(0, 129)))
        if len(data) > 20:
            data[0] = chance.choice((0x45, 0x4F, 0x60))
            data[9 if data[0] != 0x60 else 6] = chance.choice((6, 17))
            data[12:20] = bytes([10, 0, 0, 1, 10, 0, 0, 1])
        for one in connections([Packet(1, bytes(data), 60, True)], 4433, ["10.0.0.1"]):
            assert one.segments[0].payload >= 0 or one.transport == "quic"


# --- is TCP split? --------------------------------------------------------------------------------------------------


def _connection(
    syn: float, tls: float, received: list[tuple[float, int]], transport: str = "tcp"
) -> dict[str, Any]:
    return {"transport": transport, "handshake_ms": syn, "tls_ms": tls if transport == "tcp" else None,
            "again": False, "received": received}  # fmt: skip


def _doubling(rtt: float, window: int, most: int, trips: int) -> list[tuple[float, int]]:
    return [
        (trip * rtt + step * rtt / 20, min(window * 2**trip, most) // 10)
        for trip in range(trips)
        for step in range(10)
    ]


@pytest.mark.parametrize(
    ("syn", "tls", "received", "answer", "words"),
    [
        (2.0, 753.0, [], "split", "close to the client"),
        (720.0, 753.0, [], "split", "close to the server"),
        (751.0, 753.0, _doubling(750, 14600, 2_300_000, 12), "not split", "slow start"),
        (751.0, 753.0, _doubling(750, 2_300_000, 2_300_000, 5), "split", "relays"),
        (751.0, 753.0, [(0.0, 11_000)], "uncertain", "too little"),
        (730.0, 753.0, _doubling(750, 14600, 2_300_000, 12), "uncertain", "within"),
    ],
)
def test_split_or_not(
    syn: float, tls: float, received: list[tuple[float, int]], answer: str, words: str
) -> None:
    found = split_tcp.detect_split_tcp(
        [{"connections": [_connection(syn, tls, received), _connection(753, 0, [], "quic")]}]
    )
    assert found.answer == answer
    assert words in found.text


def test_without_a_capture_nothing_is_claimed() -> None:
    assert split_tcp.detect_split_tcp([{"loads": []}]).answer == "uncertain"


def test_acks_are_counted_where_they_are_seen() -> None:
    """QUIC is encrypted: its volume is unknown, not zero."""
    tcp, quic = connections(_handshake(), 4433, ["10.0.0.1"])
    counted = [
        _Tables._counters(SimpleNamespace(found=found), (9, 900, 3, 120, 0), 0, 0)  # type: ignore[arg-type]
        for found in ([tcp], [tcp, quic], [quic])
    ]
    assert [row.get("ack_bytes") for row in counted] == [120, None, None]
    assert [row.get("sent_bytes") for row in counted] == [900, 900, 900]
