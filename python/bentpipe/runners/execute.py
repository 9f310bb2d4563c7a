"""From a plan to a store: what is missing is run, what comes back is written, what fails is said with its replay."""

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
from typing import TYPE_CHECKING

from bentpipe.runners.worker_pool import Outcomes
from bentpipe.store.codec import DecodeError
from bentpipe.store.files import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Mapping, Sequence
    from pathlib import Path

    from bentpipe.plan.plan import Plan, Run
    from bentpipe.runners.runner import Runner, RunOutcome
    from bentpipe.store.writer import Writer

__all__ = ["CorruptRunWarning", "ExecutionSummary", "RunFailure", "RunResult", "execute_plan", "iter_results"]


@dataclass(frozen=True, slots=True)
class RunFailure:
    """A run that failed."""

    run: str
    error: str
    replay: str
    """The command that makes it again, alone."""
    late: bool = False
    """The machine was too late for it; there is nothing wrong with the run."""

    @property
    def word(self) -> str:
        """What happened to it."""
        return "late" if self.late else "failed"


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run that has just been made, or could not be."""

    run: Run
    done: int
    """How many runs of this session there are with it, the failed ones too..."""
    total: int
    """... and how many there will be."""
    seconds: float
    """Wall time that it took."""
    packets: int = 0
    """Packets that it moved; 0 where it failed."""
    error: str = ""
    """Why it failed; empty where it did not."""


@dataclass(slots=True)
class ExecutionSummary:
    """What a session did."""

    store: Path
    planned: int
    kept: int = 0
    """Runs that were in the store already."""
    done: int = 0
    failed: list[RunFailure] = field(default_factory=list)
    """Runs that were not made; the late ones too."""
    seconds: float = 0.0
    packets: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    """What was wrong with each run that was there and damaged, by its id."""
    refused: str = ""
    """Why nothing could be written, where nothing had to be."""


class CorruptRunWarning(UserWarning):
    """A finished run was damaged."""


def execute_plan(
    plan: Plan,
    runner: Runner,
    writer: Writer,
    *,
    only: Sequence[str] = (),
    each: Callable[[Run, bool], None] | None = None,
    where: str = "local",
    command: str = "run",
) -> ExecutionSummary:
    """Runs what ``writer``'s store does not have yet.

    Args:
        plan: the runs.
        runner: where they run.
        writer: an entered store.
        only: ids of the runs to make; all without.
        each: told after every run whether it went well, for a progress bar.
        where: for the journal; ``REAL_TIME`` and ``BROWSER`` have commands of their own that make a run again.
        command: the one that makes a run again, in what is said of those that failed.

    Raises:
        StoreError: the disk is full, and what is finished is kept; or it cannot be written, and a run is missing.
        RunnerError: no run can be made at all.
    """
    session = iter_results(plan, runner, writer, only=only, where=where, command=command)
    with contextlib.closing(session):
        while True:
            try:
                one = next(session)
            except StopIteration as end:
                report: ExecutionSummary = end.value
                return report
            if each is not None:
                each(one.run, not one.error)


def iter_results(
    plan: Plan,
    runner: Runner,
    writer: Writer,
    *,
    only: Sequence[str] = (),
    where: str = "local",
    command: str = "run",
) -> Generator[RunResult, None, ExecutionSummary]:
    """:func:`conduct` step by step: each run as it finishes and is in the store, and the report at the end.

    Closing it stops what is under way; what is finished is kept.
    """
    began = time.perf_counter()
    wanted = [run for run in plan.runs if not only or run.id in only]
    missing = writer.missing(wanted)
    report = ExecutionSummary(writer.path, len(wanted), kept=len(wanted) - len(missing))
    report.damaged, report.refused = dict(writer.damaged), writer.refused
    if missing and writer.refused:
        runs = "1 run is" if len(missing) == 1 else f"{len(missing)} runs are"
        what = f"{writer.path} cannot be written: {writer.refused}; {runs} missing in it"
        raise StoreError("; ".join([what, *list(report.damaged.values())[:3]]))
    writer.note({"event": "begin", "at": _now(), "where": where, "runs": len(missing), **_host()})
    _warn(report.damaged, {run.id for run in missing}, writer)
    if missing:
        outcomes = runner.run(missing)
        keep = partial(_keep, writer)
        if isinstance(outcomes, Outcomes):  # each is written when it comes, whether it is asked for or not
            outcomes.process_with(keep)
        try:
            for one in outcomes:
                outcome = one if isinstance(outcomes, Outcomes) else keep(one)
                packets = 0
                if outcome.counts is not None:
                    report.done += 1
                    packets = outcome.counts["packets"]
                    report.packets += packets
                if outcome.error:
                    again = replay_command(plan, outcome.run, command, where)
                    report.failed.append(RunFailure(outcome.run.id, outcome.error, again, outcome.late))
                made = report.done + len(report.failed)
                yield RunResult(
                    outcome.run,
                    made,
                    len(missing),
                    outcome.seconds,
                    packets if not outcome.error else 0,
                    outcome.error,
                )
        finally:
            close = getattr(outcomes, "close", None)
            if close is not None:
                close()
    report.seconds = time.perf_counter() - began
    unmade = {word: sum(one.word == word for one in report.failed) for word in ("failed", "late")}
    writer.note({"event": "end", "at": _now(), "done": report.done, **unmade})
    return report


def _keep(writer: Writer, outcome: RunOutcome) -> RunOutcome:
    """Write what a run measured, note it in the journal, and return the outcome without its data.

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
        except DecodeError as wrong:
            error = str(wrong)
        else:
            entry |= counts
    if error:
        entry |= {"event": "late" if outcome.late else "failed", "error": error}
    if outcome.retried:
        entry["retried"] = True
    if outcome.facts:
        entry["real_time"] = dict(outcome.facts)
    writer.note(entry)
    return replace(outcome, data=None, error=error, counts=counts)


