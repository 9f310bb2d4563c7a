"""Of flows that belong together: each user's share, and what all flows of one table have together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.store.scan import GROUP

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = ["ALONE", "members", "of_all", "with_shares"]

ALONE = 1
"""Flows of a table without a count."""

_WAY = ["run", "direction"]


def with_shares(store: Store, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` (a row a run, flow and direction) with ``share_percent``: what a user's flows have of all goodput.

    It stands at the user's first flow, of runs whose users are told apart; null elsewhere.
    """
    whose = [
        (run, flow["name"], flow["user"])
        for run, spec in store.specs(store.index["run"].to_list()).items()
        if len({flow.get("user") for flow in spec["flows"]}) > 1
        for flow in spec["flows"]
        if flow.get("user")
    ]
    schema = {"run": pl.String, "flow": pl.String, "__user": pl.Int64}
    users = pl.DataFrame(whose, schema=schema, orient="row")
    goodput = pl.col("goodput_bit_s")
    everybody = goodput.sum().over(_WAY)
    own, is_first = [*_WAY, "__user"], pl.int_range(pl.len()).over([*_WAY, "__user"]) == 0
    share = pl.when(pl.col("__user").is_not_null() & is_first & (everybody > 0)).then(
        100 * goodput.sum().over(own) / everybody
    )
    joined = frame.join(users, on=["run", "flow"], how="left", maintain_order="left")
    return joined.with_columns(share_percent=share).drop("__user")


def of_all(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """A row a run, direction and table of several flows, under the table's name: their goodput, and how even it is."""
    if GROUP not in frame.columns:
        return frame.clear()
    goodput = pl.col("goodput_bit_s")
    found = (
        frame.filter(pl.col(GROUP).is_not_null() & (pl.col(GROUP) != pl.col("flow")))
        .group_by("run", "direction", GROUP, maintain_order=True)
        .agg(
            pl.col("seed", "congestion", *keys).first(),
            goodput_sum_bit_s=goodput.sum(),
            group_jain=pl.when((goodput**2).sum() > 0).then(
                goodput.sum() ** 2 / (pl.len() * (goodput**2).sum())
            ),
        )
    )
    return found.with_columns(flow=pl.col(GROUP))


def members(frame: pl.DataFrame) -> dict[str, int]:
    """How many flows the table of each flow has."""
    if GROUP not in frame.columns:
        return {}
    own = frame.filter(pl.col(GROUP).is_not_null() & (pl.col(GROUP) != pl.col("flow")))
    counts = own.group_by(GROUP, maintain_order=True).agg(many=pl.col("flow").n_unique())
    return dict(own.select("flow", GROUP).unique().join(counts, on=GROUP).select("flow", "many").iter_rows())
