"""Packet sequence diagrams of chapter 3 from simulated packets: time runs downwards, a line is a transmission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREEN, GREY, ORANGE, RED, WIDTH, inline_csv
from bentpipe.runners import engine
from bentpipe.scenario.input_file import parse_json, read_input
from bentpipe_studies.tauran_2018.cells import SEGMENT

if TYPE_CHECKING:
    from bentpipe.store.reader import Store
    from bentpipe_studies.parts import Measurements

__all__ = ["attempts", "ladders"]

LINK, STAGE = "mobile.down", 0
DELAY_MS, ANSWER_MS = 10.0, 20.0
"""Propagation delay of the link, and time from the end of an attempt to its answer (``ladders.toml``), ms."""

COLOURS = {
    "decoded": GREEN, "not decoded": RED, "discarded": ORANGE, "feedback": GREY,
    "data": BLUE, "retransmitted": RED, "lost": ORANGE, "ACK": GREY,
}  # fmt: skip

Parts = tuple[tuple[str, str, float, float], ...]
"""Label in the scenario, title, start and end, ms."""

LINK_LADDERS: tuple[tuple[str, str, str, Parts], ...] = (
    ("table-3-2", "Table 3.2 ARQ",
     ("The sender retransmits a packet after negative feedback. Stop-and-wait sends one packet at "
         "a time. Go-back-N also retransmits all later packets, which the receiver discards. "
         "Selective repeat retransmits only missing packets."),
     (("table 3.2, stop-and-wait", "stop-and-wait", 1002, 1098), ("table 3.2, go-back-N", "go-back-N", 1002, 1068),
      ("table 3.2, selective repeat", "selective repeat", 1002, 1068))),
    ("figure-3-4", "3.4, 3.5 Type I and type II HARQ",
     ("Both panels have the same fade. Chase combining adds Es/N0 of the same bits and needs three "
         "attempts. Incremental redundancy adds new bits and needs two."),
     (("3.4", "type I (Chase combining)", 1012, 1078), ("3.5", "type II (incremental redundancy)", 1012, 1078))),
    ("figure-3-6", "3.6 Adaptive-HARQ",
     ("Fading channel at 7 dB. The labels are the coded bits of each attempt, from the link "
     "design."),
     (("3.6", "Adaptive-HARQ", 460, 560),)),
)  # fmt: skip

TCP_LADDERS: tuple[tuple[str, str, str, Parts], ...] = (
    ("figure-3-7", "3.7, 3.11 Late packet",
     ("Segment 174 needs a second attempt and arrives 22 ms late, after four duplicate ACKs of "
         "173. Three of them trigger a spurious TCP retransmission. RACK has seen reordering before, "
         "waits a quarter of the minimum RTT and retransmits nothing."),
     (("3.7", "three duplicate ACKs", 1012, 1112), ("3.11", "RACK", 1012, 1112))),
    ("figure-3-8", "3.8 Delayed ACKs",
     "The receiver sends one ACK for two segments. The last segment is alone and waits 40 ms for the timer.",
     (("3.8", "delayed ACKs", 820, 1050),)),
    ("figure-3-10", "3.10, 3.12 RACK and TLP",
     ("RACK retransmits a lost segment after a later segment has arrived and the reordering window "
         "has passed. No segment follows the last ones, so TCP sends a tail loss probe after two "
         "SRTT, here 206 ms."),
     (("3.10", "RACK", 995, 1180), ("3.12", "tail loss probe", 1070, 1500))),
)  # fmt: skip

HEIGHT, LINE = 400, 11
"""Height of a panel and of a line of text, pixels."""


def ladders(measurements: Measurements) -> tuple[Figure, ...]:
    """Return the diagrams of chapter 3; empty when they have not run."""
    store = measurements.store("ladders")
    if store is None:
        return ()
    runs = dict(zip(store.shown(store.index)[_label(store)], store.index["run"], strict=True))
    found = []
    for make, figures in ((_link, LINK_LADDERS), (_tcp, TCP_LADDERS)):
        for key, title, caption, parts in figures:
            charts = [
                (make(store, runs[name], (begin, end)), shown, (begin, end))
                for name, shown, begin, end in parts
                if name in runs
            ]
            if charts:
                found.append(_figure(key, title, caption, charts))
    return tuple(found)


def _label(store: Store) -> str:
    frame = store.shown(store.index)
    return next(name for name in ("figure", "sweep.figure") if name in frame.columns)


Diagram = tuple[list[dict[str, Any]], list[dict[str, Any]], tuple[str, str]]
"""Lines, texts, and the two ends of a diagram."""


# --- the link layer -------------------------------------------------------------------------------------------


def attempts(
    packets: Sequence[tuple[float, float, bool]], air: Sequence[float], scheme: str
) -> list[list[tuple[float, float, str]]]:
    """Return the radio attempts of each packet: begin and end, ms, and outcome.

    A trace has the times at which a packet enters the link and leaves it, decoded or dropped at the retry
    limit. The rest
    follows from the rules of the link: an attempt begins when the answer to the one before is back,
    ``ANSWER_MS`` after its
    end.

    Args:
        packets: enter and leave time of each packet, ms, and whether it was decoded.
        air: airtime of each attempt, ms; the last holds for all later attempts.
        scheme: ``stop-and-wait``, ``go-back-n`` or empty (selective repeat).
    """
    found: list[list[tuple[float, float, str]]] = []
    free, back = 0.0, -1.0
    for came, left, decoded in packets:
        begin = max(came, free) if scheme == "stop-and-wait" else came
        count, spent = 1, air[0]
        while begin + spent + ANSWER_MS < left:
            spent += ANSWER_MS + air[min(count, len(air) - 1)]
            count += 1
        if scheme == "go-back-n" and count == 1 and begin < back - air[0] < left:
            # Sent before the loss of an earlier packet was known: discarded, and retransmitted after it.
            mine = [(begin, begin + air[0], "discarded")] if begin < back else []
            mine.append((left - air[0], left, "decoded"))
        else:
            mine, end = [], left
            for number in range(count - 1, -1, -1):
                length = air[min(number, len(air) - 1)]
                mine.insert(0, (end - length, end, "not decoded"))
                end -= length + ANSWER_MS
            if decoded:
                mine[-1] = (*mine[-1][:2], "decoded")
        if count > 1:
            back = mine[-1][0]
        free = left + ANSWER_MS
        found.append(mine)
    return found


def _link(store: Store, run: str, span: tuple[float, float]) -> Diagram:
    radio = _radio(store, run)
    bits = engine.coded_bits(radio)
    air = [1e3 * one / radio["link_layer"]["rate_bit_s"] for one in bits]
    steps = store.rows("packet_steps", runs=[run]).filter(pl.col("link") == LINK)
    came = steps.filter((pl.col("stage") == STAGE) & (pl.col("dropped") == "")).select(
        "packet", came=pl.col("at_ns") / 1e6
    )
    left = steps.filter((pl.col("stage") == STAGE + 1) | (pl.col("dropped") != "")).select(
        "packet", left=pl.col("at_ns") / 1e6, decoded=pl.col("dropped") == ""
    )
    both = came.join(left, on="packet").sort("came")
    repeat, window = radio["link_layer"]["repeat"], radio["link_layer"]["window"]
    scheme = "go-back-n" if repeat == "go_back_n" else "stop-and-wait" if window == 1 else ""
    rows: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for mine in attempts(both.select("came", "left", "decoded").rows(), air, scheme):
        for number, (begin, end, label) in enumerate(mine):
            if not span[0] <= begin <= span[1]:
                continue
            rows.append(_line(0, 1, begin, end + DELAY_MS, label))
            if label == "not decoded":
                rows.append(_line(1, 0, end + DELAY_MS, end + ANSWER_MS, "feedback"))
            if len(set(bits)) > 1:
                texts.append(
                    {"x": 0, "t": begin, "text": f"{bits[number] / 1e3:.1f} kbit", "left": 0, "first": False}
                )
    return rows, texts, ("satellite", "terminal")


def _radio(store: Store, run: str) -> Any:
    spec = parse_json(read_input(store.path / "runs" / run / "spec.json", links=False))
    stack: list[Any] = [spec]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            if one.get("kind") == "radio":
                return one
            stack += one.values()
        elif isinstance(one, list):
            stack += one
    raise ValueError(f"{run} has no radio link")


# --- TCP ------------------------------------------------------------------------------------------------------


def _tcp(store: Store, run: str, span: tuple[float, float]) -> Diagram:
    packets = store.rows("packets", runs=[run]).sort("sent_s")
    sender = packets.filter(pl.col("sequence") > SEGMENT)["from_node"][0]
    data = packets.filter((pl.col("from_node") == sender) & (pl.col("payload_bytes") > 0))
    arrived = sorted(
        (one["received_s"], one["sequence"] - one["payload_bytes"], one["sequence"])
        for one in data.drop_nulls("received_s").iter_rows(named=True)
    )
    base = min(first for _, first, _ in arrived)
    rows: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    usual: float = (data["received_s"] - data["sent_s"]).median() or 0.0  # type: ignore[assignment]
    for one in packets.iter_rows(named=True):
        sent = 1e3 * one["sent_s"]
        if not span[0] <= sent <= span[1]:
            continue
        mine = one["from_node"] == sender
        lost = one["received_s"] is None
        end = 1e3 * one["received_s"] if not lost else sent + 500 * usual
        ends = (0.0, 1.0) if mine else (1.0, 0.0)
        if mine and one["payload_bytes"] > 0:
            number = round((one["sequence"] - base) / SEGMENT)
            kind = "lost" if lost else "retransmitted" if one["retransmission"] else "data"
            rows.append(_line(ends[0], 0.5 if lost else ends[1], sent, end, kind))
            texts.append({"x": 0, "t": sent, "text": str(number), "left": 0, "first": kind != "data"})
        elif not mine and one["label"] == "ACK":
            known = _in_order(arrived, one["sent_s"], base)
            rows.append(_line(*ends, sent, end, "ACK"))
            texts.append(
                {"x": 1, "t": sent, "text": str(round((known - base) / SEGMENT)), "left": 1, "first": False}
            )
    return rows, texts, ("sender", "receiver")


def _in_order(arrived: Sequence[tuple[float, float, float]], until: float, base: float) -> float:
    """Return the sequence number up to which everything has arrived at ``until``."""
    known = base
    for _, first, last in sorted((one for one in arrived if one[0] <= until + 1e-9), key=lambda one: one[1]):
        if first > known + 1:
            break
        known = max(known, last)
    return known


# --- drawing --------------------------------------------------------------------------------------------------


def _line(x: float, x2: float, begin: float, end: float, kind: str) -> dict[str, Any]:
    return {"x": float(x), "x2": float(x2), "t": begin, "t2": end, "kind": kind}


def _figure(
    key: str, title: str, caption: str, charts: Sequence[tuple[Diagram, str, tuple[float, float]]]
) -> Figure:
    kinds = [
        kind for kind in COLOURS if any(row["kind"] == kind for (rows, _, _), _, _ in charts for row in rows)
    ]
    width = min((WIDTH - 40) // len(charts) - 80, 420)
    panels = [_panel(*one, kinds, width) for one in charts]
    whole: Any = panels[0] if len(panels) == 1 else alt.hconcat(*panels, spacing=22)
    return Figure(
        key, title, caption, whole, sum(len(rows) + len(texts) for (rows, texts, _), _, _ in charts)
    )


def _panel(diagram: Diagram, title: str, span: tuple[float, float], kinds: Sequence[str], width: int) -> Any:
    rows, texts, ends = diagram
    start, length = span[0], span[1] - span[0]
    frame = pl.DataFrame(rows).with_columns(t=pl.col("t") - start, t2=pl.col("t2") - start)
    names = f"datum.value == 0 ? '{ends[0]}' : datum.value == 1 ? '{ends[1]}' : ''"
    axis = alt.Axis(orient="top", values=[0, 1], labelExpr=names, labelFontSize=12, ticks=False, grid=True)
    x = alt.X("x:Q", title=None, axis=axis, scale=alt.Scale(domain=[-0.24, 1.16], nice=False))
    y = alt.Y(
        "t:Q", title="time, ms", axis=alt.Axis(grid=False),
        scale=alt.Scale(domain=[length, -0.02 * length], nice=False),
    )  # fmt: skip
    colours = alt.Color(
        "kind:N", legend=alt.Legend(title=None, orient="bottom"),
        scale=alt.Scale(domain=list(kinds), range=[COLOURS[kind] for kind in kinds]),
    )  # fmt: skip
    dashed = alt.condition(
        "datum.kind == 'feedback' || datum.kind == 'ACK'", alt.value([3, 3]), alt.value([1, 0])
    )
    layers: list[Any] = [
        alt.Chart(inline_csv(frame, digits=7))
        .mark_rule(clip=True, strokeWidth=1.4)
        .encode(x=x, x2="x2:Q", y=y, y2="t2:Q", color=colours, strokeDash=dashed)
    ]
    for side, align in ((0, "right"), (1, "left")):
        mine = _without_overlap([one for one in texts if one["left"] == side], LINE * length / HEIGHT)
        if mine:
            words = pl.DataFrame(mine).with_columns(t=pl.col("t") - start)
            layers.append(
                alt.Chart(inline_csv(words, digits=7))
                .mark_text(align=align, dx=-5 if side == 0 else 5, fontSize=9, clip=True)  # type: ignore[arg-type]
                .encode(x=x, y=y, text="text:N")
            )
    return alt.layer(*layers).properties(width=width, height=HEIGHT, title=title)


def _without_overlap(texts: Sequence[Mapping[str, Any]], gap: float) -> list[Mapping[str, Any]]:
    """Return the texts that do not overlap; losses and retransmissions come before the rest."""
    placed: list[Mapping[str, Any]] = []
    for one in sorted(texts, key=lambda text: (not text["first"], text["t"])):
        if all(abs(one["t"] - other["t"]) >= gap for other in placed):
            placed.append(one)
    return sorted(placed, key=lambda text: text["t"])
