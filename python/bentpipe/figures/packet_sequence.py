"""The ladder of a page load: time runs downwards, nodes stand side by side, a line is a packet on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
import polars as pl

from bentpipe.figures.context import FigureContext
from bentpipe.figures.figure import Figure
from bentpipe.figures.packet_rows import clients, of_loads
from bentpipe.figures.page_load_samples import PageLoads
from bentpipe.figures.style import BLUE, GREY, ORANGE, RED, WIDTH, inline_csv

MOST_BULK = 40
"""Lines of bulk data and ACKs of one leg, one way; of more, every k-th is drawn and a note says so."""

BULK = ("data", "ACK", "1-RTT")
"""Labels of packets that come in numbers; all others are of handshakes, and none of those is left out."""

QUIC_ACK = 60
"""UDP payload, bytes, below which an encrypted 1-RTT packet is taken for a bare ACK: short header with connection id 9
to 21, number 1 to 4, a small ACK frame, tag 16 (RFC 9000, sections 17.3 and 19.3)."""

MOST_PANELS = 3
"""Arms that are drawn: the first ones."""

HEIGHT = 430
LINE = 13
"""Height of a line of text, pixels."""

_KINDS = {"handshake": BLUE, "request and data": ORANGE, "ACK": GREY, "lost": RED}


def ladder(material: FigureContext) -> Figure | None:
    """The first round trips of the last load of a unit, one panel an arm: up to twice the time to response."""
    if not material.pages.height:
        return None
    found = PageLoads(material)
    loads = _loads(found)
    columns = [
        "transport",
        "from_node",
        "to_node",
        "sent_s",
        "received_s",
        "dropped",
        "payload_bytes",
        "label",
    ]
    packets = of_loads(material.store, loads["run"].unique(maintain_order=True).to_list(), columns)
    # A capture at one end does not know when packets left or reached the other.
    if (
        not packets.height
        or not packets.filter(pl.col("sent_s").is_not_null(), pl.col("received_s").is_not_null()).height
    ):
        return None
    at_home = clients(packets)
    panels, count = [], 0
    for one in loads.head(MOST_PANELS).iter_rows(named=True):
        mine = packets.join(at_home, on=["run", "flow"], how="left", maintain_order="left").filter(
            (pl.col("run") == one["run"]) & (pl.col("flow") == one["flow"]) & (pl.col("load") == one["load"])
        )
        if mine.height:
            chart, rows = _panel(mine, one)
            panels.append(chart)
            count += rows
    if not panels:
        return None
    seed = loads["seed"][0]
    caption = (
        f"Load {loads['load'][0]} of seed {seed} from connectStart to twice its time to response, or to its end. A "
        f"line is a packet between the ends of a connection; of bulk data and ACKs at most {MOST_BULK} a leg and way "
        "are drawn, evenly (the title says how many of how many). A cross is a packet that was lost. Of "
        f"QUIC, 1-RTT packets of under {QUIC_ACK} bytes count as ACKs."
    )
    whole: Any = panels[0] if len(panels) == 1 else alt.vconcat(*panels, spacing=22)
    return Figure(
        "ladder", "The flights of a load", f"{caption} {_fixed(found, loads)}".strip(), whole, count
    )


def _loads(found: PageLoads) -> pl.DataFrame:
    """One load an arm: the first cell, the first seed, the last load that all of the arms have."""
    rows = found.rows.filter(pl.col("response_start_s").is_not_null())
    keys = [key for dim in found.cell_dims for key in dim.keys]
    for key in keys:
        fixed = found.material.fixed.get(key, rows[key][0] if rows.height else None)
        rows = rows.filter(pl.col(key) == fixed)
    rows = rows.filter(pl.col("seed") == pl.col("seed").min())
    arms = rows["arm"].n_unique()
    shared = (
        rows.group_by("load").agg(pl.col("arm").n_unique()).filter(pl.col("arm") == arms)["load"].to_list()
    )
    last = max(shared, default=1)
    chosen = rows.filter(pl.col("load") == last).unique("arm", keep="first", maintain_order=True)
    order = {arm: index for index, arm in enumerate(found.arms)}
    return chosen.sort(pl.col("arm").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)


def _fixed(found: PageLoads, loads: pl.DataFrame) -> str:
    parts = [dim.label(loads[dim.key][0] or "") for dim in found.cell_dims]
    if loads.height > MOST_PANELS:
        parts.append(f"{MOST_PANELS} of {loads.height} arms")
    return f"Shown: {'; '.join(parts)}." if parts else ""


def nodes_in_order(legs: Sequence[tuple[str, str]], client: str) -> list[str]:
    """Nodes by their distance from the client along the legs; a leg that others lead round does not count.

    (QUIC crosses in one leg a path on which TCP stops at every proxy: the proxies stand between its ends.)
    """
    found, rest = [client], dict.fromkeys(node for leg in legs for node in leg if node != client)
    neighbours: dict[str, list[str]] = {}
    for a, b in legs:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    while rest:
        here = found[-1]
        ahead = [node for node in neighbours.get(here, []) if node in rest]
        # The neighbour that leads on comes first: the end of the path has no one beyond it.
        onward = sorted(dict.fromkeys(ahead), key=lambda node: -sum(n in rest for n in neighbours[node]))
        step = onward[0] if onward else next(iter(rest))
        found.append(step)
        del rest[step]
    return found


def _panel(packets: pl.DataFrame, load: Mapping[str, Any]) -> tuple[Any, int]:
    """The ladder of one load, and its number of rows."""
    start, ttr, plt = load["connect_start_s"], load["ttr_s"], load["plt_s"]
    until = 2 * ttr if plt is None else min(2 * ttr, 1.05 * plt)
    legs = list(packets.select("from_node", "to_node").unique(maintain_order=True).iter_rows())
    nodes = nodes_in_order(legs, packets["client"][0])
    place = {node: index for index, node in enumerate(nodes)}
    leg = ["from_node", "to_node"]
    typical = (pl.col("received_s") - pl.col("sent_s")).median().over(leg)
    all_ = (
        packets.with_columns(
            sent=pl.col("sent_s") - start,
            arrived=pl.coalesce("received_s", pl.col("sent_s") + typical.fill_null(0.0)) - start,
            lost=pl.col("dropped") != "",
            bulk=pl.col("label").is_in(BULK) & (pl.col("dropped") == ""),
            x=pl.col("from_node").replace_strict(place, return_dtype=pl.Float64),
            x2=pl.col("to_node").replace_strict(place, return_dtype=pl.Float64),
        )
        .filter((pl.col("sent") >= -1e-9) & (pl.col("sent") <= until))
        .sort("sent", "packet", maintain_order=True)
    )
    plain = _kind()
    kept = all_.with_columns(kind=plain).with_columns(
        place=pl.int_range(pl.len()).over([*leg, "bulk"]), many=pl.len().over([*leg, "bulk"])
    )
    step = (pl.col("many") / MOST_BULK).ceil().cast(pl.Int64)
    shown = kept.filter(~pl.col("bulk") | (pl.col("place") % step == 0))
    drawn, total = shown.filter(pl.col("bulk")).height, kept.filter(pl.col("bulk")).height
    # A lost packet ends half way: where it was dropped on its leg is not in the table.
    shown = shown.with_columns(
        x2=pl.when("lost").then((pl.col("x") + pl.col("x2")) / 2).otherwise("x2"),
        arrived=pl.when("lost").then((pl.col("sent") + pl.col("arrived")) / 2).otherwise("arrived"),
        thin=(pl.col("bulk") & (pl.col("many") > MOST_BULK)).cast(pl.Int64),
    )
    lines = shown.select("x", "x2", "sent", "arrived", "kind", "label", "payload_bytes", "thin")
    texts = _texts(shown.filter(~pl.col("label").is_in(BULK)), until)
    thinned = f", {drawn} of {total} packets of data and ACKs drawn" if drawn < total else ""
    title = f"{load['arm']}: load {load['load']} by {load['protocol']}{thinned}"
    return _chart(lines, texts, nodes, until, title), lines.height + texts.height


def _kind() -> pl.Expr:
    label = pl.col("label")
    empty = (label == "ACK") | ((label == "1-RTT") & (pl.col("payload_bytes") < QUIC_ACK))
    return (
        pl.when("lost").then(pl.lit("lost")).when(empty).then(pl.lit("ACK"))
        .when(label.is_in(BULK)).then(pl.lit("request and data")).otherwise(pl.lit("handshake"))
    )  # fmt: skip


def _texts(packets: pl.DataFrame, until: float) -> pl.DataFrame:
    """Labels beside the sender, those of one leg that would lie on each other joined: ``x, sent, right, text``."""
    gap = LINE * until / HEIGHT
    rows: list[dict[str, Any]] = []
    open_: dict[tuple[float, float], dict[str, Any]] = {}
    for row in packets.iter_rows(named=True):
        side = (row["x"], row["x2"])
        last = open_.get(side)
        if last is None or row["sent"] - last["sent"] > gap:
            last = {"x": row["x"], "sent": row["sent"], "left": int(row["x2"] > row["x"]), "names": []}
            open_[side] = last
            rows.append(last)
        last["names"].append(row["label"])
    for row in rows:
        row["text"] = _joined(row.pop("names"))
    return pl.DataFrame(
        rows, schema={"x": pl.Float64, "sent": pl.Float64, "left": pl.Int64, "text": pl.String}
    )


def _joined(names: Sequence[str]) -> str:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


def _chart(lines: pl.DataFrame, texts: pl.DataFrame, nodes: Sequence[str], until: float, title: str) -> Any:
    x_scale = alt.Scale(domain=[-0.04, len(nodes) - 0.96], nice=False)
    names = (
        " : ".join(f"datum.value == {index} ? '{_quoted(node)}'" for index, node in enumerate(nodes))
        + " : ''"
    )
    x_axis = alt.Axis(
        orient="top",
        values=list(range(len(nodes))),
        labelExpr=names,
        labelFontSize=12,
        grid=True,
        ticks=False,
    )
    y_scale = alt.Scale(domain=[until, -0.03 * until], nice=False)
    colours = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(_KINDS), range=list(_KINDS.values())),
        legend=alt.Legend(title=None),
    )

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=None, scale=x_scale, axis=x_axis)

    def y(field: str) -> alt.Y:
        return alt.Y(
            f"{field}:Q", title="time since connectStart, s", scale=y_scale, axis=alt.Axis(grid=False)
        )

    tips = ["label:N", alt.Tooltip("sent:Q", title="sent, s", format=".5~g"),
            alt.Tooltip("arrived:Q", title="received, s", format=".5~g"), "payload_bytes:Q"]  # fmt: skip
    base = alt.Chart(inline_csv(lines, digits=7))
    words = alt.Chart(inline_csv(texts, digits=7))
    rule = base.mark_rule(clip=True, strokeWidth=1.3).encode(
        x=x("x"), x2="x2:Q", y=y("sent"), y2="arrived:Q", color=colours, tooltip=tips,
        strokeDash=alt.condition("datum.thin == 1", alt.value([4, 3]), alt.value([1, 0])),
        opacity=alt.condition("datum.thin == 1", alt.value(0.55), alt.value(0.95)),
    )  # fmt: skip
    cross = base.mark_point(shape="cross", angle=45, size=90, filled=True, opacity=1).transform_filter(
        "datum.kind == 'lost'"
    ).encode(x=x("x2"), y=y("arrived"), color=colours)  # fmt: skip
    texts_ = [text for left in (True, False) for text in _beside(words, left, x("x"), y("sent"))]
    return alt.layer(rule, cross, *texts_).properties(width=WIDTH - 90, height=HEIGHT, title=title)


def _beside(words: alt.Chart, left: bool, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Labels right or left of their node, on an edge of paper that keeps them readable over lines."""
    align: Literal["left", "right"] = "left" if left else "right"
    mine = words.transform_filter(f"datum.left == {int(left)}").encode(x=x, y=y, text="text:N")
    place: dict[str, Any] = {"dx": 5 if left else -5, "dy": -4, "fontSize": 10, "limit": 280}
    return [
        mine.mark_text(
            align=align, stroke="#ffffff", strokeWidth=3, strokeJoin="round", opacity=0.85, **place
        ),
        mine.mark_text(align=align, color="#1c2330", **place),
    ]


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
