"""Repeated timing of one command over several access networks.

Rounds are interleaved and each starts with the next access. Other load of the host thus affects all access
networks alike. The times of a round are a pair for the ratio of two access networks. Round k has seed k, so
that each round draws other random values of a path.
"""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.lab.access import resolve_shared_path
from bentpipe.lab.path_summary import describe_access
from bentpipe.lab.single_run import run_command
from bentpipe.metrics.intervals import ConfidenceInterval
from bentpipe.metrics.samples.median_ratio import mean_ratio
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe.lab.access import SharedPath
    from bentpipe.lab.single_run import CommandResult

__all__ = ["CommandError", "Timing", "raise_for_status", "require_command", "time_command"]


class CommandError(RuntimeError):
    """The command ended with an exit status other than 0, so that its time means nothing."""


@dataclass(frozen=True)
class Timing:
    """Times of the command over one access."""

    access: str
    """Name of the access."""
    seconds: tuple[float, ...]
    """Time of each round, s."""
    invalid: Mapping[int, str] = field(default_factory=dict)
    """Rounds in which the lab missed its deadlines, from 1, with the reason. Their times count."""
    ratio: ConfidenceInterval | None = None
    """Geometric mean of the ratios to the times of the fastest access in the same round; None for the fastest."""
    path: str = ""
    """Rates and round-trip time of the access, as text."""
    is_stochastic: bool = False
    """Whether the rounds differ in random values of the path or of simulated users."""

    @property
    def mean(self) -> float:
        """Return the mean time, s."""
        return math.fsum(self.seconds) / len(self.seconds)

    @property
    def deviation(self) -> float | None:
        """Return the standard deviation of the times, s; None for a single round."""
        if len(self.seconds) < 2:
            return None
        return math.sqrt(
            math.fsum((value - self.mean) ** 2 for value in self.seconds) / (len(self.seconds) - 1)
        )

    def as_row(self) -> dict[str, Any]:
        """Return the timing as plain data."""
        ratio = self.ratio or ConfidenceInterval(1.0, None, None, len(self.seconds))
        return {
            "access": self.access, "mean_s": self.mean, "stddev_s": self.deviation, "min_s": min(self.seconds),
            "max_s": max(self.seconds), "ratio": ratio.estimate, "ratio_low": ratio.low, "ratio_high": ratio.high,
            "invalid": len(self.invalid),
            "invalid_runs": [{"run": number, "reason": reason} for number, reason in self.invalid.items()],
            "seconds": list(self.seconds), "path": self.path,
            "stochastic": self.is_stochastic,
        }  # fmt: skip


def require_command(command: Sequence[str]) -> None:
    """Check that a command exists and may be executed.

    Raises:
        ScenarioError: the command is missing or cannot be executed.
    """
    if not command:
        raise ScenarioError([("CMD", "missing, expected -- and a command after the accesses")])
    if shutil.which(command[0]) is None:
        raise ScenarioError([("CMD", f'command "{command[0]}" not found, or not executable')])


def time_command(
    accesses: Sequence[str],
    command: Sequence[str],
    *,
    runs: int = 10,
    warmup: int = 0,
    overrides: Sequence[tuple[str, object]] = (),
    pep: str | None = None,
    users: int | None = None,
    mix: str | None = None,
    each: Callable[[int, int], None] | None = None,
) -> list[Timing]:
    """Time ``command`` over each of ``accesses``; round k has seed k, and warm-up rounds have seed 1.

    Args:
        accesses: presets or scenario files.
        command: the command and its arguments.
        runs: number of timed rounds.
        warmup: number of rounds before them that do not count.
        overrides: dotted keys and values, as ``--set`` gives them.
        pep: handshake of a proxy behind the longest segment of each access without a proxy.
        users: number of simulated users who share each access with the command.
        mix: shares of the users by kind (:data:`bentpipe.lab.background_traffic.MIX`).
        each: called after each run with the number of finished runs and their total.

    Raises:
        ScenarioError: the command or an access does not exist, an access occurs twice, or ``bentpipe-rt`` is
            not built.
        CommandError: the command ended with an exit status other than 0.
        bentpipe.lab.shell.LabError: the lab could not start.
        bentpipe.lab.shell.InterruptedLab: Ctrl-C.
    """
    require_command(command)
    if not accesses:
        raise ScenarioError(
            [("ACCESS", "missing, expected presets or scenarios (TOML), and -- before the command")]
        )
    duplicate = next((access for access in accesses if list(accesses).count(access) > 1), None)
    if duplicate is not None:
        raise ScenarioError([("ACCESS", f'duplicate access "{duplicate}"')])
    if any(key == "seeds" for key, _ in overrides):
        raise ScenarioError([("--set seeds", "run k has seed k, expected --runs with the number of runs")])
    paths = {
        access: resolve_shared_path(access, overrides, users=users, mix=mix, pep=pep, has_uplink=True)
        for access in accesses
    }
    seconds_of: dict[str, list[float]] = {access: [] for access in accesses}
    invalid: dict[str, dict[int, str]] = {access: {} for access in accesses}
    finished, total = 0, (warmup + runs) * len(accesses)
    for round_number in range(warmup + runs):
        first = round_number % len(accesses)
        seed = max(1, round_number - warmup + 1)
        for access in (*accesses[first:], *accesses[:first]):
            seconds, reasons = _time_once(access, paths[access].with_seed(seed), command)
            if round_number >= warmup:
                seconds_of[access].append(seconds)
                if reasons:
                    invalid[access][len(seconds_of[access])] = "; ".join(reasons)
            finished += 1
            if each is not None:
                each(finished, total)
    fastest = min(accesses, key=lambda access: math.fsum(seconds_of[access]))
    fastest_seconds = seconds_of[fastest]
    return [
        Timing(
            access,
            tuple(values),
            invalid[access],
            None if access == fastest else mean_ratio(values, fastest_seconds, paired=True),
            describe_access(access, paths[access], is_preset_changed=bool(overrides), pep=pep),
            paths[access].is_stochastic,
        )
        for access, values in seconds_of.items()
    ]


def _time_once(access: str, path: SharedPath, command: Sequence[str]) -> tuple[float, tuple[str, ...]]:
    """Run the command in a new lab; return its time in s, and the reasons why the lab missed its deadlines."""
    with run_command((path.lab, path.proxies), command, background=path.background) as result:
        raise_for_status(result, f"over {access}: {command[0]}")
        return result.seconds, result.reasons


def raise_for_status(result: CommandResult, subject: str) -> None:
    """Check that a command ended with exit status 0.

    Args:
        result: result of the command.
        subject: first words of the message.

    Raises:
        CommandError: the command did not end, or ended with another exit status.
    """
    if result.status is None:
        raise CommandError(f"{subject} did not end{result.last_line()}")
    if result.status != 0:
        last_line = result.last_line()
        raise CommandError(f"{subject} ended with status {result.status}{last_line}{_server_hint(last_line)}")


def _server_hint(message: str) -> str:
    """Return a question about the port of a refused connection; empty for another message."""
    if not re.search(r"refused|failed to connect|could ?n.t connect", message, re.IGNORECASE):
        return ""
    port = re.search(r"(?:port |:)(\d{2,5})\b", message)
    return f"; is a server listening on {port[1]}?" if port else "; is its server listening?"
