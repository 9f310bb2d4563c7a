"""A session: a plan, a runner and a store, and who is told meanwhile. Whatever runs something does it here."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bentpipe.runners.execute import ExecutionSummary, execute_plan
from bentpipe.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bentpipe.plan.plan import Plan, Run
    from bentpipe.runners.runner import Runner

    Each = Callable[[Run, bool], None]
    """Told after every run whether it went well."""

__all__ = ["InterruptedExecution", "Observer", "execute"]


class Progress(Protocol):
    """Entered before the first of the runs that are missing, and left after the last."""

    def __call__(self, plan: Plan, missing: Sequence[Run], /) -> AbstractContextManager[Each | None]:
        """What is told of each of them."""


def _unseen(_plan: Plan, _missing: Sequence[Run], /) -> AbstractContextManager[Each | None]:
    return nullcontext()


@dataclass(frozen=True)
class Observer:
    """Who is told while runs are made; nobody, unless it is said."""

    progress: Progress = _unseen
    on_message: Callable[[str], None] = lambda _: None
    """What a person would like to know meanwhile."""


class InterruptedExecution(KeyboardInterrupt):
    """Ctrl-C, and what it left, as text."""


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
    """Runs what ``store`` does not have yet: :func:`bentpipe.runners.execute.execute_plan`, watched.

    Raises:
        Interrupted: with what is finished, in ``what``.
        bentpipe.StoreError, bentpipe.runners.runner.RunnerError: as ``execute_plan``.
    """
    with Writer(store, plan) as writer:
        wanted = set(only)
        missing = writer.missing([run for run in plan.runs if not wanted or run.id in wanted])
        try:
            with (watch or Observer()).progress(plan, missing) as each:
                return execute_plan(plan, runner, writer, only=only, each=each, where=where, command=command)
        except KeyboardInterrupt:
            kept = f"{writer.count()} of {len(plan.runs)} {what} are in {writer.path}"
            raise InterruptedExecution(f"{kept}; the same command goes on from there") from None
