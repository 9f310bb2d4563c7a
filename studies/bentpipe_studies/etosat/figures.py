"""Figure of the study: download times beside the draft's objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import WIDTH, colour, inline_csv, shape

__all__ = ["downloads"]


def downloads(rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Return the figure of download times; ``None`` without rows.

    Args:
        rows: ``access``, ``transport``, ``size`` in MB, ``seconds`` (mean over seeds) and ``objective`` or ``None``.
    """
    if not rows:
        return None
    frame = pl.DataFrame(
        [
            {
                "access": row["access"], "by": row["transport"], "size": f"{row['size']:g} MB", "x": row["seconds"],
                "objective": row["objective"],
            }
            for row in rows
        ],
        schema={"access": pl.String, "by": pl.String, "size": pl.String, "x": pl.Float64, "objective": pl.Float64},
    )  # fmt: skip
    variants = frame["by"].unique(maintain_order=True).to_list()
    sizes = frame["size"].unique(maintain_order=True).to_list()
    accesses = frame["access"].unique(maintain_order=True).to_list()
    y = alt.Y("access:N", sort=accesses, title=None, axis=alt.Axis(grid=True, minExtent=70))
    title = "time, s (logarithmic)"
    x = alt.X("x:Q", title=title, scale=alt.Scale(type="log"))
    base = alt.Chart()
    layers = alt.layer(
        base.mark_tick(thickness=3, size=26, color="#8A8A8A")
        .encode(x=alt.X("objective:Q", title=title, scale=alt.Scale(type="log")), y=y)
        .transform_filter("isValid(datum.objective)"),
        base.mark_point(filled=True, size=60, opacity=0.85).encode(
            x=x, y=y, color=colour(variants, "by"), shape=shape(variants, "by")
        ),
    ).properties(width=(WIDTH - 160) // 3, height=34 * len(accesses))
    panel = alt.Facet("size:N", sort=sizes, title=None, header=alt.Header(labelAnchor="start"))
    chart = layers.facet(data=inline_csv(frame), facet=panel, columns=3).resolve_scale(x="independent")
    caption = "Means over seeds. Grey: objective of the draft. Unfinished transfers have no point."
    return Figure("downloads", "Download time of 2, 10 and 100 MB", caption, chart, frame.height)
