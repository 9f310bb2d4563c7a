"""Process of a session on the client side: ``python -m bentpipe.lab.browser.session_process PLAN [ADDRESS]``.

PLAN is the JSON of a :class:`Plan`. ADDRESS is that of the server, if the plan does not have it. The output files are
in the directory of the plan: ``unit.json``, ``load-N.har``, ``load-N.netlog.json``, ``client.pcapng`` and
``chromium.log``. The exit status is 0 on success. It is 1 on failure, and ``unit.json`` has the reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bentpipe.interrupts import defer_import
from bentpipe.lab.browser import chromium, har_export
from bentpipe.lab.browser.capture import Capture, CaptureError, interface_to
from bentpipe.lab.browser.chromium import ChromiumError, Site
from bentpipe.lab.browser.load import SETTLE_S, Load, Wanted, load
from bentpipe.lab.browser.privileges import give, prepare, take_file

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["PROTOCOLS", "Plan", "main"]

PROTOCOLS = {"3": "h3", "2": "h2", "1.1": "http/1.1"}
"""Protocol (nextHopProtocol) of requests, for modes that force one."""

READY_S = 10.0
"""Timeout in s for the first line of the server."""

_DEATH_SIGNAL, _SUBREAPER = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, linux/prctl.h


@dataclass
class Plan:
    """Plan of a session."""

    directory: str
    home: str
    """Directory for the browser, which the parent process creates and removes."""
    mode: str
    """One of :data:`bentpipe.lab.browser.chromium.MODES`."""
    hosts: dict[str, str]
    """Names and addresses of the hosts of the page; that of the document is the first."""
    port: int
    url: str
    spki: str | None = None
    ready: str | None = None
    """File with the first line of the server, which has the port and the key."""
    plain: list[str] = field(default_factory=list)
    """Hosts without TLS."""
    opened: list[str] = field(default_factory=list)
    """Hosts to which a connection is opened before each load."""
    loads: int = 3
    pauses_s: list[float] = field(default_factory=list)
    """Pauses between loads in s, one fewer than loads."""
    profile: str = "reused"
    timeout_s: float = 300.0
    netlog: bool = False
    sandbox: bool = False
    tls12: bool = False
    """True if TLS 1.2 is the latest version that the browser offers."""
    chromium: str = ""


class UnitError(RuntimeError):
    """Failure of a session, with a message for the user."""


def main(words: list[str]) -> int:
    """Run the session of the plan that the arguments name."""
    _end_with_parent()
    plan = Plan(**json.loads(Path(words[0]).read_text(encoding="utf-8")))
    if len(words) > 1:
        plan.hosts = dict.fromkeys(plan.hosts, words[1])
    record: dict[str, Any] = {"mode": plan.mode, "url": plan.url, "error": "", "loads": []}
    status = 0
    try:
        _make(plan, record)
    except (UnitError, ChromiumError) as error:
        record["error"], status = str(error), 1
    except OSError as error:
        record["error"], status = f"{error.filename or plan.directory}: {error.strerror}", 1
    finally:
        _end_children()
    try:
        Path(plan.directory, "unit.json").write_text(json.dumps(record), encoding="utf-8")
    except OSError as error:
        print(f"error: {plan.directory}: {error.strerror}", file=sys.stderr)
        return 1
    return status


def _end_with_parent() -> None:
    """End with the parent process, adopt orphans of the browser, and raise an error on signals."""
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    library.prctl(_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _handle_signal)


def _handle_signal(number: int, frame: FrameType | None) -> None:
    if defer_import(number, frame):
        return
    signal.signal(number, signal.SIG_IGN)
    raise UnitError("interrupted")


def _end_children() -> None:
    for _ in range(100):
        left = chromium.children()
        if not left:
            return
        for child in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _make(plan: Plan, record: dict[str, Any]) -> None:
    folder = Path(plan.directory)
    program = Path(plan.chromium) if plan.chromium else chromium.find()
    record["chromium"] = chromium.version(program)
    port, spki = (plan.port, plan.spki) if plan.ready is None else _read_server(Path(plan.ready))
    site = Site(plan.hosts, port, spki, frozenset(plan.plain))
    wanted = Wanted(plan.url, plan.mode, site, tuple(plan.opened), plan.timeout_s, plan.tls12)
    address = next(iter(plan.hosts.values()))
    record |= {
        "port": port,
        "addresses": sorted(set(plan.hosts.values())),
        "began_s": time.time(),
        "began_monotonic_s": time.monotonic(),
    }
    with contextlib.ExitStack() as stack:
        monitor = stack.enter_context(_CpuMonitor())
        capture = _start_capture(address, folder, record)
        try:
            _loads(plan, program, wanted, Path(plan.home), record)
        finally:
            record["ended_s"] = time.time()
            record["cpu"] = monitor.summary()
            if capture is not None:
                capture.__exit__(None, None, None)
                counts = {"packets": capture.packets, "bytes": capture.bytes, "missed": capture.missed}
                record["capture"] |= counts | ({"error": capture.error} if capture.error else {})
    _check_protocols(plan, record)


def _read_server(file: Path) -> tuple[int, str]:
    """Return the port and key of the server in the lab, from its first line."""
    until = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            first_line = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
            return int(first_line["port"]), str(first_line["spki"])
        if time.monotonic() > until:
            raise UnitError(f"the server did not report its address within {READY_S:g} s")
        time.sleep(0.01)


def _start_capture(address: str, folder: Path, record: dict[str, Any]) -> Capture | None:
    """Start the capture. Without permission, record the error and continue."""
    try:
        interface, local = interface_to(address)
        found = Capture(interface, folder / "client.pcapng")
    except CaptureError as error:
        if _unreachable(error):
            raise UnitError(str(error)) from None
        record["capture"] = {"error": str(error)}
        return None
    record["capture"] = {"interface": interface, "address": local}
    found.start()
    return found


def _unreachable(error: CaptureError) -> bool:
    """Return True if no route to the server exists, so that every load would fail."""
    return str(error).startswith("no way")


def _loads(plan: Plan, program: Path, wanted: Wanted, home: Path, record: dict[str, Any]) -> None:
    folder = Path(plan.directory)
    temporary = prepare(home)
    chromium.stay(str(temporary))
    profile = _profile(home)
    for number in range(1, plan.loads + 1):
        if number > 1:
            # The pause includes the settling time of the next browser.
            time.sleep(max(0.0, plan.pauses_s[number - 2] - SETTLE_S))
            if plan.profile == "fresh":
                shutil.rmtree(profile)
                profile = _profile(home)
        netlog = temporary / f"load-{number}.netlog.json" if plan.netlog else None
        done = load(program, wanted, profile, folder / "chromium.log", sandbox=plan.sandbox, netlog=netlog)
        if netlog is not None and take_file(netlog, folder / netlog.name):
            netlog.unlink()
        record["loads"].append(_record(done, number))
        content = har_export.archive(number, done.events, done.timings, record["chromium"])
        (folder / f"load-{number}.har").write_text(json.dumps(content), encoding="utf-8")
        if done.error.startswith("net::"):
            raise UnitError(f"load {number}: {plan.url}: {chromium.meaning(done.error)}")


def _profile(home: Path) -> Path:
    """Create an empty profile that the browser owns."""
    profile = chromium.new_profile(home)
    give(profile)
    return profile


def _record(done: Load, number: int) -> dict[str, Any]:
    found = har_export.requests(done.events)
    offset = har_export.clock_offset(found, done.timings)
    return {
        "load": number, "finished": done.finished, "error": done.error, "start_s": done.start_s, "wall": done.wall,
        "quit_by_itself": done.quit_by_itself, "timings": done.timings,
        "progress": har_export.progress(done.events, offset),
        "requests": [har_export.row(request, offset) for request in found],
    }  # fmt: skip


def _check_protocols(plan: Plan, record: dict[str, Any]) -> None:
    """Check the protocol of every request, in the network events and in the timings."""
    expected = PROTOCOLS.get(plan.mode)
    for load_record in record["loads"]:
        timings = load_record["timings"]
        protocols = [
            (request["url"], request["protocol"]) for request in load_record["requests"] if request["status"]
        ]
        entries = [timings.get("navigation") or {}, *timings.get("resources", [])]
        protocols += [(entry.get("name", ""), entry.get("nextHopProtocol", "")) for entry in entries]
        for url, protocol in protocols:
            if expected is not None and protocol and url.startswith("https:") and protocol != expected:
                raise UnitError(f"load {load_record['load']}: {url} used {protocol}, expected {expected}")
    if record["loads"] and not any(load_record["finished"] for load_record in record["loads"]):
        raise UnitError(f"no load of {plan.url} finished: {record['loads'][0]['error']}")


class _CpuMonitor(threading.Thread):
    """Thread that measures the utilisation of all processors twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.shares: list[float] = []

    def run(self) -> None:
        before = _ticks()
        while not self.stopping.wait(0.5):
            now = _ticks()
            total = now[1] - before[1]
            if total > 0:
                self.shares.append((now[0] - before[0]) / total)
            before = now

    def summary(self) -> dict[str, float | int | None]:
        mean = sum(self.shares) / len(self.shares) if self.shares else None
        return {"busy_mean": mean, "busy_max": max(self.shares, default=None), "processors": os.cpu_count()}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.join(2)


def _ticks() -> tuple[int, int]:
    """Return busy and total ticks of all processors (proc(5))."""
    words = [
        int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    ]
    return sum(words) - words[3] - words[4], sum(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
