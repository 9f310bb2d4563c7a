"""Protocol of a runner, and the outcome of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.plan import Run
    from bentpipe.store.codec import Measurements, RunFiles

__all__ = ["RunOutcome", "Runner", "RunnerError"]


class RunnerError(RuntimeError):
    """Failure of a whole runner: no cluster, or workers of another engine."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Finished or failed run."""

    run: Run
    data: bytes | Measurements | RunFiles | None
    """Files of the run, bytes of the engine, or decoded measurements; None after a failure."""
    error: str = ""
    seconds: float = 0.0
    """Wall time in s."""
    retried: bool = False
    """The first worker died, or an attempt missed deadlines."""
    invalid: bool = False
    """Invalid run without data: every attempt missed deadlines, and the run itself is correct."""
    counts: Mapping[str, int] | None = None
    """Packets and events of a written run; its data is then None."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Entries of the journal that are not reproducible (lateness, processor time)."""


class Runner(Protocol):
    """Execution of runs."""

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Yield outcomes in any order, as they finish; closing the iterator stops running work."""
        ...
