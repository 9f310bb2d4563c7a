"""Headline of a comparison: the settings that are better than the baseline, for each traffic."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bentpipe.link_layer.config import CALL, TRAFFIC
from bentpipe.link_layer.results import best, primary_metric
from bentpipe.metrics.compare import MIN_SEEDS
from bentpipe.metrics.format import format_metric_mean
from bentpipe.metrics.registry import METRICS
from bentpipe.report.headline import NO_INTERVAL

if TYPE_CHECKING:
    from bentpipe.link_layer.results import Comparison, Measurement

__all__ = ["headline_text", "supporting_text"]


def headline_text(comparison: Comparison) -> str:
    """Return the result: the best setting of each traffic, and whether it is better than the baseline."""
    return " ".join(_traffic_text(comparison, traffic) for traffic in TRAFFIC)


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
        few = any(change.verdict == "too few seeds" for one in others for change in one.changes.values())
        tail = f"a verdict needs {MIN_SEEDS} seeds" if few else "no other setting is better"
        return f"{subject} has {reference} with {baseline.setting}; {tail}."
    value = _value(comparison, chosen, metric)
    return (
        f"{subject} has {value} with {chosen.setting}; {baseline.setting} gives {reference or 'no result'}."
    )


def _value(comparison: Comparison, one: Measurement, metric: str) -> str | None:
    """Return the mean of a metric as text with its title and unit: ``a goodput of 9 ± 1 Mbit/s``."""
    mean = one.mean(metric)
    if mean is None:
        return None
    entry = METRICS[metric]
    text = format_metric_mean(entry, mean, comparison.config.seeds)
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
    basis = (
        NO_INTERVAL if seeds == 1 else f"means over {seeds} seeds with 95 % intervals, paired tests by Holm"
    )
    return f"{text}; {basis}."
