"""Input of a capacity search, and the scenario that it runs."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.call_quality import GOOD, MAX_MOS
from bentpipe.metrics.intervals import MIN_MEDIAN_VALUES
from bentpipe.plan.default_folder import default_folder
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.quantities import Duration, UnitError
from bentpipe.scenario.user_mix import KINDS, assign_kinds, parse_mix, parse_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.capacity.access import Access

__all__ = [
    "AXIS",
    "MIX",
    "NO_MOS",
    "SEEDS",
    "SHARE",
    "WARM_UP",
    "CapacityConfig",
    "Criterion",
    "parse_config",
    "scenario",
    "user_counts",
]

AXIS = "users"
"""Name of the sweep over the number of users."""

MIX = "call=0.5,page=0.5"
"""Default mix: half of the users are in a call, half load pages (docs/how-to/users.md)."""

MAX_USERS = 10_000
"""Largest number of users: that of the flows of one table of a scenario."""

STEP = 1.03
"""Ratio of neighbouring numbers of users in a search. Below 50 users each number is a step of its own."""

CALL_WINDOW_S = 10
"""Length of the windows of the table ``calls``; a warm-up ends with a window."""

MIN_DURATION_S = 40
WARM_UP = "10 s"

SHARE = "95 %"

SEEDS = MIN_MEDIAN_VALUES
"""Default number of seeds: the smallest one whose median has a distribution-free 95 % interval."""

NO_MOS = "none"
"""Value of ``mos`` that requires nothing of calls."""

PAUSE_S = 15
"""Longest pause of a user between two pages."""

START_JITTER = {"page": "10 s"}
"""Time in which the users of a kind start, if not within a second. Pages take the mean pause."""

_OPTIONS = {"seeds": "--seeds", "duration": "--duration", "sweep": "--mix"}
"""Keys of the scenario that an option sets."""


@dataclass(frozen=True)
class Criterion:
    """Quality that a share of the users of each kind must have."""

    mos: float | None
    """Smallest mean opinion score of a call, in its worse direction."""
    page: Duration | None
    """Longest page load time: the median of a user's loads."""
    share: float = 0.95
    """Share of the users, above 0 and at most 1."""


