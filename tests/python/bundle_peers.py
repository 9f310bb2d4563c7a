"""Helpers of tests of bundle nodes on real sockets: a node as a process, and pyD3TN as an MTCP peer."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

from pyd3tn.bundle7 import Bundle
from pyd3tn.helpers import CommunicationError
from pyd3tn.mtcp import MTCPSocket

import realtime

WAIT_S = 8.0
"""Longest wait for a bundle."""


@contextlib.contextmanager
def a_node(path: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """``bentpipe dtn node`` of a file, and what it prints."""
    command = [sys.executable, "-m", "bentpipe.cli", "dtn", "node", str(path), *words]
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout
        except BaseException:
            # Return the error output of a process that ended early.
            process.kill()
            print(process.communicate()[1], file=sys.stderr)
            raise
        finally:
            process.kill()


def until(out: IO[str], event: str, count: int) -> list[dict[str, Any]]:
    """Read the events of a node with ``--json`` until it has reported a number of data events."""
    rows: list[dict[str, Any]] = []
    while sum(row["event"] == event and row.get("kind") == "data" for row in rows) < count:
        text = out.readline()
        assert text, rows
        rows.append(json.loads(text))
    return rows


class Listening:
    """pyD3TN's side of connections that a node opens: what bundles come, in order."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._came: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                found, _ = self._socket.accept()
                threading.Thread(target=self._read, args=(found,), daemon=True).start()

    def _read(self, found: socket.socket) -> None:
        with MTCPSocket(found) as peer, contextlib.suppress(CommunicationError, OSError):
            while True:
                self._came.put(bytes(peer.recv_bundle()))

    def next(self) -> Bundle:
        """The next bundle: it is what pyD3TN would have written, CRCs included."""
        data = self._came.get(timeout=WAIT_S)
        read = Bundle.parse(data)
        assert bytes(read) == data
        return read

    def no_more(self) -> bool:
        """Nothing else has come."""
        return self._came.empty()
