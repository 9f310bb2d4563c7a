"""Emulated runs: each is a lab of ``bentpipe-rt``, and its measurements have the simulator's tables.

A lab is namespaces at the emulated path with real programs in them (docs/how-to/compare-engines.md). A lab that missed
its deadlines is repeated at most twice, then the run is invalid: an overloaded host gives no results.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.lab.counters import read_series
from bentpipe.lab.emulation.build import RunLab, lab_plan, round_trips_ns
from bentpipe.lab.emulation.bundle_tables import BundleFlow, NodeEndedError, read_nodes
from bentpipe.lab.emulation.call_tables import CallFlow, read_result
from bentpipe.lab.emulation.perf_stream import read_frames
from bentpipe.lab.emulation.tables import NothingSentError, PerfFlow, build_measurements, first_start
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.lab.process import LabProcess, folder_name, start_lab
from bentpipe.lab.requirements import first_missing
from bentpipe.plan.network.graph import proxy_keys
from bentpipe.runners.runner import RunnerError, RunOutcome
from bentpipe.runners.worker_pool import Worker, collect, dispatch
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.plan import Plan, Run
    from bentpipe.store.codec import Measurements

__all__ = ["ENGINE", "EmulationRunner", "check", "engine_version", "require_lab"]

ENGINE = "emu"
"""Name of the engine."""
MAX_ATTEMPTS = 3
"""Maximum number of attempts of a run whose lab missed its deadlines."""

NICENESS = -15
"""Niceness of a lab and its processes if the user may set it but not a real-time priority."""

LATE_RTT_RATIO, MIN_TOLERANCE_NS = 0.02, 1_000_000
"""Tolerance of a process that measures at fixed times: a ratio of the path's RTT, and a minimum in ns.

The process is on time if it wakes up within the tolerance at 95 % of these times. At a missed time it is as
late as its next wake-up."""

LAB_OVERHEAD_S = 60.0
"""Maximum time of a lab beside the duration of its run, s: namespaces, path check, handshakes of servers."""


def engine_version(version: str) -> str:
    """Return the version of the emulation engine.

    It is part of the id of a run, so that stores of both engines do not mix.
    """
    return f"{version}-{ENGINE}"


def check(plan: Plan, catalogue: Sequence[Mapping[str, Any]]) -> None:
    """Check that emulation supports all keys of ``plan``.

    Raises:
        ScenarioError: unsupported keys.
    """
    problems: dict[tuple[str, str], None] = {}
    for cell in plan.cells:
        unsupported = refusals(cell.resolved.spec, catalogue, proxies=proxy_keys(cell.scenario))
        problems |= dict.fromkeys(unsupported)
    if problems:
        problems_of_engine = [(key, f"in emulation: {text}") for key, text in problems]
        raise ScenarioError(problems_of_engine, plan.document.name)


class EmulationRunner:
    """Runner of labs on this host."""

    def __init__(self, program: Path, version: str, jobs: int | None = None) -> None:
        """Create a runner.

        Args:
            program: path of ``bentpipe-rt``.
            version: version of the engine.
            jobs: number of simultaneous labs (default: 1).
        """
        self.program = program
        self.version = engine_version(version)
        self.jobs = jobs or 1

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Yield the outcomes as they are ready; to close the iterator ends the labs."""
        workers = [_Lab(self) for _ in range(min(self.jobs, len(runs)))]
        return collect(workers, dispatch(runs))


@dataclass(frozen=True)
class _Attempt:
    """Measurements of one lab, or the reason for their absence."""

    data: Measurements | None
    error: str
    invalid: bool
    """The lab missed its deadlines; another attempt may succeed."""
    facts: dict[str, Any]


