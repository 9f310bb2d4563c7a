"""Kills of bundle nodes that store on disk, under load: what a layer has promised arrives, each id once.

Three nodes in a row over loopback, each with a store. The first sends bundles at a rate; one is killed at a drawn
instant and restarted. All bundles that the first reported must then be delivered at the third, except those that
docs/reference/dtn.md ("Guarantees of each layer at a kill") excludes. It is over when every node reports that nothing is
left to do. A bundle is generated when the store has it, which on a slow disk is long after its time.
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
from bentpipe.lab.free_port import free_port
from bentpipe.lab.process_plans import to_json
from bentpipe.scenario.dtn.generated import TRANSPORTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LAYERS = ("tcpcl", "quiccl", "quiccl-each", "ltp", "quiccl-priorities", "qubicle", "mtcp", "ltp-green")

INTO_THE_KILL = ("qubicle", "mtcp")
"""Those that lose what the killed node had taken and had not stored yet."""

UNANSWERED = ("ltp-green",)
"""Those that lose whatever was sent and has not come: nothing is answered."""

STEPS = ("generated", "received", "forwarded", "delivered")
"""Events that advance a bundle."""

LEFT = ("forwarded", "delivered", "deleted")
"""Events that remove a bundle from a store, or report one that was not accepted."""

Id = tuple[str, int, int]

LTP_RATE = "400 Mbit/s"
"""More than any load that is drawn."""

PATIENCE_S = 120.0
"""Longest wait without progress: a store reports nothing while it synchronises hundreds of files."""

QUIET_S = 1.0
"""After this time, bundles in flight on a layer without guarantees have arrived, or remain in the stores."""

ENDS = 5
"""How often all nodes are ended and begun again for what such a layer had on its way."""


@dataclass(frozen=True)
class Kill:
    """Node, number and times of the kills."""

    layer: str
    node: str
    after_s: tuple[float, ...]
    payload: int
    rate_bit_s: int

    @property
    def load(self) -> int:
        """Bytes of payload: 0.7 s of the rate."""
        return self.rate_bit_s * 7 // 80

    @property
    def count(self) -> int:
        """Bundles of a source that lives."""
        return -(-self.load // self.payload)


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
        """Create a node; ``words`` are options of its client."""
        self._program, self._folder, self._name, self._words = program, folder, name, words
        self.file = folder / f"{name}.toml"
        self.file.write_text(text)
        self.store = folder / f"store-{name}"
        self.before: Sequence[str] = ()
        """Prefix of the command."""
        self.rows: list[dict[str, Any]] = []
        self.found: list[dict[str, Any]] = []
        self._earlier = 0
        """Rows of earlier lives."""
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """Return the id of the current process."""
        assert self._process is not None
        return self._process.pid

    def begin(self, *, sends: bool = False, to: str = "3") -> None:
        """Start the node; ``rows`` gets its events."""
        plan = plan_of(self.file, self._name, self.store)
        if sends and self._words is not None:
            Client(plan, to, self._words)
        path = self._folder / f"{self._name}.json"
        path.write_bytes(to_json(plan))
        process = subprocess.Popen(
            [*self.before, str(self._program), "dtn", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        if not first:
            assert process.stderr is not None
            raise RuntimeError(f"node {self._name}: {process.stderr.read().decode()}")
        self.found.append(json.loads(first)["store"])
        self._earlier = len(self.rows)
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

    def ids(self, event: str) -> Counter[Id]:
        """Bundles of clients to which this has happened, and how often."""
        return Counter(
            (row["source"], row["created_ms"], row["sequence"])
            for row in list(self.rows)
            if row.get("event") == event and row["kind"] == "data" and row["offset_bytes"] is None
        )

    def held(self) -> int:
        """Return the number of stored bundles according to the events of this process."""
        steps = Counter(row.get("event") for row in self.rows[self._earlier :])
        came = sum(steps[event] for event in ("generated", "received"))
        return int(self.found[-1]["bundles"]) + came - sum(steps[event] for event in LEFT)

    def left(self) -> int:
        """How many it had at the end of a life that ended in order."""
        return sum(row.get("table") == "bundle_store" for row in self.rows[self._earlier :])


def _texts(layer: str) -> dict[str, str]:
    """Files of the nodes."""
    ports = {way: free_port() for way in ("12", "21", "23", "32")}

    def neighbour(name: str, own: str) -> str:
        """The node ``own`` opens connections to nodes behind it; over LTP each side has a port, and knows the other's."""
        listen = f'listen = "127.0.0.1:{ports[name + own]}"\n'
        peer = f'peer = "127.0.0.1:{ports[own + name]}"\n'
        if TRANSPORTS[layer] == "udp":
            ways = f'{listen}{peer}rate = "{LTP_RATE}"\n'
        elif layer == "mtcp":
            ways = f'{listen}{peer}connections = "each"\n'
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
def row(program: Path, layer: str, words: str) -> Iterator[dict[str, Node]]:
    """Create nodes 1, 2 and 3 over a layer without starting them; ``words`` are options of the first node's client."""
    with tempfile.TemporaryDirectory(prefix="bp-kills-") as folder:
        nodes = {
            name: Node(program, Path(folder), name, text, words if name == "1" else None)
            for name, text in _texts(layer).items()
        }
        try:
            yield nodes
        finally:
            for node in nodes.values():
                node.end(signal.SIGKILL)


