"""Users that share a link: what each had, and how far apart they are.

A user is a terminal; its goodput is that of all its flows in a direction. The users of one run share a link and are no
independent samples: minimum, mean, maximum, standard deviation and Jain's index are over the users of a run, and
intervals over seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.metrics import compute
from bentpipe.metrics.intervals import mean_columns
from bentpipe.store.scan import GROUP

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = [
    "GOODPUT_METRICS",
    "SERVICE_METRICS",
    "SHARED",
    "has_scheduler",
    "has_shared_link",
    "over_cells",
    "over_users",
    "user_metrics",
]

GOODPUT_METRICS = (
    "user_goodput_min_bit_s", "user_goodput_mean_bit_s", "user_goodput_max_bit_s", "user_goodput_sd_bit_s",
    "user_goodput_sum_bit_s", "user_jain",
)  # fmt: skip
"""What the users of a run had, by :func:`over_users`."""

SERVICE_METRICS = (
    "user_wait_ms", "user_longest_wait_ms", "user_no_room_ratio", "user_timed_out_ratio", "user_given_up_ratio",
    "user_first_ratio", "user_air_ratio", "user_best_ms",
)  # fmt: skip
"""What became of their packets, and of the link."""

SHARED = (*GOODPUT_METRICS, *SERVICE_METRICS)

_COUNTED = (
    "arrived_packets", "sent_packets", "waited_s", "longest_wait_s", "dropped_overflow_packets", "dropped_late_packets",
    "best_s", "best_spells", "air_s", "coded_bits", "decoded_packets", "decoded_after_0_packets",
    "dropped_link_packets",
)  # fmt: skip
_LINK = ["run", "link", "user", "direction"]


def has_scheduler(store: Store) -> bool:
    """Whether some run has a scheduler."""
    return "user" in store.rows("user_queues").columns


def has_shared_link(store: Store) -> bool:
    """Whether in some run several users share a radio link or a scheduler."""
    tables = (store.rows(name) for name in ("user_queues", "users"))
    return any("user" in rows.columns and rows["user"].n_unique() > 1 for rows in tables)


def user_metrics(store: Store, each: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row per run, user and direction, where the users of a run are told apart; otherwise empty.

    ``run, seed, KEYS..., flow, user, direction, flows, goodput_bit_s, link``, the counters of the user's queue and of
    its air on the first link of that direction that has them (null where there are none), and the run's ``end_s``.
    ``flow`` is the table of flows whose the user is; its goodput is the sum over its ``flows``. ``each`` is
    :func:`bentpipe.metrics.compute.run_metrics`, if it is known.
    """
    whose = _whose(store)
    if not whose.height:
        return pl.DataFrame()
    each = compute.run_metrics(store) if each is None else each
    group = pl.col(GROUP) if GROUP in each.columns else pl.col("flow")
    by = ["run", "user", "direction"]
    rows = (
        each.with_columns(table=group)
        .join(whose, on=["run", "flow"], how="inner", maintain_order="left")
        .group_by(by, maintain_order=True)
        .agg(
            pl.col("seed", *store.columns).first(),
            flow=pl.col("table").first(),
            flows=pl.len(),
            goodput_bit_s=pl.col("goodput_bit_s").sum(),
        )
    )
    rows = rows.join(_counted(store), on=by, how="left", maintain_order="left")
    rows = rows.join(store.ends, on="run", how="left", maintain_order="left")
    first = ["run", "seed", *store.columns, "flow", "user", "direction", "flows", "goodput_bit_s", "link"]
    return rows.select(*first, *_COUNTED, "end_s")


