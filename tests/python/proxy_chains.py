"""A path with two proxies, and ``bentpipe-rt pep`` as one of them between a client and a server."""

from __future__ import annotations

import contextlib
import copy
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import realtime
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from namespaces import Namespace

__all__ = [
    "CLIENT",
    "PATH",
    "SERVER",
    "connect",
    "listen",
    "needed",
    "proxies",
    "proxy",
    "received",
    "send_and_end",
]

PATH: dict[str, Any] = {
    "duration": "1 s",
    "path": {
        "segment": [
            {"name": "lan", "delay": "0 ms"},
            {"name": "satellite", "delay": "100 ms", "down": {"rate": "50 Mbit/s"}, "up": {"rate": "50 Mbit/s"}},
            {"name": "internet", "delay": "0 ms"},
        ],
        "proxy": [
            {"name": "terminal", "between": ["lan", "satellite"]},
            {"name": "gateway", "between": ["satellite", "internet"]},
        ],
    },
    "flow": [{"name": "web", "transport": "tcp", "congestion": "cubic", "direction": "down"}],
}  # fmt: skip


def needed() -> Path:
    """Return ``bentpipe-rt``; skip the test on a machine without proxies in namespaces."""
    realtime.need_root("a proxy in namespaces of its own")
    realtime.need_namespaces("nsenter", "nft")
    return realtime.program()


def proxies(**changes: object) -> list[dict[str, Any]]:
    """Return the specifications of both proxies; changes are keys with ``__`` for dots."""
    given = [(key.replace("__", "."), value) for key, value in changes.items()]
    found: list[dict[str, Any]] = (
        build_plan(load_scenario(copy.deepcopy(PATH), given), "test").runs[0].spec["proxies"]
    )
    return found


@contextlib.contextmanager
def proxy(
    program: Path, where: Namespace, plan: dict[str, Any], folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """A proxy that works; its counters go to ``counters`` of the process."""
    file = folder / f"{time.monotonic_ns()}.json"
    file.write_text(json.dumps(plan))
    with subprocess.Popen(
        ["nsenter", "-t", str(where.pid), "-n", str(program), "pep", str(file)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline()
            assert line, process.stderr.read()
            assert json.loads(line)["ready"]
            yield process
        finally:
            process.terminate()
            try:
                process.wait(5)
            finally:
                process.kill()


SERVER = {4: "10.9.2.2", 6: "fd09:0:0:2::2"}
CLIENT = {4: "10.9.1.1", 6: "fd09:0:0:1::1"}


def listen(server: Namespace, version: int = 4, port: int = 4433) -> socket.socket:
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    return server.inside(lambda: socket.create_server((SERVER[version], port), family=family, backlog=4096))


def connect(client: Namespace, version: int = 4, port: int = 4433, timeout: float = 10) -> socket.socket:
    return client.inside(lambda: socket.create_connection((SERVER[version], port), timeout))


def send_and_end(one: socket.socket, sent: bytes) -> None:
    one.sendall(sent)
    one.shutdown(socket.SHUT_WR)


def received(one: socket.socket) -> bytes:
    """Everything until the end."""
    one.settimeout(20)
    parts = []
    while part := one.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)
