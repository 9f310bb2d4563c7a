"""Two stores of one scenario, simulated and real, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.engine_validation.bounds import BOUNDS, Verdict, verdict
from bentpipe.engine_validation.bundles import delivered
from bentpipe.engine_validation.user_shares import ALONE, members, of_all, with_shares
from bentpipe.metrics.call_quality import RatingConfig, parse, rate_calls
from bentpipe.metrics.compute import MINOR_SHARE, decoded_ratios, flow_directions, run_metrics
from bentpipe.metrics.format import format_mean, format_metric_mean, short_labels
from bentpipe.metrics.intervals import ConfidenceInterval, mean_ci, round_significant
from bentpipe.metrics.registry import METRICS, Metric
from bentpipe.scenario.sweep_columns import column_headings, column_name, sweep_key
from bentpipe.store.reader import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["COMPARED", "EngineComparison", "Row", "Verdict", "compare_engines"]


COMPARED = (
    METRICS["goodput_sum_bit_s"],
    METRICS["group_jain"],
    METRICS["goodput_bit_s"],
    METRICS["share_percent"],
    METRICS["delivered_bundles"],
    METRICS["delivery_p50_s"],
    METRICS["completion_p50_s"],
    METRICS["loads_finished"],
    METRICS["ttr_s"].within("ms", 1e3),
    METRICS["plt_s"].within("ms", 1e3),
    METRICS["smoothed_rtt_ms"],
    METRICS["least_rtt_ms"],
    METRICS["sent_again_percent"],
    METRICS["largest_cwnd_bytes"],
    METRICS["queueing_p95_ms"],
    METRICS["decoded_ratio"],
    METRICS["delay_ms"],
    METRICS["rating"],
    METRICS["mos"],
)
"""What is compared, in the order in which it is printed."""

IN_PER_CENT = frozenset({
    "goodput_bit_s", "goodput_sum_bit_s", "share_percent", "completion_p50_s", "smoothed_rtt_ms", "largest_cwnd_bytes",
    "delivered_bundles", "delivery_p50_s",
})  # fmt: skip
"""Metrics whose difference is said so; of the others in their unit."""


PLAYOUT = parse("60 ms")
"""With which calls are heard: an adaptive one buffers no more than the jitter, of which virtual time has none where
nothing else is on the way, so that tenths of a millisecond of a real machine would be late loss."""

OF_ALL = frozenset({"decoded_ratio"})
"""Metrics of a link, whichever flow they stand at."""


@dataclass(frozen=True)
class Row:
    """One number of a flow in a cell of the sweep, on both clocks."""

    cell: Mapping[str, str | None]
    flow: str
    direction: str
    congestion: str
    metric: Metric
    simulated: ConfidenceInterval
    real: ConfidenceInterval
    difference: ConfidenceInterval
    """Real minus simulated, paired by seed; relative to the simulated mean where ``relative``."""
    verdict: Verdict
    among: int = ALONE
    """Flows of its table: so many numbers of one kind are judged together."""

    @property
    def relative(self) -> bool:
        """Whether the difference is one to the simulated mean."""
        return self.metric.name in IN_PER_CENT

    @property
    def bound(self) -> str:
        """Of the difference, in words."""
        bound = BOUNDS.get(self.metric.name)
        if bound is None:
            return ""
        return f"{bound.text}{f', of {self.among} together' if self.among > ALONE else ''}"

    def data(self) -> dict[str, Any]:
        """As JSON would have it, in base units."""

        def told(found: ConfidenceInterval) -> dict[str, Any]:
            ends = {"mean": found.estimate, "low": found.low, "high": found.high}
            return {key: round_significant(value) for key, value in ends.items()} | {"seeds": found.n}

        return {
            "cell": dict(self.cell), "flow": self.flow, "direction": self.direction, "congestion": self.congestion,
            "metric": self.metric.name, "simulated": told(self.simulated), "real": told(self.real),
            "difference": told(self.difference) | {"relative": self.relative}, "bound": self.bound,
            "verdict": self.verdict.value or None,
        }  # fmt: skip

    def line(self) -> dict[str, Any]:
        """As the terminal prints it."""
        line = {
            "flow": self.flow,
            "way": self.direction,
            "metric": self.metric.heading_alone,
            "simulated": format_metric_mean(self.metric, self.simulated, self.simulated.n),
            "real": format_metric_mean(self.metric, self.real, self.real.n),
            "difference": self.apart,
            "bound": self.bound,
            "": self.verdict.value,
        }
        called = column_headings({column_name(key): key.rsplit(".", 1)[-1] for key in self.cell}, line)
        return {called[column_name(key)]: value for key, value in self.cell.items()} | line

    @property
    def apart(self) -> str:
        """The difference with its interval, as text."""
        factor = 100.0 if self.relative else self.metric.scale
        found = self.difference
        sign = "+" if found.estimate > 0 else ""
        said = format_mean(found, factor, digits=2)
        return f"{sign}{said}{' %' if self.relative else ''}"


@dataclass(frozen=True)
class EngineComparison:
    """All numbers of two stores."""

    title: str
    simulated: Store
    real: Store
    rows: tuple[Row, ...]

    @property
    def exceeded(self) -> bool:
        """Whether a bound is."""
        return any(row.verdict is Verdict.EXCEEDED for row in self.rows)

    @property
    def undecided(self) -> int:
        """How many numbers the seeds cannot judge."""
        return sum(row.verdict is Verdict.UNDECIDED for row in self.rows)

    @property
    def agreed(self) -> bool:
        """Whether every number that is judged is within its bound: exit status 0 of ``bentpipe compare-engines``."""
        return all(row.verdict in (Verdict.WITHIN, Verdict.SHOWN) for row in self.rows)

    def data(self) -> dict[str, Any]:
        """As JSON would have it."""
        return {
            "title": self.title,
            "simulated": str(self.simulated.path),
            "real": str(self.real.path),
            "engine": self.simulated.engine,
            "rows": [row.data() for row in self.rows],
            "exceeded": self.exceeded,
            "undecided": self.undecided,
        }


def compare_engines(simulated: Path | Store, real: Path | Store) -> EngineComparison:
    """Both stores, as far as both have run.

    Raises:
        bentpipe.StoreError: one is not a store, or has no finished run.
    """
    sim = open_store(simulated)
    emu = open_store(real)
    keys = list(sim.columns)
    frames = [_metrics(store) for store in (sim, emu)]
    tables = members(frames[1])
    rows = []
    group = [*keys, "flow", "direction"]
    for first in (
        pl.concat([one.select(group) for one in reversed(frames)]).unique(maintain_order=True).to_dicts()
    ):
        cell = {sweep_key(key): first[key] for key in keys}
        here = [frame.filter(*(pl.col(key).eq_missing(first[key]) for key in keys)) for frame in frames]
        ours, theirs = (
            _or_nothing(frame, other, first) for frame, other in ((here[0], here[1]), (here[1], here[0]))
        )
        if ours.height and theirs.height:
            rows += list(_rows(cell, ours, theirs, tables.get(str(first["flow"]), ALONE)))
    return EngineComparison(sim.title, sim, emu, tuple(rows))


def _or_nothing(frame: pl.DataFrame, other: pl.DataFrame, first: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of a flow's direction in a cell; a goodput of 0 for every seed where the flow delivered next to nothing, so
    that the direction has no rows, and the ``other`` clock has some."""
    own = frame.filter(pl.col("flow") == first["flow"], pl.col("direction") == first["direction"])
    if own.height or not frame.height:
        return own
    received = pl.col("received_bytes").filter(pl.col("flow") == first["flow"]).cast(pl.Float64).sum()
    came, there = (float(one.select(received).item()) for one in (frame, other))
    if came > 0 and came >= MINOR_SHARE * there:
        return own
    seeds = frame.unique("seed", maintain_order=True)
    silent = other.filter(pl.col("flow") == first["flow"], pl.col("direction") == first["direction"])
    return seeds.select(
        "seed",
        flow=pl.lit(first["flow"]), direction=pl.lit(first["direction"]),
        congestion=pl.lit(silent["congestion"][0], pl.String), goodput_bit_s=pl.lit(0.0),
    )  # fmt: skip


