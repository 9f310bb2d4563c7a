"""Floods of a bundle node on sockets by strangers and misbehaving peers, while a neighbour continues to exchange bundles.

Node 2 listens for neighbours over every layer; node 1 is one of them, and keeps its promises. Everybody else is drawn.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bentpipe.lab.free_port import free_port
from dtn_kills import Node

LAYERS = ("tcpcl", "quiccl", "mtcp", "qubicle", "ltp")
OVER_TCP = ("tcpcl", "mtcp")

GROWS_BYTES = (64 + 64) << 20
"""A node may hold 64 MiB of incoming bundles (``LEAST_INCOMING``) whatever it stores. Bundles of its neighbour, buffers
of connections and memory of the allocator take as much again."""

PATIENCE_S = 20.0
"""Longest wait for the neighbour's last bundle."""


@dataclass(frozen=True)
class Doors:
    """Listening ports of node 2, by layer."""

    ports: dict[str, int]

    def connect(self, layer: str) -> socket.socket:
        """A connection of TCP that waits for nothing from then on; one that is put out at once is one, too."""
        one = socket.socket()
        one.settimeout(5.0)
        with contextlib.suppress(ConnectionResetError):
            one.connect(("127.0.0.1", self.ports[layer]))
        one.setblocking(False)
        return one


# --- what TCPCLv4 and MTCP say (RFC 9174 sections 4.1, 4.6, 5.2; draft-ietf-dtn-mtcpcl) ------------------------

CONTACT = b"dtn!\x04\x00"


def init(name: bytes = b"dtn://stranger/") -> bytes:
    """SESS_INIT."""
    return struct.pack("!BHQQH", 7, 30, 2**63, 2**63, len(name)) + name + bytes(4)


def segment(number: int, announced: int, length: int, data: bytes) -> bytes:
    """The first XFER_SEGMENT of a transfer that announces so much, and of itself so much."""
    item = struct.pack("!BHHQ", 1, 1, 8, announced)
    return struct.pack("!BBQI", 1, 2, number, len(item)) + item + struct.pack("!Q", length) + data


def lies(chance: random.Random) -> bytes:
    """Send acknowledgements and refusals of unknown transfers, and ends and rejections without a cause."""
    number = chance.choice((0, 1, 2**63))
    return chance.choice(
        (
            struct.pack("!BBQQ", 2, 1, number, 2**62),
            struct.pack("!BBQ", 3, chance.randrange(8), number),
            b"\x04" * 100,
            struct.pack("!BBB", 6, 1, 9),
            struct.pack("!BBB", 5, 1, 0),
        )
    )


# --- the floods: each is a wave, again and again ----------------------------------------------------------------


