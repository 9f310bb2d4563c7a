"""Figure of a comparison: a panel for each traffic and metric, a point with its interval for each setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import WIDTH, colour, inline_csv
from bentpipe.link_layer.config import TRAFFIC
from bentpipe.link_layer.results import COMMON, primary_metric
from bentpipe.metrics.registry import METRICS

if TYPE_CHECKING:
    from bentpipe.link_layer.results import Comparison
    from bentpipe.metrics.registry import Metric

__all__ = ["KEY", "draw_comparison"]

KEY = "link-layer"
"""Key of the figure."""

BAND = 52
"""Height of a setting, pixels: its label and a lane for each traffic, which do not touch."""

LANES = (0.5, 0.67, 0.84)
"""Position of each traffic in the band of a setting; the label of the setting is above them."""


def draw_comparison(comparison: Comparison) -> Figure:
    """Return the figure: a panel for each metric, settings below each other, a colour for each traffic."""
    config = comparison.config
    metrics = list(dict.fromkeys([*(primary_metric(config, traffic) for traffic in TRAFFIC), *COMMON]))
    panels, count = [], 0
    for name in metrics:
        metric = METRICS[name]
        rows = [
            {
                "setting": one.setting,
                "traffic": one.traffic,
                "mean": mean.estimate * metric.scale,
                "low": (mean.estimate if mean.low is None else mean.low) * metric.scale,
                "high": (mean.estimate if mean.high is None else mean.high) * metric.scale,
            }
            for one in comparison.measurements
            if (found := one.mean(name)) is not None
            for mean in [metric.clip(found)]
        ]
        count += len(rows)
        panels.append(_panel(rows, config.labels, metric.axis, _domain(metric, rows)))
    caption = (
        f"{config.title}. Each traffic has the path for itself; points are means over {config.seeds} "
        f"seed{'' if config.seeds == 1 else 's'}"
    )
    caption += " with 95 % intervals." if config.seeds > 1 else "."
    chart = alt.concat(*panels, columns=2, spacing=24)
    return Figure(KEY, "Link-layer settings by traffic", caption, chart, count)


def _domain(metric: Metric, rows: list[dict[str, Any]]) -> list[float]:
    """Return the ends of the axis: the range of a score, else 0 and a value beyond all intervals."""
    if metric.least > 0:
        return [metric.least * metric.scale, metric.most * metric.scale]
    high = max((row["high"] for row in rows), default=0.0)
    return [0.0, 1.05 * high] if high > 0 else [0.0, 1.0]


def _panel(rows: list[dict[str, Any]], labels: list[str], title: str, limits: list[float]) -> Any:
    """Return the panel of a metric; ``limits`` are those of its axis."""
    schema = {
        "setting": pl.String,
        "traffic": pl.String,
        **dict.fromkeys(("mean", "low", "high"), pl.Float64),
    }
    source = inline_csv(pl.DataFrame(rows, schema=schema))
    names = inline_csv(pl.DataFrame({"setting": labels}))
    hue = colour(list(TRAFFIC), "traffic")
    tips = [
        "setting:N",
        "traffic:N",
        *(alt.Tooltip(f"{key}:Q", format=".4g") for key in ("mean", "low", "high")),
    ]

    def y(position: float) -> alt.Y:
        scale = alt.Scale(domain=labels, paddingInner=0, paddingOuter=0)
        return alt.Y("setting:N", sort=labels, scale=scale, title=None, axis=None, bandPosition=position)

    scale = alt.Scale(domain=limits, nice=False, zero=False)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))

    layers: list[Any] = []
    for traffic, lane in zip(TRAFFIC, LANES, strict=True):
        base = alt.Chart(source).transform_filter(alt.datum.traffic == traffic)
        layers += [
            base.mark_rule(strokeWidth=2).encode(x=x("low"), x2="high:Q", y=y(lane), color=hue),
            base.mark_point(filled=True, size=44, opacity=1).encode(
                x=x("mean"), y=y(lane), color=hue, tooltip=tips
            ),
        ]
    text = (
        alt.Chart(names)
        .mark_text(align="left", fontSize=11)
        .encode(x=alt.value(4), y=y(0.2), text="setting:N")
    )
    return alt.layer(*layers, text).properties(width=WIDTH / 2 - 60, height=alt.Step(BAND))
