"""Ratings of the calls of a store: late loss by a rule of play-out, R and MOS by a codec.

Ratings use only the tables ``calls`` and ``call_delays``. A store can be rated with another codec or play-out without
new runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics.call_quality.e_model import EModel, ie_eff, mos
from bentpipe.metrics.call_quality.playout import ADAPTIVE, CALL, Playout, deadlines, mouth_to_ear_ms
from bentpipe.metrics.intervals import mean_columns
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.flow.codecs import CODECS
from bentpipe.store.scan import GROUP

if TYPE_CHECKING:
    from bentpipe.scenario.flow.codecs import Codec
    from bentpipe.store.reader import Store

__all__ = ["GOOD", "MAX_MOS", "RatingConfig", "aggregate_cells", "blocked_calls", "rate_calls", "rate_rows"]

GOOD = 3.5
"""Smallest MOS of a good call: most listeners are satisfied (Tauran 2018, p. 25).

It is an R of 68; above 70 only some users are dissatisfied (ITU-T G.107 table B.1).
"""

MAX_MOS = 4.5
"""Largest mean opinion score (ITU-T G.107 annex B)."""

SATELLITE = 20.0
"""Largest advantage factor: hard-to-reach places over several satellite hops (ITU-T G.107 clause 7.6)."""


@dataclass(frozen=True, slots=True)
class RatingConfig:
    """Settings of ratings."""

    codec: str | None = None
    """Codec; None: that of each call. Other sources of datagrams have no codec and no R."""
    playout: Playout = ADAPTIVE
    advantage: float = 0.0
    """Advantage factor A, 0 to 20."""
    plc: bool = True
    """Use packet loss concealment if it is optional for the codec (G.711 appendix I)."""

    def of(self, source: str) -> Codec | None:
        """Return the codec of a source."""
        return CODECS.get(self.codec or source)

    def check(self) -> None:
        """Check all fields.

        Raises:
            ScenarioError: a field is invalid; its name is the key of the message.
        """
        if self.codec is not None and self.codec not in CODECS:
            raise ScenarioError([("codec", unknown_name(self.codec, CODECS, "codec"))], SOURCE_ARGUMENT)
        if not 0 <= self.advantage <= SATELLITE:
            text = f"found {self.advantage:g}, expected 0 to {SATELLITE:g} (ITU-T G.107 clause 7.6)"
            raise ScenarioError([("advantage", text)], SOURCE_ARGUMENT)
        if not self.plc and self.codec is not None and CODECS[self.codec].bpl_plain is None:
            raise ScenarioError([("plc", f"{self.codec} always conceals what is lost")], SOURCE_ARGUMENT)


COLUMNS = {
    "run": pl.String, "flow": pl.String, "direction": pl.String, "source": pl.String, "sent_packets": pl.Int64,
    "delay_ms": pl.Float64, "jitter_ms": pl.Float64, "lost_ratio": pl.Float64, "late_ratio": pl.Float64,
    "burst_ratio": pl.Float64, "playout_ms": pl.Float64, "mouth_to_ear_ms": pl.Float64, "rating": pl.Float64,
    "mos": pl.Float64,
}  # fmt: skip
"""Columns of a rating."""


def rate_calls(store: Store, config: RatingConfig = RatingConfig()) -> pl.DataFrame:
    """Return one row per run, datagram flow and direction, with the cell's columns; no rows without datagram flows.

    Columns: ``source, sent_packets, delay_ms, jitter_ms, lost_ratio, late_ratio, burst_ratio, playout_ms,
    mouth_to_ear_ms, rating, mos``, and with groups ``flow_group``. ``delay_ms`` is the mean one-way delay,
    ``jitter_ms`` the mean by RFC 3550, ``playout_ms`` the mean delay of played datagrams. ``lost_ratio`` and
    ``late_ratio`` are shares of the datagrams with a known outcome.

    Raises:
        ScenarioError: the codec is unknown, or the advantage factor is out of range.
    """
    config.check()
    calls = store.rows("calls")
    if not calls.height:
        return pl.DataFrame(schema=COLUMNS)
    ratings = rate_rows(calls, store.rows("call_delays"), config)
    summary = store.rows("flow_summary")
    if GROUP in summary.columns:
        members = summary.select("run", "flow", GROUP).unique(maintain_order=True)
        ratings = ratings.join(members, on=["run", "flow"], how="left", maintain_order="left")
    return store.index.join(ratings, on="run", how="inner", maintain_order="left_right")


def rate_rows(calls: pl.DataFrame, delays: pl.DataFrame, config: RatingConfig) -> pl.DataFrame:
    """Rate the rows of the tables ``calls`` and ``call_delays`` with their run in ``run``; columns are ``COLUMNS``."""
    rows = _sum_counters(calls, _played_packets(calls, delays, config.playout))
    model = EModel()
    ratings = [_rate(row, config, model) for row in rows.iter_rows(named=True)]
    return pl.DataFrame(ratings, schema=COLUMNS)


def _played_packets(calls: pl.DataFrame, delays: pl.DataFrame, playout: Playout) -> pl.DataFrame:
    """Return the packets in time, the bursts of missing packets, and the sum of play-out delays of each call."""
    limits = deadlines(playout, calls, delays)
    rows = delays.join(limits, on=[*CALL, "window_s"], how="left")
    rows = rows.filter(pl.col("delay_ms") < pl.col("deadline_ms"))
    return rows.group_by(CALL).agg(
        in_time=pl.col("packets").sum(),
        bursts=pl.col("before_slower_packets").sum() - pl.col("after_quicker_packets").sum(),
        playout=(pl.col("deadline_ms") * pl.col("packets")).sum(),
    )


def _sum_counters(calls: pl.DataFrame, played: pl.DataFrame) -> pl.DataFrame:
    whole = calls.group_by(CALL, maintain_order=True).agg(
        pl.col("source").first(),
        pl.col("interval_ms").first(),
        *(pl.col(f"{name}_packets").sum() for name in ("sent", "received", "pending")),
        pl.col("delay_sum_s").sum(),
        pl.col("jitter_sum_s").sum(),
    )
    return whole.join(played, on=CALL, how="left", maintain_order="left").with_columns(
        pl.col("in_time", "bursts", "playout").fill_null(0)
    )


def _rate(row: dict[str, Any], config: RatingConfig, model: EModel) -> dict[str, Any]:
    known = row["sent_packets"] - row["pending_packets"]
    received, in_time = row["received_packets"], row["in_time"]
    found: dict[str, Any] = {name: row.get(name) for name in COLUMNS}
    if received:
        found["delay_ms"] = 1e3 * row["delay_sum_s"] / received
        found["jitter_ms"] = 1e3 * row["jitter_sum_s"] / received
    if known <= 0:
        return found
    found["lost_ratio"], found["late_ratio"] = (known - received) / known, (received - in_time) / known
    loss = (known - in_time) / known
    # Mean burst length over that of independent losses, 1 / (1 - loss); G.107 clause 7.5 defines none below 1.
    burst = max(1.0, (known - in_time) / max(row["bursts"], 1) * (1 - loss))
    found["burst_ratio"] = burst
    codec = config.of(row["source"])
    playout = row["playout"] / in_time if in_time else None
    found["playout_ms"] = playout
    if codec is None:
        return found
    if playout is None:
        return found | {"rating": 0.0, "mos": 1.0}
    delay = mouth_to_ear_ms(row["interval_ms"], codec.frame_ms, codec.lookahead_ms, playout)
    bpl = codec.bpl if config.plc or codec.bpl_plain is None else codec.bpl_plain
    rating = model.rating(delay, ie_eff(codec.ie, bpl, loss, burst), config.advantage)
    return found | {"mouth_to_ear_ms": delay, "rating": rating, "mos": mos(rating)}


MEANS = ("delay_ms", "jitter_ms", "lost_ratio", "late_ratio", "mouth_to_ear_ms", "rating", "mos")
"""Metrics that are averaged over calls."""


def blocked_calls(store: Store) -> pl.DataFrame:
    """Return the number of blocked calls: ``run, flow, refused``, by group if the scenario has groups."""
    events = store.rows("events", ["flow", "kind"])
    empty = pl.DataFrame(schema={"run": pl.String, "flow": pl.String})
    blocked = events.filter(pl.col("kind") == "refused") if events.height else empty
    summary = store.rows("flow_summary")
    if GROUP in summary.columns and blocked.height:
        members = summary.select("run", "flow", GROUP).unique(maintain_order=True)
        blocked = blocked.join(members, on=["run", "flow"], how="left", maintain_order="left")
        blocked = blocked.with_columns(flow=pl.col(GROUP))
    return blocked.group_by("run", "flow", maintain_order=True).agg(refused=pl.len())


def aggregate_runs(calls: pl.DataFrame, keys: list[str], refused: pl.DataFrame | None = None) -> pl.DataFrame:
    """Aggregate ratings over the calls of a run: one row per run, flow (or group) and direction.

    Arguments and columns are those of :func:`aggregate_cells`, with ``run`` instead of ``seeds``.
    """
    if GROUP in calls.columns:
        calls = calls.with_columns(flow=pl.col(GROUP))
    runs = calls.group_by([*keys, "flow", "direction", "run"], maintain_order=True).agg(
        pl.col("source").first(),
        *(pl.col(name).mean() for name in MEANS),
        calls=pl.len(),
        mos_min=pl.col("mos").min(),
        mos_good_ratio=(pl.col("mos") >= GOOD).mean(),
    )
    runs = runs.with_columns(blocked_ratio=pl.lit(None, pl.Float64))
    if refused is not None and refused.height:
        runs = runs.join(refused, on=["run", "flow"], how="left", maintain_order="left")
        count = pl.col("refused").fill_null(0)
        runs = runs.with_columns(blocked_ratio=count / (count + pl.col("calls")))
    return runs


def aggregate_cells(
    calls: pl.DataFrame, keys: list[str], refused: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Aggregate ratings: one row per cell, flow (or group) and direction.

    Values are means over the calls of each run, then means over runs with Student's interval.

    Args:
        calls: :func:`rate_calls`.
        keys: columns of the sweep.
        refused: :func:`blocked_calls`.

    Returns:
        ``KEYS..., flow, direction, source, calls, seeds``, then ``NAME, NAME_low, NAME_high, NAME_n...`` of
        :data:`MEANS`, of ``mos_good_ratio`` and of ``blocked_ratio``, then ``mos_min``. ``calls`` is the largest number
        in a run, ``mos_good_ratio`` the share with at least :data:`GOOD`, ``mos_min`` the minimum of all calls.
    """
    by = [*keys, "flow", "direction"]
    runs = aggregate_runs(calls, keys, refused)
    rows = []
    for cell, group in runs.group_by(by, maintain_order=True):
        row: dict[str, Any] = dict(zip(by, cell, strict=True))
        row |= {"source": group["source"][0], "calls": group["calls"].max(), "seeds": group.height}
        for name in (*MEANS, "mos_good_ratio", "blocked_ratio"):
            row |= mean_columns(name, group[name].drop_nulls().to_list())
        least = group["mos_min"].drop_nulls()
        row |= {
            "mos_min": least.min(),
            "mos_min_low": None,
            "mos_min_high": None,
            "mos_min_n": least.len(),
        }
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
