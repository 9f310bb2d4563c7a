"""Packet sequence diagram of a page load: nodes in columns, time downwards, one line for each packet."""

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

MAX_BULK = 40
"""Lines of bulk data and ACKs of a connection and direction; of more, every k-th is drawn and a note says so."""

BULK = ("data", "ACK", "1-RTT")
"""Labels of bulk packets; all others belong to handshakes and are always drawn."""

QUIC_ACK = 60
"""Smallest UDP payload, bytes, of an encrypted 1-RTT packet with data; a smaller one counts as a bare ACK.

It has a short header with connection ID of 9 to 21 bytes and a packet number of 1 to 4 (RFC 9000, section 17.3). A
small ACK frame (section 19.3) and a tag of 16 bytes follow.
"""

MAX_PANELS = 3
"""Largest number of drawn variants."""

HEIGHT = 430
LINE = 13
"""Height of a line of text, pixels."""

_KINDS = {"handshake": BLUE, "request and data": ORANGE, "ACK": GREY, "lost": RED}


def packet_sequence(context: FigureContext) -> Figure | None:
    """Draw the packets of the last load of a session up to twice the time to response, one panel for each variant."""
    if not context.pages.height:
        return None
    page_loads = PageLoads(context)
    loads = _loads(page_loads)
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
    packets = of_loads(context.store, loads["run"].unique(maintain_order=True).to_list(), columns)
    # A capture at one end lacks the send and receive times at the other.
    if (
        not packets.height
        or not packets.filter(pl.col("sent_s").is_not_null(), pl.col("received_s").is_not_null()).height
    ):
        return None
    client_nodes = clients(packets)
    panels, count = [], 0
    for one in loads.head(MAX_PANELS).iter_rows(named=True):
        load_packets = packets.join(
            client_nodes, on=["run", "flow"], how="left", maintain_order="left"
        ).filter(
            (pl.col("run") == one["run"]) & (pl.col("flow") == one["flow"]) & (pl.col("load") == one["load"])
        )
        if load_packets.height:
            chart, rows = _panel(load_packets, one)
            panels.append(chart)
            count += rows
    if not panels:
        return None
    seed = loads["seed"][0]
    caption = (
        f"Load {loads['load'][0]} of seed {seed} from connectStart to its end, at most twice its "
        "time to response. Each line is a packet between the endpoints of a connection; each "
        f"cross is a lost packet. Each connection and direction shows at most {MAX_BULK} data "
        "packets and ACKs, evenly sampled; the title has the numbers. QUIC 1-RTT packets smaller "
        f"than {QUIC_ACK} bytes count as ACKs."
    )
    whole: Any = panels[0] if len(panels) == 1 else alt.vconcat(*panels, spacing=22)
    return Figure(
        "packet-sequence",
        "Packet sequence diagram",
        f"{caption} {_fixed(page_loads, loads)}".strip(),
        whole,
        count,
    )


def _loads(page_loads: PageLoads) -> pl.DataFrame:
    """Return one load of each variant: first cell, first seed, last load that all variants have."""
    rows = page_loads.rows.filter(pl.col("response_start_s").is_not_null())
    keys = [key for dim in page_loads.cell_dims for key in dim.keys]
    for key in keys:
        fixed = page_loads.context.fixed.get(key, rows[key][0] if rows.height else None)
        rows = rows.filter(pl.col(key) == fixed)
    rows = rows.filter(pl.col("seed") == pl.col("seed").min())
    variants = rows["variant"].n_unique()
    shared = (
        rows.group_by("load")
        .agg(pl.col("variant").n_unique())
        .filter(pl.col("variant") == variants)["load"]
        .to_list()
    )
    last = max(shared, default=1)
    chosen = rows.filter(pl.col("load") == last).unique("variant", keep="first", maintain_order=True)
    order = {variant: index for index, variant in enumerate(page_loads.variants)}
    return chosen.sort(pl.col("variant").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)


def _fixed(page_loads: PageLoads, loads: pl.DataFrame) -> str:
    parts = [dim.label(loads[dim.key][0] or "") for dim in page_loads.cell_dims]
    if loads.height > MAX_PANELS:
        parts.append(f"{MAX_PANELS} of {loads.height} variants")
    return f"Shown: {'; '.join(parts)}." if parts else ""