def _warn(damaged: Mapping[str, str], missing: Container[str], writer: Writer) -> None:
    """Names damaged runs: a few to people, all in the journal."""
    for run, what in damaged.items():
        writer.note({"event": "damaged", "run": run, "error": what})
    together: dict[str, list[str]] = {}
    for run, what in damaged.items():
        together.setdefault(what, []).append(run)
    said = [_told(what, runs, missing) for what, runs in together.items()]
    for one in said[:MOST_NAMED]:
        warnings.warn(one, CorruptRunWarning, stacklevel=4)
    if len(said) > MOST_NAMED:
        more = f"{len(said) - MOST_NAMED} more damaged runs: see {writer.path / 'journal.jsonl'}"
        warnings.warn(more, CorruptRunWarning, stacklevel=4)


def _told(what: str, runs: Sequence[str], missing: Container[str]) -> str:
    """What is damaged, and what becomes of the runs in it: one, or many of a pack, or those that nobody knows."""
    if len(runs) > 1:
        made = sum(run in missing for run in runs)
        return f"{what}: {len(runs):,} runs, of which {made:,} are made again"
    if "/" in runs[0]:
        return f"{what}: its runs are made again"
    then = "it is made again" if runs[0] in missing else "not asked for, and left as it is"
    return f"{what}: run {runs[0]}, {then}"


MOST_NAMED = 10
"""Damaged runs that people are told of, each."""

REAL_TIME = "real time"
BROWSER = "browser"


def replay_command(plan: Plan, run: Run, command: str = "run", where: str = "local") -> str:
    """One command that makes this run again, alone."""
    if command != "run":
        return f"{command} --run {run.id}"
    words = ["bentpipe", "browse" if where == BROWSER else "run", plan.document.name]
    for override in plan.document.overrides:
        words += ["--set", override]
    words += plan.document.options
    if where == BROWSER:
        words += ["--units", str(run.seed)]
    elif len({other.seed for other in plan.runs}) > 1 or run.seed != 1:
        seed = f"seeds=[{run.seed}]"
        words += [] if seed in plan.document.overrides else ["--set", seed]
    if where == REAL_TIME:
        words += ["--engine", "emu"]
    words += ["--run", run.id, *(() if where == BROWSER else ("--jobs", "1"))]
    return shlex.join([*words, "--out", f"out/replay-{run.id}"])


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
