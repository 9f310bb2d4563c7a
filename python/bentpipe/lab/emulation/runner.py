"""Runs in real time: each a lab of ``bentpipe-rt``, its measurements in the simulator's tables.

A lab is namespaces behind the emulated path with real programs in them (docs/manual/agree.md). One that the machine was
too late for is run again, at most twice, and then fails: what a slow machine measures is no result.
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
from bentpipe.lab.emulation.bundle_tables import Linked, NodeEnded, read_nodes
from bentpipe.lab.emulation.call_tables import Called, read_told
from bentpipe.lab.emulation.perf_stream import read_frames
from bentpipe.lab.emulation.tables import Flow, NothingSent, first_start, measurements
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

__all__ = ["ENGINE", "EmulationRunner", "check", "engine_version", "refuse_without"]

ENGINE = "emu"
TRIES = 3
"""A run whose machine was too late is tried again twice."""

NICENESS = -15
"""Of a lab and its processes, where the user may give it and not more: other work on the machine waits."""

LATE_PART, LATE_LEAST_NS = 0.02, 1_000_000
"""A process that measures wakes at set instants. It was on time if it was up for 95 % of them no later than this part
of the path's round trip, or than this; one that it slept through is as late as its next wake-up."""

PATIENCE_S = 60.0
"""Longest time that a lab may take beside its run's own: namespaces, the check of the path, handshakes of servers."""


def engine_version(version: str) -> str:
    """The engine's version in real time: part of every run's id, so that stores of the two do not mix."""
    return f"{version}-{ENGINE}"


def check(plan: Plan, catalogue: Sequence[Mapping[str, Any]]) -> None:
    """Raises ScenarioError with every key of ``plan`` that real time cannot have."""
    problems: dict[tuple[str, str], None] = {}
    for cell in plan.cells:
        found = refusals(cell.resolved.spec, catalogue, proxies=proxy_keys(cell.scenario))
        problems |= dict.fromkeys(found)
    if problems:
        said = [(key, f"in real time: {text}") for key, text in problems]
        raise ScenarioError(said, plan.document.name)


