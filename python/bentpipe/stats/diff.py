"""Two stores compared, before and after a change: paired differences with intervals, and a verdict a metric.

Runs are paired by cell of the sweep, seed, flow and direction (loads of pages by their number too), so what chance did
to both sides alike cancels out. Beside flows what else there is gets compared (``compared``).
What has no partner is counted and left out. A verdict needs an interval that excludes no change *and* a change that
matters (:class:`Matters`): with many seeds any difference at all becomes certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from bentpipe.scenario.problems import ARGUMENT, ScenarioError, unknown_word
from bentpipe.scenario.units import Probability, UnitError
from bentpipe.stats.compared import KINDS, OF_KINDS, Kind
from bentpipe.stats.groups import as_groups, group_metrics
from bentpipe.stats.intervals import (
    CONFIDENCE,
    Interval,
    mean_difference,
    median,
    paired_bootstrap,
    ratio_of_means,
    round_significant,
    significant,
)
from bentpipe.stats.titles import METRICS
from bentpipe.stats.wording import bracketed
from bentpipe.store.reader import Store, read_store

Verdict = Literal["regression", "improvement", "none"]

LEAST = 0.01
"""Smallest change of a metric's mean, as a part of the mean before, that a verdict is given for."""

BETTER: dict[str, int] = {
    "goodput_bit_s": 1,
    "jain": 1,
    "retransmission_ratio": -1,
    "completion_p50_s": -1,
    "completion_p95_s": -1,
    "queueing_p95_ms": -1,
    "convergence_s": -1,
}
"""Metrics that are compared, and whether more (1) or less (-1) is better."""

OF_PROGRAMS: dict[str, int] = {"command_s": -1, "up_bytes": -1, "down_bytes": -1}
"""The same of a real program that does the same work behind an access (:mod:`bentpipe.regress`)."""

OF_STORES: dict[str, int] = BETTER | OF_KINDS
"""Every metric that stores are compared by."""

OF_RUN = ("jain", "convergence_s", "queueing_p95_ms")
"""Metrics that belong to a run, not to one of its flows; they are compared once a run and direction."""


@dataclass(frozen=True, slots=True)
class Matters:
    """Which metrics are compared, and from which change on each gets a verdict."""

    least: float = LEAST
    """Smallest change, as a part of the mean before."""
    of: Mapping[str, float] = field(default_factory=dict)
    """The same of single metrics."""
    only: tuple[str, ...] = ()
    """Metrics that are compared; all without."""

    def least_of(self, metric: str) -> float:
        """Smallest change of ``metric`` that matters."""
        return self.of.get(metric, self.least)

    def chosen(self, metrics: Iterable[str]) -> list[str]:
        """Those of ``metrics`` that are compared."""
        return [one for one in metrics if not self.only or one in self.only]

    @classmethod
    def read(cls, thresholds: Sequence[str], only: Sequence[str], known: Iterable[str]) -> Matters:
        """From texts such as ``"5 %"`` and ``"plt_s=10 %"``, and names of metrics.

        Raises:
            ScenarioError: a threshold that is no percentage, a metric that is none of ``known``.
        """
        names = list(known)
        least, of = LEAST, {}
        for text in thresholds:
            metric, equals, share = text.rpartition("=")
            if equals and metric not in names:
                raise ScenarioError([("threshold", unknown_word(metric, names, "metric"))], ARGUMENT)
            try:
                value = Probability.parse(share).value
            except UnitError as error:
                raise ScenarioError([("threshold", str(error))], ARGUMENT) from None
            if equals:
                of[metric] = value
            else:
                least = value
        for metric in only:
            if metric not in names:
                raise ScenarioError([("metric", unknown_word(metric, names, "metric"))], ARGUMENT)
        return cls(least, of, tuple(only))