class _Lab(Worker):
    """Worker with one lab at a time."""

    def __init__(self, runner: EmulationRunner) -> None:
        self.runner = runner
        self.stopping = False
        self.lab: LabProcess | None = None
        self.lock = threading.Lock()

    def make(self, run: Run) -> RunOutcome:
        """Run ``run``; repeat it while the lab misses its deadlines."""
        started = time.perf_counter()
        result = _Attempt(None, "stopped", False, {})
        attempts = 0
        while attempts < MAX_ATTEMPTS and not self.stopping:
            attempts += 1
            result = self._attempt(run)
            if not result.invalid:
                break
        error = result.error
        if result.invalid:
            error = f"the emulator missed its deadlines in all {attempts} attempts: {result.error}"
        facts = {**result.facts, "attempts": attempts}
        seconds = time.perf_counter() - started
        return RunOutcome(
            run, result.data, error, seconds, retried=attempts > 1, invalid=result.invalid, facts=facts
        )

    def _attempt(self, run: Run) -> _Attempt:
        try:
            return self._run_lab(run)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise _disk_full_error() from error
            raise

    def _run_lab(self, run: Run) -> _Attempt:
        """Run a lab to its end."""
        folder = folder_name("bentpipe-lab-")
        with ExitStack() as stack:
            log = stack.enter_context(os.fdopen(os.memfd_create("bentpipe-lab"), "r+b"))
            with self.lock:
                if self.stopping:
                    return _Attempt(None, "stopped", False, {})
                # A new session, so that only the coordinator handles Ctrl-C at the terminal.
                self.lab = lab = stack.enter_context(start_lab(
                    self.runner.program, [folder],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                ))  # fmt: skip
            _raise_priority(lab.process.pid)
            plan = lab_plan(run.spec, folder, str(self.runner.program))
            lab.send(plan.plan)
            try:
                status = lab.process.wait(timeout=float(run.spec["duration_ns"]) / 1e9 + LAB_OVERHEAD_S)
            except subprocess.TimeoutExpired:
                lab.end()
                late = f"the lab did not end within {LAB_OVERHEAD_S:.0f} s after the run"
                return self._read_measurements(run, plan, -signal.SIGKILL, late)
            finally:
                with self.lock:
                    self.lab = None
            log.seek(0)
            output = log.read().decode(errors="replace").strip()
            return self._read_measurements(run, plan, status, output)

    def _read_measurements(self, run: Run, plan: RunLab, status: int, output: str) -> _Attempt:
        """Return the measurements of a lab that has ended.

        Args:
            run: the run.
            plan: its lab.
            status: exit status of the lab.
            output: messages of the lab.
        """
        try:
            result = json.loads(plan.result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            if status == NOT_STARTED:
                # This check precedes that of the disk: the kernel also returns ENOSPC for a limit of namespaces.
                require_lab(run)
            _require_disk_space(output)
            lines = output.splitlines() or [f"exit status {status}"]
            return _Attempt(None, f"the lab failed: {lines[-1]}", False, {})
        # After a failed write the measurements are incomplete, so that there is no result.
        _require_disk_space("\n".join([output, str(result.get("record_error", "")), *_errors(plan).values()]))
        facts = {key: value for key, value in result.items() if key != "statuses"}
        nodes = read_nodes(plan.nodes)
        flows = _flows(run, plan)
        late_ns = max([_lateness(flows), *nodes.late_ns()])
        facts["processes_lateness_p95_ms"] = late_ns / 1e6
        reasons = list(result.get("reasons", []))
        tolerance_ns = max(MIN_TOLERANCE_NS, round(LATE_RTT_RATIO * min(round_trips_ns(run.spec))))
        if late_ns > tolerance_ns:
            reasons.append(f"a process of the flows was late by {late_ns / 1e6:.1f} ms (95 % of its ticks must "
                           f"be within {tolerance_ns / 1e6:.1f} ms)")  # fmt: skip
        if reasons or not result.get("valid", False):
            return _Attempt(None, "; ".join(reasons) or "not valid", True, facts)
        failed = [
            name for name, status in result.get("statuses", {}).items() if status and ".server" not in name
        ]
        try:
            series = read_series(plan.record, result)
            nodes.check()
            # Flows between bundle nodes follow the other flows.
            bundle_flows = [BundleFlow(flow, nodes) for flow in run.spec["flows"][len(flows) :]]
            start_ns = int(result["started_ns"]) if bundle_flows else None
            data = build_measurements(
                self.runner.version, run.spec, [*flows, *bundle_flows], series, start_ns
            )
            if not bundle_flows and "started_ns" in result:
                # The time of the path, which channels follow, starts before the first process.
                facts["flows_after_ms"] = (first_start(flows) - int(result["started_ns"])) / 1e6
            return _Attempt(data, "", False, facts)
        except (NothingSentError, NodeEndedError) as error:
            reason = _last_error(plan, failed)
            return _Attempt(None, f"{error}{reason}", False, facts)

    def stop(self) -> None:
        """End the lab at any time; its namespaces and processes end with it."""
        with self.lock:
            self.stopping = True
            lab = self.lab
        if lab is not None:
            lab.end()


NOT_STARTED = 2
"""Exit status of a lab that could not start."""


def require_lab(run: Run) -> None:
    """Check that this host can run the lab of ``run``; without it, all other runs would fail too.

    Raises:
        RunnerError: a requirement is missing.
    """
    if missing := first_missing(proxies=bool(run.spec.get("proxies"))):
        raise RunnerError("; ".join(missing))


def _require_disk_space(output: str) -> None:
    """Check that no message of a lab reports a full disk; with it, all other runs would fail too.

    Raises:
        OSError: the disk is full.
    """
    if os.strerror(errno.ENOSPC) in output:
        raise _disk_full_error()


def _disk_full_error() -> OSError:
    message = "the disk is full; finished runs are saved, rerun the command to resume"
    return OSError(errno.ENOSPC, message, tempfile.gettempdir())


def _raise_priority(process: int) -> None:
    """Give a lab priority: by the real-time scheduler as root, else by its niceness, else not at all.

    The kernel reserves 5 % of each processor for other processes (sched_rt_runtime_us).
    """
    try:
        os.sched_setscheduler(process, os.SCHED_RR, os.sched_param(1))
    except OSError:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process, NICENESS)


