"""Benchmark ``sockets``: ``bentpipe perf`` over loopback, QUIC and kernel TCP in turn."""

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

__all__ = ["CASES", "Case", "Result", "SocketsError", "bench"]


class SocketsError(RuntimeError):
    """Failure of a run, with the message of the program."""


@dataclass(frozen=True, slots=True)
class Case:
    """Transport, direction and packet size of a transfer, and the limits of a release."""

    name: str
    transport: str
    send: Send
    mtu: str | None = None
    least_mbit_s: float | None = None
    """Minimum goodput on an idle machine."""
    most_cpu: float | None = None
    """Maximum CPU seconds per 10^9 bytes and side."""


CASES = (
    Case("QUIC, mtu 1452, up", "quic", "up", None, 5000, 1.0),
    Case("QUIC, mtu 1452, down", "quic", "down", None, 5000, 1.0),
    Case("QUIC, mtu 8952, down", "quic", "down", "8952", 5000, 1.0),
    Case("kernel TCP, up", "tcp", "up"),
    Case("kernel TCP with TLS, up", "tls", "up"),
    Case("kernel TCP with TLS, down", "tls", "down"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a case; CPU seconds are medians per 10^9 bytes and side."""

    case: str
    runs: int
    median_mbit_s: float
    lowest_mbit_s: float
    highest_mbit_s: float
    sender_cpu: float
    receiver_cpu: float
    least_mbit_s: float | None
    most_cpu: float | None


def bench(times: int, length: str = "2 s", on_progress: Callable[[str], None] | None = None) -> list[Result]:
    """Run every case ``times`` times, interleaved, each between two fresh processes.

    Args:
        times: number of measurements of each case.
        length: duration of a transfer, such as ``"2 s"``.
        on_progress: called with a text before each measurement.

    Raises:
        SocketsError: a run failed.
        ScenarioError: ``bentpipe-rt`` is not built.
    """
    rows: list[list[tuple[float, float, float]]] = [[] for _ in CASES]
    for number in range(times):
        for case, row in zip(CASES, rows, strict=True):
            if on_progress is not None:
                on_progress(f"{number + 1} of {times}: {case.name}")
            row.append(_measure(case, length))
    return [_result(case, row) for case, row in zip(CASES, rows, strict=True)]


def _result(case: Case, rows: Sequence[tuple[float, float, float]]) -> Result:
    rates, senders, receivers = zip(*rows, strict=True)
    return Result(
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


def _measure(case: Case, length: str) -> tuple[float, float, float]:
    """Return Mbit/s, and CPU seconds per 10^9 bytes of the sender and of the receiver."""
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
        with subprocess.Popen([program, "perf", str(files[0])], stdout=subprocess.PIPE, text=True) as process:
            try:
                client_summary = _run_client([program, "perf", str(files[1])])
                output, _ = process.communicate(timeout=10)
            finally:
                process.kill()
    server_summary: dict[str, Any] = json.loads(output.splitlines()[0])
    up = case.send == "up"
    sender, receiver = (client_summary, server_summary) if up else (server_summary, client_summary)
    rate = client_summary["up_mbit_s" if up else "down_mbit_s"]
    return float(rate), float(sender["cpu_s_per_gb"]), float(receiver["cpu_s_per_gb"])


def _run_client(command: list[str]) -> dict[str, Any]:
    """Return the summary of the client. Retry for 5 s until the server listens."""
    deadline = time.monotonic() + 5
    while True:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode == 0:
            summary: dict[str, Any] = json.loads(process.stdout)
            return summary
        if "connection refused" not in process.stderr or time.monotonic() > deadline:
            raise SocketsError(process.stderr.strip())
        time.sleep(0.05)
