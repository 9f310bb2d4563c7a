"""Runner of browser sessions on this machine by a schedule, each in its own lab or on a real access."""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.lab.browser.privileges import browser_home, has_sandbox
from bentpipe.lab.browser.session_lab import lab_plan, unit_plan
from bentpipe.lab.browser.sessions import in_order
from bentpipe.lab.browser.spec import browser_of
from bentpipe.lab.counters import LINKS, read_series
from bentpipe.lab.emulation.runner import require_lab
from bentpipe.lab.process import remove, start_lab
from bentpipe.runners.runner import RunOutcome
from bentpipe.runners.worker_pool import Worker, collect
from bentpipe.store.codec import Measurements
from bentpipe.store.files import DiskError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bentpipe.plan.plan import Run

__all__ = ["PART", "BrowserRunner", "RemoteServer", "Schedule", "spent_bytes"]

PART = ".part-unit-"
"""Prefix of directories of active sessions in the store; the next start removes those of killed processes."""

MAX_LABS = 3
"""Maximum number of labs at a time. On two processors, three labs do not disturb each other."""

MAX_ATTEMPTS = 3
"""Maximum number of attempts of a session for which the emulator missed its deadlines."""

OVERHEAD_S = 90.0
"""Maximum time in s for the lab and the check of its path, beside the loads."""

MIN_FREE_BYTES = 1 << 16
"""Minimum free space: the record of a session has about 20 kB, beside its log."""

BROWSER_OVERHEAD_S = 60.0
"""Maximum time in s for a browser to start and to end, by the limits of its driver."""


@dataclass(frozen=True)
class Schedule:
    """Times at which sessions may start."""

    every_s: float = 0.0
    """Minimum interval between two starts, in s."""
    hours: tuple[float, float] | None = None
    """First and last hour of the local day; the period includes midnight if the first is later."""
    quota_bytes: int | None = None
    """Quota for IP packets in both directions, over all sessions of the store."""

    def wait(self, now: datetime.datetime, last_s: float | None, monotonic_s: float) -> float:
        """Return the time until the next session may start, in s."""
        wait = 0.0 if last_s is None else max(0.0, last_s + self.every_s - monotonic_s)
        if self.hours is None:
            return wait
        then = now + datetime.timedelta(seconds=wait)
        low, high = self.hours
        hour = then.hour + then.minute / 60 + then.second / 3600
        inside = low <= hour < high if low <= high else hour >= low or hour < high
        return wait if inside else wait + ((low - hour) % 24) * 3600


@dataclass(frozen=True)
class RemoteServer:
    """Address and key of a real server."""

    host: str
    address: str
    port: int
    spki: str | None
    name: str | None


def spent_bytes(store: Path) -> int:
    """Return the bytes captured at the client in the finished sessions of a store."""
    total = 0
    for file in store.glob("runs/*/unit.json"):
        with contextlib.suppress(OSError, ValueError):
            total += int(json.loads(file.read_text(encoding="utf-8")).get("capture", {}).get("bytes", 0))
    return total


