"""Execution of a plan into a store: runs that the store lacks, with an observer of their progress.

Every command that executes runs does it here.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import platform
import shlex
import time
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bentpipe.runners.worker_pool import Outcomes
from bentpipe.store.codec import DecodeError
from bentpipe.store.files import StoreError
from bentpipe.store.packing import pack_large
from bentpipe.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Mapping, Sequence
    from pathlib import Path

    from bentpipe.plan.plan import Plan, Run
    from bentpipe.runners.runner import Runner, RunOutcome

    Each = Callable[[Run, bool], None]
    """Callback after every run: run and success."""

__all__ = [
    "BROWSER",
    "REAL_TIME",
    "CorruptRunWarning",
    "ExecutionSummary",
    "InterruptedExecution",
    "Observer",
    "RunFailure",
    "RunResult",
    "execute",
    "execute_plan",
    "iter_results",
    "replay_command",
]


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Failed or invalid run."""

    run: str
    error: str
    replay: str
    """Command that repeats this run alone."""
    invalid: bool = False
    """Invalid run: the lab missed its deadlines, and the run itself is correct."""

    @property
    def word(self) -> str:
        """Kind of the failure: ``late`` or ``failed``."""
        return "invalid" if self.invalid else "failed"


@dataclass(frozen=True, repr=False, slots=True)
class RunResult:
    """Run that finished or failed at this moment."""

    run: Run
    done: int
    """Number of finished and failed runs of this execution, with this one."""
    total: int
    """Number of runs of this execution."""
    seconds: float
    """Wall time of the run in s."""
    packets: int = 0
    """Packets of the run; 0 after a failure."""
    error: str = ""
    """Reason of the failure; empty: finished."""

    def __repr__(self) -> str:
        """Return the count, the run and its outcome."""
        cell = "".join(f", {key} = {value}" for key, value in self.run.cell.items())
        outcome = self.error or f"{self.packets} packets, {self.seconds:.2f} s"
        return f"<bentpipe run {self.done} of {self.total}: {self.run.id}{cell}, seed {self.run.seed}: {outcome}>"


@dataclass(slots=True)
class ExecutionSummary:
    """Counts of finished, failed and invalid runs."""

    store: Path
    planned: int
    reused: int = 0
    """Runs that the store had before."""
    done: int = 0
    failed: list[RunFailure] = field(default_factory=list)
    """Failed and invalid runs."""
    seconds: float = 0.0
    packets: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    """Damage of runs that the store had, by id."""
    refused: str = ""
    """Reason why the store is read-only, if no run was missing."""


class CorruptRunWarning(UserWarning):
    """Damage of a finished run."""


class Progress(Protocol):
    """Context of an execution, entered before the first missing run and left after the last."""

    def __call__(
        self, plan: Plan, missing: Sequence[Run], /
    ) -> contextlib.AbstractContextManager[Each | None]:
        """Return a context with a callback after each run, or None."""


def _no_progress(_plan: Plan, _missing: Sequence[Run], /) -> contextlib.AbstractContextManager[Each | None]:
    return contextlib.nullcontext()


@dataclass(frozen=True)
class Observer:
    """Callbacks for progress and messages. The default does nothing."""

    progress: Progress = _no_progress
    on_message: Callable[[str], None] = lambda _: None
    """Callback for messages to the user during the execution."""


class InterruptedExecution(KeyboardInterrupt):
    """Interrupt by Ctrl-C; the text states what the store has."""


