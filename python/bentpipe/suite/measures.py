"""Measures of the flow under test, one value for each run.

A measure is a metric of the registry with a row in :data:`MEASURES`. The flow under test has the name :data:`FLOW` and
sends from the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.metrics.compute import run_metrics

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = ["FLOW", "MEASURES", "measure_values"]

FLOW = "main"
"""Name of the flow under test."""

DIRECTION = "down"
"""Direction of its data."""

SENDER, RECEIVER = "server", "client"

Window = tuple[float, float] | None
Compute = Callable[["Store", Window], pl.DataFrame]
"""Function of a store and a window in s; it returns the columns ``run`` and ``value``."""


def measure_values(store: Store, measure: str, window: Window) -> pl.DataFrame:
    """Return ``run, value`` of a measure in the unit of its registry; runs without a value are absent."""
    return MEASURES[measure](store, window).filter(pl.col("value").is_not_null())


def _metric(name: str) -> Compute:
    """Return the function of a flow metric that every store has."""

    def compute(store: Store, window: Window) -> pl.DataFrame:
        del window
        rows = run_metrics(store).filter(pl.col("flow") == FLOW, pl.col("direction") == DIRECTION)
        return rows.select("run", value=pl.col(name).cast(pl.Float64))

    return compute


def _series(store: Store, side: str, columns: list[str], window: Window) -> pl.DataFrame:
    """Return the samples of a side of the flow under test with ``run`` and ``time_s``, within the window, in order."""
    where = (pl.col("flow") == FLOW) & (pl.col("side") == side)
    if window is not None:
        where = where & pl.col("time_s").is_between(*window)
    return store.rows("flows", ["time_s", "flow", "side", *columns], where=where).sort(
        "run", "time_s", maintain_order=True
    )


def _finish(store: Store, _: Window) -> pl.DataFrame:
    """Return the time from the start of the flow to its last byte, handshake included.

    A run whose transfer does not end has the time until the end of the run, so limits are not met by chance.
    """
    rows = store.rows("flow_summary", ["flow", "side", "start_s", "fin_s"])
    rows = rows.filter(pl.col("flow") == FLOW, pl.col("side") == SENDER)
    ends = store.ends.select("run", "end_s")
    joined = rows.join(ends, on="run", how="left", maintain_order="left")
    return joined.select("run", value=pl.coalesce("fin_s", "end_s") - pl.col("start_s"))


def _goodput(store: Store, window: Window) -> pl.DataFrame:
    """Return the in-order bytes of the receiver in the window over its duration, bit/s."""
    rows = _series(store, RECEIVER, ["received_in_order_bytes"], window)
    span = pl.col("time_s").last() - pl.col("time_s").first()
    gain = pl.col("received_in_order_bytes").last() - pl.col("received_in_order_bytes").first()
    return rows.group_by("run", maintain_order=True).agg(value=8.0 * gain / span)


def _lost_share(store: Store, window: Window) -> pl.DataFrame:
    """Return the packets declared lost in the window over those sent in it."""
    rows = _series(store, SENDER, ["lost_packets", "sent_packets"], window)
    change = {name: pl.col(name).last() - pl.col(name).first() for name in ("lost_packets", "sent_packets")}
    found = rows.group_by("run", maintain_order=True).agg(**change)
    return found.select("run", value=pl.col("lost_packets") / pl.max_horizontal("sent_packets", 1))


def _lost_packets(store: Store, window: Window) -> pl.DataFrame:
    rows = _series(store, SENDER, ["lost_packets"], window)
    gain = pl.col("lost_packets").last() - pl.col("lost_packets").first()
    return rows.group_by("run", maintain_order=True).agg(value=gain.cast(pl.Float64))


def _samples(column: str, statistic: Callable[[pl.Expr], pl.Expr], *, in_flight: bool = False) -> Compute:
    """Return a measure of the sender's samples, or of those with data in flight."""

    def compute(store: Store, window: Window) -> pl.DataFrame:
        columns = list(dict.fromkeys((column, "in_flight_bytes")))
        rows = _series(store, SENDER, columns, window)
        rows = rows.filter(pl.col("in_flight_bytes") > 0) if in_flight else rows
        return rows.group_by("run", maintain_order=True).agg(value=statistic(pl.col(column).cast(pl.Float64)))

    return compute