@dataclass
class BrowserRunner:
    """Runner of browser sessions; ``store`` contains their working directories."""

    store: Path
    engine: str
    chromium: Path
    executable: Path | None
    """Path of ``bentpipe-rt``; None on a real access."""
    far: RemoteServer | None = None
    """Server on a real access."""
    labs: int = 1
    check: bool = True
    keep_invalid: bool = False
    """True to save sessions for which the emulator missed its deadlines."""
    due: Schedule = field(default_factory=Schedule)
    notes: dict[str, Any] = field(default_factory=dict)
    """Notes of the user, such as weather, saved with every session."""
    on_message: Callable[[str], None] = lambda _: None
    """Callback for messages about waiting."""
    sandbox: bool = field(default_factory=has_sandbox)
    """True if the sandbox of Chromium is on."""
    stopped: str = ""
    """Reason for which no further sessions start."""

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Yield outcomes of sessions as they end. Closing the iterator ends the active sessions."""
        self._waiting = iter(in_order(runs))
        self._gate = threading.Lock()
        self._last: float | None = None
        self._spent = spent_bytes(self.store)
        return collect([_SessionThread(self) for _ in range(min(self.labs, len(runs)))], self.next)

    def next(self, stopping: threading.Event) -> Run | None:
        """Wait for the start time of the next session and return it; None if no further session may start."""
        with self._gate:
            if self.due.quota_bytes is not None and self._spent >= self.due.quota_bytes:
                spent, quota = self._spent / 1e6, self.due.quota_bytes / 1e6
                self.stopped = f"quota exceeded: {spent:,.1f} MB of {quota:,.1f} MB"
                return None
            run = next(self._waiting, None)
            if run is None:
                return None
            while not stopping.is_set():
                now = datetime.datetime.now().astimezone()
                seconds = self.due.wait(now, self._last, time.monotonic())
                if seconds <= 0:
                    self._last = time.monotonic()
                    return run
                if seconds > 2:
                    self.on_message(f"next session at {(now + datetime.timedelta(seconds=seconds)):%H:%M:%S}")
                stopping.wait(min(seconds, 60.0))
            return None

    def count(self, size: int) -> None:
        """Add the bytes of a session to the used quota."""
        with self._gate:
            self._spent += size


class _SessionThread(Worker):
    """Thread that runs one session at a time."""

    def __init__(self, runner: BrowserRunner) -> None:
        self.runner = runner
        self.stopping = False
        self.process: subprocess.Popen[bytes] | None = None
        self.lock = threading.Lock()

    def make(self, run: Run) -> RunOutcome:
        """Run a session, and repeat it if the emulator missed its deadlines."""
        start = time.perf_counter()
        found: Measurements | None = None
        error, attempts, invalid = "", 0, False
        facts: dict[str, Any] = {}
        while attempts < MAX_ATTEMPTS:
            attempts += 1
            found, error, facts = self._attempt(run)
            invalid = found is not None and not facts["valid"] and not self.runner.keep_invalid
            if not invalid or self.stopping:
                break
            found, error = (
                None,
                f"the lab missed its deadlines: {facts['reasons'][0]}; --keep-invalid keeps such sessions",
            )
        facts["attempts"] = attempts
        seconds = time.perf_counter() - start
        return RunOutcome(
            run,
            found,
            error,
            seconds,
            retried=attempts > 1,
            invalid=invalid and found is None,
            facts=facts,
        )

    def _attempt(self, run: Run) -> tuple[Measurements | None, str, dict[str, Any]]:
        """Run a session once and return its measurements, error and facts for the journal."""
        folder = (self.runner.store / f"{PART}{run.id}").absolute()
        home = browser_home("bentpipe-browse-")
        shutil.rmtree(folder, ignore_errors=True)
        with ExitStack() as stack:
            process_error = self._run_process(run, folder, home, stack)
            found, error = self._read_result(run, folder, process_error)
            unit = _json(folder / "unit.json")
            lab = _json(folder / "lab.json")
        facts = {"chromium": unit.get("chromium"), "cpu": unit.get("cpu"), "valid": lab.get("valid", True)}
        facts |= {key: lab[key] for key in ("reasons", "check", "links") if key in lab}
        return found, error, facts

    def _run_process(self, run: Run, folder: Path, home: Path, stack: ExitStack) -> str:
        """Run the process of a session to its end and return its error, empty for none.

        ``folder`` and ``home`` exist until the end of ``stack``.
        """
        log = stack.enter_context(os.fdopen(os.memfd_create("bentpipe-unit"), "r+b"))
        paths = os.pathsep.join(path for path in sys.path if path)
        # A separate POSIX session: only the coordinator handles Ctrl-C of the terminal.
        process_options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True,
            "env": {**os.environ, "PYTHONPATH": paths},
        }  # fmt: skip
        seconds = _timeout_s(run)
        with self.lock:
            if self.stopping:
                return "stopped"
            self.process = process = self._start_process(run, folder, home, stack, process_options)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._end()
            return f"the session did not end within {seconds:.0f} s and was killed"
        finally:
            with self.lock:
                self.process = None
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
        return (
            "" if status == 0 else (lines[-1].removeprefix("error: ") if lines else f"exit status {status}")
        )

    def _start_process(
        self, run: Run, folder: Path, home: Path, stack: ExitStack, process_options: Mapping[str, Any]
    ) -> subprocess.Popen[bytes]:
        """Start the lab of a session, or its process on a real access."""
        runner = self.runner
        if runner.executable is not None:
            lab = stack.enter_context(start_lab(runner.executable, [folder, home], **process_options))
            lab.send(
                lab_plan(
                    run,
                    folder,
                    home,
                    runner.chromium,
                    runner.executable,
                    check=runner.check,
                    sandbox=runner.sandbox,
                )
            )
            return lab.process
        far = runner.far
        if far is None:
            raise ValueError("neither a lab nor a server")
        for one in (folder, home):
            stack.callback(remove, one)
            one.mkdir(mode=0o700)
        plan = unit_plan(
            run, folder, home, far.address, port=far.port, spki=far.spki, ready=None, name=far.name,
            program=runner.chromium, sandbox=runner.sandbox,
        )  # fmt: skip
        file = folder / "plan.json"
        file.write_text(json.dumps(plan), encoding="utf-8")
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "bentpipe.lab.browser.session_process", str(file)], **process_options
        )

    def _read_result(self, run: Run, folder: Path, process_error: str) -> tuple[Measurements | None, str]:
        from bentpipe.lab.browser.tables import measurements

        unit = _json(folder / "unit.json")
        # On a full disk, a session cannot write its record or log.
        full = not unit and shutil.disk_usage(self.runner.store).free < MIN_FREE_BYTES
        if full or os.strerror(errno.ENOSPC) in unit.get("error", ""):
            count = sum(1 for _ in self.runner.store.glob("runs/*"))
            units = "1 finished session is" if count == 1 else f"{count} finished sessions are"
            raise DiskError(
                f"{self.runner.store}: the disk is full; {units} saved; rerun the command to resume"
            )
        if not unit:
            if process_error and self.runner.executable is not None and not _json(folder / "lab.json"):
                require_lab(run)
            return None, _last_line(folder / "unit.log") or process_error or "the session left no record"
        self.runner.count(int(unit.get("capture", {}).get("bytes", 0)))
        if unit["error"] or process_error:
            return None, unit["error"] or process_error
        unit["lab"] = _json(folder / "lab.json")
        unit["notes"] = self.runner.notes
        capture = folder / "client.pcapng"
        data = capture.read_bytes() if capture.exists() else b""
        record = folder / "links"
        series = read_series(record, unit["lab"]) if (record / LINKS).is_file() else None
        found = measurements(run, unit, data, series, self.runner.engine)
        files = {file.name: file.read_bytes() for file in sorted(folder.glob("load-*"))}
        if data:
            files[capture.name] = data
        files |= {file.name: file.read_bytes() for file in sorted(record.glob("*"))}
        files["unit.json"] = json.dumps(unit, ensure_ascii=False).encode()
        return Measurements(found.engine, found.tables, files, found.packets, 0), ""

    def _end(self) -> None:
        process = self.process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End the active session with its browser and the namespaces and processes of its lab."""
        with self.lock:
            self.stopping = True
            process = self.process
        if process is not None:
            self._end()


def _timeout_s(run: Run) -> float:
    browser = browser_of(run.spec)
    loads = browser["loads"]
    return float(OVERHEAD_S + loads * (browser["timeout_s"] + BROWSER_OVERHEAD_S + browser["pause_s"][1]))


def _json(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _last_line(file: Path) -> str:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
