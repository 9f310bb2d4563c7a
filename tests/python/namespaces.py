"""Network namespaces for a test, joined by pairs of devices, which end with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

__all__ = ["Namespace", "default", "forward", "join", "namespaces"]

T = TypeVar("T")


@dataclass
class Namespace:
    """A network namespace, held by a process that does nothing."""

    pid: int

    def run(self, *words: str) -> str:
        done = subprocess.run(
            ["nsenter", "-t", str(self.pid), "-n", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def inside(self, work: Callable[[], T]) -> T:
        """Run ``work`` on a thread in this namespace; sockets created there stay there."""

        def entered() -> T:
            libc = ctypes.CDLL(None, use_errno=True)
            with Path(f"/proc/{self.pid}/ns/net").open("rb") as place:
                assert libc.setns(place.fileno(), 0x40000000) == 0, os.strerror(ctypes.get_errno())
            return work()

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(entered).result()


@contextlib.contextmanager
def namespaces(count: int, seconds: int = 300) -> Iterator[list[Namespace]]:
    held = [subprocess.Popen(["unshare", "--net", "--", "sleep", str(seconds)]) for _ in range(count)]
    try:
        own = Path("/proc/self/ns/net").readlink()
        for one in held:
            while Path(f"/proc/{one.pid}/ns/net").readlink() == own:
                time.sleep(0.002)
        found = [Namespace(one.pid) for one in held]
        for space in found:
            space.run("ip", "link", "set", "lo", "up")
        yield found
    finally:
        for one in held:
            one.kill()
            one.wait()


def join(left: Namespace, right: Namespace, name: str, network: int) -> None:
    """A pair of devices ``name`` between two namespaces: .1 and .2 of ``10.9.NETWORK.0/30``, and of ``fd09:``."""
    left.run(
        "ip", "link", "add", f"{name}l", "type", "veth", "peer", "name", f"{name}r", "netns", str(right.pid)
    )
    for one, device, last in ((left, f"{name}l", 1), (right, f"{name}r", 2)):
        one.run("ip", "addr", "add", f"10.9.{network}.{last}/30", "dev", device)
        one.run("ip", "-6", "addr", "add", f"fd09:0:0:{network}::{last}/64", "dev", device, "nodad")
        one.run("ip", "link", "set", device, "up")


def default(one: Namespace, network: int, last: int) -> None:
    one.run("ip", "route", "add", "default", "via", f"10.9.{network}.{last}")
    one.run("ip", "-6", "route", "add", "default", "via", f"fd09:0:0:{network}::{last}")


def forward(one: Namespace) -> None:
    one.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
