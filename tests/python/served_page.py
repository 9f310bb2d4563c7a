"""Helpers of tests of ``bentpipe-rt serve``: a page with every kind of object, and a server with this page."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bentpipe.lab.perf import Options, Output, Server, server_plan

__all__ = ["OBJECTS", "PATHS", "Served", "a_server", "page_of", "plan_of"]

# An object of every kind, the shortest pictures, and chains: 8 to 10 wait for others than the document.
OBJECTS = [
    ("index", 6000, [], 0),
    ("style-1", 9000, [0], 0),
    ("script-1", 20_000, [0], 0),
    ("image-1", 50_000, [0], 0),
    ("image-2", 40, [0], 0),
    ("image-3", 82, [0], 0),
    ("image-4", 100, [0], 0),
    ("image-5", 15, [0], 0),
    ("other-1", 1_000_000, [2], 0),
    ("font-1", 3000, [1, 2, 3], 0),
    ("late", 5000, [9], 1),
]
PATHS = [
    "/",
    "/1.css",
    "/2.js",
    "/3.png",
    "/4.png",
    "/5.png",
    "/6.png",
    "/7.js",
    "/8.png",
    "/9.png",
    "/10.png",
]


def page_of(objects: list[tuple[str, int, list[int], int]]) -> dict[str, Any]:
    rows = [
        {
            "name": name,
            "host": host,
            "request_bytes": 50,
            "response_header_bytes": 300 if index == 0 else 100,
            "body_bytes": size,
            "after": after,
            "think_ns": 0,
        }
        for index, (name, size, after, host) in enumerate(objects)
    ]
    hosts = [{"name": name, "open": False} for name in ("origin", "static")]
    return {"name": "page", "hosts": hosts, "objects": rows}


def plan_of(**changes: Any) -> dict[str, Any]:
    side = server_plan(Server(), Options(), Output())
    plan = {
        "listen": ["127.0.0.1:0"],
        "content": {"page": page_of(OBJECTS)},
        "quic": side["quic"] | {"unpaced_burst_packets": 10},
        "congestion": side["congestion"],
    }
    return plan | changes


class Served:
    """A server that runs."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        assert process.stdout is not None
        self.process, self.folder = process, folder
        self.ready: dict[str, Any] = json.loads(process.stdout.readline())
        self.port: int = self.ready["port"]
        self.end: dict[str, Any] = {}

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "access.jsonl").read_text().splitlines()]

    def logged(self, count: int) -> list[dict[str, Any]]:
        """The log, once it has that many entries."""
        until = time.monotonic() + 30
        while len(self.log()) < count and time.monotonic() < until:
            time.sleep(0.02)
        return self.log()

    def stop(self) -> dict[str, Any]:
        if not self.end:
            self.process.terminate()
            out, _ = self.process.communicate(timeout=10)
            assert self.process.returncode == 0
            self.end = json.loads(out.splitlines()[-1])
        return self.end


@contextmanager
def a_server(program: Path, folder: Path, **changes: Any) -> Iterator[Served]:
    plan = folder / "plan.json"
    plan.write_text(json.dumps(plan_of(access_log=str(folder / "access.jsonl")) | changes))
    with subprocess.Popen([program, "serve", plan], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Served(process, folder)
        finally:
            if process.poll() is None:
                process.kill()
