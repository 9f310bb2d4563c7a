"""Sentences of a capacity: the number of users with its interval, the criterion, and the resource that binds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.capacity.binding import LATENCY, NAMES, find_binding
from bentpipe.metrics.intervals import MIN_MEDIAN_VALUES, format_significant
from bentpipe.report.headline import NO_INTERVAL, join_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.capacity.advice import Advice, Change, SingleUser
    from bentpipe.capacity.binding import Binding
    from bentpipe.capacity.config import CapacityConfig, Criterion
    from bentpipe.capacity.estimate import Estimate
    from bentpipe.capacity.search import Capacity

__all__ = [
    "advice_text",
    "criterion_text",
    "estimate_text",
    "headline_text",
    "share_text",
    "supporting_text",
    "users_text",
]

PART_TITLES = {"mos": "MOS", "page": "page load time"}

MORE_SEEDS = 20
"""Number of seeds to suggest for a narrower interval; with more, twice as many."""


def headline_text(result: Capacity) -> str:
    """Return the result: how many users fit, for which criterion and mix."""
    config = result.config
    if result.is_none:
        return f"Fewer than {result.smallest:,} users fit: {_failure_text(result)} (mix {_mix_text(config)})."
    share = share_text(config.criterion.share)
    quality = f"{share} of each kind have {criterion_text(config.criterion)} (mix {_mix_text(config)})."
    users, interval = users_text(result)
    fit = "user fits" if users == "1" else "users fit"
    return f"{users} {fit}{interval}: {quality}"


def users_text(result: Capacity) -> tuple[str, str]:
    """Return the number of users as text, and its certainty: interval, range, or the next number of users."""
    users = f"{'At least ' if result.is_bounded_by_search else ''}{result.users:,}"
    seeds, (low, high) = len(result.limits), result.bounds
    if seeds == 1 or low == high:
        # The search tells two numbers of users apart, however many seeds agree.
        following = result.first_failing
        agree = "" if seeds == 1 else f", in each of {seeds} seeds"
        return users, f"{'' if following is None else f', and {following:,} do not'}{agree}"
    if seeds < MIN_MEDIAN_VALUES:
        return users, f" (median of {seeds} seeds, which range from {low:,} to {high:,})"
    return users, f" (median of {seeds} seeds, 95 % interval {low:,} to {high:,})"


def supporting_text(result: Capacity) -> str:
    """Return the smallest limit, the resource that binds, what is not required, the page, the seeds and the runs."""
    config = result.config
    seeds, (low, high) = len(result.limits), result.bounds
    parts = []
    if result.is_bounded_by_search:
        parts.append(f"The search ends at {result.largest:,} users.")
    if seeds > 1 and not result.is_none and low != high:
        up_to = f"up to {result.all_seeds:,} user{'' if result.all_seeds == 1 else 's'}"
        all_seeds = f"All {seeds} seeds meet the criterion {up_to}."
        parts.append(all_seeds if result.all_seeds else f"No number of users meets it in all {seeds} seeds.")
    if not result.is_none and (users := result.first_failing) is not None:
        failing = [_failing_text(part, count, seeds) for part, count in result.failures(users).items()]
        parts.append(f"With {users:,} users the criterion fails by {join_names(failing)}.")
        binding = find_binding(result)
        parts += [] if binding is None else [_binding_text(binding)]
    if result.users and result.is_uncertain:
        more = MORE_SEEDS if seeds < MORE_SEEDS else 2 * seeds
        parts.append(f"The limits differ by more than half of the result: --seeds {more} is more certain.")
    elif 1 < seeds < MIN_MEDIAN_VALUES:
        parts.append(f"A 95 % interval of the median requires --seeds {MIN_MEDIAN_VALUES}.")
    parts += _unrequired_texts(config)
    parts += [f"The page is {result.page}."] if result.page else []
    parts.append(
        f"{len(result.evaluations)} runs of {config.duration_s} s, of which the first {config.warm_up_s} s do not count"
        f"{f'; {NO_INTERVAL}' if seeds == 1 else ''}."
    )
    return " ".join(parts)


def advice_text(advice: Advice) -> list[str]:
    """Return the cause on the path alone, and the changes that help with their commands, by line."""
    lines = [_single_user_text(one) for one in advice.single_users]
    if advice.helpful:
        lines.append("With these changes users fit; each command finds how many:")
        lines += [f"  {_change_text(change)}\n    {change.command}" for change in advice.helpful]
    if others := [change for change in advice.changes if change not in advice.helpful]:
        lines.append(f"Not enough: {'; '.join(_change_text(change) for change in others)}.")
    return lines


def estimate_text(estimate: Estimate, seconds: float) -> str:
    """Return the estimate before the runs: the bound by volume, the load of a user, and the time of the search."""
    loads = join_names(
        [f"{format_significant(load / 1e3, 2)} kbit/s {to}" for to, load in estimate.loads.items() if load]
    )
    time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    if estimate.users is None or estimate.full_direction is None:
        return f"upper bound by volume: none, because the users have no fixed load; the search takes about {time}"
    return (
        f"upper bound by volume: {estimate.users:,} users fill the {NAMES[estimate.full_direction]} ({loads} each); "
        f"queues and round trips usually limit them earlier; the search takes about {time}"
    )


def criterion_text(criterion: Criterion) -> str:
    """Return the criterion for a user."""
    parts = []
    if criterion.mos is not None:
        parts.append(f"a MOS of at least {criterion.mos:g}")
    if criterion.page is not None:
        parts.append(f"a page load time of at most {_seconds(criterion.page.ns / 1e9)}")
    return join_names(parts)


def share_text(share: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * share:.4g} %"


def _seconds(value: float) -> str:
    return f"{format_significant(value, 3)} s"


def _failing_text(part: str, count: int, seeds: int) -> str:
    return f"the {PART_TITLES[part]}" + (f" ({count} of {seeds} seeds)" if seeds > 1 else "")


def _mix_text(config: CapacityConfig) -> str:
    return config.mix_text.replace("=", " ").replace("%", " %").replace(",", ", ")


def _unrequired_texts(config: CapacityConfig) -> list[str]:
    """Return a sentence for each kind of user with a criterion that the search does not apply."""
    texts = []
    if "page" in config.kinds and config.criterion.page is None:
        texts.append("No page load time is required (--page).")
    if "call" in config.kinds and config.criterion.mos is None:
        texts.append("No MOS is required (--mos).")
    return texts


def _binding_text(binding: Binding) -> str:
    """Return the resource that binds, and the values of both directions."""
    busy = join_names([f"{100 * used:.0f} % {side}" for side, used in binding.utilisation.items()])
    load = f"the mean utilisation is {busy}" if busy else ""
    resources = join_names(binding.resources)
    verb = "binds" if len(binding.resources) == 1 else "bind"
    subject = "Latency" if resources == LATENCY else f"The {resources.replace(' and ', ' and the ')}"
    if binding.part == "mos":
        scores = join_names([f"{score:.2f} {side}" for side, score in binding.mos.items()])
        cause = "" if binding.is_full else " by bursts"
        return f"{subject} {verb}{cause}: the MOS is {scores}{f', {load}' if load else ''}."
    cause = ", because a page takes round trips" if resources == LATENCY else ""
    return f"{subject} {verb}{cause}{f': {load}' if load else ''}."


def _failure_text(result: Capacity) -> str:
    """Return the quality of the smallest number of users, which does not suffice."""
    from bentpipe.capacity.advice import worst_values

    criterion, smallest = result.config.criterion, result.at(result.smallest)
    failing = [one for one in smallest if one.failed]
    mos, page_s = worst_values(failing, criterion.share)
    parts = []
    for part, count in result.failures(result.smallest).items():
        value = mos if part == "mos" else page_s
        nobody = "no call has a MOS" if part == "mos" else "no page loads"
        found = f"{value:.2f}" if part == "mos" else "" if value is None else _seconds(value)
        required = f"at least {criterion.mos:g}" if part == "mos" else f"at most {_required_page(criterion)}"
        seeds = (
            "" if len(smallest) == 1 or count == len(smallest) else f" in {count} of {len(smallest)} seeds"
        )
        parts.append(
            nobody if value is None else f"the {PART_TITLES[part]} is {found}{seeds}, not {required}"
        )
    return f"with {_counts_text(smallest[0].counts)}, {join_names(parts)}"


def _required_page(criterion: Criterion) -> str:
    return "" if criterion.page is None else _seconds(criterion.page.ns / 1e9)


def _single_user_text(one: SingleUser) -> str:
    if one.kind == "call":
        text, option = f"One call alone on the path has a MOS of {one.value:.2f}", "a lower --mos"
    else:
        text, option = (
            f"One user alone on the path loads the page in {_seconds(one.value)}",
            "a longer --page",
        )
    if one.holds:
        return f"{text}: the other users cause the failure."
    return f"{text}: no number of users can meet the criterion without another path or {option}."


def _change_text(change: Change) -> str:
    values = []
    if change.page_s is not None:
        values.append(f"page load time {_seconds(change.page_s)}")
    if change.mos is not None:
        values.append(f"MOS {change.mos:.2f}")
    return f"{change.options}: {', '.join(values)} ({change.holding_seeds} of {change.seeds} seeds)"


def _counts_text(counts: Mapping[str, int]) -> str:
    return join_names([f"{number:,} {kind}" for kind, number in counts.items()])
