"""Comparison of the simulated and the real store of a scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.engine_validation.bounds import BOUNDS, verdict
from bentpipe.engine_validation.bundles import delivered
from bentpipe.engine_validation.user_shares import ALONE, members, of_all, with_shares
from bentpipe.metrics.call_quality import RatingConfig, parse, rate_calls
from bentpipe.metrics.compare import Equivalence
from bentpipe.metrics.compute import MINOR_SHARE, decoded_ratios, flow_directions, run_metrics
from bentpipe.metrics.format import format_mean, format_metric_mean, short_labels
from bentpipe.metrics.intervals import ConfidenceInterval, mean_ci, round_significant
from bentpipe.metrics.registry import METRICS, Metric
from bentpipe.scenario.sweep_columns import column_headings, column_name, sweep_key
from bentpipe.store.reader import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["COMPARED", "EngineComparison", "Row", "compare_engines"]


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
    METRICS["rtt_min_ms"],
    METRICS["retransmission_ratio"],
    METRICS["cwnd_max_bytes"],
    METRICS["queueing_p95_ms"],
    METRICS["decoded_ratio"],
    METRICS["delay_ms"],
    METRICS["rating"],
    METRICS["mos"],
)
"""Compared metrics, in the order of the output."""

IN_PER_CENT = frozenset({
    "goodput_bit_s", "goodput_sum_bit_s", "share_percent", "completion_p50_s", "smoothed_rtt_ms", "cwnd_max_bytes",
    "delivered_bundles", "delivery_p50_s",
})  # fmt: skip
"""Metrics with a difference in per cent; other differences have the unit of the metric."""


PLAYOUT = parse("60 ms")
"""Playout delay of calls.

An adaptive buffer would be no longer than the jitter. Simulation has no jitter without cross traffic, so that tenths of
a millisecond of a real host would count as late loss.
"""

LINK_METRICS = frozenset({"decoded_ratio"})
"""Metrics of a link, independent of the flow in whose row they are."""


@dataclass(frozen=True)
class Row:
    """One metric of a flow in a cell of the sweep, with both engines."""

    cell: Mapping[str, str | None]
    flow: str
    direction: str
    congestion: str
    metric: Metric
    simulated: ConfidenceInterval
    real: ConfidenceInterval
    difference: ConfidenceInterval
    """Real minus simulated, paired by seed; relative to the simulated mean where ``relative``."""
    verdict: Equivalence
    among: int = ALONE
    """Number of flows of its table, whose metrics of one kind are tested together."""

    @property
    def relative(self) -> bool:
        """True if the difference is relative to the simulated mean."""
        return self.metric.name in IN_PER_CENT

    @property
    def bound(self) -> str:
        """Text of the bound; empty without one."""
        bound = BOUNDS.get(self.metric.name)
        if bound is None:
            return ""
        return f"{bound.text}{f', of {self.among} together' if self.among > ALONE else ''}"

    def data(self) -> dict[str, Any]:
        """Return the row as JSON data in base units."""

        def interval_data(interval: ConfidenceInterval) -> dict[str, Any]:
            values = {"mean": interval.estimate, "low": interval.low, "high": interval.high}
            return {key: round_significant(value) for key, value in values.items()} | {"seeds": interval.n}

        return {
            "cell": dict(self.cell), "flow": self.flow, "direction": self.direction, "congestion": self.congestion,
            "metric": self.metric.name, "simulated": interval_data(self.simulated), "real": interval_data(self.real),
            "difference": interval_data(self.difference) | {"relative": self.relative}, "bound": self.bound,
            "verdict": self.verdict.value or None,
        }  # fmt: skip

    def line(self) -> dict[str, Any]:
        """Return the row as text for the terminal, by column."""
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
        headings = column_headings({column_name(key): key.rsplit(".", 1)[-1] for key in self.cell}, line)
        return {headings[column_name(key)]: value for key, value in self.cell.items()} | line

    @property
    def apart(self) -> str:
        """Difference with its interval, as text."""
        factor = 100.0 if self.relative else self.metric.scale
        sign = "+" if self.difference.estimate > 0 else ""
        text = format_mean(self.difference, factor, digits=2)
        return f"{sign}{text}{' %' if self.relative else ''}"


@dataclass(frozen=True)
class EngineComparison:
    """All compared metrics of two stores."""

    title: str
    simulated: Store
    real: Store
    rows: tuple[Row, ...]

    @property
    def exceeded(self) -> bool:
        """True if a difference exceeds its bound."""
        return any(row.verdict is Equivalence.EXCEEDED for row in self.rows)

    @property
    def undecided(self) -> int:
        """Number of metrics for which the seeds do not suffice."""
        return sum(row.verdict is Equivalence.UNDECIDED for row in self.rows)

    @property
    def agreed(self) -> bool:
        """True if every metric with a bound is within it: exit status 0 of ``bentpipe compare-engines``."""
        return all(row.verdict in (Equivalence.WITHIN, Equivalence.UNBOUNDED) for row in self.rows)

    def data(self) -> dict[str, Any]:
        """Return the comparison as JSON data."""
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
    """Compare the runs that both stores have.

    Args:
        simulated: store of the simulation.
        real: store of the emulation or of a browser.

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
        in_cell = [frame.filter(*(pl.col(key).eq_missing(first[key]) for key in keys)) for frame in frames]
        sim_rows, emu_rows = (
            _flow_rows(frame, other, first)
            for frame, other in ((in_cell[0], in_cell[1]), (in_cell[1], in_cell[0]))
        )
        if sim_rows.height and emu_rows.height:
            rows += list(_rows(cell, sim_rows, emu_rows, tables.get(str(first["flow"]), ALONE)))
    return EngineComparison(sim.title, sim, emu, tuple(rows))


