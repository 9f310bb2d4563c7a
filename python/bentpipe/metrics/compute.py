"""What is computed from raw measurements: goodput, fairness, convergence, harm, completion times.

Every function is pure: Polars frames with a column ``run`` go in (the tables of docs/manual/results.md), frames come
out, sorted by run (in the store's order), flow and direction. Nothing depends on the order of a hash.

A flow has two *directions*: ``up``, from client to server, and ``down``. What a direction delivers is counted where it
arrives: goodput is stream bytes that the receiving application could read in order (RFC 5166 section 2.1.1 counts
duplicates out; bytes held back by a missing packet are not delivered yet).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from bentpipe.metrics.fairness import convergence
from bentpipe.metrics.intervals import CONFIDENCE, mean_ci, median_ci
from bentpipe.store.reader import Store
from bentpipe.store.scan import GROUP

MINOR_SHARE = 0.01
"""A direction that carries less than this part of a flow's bytes, over all runs, is not reported: the 8 bytes of a
request are not a transfer."""

OVER_SEEDS = (
    "goodput_bit_s", "handshake_s", "retransmission_ratio", "completion_p50_s", "completion_p95_s",
    "largest_cwnd_bytes", "ack_bytes", "queueing_p95_ms", "jain", "convergence_s", "harm",
)  # fmt: skip
"""Metrics of :func:`run_metrics` that are aggregated over seeds."""

_BY = ["run", "flow", "direction"]


def _rank(frame: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Sort by the store's order of runs, then flow and direction (then time, where there is one)."""
    order = runs.select("run").with_row_index("__order")
    by = ["__order", *[c for c in ("flow", "direction", "link", "time_s") if c in frame.columns]]
    return frame.join(order, on="run", how="left").sort(by, maintain_order=True).drop("__order")


def flow_directions(summary: pl.DataFrame) -> pl.DataFrame:
    """The directions of every flow that count: ``flow, direction, sender, receiver``.

    A direction counts when it carries at least ``MINOR_SHARE`` of the flow's stream bytes over all runs, or of those of
    its group together; a flow that wrote nothing at all is kept with ``up``, so that its zero is seen.
    """
    if GROUP in summary.columns:
        found = flow_directions(summary.select("side", "written_bytes", flow=GROUP))
        members = summary.select("flow", GROUP).unique(maintain_order=True)
        each = members.join(found.rename({"flow": GROUP}), on=GROUP, how="inner").drop(GROUP)
        return each.sort("flow", "direction", descending=[False, True])
    written = summary.group_by("flow", "side", maintain_order=True).agg(pl.col("written_bytes").sum())
    total = pl.col("written_bytes").sum().over("flow")
    share = (
        pl.when(total > 0)
        .then(pl.col("written_bytes") / total)
        .otherwise((pl.col("side") == "client").cast(pl.Float64))
    )
    up = pl.col("sender") == "client"
    return (
        written.with_columns(share=share)
        .filter(pl.col("share") >= MINOR_SHARE)
        .select(pl.col("flow"), pl.col("side").alias("sender"))
        .with_columns(
            direction=pl.when(up).then(pl.lit("up")).otherwise(pl.lit("down")),
            receiver=pl.when(up).then(pl.lit("server")).otherwise(pl.lit("client")),
        )
        .select("flow", "direction", "sender", "receiver")
        .sort("flow", "direction", descending=[False, True])
    )


def _sending(summary: pl.DataFrame, store: Store) -> pl.DataFrame:
    """``run, flow, direction`` of the cells in which a direction counts: a flow whose direction is swept has one in
    some of them, and sends no more than requests the other way. One that wrote nothing at all keeps its zero."""
    flow = GROUP if GROUP in summary.columns else "flow"
    cell = [*store.columns, flow]
    written = pl.col("written_bytes").sum()
    rows = summary.join(
        store.index.select("run", *store.columns), on="run", how="inner", maintain_order="left"
    )
    up = pl.col("side") == "client"
    return rows.filter(written.over(*cell, "side") >= MINOR_SHARE * written.over(*cell)).select(
        "run", "flow", direction=pl.when(up).then(pl.lit("up")).otherwise(pl.lit("down"))
    )


