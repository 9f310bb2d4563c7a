"""Results of a comparison: means over seeds by setting and traffic, and paired comparisons with the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bentpipe.link_layer.config import CALL, TRAFFIC, LinkLayerConfig
from bentpipe.metrics.call_quality import RatingConfig, rate_calls
from bentpipe.metrics.change_table import format_effect, rows
from bentpipe.metrics.compare import MetricChange, Pairs, compare_pairs
from bentpipe.metrics.compute import run_metrics
from bentpipe.metrics.format import format_metric_mean
from bentpipe.metrics.intervals import ConfidenceInterval, mean_ci
from bentpipe.metrics.packets import packet_metrics
from bentpipe.metrics.registry import METRICS, Metric
from bentpipe.scenario.sweep_columns import column_name
from bentpipe.store.reader import open_store

__all__ = [
    "COMMON",
    "PLAYED",
    "Comparison",
    "Measurement",
    "best",
    "compare_settings",
    "interval_data",
    "primary_metric",
    "read_comparison",
    "shown_metrics",
    "table_rows",
]

COMMON = ("delay_p95_ms", "residual_loss_ratio")
"""Metrics of every traffic."""

PLAYED = ("late_ratio", "mouth_to_ear_ms")
"""Further metrics of a call, which depend on its play-out; they are not tested."""


def primary_metric(config: LinkLayerConfig, traffic: str) -> str:
    """Return the metric that decides for a traffic: MOS, goodput or completion time."""
    if traffic == CALL:
        return "mos"
    return "goodput_bit_s" if config.size is None else "completion_p50_s"


@dataclass(frozen=True)
class Measurement:
    """One setting with one traffic."""

    setting: str
    traffic: str
    values: Mapping[str, Mapping[int, float]]
    """Values by metric and seed."""
    changes: Mapping[str, MetricChange]
    """Changes against the baseline by metric; empty for the baseline."""

    def mean(self, metric: str) -> ConfidenceInterval | None:
        """Return the mean of a metric over seeds; None without a value."""
        values = list(self.values.get(metric, {}).values())
        return mean_ci(values) if values else None


@dataclass(frozen=True)
class Comparison:
    """All settings with all traffic."""

    config: LinkLayerConfig
    measurements: tuple[Measurement, ...]
    """By traffic, then by setting."""
    engine: str
    path: str = ""
    """Rates, round-trip time and errors of the path."""

    def __repr__(self) -> str:
        """Return the access and the number of settings."""
        return f"<bentpipe link-layer comparison: {self.config.title}, {len(self.config.labels)} settings>"

    def _repr_html_(self) -> str:
        return self.frame()._repr_html_()

    def frame(self) -> pl.DataFrame:
        """Return one row for each traffic, setting and metric.

        Returns:
            Columns ``traffic, setting, metric, mean, mean_low, mean_high, seeds, verdict``; the verdict of a comparison
            with the baseline is null for the baseline and for metrics without a test.
        """
        found = []
        for one in self.measurements:
            for metric in shown_metrics(self.config, one.traffic):
                mean, change = one.mean(metric), one.changes.get(metric)
                if mean is not None:
                    values = (mean.estimate, mean.low, mean.high, mean.n)
                    verdict = None if change is None else str(change.verdict)
                    found.append((one.traffic, one.setting, metric, *values, verdict))
        schema: dict[str, Any] = dict.fromkeys(("traffic", "setting", "metric"), pl.String)
        schema |= dict.fromkeys(("mean", "mean_low", "mean_high"), pl.Float64)
        return pl.DataFrame(found, schema=schema | {"seeds": pl.Int64, "verdict": pl.String}, orient="row")

    def of(self, traffic: str) -> tuple[Measurement, ...]:
        """Return the measurements of a traffic, the baseline first."""
        return tuple(one for one in self.measurements if one.traffic == traffic)

    @property
    def changes(self) -> list[MetricChange]:
        """Every comparison with the baseline."""
        return [change for one in self.measurements for change in one.changes.values()]

    def as_rows(self) -> list[dict[str, Any]]:
        """Return the means as plain data, in the units of the metrics' names."""
        return [
            {
                "traffic": one.traffic,
                "setting": one.setting,
                **{
                    metric: interval_data(one.mean(metric), METRICS[metric])
                    for metric in shown_metrics(self.config, one.traffic)
                },
            }
            for one in self.measurements
        ]

    def change_rows(self) -> list[dict[str, Any]]:
        """Return the comparisons with the baseline as plain data."""
        return rows(self.changes)