def _flow_rows(frame: pl.DataFrame, other: pl.DataFrame, first: Mapping[str, Any]) -> pl.DataFrame:
    """Return the rows of one flow and direction in a cell.

    A flow that delivered almost nothing has no rows in this direction. If the ``other`` engine has rows, the result has
    a goodput of 0 for each seed.
    """
    rows = frame.filter(pl.col("flow") == first["flow"], pl.col("direction") == first["direction"])
    if rows.height or not frame.height:
        return rows
    received = pl.col("received_bytes").filter(pl.col("flow") == first["flow"]).cast(pl.Float64).sum()
    received_bytes, other_bytes = (float(cell.select(received).item()) for cell in (frame, other))
    if received_bytes > 0 and received_bytes >= MINOR_SHARE * other_bytes:
        return rows
    seeds = frame.unique("seed", maintain_order=True)
    other_rows = other.filter(pl.col("flow") == first["flow"], pl.col("direction") == first["direction"])
    return seeds.select(
        "seed",
        flow=pl.lit(first["flow"]), direction=pl.lit(first["direction"]),
        congestion=pl.lit(other_rows["congestion"][0], pl.String), goodput_bit_s=pl.lit(0.0),
    )  # fmt: skip


def _rows(
    cell: Mapping[str, Any], sim_rows: pl.DataFrame, emu_rows: pl.DataFrame, among: int
) -> Iterator[Row]:
    first = emu_rows.row(0, named=True)
    for metric in COMPARED:
        simulated, real = _values(sim_rows, metric.name), _values(emu_rows, metric.name)
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
        tests = ALONE if metric.name in LINK_METRICS else among
        result = verdict(metric.name, mean, differences, tests)
        interval = mean_ci(differences)
        if metric.name in IN_PER_CENT and mean != 0:
            interval = mean_ci([difference / mean for difference in differences])
        elif metric.name in IN_PER_CENT and any(differences):
            interval = ConfidenceInterval(math.inf, None, None, len(differences))
        yield Row(
            cell, str(first["flow"]), str(first["direction"]), str(first["congestion"]), metric,
            mean_ci(list(simulated.values())), mean_ci(list(real.values())), interval, result, tests,
        )  # fmt: skip


def _values(frame: pl.DataFrame, name: str) -> dict[int, float]:
    """Return values by seed. Loads of a page in one run are not independent samples: their mean counts."""
    if name not in frame.columns:
        return {}
    known = frame.filter(pl.col(name).is_not_null()).group_by("seed", maintain_order=True)
    return dict(known.agg(pl.col(name).cast(pl.Float64).mean()).iter_rows())