def _flows(run: Run, plan: RunLab) -> list[PerfFlow | CallFlow]:
    found: list[PerfFlow | CallFlow] = []
    for flow, files in zip(run.spec["flows"], plan.flows, strict=False):
        load, transport = flow["load"], flow["transport"]
        if load["kind"] == "datagrams" and transport["kind"] == "udp":
            result = read_result(files.clients[0].frames)
            found.append(CallFlow(flow["name"], load, transport["header_bytes"], result))
            continue
        names = (flow["client_congestion"]["name"], flow["server_congestion"]["name"])
        clients = tuple(read_frames(client.frames) for client in files.clients)
        starts = tuple(client.start_ns for client in files.clients)
        found.append(PerfFlow(flow["name"], names, starts, clients, read_frames(files.server)))
    return found


def _lateness(flows: Sequence[PerfFlow | CallFlow]) -> int:
    """Return the maximum over the processes of the 95th percentile of lateness, missed ticks included, ns."""
    worst = 0
    for flow in flows:
        if isinstance(flow, CallFlow):
            worst = max([worst, *flow.late_ns()])
            continue
        for frames in (*flow.clients, flow.server):
            late = sorted(frames.late_ns())
            if late:
                worst = max(worst, late[int(0.95 * (len(late) - 1))])
    return worst


def _last_error(plan: RunLab, names: Sequence[str]) -> str:
    """Return the last message of the first failed process that wrote one."""
    errors = _errors(plan)
    for name in (*names, *errors):
        lines = [line for line in errors.get(name, "").split("\n") if line.strip()]
        if lines:
            return f": {name}: {lines[-1]}"
    return ""


def _errors(plan: RunLab) -> dict[str, str]:
    """Return the standard error of the processes of a lab, by name."""
    errors = {}
    for process in (*plan.plan["commands"], *plan.plan.get("services", ())):
        if (file := process.get("errors")) is not None:
            with contextlib.suppress(OSError):
                errors[process["name"]] = Path(file).read_text(encoding="utf-8", errors="replace")
    return errors
