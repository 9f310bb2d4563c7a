"""A store's calls as listeners would judge them: late loss under a rule of play-out, R and MOS with a codec.

All of it is computed from the tables ``calls`` and ``call_delays``: an old store is judged with another codec or
another play-out without running anything again.
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

__all__ = ["GOOD", "RatingConfig", "aggregate_cells", "blocked_calls", "judged", "rate_calls"]

GOOD = 3.5
"""MOS from which most listeners are content (Tauran 2018, p. 25): an R of 68, near the 70 above which no more than some
users are dissatisfied (ITU-T G.107 table B.1)."""

SATELLITE = 20.0
"""Advantage factor of places that are hard to reach, by several satellite hops (ITU-T G.107 clause 7.6)."""


@dataclass(frozen=True, slots=True)
class RatingConfig:
    """With what calls are judged."""

    codec: str | None = None
    """None: that of each call; sources that are no calls have none, and no R."""
    playout: Playout = ADAPTIVE
    advantage: float = 0.0
    plc: bool = True
    """Lost packets are concealed where the codec leaves that open (G.711 appendix I)."""

    def of(self, source: str) -> Codec | None:
        """The codec of a source."""
        return CODECS.get(self.codec or source)

    def check(self) -> None:
        """Raises ScenarioError, by the name of the field."""
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
"""Of a judgement."""


def rate_calls(store: Store, how: RatingConfig = RatingConfig()) -> pl.DataFrame:
    """One row per run, flow and direction of what sends datagrams, with the cell's columns; none in a store without.

    ``source, sent_packets, delay_ms`` (mean, one way), ``jitter_ms`` (mean of RFC 3550's), ``lost_ratio, late_ratio``
    (of those whose fate is known), ``burst_ratio, playout_ms`` (mean delay of what is played), ``mouth_to_ear_ms,
    rating, mos``, and ``flow_group`` where the scenario has groups.

    Raises:
        ScenarioError: a codec that is none, an advantage that is none.
    """
    how.check()
    calls = store.rows("calls")
    if not calls.height:
        return pl.DataFrame(schema=COLUMNS)
    found = judged(calls, store.rows("call_delays"), how)
    summary = store.rows("summary")
    if GROUP in summary.columns:
        members = summary.select("run", "flow", GROUP).unique(maintain_order=True)
        found = found.join(members, on=["run", "flow"], how="left", maintain_order="left")
    return store.index.join(found, on="run", how="inner", maintain_order="left_right")


def judged(calls: pl.DataFrame, delays: pl.DataFrame, how: RatingConfig) -> pl.DataFrame:
    """The same of rows of the two tables, with the run in ``run``."""
    rows = _counted(calls, _played(calls, delays, how.playout))
    model = EModel()
    found = [_judged(row, how, model) for row in rows.iter_rows(named=True)]
    return pl.DataFrame(found, schema=COLUMNS)


def _played(calls: pl.DataFrame, delays: pl.DataFrame, playout: Playout) -> pl.DataFrame:
    """What is in time: packets, the bursts in which others are missing, and the delay with which they are played."""
    due = deadlines(playout, calls, delays)
    rows = delays.join(due, on=[*CALL, "window_s"], how="left")
    rows = rows.filter(pl.col("delay_ms") < pl.col("deadline_ms"))
    return rows.group_by(CALL).agg(
        in_time=pl.col("packets").sum(),
        bursts=pl.col("before_slower_packets").sum() - pl.col("after_quicker_packets").sum(),
        playout=(pl.col("deadline_ms") * pl.col("packets")).sum(),
    )


def _counted(calls: pl.DataFrame, played: pl.DataFrame) -> pl.DataFrame:
    whole = calls.group_by(CALL, maintain_order=True).agg(
        pl.col("source").first(),
        pl.col("interval_ms").first(),
        *(pl.col(f"{name}_packets").sum() for name in ("sent", "received", "undecided")),
        pl.col("delay_sum_s").sum(),
        pl.col("jitter_sum_s").sum(),
    )
    return whole.join(played, on=CALL, how="left", maintain_order="left").with_columns(
        pl.col("in_time", "bursts", "playout").fill_null(0)
    )


def _judged(row: dict[str, Any], how: RatingConfig, model: EModel) -> dict[str, Any]:
    known = row["sent_packets"] - row["undecided_packets"]
    received, in_time = row["received_packets"], row["in_time"]
    found: dict[str, Any] = {name: row.get(name) for name in COLUMNS}
    if received:
        found["delay_ms"] = 1e3 * row["delay_sum_s"] / received
        found["jitter_ms"] = 1e3 * row["jitter_sum_s"] / received
    if known <= 0:
        return found
    found["lost_ratio"], found["late_ratio"] = (known - received) / known, (received - in_time) / known
    loss = (known - in_time) / known
    # Mean burst over that of independent losses, 1 / (1 - loss); G.107 clause 7.5 knows none below 1.
    burst = max(1.0, (known - in_time) / max(row["bursts"], 1) * (1 - loss))
    found["burst_ratio"] = burst
    codec = how.of(row["source"])
    playout = row["playout"] / in_time if in_time else None
    found["playout_ms"] = playout
    if codec is None:
        return found
    if playout is None:
        return found | {"rating": 0.0, "mos": 1.0}
    delay = mouth_to_ear_ms(row["interval_ms"], codec.frame_ms, codec.lookahead_ms, playout)
    bpl = codec.bpl if how.plc or codec.bpl_plain is None else codec.bpl_plain
    rating = model.rating(delay, ie_eff(codec.ie, bpl, loss, burst), how.advantage)
    return found | {"mouth_to_ear_ms": delay, "rating": rating, "mos": mos(rating)}


MEANS = ("delay_ms", "jitter_ms", "lost_ratio", "late_ratio", "mouth_to_ear_ms", "rating", "mos")
"""What is averaged over calls."""


def blocked_calls(store: Store) -> pl.DataFrame:
    """How many calls were refused: ``run, flow, refused``, by group where the scenario has groups."""
    events = store.rows("events", ["flow", "kind"])
    none = pl.DataFrame(schema={"run": pl.String, "flow": pl.String})
    found = events.filter(pl.col("kind") == "refused") if events.height else none
    summary = store.rows("summary")
    if GROUP in summary.columns and found.height:
        members = summary.select("run", "flow", GROUP).unique(maintain_order=True)
        found = found.join(members, on=["run", "flow"], how="left", maintain_order="left")
        found = found.with_columns(flow=pl.col(GROUP))
    return found.group_by("run", "flow", maintain_order=True).agg(refused=pl.len())


def aggregate_cells(
    calls: pl.DataFrame, keys: list[str], refused: pl.DataFrame | None = None
) -> pl.DataFrame:
    """One row per cell, flow (or group) and direction: means over the calls of each run, then over runs with Student's
    interval; ``calls`` in a run, the least MOS of any, the share of calls at :data:`GOOD` or better, and of those that
    were refused (:func:`refusals`) among all.

    ``KEYS..., flow, direction, source, calls, seeds, NAME, NAME_low, NAME_high, NAME_n..., mos_least``.
    """
    if GROUP in calls.columns:
        calls = calls.with_columns(flow=pl.col(GROUP))
    by = [*keys, "flow", "direction"]
    runs = calls.group_by([*by, "run"], maintain_order=True).agg(
        pl.col("source").first(),
        *(pl.col(name).mean() for name in MEANS),
        calls=pl.len(),
        mos_least=pl.col("mos").min(),
        good_ratio=(pl.col("mos") >= GOOD).mean(),
    )
    runs = runs.with_columns(refused_ratio=pl.lit(None, pl.Float64))
    if refused is not None and refused.height:
        runs = runs.join(refused, on=["run", "flow"], how="left", maintain_order="left")
        count = pl.col("refused").fill_null(0)
        runs = runs.with_columns(refused_ratio=count / (count + pl.col("calls")))
    rows = []
    for cell, own in runs.group_by(by, maintain_order=True):
        row: dict[str, Any] = dict(zip(by, cell, strict=True))
        row |= {"source": own["source"][0], "calls": own["calls"].max(), "seeds": own.height}
        for name in (*MEANS, "good_ratio", "refused_ratio"):
            row |= mean_columns(name, own[name].drop_nulls().to_list())
        least = own["mos_least"].drop_nulls()
        row |= {
            "mos_least": least.min(),
            "mos_least_low": None,
            "mos_least_high": None,
            "mos_least_n": least.len(),
        }
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
