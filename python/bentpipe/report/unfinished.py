"""Sentence on transfers of a given size that the end of a run cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.transfers import count_unfinished
from bentpipe.report.headline import join_names

if TYPE_CHECKING:
    from bentpipe.figures.context import FigureContext

__all__ = ["unfinished_note"]

MAX_LISTED_CELLS = 3
"""Largest number of cells with their own numbers."""

_NOUNS = {"down": "downloads", "up": "uploads"}


def unfinished_note(context: FigureContext) -> str:
    """Return how many transfers of which cells did not finish, without a full stop; empty if all did."""
    counts = count_unfinished(context.store)
    if not counts.height or not counts["unfinished"].sum():
        return ""
    keys = [dim.key for dim in context.dims]
    by = [*keys, "flow", "direction"]
    cells = (
        counts.join(context.store.index.select("run", *keys), on="run", how="inner", maintain_order="right")
        .group_by(by, maintain_order=True)
        .agg(pl.col("transfers", "unfinished").sum(), pl.col("end_s").max())
    )
    late = cells.filter(cells["unfinished"] > 0)
    directions = late["direction"].unique().to_list()
    noun = _NOUNS[directions[0]] if len(directions) == 1 else "transfers"
    several = cells["flow"].n_unique() > 1
    parts: list[str] = []
    for row in late.head(MAX_LISTED_CELLS).iter_rows(named=True):
        names = [row["flow"]] if several else []
        names += [dim.label(row[dim.key]) for dim in context.dims if row[dim.key] is not None]
        number = f"{row['unfinished']:,} of {row['transfers']:,}{'' if parts else f' {noun}'}"
        parts.append(f"{number} of {', '.join(names)}" if names else number)
    text = join_names(parts)
    if late.height > MAX_LISTED_CELLS:
        text = f"{late['unfinished'].sum():,} of {cells['transfers'].sum():,} {noun} in {late.height:,} of "
        text += f"{cells.height:,} cells"
    longest = late["end_s"].max()
    within = f" in {format_significant(longest)} s" if isinstance(longest, float) else ""
    return f"{text} did not finish{within}: raise duration (--set duration=...)"
