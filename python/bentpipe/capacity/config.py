"""Input of a capacity search, and the scenario that it runs."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.call_quality import GOOD
from bentpipe.plan.access import DEFAULT_QUEUE, PROXIES, check_given, load_access, parse_numbers, path_tables
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.presets import expand_preset
from bentpipe.scenario.quantities import Duration, UnitError
from bentpipe.scenario.user_mix import KINDS, assign_kinds, parse_mix, parse_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "AXIS",
    "MIX",
    "Access",
    "CapacityConfig",
    "Criterion",
    "parse_config",
    "resolve_access",
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

PAUSE_S = 15
"""Longest pause of a user between two pages."""

NO_PROXY = "none"
"""Kind of proxy of a path without proxies."""

START_JITTER = {"page": "10 s"}
"""Time in which the users of a kind start, if not within a second. Pages take the mean pause."""

_ACCESS_TABLES = ("page", "quic", "tcp", "udp", "limits")
"""Tables of a scenario that the search takes beside the path."""

_OPTIONS = {"seeds": "--seeds", "duration": "--duration", "sweep": "--mix"}
"""Keys of the scenario that an option sets."""


@dataclass(frozen=True)
class Access:
    """Path that the users share."""

    name: str
    """Name in file names."""
    title: str
    path: Mapping[str, Any]
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Further tables of the scenario: pages and options of the transports."""
    folder: Path = field(default_factory=Path)
    """Directory of the files that the path names."""


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
    seeds: int = 3

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of users with a share above 0."""
        return tuple(kind for kind, share in self.mix.items() if share > 0)

    @property
    def mix_text(self) -> str:
        """The mix in percentages, as ``--mix`` reads it."""
        return ",".join(f"{kind}={100 * self.mix[kind]:.3g}%" for kind in self.kinds)


def resolve_access(
    name: str | None, down: str | None, up: str | None, rtt: str | None, pep: str | None = None
) -> Access:
    """Resolve the access: a preset, a scenario, or numbers.

    Args:
        name: preset or scenario file (TOML); None if the access is given as numbers.
        down: rate towards the users, such as ``"50 Mbit/s"``.
        up: rate towards the servers.
        rtt: round-trip time of the whole path, such as ``"620 ms"``.
        pep: kind of the PEPs at both ends of an access given as numbers (:data:`bentpipe.plan.access.PROXIES`).

    Raises:
        ScenarioError: the access is missing, incomplete, given twice or wrong, by argument.
    """
    check_given(name, down, up, rtt)
    if name is None:
        numbers = parse_numbers(down, up, rtt)
        towards_users, towards_servers = (
            {"rate": str(rate), "queue": DEFAULT_QUEUE} for rate in (numbers.down, numbers.up)
        )
        if pep is not None and pep not in (NO_PROXY, *PROXIES):
            text = unknown_name(pep, [NO_PROXY, *PROXIES], "kind of PEP")
            raise ScenarioError([("pep", text)], SOURCE_ARGUMENT)
        proxy = None if pep == NO_PROXY else pep
        path = path_tables(towards_users, towards_servers, str(numbers.rtt), proxy)
        suffix, title = ("", "") if proxy is None else (f"-{proxy}", f", {proxy} proxies")
        return Access(numbers.name + suffix, numbers.title + title, path)
    if pep is not None:
        text = f"requires --down, --up and --rtt; the path of {name} has its own PEPs"
        raise ScenarioError([("pep", text)], SOURCE_ARGUMENT)
    named = load_access(name)
    data = copy.deepcopy(dict(named.document.data))
    expand_preset(data, named.document.folder)  # that of the scenario, if its sweep has several
    if not isinstance(data.get("path"), dict):
        text = "missing, expected [[path.segment]]: the users share an access, not a graph"
        raise ScenarioError([("path", text)], named.document.name)
    tables = {key: data[key] for key in _ACCESS_TABLES if key in data}
    return Access(named.name, named.title, data["path"], tables, named.document.folder)


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


def check_settings(settings: Sequence[str]) -> None:
    """Refuse settings of keys that an option sets.

    Raises:
        ScenarioError: a setting has such a key.
    """
    for setting in settings:
        key = setting.partition("=")[0].strip()
        if option := _OPTIONS.get(key.partition(".")[0]):
            raise ScenarioError([("set", f"found {key}, expected the option {option}")], SOURCE_ARGUMENT)


def parse_config(
    access: Access,
    *,
    mix: str = MIX,
    mos: float | None = None,
    page: str | None = None,
    share: str = "95 %",
    duration: str | None = None,
    warm_up: str = WARM_UP,
    seeds: int = 3,
) -> CapacityConfig:
    """Parse the input of a search.

    Args:
        access: the path.
        mix: shares of the users by kind.
        mos: smallest mean opinion score (default, without ``page``: that of a good call).
        page: longest page load time.
        share: share of the users with that quality.
        duration: duration of a run (default: 40 s, or as long as ``page`` requires).
        warm_up: start of a run that does not count.
        seeds: number of seeds.

    Raises:
        ScenarioError: a value is wrong, by argument.
    """
    shares = parse_mix(mix, "mix", SOURCE_ARGUMENT)
    criterion = _parse_criterion(shares, mos, page, share)
    warm_up_s = _parse_seconds("warm_up", warm_up, at_least=0, of=CALL_WINDOW_S)
    least = warm_up_s + CALL_WINDOW_S
    if criterion.page is not None:
        # A user who is in a pause at first then has time for a load that is too long by far.
        least = warm_up_s + _round_up(PAUSE_S + 2 * criterion.page.ns / 1e9)
    duration_s = max(least, MIN_DURATION_S)
    if duration is not None:
        duration_s = _parse_seconds("duration", duration, at_least=least, of=1)
    if seeds < 1:
        raise ScenarioError([("seeds", f"found {seeds}, expected 1 or more")], SOURCE_ARGUMENT)
    return CapacityConfig(access, shares, criterion, duration_s, warm_up_s, seeds)


def _parse_criterion(mix: Mapping[str, float], mos: float | None, page: str | None, share: str) -> Criterion:
    problems: list[tuple[str, str]] = []
    for key, value, kind in (("mos", mos, "call"), ("page", page, "page")):
        if value is not None and not mix.get(kind):
            problems.append((key, f"requires users of the kind {kind} in --mix"))
    if mos is None and page is None:
        if not mix.get("call"):
            problems.append(("page", 'missing, expected a time such as "5 s": no user of --mix is in a call'))
        mos = GOOD
    if mos is not None and not 1 <= mos <= 4.5:
        problems.append(("mos", f"found {mos:g}, expected 1 to 4.5 (ITU-T G.107)"))
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
    return Criterion(mos, longest, part)


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
