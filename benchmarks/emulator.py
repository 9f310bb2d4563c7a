"""``python -m benchmarks emulator``: how near the emulator comes to the path it promises, and what it costs."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.lab.process_plans import LabSpec
    from bentpipe.plan.spec.run_spec import ProxySpec

__all__ = ["Reached", "bench"]

PORT = 7

ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("{far}", 7))
while True:
    data, peer = s.recvfrom(64)
    s.sendto(data, peer)
"""
"""What answers, at the far end."""

ASK = """
import json, os, signal, socket, statistics, struct, sys, time
count, pause, promised = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind(("127.0.0.1", 7))
child = os.fork()
if child == 0:
    while True:
        data, peer = here.recvfrom(64)
        came = time.perf_counter_ns()
        if promised:
            time.sleep(promised)
        left = time.perf_counter_ns()
        here.sendto(struct.pack("=q", left - came), peer)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
found = {"{far}": [], "127.0.0.1": []}
for _ in range(count):
    for address, times in found.items():
        start = time.perf_counter_ns()
        s.sendto(b"?", (address, 7))
        answer = s.recv(64)
        held = struct.unpack("=q", answer)[0] if len(answer) == 8 else 0
        times.append((time.perf_counter_ns() - start - held) / 1e6)
        time.sleep(pause)
os.kill(child, signal.SIGKILL)
print(json.dumps([statistics.mean(times) for times in found.values()]))
"""
"""What asks, at the near end: mean round-trip times over the path, and over loopback without the time for which
the answer is held there, ms."""

BURN = "while True: pass"


@dataclass(frozen=True, slots=True)
class Reached:
    """One figure: medians over runs, with the lowest and the highest."""

    case: str
    what: str
    median: float
    lowest: float
    highest: float
    bound: str


def bench(times: int, each: Callable[[str], None] | None = None) -> list[Reached]:
    """Measures every case ``times`` times, interleaved.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
        SessionError: a session could not be.
    """
    cases: tuple[tuple[str, Callable[[], list[tuple[str, float, str]]]], ...] = (
        ("no delay", lambda: _echo(0, None, 200, 0.005, busy=False)),
        ("750 ms, idle", lambda: _echo(375, "25 Mbit/s", 8, 0.4, busy=False)),
        ("750 ms, both cores busy", lambda: _echo(375, "25 Mbit/s", 8, 0.4, busy=True)),
        ("TCP at 100 Mbit/s, 50 ms", lambda: _tcp(25, "100 Mbit/s", 100)),
        ("TCP at 2 Gbit/s, 10 ms", lambda: _tcp(5, "2 Gbit/s", None)),
        ("TCP split by a proxy, 10 ms", lambda: _tcp(5, None, None, pep="early")),
    )
    rows: dict[tuple[str, str], list[float]] = {}
    bounds: dict[tuple[str, str], str] = {}
    for number in range(times):
        for name, run in cases:
            if each is not None:
                each(f"{number + 1} of {times}: {name}")
            for what, value, bound in run():
                rows.setdefault((name, what), []).append(value)
                bounds[name, what] = bound
    return [
        Reached(name, what, statistics.median(values), min(values), max(values), bounds[name, what])
        for (name, what), values in rows.items()
    ]


def _path(delay_ms: float, rate: str | None, pep: str | None = None) -> tuple[LabSpec, list[ProxySpec]]:
    """A link, and behind it a proxy and a wire if there is to be one; the proxies."""
    from bentpipe.lab.access import resolve_path

    way = {"queue": "1 BDP"} | ({} if rate is None else {"rate": rate})
    segment: dict[str, Any] = {"name": "link", "delay": f"{delay_ms} ms"}
    if rate is not None:
        segment |= {"down": way, "up": way}
    flow = {"name": "any", "congestion": "cubic"}
    return resolve_path({"duration": "10 s", "path": {"segment": [segment]}, "flow": [flow]}, pep=pep)


