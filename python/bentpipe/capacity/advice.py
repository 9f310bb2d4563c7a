"""Advice if no number of users meets a criterion: its cause on the path alone, and changes that help.

A few short runs answer both: one user of a kind that fails, and the smallest number of users on a changed path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bentpipe.capacity.runs import Search
from bentpipe.capacity.search import PARTS
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bentpipe.capacity.config import CapacityConfig
    from bentpipe.capacity.search import Capacity, Evaluation
    from bentpipe.runners.execute import Observer
    from bentpipe.runners.local import LocalRunner

__all__ = ["Advice", "Change", "SingleUser", "find_advice"]

KINDS = {"mos": "call", "page": "page"}
"""Kind of user of each part of a criterion."""

PEP = "line-rate"
"""Kind of PEP that is tried: the one with the shortest page load times."""

SCHEDULER = "deficit-round-robin"
"""Scheduler of users that is tried: it separates calls from pages."""


@dataclass(frozen=True)
class SingleUser:
    """One user who has the path alone."""

    kind: str
    value: float
    """Worst value over the seeds: a MOS, or a page load time in seconds."""
    holds: bool


@dataclass(frozen=True)
class Change:
    """Change of the path with its result for the smallest number of users."""

    options: str
    """Options that the change adds to the command."""
    command: str
    """Command of the search on the changed path."""
    mos: float | None
    page_s: float | None
    """Worst values over the seeds, of the share of the users that the criterion requires."""
    holding_seeds: int
    seeds: int


@dataclass(frozen=True)
class Advice:
    """Causes and changes."""

    single_users: tuple[SingleUser, ...]
    """One user of each kind that fails."""
    changes: tuple[Change, ...]
    done: int
    """Number of new runs."""

    @property
    def helpful(self) -> tuple[Change, ...]:
        """Changes with which the criterion holds in most seeds."""
        return tuple(change for change in self.changes if change.holding_seeds > change.seeds / 2)


def find_advice(result: Capacity, out: Path, runner: LocalRunner, watch: Observer | None = None) -> Advice:
    """Run what explains a result without users, and return it.

    Args:
        result: result whose criterion holds for no number of users.
        out: directory of the search; the runs are in ``out/advice``.
        runner: runner of the runs.
        watch: callbacks for progress and messages.

    Raises:
        bentpipe.capacity.runs.FailedRunsError: a run failed.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
    """
    config = result.config
    single_users, changes, done = [], [], 0
    failing = result.failures(result.smallest)
    for part in [part for part in PARTS if part in failing]:
        kind = KINDS[part]
        only_mos, only_page = replace(config.criterion, page=None), replace(config.criterion, mos=None)
        criterion = only_mos if part == "mos" else only_page
        settings = tuple(text for text in config.settings if _applies(text, kind))
        alone = replace(config, mix={kind: 1.0}, criterion=criterion, settings=settings)
        search = Search(alone, out / "advice" / f"one-{kind}" / "store", runner, watch)
        runs = search.probe()
        mos, page_s = worst_values(runs, config.criterion.share)
        value = mos if part == "mos" else page_s
        done += search.done
        if value is not None:
            single_users.append(SingleUser(kind, value, all(not one.failed for one in runs)))
    # A scheduler gives each user at most the path alone.
    path_fails = any(not one.holds for one in single_users)
    for name, changed in _changed_configs(config, path_fails=path_fails):
        try:
            search = Search(changed, out / "advice" / name / "store", runner, watch)
        except ScenarioError:
            continue  # the path does not take this change, such as a scheduler beside the service of a radio link
        runs = search.probe()
        holding = sum(not one.failed for one in runs)
        mos, page_s = worst_values(runs, config.criterion.share)
        added = [] if changed.access == config.access else ["--pep", PEP]
        added += [word for text in changed.settings[len(config.settings) :] for word in ("--set", text)]
        changes.append(Change(" ".join(added), changed.command(), mos, page_s, holding, len(runs)))
        done += search.done
    return Advice(tuple(single_users), tuple(changes), done)


def _applies(setting: str, kind: str) -> bool:
    """Return whether a setting has an effect on users of this kind alone."""
    parts = setting.partition("=")[0].strip().split(".")
    return parts[0] != "flow" or parts[1:2] == [kind]


def worst_values(runs: Sequence[Evaluation], share: float) -> tuple[float | None, float | None]:
    """Return the smallest MOS and the longest page load time over runs.

    Args:
        runs: the runs.
        share: share of the users of each kind that has at least this quality.
    """
    scores = [score for one in runs if (score := one.quality.mos_of(share)) is not None]
    times = [time for one in runs if (time := one.quality.page_of(share)) is not None]
    return min(scores, default=None), max(times, default=None)


def _changed_configs(config: CapacityConfig, *, path_fails: bool) -> Iterator[tuple[str, CapacityConfig]]:
    """Yield searches on a changed path, with a name for the directory of each."""
    access = config.access
    with_pep = access.is_numbers and access.pep != PEP
    setting = _scheduler_setting(config)
    if with_pep:
        yield PEP, replace(config, access=access.with_pep(PEP))
    if setting is not None and not path_fails:
        yield SCHEDULER, replace(config, settings=(*config.settings, setting))
    if setting is not None and with_pep:
        both = replace(config, access=access.with_pep(PEP), settings=(*config.settings, setting))
        yield f"{PEP}-{SCHEDULER}", both


def _scheduler_setting(config: CapacityConfig) -> str | None:
    """Return the setting of a scheduler of the downlink; None if it has one, or if no segment is the bottleneck."""
    segment = config.access.bottleneck
    if segment is None or "name" not in segment:
        return None
    has_scheduler = any("scheduler" in segment.get(side, {}) for side in ("both", "down"))
    if has_scheduler or any(".scheduler" in setting.partition("=")[0] for setting in config.settings):
        return None
    return f"path.{segment['name']}.down.scheduler={SCHEDULER}"