def execute(
    plan: Plan,
    runner: Runner,
    store: Path,
    *,
    only: Sequence[str] = (),
    watch: Observer | None = None,
    where: str = "local",
    command: str = "run",
    what: str = "runs",
) -> ExecutionSummary:
    """Execute the runs that ``store`` lacks, as :func:`execute_plan`, with an observer; pack a large store.

    Args:
        plan: runs.
        runner: runner of the runs.
        store: directory of the store.
        only: ids of the runs to execute; empty: all.
        watch: observer; None: no callbacks.
        where: place of the runs, for the journal.
        command: command that repeats a failed run.
        what: plural noun of a run, for messages.

    Raises:
        InterruptedExecution: Ctrl-C; the message has the number of finished runs.
        bentpipe.StoreError: as ``execute_plan``.
        bentpipe.runners.runner.RunnerError: as ``execute_plan``.
    """
    with Writer(store, plan) as writer:
        requested = set(only)
        missing = writer.missing([run for run in plan.runs if not requested or run.id in requested])
        try:
            with (watch or Observer()).progress(plan, missing) as each:
                summary = execute_plan(
                    plan, runner, writer, only=only, each=each, where=where, command=command
                )
        except KeyboardInterrupt:
            finished = f"{writer.count()} of {len(plan.runs)} {what} are in {writer.path}"
            raise InterruptedExecution(f"{finished}; rerun the command to resume") from None
    pack_large(store)
    return summary


def execute_plan(
    plan: Plan,
    runner: Runner,
    writer: Writer,
    *,
    only: Sequence[str] = (),
    each: Each | None = None,
    where: str = "local",
    command: str = "run",
) -> ExecutionSummary:
    """Execute the runs that the store of ``writer`` lacks.

    Args:
        plan: runs.
        runner: runner of the runs.
        writer: entered store.
        only: ids of the runs to execute; empty: all.
        each: callback after every run with its success, for a progress bar.
        where: place of the runs, for the journal; ``REAL_TIME`` and ``BROWSER`` have replay commands of their own.
        command: command that repeats a failed run.

    Raises:
        StoreError: the disk is full (finished runs remain), or the store is read-only and a run is missing.
        RunnerError: no run can be executed.
    """
    results = iter_results(plan, runner, writer, only=only, where=where, command=command)
    with contextlib.closing(results):
        while True:
            try:
                result = next(results)
            except StopIteration as stop:
                summary: ExecutionSummary = stop.value
                return summary
            if each is not None:
                each(result.run, not result.error)


def iter_results(
    plan: Plan,
    runner: Runner,
    writer: Writer,
    *,
    only: Sequence[str] = (),
    where: str = "local",
    command: str = "run",
) -> Generator[RunResult, None, ExecutionSummary]:
    """Yield each run of :func:`execute_plan` when it is in the store; return the summary.

    Closing the iterator stops running work; finished runs remain.
    """
    start = time.perf_counter()
    requested = [run for run in plan.runs if not only or run.id in only]
    missing = writer.missing(requested)
    summary = ExecutionSummary(writer.path, len(requested), reused=len(requested) - len(missing))
    summary.damaged, summary.refused = dict(writer.damaged), writer.refused
    if missing and writer.refused:
        runs = "1 run is" if len(missing) == 1 else f"{len(missing)} runs are"
        message = f"{writer.path} cannot be written: {writer.refused}; {runs} missing in it"
        raise StoreError("; ".join([message, *list(summary.damaged.values())[:3]]))
    writer.note({"event": "begin", "at": _now(), "where": where, "runs": len(missing), **_host()})
    _warn_damage(summary.damaged, {run.id for run in missing}, writer)
    if missing:
        outcomes = runner.run(missing)
        write = partial(_write_outcome, writer)
        if isinstance(outcomes, Outcomes):  # a thread writes each outcome, even without a further ``next``
            outcomes.process_with(write)
        try:
            for item in outcomes:
                outcome = item if isinstance(outcomes, Outcomes) else write(item)
                packets = 0
                if outcome.counts is not None:
                    summary.done += 1
                    packets = outcome.counts["packets"]
                    summary.packets += packets
                if outcome.error:
                    replay = replay_command(plan, outcome.run, command, where)
                    summary.failed.append(RunFailure(outcome.run.id, outcome.error, replay, outcome.invalid))
                count = summary.done + len(summary.failed)
                yield RunResult(
                    outcome.run,
                    count,
                    len(missing),
                    outcome.seconds,
                    packets if not outcome.error else 0,
                    outcome.error,
                )
        finally:
            close = getattr(outcomes, "close", None)
            if close is not None:
                close()
    summary.seconds = time.perf_counter() - start
    failures = {kind: sum(item.word == kind for item in summary.failed) for kind in ("failed", "invalid")}
    writer.note({"event": "end", "at": _now(), "done": summary.done, **failures})
    return summary


