"""Choice of a port to listen on that no other program gets by chance."""

from __future__ import annotations

import random
import socket
from pathlib import Path

__all__ = ["free_port"]

MIN_PORT = 10_000
"""Lowest port that is chosen."""
MAX_ATTEMPTS = 100
"""Number of ports that are tried."""


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port of ``address`` that is free for TCP and UDP and below the kernel's ephemeral ports.

    Raises:
        OSError: no port is free.
    """
    random_source = random.SystemRandom()
    for _ in range(MAX_ATTEMPTS):
        port = random_source.randrange(MIN_PORT, _first_ephemeral_port())
        try:
            for socket_type in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, socket_type) as probe:
                    probe.bind((address, port))
        except OSError:
            continue
        return port
    raise OSError(f"no free port of {address} between {MIN_PORT} and {_first_ephemeral_port()}")


def _first_ephemeral_port() -> int:
    """Return the first ephemeral port (ip(7), ``ip_local_port_range``)."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 0
    return first if first > MIN_PORT + MAX_ATTEMPTS else 32_768