def _metrics(store: Store) -> pl.DataFrame:
    """Return all compared metrics, one row for each run, flow and direction; for pages, means over the loads."""
    by = ["run", "flow", "direction"]
    frame = _main_directions(run_metrics(store))
    frame = _since_open(store, frame)
    frame = frame.join(_round_trips(store, frame), on=by, how="left", maintain_order="left")
    frame = frame.join(_decoded(store), on=["run", "direction"], how="left", maintain_order="left")
    if store.rows("calls").height:
        ratings = rate_calls(store, RatingConfig(playout=PLAYOUT)).select(*by, "delay_ms", "rating", "mos")
        frame = frame.join(ratings, on=by, how="left", maintain_order="left")
    bundles = delivered(store)
    if bundles.height:
        bundles = bundles.with_columns(direction=pl.lit("up"))
        frame = frame.join(bundles, on=by, how="left", maintain_order="left")
    # A metric of the link, in one row only.
    is_first = pl.int_range(pl.len()).over("run", "direction") == 0
    frame = with_shares(store, frame.with_columns(pl.when(is_first).then("decoded_ratio")))
    frame = pl.concat([of_all(frame, list(store.columns)), frame], how="diagonal")
    pages = store.rows("pages")
    if not pages.height:
        return frame
    finished = pl.col("completed") == 1
    loads = pages.group_by("run", "flow", maintain_order=True).agg(
        loads_finished=finished.mean(),
        ttr_s=pl.col("ttr_s").filter(finished).mean(),
        plt_s=pl.col("plt_s").filter(finished).mean(),
    )
    other_flows = frame.filter(~pl.col("flow").is_in(loads["flow"].implode()))
    page_flows = store.index.join(loads, on="run", how="inner", maintain_order="left_right").with_columns(
        direction=pl.lit("down"), congestion=pl.lit("")
    )
    return pl.concat([other_flows, page_flows], how="diagonal")


def _main_directions(frame: pl.DataFrame) -> pl.DataFrame:
    """Drop directions that carry little in their run, because the sweep can reverse a flow."""
    total = pl.col("received_bytes").sum().over("run", "flow")
    return frame.filter((total == 0) | (pl.col("received_bytes") >= MINOR_SHARE * total))


def _decoded(store: Store) -> pl.DataFrame:
    """Return the lowest decoded ratio of the radio links of each direction."""
    direction = pl.col("link").str.split(".").list.last().alias("direction")
    return decoded_ratios(store).group_by("run", direction).agg(pl.col("decoded_ratio").min())


def _since_open(store: Store, frame: pl.DataFrame) -> pl.DataFrame:
    """Replace goodput with that since the client opened its first stream.

    The tables count from the first event of a connection at either side. For TCP this is the SYN at a simulated server,
    but at a real one the connection that the kernel returns after the handshake.
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
    """Return the mean smoothed RTT of the senders while they send, and the minimum RTT."""
    senders = flow_directions(store.rows("flow_summary")).select(
        "flow", "direction", pl.col("sender").alias("side")
    )
    columns = ["time_s", "flow", "side", "smoothed_rtt_ms", "min_rtt_ms"]
    samples = store.rows("flows", columns).join(
        senders, on=["flow", "side"], how="inner", maintain_order="left"
    )
    spans = frame.select("run", "flow", "direction", "data_start_s", "duration_s")
    while_sending = (pl.col("time_s") > pl.col("data_start_s")) & (
        pl.col("time_s") <= pl.col("data_start_s") + pl.col("duration_s")
    )
    return (
        samples.join(spans, on=["run", "flow", "direction"], how="left", maintain_order="left")
        .filter(while_sending)
        .group_by("run", "flow", "direction", maintain_order=True)
        .agg(pl.col("smoothed_rtt_ms").mean(), pl.col("min_rtt_ms").min().alias("rtt_min_ms"))
    )


def format_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Format rows as text, without columns that are empty in all rows."""
    labels = short_labels({value for row in rows for value in row.cell.values() if value is not None})
    lines = [{key: labels.get(str(value), value) for key, value in row.line().items()} for row in rows]
    if not lines:
        return lines
    empty = [name for name in ("way", "bound", "") if all(not line[name] for line in lines)]
    return [{key: value for key, value in line.items() if key not in empty} for line in lines]
