"""Headline of a comparison: the settings that are better than the baseline, for each traffic."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bentpipe.link_layer.config import CALL, TRAFFIC
from bentpipe.link_layer.recommendation import is_negligible, is_open, more_seeds, recommendation_text
from bentpipe.link_layer.results import best, primary_metric
from bentpipe.metrics.compare import MIN_SEEDS
from bentpipe.metrics.format import TOO_FEW_SEEDS, format_metric_mean, has_too_few_seeds
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.registry import METRICS
from bentpipe.report.headline import NO_INTERVAL

if TYPE_CHECKING:
    from bentpipe.link_layer.results import Comparison, Measurement
    from bentpipe.metrics.call_quality.playout import Playout

__all__ = ["describe_playout", "headline_text", "supporting_text"]


def headline_text(comparison: Comparison) -> str:
    """Return the result: the best setting of each traffic, the effect of a reordering buffer, one setting for all."""
    parts = [_traffic_text(comparison, traffic) for traffic in TRAFFIC]
    return " ".join(filter(None, (*parts, recommendation_text(comparison))))


def _traffic_text(comparison: Comparison, traffic: str) -> str:
    config = comparison.config
    metric = primary_metric(config, traffic)
    subject = "The call" if traffic == CALL else traffic
    baseline, *others = comparison.of(traffic)
    reference = _value(comparison, baseline, metric)
    better = [one for one in others if metric in one.changes and one.changes[metric].verdict == "improvement"]
    chosen = best(better, metric)
    if chosen is None:
        if reference is None:
            return f"{subject} has no result with {baseline.setting}."
        return f"{subject} has {reference} with {baseline.setting}; {_without_winner(comparison, traffic)}."
    value = _value(comparison, chosen, metric)
    return (
        f"{subject} has {value} with {chosen.setting}; {baseline.setting} gives {reference or 'no result'}."
    )


def _without_winner(comparison: Comparison, traffic: str) -> str:
    """Return the reason why no setting is better than the baseline: too few seeds, an open result, or none is."""
    seeds = comparison.config.seeds
    if seeds < MIN_SEEDS:
        return f"a verdict needs {MIN_SEEDS} seeds"
    metric = primary_metric(comparison.config, traffic)
    baseline, *others = comparison.of(traffic)
    mean = baseline.mean(metric)
    changes = [one.changes[metric] for one in others if metric in one.changes]
    if any(is_open(change) for change in changes) or (mean is not None and has_too_few_seeds(mean)):
        return f"whether another setting is better is not resolved with {seeds} seeds; try --seeds {more_seeds(seeds)}"
    if changes and all(is_negligible(change) for change in changes):
        return "all settings agree"
    return "no other setting is better"


def _value(comparison: Comparison, one: Measurement, metric: str) -> str | None:
    """Return the mean of a metric as text with its title and unit: ``a goodput of 9 ± 1 Mbit/s``."""
    mean = one.mean(metric)
    if mean is None:
        return None
    entry = METRICS[metric]
    text = format_metric_mean(entry, mean, comparison.config.seeds).replace(TOO_FEW_SEEDS, "")
    return f"a {entry.single_title or entry.short_title or entry.title} of {text} {entry.unit}".rstrip()


def supporting_text(comparison: Comparison) -> str:
    """Return the numbers of better and worse settings, and the basis of the intervals."""
    config = comparison.config
    verdicts = Counter(change.verdict for change in comparison.changes if change.primary)
    total = sum(verdicts.values())
    text = (
        f"Compared with {config.labels[0]}, {verdicts['improvement']} of {total} combinations of setting and traffic "
        f"are better and {verdicts['regression']} are worse"
    )
    if verdicts["too few seeds"]:
        text += f"; {verdicts['too few seeds']} have too few seeds for a verdict"
    seeds = config.seeds
    if any("out of order" in label for label in config.labels):
        text += '; "out of order" means without a reordering buffer'
    basis = (
        NO_INTERVAL if seeds == 1 else f"means over {seeds} seeds with 95 % intervals, paired tests by Holm"
    )
    path = f" Path: {comparison.path}." if comparison.path else ""
    return f"{text}; {basis}. The play-out of the call is {describe_playout(config.playout)}.{path}"


def describe_playout(playout: Playout) -> str:
    """Return a play-out rule with its meaning."""
    if playout.kind == "quantile":
        late = format_significant(100 * (1 - playout.value), 3)
        return f"{playout}: the least delay with at most {late} % of the received packets late"
    if playout.kind == "fixed":
        return f"{playout} beyond the smallest delay"
    return "adaptive: the mean delay and four mean deviations"
