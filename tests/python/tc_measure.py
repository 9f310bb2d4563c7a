"""Measures the path of a script with `tc`: `python tc_measure.py SCRIPT EXPECTED`, as root, prints JSON.

It runs in the namespaces that the script creates, which may be those of a user-mode kernel.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
CLIENT, SERVER = ("10.77.1.2", 7000), ("10.77.2.2", 7000)
STREAM_S, SILENCE_S = 2.0, 1.5
"""Duration of a stream that is faster than the link, and the silence after which no packet comes."""
PAYLOAD = 1472
"""UDP payload of a full packet of 1500 bytes."""


def inside(node: str, work: Callable[[], T]) -> T:
    """Run ``work`` on a thread in a namespace of the script."""

    def entered() -> T:
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(f"/run/netns/bentpipe-{node}").open("rb") as place:
            assert libc.setns(place.fileno(), 0x40000000) == 0, os.strerror(ctypes.get_errno())
        return work()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(entered).result()


def udp(node: str, address: tuple[str, int]) -> socket.socket:
    def opened() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF, 33, 32):  # 33, 32: beyond the limits of the system
            made.setsockopt(socket.SOL_SOCKET, option, 64 * 2**20)
        made.bind(address)
        return made

    return inside(node, opened)


def receive(one: socket.socket, seconds: float) -> list[tuple[float, int]]:
    """Instants and numbers of packets, until none comes for ``seconds``."""
    one.settimeout(seconds)
    found = []
    while True:
        try:
            data = one.recv(2048)
        except TimeoutError:
            return found
        found.append((time.monotonic(), int.from_bytes(data[:4])))


def round_trips(client: socket.socket, server: socket.socket, count: int, seconds: float) -> list[float]:
    def echo() -> None:
        server.settimeout(seconds)
        try:
            while True:
                data, source = server.recvfrom(2048)
                server.sendto(data, source)
        except TimeoutError:
            return

    thread = threading.Thread(target=echo)
    thread.start()
    found = []
    client.settimeout(seconds)
    for number in range(count):
        start = time.monotonic()
        client.sendto(number.to_bytes(4), SERVER)
        try:
            while int.from_bytes(client.recv(2048)[:4]) != number:
                pass
            found.append(time.monotonic() - start)
        except TimeoutError:
            continue
    thread.join()
    return found


def sent_and_received(
    sender: socket.socket, target: tuple[str, int], receiver: socket.socket, due: Iterable[int]
) -> dict[str, Any]:
    """Send packets until their number is each of those that are due."""
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(receive, receiver, SILENCE_S)
        start, sent = time.monotonic(), 0
        late: list[float] = []
        for number in due:
            while sent < number:
                sender.sendto(sent.to_bytes(4) + bytes(PAYLOAD - 4), target)
                sent += 1
            asleep = time.monotonic()
            time.sleep(0.001)
            late.append(time.monotonic() - asleep - 0.001)
        took = time.monotonic() - start
        came = pending.result()
    span = came[-1][0] - came[0][0]
    return {
        "sent": sent,
        "sending_s": took,
        "came": len(came),
        "bit_s": (len(came) - 1) * 1500 * 8 / span,
        "late_s": sum(late) / len(late),
    }


def stream(bit_s: float) -> Iterator[int]:
    """Numbers of packets over time at one and a half times a rate."""
    start = time.monotonic()
    while (passed := time.monotonic() - start) < STREAM_S:
        yield int(1.5 * bit_s / 8 / 1500 * passed)


def main() -> None:
    script, expected = sys.argv[1], json.loads(sys.argv[2])
    subprocess.run(["sh", script, "lab"], check=True, stdout=sys.stderr)
    try:
        client, server = udp("client", CLIENT), udp("server", SERVER)
        trips = round_trips(client, server, 5, 3.0)  # the first includes ARP
        found: dict[str, Any] = {"rtt_s": sorted(trips[1:])}
        for side, sender, target, receiver in (
            ("up", client, SERVER, server),
            ("down", server, CLIENT, client),
        ):
            found[side] = {
                "burst": sent_and_received(sender, target, receiver, [expected[side]["packets"]]),
                "stream": sent_and_received(sender, target, receiver, stream(expected[side]["bit_s"])),
            }
        print(json.dumps(found))
    finally:
        subprocess.run(["sh", script, "lab-end"], check=True)


if __name__ == "__main__":
    main()
