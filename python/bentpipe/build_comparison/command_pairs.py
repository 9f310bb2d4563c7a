"""Alternating runs of two real programs behind an access: duration and bytes carried by the path.

A round is a pair: each program runs in its own lab, one after the other, and the order alternates. Rounds in which the
lab missed its deadlines are discarded and repeated.
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
"""Placeholder for the build in the arguments of a command."""

PRIMARY = "command_s"
"""Metric that is a family of tests by itself; the bytes carried by the path are the other family."""


class DeadlineMissedError(RuntimeError):
    """Too many rounds in which the lab missed its deadlines."""


@dataclass(frozen=True)
class Workload:
    """Workload of both builds; ``{}`` stands for the build in its arguments."""

    command: Sequence[str]
    server: str = ""
    """Command of a server; the server side is then a separate namespace."""
    listens: int | None = None
    """Port on which the server must listen before the command starts."""
    timeout_s: float = 0


def filled(words: Sequence[str], build: str) -> list[str]:
    """Replace the placeholder in ``words`` with ``build``."""
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
    """Run the workload of both builds behind an access and compare their metrics.

    Args:
        access: preset or scenario file.
        before: first build.
        after: second build.
        work: workload.
        runs: number of valid rounds.
        warmup: number of rounds before the first one that counts.
        overrides: dotted keys and values of the access, as ``--set`` gives them.
        confidence: confidence level of the intervals.
        criteria: metrics, and smallest changes that get a verdict.
        each: called after each round with the number of finished rounds and their total.

    Raises:
        ScenarioError: a command or the access does not exist, no argument has the placeholder, or ``bentpipe-rt`` is
            not built.
        bentpipe.lab.command_timing.CommandError: a command ended with a status other than 0.
        DeadlineMissedError: fewer than ``runs`` of ``2 * runs`` rounds are valid.
        bentpipe.lab.shell.LabError: the lab could not be set up.
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
    path = resolve_path(access, overrides, has_uplink=not services)
    valid: list[tuple[dict[str, float], dict[str, float]]] = []
    for number in range(warmup + 2 * runs):
        first = number % 2
        metrics = {index: _run(path, sides[index], work, services) for index in (first, 1 - first)}
        if number >= warmup and metrics[0] and metrics[1]:
            valid.append((metrics[0], metrics[1]))
        if each is not None:
            each(min(number + 1, warmup + runs) if len(valid) < runs else warmup + runs, warmup + runs)
        if len(valid) == runs:
            break
    else:
        raise DeadlineMissedError(
            f"the lab missed its deadlines in {2 * runs - len(valid)} of {2 * runs} rounds"
        )
    # Without random losses on the path, only real time and the programs vary: equal rounds show that both are
    # deterministic.
    draws = Draws.SOMETHING if is_path_stochastic(path[0]["graph"]) else Draws.UNKNOWN
    pairs = [
        Pairs(
            name, [one[name] for one, _ in valid], [other[name] for _, other in valid],
            primary=bool(criteria.metrics) or name == PRIMARY, draws=draws,
        )
        for name in criteria.select(OF_PROGRAMS)
    ]  # fmt: skip
    changes = compare_pairs(pairs, confidence, criteria)
    return BuildComparison(Side(before), Side(after), Comparison(changes, repetition="rounds"))


def _services(work: Workload) -> list[str]:
    try:
        return shlex.split(work.server)
    except ValueError as error:
        raise ScenarioError([("--server", f"found {work.server!r}: {error}")]) from None


def _run(
    path: tuple[LabSpec, list[ProxySpec]], build: str, work: Workload, services: Sequence[str]
) -> dict[str, float]:
    """Return the metrics of one run; an empty dict if the lab missed its deadlines."""
    arguments = filled(work.command, build)
    with run_command(
        path, arguments, server=filled(services, build), listens=work.listens, timeout_s=work.timeout_s
    ) as result:
        raise_for_status(result, " ".join(arguments))
        if not result.valid:
            return {}
        return {"command_s": result.seconds, "up_bytes": result.up_bytes, "down_bytes": result.down_bytes}