def _whose(store: Store) -> pl.DataFrame:
    """``run, flow, user`` of runs with several users."""
    rows = []
    for run, spec in store.specs(store.index["run"].to_list()).items():
        own = [(run, flow["name"], flow.get("user", 0)) for flow in spec["flows"]]
        if len({user for _, _, user in own}) > 1 or any("user" in flow for flow in spec["flows"]):
            rows += own
    schema = {"run": pl.String, "flow": pl.String, "user": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _counted(store: Store) -> pl.DataFrame:
    """``run, user, direction, link`` and the counters of the first link that has them."""
    way = pl.col("link").str.split(".").list.last().alias("direction")
    frames = []
    queues = store.rows("user_queues")
    if "user" in queues.columns:
        frames.append(queues.with_columns(way))
    air = store.rows("users")
    if "user" in air.columns:
        last = air.group_by("run", "link", "user", maintain_order=True).last()
        decoded = [name for name in air.columns if name.startswith("decoded_")]
        frames.append(last.with_columns(way, decoded_packets=pl.sum_horizontal(decoded)).drop("time_s"))
    if not frames:
        schema: dict[str, Any] = {
            "run": pl.String,
            "user": pl.Int64,
            "direction": pl.String,
            "link": pl.String,
        }
        return pl.DataFrame(schema=schema | dict.fromkeys(_COUNTED, pl.Float64))
    found = frames[0]
    if len(frames) > 1:
        found = found.join(frames[1], on=_LINK, how="full", coalesce=True, maintain_order="left_right")
    missing = [pl.lit(None, pl.Float64).alias(name) for name in _COUNTED if name not in found.columns]
    found = found.with_columns(*missing).select(*_LINK, *(pl.col(name).cast(pl.Float64) for name in _COUNTED))
    return found.group_by("run", "user", "direction", maintain_order=True).first()


def over_users(users: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """One row per run, table of flows and direction of :func:`user_metrics`: :data:`SHARED`, and how many ``users``.

    Goodput's standard deviation is that of a sample. Ratios are of all packets: those that found no room or waited for
    too long, of those that came to the queues; given up, and decoded by the first attempt, of those that the link
    layer was done with. ``user_air_ratio`` is the part of the run in which these users had the link.
    ``user_best_ms`` is how long the best channel stayed the best, over all times that one became so.
    """
    goodput, count = pl.col("goodput_bit_s"), pl.len()

    def ratio(part: pl.Expr, of: pl.Expr) -> pl.Expr:
        return pl.when(of > 0).then(part / of)

    came, done = _sum("arrived_packets"), _sum("decoded_packets") + _sum("dropped_link_packets")
    return users.group_by(["run", *keys, "flow", "direction"], maintain_order=True).agg(
        pl.col("seed").first(),
        users=count,
        user_goodput_min_bit_s=goodput.min(),
        user_goodput_mean_bit_s=goodput.mean(),
        user_goodput_max_bit_s=goodput.max(),
        user_goodput_sd_bit_s=goodput.std(),
        user_goodput_sum_bit_s=goodput.sum(),
        user_jain=ratio(goodput.sum() ** 2, count * (goodput**2).sum()),
        user_wait_ms=ratio(1000 * _sum("waited_s"), _sum("sent_packets")),
        user_longest_wait_ms=1000 * pl.col("longest_wait_s").max(),
        user_no_room_ratio=ratio(_sum("dropped_overflow_packets"), came),
        user_timed_out_ratio=ratio(_sum("dropped_late_packets"), came),
        user_given_up_ratio=ratio(_sum("dropped_link_packets"), done),
        user_first_ratio=ratio(_sum("decoded_after_0_packets"), done),
        user_air_ratio=_sum("air_s") / pl.col("end_s").first(),
        user_best_ms=ratio(1000 * _sum("best_s"), _sum("best_spells")),
    )


def _sum(name: str) -> pl.Expr:
    """Over users; null where nobody has the counter."""
    return pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum())


def over_cells(runs: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """:func:`over_users` over seeds: means with Student's interval, ``NAME, NAME_low, NAME_high``, of
    ``NAME_n`` runs.

    ``KEYS..., flow, direction, users, seeds, NAME...``.
    """
    by = [*keys, "flow", "direction"]
    rows = []
    for cell, own in runs.group_by(by, maintain_order=True):
        row: dict[str, Any] = dict(zip(by, cell, strict=True))
        row |= {"users": own["users"].max(), "seeds": own.height}
        for name in SHARED:
            row |= mean_columns(name, own[name].drop_nulls().to_list())
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
