"""Metrics of raw measurements: goodput, fairness, convergence, harm, completion times.

``registry`` has the expression of each metric; the functions here evaluate them.

Every function is pure. Inputs are Polars frames with a column ``run`` (the tables of docs/reference/results.md).
Outputs are frames sorted by run (in the store's order), flow and direction. No result depends on the order of a hash.

A flow has two *directions*: ``up``, from client to server, and ``down``. Goodput counts bytes at the receiver: stream
bytes that the application can read in order. RFC 5166 section 2.1.1 excludes duplicates; bytes behind a missing packet
are not delivered yet.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from bentpipe.metrics.competition import competing_directions, elastic_flows
from bentpipe.metrics.fairness import convergence
from bentpipe.metrics.intervals import CONFIDENCE, mean_ci, median_ci
from bentpipe.metrics.registry import OVER_SEEDS, Metric, Scope, select
from bentpipe.store.reader import Store
from bentpipe.store.scan import GROUP

MINOR_SHARE = 0.01
"""Smallest share of a flow's bytes, over all runs, of a reported direction.

The 8 bytes of a request are not a transfer.
"""

_BY = ["run", "flow", "direction"]


def _sort_rows(frame: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Sort by the store's order of runs, then by flow, direction, link and time, as far as present."""
    order = runs.select("run").with_row_index("__order")
    by = ["__order", *[c for c in ("flow", "direction", "link", "time_s") if c in frame.columns]]
    return frame.join(order, on="run", how="left").sort(by, maintain_order=True).drop("__order")


def flow_directions(summary: pl.DataFrame) -> pl.DataFrame:
    """Return the reported directions of every flow: ``flow, direction, sender, receiver``.

    A reported direction carries at least ``MINOR_SHARE`` of the stream bytes of the flow, or of its group, over all
    runs. A flow that wrote nothing has the direction ``up``, so that tables show its zero.
    """
    if GROUP in summary.columns:
        groups = flow_directions(summary.select("side", "written_bytes", flow=GROUP))
        members = summary.select("flow", GROUP).unique(maintain_order=True)
        flows = members.join(groups.rename({"flow": GROUP}), on=GROUP, how="inner").drop(GROUP)
        return flows.sort("flow", "direction", descending=[False, True])
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


