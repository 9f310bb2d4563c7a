"""A port to listen at that nobody else gets by chance."""

from __future__ import annotations

import random
import socket
from pathlib import Path

__all__ = ["free_port"]

LEAST = 10_000
TRIES = 100


def free_port(address: str = "127.0.0.1") -> int:
    """A port of ``address`` that is free for TCP and for UDP, below those that the kernel gives to who asks for none.

    Raises:
        OSError: none was found.
    """
    drawn = random.SystemRandom()
    for _ in range(TRIES):
        port = drawn.randrange(LEAST, _ephemeral())
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind((address, port))
        except OSError:
            continue
        return port
    raise OSError(f"no free port of {address} between {LEAST} and {_ephemeral()}")


def _ephemeral() -> int:
    """The first port that the kernel gives out by itself (ip(7), ``ip_local_port_range``)."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 0
    return first if first > LEAST + TRIES else 32_768
