"""Comparison of the variants of a sweep (controllers or other alternatives) in each case: a verdict for each pair.

A case is one combination of the other swept values. Each pair of variants is one comparison of
:mod:`bentpipe.metrics.compare`, seed by seed, and the pairs of a case are a family of its correction.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics.compare import DELIVERY, NO_VERDICT, Draws, MetricChange, Pairs, Scale, compare_pairs
from bentpipe.metrics.intervals import ConfidenceInterval, mean_ci

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.metrics.registry import Metric
    from bentpipe.store.reader import Store

__all__ = ["VariantCase", "VariantPair", "compare_variants", "repeat_deterministic_runs"]


@dataclass(frozen=True, slots=True)
class VariantPair:
    """Comparison of two variants of a case."""

    first: str
    second: str
    effect: ConfidenceInterval | None
    """First over second, or first minus second."""
    scale: Scale = Scale.RATIO
    p: float | None = None
    """Adjusted p-value."""
    ahead: str = ""
    """Variant that is proven to be better; empty without one."""
    is_decided: bool = True
    """Whether the seeds suffice for a verdict."""
    reason: str = ""
    """Reason of the verdict, or of its absence."""
    is_unfinished: bool = False
    """Whether the better variant has no lead because a smaller share of its loads finished."""

    @property
    def names(self) -> tuple[str, str]:
        """Both variants; of a ratio, that with the larger value first, so that the ratio is at least 1."""
        is_less = self.effect is not None and self.scale is Scale.RATIO and 0 < self.effect.estimate < 1
        return (self.second, self.first) if is_less else (self.first, self.second)

    def advantage(self, variant: str) -> ConfidenceInterval | None:
        """Return the ratio or difference of ``variant`` to the other one of the pair."""
        effect = self.effect
        if effect is None or variant == self.first:
            return effect
        ends = (effect.estimate, effect.high, effect.low)
        if self.scale is Scale.DIFFERENCE:
            turned = [None if end is None else -end for end in ends]
        else:
            turned = [None if end is None else 1 / end if end else float("inf") for end in ends]
        return ConfidenceInterval(turned[0] or 0.0, turned[1], turned[2], effect.n)


@dataclass(frozen=True, slots=True)
class VariantCase:
    """Values of all variants in one case, and the comparisons of all pairs."""

    row: Mapping[str, Any]
    """Values of the other swept keys."""
    values: Mapping[str, ConfidenceInterval]
    """Mean (or median) of each variant."""
    pairs: Sequence[VariantPair]

    def best(self, better: int) -> str:
        """Return the variant that is ahead of all others, else the one with the best value."""
        wins = Counter(pair.ahead for pair in self.pairs if pair.ahead)
        ahead = next((name for name, count in wins.items() if count == len(self.values) - 1), None)
        return ahead or max(self.values, key=lambda name: better * self.values[name].estimate)

    def pairs_of(self, variant: str) -> dict[str, VariantPair]:
        """Return the comparisons of ``variant`` by the other variant."""
        return {
            pair.second if pair.first == variant else pair.first: pair
            for pair in self.pairs
            if variant in (pair.first, pair.second)
        }


def compare_variants(
    frame: pl.DataFrame, metric: Metric, variants: Sequence[str], keys: Sequence[str]
) -> list[VariantCase]:
    """Compare all pairs of variants in every case that has several.

    Args:
        frame: one row for each case, variant and seed, with ``variant``, ``seed`` and ``value``.
        metric: metric of the values.
        variants: variants in the order of the result.
        keys: columns of a case.
    """
    groups = frame.partition_by(list(keys), maintain_order=True) if keys else [frame]
    cases = []
    for group in groups:
        by_variant: dict[str, dict[int, float]] = {}
        for variant, seed, value in group.select("variant", "seed", "value").iter_rows():
            by_variant.setdefault(variant, {})[seed] = value
        present = [variant for variant in variants if variant in by_variant]
        if len(present) > 1:
            row = {key: group[key][0] for key in keys}
            values = {name: mean_ci(list(by_variant[name].values())) for name in present}
            cases.append(VariantCase(row, values, _compare_pairs(metric, by_variant, present)))
    return cases


def _compare_pairs(
    metric: Metric, values: Mapping[str, Mapping[int, float]], variants: Sequence[str]
) -> list[VariantPair]:
    names = [_order_by_delivery(metric, values, pair) for pair in combinations(variants, 2)]
    pairs = []
    for first, second in names:
        seeds = sorted(values[first].keys() & values[second].keys())
        sides = [[values[name][seed] for seed in seeds] for name in (second, first)]
        # Equal differences of several seeds are those of deterministic runs.
        pairs.append(Pairs(metric.name, sides[0], sides[1], flow=f"{first}/{second}", draws=Draws.UNKNOWN))
    changes = {change.flow: change for change in compare_pairs(pairs)}
    return [
        _variant_pair(first, second, changes[f"{first}/{second}"])
        for first, second in names
        if f"{first}/{second}" in changes
    ]


def _order_by_delivery(
    metric: Metric, values: Mapping[str, Mapping[int, float]], pair: tuple[str, str]
) -> tuple[str, str]:
    """Return a pair with the variant first that delivers nothing in more runs: it has a verdict with any seeds."""
    if metric.name not in DELIVERY:
        return pair
    zeros = [list(values[name].values()).count(0.0) for name in pair]
    return pair if zeros[0] >= zeros[1] else (pair[1], pair[0])


def _variant_pair(first: str, second: str, change: MetricChange) -> VariantPair:
    ahead = {"improvement": first, "regression": second}.get(change.verdict, "")
    is_decided = change.verdict not in NO_VERDICT
    effect = change.effect
    if effect is not None and effect.low == effect.high:  # deterministic runs have no interval
        effect = ConfidenceInterval(effect.estimate, None, None, effect.n)
    return VariantPair(
        first, second, effect, change.scale, change.p_adjusted, ahead, is_decided, change.reason
    )


def repeat_deterministic_runs(store: Store, frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` with the rows of a deterministic run for every seed of the store.

    A plan has one run of a deterministic cell and one for each seed of the others.
    """
    cells = [tuple(sorted((key, str(value)) for key, value in row["cell"].items())) for row in store.planned]
    counts = Counter(cells)
    if max(counts.values(), default=1) == 1:
        return frame
    once = [row["id"] for row, cell in zip(store.planned, cells, strict=True) if counts[cell] == 1]
    seeds = sorted({row["seed"] for row in store.planned})
    every = pl.lit(pl.Series([seeds], dtype=pl.List(frame.schema["seed"])))
    own = pl.concat_list("seed")
    return frame.with_columns(seed=pl.when(pl.col("run").is_in(once)).then(every).otherwise(own)).explode(
        "seed"
    )