def _reported_directions(summary: pl.DataFrame, store: Store) -> pl.DataFrame:
    """Return ``run, flow, direction`` of the cells in which a direction carries ``MINOR_SHARE`` of the bytes.

    A sweep of a flow's direction leaves only requests in the other direction of a cell. A flow that wrote nothing keeps
    its zero.
    """
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
    summary: pl.DataFrame, streams: pl.DataFrame, run_ends: pl.DataFrame, directions: pl.DataFrame
) -> pl.DataFrame:
    """Return start and end of each direction's data: ``run, flow, direction, data_start_s, data_end_s, finished``.

    The data ends with the last in-order byte at the receiver, if every stream of the direction that carried bytes has
    its FIN. Otherwise it ends with the run, so that the time of a stall counts.

    Args:
        summary: table ``flow_summary``.
        streams: table ``streams``.
        run_ends: ``run, end_s``.
        directions: :func:`flow_directions`.
    """
    senders = directions.select("flow", "direction", pl.col("sender").alias("side"))
    spans = summary.select("run", "flow", "side", "data_start_s", "data_end_s").join(
        senders, on=["flow", "side"], how="inner", maintain_order="left"
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
    open_flows = (
        pl.concat(open_parts)
        if open_parts
        else pl.DataFrame(
            schema={"run": pl.String, "flow": pl.String, "open": pl.Boolean, "direction": pl.String}
        )
    )
    return (
        spans.join(open_flows, on=_BY, how="left", maintain_order="left")
        .join(run_ends, on="run", how="left", maintain_order="left")
        .with_columns(finished=~pl.col("open").fill_null(True) & pl.col("data_end_s").is_not_null())
        .with_columns(data_end_s=pl.when("finished").then("data_end_s").otherwise("end_s"))
        .select(*_BY, "data_start_s", "data_end_s", "finished")
    )


def completion_times(streams: pl.DataFrame) -> pl.DataFrame:
    """Return the completion time of every stream of a given size: ``run, flow, start_s, bytes, completion_s``.

    It lasts from the opening of the stream to the last FIN with all its bytes, of either direction. It is null if a
    direction that carried bytes has no FIN. Streams in time mode and on-off sources have no size and no row.
    """
    if streams.width <= 1:
        return pl.DataFrame(schema={"run": pl.String, "flow": pl.String, "start_s": pl.Float64,
                                    "bytes": pl.Int64, "completion_s": pl.Float64})  # fmt: skip
    unfinished = pl.any_horizontal(
        pl.col(f"{direction}_fin_s").is_null() & (pl.col(f"{direction}_written_bytes") > 0)
        for direction in ("up", "down")
    )
    last = pl.max_horizontal("up_fin_s", "down_fin_s")
    return streams.filter(pl.col("mode") == "data").select(
        "run",
        "flow",
        "start_s",
        (pl.col("up_bytes") + pl.col("down_bytes")).alias("bytes"),
        pl.when(~unfinished).then(last - pl.col("start_s")).alias("completion_s"),
    )


def handshake_times(store: Store) -> pl.DataFrame:
    """Return the median handshake duration over the connections of each flow's client: ``run, flow, handshake_s``.

    A handshake lasts from the event ``start`` to ``connected`` (docs/reference/results.md); for TCP, without TLS.
    Connections without a complete handshake do not count. Flows without any complete handshake have no row.
    """
    columns = ["time_s", "flow", "connection", "kind"]
    handshakes = (pl.col("side") == "client") & pl.col("kind").is_in(["start", "connected"])
    events = store.rows("events", columns, where=handshakes)
    if not events.height:
        return pl.DataFrame(schema={"run": pl.String, "flow": pl.String, "handshake_s": pl.Float64})
    time, kind = pl.col("time_s"), pl.col("kind")
    connections = events.group_by("run", "flow", "connection", maintain_order=True).agg(
        handshake_s=time.filter(kind == "connected").first() - time.filter(kind == "start").first()
    )
    known = connections.drop_nulls("handshake_s")
    return known.group_by("run", "flow", maintain_order=True).agg(pl.col("handshake_s").median())


def jain_index(shares: Sequence[float]) -> float | None:
    """Return Jain's index (sum x)^2 / (n sum x^2), from 1/n (one share) to 1 (equal shares).

    It is ``None`` without shares or if all are 0. Source: Jain, Chiu and Hawe, DEC-TR-301 (1984), section 3.
    """
    squares = sum(x * x for x in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares > 0 else None


def harm(metrics: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Return the harm to each row's flow by the other flows of its run, aligned with ``metrics``.

    Harm is (solo - with others) / solo of the goodput, a more-is-better metric: Ware, Mukerjee, Seshan and Sherry,
    Beyond Jain's Fairness Index (HotNets 2019), section 3. ``solo`` is the same flow and seed in a run of the sweep
    where no other flow received anything. In that run every key of the cell has the same value, except keys of other
    flows. Harm is null if the sweep has no such run or the flow itself is alone, and negative if the other flows raise
    the goodput.
    """
    owner = pl.col(GROUP if GROUP in metrics.columns else "flow").alias("owner")
    rows = metrics.select("run", "seed", "flow", owner, "direction", "goodput_bit_s", *keys).with_row_index(
        "row"
    )
    received = pl.col("goodput_bit_s").fill_null(0.0) != 0.0
    receivers = (
        rows.filter(received)
        .group_by("run")
        .agg(pl.col("flow").n_unique().alias("receivers"), pl.col("flow").first().alias("first"))
    )
    active, count = received.any().over("run", "flow"), pl.col("receivers").fill_null(0)
    rows = rows.join(receivers, on="run", how="left", maintain_order="left").with_columns(
        alone=(count == 1) & (pl.col("first") == pl.col("flow")),
        shared=count + (~active).cast(pl.UInt32) > 1,
    )
    parts = [pl.DataFrame(schema={"row": rows.schema["row"], "harm": pl.Float64})]
    for name in rows.filter("shared")["owner"].unique(maintain_order=True):
        owner_rows = rows.filter(pl.col("owner") == name)
        owner_keys = [key for key in keys if not key.startswith("flow.") or key.startswith(f"flow.{name}.")]
        by = ["flow", "direction", "seed", *owner_keys]
        solo = owner_rows.filter("alone").unique(by, keep="last", maintain_order=True)
        pairs = owner_rows.filter("shared").join(
            solo.select(*by, solo="goodput_bit_s"), on=by, how="inner", nulls_equal=True
        )
        loss = (pl.col("solo") - pl.col("goodput_bit_s")) / pl.col("solo")
        parts.append(pairs.select("row", loss.alias("harm")))
    return rows.select("row").join(pl.concat(parts), on="row", how="left", maintain_order="left")["harm"]


def link_metrics(store: Store) -> pl.DataFrame:
    """Return one row per run and direction of a link, with the cell: utilisation, losses by cause, queueing delay.

    The registry has the expressions. With radio links, ``decoded_ratio`` is :func:`decoded_ratios`.
    """
    rows = store.rows("link_summary").join(store.ends, on="run", how="left", maintain_order="left")
    rows = rows.with_columns(evaluate(select(Scope.LINK)))
    names = [metric.name for metric in select(Scope.LINK) if metric.name in rows.columns]
    rows = rows.select("run", "link", *names)
    decoded = decoded_ratios(store)
    if decoded.height:
        rows = rows.join(decoded, on=["run", "link"], how="left", maintain_order="left")
    return _sort_rows(rows.join(store.index, on="run", how="left", maintain_order="left"), store.index)


def decoded_ratios(store: Store) -> pl.DataFrame:
    """Return the share of decoded packets of each radio link: ``run, link, decoded_ratio``.

    The other packets exceeded the retry limit. Counters are over all users at the end of the run. Without radio links
    there are no rows.
    """
    users = store.rows("radio_users")
    if "user" not in users.columns:
        return pl.DataFrame(schema={"run": pl.String, "link": pl.String, "decoded_ratio": pl.Float64})
    counters = [name for name in users.columns if name.startswith("decoded_")]
    last = users.group_by("run", "link", "user", maintain_order=True).last()
    total = pl.sum_horizontal(counters) + pl.col("dropped_retry_limit_packets")
    return last.group_by("run", "link", maintain_order=True).agg(
        decoded_ratio=pl.sum_horizontal(counters).sum() / total.sum()
    )


def bottlenecks(links: pl.DataFrame) -> pl.DataFrame:
    """Return the bottleneck of every run and direction: ``run, direction, link, rate_bit_s, utilisation, ...``.

    It is the link with the highest utilisation, and among equals the first by name. ``links`` is :func:`link_metrics`;
    the result has its order of runs.
    """
    direction = pl.col("link").str.split(".").list.last()
    return (
        links.with_row_index("place")
        .with_columns(pl.col("place").min().over("run"), direction=direction)
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


_SUMMARY_COLUMNS = (
    "flow", "side", "congestion", "data_start_s", "data_end_s", "sent_bytes", "written_bytes",
    "received_in_order_bytes", "congestion_events", "ptos",
)  # fmt: skip
_RECEIVER = "receiver_"
"""Prefix of the receiver's columns in the expressions of flows."""


def evaluate(metrics: Sequence[Metric]) -> list[pl.Expr]:
    """Return the expressions of those of ``metrics`` that have one."""
    return [pl.sql_expr(metric.expression).alias(metric.name) for metric in metrics if metric.expression]


def run_metrics(store: Store) -> pl.DataFrame:
    """Return one row per run, flow and reported direction, with the cell's columns.

    Columns: ``run, seed, KEYS..., flow, direction, congestion, data_start_s, data_end_s, duration_s, finished,
    sent_bytes, congestion_events, ptos, received_bytes``, then the metrics of flows of the registry. ``completed``
    (count of completion times), ``convergence_reason`` and ``bottleneck_bit_s`` follow, then the metrics of the
    direction's bottleneck (:func:`bottlenecks`), and with groups ``flow_group``. ``jain``, ``convergence_s`` and
    ``convergence_reason`` are equal in all rows of a run and direction. They are null without competition
    (:mod:`bentpipe.metrics.competition`). The reason explains a null time (:mod:`bentpipe.metrics.fairness`).
    """
    expressions = evaluate(select(Scope.FLOW))
    inputs = {name for expression in expressions for name in expression.meta.root_names()}
    of_receiver = sorted(name.removeprefix(_RECEIVER) for name in inputs if name.startswith(_RECEIVER))
    of_sender = sorted(name for name in inputs - {"duration_s"} if not name.startswith(_RECEIVER))
    columns = dict.fromkeys((*_SUMMARY_COLUMNS, *of_sender, *of_receiver))
    summary = store.rows("flow_summary", list(columns))
    streams = store.rows("streams")
    directions = flow_directions(summary)
    starts = starts_and_ends(summary, streams, store.ends, directions)
    starts = starts.join(_reported_directions(summary, store), on=_BY, how="semi", maintain_order="left")
    sender_columns = ("congestion", "sent_bytes", "congestion_events", "ptos")
    sender = {name: pl.col(name) for name in (*sender_columns, *of_sender) if name not in starts.columns}
    receiver = {f"{_RECEIVER}{name}": pl.col(name) for name in of_receiver}
    receiver["received_bytes"] = pl.col("received_in_order_bytes")
    rows = starts
    for role, selected in (("sender", sender), ("receiver", receiver)):
        endpoints = directions.select("flow", "direction", pl.col(role).alias("side"))
        part = summary.join(endpoints, on=["flow", "side"], how="inner").select(*_BY, **selected)
        rows = rows.join(part, on=_BY, how="left", maintain_order="left")
    rows = rows.with_columns(duration_s=pl.col("data_end_s") - pl.col("data_start_s"))
    hidden = [
        name
        for name in rows.columns
        if name in inputs and name not in (*starts.columns, *sender_columns, "duration_s")
    ]
    metrics = rows.select(*_BY, *expressions)
    rows = rows.drop(hidden).join(metrics, on=_BY, how="left", maintain_order="left")
    completions = (
        completion_times(streams)
        .group_by("run", "flow", maintain_order=True)
        .agg(
            completed=pl.col("completion_s").count(),
            completion_p50_s=pl.col("completion_s").quantile(0.5, "linear"),
            completion_p95_s=pl.col("completion_s").quantile(0.95, "linear"),
        )
    )
    rows = rows.join(completions, on=["run", "flow"], how="left", maintain_order="left")
    rows = rows.join(handshake_times(store), on=["run", "flow"], how="left", maintain_order="left")
    elastic = elastic_flows(store, starts)
    rows = rows.join(elastic.select(*_BY, elastic=pl.lit(True)), on=_BY, how="left", maintain_order="left")
    goodput = pl.when("elastic").then("goodput_bit_s")
    total = goodput.sum().over("run", "direction")
    squares = (goodput**2).sum().over("run", "direction")
    count = pl.col("elastic").sum().over("run", "direction")
    shared = competing_directions(store, elastic)
    rows = rows.join(
        shared.with_columns(competing=pl.lit(True)),
        on=["run", "direction"],
        how="left",
        maintain_order="left",
    )
    index = pl.when(pl.col("competing") & (squares > 0)).then(total**2 / (count * squares))
    rows = rows.with_columns(jain=index).drop("competing", "elastic")
    runs = shared["run"].unique(maintain_order=True)
    counters = ["time_s", "flow", "side", "received_in_order_bytes"]
    flows = store.rows("flows", counters, runs) if len(runs) else pl.DataFrame()
    if flows.height:
        shared_starts = elastic.join(shared, on=["run", "direction"], how="semi", maintain_order="left")
        times = convergence(flows, summary, directions, shared_starts)
        rows = rows.join(times, on=["run", "direction"], how="left", maintain_order="left")
    else:
        rows = rows.with_columns(
            convergence_s=pl.lit(None, pl.Float64), convergence_reason=pl.lit(None, pl.String)
        )
    of_bottleneck = [metric.name for metric in select(Scope.LINK) if metric.of_bottleneck]
    bottleneck = bottlenecks(link_metrics(store)).select(
        "run", "direction", pl.col("rate_bit_s").alias("bottleneck_bit_s"), *of_bottleneck
    )
    rows = rows.join(bottleneck, on=["run", "direction"], how="left", maintain_order="left")
    rows = store.index.join(rows, on="run", how="inner", maintain_order="left")
    if GROUP in summary.columns:
        members = summary.select("run", "flow", GROUP).unique(maintain_order=True)
        rows = rows.join(members, on=["run", "flow"], how="left", maintain_order="left")
    rows = _sort_rows(rows, store.index)
    return rows.with_columns(harm(rows, store.columns))


def aggregate_seeds(
    metrics: pl.DataFrame,
    keys: Sequence[str],
    names: Sequence[str] = OVER_SEEDS,
    confidence: float = CONFIDENCE,
) -> pl.DataFrame:
    """Aggregate ``metrics`` over seeds: one row per cell, flow, direction and metric; of page loads also per load.

    Args:
        metrics: :func:`run_metrics`, the metrics of groups, or all metrics of a store.
        keys: columns of the sweep.
        names: metrics to aggregate.
        confidence: level of the intervals.

    Returns:
        ``KEYS..., flow, direction, congestion, metric, n, mean, mean_low, mean_high, median, median_low,
        median_high``: mean with Student's t interval, median with the order-statistic interval. Bounds are null with
        too few seeds (below 2 and 6 at 95 %). Metrics without a value in a cell have no row. Cells have the order of
        ``metrics``.
    """
    loads = [name for name in ("load", "protocol") if name in metrics.columns]
    by = [*keys, "flow", "direction", *loads]
    cells = metrics.group_by(by, maintain_order=True).agg(
        pl.col("congestion").first(), *(pl.col(name).drop_nulls().cast(pl.Float64) for name in names)
    )
    rows = []
    for place, row in enumerate(zip(*(cells[name].to_list() for name in names), strict=True)):
        for name, values in zip(names, row, strict=True):
            if values:
                rows.append((place, name, len(values), *_mean_and_median(values, confidence)))
    statistics = ("mean", "mean_low", "mean_high", "median", "median_low", "median_high")
    schema = {"place": pl.UInt32, "metric": pl.String, "n": pl.Int64} | dict.fromkeys(statistics, pl.Float64)
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    texts = [name for name in (*by, "congestion") if name != "load"]
    labels = (
        cells.select(*by, "congestion").with_columns(pl.col(texts).cast(pl.String)).with_row_index("place")
    )
    return frame.join(labels, on="place", how="left", maintain_order="left").select(
        *by, "congestion", "metric", "n", *statistics
    )


def _mean_and_median(values: list[float], confidence: float) -> tuple[float | None, ...]:
    """Return mean and median, each with its bounds."""
    if len(values) == 1:
        return (values[0], None, None, values[0], None, None)
    mean, middle = mean_ci(values, confidence), median_ci(values, confidence)
    return (mean.estimate, mean.low, mean.high, middle.estimate, middle.low, middle.high)