def starts_and_ends(
    summary: pl.DataFrame, streams: pl.DataFrame, run_ends: pl.DataFrame, ways: pl.DataFrame
) -> pl.DataFrame:
    """When each direction's data began and when it counts as over: ``..., data_start_s, data_end_s, finished``.

    It is over when the receiver had the last in-order byte, if every stream of the direction that carried bytes has
    its FIN; otherwise at the end of the run (``run_ends``: ``run, end_s``), so that a flow that stalls is charged
    for the stall.
    """
    sending = ways.select("flow", "direction", pl.col("sender").alias("side"))
    mine = summary.select("run", "flow", "side", "data_start_s", "data_end_s").join(
        sending, on=["flow", "side"], how="inner", maintain_order="left"
    )
    open_parts = []
    for direction in ("up", "down"):
        unfinished = (
            pl.col(f"{direction}_fin_s").is_null() & (pl.col(f"{direction}_written_bytes") > 0)
        ).any()
        if streams.width > 1:
            open_parts.append(
                streams.group_by("run", "flow", maintain_order=True)
                .agg(unfinished.alias("open"))
                .with_columns(pl.lit(direction).alias("direction"))
            )
    opened = (
        pl.concat(open_parts)
        if open_parts
        else pl.DataFrame(
            schema={"run": pl.String, "flow": pl.String, "open": pl.Boolean, "direction": pl.String}
        )
    )
    return (
        mine.join(opened, on=_BY, how="left", maintain_order="left")
        .join(run_ends, on="run", how="left", maintain_order="left")
        .with_columns(finished=~pl.col("open").fill_null(True) & pl.col("data_end_s").is_not_null())
        .with_columns(data_end_s=pl.when("finished").then("data_end_s").otherwise("end_s"))
        .select(*_BY, "data_start_s", "data_end_s", "finished")
    )


def completion_times(streams: pl.DataFrame) -> pl.DataFrame:
    """Completion time of every stream of a given size: ``run, flow, start_s, bytes, completion_s``.

    From the opening of the stream to the last FIN with all its bytes, of either direction; null when a direction
    that carried bytes never got there. Streams in time mode and on-off sources have no size and are left out.
    """
    if streams.width <= 1:
        return pl.DataFrame(schema={"run": pl.String, "flow": pl.String, "start_s": pl.Float64,
                                    "bytes": pl.Int64, "completion_s": pl.Float64})  # fmt: skip
    stuck = pl.any_horizontal(
        pl.col(f"{way}_fin_s").is_null() & (pl.col(f"{way}_written_bytes") > 0) for way in ("up", "down")
    )
    last = pl.max_horizontal("up_fin_s", "down_fin_s")
    return streams.filter(pl.col("mode") == "data").select(
        "run",
        "flow",
        "start_s",
        (pl.col("up_bytes") + pl.col("down_bytes")).alias("bytes"),
        pl.when(~stuck).then(last - pl.col("start_s")).alias("completion_s"),
    )


def handshake_times(store: Store) -> pl.DataFrame:
    """Duration of the transport handshake of each flow's client, the median over its connections: ``run, flow,
    handshake_s``.

    From the event ``start`` to ``connected`` (docs/manual/results.md); of TCP without TLS. Connections whose handshake
    did not end are left out; flows without any have no row.
    """
    columns = ["time_s", "flow", "connection", "kind"]
    wanted = (pl.col("side") == "client") & pl.col("kind").is_in(["start", "connected"])
    events = store.rows("events", columns, where=wanted)
    if not events.height:
        return pl.DataFrame(schema={"run": pl.String, "flow": pl.String, "handshake_s": pl.Float64})
    time, kind = pl.col("time_s"), pl.col("kind")
    each = events.group_by("run", "flow", "connection", maintain_order=True).agg(
        handshake_s=time.filter(kind == "connected").first() - time.filter(kind == "start").first()
    )
    known = each.drop_nulls("handshake_s")
    return known.group_by("run", "flow", maintain_order=True).agg(pl.col("handshake_s").median())


