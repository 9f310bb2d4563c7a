"""Benchmark ``emulator``: deviation of the emulated path from the configured path, and CPU time."""

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

__all__ = ["Result", "bench"]

PORT = 7

ECHO_SERVER = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("{server}", 7))
while True:
    data, peer = s.recvfrom(64)
    s.sendto(data, peer)
"""
"""Program that echoes datagrams on the server side."""

ECHO_CLIENT = """
import json, os, signal, socket, statistics, struct, sys, time
count, interval_s, path_rtt_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 7))
child = os.fork()
if child == 0:
    while True:
        data, peer = server.recvfrom(64)
        arrival = time.perf_counter_ns()
        if path_rtt_s:
            time.sleep(path_rtt_s)
        departure = time.perf_counter_ns()
        server.sendto(struct.pack("=q", departure - arrival), peer)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(5)
rtts_ms = {"{server}": [], "127.0.0.1": []}
for _ in range(count):
    for address, samples in rtts_ms.items():
        start = time.perf_counter_ns()
        client.sendto(b"?", (address, 7))
        answer = client.recv(64)
        pause_ns = struct.unpack("=q", answer)[0] if len(answer) == 8 else 0
        samples.append((time.perf_counter_ns() - start - pause_ns) / 1e6)
        time.sleep(interval_s)
os.kill(child, signal.SIGKILL)
print(json.dumps([statistics.mean(samples) for samples in rtts_ms.values()]))
"""
"""Program that measures mean round-trip times in ms over the path and over loopback, on the client side.

The loopback server delays its answer by the RTT of the path. This pause is not part of the measured time.
"""

BUSY_LOOP = "while True: pass"


@dataclass(frozen=True, slots=True)
class Result:
    """Median, minimum and maximum of one quantity over the runs of a case."""

    case: str
    what: str
    """Quantity and unit."""
    median: float
    lowest: float
    highest: float
    bound: str
    """Limit that a release must keep, such as "< 0.2"; empty for none."""


def bench(times: int, on_progress: Callable[[str], None] | None = None) -> list[Result]:
    """Measure every case ``times`` times, interleaved.

    Args:
        times: number of measurements of each case.
        on_progress: called with a text before each measurement.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
        LabError: the lab could not be set up.
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
            if on_progress is not None:
                on_progress(f"{number + 1} of {times}: {name}")
            for what, value, bound in run():
                rows.setdefault((name, what), []).append(value)
                bounds[name, what] = bound
    return [
        Result(name, what, statistics.median(values), min(values), max(values), bounds[name, what])
        for (name, what), values in rows.items()
    ]


def _path(delay_ms: float, rate: str | None, pep: str | None = None) -> tuple[LabSpec, list[ProxySpec]]:
    """Return the path of one link, with a proxy and a wire behind it if ``pep`` is given, and the proxies."""
    from bentpipe.lab.access import resolve_path

    direction = {"queue": "1 BDP"} | ({} if rate is None else {"rate": rate})
    segment: dict[str, Any] = {"name": "link", "delay": f"{delay_ms} ms"}
    if rate is not None:
        segment |= {"down": direction, "up": direction}
    flow = {"name": "any", "congestion": "cubic"}
    return resolve_path({"duration": "10 s", "path": {"segment": [segment]}, "flow": [flow]}, pep=pep)


def _echo(
    delay_ms: float, rate: str | None, count: int, interval_s: float, *, busy: bool
) -> list[tuple[str, float, str]]:
    """Measure the excess of the RTT of small packets over the configured RTT.

    The time that two processes on one machine need to wake each other is not part of the path. It is measured over
    loopback and subtracted. The loopback server delays its answer by the configured RTT, so that the client sleeps
    equally long in both cases.
    """
    from bentpipe.lab.shell import run_lab

    with tempfile.TemporaryDirectory(prefix="bentpipe-bench-") as folder:
        answers = Path(folder) / "answers.json"
        load = [
            {"name": f"load{n}", "command": [sys.executable, "-c", BUSY_LOOP]}
            for n in range(2 if busy else 0)
        ]
        server = {"name": "echo", "command": [sys.executable, "-c", ECHO_SERVER], "listen_port": PORT}
        client = [sys.executable, "-c", ECHO_CLIENT, str(count), str(interval_s), str(2 * delay_ms / 1e3)]
        result = run_lab(
            {
                "lab": _path(delay_ms, rate)[0],
                "server_namespace": True,
                "services": [*load, server],
                "commands": [{"name": "client", "command": client, "output": str(answers)}],
            }
        )
        path_rtt_ms, loopback_rtt_ms = json.loads(answers.read_text(encoding="utf-8"))
    configured_ms = result["path_bounds"]["rtt_ns"] / 1e6
    excess_ms = path_rtt_ms - configured_ms - loopback_rtt_ms
    bound = "< 0.2" if configured_ms == 0 else "< 1" if busy else "< 0.3"
    return [
        ("RTT above the configured one, mean, ms", excess_ms, bound),
        ("loopback RTT, ms", loopback_rtt_ms, ""),
    ]