class EmulationRunner:
    """Labs on this machine."""

    def __init__(self, program: Path, version: str, jobs: int | None = None) -> None:
        """``program`` is ``bentpipe-rt``, ``version`` the engine's, ``jobs`` labs at a time (default: 1)."""
        self.program = program
        self.version = engine_version(version)
        self.jobs = jobs or 1

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Outcomes as they come. Closing the iterator ends the labs."""
        hands = [_Lab(self) for _ in range(min(self.jobs, len(runs)))]
        return collect(hands, dispatch(runs))


@dataclass(frozen=True)
class _Attempt:
    """One lab: measurements, or why there are none."""

    data: Measurements | None
    error: str
    late: bool
    """The machine was too late; another attempt may do better."""
    facts: dict[str, Any]


class _Lab(Worker):
    """One lab at a time."""

    def __init__(self, runner: EmulationRunner) -> None:
        self.runner = runner
        self.stopping = False
        self.lab: LabProcess | None = None
        self.lock = threading.Lock()

    def make(self, run: Run) -> RunOutcome:
        """Tries as often as the machine is too late."""
        began = time.perf_counter()
        found = _Attempt(None, "stopped", False, {})
        attempts = 0
        while attempts < TRIES and not self.stopping:
            attempts += 1
            found = self._attempt(run)
            if not found.late:
                break
        error = found.error
        if found.late:
            error = f"the machine was too late in each of {attempts} attempts: {found.error}"
        facts = {**found.facts, "attempts": attempts}
        seconds = time.perf_counter() - began
        return RunOutcome(run, found.data, error, seconds, retried=attempts > 1, late=found.late, facts=facts)

    def _attempt(self, run: Run) -> _Attempt:
        try:
            return self._lab(run)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise _full() from error
            raise

    def _lab(self, run: Run) -> _Attempt:
        """Runs a lab to its end."""
        folder = folder_name("bentpipe-lab-")
        with ExitStack() as stack:
            log = stack.enter_context(os.fdopen(os.memfd_create("bentpipe-lab"), "r+b"))
            with self.lock:
                if self.stopping:
                    return _Attempt(None, "stopped", False, {})
                # a session of its own: Ctrl-C at the terminal is the coordinator's to handle
                self.lab = lab = stack.enter_context(start_lab(
                    self.runner.program, [folder],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                ))  # fmt: skip
            _prefer(lab.process.pid)
            plan = lab_plan(run.spec, folder, str(self.runner.program))
            lab.send(plan.plan)
            try:
                status = lab.process.wait(timeout=float(run.spec["duration_ns"]) / 1e9 + PATIENCE_S)
            except subprocess.TimeoutExpired:
                lab.end()
                late = f"the lab did not end within {PATIENCE_S:.0f} s after the run"
                return self._measured(run, plan, -signal.SIGKILL, late)
            finally:
                with self.lock:
                    self.lab = None
            log.seek(0)
            said = log.read().decode(errors="replace").strip()
            return self._measured(run, plan, status, said)

    def _measured(self, run: Run, plan: RunLab, status: int, said: str) -> _Attempt:
        try:
            result = json.loads(plan.result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            if status == NOT_BEGUN:
                # Before the disk: of a limit of namespaces, too, the kernel says that no space is left.
                refuse_without(run)
            _refuse_full(said)
            lines = said.splitlines() or [f"exit status {status}"]
            return _Attempt(None, f"the lab failed: {lines[-1]}", False, {})
        # What a process could not keep is missing in its frames: there is no result.
        _refuse_full("\n".join([said, str(result.get("record_error", "")), *_errors(plan).values()]))
        facts = {key: value for key, value in result.items() if key != "statuses"}
        nodes = read_nodes(plan.nodes)
        flows = _flows(run, plan)
        late_ns = max([_lateness(flows), *nodes.late_ns()])
        facts["processes_late_p95_ms"] = late_ns / 1e6
        reasons = list(result.get("reasons", []))
        bound = max(LATE_LEAST_NS, round(LATE_PART * min(round_trips_ns(run.spec))))
        if late_ns > bound:
            reasons.append(f"a process of the flows was late by {late_ns / 1e6:.1f} ms (95 % of its ticks are "
                           f"to be within {bound / 1e6:.1f} ms)")  # fmt: skip
        if reasons or not result.get("valid", False):
            return _Attempt(None, "; ".join(reasons) or "not valid", True, facts)
        failed = [
            name for name, status in result.get("statuses", {}).items() if status and ".server" not in name
        ]
        try:
            series = read_series(plan.record, result)
            nodes.check()
            # between nodes: the others come before them
            linked = [Linked(flow, nodes) for flow in run.spec["flows"][len(flows) :]]
            zero_ns = int(result["started_ns"]) if linked else None
            found = measurements(self.runner.version, run.spec, [*flows, *linked], series, zero_ns)
            if not linked and "started_ns" in result:
                # The path's time, which channels go by, begins before the first process does.
                facts["flows_after_ms"] = (first_start(flows) - int(result["started_ns"])) / 1e6
            return _Attempt(found, "", False, facts)
        except (NothingSent, NodeEnded) as error:
            why = _last_words(plan, failed)
            return _Attempt(None, f"{error}{why}", False, facts)

    def stop(self) -> None:
        """Ends the lab, whatever it is doing; its namespaces and processes go with it."""
        with self.lock:
            self.stopping = True
            lab = self.lab
        if lab is not None:
            lab.end()


NOT_BEGUN = 2
"""Exit status of a lab that could not be begun."""


def refuse_without(run: Run) -> None:
    """Raises RunnerError if this machine can have no lab for ``run``: the other runs would fail alike."""
    if missing := first_missing(proxies=bool(run.spec.get("proxies"))):
        raise RunnerError("; ".join(missing))


def _refuse_full(said: str) -> None:
    """Raises OSError if a lab ``said`` that the disk is full: the other runs would fail alike."""
    if os.strerror(errno.ENOSPC) in said:
        raise _full()


def _full() -> OSError:
    kept = "the disk is full; finished runs are kept, and the same command goes on from there"
    return OSError(errno.ENOSPC, kept, tempfile.gettempdir())


def _prefer(process: int) -> None:
    """Puts a lab before other work: by the real-time scheduler as root, else by its niceness, else not at all.

    The kernel leaves 5 % of each processor to others (sched_rt_runtime_us).
    """
    try:
        os.sched_setscheduler(process, os.SCHED_RR, os.sched_param(1))
    except OSError:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process, NICENESS)


def _flows(run: Run, plan: RunLab) -> list[Flow | Called]:
    found: list[Flow | Called] = []
    for flow, files in zip(run.spec["flows"], plan.flows, strict=False):
        load, transport = flow["load"], flow["transport"]
        if load["kind"] == "datagrams" and transport["kind"] == "udp":
            told = read_told(files.sessions[0].frames)
            found.append(Called(flow["name"], load, transport["header_bytes"], told))
            continue
        names = (flow["client_congestion"]["name"], flow["server_congestion"]["name"])
        clients = tuple(read_frames(session.frames) for session in files.sessions)
        starts = tuple(session.start_ns for session in files.sessions)
        found.append(Flow(flow["name"], names, starts, clients, read_frames(files.server)))
    return found


def _lateness(flows: Sequence[Flow | Called]) -> int:
    """Of the process that was latest: the 95th percentile of the lateness of its ticks, those it missed too, ns."""
    worst = 0
    for flow in flows:
        if isinstance(flow, Called):
            worst = max([worst, *flow.late_ns()])
            continue
        for frames in (*flow.clients, flow.server):
            late = sorted(frames.late_ns())
            if late:
                worst = max(worst, late[int(0.95 * (len(late) - 1))])
    return worst


def _last_words(plan: RunLab, names: Sequence[str]) -> str:
    """What the processes that failed said last."""
    errors = _errors(plan)
    for name in (*names, *errors):
        words = [line for line in errors.get(name, "").split("\n") if line.strip()]
        if words:
            return f": {name}: {words[-1]}"
    return ""


def _errors(plan: RunLab) -> dict[str, str]:
    """What the processes of a lab said on standard error, by name."""
    found = {}
    for one in (*plan.plan["near"], *plan.plan.get("far", ())):
        if (file := one.get("errors")) is not None:
            with contextlib.suppress(OSError):
                found[one["name"]] = Path(file).read_text(encoding="utf-8", errors="replace")
    return found
