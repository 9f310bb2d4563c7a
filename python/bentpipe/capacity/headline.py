"""Sentence of a capacity: the number of users with its interval, the criterion and the mix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bentpipe.metrics.intervals import format_significant
from bentpipe.report.headline import NO_INTERVAL, join_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.capacity.config import CapacityConfig, Criterion
    from bentpipe.capacity.estimate import Estimate
    from bentpipe.capacity.search import Capacity

__all__ = ["criterion_text", "estimate_text", "headline_text", "share_text", "supporting_text", "users_text"]

_NAMES = {"mos": "MOS", "page": "page load time"}


def headline_text(result: Capacity) -> str:
    """Return the result: how many users fit, for which criterion and mix."""
    config = result.config
    share = share_text(config.criterion.share)
    quality = f"{share} of them have {criterion_text(config.criterion)} (mix {_mix_text(config)})."
    if result.is_none:
        return f"Fewer than {result.smallest:,} users fit: {_failure_text(result)} (mix {_mix_text(config)})."
    users, interval = users_text(result)
    fit = "user fits" if users == "1" else "users fit"
    return f"{users} {fit}{interval}: {quality}"


def users_text(result: Capacity) -> tuple[str, str]:
    """Return the number of users as text, and its interval in brackets, empty without one."""
    interval = result.interval
    users = f"{'At least ' if result.is_bounded_by_search else ''}{_whole(interval.estimate):,}"
    if interval.low is None or interval.high is None:
        return users, ""
    low, high = max(_whole(interval.low), 0), math.ceil(interval.high - 1e-9)
    return users, f" (95 % interval {low:,} to {high:,})"


def supporting_text(result: Capacity) -> str:
    """Return the limiting quality, the seeds and the runs."""
    config = result.config
    seeds = len(result.limits)
    parts = []
    if result.is_bounded_by_search and not result.is_none:
        parts.append(f"The search ends at {result.largest:,} users.")
    elif not result.is_none:
        counts = {part: result.failed_at_limit(part) for part in _NAMES}
        failing = [_failing_text(part, count, seeds) for part, count in counts.items() if count]
        parts.append(f"With more users the criterion fails by {join_names(failing)}.")
    what = NO_INTERVAL if seeds == 1 else f"interval of the mean over {seeds} seeds"
    parts.append(
        f"{len(result.evaluations)} runs of {config.duration_s} s, of which the first {config.warm_up_s} s do not "
        f"count; {what}."
    )
    return " ".join(parts)


def estimate_text(estimate: Estimate, seconds: float) -> str:
    """Return the estimate before the runs: the number of users, their load, and the time of the search."""
    loads = join_names(
        [f"{format_significant(load / 1e3, 2)} kbit/s {to}" for to, load in estimate.loads.items() if load]
    )
    time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    if estimate.users is None:
        return f"estimate: about {time}; the loads of the users do not determine their number"
    return f"estimate: {estimate.users:,} users fill the path, {loads} each; the search takes about {time}"


def criterion_text(criterion: Criterion) -> str:
    """Return the criterion for a user."""
    parts = []
    if criterion.mos is not None:
        parts.append(f"a MOS of at least {criterion.mos:g}")
    if criterion.page is not None:
        parts.append(f"a page load time of at most {criterion.page}")
    return join_names(parts)


def share_text(share: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * share:.4g} %"


def _failing_text(part: str, count: int, seeds: int) -> str:
    return f"the {_NAMES[part]}" + (f" ({count} of {seeds} seeds)" if seeds > 1 else "")


def _mix_text(config: CapacityConfig) -> str:
    return config.mix_text.replace("=", " ").replace("%", " %").replace(",", ", ")


def _failure_text(result: Capacity) -> str:
    """Return the quality of the smallest number of users, which does not suffice."""
    criterion = result.config.criterion
    smallest = [one for one in result.evaluations if one.users == result.smallest]
    parts = []
    if any("mos" in one.failed for one in smallest):
        scores = [score for one in smallest if (score := one.quality.mos_of(criterion.share)) is not None]
        parts.append(f"the MOS is {min(scores):.2f}" if scores else "no call has a MOS")
    if any("page" in one.failed for one in smallest):
        times = [time for one in smallest if (time := one.quality.page_of(criterion.share)) is not None]
        parts.append(
            f"the page load time is {format_significant(max(times), 3)} s" if times else "no page loads"
        )
    users = _counts_text(smallest[0].counts)
    return f"with {users}, {join_names(parts)}, where {criterion_text(criterion)} is required"


def _counts_text(counts: Mapping[str, int]) -> str:
    return join_names([f"{number:,} {kind}" for kind, number in counts.items()])


def _whole(users: float) -> int:
    """Return the number of whole users."""
    return math.floor(users + 1e-9)
