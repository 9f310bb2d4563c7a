"""Flows of a group as one row: what tables, figures and comparisons show of ``[[flow]] count``.

The flows of one run are no independent samples: they share a path. So a group counts as one value a run, the mean over
its flows, and intervals are over seeds; how far apart its flows are is said beside it.
"""

from __future__ import annotations

import polars as pl

from bentpipe.metrics import compute
from bentpipe.store.reader import Store
from bentpipe.store.scan import GROUP

__all__ = ["LEAST", "MOST", "OVER_FLOWS", "accesses_as_groups", "as_groups", "group_metrics", "grouped"]

LEAST, MOST = 0.05, 0.95
"""Quantiles over the flows of a group that are shown beside its mean."""

_MEANS = (
    "goodput_bit_s", "handshake_s", "largest_cwnd_bytes", "ack_bytes", "sent_bytes", "received_bytes",
    "congestion_events", "ptos", "harm",
)  # fmt: skip
OVER_FLOWS = ("goodput_p5_bit_s", "goodput_p50_bit_s", "goodput_p95_bit_s", "goodput_sum_bit_s", "group_jain")
"""Metrics of a group alone: what a mean over its flows does not say."""

_OF_RUN = (
    "jain", "convergence_s", "convergence_reason", "bottleneck_bit_s", "utilisation", "queueing_p50_ms",
    "queueing_p95_ms", "queueing_p99_ms",
)  # fmt: skip


def grouped(frame: pl.DataFrame) -> bool:
    """Whether ``frame``, of ``summary`` or of metrics, knows groups."""
    return GROUP in frame.columns


def as_groups(frame: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with each flow's group in the place of the flow; unchanged where the store has none."""
    if not grouped(summary):
        return frame
    members = dict(summary.select("flow", GROUP).unique(maintain_order=True).iter_rows())
    named = pl.col("flow").replace_strict(list(members), list(members.values()), return_dtype=pl.String)
    return frame.with_columns(named.alias("flow"))


def accesses_as_groups(links: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """``links`` with the access of a flow of a group named as the group's, as in the table ``links``."""
    if not grouped(summary):
        return links
    members = (
        summary.filter(pl.col("flow") != pl.col(GROUP)).select("flow", GROUP).unique(maintain_order=True)
    )
    names = {f"{flow}.access.{way}": f"{group}.access.{way}"
             for flow, group in members.iter_rows() for way in ("up", "down")}  # fmt: skip
    return links.with_columns(pl.col("link").replace(names))


def group_metrics(store: Store, each: pl.DataFrame | None = None) -> pl.DataFrame:
    """:func:`compute.run_metrics` (``each``, if it is known) with one row a group in place of its flows.

    Without groups it is the same. A group's row has means over its flows; ``retransmission_ratio`` is of the bytes of
    all of them, quantiles of completion times are over the streams of all, the data lasts from the first flow's start
    to the last one's end, and ``finished`` says that all have. Beside that: ``flows``, how many;
    ``goodput_p5_bit_s``, ``goodput_p50_bit_s`` and ``goodput_p95_bit_s``, quantiles over them, ``goodput_sum_bit_s``;
    and ``group_jain``, Jain's index among them. A flow that is in no group is alone in its row, without these.
    """
    each = compute.run_metrics(store) if each is None else each
    if not grouped(each):
        return each
    by = ["run", GROUP, "direction"]
    goodput, sent = pl.col("goodput_bit_s"), pl.col("sent_bytes")
    ends = pl.col("data_start_s") + pl.col("duration_s")
    again = (pl.col("retransmission_ratio") * pl.max_horizontal(sent, 1)).sum()
    found = each.group_by(by, maintain_order=True).agg(
        pl.col("seed", *store.columns, "congestion").first(),
        pl.col("data_start_s").min(),
        pl.col("data_end_s").max(),
        (ends.max() - pl.col("data_start_s").min()).alias("duration_s"),
        pl.col("finished").all(),
        *(pl.col(name).mean() for name in _MEANS),
        (again / pl.max_horizontal(sent.sum(), 1)).alias("retransmission_ratio"),
        *(pl.col(name).first() for name in _OF_RUN),
        *(pl.col(f"completion_{quantile}_s").mean() for quantile in ("p50", "p95")),
        pl.col("completed").sum(),
        group=(pl.col("flow") != pl.col(GROUP)).any(),
        flows=pl.len(),
        goodput_p5_bit_s=goodput.quantile(LEAST, "linear"),
        goodput_p50_bit_s=goodput.median(),
        goodput_p95_bit_s=goodput.quantile(MOST, "linear"),
        goodput_sum_bit_s=goodput.sum(),
        group_jain=pl.when((pl.len() > 1) & (goodput.sum() > 0)).then(
            goodput.sum() ** 2 / (pl.len() * (goodput**2).sum())
        ),
    )
    found = found.with_columns(
        pl.when(pl.col("completed") > 0).then("completed").alias("completed"),
        *(pl.when("group").then(name).alias(name) for name in OVER_FLOWS),
    )
    found = found.drop("group").rename({GROUP: "flow"})
    times = as_groups(compute.completion_times(store.rows("streams")), store.rows("summary"))
    over_all = times.group_by("run", "flow", maintain_order=True).agg(
        p50=pl.col("completion_s").quantile(0.5, "linear"),
        p95=pl.col("completion_s").quantile(0.95, "linear"),
    )
    found = found.join(over_all, on=["run", "flow"], how="left", maintain_order="left").with_columns(
        completion_p50_s=pl.col("p50"), completion_p95_s=pl.col("p95")
    )
    first = [name for name in each.columns if name != GROUP]
    return found.select(*first, *(name for name in found.columns if name not in [*first, "p50", "p95"]))
