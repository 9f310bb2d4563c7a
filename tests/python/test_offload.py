"""Fast segments, whose devices hand over super-frames: the path sees packets all the same."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import realtime
from bentpipe.lab.access import resolve_path
from bentpipe.lab.shell import run_lab
from nightly import keep

HEAD = 'duration = "1 s"\n[[flow]]\nname = "any"\ncongestion = "cubic"\n[[path.segment]]\nname = "link"\ndelay = "2 ms"\n'
BYTES = 8_000_000
CONTENT_HASH = hashlib.sha256(hashlib.shake_256(b"content").digest(BYTES)).hexdigest()
TRAINS, TRAIN, SIZE = 500, 40, 1200

TAKE = """
import hashlib, json, socket, sys
# ETH_P_ALL: lengths of the IP packets that come in; all that the transfer takes have room.
look = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
look.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
host, port = sys.argv[1], 9000
listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
peer, _ = listener.accept()
digest, count = hashlib.sha256(), 0
while data := peer.recv(1 << 20):
    digest.update(data)
    count += len(data)
look.setblocking(False)
largest, buffer = 0, bytearray(70000)
while True:
    try:
        size, address = look.recvfrom_into(buffer)
    except BlockingIOError:
        break
    if address[2] != 4 and address[0] != "lo":  # PACKET_OUTGOING
        largest = max(largest, size)
peer.sendall(json.dumps([digest.hexdigest(), count, largest]).encode())
peer.close()
"""
"""Takes one TCP transfer and answers with its hash, its length and the largest IP packet that came in."""

GIVE = """
import hashlib, socket, sys
content = hashlib.shake_256(b"content").digest(int(sys.argv[2]))
peer = socket.create_connection((sys.argv[1], 9000))
peer.sendall(content)
peer.shutdown(socket.SHUT_WR)
print(peer.makefile().read())
"""

TRAINS_UDP = """
import socket, sys, time
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
trains, train, size = map(int, sys.argv[2:])
s.setsockopt(17, 103, size)  # SOL_UDP, UDP_SEGMENT
for number in range(trains):
    s.sendto(number.to_bytes(4, "big") * (size // 4 * train), (sys.argv[1], 9001))
    time.sleep(0.002)
time.sleep(0.3)
s.setsockopt(17, 103, 0)
s.settimeout(10)
s.sendto(b"?", (sys.argv[1], 9001))
print(s.recv(65000).decode())
"""
"""Send trains of datagrams in one call each, then query the received count."""

COUNT_UDP = """
import json, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
s.bind((sys.argv[1], 9001))
found, sizes = {}, set()
while True:
    data, peer = s.recvfrom(65000)
    if data == b"?":
        s.sendto(json.dumps([sorted(found.values()), sorted(sizes)]).encode(), peer)
        continue
    number = int.from_bytes(data[:4], "big")
    assert data == data[:4] * (len(data) // 4)
    found[number] = found.get(number, 0) + 1
    sizes.add(len(data))
"""


@pytest.fixture(scope="module", autouse=True)
def program() -> Iterator[None]:
    realtime.need_namespaces()
    realtime.need_root("looking at packets as they come in")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENTPIPE_RT", str(realtime.program()))
        yield


def _run(folder: Path, way: str, far: list[str], near: list[str], port: int) -> tuple[dict[str, Any], Any]:
    """Return the segment of the result, and the output of the client's command."""
    file = folder / "path.toml"
    file.write_text(f"{HEAD}{way}\n")
    lab, proxies = resolve_path(str(file))
    service: dict[str, Any] = {"name": "far", "command": [sys.executable, "-c", *far], "listen_port": port}
    found = run_lab(
        {
            "lab": lab,
            "proxies": proxies,
            "check": False,
            "server_namespace": True,
            "services": [service | {"output": str(folder / "far")}],
            "commands": [
                {"name": "near", "command": [sys.executable, "-c", *near], "output": str(folder / "near")}
            ],
        }
    )
    message = (folder / "near").read_text()
    assert found["statuses"]["near"] == 0, message + (folder / "far").read_text()
    segment = found["links"][0]
    if segment["up"]["overrun"]:
        realtime.give_up("packets overran")
    assert segment["up"]["device_rejected"] == segment["down"]["device_rejected"] == 0
    return segment, json.loads(message)


@pytest.mark.lab
@pytest.mark.parametrize("far", keep(["{server6}"], ["{server}", "{server6}"]))
@pytest.mark.parametrize(
    ("way", "offload"),
    [
        ("", True),
        ('up = { rate = "10 Gbit/s" }\ndown = { rate = "10 Gbit/s" }', True),
        ('up = { rate = "100 Mbit/s" }', False),
    ],
)
def test_a_transfer_is_packets(tmp_path: Path, far: str, way: str, offload: bool) -> None:
    segment, (digest, count, largest) = _run(tmp_path, way, [TAKE, far], [GIVE, far, str(BYTES)], 9000)
    assert segment["offload"] is offload
    assert (digest, count) == (CONTENT_HASH, BYTES)
    assert 1400 < largest <= 1500
    up = segment["up"]
    assert up["bytes_out"] > BYTES
    assert up["packets_out"] >= BYTES / 1460
    assert up["bytes_out"] / up["packets_out"] <= 1500


@pytest.mark.lab
@pytest.mark.parametrize("far", ["{server}", "{server6}"])
def test_loss_takes_single_packets(tmp_path: Path, far: str) -> None:
    """UDP in trains that the kernel hands over whole: 1 % of the datagrams are lost, and no train is."""
    words = [TRAINS_UDP, far, str(TRAINS), str(TRAIN), str(SIZE)]
    segment, (trains, sizes) = _run(tmp_path, 'up = { loss = "1 %" }', [COUNT_UDP, far], words, 9001)
    assert segment["offload"] is True
    up = segment["up"]
    sent = TRAINS * TRAIN
    assert up["packets_in"] >= sent
    (lost,) = up["dropped"].values()
    # Binomial: 200 +- 14; five standard deviations.
    assert 130 <= lost <= 270
    assert sizes == [SIZE]
    assert len(trains) == TRAINS
    # The question and what the kernel itself sends (neighbours, groups) may be among the lost.
    assert sent - lost <= sum(trains) <= sent - lost + 5
    assert min(trains) >= TRAIN - 10