def _echo(
    delay_ms: float, rate: str | None, count: int, pause: float, *, busy: bool
) -> list[tuple[str, float, str]]:
    """How much longer than promised a small packet's round trip is. What two processes on one machine take to wake
    each other is no part of the path: it is measured beside it over loopback, where the answer is held for as long
    as the path promises, so that the one that asks has slept as long."""
    from bentpipe.lab.shell import run_lab

    with tempfile.TemporaryDirectory(prefix="bentpipe-bench-") as folder:
        answers = Path(folder) / "answers.json"
        burn = [
            {"name": f"burn{n}", "command": [sys.executable, "-c", BURN]} for n in range(2 if busy else 0)
        ]
        far = {"name": "echo", "command": [sys.executable, "-c", ECHO], "listens": PORT}
        ask = [sys.executable, "-c", ASK, str(count), str(pause), str(2 * delay_ms / 1e3)]
        found = run_lab(
            {
                "lab": _path(delay_ms, rate)[0],
                "private": True,
                "far": [*burn, far],
                "near": [{"name": "ask", "command": ask, "output": str(answers)}],
            }
        )
        over_path, over_loopback = json.loads(answers.read_text(encoding="utf-8"))
    promised = found["promise"]["rtt_ns"] / 1e6
    excess = over_path - promised - over_loopback
    bound = "< 0.2" if promised == 0 else "< 1" if busy else "< 0.3"
    return [("round trip too long, mean, ms", excess, bound), ("of two processes, ms", over_loopback, "")]


def _tcp(
    delay_ms: float, rate: str | None, rate_mbit_s: float | None, pep: str | None = None
) -> list[tuple[str, float, str]]:
    """The rate of one download by kernel TCP, and the emulator's processor time."""
    from bentpipe.lab.executable import executable
    from bentpipe.lab.perf import Client, Options, Output, Server, client_plan, load, server_plan
    from bentpipe.lab.process_plans import to_json
    from bentpipe.lab.shell import run_lab

    program = str(executable())
    path, proxies = _path(delay_ms, rate, pep)
    far = "10.78.0.1:4433"
    options, report = Options(), Output(interval="0", json=True)
    with tempfile.TemporaryDirectory(prefix="bentpipe-bench-") as folder:
        files = [Path(folder) / name for name in ("server.json", "client.json", "record")]
        server = server_plan(Server("0.0.0.0:4433", transport="tcp"), options, report)
        client = client_plan(Client(far, load(time="5 s", send="down"), transport="tcp"), options, report)
        files[0].write_bytes(to_json(server))
        files[1].write_bytes(to_json(client))
        found = run_lab(
            {
                "lab": path,
                "proxies": proxies,
                "private": True,
                "far": [
                    {
                        "name": "server",
                        "command": [program, "perf", str(files[0])],
                        "listens": 4433,
                        "output": str(Path(folder) / "server.out"),
                    }
                ],
                "near": [
                    {
                        "name": "client",
                        "command": [program, "perf", str(files[1])],
                        "output": str(Path(folder) / "client.out"),
                    }
                ],
                "settings": {
                    side: {
                        "net.ipv4.tcp_rmem": "4096 131072 67108864",
                        "net.ipv4.tcp_wmem": "4096 131072 67108864",
                    }
                    for side in ("near", "far")
                },
                "record": {"directory": str(files[2]), "interval_ns": 500_000_000},
            }
        )
        carried = _carried(files[2] / "links.csv")
        counted = [json.loads(file.read_text().splitlines()[-1]) for file in files[2].glob("proxy-*.jsonl")]
    cores = found["cpu_s"] / found["wall_s"]
    if counted:
        (proxy,) = counted
        cost = proxy["cpu_s"] / (proxy["server_side"]["received_bytes"] / 1e9)
        return [
            ("carried, Mbit/s", carried, ""),
            ("proxy, CPU s per GB", cost, ""),
            ("emulator, cores", cores, ""),
        ]
    if rate_mbit_s is None:
        return [("carried, Mbit/s", carried, ">= 1500"), ("emulator, cores", cores, "")]
    wrong = 100 * (carried / rate_mbit_s - 1)
    return [("rate of a busy link, error, %", wrong, "< 1"), ("emulator, cores", cores, "< 1.0")]


def _carried(file: Path) -> float:
    """Mbit/s of IP packets down between the second and the fourth second."""
    rows = [line.split(",") for line in file.read_text(encoding="utf-8").splitlines()]
    at, bytes_out, way = (rows[0].index(name) for name in ("time_s", "bytes_out", "direction"))
    name = rows[0].index("segment")
    points = [
        (float(row[at]), int(row[bytes_out])) for row in rows[1:] if (row[name], row[way]) == ("link", "down")
    ]
    inside = [point for point in points if 2 <= point[0] <= 4.6]
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) * 8e-6 / (last - first)
