"""Answers for a designer: the effect of a reordering buffer, and one setting for all traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.link_layer.config import CALL, TRAFFIC
from bentpipe.link_layer.results import primary_metric
from bentpipe.metrics.compare import MIN_SEEDS, MetricChange, Pairs, Scale, compare_pairs
from bentpipe.metrics.format import format_interval
from bentpipe.metrics.intervals import ConfidenceInterval, mean_ci
from bentpipe.metrics.registry import METRICS
from bentpipe.report.headline import join_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.link_layer.config import LinkLayerConfig, Setting
    from bentpipe.link_layer.results import Comparison, Measurement

__all__ = [
    "BufferEffect", "JointChoice", "buffer_effect", "is_negligible", "is_open", "joint_choice",
    "more_seeds", "recommendation_text",
]  # fmt: skip

MORE_SEEDS = 30
"""Seeds that an unresolved result proposes: intervals of five seeds become about a third as wide."""

RELEVANT_RATIO, RELEVANT_SCORE = 0.05, 0.1
"""Smallest relevant change: 5 % of goodput or completion time, 0.1 of the mean opinion score."""

ORDER_KEYS = ("nr.in_order", "reordering_buffer")
"""Keys of a reordering buffer: the order of PDCP, or the buffer of a satellite link."""


@dataclass(frozen=True)
class BufferEffect:
    """Effect of a reordering buffer on each traffic."""

    ordered: str
    """Setting with the buffer."""
    unordered: str
    """The same setting without it."""
    changes: Mapping[str, MetricChange]
    """Change from the setting without the buffer, by traffic."""


@dataclass(frozen=True)
class JointChoice:
    """Setting with the largest smallest share of the best value of each traffic."""

    setting: str
    shares: Mapping[str, ConfidenceInterval]
    """Share of the best value, by traffic."""
    rivals: tuple[str, ...]
    """Settings that the seeds do not separate from it."""


def buffer_effect(comparison: Comparison) -> BufferEffect | None:
    """Return the effect of the reordering buffer at the first settings that differ only in it; None without any."""
    config = comparison.config
    pair = _ordered_pair(config)
    if pair is None:
        return None
    ordered, unordered = pair
    by_label = {(one.traffic, one.setting): one for one in comparison.measurements}
    pairs = []
    for traffic in TRAFFIC:
        metric = primary_metric(config, traffic)
        before = by_label[traffic, unordered].values.get(metric, {})
        after = by_label[traffic, ordered].values.get(metric, {})
        seeds = sorted(before.keys() | after.keys())
        pairs.append(
            Pairs(
                metric,
                [before.get(seed) for seed in seeds],
                [after.get(seed) for seed in seeds],
                {"traffic": traffic},
                primary=True,
            )
        )
    changes = {str(change.cell["traffic"]): change for change in compare_pairs(pairs)}
    return BufferEffect(ordered, unordered, changes)


def _ordered_pair(config: LinkLayerConfig) -> tuple[str, str] | None:
    """Return the labels of the first two settings that differ only in the reordering buffer, the ordered one first."""
    for one in config.settings:
        for other in config.settings:
            if _has_buffer(one) and not _has_buffer(other) and _without_order(one) == _without_order(other):
                return one.label, other.label
    return None


def _has_buffer(setting: Setting) -> bool:
    return any(bool(value) for key, value in setting.keys.items() if key.endswith(ORDER_KEYS))


def _without_order(setting: Setting) -> dict[str, Any]:
    return {key: value for key, value in setting.keys.items() if not key.endswith(ORDER_KEYS)}


def joint_choice(comparison: Comparison) -> JointChoice | None:
    """Return the setting that loses least in its worst traffic; None if a traffic has no value.

    The share of a traffic is goodput (or the inverse of completion time, or MOS above its minimum) over that of the
    best setting. The score of a seed is the smallest share. The setting with the largest mean score is chosen. The
    interval of paired differences decides about rivals.
    """
    config = comparison.config
    shares: dict[str, dict[str, dict[int, float]]] = {label: {} for label in config.labels}
    for traffic in TRAFFIC:
        quality = {one.setting: _quality(config, one) for one in comparison.of(traffic)}
        means = [sum(values.values()) / len(values) for values in quality.values() if values]
        best = max(means, default=0.0)
        if best <= 0:
            return None
        for label, values in quality.items():
            shares[label][traffic] = {seed: value / best for seed, value in values.items()}
    scores = {label: _scores(by_traffic) for label, by_traffic in shares.items()}
    scores = {label: values for label, values in scores.items() if values}
    if not scores:
        return None
    chosen = max(scores, key=lambda label: sum(scores[label].values()) / len(scores[label]))
    rivals = [label for label in scores if label != chosen and not _is_above(scores[chosen], scores[label])]
    return JointChoice(
        chosen,
        {traffic: mean_ci(list(values.values())) for traffic, values in shares[chosen].items()},
        tuple(rivals),
    )


def _quality(config: LinkLayerConfig, one: Measurement) -> dict[int, float]:
    """Return a value by seed that grows with the quality and is 0 at its worst."""
    metric = primary_metric(config, one.traffic)
    values = one.values.get(metric, {})
    if metric == "mos":
        return {seed: value - METRICS[metric].least for seed, value in values.items()}
    if METRICS[metric].better < 0:
        return {seed: 1 / value for seed, value in values.items() if value > 0}
    return dict(values)


def _scores(by_traffic: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
    """Return the smallest share of each seed; a traffic without a value, as an unfinished download, has none."""
    seeds = {seed for values in by_traffic.values() for seed in values}
    return {seed: min(values.get(seed, 0.0) for values in by_traffic.values()) for seed in sorted(seeds)}


def _is_above(first: Mapping[int, float], second: Mapping[int, float]) -> bool:
    """Return whether the interval of the paired differences is above 0."""
    common = first.keys() & second.keys()
    if len(common) < MIN_SEEDS:
        return False
    interval = mean_ci([first[seed] - second[seed] for seed in sorted(common)])
    return interval.low is not None and interval.low > 0


def is_negligible(change: MetricChange) -> bool:
    """Return whether the whole interval of a change is smaller than a relevant one."""
    effect = change.effect
    if effect is None or effect.low is None or effect.high is None:
        return False
    if change.scale is Scale.RATIO:
        return effect.low > 1 - RELEVANT_RATIO and effect.high < 1 + RELEVANT_RATIO
    return -_relevant(change) < effect.low and effect.high < _relevant(change)


def is_open(change: MetricChange) -> bool:
    """Return whether a change without verdict may still be a relevant improvement."""
    effect = change.effect
    if change.verdict not in ("none", "too few seeds") or effect is None:
        return False
    if effect.low is None or effect.high is None:
        return True
    sign = METRICS[change.metric].better
    if change.scale is Scale.RATIO:
        return effect.high > 1 + RELEVANT_RATIO if sign > 0 else effect.low < 1 - RELEVANT_RATIO
    return (effect.high if sign > 0 else -effect.low) > _relevant(change)


def _relevant(change: MetricChange) -> float:
    """Return the smallest relevant difference; without a ratio, goodput or time is compared with the mean before."""
    return RELEVANT_SCORE if change.metric == "mos" else RELEVANT_RATIO * abs(change.before or 0.0)


def recommendation_text(comparison: Comparison) -> str:
    """Return the effect of a reordering buffer and the setting for all traffic; empty without results."""
    parts = []
    effect = buffer_effect(comparison)
    if effect is not None and effect.changes:
        texts = [
            _change_text(traffic, effect.changes[traffic]) for traffic in TRAFFIC if traffic in effect.changes
        ]
        parts.append(f"Reordering buffer (in-order delivery, {effect.ordered}): {', '.join(texts)}.")
    if (choice := joint_choice(comparison)) is not None:
        parts.append(_choice_text(comparison, choice))
    return " ".join(parts)


def _change_text(traffic: str, change: MetricChange) -> str:
    subject = "call" if traffic == CALL else traffic
    if change.effect is None:
        return f"{subject} no result"
    if change.verdict == "too few seeds":
        return f"{subject} not resolved (a verdict needs {MIN_SEEDS} seeds)"
    if change.verdict == "none":
        return f"{subject} no difference" if is_negligible(change) else f"{subject} not resolved"
    if change.scale is Scale.RATIO:
        return f"{subject} ×{format_interval(change.effect, digits=3)}"
    sign = "+" if change.effect.estimate > 0 else ""
    return f"{subject} {sign}{format_interval(change.effect, METRICS[change.metric].scale, digits=3)}"


def _choice_text(comparison: Comparison, choice: JointChoice) -> str:
    shares = [
        f"{round(100 * share.estimate)} % of the best {'call' if traffic == CALL else traffic}"
        for traffic, share in choice.shares.items()
    ]
    if not choice.rivals:
        return f"One setting for all three: {choice.setting}, with {join_names(shares)}."
    seeds, rivals = comparison.config.seeds, list(choice.rivals)
    if len(rivals) > MAX_RIVALS:
        rivals = [*rivals[:MAX_RIVALS], f"{len(rivals) - MAX_RIVALS} more"]
    count = f"{seeds} seed{'' if seeds == 1 else 's'}"
    return (
        f"One setting for all three is not resolved with {count}: {choice.setting} ({join_names(shares)}), not "
        f"separated from {join_names(rivals)}; try --seeds {more_seeds(seeds)}."
    )


MAX_RIVALS = 2
"""Settings that a sentence names as not separated; it counts the others."""


def more_seeds(seeds: int) -> int:
    """Return the number of seeds that an unresolved result proposes."""
    return max(MORE_SEEDS, 4 * seeds if seeds >= MORE_SEEDS else 0)