def _rows(cell: Mapping[str, Any], ours: pl.DataFrame, theirs: pl.DataFrame, among: int) -> Iterator[Row]:
    first = theirs.row(0, named=True)
    for metric in COMPARED:
        simulated, real = _values(ours, metric.name), _values(theirs, metric.name)
        if not simulated or not real:
            continue
        if metric.name == "loads_finished" and {*simulated.values(), *real.values()} == {1.0}:
            continue
        mean = sum(simulated.values()) / len(simulated)
        pairs = [
            (simulated.get(seed, mean), value)
            for seed, value in real.items()
            if seed in simulated or len(set(simulated.values())) == 1
        ]
        if not pairs:
            continue
        differences = [after - before for before, after in pairs]
        many = ALONE if metric.name in OF_ALL else among
        answer = verdict(metric.name, mean, differences, many)
        apart = mean_ci(differences)
        if metric.name in IN_PER_CENT and mean != 0:
            apart = mean_ci([difference / mean for difference in differences])
        elif metric.name in IN_PER_CENT and any(differences):
            apart = ConfidenceInterval(math.inf, None, None, len(differences))
        yield Row(
            cell, str(first["flow"]), str(first["direction"]), str(first["congestion"]), metric,
            mean_ci(list(simulated.values())), mean_ci(list(real.values())), apart, answer, many,
        )  # fmt: skip


def _values(frame: pl.DataFrame, name: str) -> dict[int, float]:
    """By seed: loads of a page of one run are no independent samples, and count by their mean."""
    if name not in frame.columns:
        return {}
    known = frame.filter(pl.col(name).is_not_null()).group_by("seed", maintain_order=True)
    return dict(known.agg(pl.col(name).cast(pl.Float64).mean()).iter_rows())