def _write_outcome(writer: Writer, outcome: RunOutcome) -> RunOutcome:
    """Write the measurements of a run, add it to the journal, and return the outcome without its data.

    Raises:
        DiskError: the disk is full or refuses.
    """
    entry: dict[str, object] = {
        "event": "run",
        "run": outcome.run.id,
        "seconds": round(outcome.seconds, 3),
    }
    error, counts = outcome.error, None
    if outcome.data is not None:
        try:
            counts = writer.add(outcome.run, outcome.data)
        except DecodeError as decode_error:
            error = str(decode_error)
        else:
            entry |= counts
    if error:
        entry |= {"event": "invalid" if outcome.invalid else "failed", "error": error}
    if outcome.retried:
        entry["retried"] = True
    if outcome.facts:
        entry["real_time"] = dict(outcome.facts)
    writer.note(entry)
    return replace(outcome, data=None, error=error, counts=counts)


def _warn_damage(damaged: Mapping[str, str], missing: Container[str], writer: Writer) -> None:
    """Warn of damaged runs: a few as warnings, all in the journal."""
    for run, damage in damaged.items():
        writer.note({"event": "damaged", "run": run, "error": damage})
    by_damage: dict[str, list[str]] = {}
    for run, damage in damaged.items():
        by_damage.setdefault(damage, []).append(run)
    messages = [_damage_message(damage, runs, missing) for damage, runs in by_damage.items()]
    for message in messages[:MOST_NAMED]:
        warnings.warn(message, CorruptRunWarning, stacklevel=4)
    if len(messages) > MOST_NAMED:
        rest = f"{len(messages) - MOST_NAMED} more damaged runs: see {writer.path / 'journal.jsonl'}"
        warnings.warn(rest, CorruptRunWarning, stacklevel=4)


def _damage_message(damage: str, runs: Sequence[str], missing: Container[str]) -> str:
    """Return the warning about damaged runs: one run, several of a pack, or the unknown runs of a pack."""
    if len(runs) > 1:
        repeated = sum(run in missing for run in runs)
        return f"{damage}: {len(runs):,} runs; bentpipe repeats {repeated:,} of them"
    if "/" in runs[0]:
        return f"{damage}: bentpipe repeats its runs"
    consequence = "which bentpipe repeats" if runs[0] in missing else "not requested and unchanged"
    return f"{damage}: run {runs[0]}, {consequence}"


MOST_NAMED = 10
"""Maximum number of warnings about damaged runs."""

REAL_TIME = "real time"
"""Place of emulated runs in the journal."""
BROWSER = "browser"
"""Place of browser sessions in the journal."""


def replay_command(plan: Plan, run: Run, command: str = "run", where: str = "local") -> str:
    """Return a command that repeats this run alone."""
    if command != "run":
        return f"{command} --run {run.id}"
    arguments = ["bentpipe", "browse" if where == BROWSER else "run", plan.document.name]
    for override in plan.document.overrides:
        arguments += ["--set", override]
    arguments += plan.document.options
    if where == BROWSER:
        arguments += ["--sessions", str(run.seed)]
    elif len({other.seed for other in plan.runs}) > 1 or run.seed != 1:
        seed = f"seeds=[{run.seed}]"
        arguments += [] if seed in plan.document.overrides else ["--set", seed]
    if where == REAL_TIME:
        arguments += ["--engine", "emu"]
    arguments += ["--run", run.id, *(() if where == BROWSER else ("--jobs", "1"))]
    return shlex.join([*arguments, "--out", f"out/replay-{run.id}"])


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _host() -> dict[str, object]:
    return {
        "host": platform.node(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "polars": importlib.metadata.version("polars"),
        "cores": os.cpu_count(),
    }
