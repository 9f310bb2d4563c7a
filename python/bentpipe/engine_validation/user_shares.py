"""Shares of users in the goodput, and totals of the flows of one scenario table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.store.scan import GROUP

if TYPE_CHECKING:
    from bentpipe.store.reader import Store

__all__ = ["ALONE", "members", "of_all", "with_shares"]

ALONE = 1
"""Number of flows of a table without ``count``."""

_RUN_DIRECTION = ["run", "direction"]


def with_shares(store: Store, frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``share_percent``, the share of the flows of a user in the goodput of all flows.

    The value is in the row of the first flow of a user, in runs with several users. It is null in other rows.

    Args:
        store: store of the runs.
        frame: one row for each run, flow and direction.
    """
    owners = [
        (run, flow["name"], flow["user"])
        for run, spec in store.specs(store.index["run"].to_list()).items()
        if len({flow.get("user") for flow in spec["flows"]}) > 1
        for flow in spec["flows"]
        if flow.get("user")
    ]
    schema = {"run": pl.String, "flow": pl.String, "__user": pl.Int64}
    users = pl.DataFrame(owners, schema=schema, orient="row")
    goodput = pl.col("goodput_bit_s")
    total = goodput.sum().over(_RUN_DIRECTION)
    user_keys, is_first = (
        [*_RUN_DIRECTION, "__user"],
        pl.int_range(pl.len()).over([*_RUN_DIRECTION, "__user"]) == 0,
    )
    share = pl.when(pl.col("__user").is_not_null() & is_first & (total > 0)).then(
        100 * goodput.sum().over(user_keys) / total
    )
    joined = frame.join(users, on=["run", "flow"], how="left", maintain_order="left")
    return joined.with_columns(share_percent=share).drop("__user")


def of_all(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return the total goodput and Jain's index of each run, direction and table with several flows.

    The rows have the name of the table as ``flow``.
    """
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
    """Return the number of flows in the table of each flow."""
    if GROUP not in frame.columns:
        return {}
    flows = frame.filter(pl.col(GROUP).is_not_null() & (pl.col(GROUP) != pl.col("flow")))
    counts = flows.group_by(GROUP, maintain_order=True).agg(count=pl.col("flow").n_unique())
    return dict(
        flows.select("flow", GROUP).unique().join(counts, on=GROUP).select("flow", "count").iter_rows()
    )