def _tcp(
    delay_ms: float, rate: str | None, rate_mbit_s: float | None, pep: str | None = None
) -> list[tuple[str, float, str]]:
    """Measure the goodput of one kernel TCP download and the CPU time of the emulator."""
    from bentpipe.lab.executable import executable
    from bentpipe.lab.perf import Client, Options, Output, Server, client_plan, load, server_plan
    from bentpipe.lab.process_plans import to_json
    from bentpipe.lab.shell import run_lab

    program = str(executable())
    path, proxies = _path(delay_ms, rate, pep)
    server_address = "10.78.0.1:4433"
    options, report = Options(), Output(interval="0", json=True)
    with tempfile.TemporaryDirectory(prefix="bentpipe-bench-") as folder:
        files = [Path(folder) / name for name in ("server.json", "client.json", "record")]
        server = server_plan(Server("0.0.0.0:4433", transport="tcp"), options, report)
        client = client_plan(
            Client(server_address, load(time="5 s", send="down"), transport="tcp"), options, report
        )
        files[0].write_bytes(to_json(server))
        files[1].write_bytes(to_json(client))
        result = run_lab(
            {
                "lab": path,
                "proxies": proxies,
                "server_namespace": True,
                "services": [
                    {
                        "name": "server",
                        "command": [program, "perf", str(files[0])],
                        "listen_port": 4433,
                        "output": str(Path(folder) / "server.out"),
                    }
                ],
                "commands": [
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
                    for side in ("client", "server")
                },
                "record": {"directory": str(files[2]), "interval_ns": 500_000_000},
            }
        )
        throughput = _throughput_mbit_s(files[2] / "links.csv")
        proxy_counters = [
            json.loads(file.read_text().splitlines()[-1]) for file in files[2].glob("proxy-*.jsonl")
        ]
    cores = result["cpu_s"] / result["wall_s"]
    if proxy_counters:
        (proxy,) = proxy_counters
        cpu_s_per_gb = proxy["cpu_s"] / (proxy["server_side"]["received_bytes"] / 1e9)
        return [
            ("throughput, Mbit/s", throughput, ""),
            ("proxy, CPU s per GB", cpu_s_per_gb, ""),
            ("emulator, cores", cores, ""),
        ]
    if rate_mbit_s is None:
        return [("throughput, Mbit/s", throughput, ">= 1500"), ("emulator, cores", cores, "")]
    error_percent = 100 * (throughput / rate_mbit_s - 1)
    return [("rate of a busy link, error, %", error_percent, "< 1"), ("emulator, cores", cores, "< 1.0")]


def _throughput_mbit_s(file: Path) -> float:
    """Return Mbit/s of IP packets down, measured from 2 s to 4.6 s."""
    rows = [line.split(",") for line in file.read_text(encoding="utf-8").splitlines()]
    names = ("time_s", "bytes_out", "segment", "direction")
    time_s, bytes_out, segment, direction = (rows[0].index(name) for name in names)
    points = [
        (float(row[time_s]), int(row[bytes_out]))
        for row in rows[1:]
        if (row[segment], row[direction]) == ("link", "down")
    ]
    interval = [point for point in points if 2 <= point[0] <= 4.6]
    (start_s, bytes_before), (end_s, bytes_after) = interval[0], interval[-1]
    return (bytes_after - bytes_before) * 8e-6 / (end_s - start_s)
