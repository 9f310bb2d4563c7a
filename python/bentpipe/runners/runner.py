"""What a runner gives back, and what all runners have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.plan import Run
    from bentpipe.store.codec import Measurements, RunFiles

__all__ = ["RunOutcome", "Runner", "RunnerError"]


class RunnerError(RuntimeError):
    """No run can be made at all: no cluster, or workers of another engine."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One run, done or failed."""

    run: Run
    data: bytes | Measurements | RunFiles | None
    """The run's files; or the engine's bytes, or what they would decode to. None when the run failed."""
    error: str = ""
    seconds: float = 0.0
    """Wall time."""
    retried: bool = False
    """The first worker that had it died, or the machine was too late for it."""
    late: bool = False
    """There is no data since the machine was too late each time: nothing is wrong with the run."""
    counts: Mapping[str, int] | None = None
    """Packets and events, once it has been written; there is no data any more then."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For the journal: what is outside the promise of equal bytes (lateness, processor time)."""


class Runner(Protocol):
    """Runs a plan's runs somewhere."""

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Outcomes as they come, in any order; closing the iterator stops what is under way."""
        ...
