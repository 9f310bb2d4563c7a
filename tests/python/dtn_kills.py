"""Kills of bundle nodes that store on disk, under load: what a layer has promised arrives, each id once.

Three nodes in a row over loopback, each with a store: the first sends bundles at a rate, one is killed at an instant that is
drawn and begun again, then all that the first had said it has must be delivered at the third.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.dtn.node import Client, plan_of
from bentpipe.lab.ports import free_port
from bentpipe.lab.wire import written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LAYERS = ("tcpcl", "quiccl", "quiccl-each", "ltp")
"""Those that promise that a bundle is durable."""

LTP_RATE = "400 Mbit/s"
"""More than any load that is drawn."""

PATIENCE_S = 30.0
"""Longest wait for the last bundle."""


@dataclass(frozen=True)
class Kill:
    """Who is killed, how often and when."""

    layer: str
    node: str
    after_s: tuple[float, ...]
    payload: int
    rate_bit_s: int


def draw(seed: int) -> Kill:
    """A kill of any node at any time of a load of any kind."""
    random_ = random.Random(seed)  # noqa: S311 - no secret
    payload = random_.choice((500, 20_000, 200_000))
    return Kill(
        layer=LAYERS[seed % len(LAYERS)],
        node=random_.choice("123"),
        after_s=tuple(random_.uniform(0.0, 0.6) for _ in range(random_.choice((1, 1, 2)))),
        payload=payload,
        rate_bit_s=random_.choice((2, 20)) * (10**7 if payload > 500 else 10**6),
    )


class Node:
    """A node of the row, through its lives."""

    def __init__(self, program: Path, folder: Path, name: str, text: str, words: str | None) -> None:
        """``words`` are those of its client."""
        self._program, self._folder, self._name, self._words = program, folder, name, words
        self._file = folder / f"{name}.toml"
        self._file.write_text(text)
        self.rows: list[dict[str, Any]] = []
        self.found: list[dict[str, Any]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """Of the life that it has."""
        assert self._process is not None
        return self._process.pid

    def begin(self, *, sends: bool = False, to: str = "3") -> None:
        """Begins a life; what it says is kept in ``rows``."""
        plan = plan_of(self._file, self._name, self._folder / f"store-{self._name}")
        if sends and self._words is not None:
            Client(plan, to, self._words)
        path = self._folder / f"{self._name}.json"
        path.write_bytes(written(plan))
        process = subprocess.Popen(
            [str(self._program), "dtn", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        if not first:
            assert process.stderr is not None
            raise RuntimeError(f"node {self._name}: {process.stderr.read().decode()}")
        self.found.append(json.loads(first)["store"])
        self._process = process
        self._reader = threading.Thread(target=self._read, args=(process,))
        self._reader.start()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            # A kill may cut off the last one.
            with contextlib.suppress(ValueError):
                self.rows.append(json.loads(line))

    def end(self, number: int = signal.SIGTERM) -> int | None:
        """Ends a life, by default in order; its exit status."""
        if self._process is None or self._reader is None:
            return None
        self._process.send_signal(number)
        with self._process as process:
            self._reader.join()
        self._process = None
        return process.returncode

    def ids(self, event: str) -> Counter[tuple[str, int, int]]:
        """Bundles of clients to which this has happened, and how often."""
        return Counter(
            (row["source"], row["created_ms"], row["sequence"])
            for row in list(self.rows)
            if row.get("event") == event and row["kind"] == "data" and row["offset_bytes"] is None
        )


def _texts(layer: str) -> dict[str, str]:
    """Files of the nodes."""
    ports = {way: free_port() for way in ("12", "21", "23", "32")}

    def neighbour(name: str, own: str) -> str:
        """The node ``own`` opens connections to nodes behind it; over LTP each side has a port, and knows the other's."""
        listen = f'listen = "127.0.0.1:{ports[name + own]}"\n'
        peer = f'peer = "127.0.0.1:{ports[own + name]}"\n'
        if layer == "ltp":
            ways = f'{listen}{peer}rate = "{LTP_RATE}"\n'
        else:
            ways = (peer if own < name else listen) + 'idle_timeout = "700 ms"\n'
        return f'[[neighbour]]\nname = "{name}"\nlayer = "{layer}"\n{ways}'

    route = '[[route]]\nat = "{}"\nto = "{}"\nvia = "2"\n'
    return {
        "1": 'name = "1"\n' + neighbour("2", "1") + route.format("1", "3"),
        "2": 'name = "2"\n' + neighbour("1", "2") + neighbour("3", "2"),
        "3": 'name = "3"\n' + neighbour("2", "3") + route.format("3", "1"),
    }


@contextlib.contextmanager
def _row(program: Path, kill: Kill) -> Iterator[dict[str, Node]]:
    words = f"-R {kill.rate_bit_s} -D {kill.rate_bit_s * 7 // 80} -P {kill.payload} -l 600"
    with tempfile.TemporaryDirectory(prefix="bp-kills-") as folder:
        nodes = {
            name: Node(program, Path(folder), name, text, words if name == "1" else None)
            for name, text in _texts(kill.layer).items()
        }
        try:
            yield nodes
        finally:
            for node in nodes.values():
                node.end(signal.SIGKILL)


def trial(program: Path, kill: Kill) -> str:
    """What is wrong after a kill, or nothing."""
    with _row(program, kill) as nodes:
        for name in "321":
            nodes[name].begin(sends=True)
        killed = nodes[kill.node]
        for after_s in kill.after_s:
            time.sleep(after_s)
            killed.end(signal.SIGKILL)
            killed.begin()
        time.sleep(max(0.0, 0.8 - sum(kill.after_s)))
        _wait(nodes["1"], nodes["3"], kill.node == "3")
        for name in "123":
            nodes[name].end()
        nodes["3"].begin()
        nodes["3"].end()
        wrong = list(_judge(nodes, kill))
    return f"{kill}: {'; '.join(wrong)}" if wrong else ""


def _wait(sender: Node, last: Node, last_was_killed: bool) -> None:
    """Until all has arrived, or for so long."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if not sender.ids("generated").keys() - last.ids("delivered").keys():
            return
        time.sleep(0.1)
        if last_was_killed:
            # A kill between the store and the line takes the line: what is stored says it.
            last.end()
            last.begin()
            if last.found[-1]["delivered"] >= len(sender.ids("generated")):
                return
            time.sleep(1.5)


def _judge(nodes: Mapping[str, Node], kill: Kill) -> Iterator[str]:
    """What is wrong at the end."""
    generated, delivered = nodes["1"].ids("generated"), nodes["3"].ids("delivered")
    found = nodes["3"].found[-1]
    if twice := [one for one, count in delivered.items() if count > 1]:
        yield f"{len(twice)} delivered twice, such as {twice[0]}"
    lost = generated.keys() - delivered.keys()
    if found["delivered"] < len(generated.keys() | delivered.keys()):
        yield f"{found['delivered']} of {len(generated)} are delivered"
    if lost and kill.node != "3":
        yield f"{len(lost)} lost, such as {min(lost)}"
    # Who is killed before its store has anything has promised nothing.
    if not generated and kill.node != "1":
        yield "nothing was sent"
    if found["bundles"]:
        yield f"{found['bundles']} are left in the last store"
    for node in nodes.values():
        yield from (f"damaged: {one['why']}" for told in node.found for one in told["damaged"])