def nodes_in_order(connections: Sequence[tuple[str, str]], client: str) -> list[str]:
    """Return the nodes by their distance from the client along the connections.

    A direct connection between nodes with others between them does not shorten the distance. QUIC crosses in one
    connection a path on which TCP ends at every proxy.
    """
    ordered, rest = (
        [client],
        dict.fromkeys(node for connection in connections for node in connection if node != client),
    )
    neighbours: dict[str, list[str]] = {}
    for a, b in connections:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    while rest:
        here = ordered[-1]
        ahead = [node for node in neighbours.get(here, []) if node in rest]
        # The neighbour that leads on comes first: the end of the path has no one beyond it.
        onward = sorted(dict.fromkeys(ahead), key=lambda node: -sum(n in rest for n in neighbours[node]))
        step = onward[0] if onward else next(iter(rest))
        ordered.append(step)
        del rest[step]
    return ordered


def _panel(packets: pl.DataFrame, load: Mapping[str, Any]) -> tuple[Any, int]:
    """Return the diagram of one load and its number of rows."""
    start, ttr, plt = load["connect_start_s"], load["ttr_s"], load["plt_s"]
    until = 2 * ttr if plt is None else min(2 * ttr, 1.05 * plt)
    connections = list(packets.select("from_node", "to_node").unique(maintain_order=True).iter_rows())
    nodes = nodes_in_order(connections, packets["client"][0])
    place = {node: index for index, node in enumerate(nodes)}
    connection = ["from_node", "to_node"]
    typical = (pl.col("received_s") - pl.col("sent_s")).median().over(connection)
    visible = (
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
    numbered = visible.with_columns(kind=plain).with_columns(
        place=pl.int_range(pl.len()).over([*connection, "bulk"]), many=pl.len().over([*connection, "bulk"])
    )
    step = (pl.col("many") / MAX_BULK).ceil().cast(pl.Int64)
    shown = numbered.filter(~pl.col("bulk") | (pl.col("place") % step == 0))
    drawn, total = shown.filter(pl.col("bulk")).height, numbered.filter(pl.col("bulk")).height
    # A lost packet ends half way, because the table does not have the place of the drop.
    shown = shown.with_columns(
        x2=pl.when("lost").then((pl.col("x") + pl.col("x2")) / 2).otherwise("x2"),
        arrived=pl.when("lost").then((pl.col("sent") + pl.col("arrived")) / 2).otherwise("arrived"),
        thin=(pl.col("bulk") & (pl.col("many") > MAX_BULK)).cast(pl.Int64),
    )
    lines = shown.select("x", "x2", "sent", "arrived", "kind", "label", "payload_bytes", "thin")
    texts = _texts(shown.filter(~pl.col("label").is_in(BULK)), until)
    note = f", {drawn} of {total} data packets and ACKs shown" if drawn < total else ""
    title = f"{load['variant']}: load {load['load']} over {load['protocol']}{note}"
    return _chart(lines, texts, nodes, until, title), lines.height + texts.height


def _kind() -> pl.Expr:
    label = pl.col("label")
    empty = (label == "ACK") | ((label == "1-RTT") & (pl.col("payload_bytes") < QUIC_ACK))
    return (
        pl.when("lost").then(pl.lit("lost")).when(empty).then(pl.lit("ACK"))
        .when(label.is_in(BULK)).then(pl.lit("request and data")).otherwise(pl.lit("handshake"))
    )  # fmt: skip


def _texts(packets: pl.DataFrame, until: float) -> pl.DataFrame:
    """Return labels beside the sender, ``x, sent, left, text``; overlapping labels of a connection are joined."""
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
        row["text"] = _join_labels(row.pop("names"))
    return pl.DataFrame(
        rows, schema={"x": pl.Float64, "sent": pl.Float64, "left": pl.Int64, "text": pl.String}
    )


def _join_labels(names: Sequence[str]) -> str:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


def _chart(lines: pl.DataFrame, texts: pl.DataFrame, nodes: Sequence[str], until: float, title: str) -> Any:
    x_scale = alt.Scale(domain=[-0.04, len(nodes) - 0.96], nice=False)
    names = (
        " : ".join(f"datum.value == {index} ? '{_escape(node)}'" for index, node in enumerate(nodes))
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
    texts_ = [text for left in (True, False) for text in _text_layers(words, left, x("x"), y("sent"))]
    return alt.layer(rule, cross, *texts_).properties(width=WIDTH - 90, height=HEIGHT, title=title)


def _text_layers(words: alt.Chart, left: bool, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Return labels right or left of their node, with a white outline that keeps them readable over lines."""
    align: Literal["left", "right"] = "left" if left else "right"
    labels = words.transform_filter(f"datum.left == {int(left)}").encode(x=x, y=y, text="text:N")
    place: dict[str, Any] = {"dx": 5 if left else -5, "dy": -4, "fontSize": 10, "limit": 280}
    return [
        labels.mark_text(
            align=align, stroke="#ffffff", strokeWidth=3, strokeJoin="round", opacity=0.85, **place
        ),
        labels.mark_text(align=align, color="#1c2330", **place),
    ]


def _escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
