"""``python -m benchmarks sockets``: `bentpipe perf` over loopback, QUIC and the kernel's TCP in turn."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.lab.perf import Send

__all__ = ["CASES", "Case", "Reached", "SocketsError", "bench"]


class SocketsError(RuntimeError):
    """A run failed; the message is the program's."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case: what carries the bytes, which way, in packets of which size."""

    name: str
    transport: str
    send: Send
    mtu: str | None = None
    least_mbit_s: float | None = None
    """What a release must reach on an idle machine."""
    most_cpu: float | None = None
    """CPU seconds per 10^9 bytes and side that it may take."""


CASES = (
    Case("QUIC, mtu 1452, up", "quic", "up", None, 5000, 1.0),
    Case("QUIC, mtu 1452, down", "quic", "down", None, 5000, 1.0),
    Case("QUIC, mtu 8952, down", "quic", "down", "8952", 5000, 1.0),
    Case("kernel TCP, up", "tcp", "up"),
    Case("kernel TCP with TLS, up", "tls", "up"),
    Case("kernel TCP with TLS, down", "tls", "down"),
)


@dataclass(frozen=True, slots=True)
class Reached:
    """What a case reached; CPU seconds are per 10^9 bytes and side, medians."""

    case: str
    runs: int
    median_mbit_s: float
    lowest_mbit_s: float
    highest_mbit_s: float
    sender_cpu: float
    receiver_cpu: float
    least_mbit_s: float | None
    most_cpu: float | None


def bench(times: int, length: str = "2 s", each: Callable[[str], None] | None = None) -> list[Reached]:
    """Runs every case ``times`` times for ``length``, interleaved, each between two fresh processes.

    Raises:
        SocketsError: a run failed.
        ScenarioError: ``bentpipe-rt`` is not built.
    """
    rows: list[list[tuple[float, float, float]]] = [[] for _ in CASES]
    for number in range(times):
        for case, row in zip(CASES, rows, strict=True):
            if each is not None:
                each(f"{number + 1} of {times}: {case.name}")
            row.append(_pair(case, length))
    return [_figure(case, row) for case, row in zip(CASES, rows, strict=True)]


def _figure(case: Case, rows: Sequence[tuple[float, float, float]]) -> Reached:
    rates, senders, receivers = zip(*rows, strict=True)
    return Reached(
        case.name,
        len(rows),
        statistics.median(rates),
        min(rates),
        max(rates),
        statistics.median(senders),
        statistics.median(receivers),
        case.least_mbit_s,
        case.most_cpu,
    )


def _pair(case: Case, length: str) -> tuple[float, float, float]:
    """Mbit/s, and CPU seconds per 10^9 bytes of the sender and of the receiver."""
    from bentpipe.lab.executable import executable
    from bentpipe.lab.free_port import free_port
    from bentpipe.lab.perf import Client, Options, Output, Server, client_plan, load, server_plan
    from bentpipe.lab.process_plans import to_json

    program = str(executable())
    options, report = Options(mtu=case.mtu), Output(interval="0", json=True)
    address = f"127.0.0.1:{free_port()}"
    server = server_plan(Server(address, once=True, transport=case.transport), options, report)
    client = client_plan(
        Client(address, load(time=length, send=case.send), transport=case.transport), options, report
    )
    with tempfile.TemporaryDirectory(prefix="bentpipe-bench-") as folder:
        files = [Path(folder) / name for name in ("server.json", "client.json")]
        files[0].write_bytes(to_json(server))
        files[1].write_bytes(to_json(client))
        with subprocess.Popen([program, "perf", str(files[0])], stdout=subprocess.PIPE, text=True) as answers:
            try:
                ours = _asked([program, "perf", str(files[1])])
                told, _ = answers.communicate(timeout=10)
            finally:
                answers.kill()
    theirs: dict[str, Any] = json.loads(told.splitlines()[0])
    up = case.send == "up"
    sender, receiver = (ours, theirs) if up else (theirs, ours)
    rate = ours["up_mbit_s" if up else "down_mbit_s"]
    return float(rate), float(sender["cpu_s_per_gb"]), float(receiver["cpu_s_per_gb"])


def _asked(words: list[str]) -> dict[str, Any]:
    """The client's summary; the server may take a moment to listen."""
    end = time.monotonic() + 5
    while True:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            summary: dict[str, Any] = json.loads(done.stdout)
            return summary
        if "nothing listens there" not in done.stderr or time.monotonic() > end:
            raise SocketsError(done.stderr.strip())
        time.sleep(0.05)