def _send(one: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        one.send(data)


def idle(doors: Doors, chance: random.Random, held: list[socket.socket]) -> None:
    """Strangers who say nothing, or half of a handshake."""
    for layer in OVER_TCP:
        one = doors.connect(layer)
        whole = CONTACT + init() if layer == "tcpcl" else struct.pack("!BQ", 0x5B, 2**20)
        _send(one, whole[: chance.randrange(len(whole))])
        held.append(one)


def slow(doors: Doors, chance: random.Random, held: list[socket.socket]) -> None:
    """Senders of a transfer, an octet at a time."""
    if len(held) < 100:
        one = doors.connect("tcpcl")
        _send(one, CONTACT + init() + segment(0, 2**20, 2**20, b""))
        held.append(one)
    for one in chance.sample(held, min(20, len(held))):
        _send(one, b"x")


def dropped(doors: Doors, chance: random.Random, held: list[socket.socket]) -> None:
    """Sessions that are opened and dropped, in order or by a reset."""
    for layer in OVER_TCP:
        one = doors.connect(layer)
        _send(one, CONTACT + init() if layer == "tcpcl" else b"\x41")
        if chance.random() < 0.5:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()


def nonsense(doors: Doors, chance: random.Random, held: list[socket.socket]) -> None:
    """Anything, on every layer; behind what a layer begins with, and as what QUIC begins with."""
    for layer in OVER_TCP:
        one = doors.connect(layer)
        begins = chance.choice((b"", CONTACT, CONTACT + init())) if layer == "tcpcl" else b""
        _send(one, begins + chance.randbytes(chance.randrange(1, 2000)))
        held.append(one)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for layer in ("quiccl", "qubicle"):
            for version in (b"\0\0\0\1", b"\0\0\0\0", chance.randbytes(4)):
                # A long header with two connection ids (RFC 9000 section 17.2), as long as a first packet is.
                first = b"\xc3" + version + b"\x08" + chance.randbytes(8) + b"\x08" + chance.randbytes(8)
                one.sendto(first + chance.randbytes(1200 - len(first)), ("127.0.0.1", doors.ports[layer]))
            one.sendto(chance.randbytes(chance.randrange(1, 1400)), ("127.0.0.1", doors.ports[layer]))


def huge(doors: Doors, chance: random.Random, held: list[socket.socket]) -> None:
    """Transfers of exabytes that are announced, and begun at the best."""
    some = chance.randbytes(60_000)
    announced = chance.choice((2**30, 2**40, 2**62))
    one = doors.connect("tcpcl")
    _send(one, CONTACT + init())
    for number in range(8):
        _send(one, segment(number, announced, chance.choice((len(some), announced)), some))
    held.append(one)
    one = doors.connect("mtcp")
    _send(one, struct.pack("!BQ", 0x5B, announced) + some)
    held.append(one)


def lying(doors: Doors, chance: random.Random, held: list[socket.socket]) -> None:
    """Peers with the neighbour's name and with others, which answer unknown transfers."""
    one = doors.connect("tcpcl")
    name = chance.choice((b"ipn:1.0", b"ipn:2.0", b"ipn:7.0", b"dtn:none", b"\xff" * 40, b""))
    _send(one, CONTACT + init(name) + b"".join(lies(chance) for _ in range(50)))
    held.append(one)


# --- messages of LTP (RFC 5326 section 3) --------------------------------------------------------------------------

STRANGER = "127.0.0.2"
"""An address of no neighbour."""


def sdnv(number: int) -> bytes:
    """A number (RFC 5326 section 2)."""
    octets = [number & 0x7F]
    while number := number >> 7:
        octets.append(0x80 | number & 0x7F)
    return bytes(reversed(octets))


def ltp(kind: int, engine: int, session: int, *numbers: int, data: bytes = b"") -> bytes:
    """A segment without extensions; its body begins with these numbers."""
    return bytes([kind]) + sdnv(engine) + sdnv(session) + b"\0" + b"".join(map(sdnv, numbers)) + data


def _segments(engine: int, chance: random.Random) -> Iterator[bytes]:
    """Blocks that are begun and announced, reports with gaps, cancellations and acknowledgements of anything."""
    session = chance.randrange(2**50)
    data = chance.randbytes(chance.randrange(1, 1400))
    offset = chance.choice((0, 2**20, 2**62))
    yield ltp(0, engine, session, 1, offset, len(data), data=data)
    yield ltp(
        chance.choice((1, 2, 3)), engine, session, 1, offset, len(data), 5, chance.choice((0, 9)), data=data
    )
    yield ltp(chance.choice((4, 7)), engine, session + 1, chance.choice((1, 2)), offset, len(data), data=data)
    # A report: two claims of a block of 2,000 bytes; then what ends sessions.
    for number in (2, engine):
        yield ltp(8, number, session, 7, 5, 2000, 0, 2, 0, 100, 300, 100)
        yield ltp(9, number, session, chance.randrange(1, 2**14))
        yield ltp(chance.choice((12, 14)), number, session, data=bytes([chance.randrange(8)]))
        yield ltp(chance.choice((13, 15)), number, session)
    yield chance.randbytes(chance.randrange(1, 1400))


def segments(doors: Doors, chance: random.Random, held: list[socket.socket]) -> None:
    """LTP: the neighbour's name from another address, and any name from its address."""
    at = ("127.0.0.1", doors.ports["ltp"])
    for address, engine, times in ((STRANGER, 1, 5), ("127.0.0.1", 9, 5), ("127.0.0.1", 1, 1)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind((address, 0))
            for _ in range(times):
                for octets in _segments(engine, chance):
                    one.sendto(octets, at)


Flood = Callable[[Doors, random.Random, list[socket.socket]], None]
FLOODS: tuple[Flood, ...] = (idle, slow, dropped, nonsense, huge, lying, segments)

HELD = 300
"""Connections of a flood at once: more than a node has places for."""


# --- a trial ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """Kind of flood, and layer of the neighbour."""

    flood: str
    layer: str
    seconds: float
    waves: int
    """Most of them."""


def draw(seed: int, *, short: bool) -> Drawn:
    """Every flood beside every layer, one after the other."""
    return Drawn(
        flood=FLOODS[seed % len(FLOODS)].__name__,
        layer=LAYERS[seed // len(FLOODS) % len(LAYERS)],
        seconds=0.4 if short else 5.0,
        waves=300 if short else 20_000,
    )


def _texts(layer: str, ports: dict[str, int], back: int) -> dict[str, str]:
    """The files of both nodes: node 1 is the neighbour over ``layer``, others are there in name."""
    two, one = ['name = "2"\n'], ['name = "1"\n']
    for number, (kind, port) in enumerate(ports.items(), 11):
        name = "1" if kind == layer else str(number)
        # Over MTCP each side opens a connection; LTP has no connections. Both know each other's port.
        both = kind in ("mtcp", "ltp")
        own = {"mtcp": 'connections = "each"\n', "ltp": 'rate = "20 Mbit/s"\n'}.get(kind, "")
        peer = f'peer = "127.0.0.1:{back}"\n' if both else ""
        two.append(
            f'[[neighbour]]\nname = "{name}"\nlayer = "{kind}"\nlisten = "127.0.0.1:{port}"\n{own}{peer}'
        )
        if kind == layer:
            listen = f'listen = "127.0.0.1:{back}"\n' if both else ""
            one.append(
                f'[[neighbour]]\nname = "2"\nlayer = "{kind}"\npeer = "127.0.0.1:{port}"\n{own}{listen}'
            )
    return {"1": "".join(one), "2": "".join(two)}


def resident(process: int) -> int:
    """Resident memory, bytes (proc(5))."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


def trial(program: Path, drawn: Drawn, seed: int) -> str:
    """Return the fault of a node during or after a flood, or an empty text."""
    with tempfile.TemporaryDirectory(prefix="bp-floods-") as folder, contextlib.ExitStack() as stack:
        ports = {layer: free_port() for layer in LAYERS}
        words = f"-R 4M -D {500_000 * (drawn.seconds + 0.3):.0f} -P 20k -l 600"
        nodes = {
            name: Node(program, Path(folder), name, text, words if name == "1" else None)
            for name, text in _texts(drawn.layer, ports, free_port()).items()
        }
        for node in nodes.values():
            stack.callback(node.end, signal.SIGKILL)
        nodes["2"].begin()
        doors, chance = Doors(ports), random.Random(seed)  # noqa: S311 - no secret
        process = nodes["2"].pid
        before = most = resident(process)
        nodes["1"].begin(sends=True, to="2")
        flood = next(one for one in FLOODS if one.__name__ == drawn.flood)
        held: list[socket.socket] = []
        until, waves = time.monotonic() + drawn.seconds, 0
        while time.monotonic() < until and waves < drawn.waves:
            try:
                flood(doors, chance, held)
            except OSError as error:
                return f"{drawn}: node 2 answers nobody after {waves} waves: {error}"
            waves += 1
            if waves % 20 == 0:
                most = max(most, resident(process))
            while len(held) > HELD:
                held.pop(0).close()
        most = max(most, resident(process))
        wrong = list(_judge(nodes, waves))
        for one in held:
            one.close()
        if most - before > GROWS_BYTES:
            wrong.append(f"{most - before} bytes more")
        REPORTED.append((drawn, waves, before, most))
        ends = {name: nodes[name].end() for name in "12"}
        wrong += [f"node {name} ended with {status}" for name, status in ends.items() if status != 0]
    return f"{drawn}, {waves} waves: {'; '.join(wrong)}" if wrong else ""


REPORTED: list[tuple[Drawn, int, int, int]] = []
"""Waves, and resident memory before and at most, of every trial of this process."""


def _judge(nodes: dict[str, Node], waves: int) -> Iterator[str]:
    """Yield faults of the neighbour's bundles while the connections of the flood exist."""
    one, two = nodes["1"], nodes["2"]
    until = time.monotonic() + PATIENCE_S
    last = -1
    while time.monotonic() < until:
        generated, delivered = one.ids("generated"), two.ids("delivered")
        if generated and len(generated) == last and not generated.keys() - delivered.keys():
            break
        last = len(generated)
        time.sleep(0.3)
    # Reading in this order never finds a delivered bundle whose generation is unknown.
    delivered, generated = two.ids("delivered"), one.ids("generated")
    if not generated or not waves:
        yield f"{len(generated)} bundles beside {waves} waves"
    if lost := generated.keys() - delivered.keys():
        yield f"{len(lost)} of {len(generated)} bundles of the neighbour have not come"
    if strange := delivered.keys() - generated.keys():
        yield f"{len(strange)} bundles of nobody were delivered"
    if twice := [found for found, count in delivered.items() if count > 1]:
        yield f"{len(twice)} delivered twice"


def main() -> None:
    """Run every flood beside every layer and print its cost: ``python dtn_floods.py [SECONDS]``."""
    import sys

    import realtime

    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    for seed in range(len(FLOODS) * len(LAYERS)):
        drawn = draw(seed, short=False)
        wrong = trial(realtime.program(), Drawn(drawn.flood, drawn.layer, seconds, drawn.waves), seed)
        messages, waves, before, most = REPORTED[-1] if REPORTED else (drawn, 0, 0, 0)
        print(f"{messages.flood:9} beside {messages.layer:7} {waves:6} waves, {before >> 20} to {most >> 20} MiB: "
              f"{wrong or 'well'}", flush=True)  # fmt: skip
    os._exit(0)


if __name__ == "__main__":
    main()