def jain_index(shares: Sequence[float]) -> float | None:
    """Jain's index: (sum x)^2 / (n sum x^2), from 1/n (one has all) to 1 (all have the same).

    ``None`` for no shares or when all are 0. Source: Jain, Chiu and Hawe, DEC-TR-301 (1984), section 3.
    """
    squares = sum(x * x for x in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares > 0 else None


def harm(metrics: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Harm done to each row's flow by the others of its run, aligned with ``metrics``.

    (solo - with others) / solo of the goodput, a more-is-better metric: Ware, Mukerjee, Seshan and Sherry, Beyond
    Jain's Fairness Index (HotNets 2019), section 3. ``solo`` is the same flow and seed in a run of the sweep where no
    other flow received anything and every key of the cell that does not belong to another flow has the same value.
    Null where the sweep has no such run, or the flow was alone itself. Negative when company did good.
    """
    owner = pl.col(GROUP if GROUP in metrics.columns else "flow").alias("owner")
    rows = metrics.select("run", "seed", "flow", owner, "direction", "goodput_bit_s", *keys).with_row_index(
        "row"
    )
    received = pl.col("goodput_bit_s").fill_null(0.0) != 0.0
    company = (
        rows.filter(received)
        .group_by("run")
        .agg(pl.col("flow").n_unique().alias("many"), pl.col("flow").first().alias("one"))
    )
    here, many = received.any().over("run", "flow"), pl.col("many").fill_null(0)
    rows = rows.join(company, on="run", how="left", maintain_order="left").with_columns(
        alone=(many == 1) & (pl.col("one") == pl.col("flow")),
        together=many + (~here).cast(pl.UInt32) > 1,
    )
    harmed = [pl.DataFrame(schema={"row": rows.schema["row"], "harm": pl.Float64})]
    for name in rows.filter("together")["owner"].unique(maintain_order=True):
        theirs = rows.filter(pl.col("owner") == name)
        own = [key for key in keys if not key.startswith("flow.") or key.startswith(f"flow.{name}.")]
        same = ["flow", "direction", "seed", *own]
        solo = theirs.filter("alone").unique(same, keep="last", maintain_order=True)
        pairs = theirs.filter("together").join(
            solo.select(*same, solo="goodput_bit_s"), on=same, how="inner", nulls_equal=True
        )
        less = (pl.col("solo") - pl.col("goodput_bit_s")) / pl.col("solo")
        harmed.append(pairs.select("row", less.alias("harm")))
    found = rows.select("row").join(pl.concat(harmed), on="row", how="left", maintain_order="left")
    return found["harm"]


def link_metrics(store: Store) -> pl.DataFrame:
    """One row per run and direction of a link, with the cell: utilisation, losses by place, queueing delay.

    ``utilisation`` is the time the transmitter needed for what it sent, at the rate it began with, over the run's
    length (null without a transmitter). ``lost_ratio`` and ``overflow_ratio`` are drops over arrivals. Where there are
    radio links, ``decoded_ratio`` is :func:`decoded_ratios`.
    """
    rows = store.rows("link_summary").join(store.ends, on="run", how="left", maintain_order="left")
    arrived = pl.max_horizontal(pl.col("arrived_packets"), 1)
    rows = rows.with_columns(
        utilisation=pl.col("sent_bytes") * 8 / (pl.col("rate_bit_s") * pl.col("end_s")),
        lost_ratio=pl.col("dropped_loss_packets") / arrived,
        overflow_ratio=pl.col("dropped_overflow_packets") / arrived,
        marked_ratio=pl.col("marked_packets") / arrived,
    )
    quantiles = [f"queueing_{q}_ms" for q in ("p50", "p95", "p99", "max")]
    wanted = ["run", "link", "rate_bit_s", "propagation_ms", "utilisation", "lost_ratio", "overflow_ratio",
              "marked_ratio", *quantiles]  # fmt: skip
    rows = rows.select(wanted)
    decoded = decoded_ratios(store)
    if decoded.height:
        rows = rows.join(decoded, on=["run", "link"], how="left", maintain_order="left")
    return _rank(rows.join(store.index, on="run", how="left", maintain_order="left"), store.index)


def decoded_ratios(store: Store) -> pl.DataFrame:
    """``run, link, decoded_ratio``: of the packets that a radio link is done with, the share that it decoded.

    Over all users at the run's end; no rows without radio links.
    """
    found = store.rows("users")
    if "user" not in found.columns:
        return pl.DataFrame(schema={"run": pl.String, "link": pl.String, "decoded_ratio": pl.Float64})
    counted = [name for name in found.columns if name.startswith("decoded_")]
    last = found.group_by("run", "link", "user", maintain_order=True).last()
    done = pl.sum_horizontal(counted) + pl.col("dropped_link_packets")
    return last.group_by("run", "link", maintain_order=True).agg(
        decoded_ratio=pl.sum_horizontal(counted).sum() / done.sum()
    )


def bottlenecks(links: pl.DataFrame) -> pl.DataFrame:
    """The busiest link of every run and direction: ``run, direction, link, rate_bit_s, utilisation, queueing_...``.

    The one with the highest utilisation; the first by name among equals. ``links`` is :func:`link_metrics`, whose
    order of runs is kept.
    """
    way = pl.col("link").str.split(".").list.last()
    return (
        links.with_row_index("place")
        .with_columns(pl.col("place").min().over("run"), direction=way)
        .filter(pl.col("rate_bit_s").is_not_null())
        .sort(
            ["place", "direction", "utilisation", "link"],
            descending=[False, False, True, False],
            nulls_last=True,
        )
        .drop("place")
        .group_by("run", "direction", maintain_order=True)
        .first()
    )


_OF_SUMMARY = (
    "flow", "side", "congestion", "data_start_s", "data_end_s", "sent_bytes", "retransmitted_bytes", "written_bytes",
    "received_in_order_bytes", "ack_bytes", "congestion_events", "ptos", "largest_cwnd_bytes",
)  # fmt: skip


def run_metrics(store: Store) -> pl.DataFrame:
    """One row per run, flow and direction that counts, with the cell's columns: everything a table prints.

    ``run, seed, KEYS..., flow, direction, congestion, data_start_s, duration_s, finished, received_bytes,
    goodput_bit_s, retransmission_ratio, largest_cwnd_bytes, ack_bytes, completed, completion_p50_s, completion_p95_s,
    handshake_s, jain, convergence_s, convergence_reason, harm, bottleneck_bit_s, utilisation, queueing_p50_ms,
    queueing_p95_ms, queueing_p99_ms``, and ``flow_group`` where the scenario has groups. ``goodput_bit_s`` is in-order
    bytes over the time from the data's start to its end (:func:`starts_and_ends`); the queue and utilisation are those
    of the direction's busiest link (:func:`bottlenecks`); ``jain``, ``convergence_s`` and ``convergence_reason``, which
    says why there is no such time (:mod:`bentpipe.metrics.fairness`), belong to the run and stand in each of its rows.
    """
    summary = store.rows("summary", _OF_SUMMARY)
    streams = store.rows("streams")
    ways = flow_directions(summary)
    starts = starts_and_ends(summary, streams, store.ends, ways)
    starts = starts.join(_sending(summary, store), on=_BY, how="semi", maintain_order="left")
    side: dict[str, dict[str, pl.Expr]] = {}
    side["sender"] = {
        "congestion": pl.col("congestion"),
        "sent_bytes": pl.col("sent_bytes"),
        "retransmission_ratio": pl.col("retransmitted_bytes") / pl.max_horizontal("sent_bytes", 1),
        "largest_cwnd_bytes": pl.col("largest_cwnd_bytes"),
        "congestion_events": pl.col("congestion_events"),
        "ptos": pl.col("ptos"),
    }
    side["receiver"] = {
        "received_bytes": pl.col("received_in_order_bytes"),
        "ack_bytes": pl.col("ack_bytes"),
    }
    rows = starts
    for who, columns in side.items():
        part = summary.join(
            ways.select("flow", "direction", pl.col(who).alias("side")), on=["flow", "side"], how="inner"
        ).select(*_BY, **columns)
        rows = rows.join(part, on=_BY, how="left", maintain_order="left")
    duration = pl.col("data_end_s") - pl.col("data_start_s")
    rows = rows.with_columns(
        duration_s=duration,
        goodput_bit_s=pl.when(duration > 0).then(pl.col("received_bytes") * 8 / duration).otherwise(0.0),
    )
    done = (
        completion_times(streams)
        .group_by("run", "flow", maintain_order=True)
        .agg(
            completed=pl.col("completion_s").count(),
            completion_p50_s=pl.col("completion_s").quantile(0.5, "linear"),
            completion_p95_s=pl.col("completion_s").quantile(0.95, "linear"),
        )
    )
    rows = rows.join(done, on=["run", "flow"], how="left", maintain_order="left")
    rows = rows.join(handshake_times(store), on=["run", "flow"], how="left", maintain_order="left")
    together = pl.len().over("run", "direction") > 1
    total = pl.col("goodput_bit_s").sum().over("run", "direction")
    squares = (pl.col("goodput_bit_s") ** 2).sum().over("run", "direction")
    count = pl.len().over("run", "direction")
    rows = rows.with_columns(jain=pl.when(together & (squares > 0)).then(total**2 / (count * squares)))
    shared = rows.filter(together).select("run", "direction").unique(maintain_order=True)
    runs = shared["run"].unique(maintain_order=True)
    counted = ["time_s", "flow", "side", "received_in_order_bytes"]
    flows = store.rows("flows", counted, runs) if len(runs) else pl.DataFrame()
    if flows.height:
        alike = starts.join(shared, on=["run", "direction"], how="semi", maintain_order="left")
        times = convergence(flows, summary, ways, alike)
        rows = rows.join(times, on=["run", "direction"], how="left", maintain_order="left")
    else:
        rows = rows.with_columns(
            convergence_s=pl.lit(None, pl.Float64), convergence_reason=pl.lit(None, pl.String)
        )
    tight = bottlenecks(link_metrics(store)).select(
        "run", "direction", pl.col("rate_bit_s").alias("bottleneck_bit_s"), "utilisation",
        "queueing_p50_ms", "queueing_p95_ms", "queueing_p99_ms",
    )  # fmt: skip
    rows = rows.join(tight, on=["run", "direction"], how="left", maintain_order="left")
    rows = store.index.join(rows, on="run", how="inner", maintain_order="left")
    if GROUP in summary.columns:
        members = summary.select("run", "flow", GROUP).unique(maintain_order=True)
        rows = rows.join(members, on=["run", "flow"], how="left", maintain_order="left")
    rows = _rank(rows, store.index)
    return rows.with_columns(harm(rows, store.columns))


def aggregate_seeds(
    metrics: pl.DataFrame,
    keys: Sequence[str],
    names: Sequence[str] = OVER_SEEDS,
    confidence: float = CONFIDENCE,
) -> pl.DataFrame:
    """``metrics`` aggregated over seeds: one row per cell, flow, direction and metric.

    ``KEYS..., flow, direction, congestion, metric, n, mean, mean_low, mean_high, median, median_low, median_high``:
    mean with Student's t interval, median with the order-statistic interval; bounds are null where there are too few
    seeds (2 and 6 at 95 %). Metrics without a value in a cell have no row. Cells come in the order of ``metrics``.
    """
    by = [*keys, "flow", "direction"]
    cells = metrics.group_by(by, maintain_order=True).agg(
        pl.col("congestion").first(), *(pl.col(name).drop_nulls().cast(pl.Float64) for name in names)
    )
    rows = []
    for place, row in enumerate(zip(*(cells[name].to_list() for name in names), strict=True)):
        for name, values in zip(names, row, strict=True):
            if values:
                rows.append((place, name, len(values), *_over_seeds(values, confidence)))
    numbers = ("mean", "mean_low", "mean_high", "median", "median_low", "median_high")
    schema = {"place": pl.UInt32, "metric": pl.String, "n": pl.Int64} | dict.fromkeys(numbers, pl.Float64)
    found = pl.DataFrame(rows, schema=schema, orient="row")
    whose = cells.select(pl.col(*by, "congestion").cast(pl.String)).with_row_index("place")
    return found.join(whose, on="place", how="left", maintain_order="left").select(
        *by, "congestion", "metric", "n", *numbers
    )


def _over_seeds(values: list[float], confidence: float) -> tuple[float | None, ...]:
    """Mean and median, each with its bounds."""
    if len(values) == 1:
        return (values[0], None, None, values[0], None, None)
    mean, middle = mean_ci(values, confidence), median_ci(values, confidence)
    return (mean.estimate, mean.low, mean.high, middle.estimate, middle.low, middle.high)