def _metrics(store: Store) -> pl.DataFrame:
    """One row a run, flow and direction, with everything that is compared; of pages, means over a run's loads."""
    by = ["run", "flow", "direction"]
    frame = _counting(run_metrics(store))
    frame = frame.with_columns(sent_again_percent=pl.col("retransmission_ratio") * 100)
    frame = _since_open(store, frame)
    frame = frame.join(_round_trips(store, frame), on=by, how="left", maintain_order="left")
    frame = frame.join(_decoded(store), on=["run", "direction"], how="left", maintain_order="left")
    if store.rows("calls").height:
        judged = rate_calls(store, RatingConfig(playout=PLAYOUT)).select(*by, "delay_ms", "rating", "mos")
        frame = frame.join(judged, on=by, how="left", maintain_order="left")
    bundles = delivered(store)
    if bundles.height:
        bundles = bundles.with_columns(direction=pl.lit("up"))
        frame = frame.join(bundles, on=by, how="left", maintain_order="left")
    # of the link, and so said once
    is_first = pl.int_range(pl.len()).over("run", "direction") == 0
    frame = with_shares(store, frame.with_columns(pl.when(is_first).then("decoded_ratio")))
    frame = pl.concat([of_all(frame, list(store.columns)), frame], how="diagonal")
    pages = store.rows("pages")
    if not pages.height:
        return frame
    done = pl.col("finished") == 1
    loads = pages.group_by("run", "flow", maintain_order=True).agg(
        loads_finished=done.mean(),
        ttr_s=pl.col("ttr_s").filter(done).mean(),
        plt_s=pl.col("plt_s").filter(done).mean(),
    )
    heads = frame.filter(~pl.col("flow").is_in(loads["flow"].implode()))
    paged = store.index.join(loads, on="run", how="inner", maintain_order="left_right").with_columns(
        direction=pl.lit("down"), congestion=pl.lit("")
    )
    return pl.concat([heads, paged], how="diagonal")


def _counting(frame: pl.DataFrame) -> pl.DataFrame:
    """Without directions that carry little in their own run, where the sweep turns a flow around."""
    total = pl.col("received_bytes").sum().over("run", "flow")
    return frame.filter((total == 0) | (pl.col("received_bytes") >= MINOR_SHARE * total))


def _decoded(store: Store) -> pl.DataFrame:
    """Of the radio links of each direction, the one that decodes least."""
    way = pl.col("link").str.split(".").list.last().alias("direction")
    return decoded_ratios(store).group_by("run", way).agg(pl.col("decoded_ratio").min())


def _since_open(store: Store, frame: pl.DataFrame) -> pl.DataFrame:
    """Goodput from the client's opening of its first stream on.

    The tables count from the first that either side knows of it: for TCP the SYN at a simulated server, but at a real
    one what the kernel hands over after the handshake.
    """
    streams = store.rows("streams")
    if streams.width <= 1:
        return frame
    opened = streams.group_by("run", "flow", maintain_order=True).agg(
        pl.col("start_s").min().alias("__opened")
    )
    end = pl.col("data_start_s") + pl.col("duration_s")
    goodput = pl.col("received_bytes") * 8 / (end - pl.col("__opened"))
    return (
        frame.join(opened, on=["run", "flow"], how="left", maintain_order="left")
        .with_columns(
            goodput_bit_s=pl.when(end > pl.col("__opened")).then(goodput).otherwise("goodput_bit_s")
        )
        .drop("__opened")
    )


def _round_trips(store: Store, frame: pl.DataFrame) -> pl.DataFrame:
    """Mean of the senders' smoothed RTT while they send, and the least RTT."""
    ways = flow_directions(store.rows("summary")).select("flow", "direction", pl.col("sender").alias("side"))
    columns = ["time_s", "flow", "side", "smoothed_rtt_ms", "min_rtt_ms"]
    samples = store.rows("flows", columns).join(ways, on=["flow", "side"], how="inner", maintain_order="left")
    spans = frame.select("run", "flow", "direction", "data_start_s", "duration_s")
    during = (pl.col("time_s") > pl.col("data_start_s")) & (
        pl.col("time_s") <= pl.col("data_start_s") + pl.col("duration_s")
    )
    return (
        samples.join(spans, on=["run", "flow", "direction"], how="left", maintain_order="left")
        .filter(during)
        .group_by("run", "flow", "direction", maintain_order=True)
        .agg(pl.col("smoothed_rtt_ms").mean(), pl.col("min_rtt_ms").min().alias("least_rtt_ms"))
    )


def format_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as people are shown them, without columns that say nothing."""
    words = short_labels({value for row in rows for value in row.cell.values() if value is not None})
    found = [{key: words.get(str(value), value) for key, value in row.line().items()} for row in rows]
    if not found:
        return found
    dull = [name for name in ("way", "bound", "") if all(not line[name] for line in found)]
    return [{key: value for key, value in line.items() if key not in dull} for line in found]