@dataclass(frozen=True)
class CapacityConfig:
    """Input of a search."""

    access: Access
    mix: Mapping[str, float]
    """Shares of the users by kind; their sum is 1."""
    criterion: Criterion
    duration_s: int = MIN_DURATION_S
    """Duration of a run."""
    warm_up_s: int = 10
    """Start of a run that does not count."""
    seeds: int = SEEDS
    settings: tuple[str, ...] = ()
    """``KEY=VALUE`` texts that change the scenario."""

    @property
    def default_folder(self) -> Path:
        """Default directory: its name has the access, and the options of the runs that have no default value."""
        mix = "+".join(f"{kind}{100 * self.mix[kind]:.3g}%" for kind in self.kinds)
        changes = [] if self.mix == parse_mix(MIX, "mix") else [f"mix={mix}"]
        changes += [] if self.duration_s == MIN_DURATION_S else [f"duration={self.duration_s}s"]
        return default_folder(f"capacity-{self.access.name}", [*changes, *self.settings])

    def command(self) -> str:
        """Return the command of this search, for a shell. It has the options without a default value."""
        words = ["bentpipe", "capacity", *self.access.options]
        words += [] if self.mix == parse_mix(MIX, "mix") else ["--mix", self.mix_text]
        if "call" in self.kinds and self.criterion.mos != GOOD:
            words += ["--mos", NO_MOS if self.criterion.mos is None else f"{self.criterion.mos:g}"]
        words += [] if self.criterion.page is None else ["--page", str(self.criterion.page).replace(" ", "")]
        share = f"{100 * self.criterion.share:.4g}%"
        words += [] if share == SHARE.replace(" ", "") else ["--share", share]
        words += [word for setting in self.settings for word in ("--set", setting)]
        if self.duration_s != max(_shortest_s(self.warm_up_s, self.criterion.page), MIN_DURATION_S):
            words += ["--duration", f"{self.duration_s}s"]
        words += [] if f"{self.warm_up_s} s" == WARM_UP else ["--warm-up", f"{self.warm_up_s}s"]
        words += [] if self.seeds == SEEDS else ["--seeds", str(self.seeds)]
        return shlex.join(words)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of users with a share above 0."""
        return tuple(kind for kind, share in self.mix.items() if share > 0)

    @property
    def mix_text(self) -> str:
        """The mix in percentages, as ``--mix`` reads it."""
        return ",".join(f"{kind}={100 * self.mix[kind]:.3g}%" for kind in self.kinds)


def user_counts(mix: Mapping[str, float]) -> list[dict[str, int]]:
    """Return the numbers of users by kind that a search may run, from few to many.

    Each has users of every kind. The totals differ by one user or by :data:`STEP`.

    Args:
        mix: shares by kind.
    """
    counts: list[dict[str, int]] = []
    current = {kind: 0 for kind, share in mix.items() if share > 0}
    following = 1
    for users, kind in enumerate(islice(assign_kinds(mix), MAX_USERS), start=1):
        current[kind] += 1
        if users >= following and all(current.values()):
            counts.append(dict(current))
            following = max(users + 1, round(users * STEP))
    return counts


def scenario(config: CapacityConfig, counts: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """Return the scenario of the search as parsed TOML, without its seeds.

    Args:
        config: the search.
        counts: numbers of users by kind, each a cell.
    """
    first = counts[0]
    return {
        "title": f"Users of {config.access.title}",
        "duration": f"{config.duration_s} s",
        "sample_interval": "10 s",
        "path": dict(config.access.path),
        **config.access.tables,
        "flow": [
            {"name": kind, "count": first[kind], "start_jitter": START_JITTER.get(kind, "1 s"), **KINDS[kind]}
            for kind in config.kinds
        ],
        "sweep": {AXIS: [_cell(count) for count in counts]},
    }


def _cell(count: Mapping[str, int]) -> dict[str, Any]:
    label = str(sum(count.values()))
    return {"label": label, **{f"flow.{kind}.count": number for kind, number in count.items()}}


def _check_settings(settings: Sequence[str]) -> None:
    """Refuse settings of keys that an option sets. Raises ScenarioError."""
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if option := _OPTIONS.get(key.partition(".")[0]):
            raise ScenarioError([("set", f"found {key}, expected the option {option}")], SOURCE_ARGUMENT)


def parse_config(
    access: Access,
    *,
    mix: str = MIX,
    mos: float | str | None = None,
    page: str | None = None,
    share: str = SHARE,
    duration: str | None = None,
    warm_up: str = WARM_UP,
    seeds: int = SEEDS,
    settings: Sequence[str] = (),
) -> CapacityConfig:
    """Parse the input of a search.

    Args:
        access: the path.
        mix: shares of the users by kind.
        mos: smallest mean opinion score (default: that of a good call), or :data:`NO_MOS`.
        page: longest page load time.
        share: share of the users with that quality.
        duration: duration of a run (default: 40 s, or as long as ``page`` requires).
        warm_up: start of a run that does not count.
        seeds: number of seeds.
        settings: ``KEY=VALUE`` texts that change the scenario.

    Raises:
        ScenarioError: a value is wrong, by argument.
    """
    _check_settings(settings)
    shares = parse_mix(mix, "mix", SOURCE_ARGUMENT)
    criterion = _parse_criterion(shares, mos, page, share)
    warm_up_s = _parse_seconds("warm_up", warm_up, at_least=0, of=CALL_WINDOW_S)
    least = _shortest_s(warm_up_s, criterion.page)
    duration_s = max(least, MIN_DURATION_S)
    if duration is not None:
        duration_s = _parse_seconds("duration", duration, at_least=least, of=1)
    if seeds < 1:
        raise ScenarioError([("seeds", f"found {seeds}, expected 1 or more")], SOURCE_ARGUMENT)
    return CapacityConfig(access, shares, criterion, duration_s, warm_up_s, seeds, tuple(settings))


def _shortest_s(warm_up_s: int, page: Duration | None) -> int:
    """Return the shortest duration of a run in seconds."""
    if page is None:
        return warm_up_s + CALL_WINDOW_S
    # A user who is in a pause at first then has time for a load that is too long by far.
    return warm_up_s + _round_up(PAUSE_S + 2 * page.ns / 1e9)


def _parse_criterion(
    mix: Mapping[str, float], mos: float | str | None, page: str | None, share: str
) -> Criterion:
    problems: list[tuple[str, str]] = []
    for key, value, kind in (("mos", mos, "call"), ("page", page, "page")):
        if value not in (None, NO_MOS) and not mix.get(kind):
            problems.append((key, f"requires users of the kind {kind} in --mix"))
    score = None
    if mix.get("call") and mos != NO_MOS:
        score, found = _parse_mos(mos)
        problems += found
    elif page is None:
        why = (
            "no user of --mix is in a call"
            if not mix.get("call")
            else f"--mos {NO_MOS} requires nothing of calls"
        )
        problems.append(("page", f'missing, expected a time such as "5 s": {why}'))
    longest = None
    try:
        longest = None if page is None else Duration.parse(page)
        if longest is not None and longest.ns == 0:
            problems.append(("page", f'found "{page}", expected a time above 0 such as "5 s"'))
    except UnitError as error:
        problems.append(("page", str(error)))
    try:
        part = parse_share(share)
    except ValueError:
        part = math.nan
    if not 0 < part <= 1:
        text = f'found "{share}", expected a share above 0 and at most 100 %, such as "95 %"'
        problems.append(("share", text))
    if problems:
        raise ScenarioError(problems, SOURCE_ARGUMENT)
    return Criterion(score, longest, part)


def _parse_mos(mos: float | str | None) -> tuple[float, list[tuple[str, str]]]:
    """Return the smallest score, and the problems of the argument."""
    try:
        score = GOOD if mos is None else float(mos)
    except ValueError:
        score = math.nan
    if 1 <= score <= MAX_MOS:
        return score, []
    expected = f"expected 1 to {MAX_MOS:g} (ITU-T G.107), or {NO_MOS}"
    return score, [("mos", f"found {mos if isinstance(mos, str) else format(score, 'g')}, {expected}")]


def _parse_seconds(argument: str, text: str, *, at_least: int, of: int) -> int:
    """Return a time in whole seconds, which is a multiple of ``of``."""
    unit = f"a multiple of {of} s" if of > 1 else "whole seconds"
    try:
        ns = Duration.parse(text).ns
    except UnitError as error:
        raise ScenarioError([(argument, str(error))], SOURCE_ARGUMENT) from None
    if ns % (of * 10**9) or ns < at_least * 10**9:
        expected = f"{unit}, at least {at_least} s" if at_least else unit
        raise ScenarioError([(argument, f'found "{text}", expected {expected}')], SOURCE_ARGUMENT)
    return ns // 10**9


def _round_up(seconds: float) -> int:
    return math.ceil(seconds / CALL_WINDOW_S) * CALL_WINDOW_S