def trial(program: Path, kill: Kill) -> str:
    """Return the fault after a kill, or an empty text."""
    words = f"-R {kill.rate_bit_s} -D {kill.load} -P {kill.payload} -l 600"
    with row(program, kill.layer, words) as nodes:
        for name in "321":
            nodes[name].begin(sends=True)
        killed = nodes[kill.node]
        for after_s in kill.after_s:
            time.sleep(after_s)
            killed.end(signal.SIGKILL)
            killed.begin()
        wrong: list[str] = []
        for _ in range(ENDS):
            done = _wait(nodes, kill)
            wrong += _end(nodes)
            if wrong or not done or not any(node.left() for node in nodes.values()):
                break
            for name in "321":
                nodes[name].begin()
        wrong += _judge(nodes, kill)
    return f"{kill}: {'; '.join(wrong)}" if wrong else ""


def _end(nodes: Mapping[str, Node]) -> Iterator[str]:
    """Ends all in order; what is wrong with how they end."""
    for name in "123":
        node = nodes[name]
        if status := node.end():
            yield f"node {name} ended with status {status}"
        elif node.held() != node.left():
            yield f"node {name} has {node.left()} bundles, and by what it said {node.held()}"


def given_up(nodes: Mapping[str, Node], kill: Kill) -> set[Id]:
    """Bundles that do not say that they were delivered, and may be lost: they left a node for one that never had
    them."""
    if kill.layer not in (*INTO_THE_KILL, *UNANSWERED):
        return set()
    found: set[Id] = set()
    missing = nodes["1"].ids("generated").keys() - nodes["3"].ids("delivered").keys()
    for sender, receiver in (("1", "2"), ("2", "3")):
        here = missing - nodes[receiver].ids("received").keys()
        missing -= here
        if kill.layer in UNANSWERED or receiver == kill.node:
            # A kill between the store and the line takes the line.
            found |= here if sender == kill.node else here & nodes[sender].ids("forwarded").keys()
    return found


def _wait(nodes: Mapping[str, Node], kill: Kill) -> bool:
    """Until no node has anything left to do; whether that came before so long a time in which no bundle got further."""
    steps = {name: _Steps(node) for name, node in nodes.items()}
    quiet_since = further_at = time.monotonic()
    while True:
        now = time.monotonic()
        # All nodes are read.
        news = [one.look() for one in steps.values()]
        if any(spoke for spoke, _ in news):
            quiet_since = now
        if any(further for _, further in news):
            further_at = now
        if (
            now - quiet_since >= QUIET_S
            and (kill.node == "1" or steps["1"].count("generated") >= kill.count)
            and not any(node.held() for node in nodes.values())
        ):
            return True
        if now - further_at >= PATIENCE_S:
            return False
        time.sleep(0.1)


class _Steps:
    """Progress of the bundles of a node; each row counts once."""

    def __init__(self, node: Node) -> None:
        self._node, self._rows = node, 0
        self._steps: dict[str, set[Id]] = {one: set() for one in STEPS}

    def look(self) -> tuple[bool, bool]:
        """Return whether the node has reported an event of a bundle since, and whether one has advanced."""
        new, before = self._node.rows[self._rows :], self._far()
        self._rows += len(new)
        rows = [row for row in new if "event" in row]
        for row in rows:
            if row["event"] in self._steps:
                self._steps[row["event"]].add((row["source"], row["created_ms"], row["sequence"]))
        return bool(rows), self._far() > before

    def count(self, step: str) -> int:
        """Bundles that have got there."""
        return len(self._steps[step])

    def _far(self) -> int:
        return sum(len(found) for found in self._steps.values())


def _judge(nodes: Mapping[str, Node], kill: Kill) -> Iterator[str]:
    """Yield the faults at the end."""
    left = {name: count for name, node in nodes.items() if (count := node.left())}
    # A kill between the store and the line takes the line: what is stored says it.
    nodes["3"].begin()
    nodes["3"].end()
    generated, delivered = nodes["1"].ids("generated"), nodes["3"].ids("delivered")
    found = nodes["3"].found[-1]
    if twice := [one for one, count in delivered.items() if count > 1]:
        yield f"{len(twice)} delivered twice, such as {twice[0]}"
    allowed = given_up(nodes, kill)
    lost = generated.keys() - delivered.keys() - allowed
    if found["delivered"] < len(generated.keys() | delivered.keys()) - len(allowed):
        yield f"{found['delivered']} of {len(generated)} are delivered, and {len(allowed)} may be lost"
    if lost and kill.node != "3":
        yield f"{len(lost)} lost, such as {min(lost)}"
    # A node without stored bundles has promised nothing.
    if kill.node != "1" and len(generated) != kill.count:
        yield f"{len(generated)} of {kill.count} were sent"
    for name, count in left.items():
        yield f"{count} are left in the store of node {name}"
    if found["bundles"] != left.get("3", 0):
        yield f"{found['bundles']} are found in the last store"
    for node in nodes.values():
        yield from (f"damaged: {one['why']}" for messages in node.found for one in messages["damaged"])
