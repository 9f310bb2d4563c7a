"""``bentpipe time``: one command behind several accesses, again and again, and how long it takes there.

Rounds are interleaved and each begins with the next access, so that what else the machine does meets all alike; a
round's times are a pair for the ratio of two accesses.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.lab.access import led_outside, resolve_path
from bentpipe.lab.single_run import run_command
from bentpipe.metrics.intervals import ConfidenceInterval, paired_bootstrap, ratio_of_means
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.lab.process_plans import LabSpec
    from bentpipe.lab.single_run import CommandResult
    from bentpipe.plan.spec.run_spec import ProxySpec

__all__ = ["CommandFailed", "Timing", "raise_for_status", "require_command", "time_command"]


class CommandFailed(RuntimeError):
    """The command ended with another status than 0: how long it took means nothing."""


@dataclass(frozen=True)
class Timing:
    """What the command took behind one access, seconds, a value a round."""

    access: str
    seconds: tuple[float, ...]
    late: int = 0
    """Rounds in which the machine was too late for the path's time."""
    ratio: ConfidenceInterval | None = None
    """Mean over that of the fastest access, by bootstrap over rounds; None for the fastest."""

    @property
    def mean(self) -> float:
        """Their mean."""
        return math.fsum(self.seconds) / len(self.seconds)

    @property
    def deviation(self) -> float | None:
        """Their standard deviation; None of a single one."""
        if len(self.seconds) < 2:
            return None
        return math.sqrt(math.fsum((one - self.mean) ** 2 for one in self.seconds) / (len(self.seconds) - 1))

    def as_row(self) -> dict[str, Any]:
        """As plain data."""
        ratio = self.ratio or ConfidenceInterval(1.0, None, None, len(self.seconds))
        return {
            "access": self.access, "mean_s": self.mean, "stddev_s": self.deviation, "min_s": min(self.seconds),
            "max_s": max(self.seconds), "ratio": ratio.estimate, "ratio_low": ratio.low, "ratio_high": ratio.high,
            "late": self.late, "seconds": list(self.seconds),
        }  # fmt: skip


def require_command(command: Sequence[str]) -> None:
    """Whether a command is there to be run. Raises ScenarioError."""
    if not command:
        raise ScenarioError([("CMD", "missing, expected -- and a command behind the accesses")])
    if shutil.which(command[0]) is None:
        raise ScenarioError([("CMD", f'no command "{command[0]}" is there, or may be run')])


def time_command(
    accesses: Sequence[str],
    command: Sequence[str],
    *,
    runs: int = 10,
    warmup: int = 0,
    overrides: Sequence[tuple[str, object]] = (),
    each: Callable[[int, int], None] | None = None,
) -> list[Timing]:
    """Times ``command`` behind each of ``accesses``, ``runs`` times after ``warmup`` that do not count.

    Raises:
        ScenarioError: no such command or access, one twice; ``bentpipe-rt`` is not built.
        CommandFailed: it ended with another status than 0.
        bentpipe.lab.shell.LabError: there could be no lab.
        bentpipe.lab.shell.InterruptedLab: Ctrl-C.
    """
    require_command(command)
    if not accesses:
        raise ScenarioError(
            [("ACCESS", "missing, expected presets or scenarios (TOML), and -- before the command")]
        )
    twice = next((one for one in accesses if list(accesses).count(one) > 1), None)
    if twice is not None:
        raise ScenarioError([("ACCESS", f'found "{twice}" twice')])
    paths = {one: resolve_path(one, overrides, pep=led_outside(None)) for one in accesses}
    taken: dict[str, list[float]] = {one: [] for one in accesses}
    late = dict.fromkeys(accesses, 0)
    done, of = 0, (warmup + runs) * len(accesses)
    for turn in range(warmup + runs):
        first = turn % len(accesses)
        for one in (*accesses[first:], *accesses[:first]):
            seconds, valid = _once(one, paths[one], command)
            if turn >= warmup:
                taken[one].append(seconds)
                late[one] += not valid
            done += 1
            if each is not None:
                each(done, of)
    fastest = min(accesses, key=lambda one: math.fsum(taken[one]))
    best = taken[fastest]
    return [
        Timing(
            one,
            tuple(values),
            late[one],
            None if one == fastest else paired_bootstrap(best, values, ratio_of_means),
        )
        for one, values in taken.items()
    ]


def _once(access: str, path: tuple[LabSpec, list[ProxySpec]], command: Sequence[str]) -> tuple[float, bool]:
    """One run in a lab of its own: seconds, and whether the machine kept the path's time."""
    with run_command(path, command) as done:
        raise_for_status(done, f"behind {access}: {command[0]}")
        return done.seconds, done.valid


def raise_for_status(done: CommandResult, what: str) -> None:
    """Raises CommandFailed, which begins with ``what``, where the command did not end with status 0."""
    if done.status is None:
        raise CommandFailed(f"{what} did not end{done.said()}")
    if done.status != 0:
        raise CommandFailed(f"{what} ended with status {done.status}{done.said()}")