def shown_metrics(config: LinkLayerConfig, traffic: str) -> tuple[str, ...]:
    """Return the metrics of the table of a traffic."""
    return (primary_metric(config, traffic), *COMMON, *(PLAYED if traffic == CALL else ()))


def read_comparison(store: Path, config: LinkLayerConfig, path: str = "") -> Comparison:
    """Read the store of a comparison.

    Args:
        store: the store.
        config: input of the comparison.
        path: rates, round-trip time and errors of the path.

    Raises:
        StoreError: the store is missing or damaged.
    """
    results = open_store(store)
    direction = config.access.direction
    axes = {name: pl.col(column_name(name)) for name in ("traffic", "setting")}
    index = results.index.select("run", "seed", **axes)
    sender = "server" if direction == "down" else "client"
    mine = pl.col("direction") == direction
    flows = run_metrics(results).filter(mine).select("run", "goodput_bit_s", "completion_p50_s")
    rating = RatingConfig(playout=config.playout)
    calls = rate_calls(results, rating).filter(mine).select("run", "mos", *PLAYED)
    frame = index
    for part in (flows, calls, packet_metrics(results, sender)):
        frame = frame.join(part, on="run", how="left", maintain_order="left")
    values: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for row in frame.iter_rows(named=True):
        by_metric = values.setdefault((row["traffic"], row["setting"]), {})
        for metric in shown_metrics(config, row["traffic"]):
            if row[metric] is not None:
                by_metric.setdefault(metric, {})[row["seed"]] = row[metric]
    changes = compare_settings(config, values)
    measurements = tuple(
        Measurement(label, traffic, values.get((traffic, label), {}), changes.get((traffic, label), {}))
        for traffic in TRAFFIC
        for label in config.labels
    )
    return Comparison(config, measurements, results.engine, path)


def compare_settings(
    config: LinkLayerConfig, values: Mapping[tuple[str, str], Mapping[str, Mapping[int, float]]]
) -> dict[tuple[str, str], dict[str, MetricChange]]:
    """Return the changes of each setting against the baseline, in pairs with the same seed."""
    baseline, *others = config.labels
    pairs = []
    for traffic in TRAFFIC:
        before = values.get((traffic, baseline), {})
        for label in others:
            after = values.get((traffic, label), {})
            for metric in (primary_metric(config, traffic), *COMMON):
                first, second = before.get(metric, {}), after.get(metric, {})
                seeds = sorted(first.keys() | second.keys())
                pairs.append(
                    Pairs(
                        metric,
                        [first.get(seed) for seed in seeds],
                        [second.get(seed) for seed in seeds],
                        {"traffic": traffic, "setting": label},
                        direction=config.access.direction,
                        primary=metric not in COMMON,
                    )
                )
    changes: dict[tuple[str, str], dict[str, MetricChange]] = {}
    for change in compare_pairs(pairs):
        key = (str(change.cell["traffic"]), str(change.cell["setting"]))
        changes.setdefault(key, {})[change.metric] = change
    return changes


def table_rows(comparison: Comparison, traffic: str) -> list[dict[str, Any]]:
    """Return the table of a traffic: a row for each setting, with the change of its primary metric."""
    primary = primary_metric(comparison.config, traffic)
    found = []
    for one in comparison.of(traffic):
        row: dict[str, Any] = {"setting": one.setting}
        for metric in shown_metrics(comparison.config, traffic):
            mean = one.mean(metric)
            text = None
            if mean is not None:
                text = format_metric_mean(METRICS[metric], mean, comparison.config.seeds)
            row[METRICS[metric].heading] = text
        change = one.changes.get(primary)
        row["change"] = "baseline" if not one.changes else "" if change is None else _format_change(change)
        found.append(row)
    return found


def _format_change(change: MetricChange) -> str:
    verdict = "" if change.verdict == "none" else f", {change.verdict}"
    return f"{format_effect(change)}{verdict}"


def interval_data(interval: ConfidenceInterval | None, metric: Metric | None = None) -> dict[str, Any] | None:
    """Return an interval as plain data, within the range of its metric."""
    if interval is None:
        return None
    interval = interval if metric is None else metric.clip(interval)
    return {"mean": interval.estimate, "low": interval.low, "high": interval.high, "seeds": interval.n}


def best(measurements: Sequence[Measurement], metric: str) -> Measurement | None:
    """Return the measurement with the best mean; the first of equal ones; None without a value."""
    known = [one for one in measurements if one.mean(metric) is not None]
    sign = METRICS[metric].better

    def rank(one: Measurement) -> float:
        mean = one.mean(metric)
        return 0.0 if mean is None else sign * mean.estimate

    return max(known, key=rank, default=None)