@dataclass(frozen=True, slots=True)
class Change:
    """One metric in one group of pairs.

    ``before`` and ``after`` are means, ``difference`` the mean paired difference with its bootstrap interval,
    ``median_difference`` the median of the paired differences, all in the metric's unit; ``ratio`` is after over
    before, with its interval. ``pairs`` went in; ``flow`` and ``direction`` are empty for metrics of a run.
    """

    metric: str
    flow: str
    direction: str
    pairs: int
    before: float
    after: float
    difference: Interval
    median_difference: float
    ratio: Interval
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Comparison:
    """All changes, and how many rows of either store had no partner."""

    changes: tuple[Change, ...]
    only_before: int
    only_after: int

    @property
    def regressed(self) -> bool:
        """Whether any metric got worse: the exit status of ``bentpipe diff``."""
        return any(change.verdict == "regression" for change in self.changes)

    def frame(self) -> pl.DataFrame:
        """One row per change, numbers to six significant digits."""
        return pl.DataFrame(self.rows(), schema=_SCHEMA)

    def rows(self) -> list[dict[str, Any]]:
        """The same, ready for JSON."""
        return [
            {
                "metric": c.metric, "flow": c.flow, "direction": c.direction, "pairs": c.pairs,
                "before": round_significant(c.before), "after": round_significant(c.after),
                "difference": round_significant(c.difference.estimate),
                "difference_low": round_significant(c.difference.low),
                "difference_high": round_significant(c.difference.high),
                "median_difference": round_significant(c.median_difference),
                "ratio": round_significant(c.ratio.estimate), "ratio_low": round_significant(c.ratio.low),
                "ratio_high": round_significant(c.ratio.high), "verdict": c.verdict,
            }
            for c in self.changes
        ]  # fmt: skip

    def lines(self) -> list[dict[str, Any]]:
        """The same for people: fewer columns, and the units a summary has."""
        found = []
        for c in self.changes:
            metric = METRICS[c.metric]
            factor = metric.factor
            found.append(
                {
                    "metric": metric.heading, "flow": c.flow, "direction": c.direction, "pairs": c.pairs,
                    "before": significant(c.before * factor), "after": significant(c.after * factor),
                    "difference": _spread(c.difference, factor),
        "ratio": significant(c.ratio.estimate) if c.before or c.after else "",
                    "verdict": "" if c.verdict == "none" else c.verdict,
                }
            )  # fmt: skip
        dull = {name for name in ("flow", "direction") if len({line[name] for line in found} - {""}) <= 1}
        return [{key: value for key, value in line.items() if key not in dull} for line in found]


def _spread(found: Interval, factor: float) -> str:
    one = found.low == found.high
    return significant(found.estimate * factor) if one else bracketed(found, factor)


_SCHEMA = {
    "metric": pl.String, "flow": pl.String, "direction": pl.String, "pairs": pl.Int64,
    "before": pl.Float64, "after": pl.Float64,
    "difference": pl.Float64, "difference_low": pl.Float64, "difference_high": pl.Float64,
    "median_difference": pl.Float64, "ratio": pl.Float64, "ratio_low": pl.Float64, "ratio_high": pl.Float64,
    "verdict": pl.String,
}  # fmt: skip


def compare(
    before: Store | Path | str,
    after: Store | Path | str,
    confidence: float = CONFIDENCE,
    matters: Matters | None = None,
) -> Comparison:
    """Compare two stores.

    Raises:
        StoreError: a directory that is none, or a newer bentpipe's.
        ValueError: nothing can be paired, or no run has one of the metrics that matter.
    """
    matters = matters or Matters()
    first = read_store(before)
    second = read_store(after)
    keys = sorted({*first.columns, *second.columns})
    by = [*keys, "seed", "flow", "direction"]
    a, b = (_frame(group_metrics(store), keys) for store in (first, second))
    pairs = a.join(b, on=by, how="inner", suffix="_after", nulls_equal=True, maintain_order="left")
    if not pairs.height:
        raise ValueError(
            f"{first.path.name} and {second.path.name} have no run in common (same cell, seed and flow)"
        )
    changes = []
    for metric in matters.chosen(BETTER):
        groups = _groups(pairs, metric, by)
        for flow, direction, group in groups:
            left, right = group[metric].to_list(), group[f"{metric}_after"].to_list()
            changes.append(judged(metric, flow, direction, left, right, confidence, matters))
    for kind in KINDS:
        changes += _changes_of(kind, first, second, keys, confidence, matters)
    if matters.only and not changes:
        raise ValueError(f"{first.path.name} and {second.path.name} have no {' and no '.join(matters.only)}")
    return Comparison(tuple(changes), a.height - pairs.height, b.height - pairs.height)


