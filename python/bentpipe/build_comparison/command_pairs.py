"""Two real programs behind an access, in turn, and what each took of time and of the path.

A pair is a round: both in labs of their own, one after the other, each first in every second round. A round in which
the machine was too late for the path's time says nothing and is made again.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.build_comparison.result import BuildComparison, Side
from bentpipe.lab.access import resolve_path
from bentpipe.lab.command_timing import raise_for_status, require_command
from bentpipe.lab.single_run import run_command
from bentpipe.metrics.compare import OF_PROGRAMS, Comparison, Criteria, Draws, Pairs, compare_pairs
from bentpipe.plan.randomness import is_path_stochastic
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.lab.process_plans import LabSpec
    from bentpipe.plan.spec.run_spec import ProxySpec

__all__ = ["PLACE", "DeadlineMissedError", "Workload", "filled", "regress"]

PLACE = "{}"
"""Stands for the build in the words of a command."""


PRIMARY = "command_s"
"""The metric that is a family of its own; the bytes that the path carried are the other."""


class DeadlineMissedError(RuntimeError):
    """The machine was too late for the path's time, again and again."""


@dataclass(frozen=True)
class Workload:
    """What either build is to do: words with ``{}`` for it."""

    command: Sequence[str]
    server: str = ""
    """A service at the far end, which is a namespace of its own then."""
    listens: int | None = None
    """Port of the service that is waited for."""
    timeout_s: float = 0


def filled(words: Sequence[str], build: str) -> list[str]:
    """``words`` of ``build``."""
    return [word.replace(PLACE, build) for word in words]


def regress(
    access: str,
    before: str,
    after: str,
    work: Workload,
    *,
    runs: int = 10,
    warmup: int = 1,
    overrides: Sequence[tuple[str, object]] = (),
    confidence: float,
    criteria: Criteria,
    each: Callable[[int, int], None] | None = None,
) -> BuildComparison:
    """Lets ``before`` and ``after`` do ``work`` behind ``access``, ``runs`` times each after ``warmup`` rounds.

    Raises:
        ScenarioError: no such command or access, words without a place for the build; ``bentpipe-rt`` is not built.
        bentpipe.lab.command_timing.CommandFailed: one ended with another status than 0.
        TooLate: of twice as many rounds as were asked for, too few are of use.
        bentpipe.lab.shell.LabError: there could be no lab.
        bentpipe.lab.shell.InterruptedLab: Ctrl-C.
    """
    services = _services(work)
    if before != after and work.command and not any(PLACE in word for word in (*work.command, *services)):
        raise ScenarioError([("CMD", f"found no {PLACE}, expected it where the builds differ")])
    sides = (before, after)
    for build in sides:
        require_command(filled(work.command, build))
        if services:
            require_command(filled(services, build))
    path = resolve_path(access, overrides)
    kept: list[tuple[dict[str, float], dict[str, float]]] = []
    for turn in range(warmup + 2 * runs):
        first = turn % 2
        found = {at: _once(path, sides[at], work, services) for at in (first, 1 - first)}
        if turn >= warmup and found[0] and found[1]:
            kept.append((found[0], found[1]))
        if each is not None:
            each(min(turn + 1, warmup + runs) if len(kept) < runs else warmup + runs, warmup + runs)
        if len(kept) == runs:
            break
    else:
        raise DeadlineMissedError(f"the machine was too late in {2 * runs - len(kept)} of {2 * runs} rounds")
    # A path without random losses leaves real time and the programs themselves: equal rounds show that neither draws.
    draws = Draws.SOMETHING if is_path_stochastic(path[0]["graph"]) else Draws.UNKNOWN
    pairs = [
        Pairs(
            name, [one[name] for one, _ in kept], [other[name] for _, other in kept],
            primary=bool(criteria.metrics) or name == PRIMARY, draws=draws,
        )
        for name in criteria.select(OF_PROGRAMS)
    ]  # fmt: skip
    changes = compare_pairs(pairs, confidence, criteria)
    return BuildComparison(Side(before), Side(after), Comparison(changes))


def _services(work: Workload) -> list[str]:
    try:
        return shlex.split(work.server)
    except ValueError as error:
        raise ScenarioError([("--server", f"found {work.server!r}: {error}")]) from None


def _once(
    path: tuple[LabSpec, list[ProxySpec]], build: str, work: Workload, services: Sequence[str]
) -> dict[str, float]:
    """What one run took, by metric; nothing where the machine was too late."""
    words = filled(work.command, build)
    with run_command(
        path, words, server=filled(services, build), listens=work.listens, timeout_s=work.timeout_s
    ) as done:
        raise_for_status(done, " ".join(words))
        if not done.valid:
            return {}
        return {"command_s": done.seconds, "up_bytes": done.up_bytes, "down_bytes": done.down_bytes}
