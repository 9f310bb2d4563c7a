"""Masses of short connections to the live servers, and what the servers keep of them."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import realtime
from bentpipe.lab.free_port import free_port

ROOT = Path(__file__).parents[2]

PERF, SERVE = ("quic", "tcp", "tls"), ("http1", "http2", "http3")
KINDS = (*PERF, *SERVE)

AT_ONCE = 8

MAX_BYTES_PER_CONNECTION, NOISE_BYTES = 40, 8 << 20
"""A server may keep so much for each connection (a table that has doubled). Resident memory varies by as much anyway:
it is counted in pages, and the allocator frees it late."""


class Masses:
    """A ``perf server`` and a ``serve``, both on loopback, for as long as the context lasts."""

    def __enter__(self) -> Self:
        realtime.program()
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bp-masses-"))
            (Path(folder) / "index.html").write_text("<!doctype html><title>small</title>", encoding="utf-8")
            cli = [sys.executable, "-m", "bentpipe.cli"]
            perf, page = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
            self.servers = {
                **dict.fromkeys(PERF, (perf, self._start(stack, [*cli, "perf", "server", "--interval", "0s",
                                                                 "--connections", "64", "--listen", perf]))),
                **dict.fromkeys(SERVE, (page, self._start(stack, [*cli, "serve", folder, "--listen", page]))),
            }  # fmt: skip
            for address in (perf, page):
                _wait(address)
            self.program = _client()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: contextlib.ExitStack, words: list[str]) -> subprocess.Popen[bytes]:
        server = subprocess.Popen(
            words, cwd=ROOT / "python", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        stack.callback(server.wait)
        stack.callback(server.terminate)
        return server

    def short_connections(self, kind: str, count: int) -> str:
        """Return the fault after ``count`` connections of a kind; empty if all were answered and the server keeps nothing."""
        address, server = self.servers[kind]
        number = _executable(server.pid)
        held = []
        # A QUIC connection drains before it is freed (RFC 9000 section 10.2), so the memory of a server grows until
        # as many end as begin.
        for some in (max(4_000, count // 10), count):
            words = [str(self.program), kind, address, str(some), str(AT_ONCE)]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode:
                return f"{kind}: {done.stderr.strip()}"
            if (answered := json.loads(done.stdout)["answered"]) != some:
                return f"{kind}: {answered} of {some} were answered"
            held.append(_resident(number))
        grown = held[1] - held[0]
        if grown > MAX_BYTES_PER_CONNECTION * count + NOISE_BYTES:
            return f"{kind}: {grown} bytes more after {count} connections"
        return ""


def _resident(process: int) -> int:
    """Resident memory, bytes (proc(5))."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


def _client() -> Path:
    """The example ``many_connections``, built if it is not there (by scripts/build-checked it is)."""
    client = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "debug/examples/many_connections")
    if not client.exists():
        words = ["cargo", "build", "--quiet", "--locked", "--workspace", "--example", client.name]
        subprocess.run(words, cwd=ROOT, check=True)
    return client


def _executable(process: int) -> int:
    """``bentpipe-rt`` itself, which the command line starts or becomes."""
    for _ in range(500):
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for one in (process, *map(int, children)):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{one}/exe").samefile(realtime.program()):
                    return one
        time.sleep(0.01)
    raise RuntimeError("no bentpipe-rt below the server")


def _wait(address: str) -> None:
    host, port = address.rsplit(":", 1)
    for _ in range(1000):
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.01)
    raise RuntimeError(f"nothing listens at {address}")