def _frame(metrics: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    there = set(metrics.columns)
    missing = [pl.lit(None, pl.String).alias(key) for key in keys if key not in there]
    return metrics.with_columns(missing).select(*keys, "seed", "flow", "direction", *BETTER)


def _changes_of(
    kind: Kind, before: Store, after: Store, keys: Sequence[str], confidence: float, matters: Matters
) -> list[Change]:
    """Of what both stores have of a kind, by flow and direction."""
    metrics = matters.chosen(kind.metrics)
    if not metrics:
        return []
    a, b = kind.of(before, keys), kind.of(after, keys)
    if a is None or b is None:
        return []
    by = [*keys, "seed", "flow", "direction", *kind.pairing]
    pairs = a.join(b, on=by, how="inner", suffix="_after", nulls_equal=True, maintain_order="left")
    pairs = as_groups(pairs, before.rows("summary")) if kind.pairing else pairs
    changes = []
    for metric in metrics:
        known = pairs.drop_nulls([metric, f"{metric}_after"])
        if (
            metric == "loads_finished"
            and known.select(pl.min_horizontal(metric, f"{metric}_after").min()).item() == 1
        ):
            continue  # all of them, both times
        for group in known.partition_by("flow", "direction", maintain_order=True):
            left, right = group[metric].to_list(), group[f"{metric}_after"].to_list()
            flow, direction = group["flow"][0], group["direction"][0]
            changes.append(judged(metric, flow, direction, left, right, confidence, matters))
    return changes


def _groups(pairs: pl.DataFrame, metric: str, by: Sequence[str]) -> list[tuple[str, str, pl.DataFrame]]:
    known = pairs.drop_nulls([metric, f"{metric}_after"])
    if metric in OF_RUN:
        once = [column for column in by if column != "flow"]
        known = known.unique(once, keep="first", maintain_order=True)
        return [("", "", known)] if known.height else []
    parts = known.partition_by("flow", "direction", maintain_order=True)
    return [(part["flow"][0], part["direction"][0], part) for part in parts]


def judged(
    metric: str,
    flow: str,
    direction: str,
    left: Sequence[float],
    right: Sequence[float],
    confidence: float = CONFIDENCE,
    matters: Matters | None = None,
) -> Change:
    """The change from ``left`` to ``right``, values of ``metric`` in pairs. Raises ValueError when there is no pair."""
    difference = paired_bootstrap(left, right, mean_difference, confidence)
    ratio = paired_bootstrap(left, right, ratio_of_means, confidence)
    mean, least = sum(left) / len(left), (matters or Matters()).least_of(metric)
    return Change(
        metric, flow, direction, len(left), mean, sum(right) / len(right),
        difference, median([y - x for x, y in zip(left, right, strict=True)]), ratio,
        _verdict(difference, least * abs(mean), (OF_STORES | OF_PROGRAMS)[metric]),
    )  # fmt: skip


def _verdict(difference: Interval, least: float, better: int) -> Verdict:
    """One pair has no interval: then the change alone decides, because runs without chance repeat exactly."""
    if abs(difference.estimate) <= least or difference.estimate == 0:
        return "none"
    low = difference.estimate if difference.low is None else difference.low
    high = difference.estimate if difference.high is None else difference.high
    if low <= 0 <= high:
        return "none"
    return "improvement" if difference.estimate * better > 0 else "regression"