def _load(store: Store, _: Window) -> pl.DataFrame:
    """Return the share of the flow in the bytes of all flows while all of them send (draft-huitema-ccwg-c4-test)."""
    columns = ["flow", "side", "start_s", "fin_s"]
    flows = store.rows("flow_summary", columns).filter(pl.col("side") == SENDER)
    flows = flows.join(store.ends.select("run", "end_s"), on="run", how="left", maintain_order="left")
    shared = flows.group_by("run", maintain_order=True).agg(
        begin=pl.col("start_s").max(), end=pl.coalesce("fin_s", "end_s").min()
    )
    rows = store.rows("flows", ["time_s", "flow", "side", "received_in_order_bytes"])
    rows = rows.filter(pl.col("side") == RECEIVER).join(shared, on="run", how="left", maintain_order="left")
    rows = rows.filter(pl.col("time_s").is_between(pl.col("begin"), pl.col("end")))
    received = pl.col("received_in_order_bytes")
    gains = rows.group_by("run", "flow", maintain_order=True).agg(gain=received.last() - received.first())
    is_main = pl.col("flow") == FLOW
    total = pl.col("gain").sum()
    return gains.group_by("run", maintain_order=True).agg(
        value=pl.when(total > 0).then(pl.col("gain").filter(is_main).sum() / total)
    )


def _rise(store: Store, window: Window) -> pl.DataFrame:
    """Return the time from the start of the window until the flow has 95 % of its later goodput.

    Bytes count in any order, so that a repaired gap is no jump. The later goodput is the mean of the last quarter of
    the window. A sample counts with the goodput of the second before it. A run that does not reach the goodput has the
    length of the window.
    """
    rows = _series(store, RECEIVER, ["received_bytes"], window)
    received, time = pl.col("received_bytes").cast(pl.Float64), pl.col("time_s")
    begin, end = (0.0, float("inf")) if window is None else window
    found = []
    for run, samples in rows.group_by("run", maintain_order=True):
        times = samples["time_s"].to_list()
        last = min(end, times[-1])
        late = samples.filter(time >= last - (last - begin) / 4)
        gain = late.select(received.last() - received.first()).item()
        span = late.select(time.last() - time.first()).item()
        earlier = samples.select(time=time + STEP_S, before=received)
        joined = samples.select(time=time, after=received).join_asof(earlier, on="time", strategy="nearest")
        rates = joined.select("time", rate=(pl.col("after") - pl.col("before")) / STEP_S)
        ready = rates.filter(pl.col("rate") >= 0.95 * gain / span, pl.col("time") >= begin + STEP_S)
        found.append((run[0], (ready["time"].to_list() or [last])[0] - begin))
    return pl.DataFrame(found, schema={"run": pl.String, "value": pl.Float64}, orient="row")


STEP_S = 1.0
"""Time over which a goodput is measured."""

MEASURES: Mapping[str, Compute] = {
    "finish_s": _finish,
    "interval_goodput_bit_s": _goodput,
    "completion_p50_s": _metric("completion_p50_s"),
    "retransmission_ratio": _metric("retransmission_ratio"),
    "queueing_p95_ms": _metric("queueing_p95_ms"),
    "cwnd_max_bytes": _metric("cwnd_max_bytes"),
    "loss_ratio": _lost_share,
    "lost_packets": _lost_packets,
    "smoothed_rtt_ms": _samples("smoothed_rtt_ms", lambda column: column.mean()),
    "rtt_max_ms": _samples("latest_rtt_ms", lambda column: column.max(), in_flight=True),
    "in_flight_max_bytes": _samples("in_flight_bytes", lambda column: column.max()),
    "load_ratio": _load,
    "rise_s": _rise,
}
"""Functions of the measures, which are metrics of the registry."""
