"""A contact plan as figures: who can send to whom, and how far apart they are, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.dtn.summary import by_pair, ends
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, RED, WIDTH, colour, inline_csv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.dtn.contact_plan import Found

__all__ = ["KEYS", "figures"]

KEYS = ("contacts", "light")
"""Of all figures that there may be."""

PAIRS = 60
"""Rows of the chart; of more, those that change most often."""

BARS = 4000
"""Contacts that are drawn."""

LINES = 8
"""Pairs whose light times are drawn: as many as there are colours."""


def figures(found: Found) -> list[Figure]:
    """The contacts, and the light times where they change or differ."""
    if not found.spec["contacts"]:
        return []
    drawn = [_contacts(found)]
    light = _light(found)
    return [*drawn, light] if light is not None else drawn


def _time(found: Found) -> alt.X:
    start, stop = ends(found)
    scale = alt.Scale(nice=False, domain=[start / 1e9, stop / 1e9])
    return alt.X("start_s:Q", title="time, s", scale=scale)


def _contacts(found: Found) -> Figure:
    rows = _rows(found)
    start, stop = ends(found)
    # what is always there says least
    dull = {
        name: [(one["start_ns"], one["stop_ns"]) for one in of] == [(start, stop)]
        for name, (of, _) in rows.items()
    }
    most = set(sorted(rows, key=lambda name: (dull[name], -len(rows[name][0])))[:PAIRS])
    bars: list[dict[str, Any]] = []
    dark: list[dict[str, Any]] = []
    for name, (of, held) in rows.items():
        if name not in most:
            continue
        for one in of:
            bars.append(
                {"pair": name, "start_s": one["start_ns"] / 1e9, "stop_s": one["stop_ns"] / 1e9,
                 "rate": one["rates"], "likely": one["confidence"], "said": one["at"]}
            )  # fmt: skip
            gaps = _unknown(one["start_ns"], one["stop_ns"], held)
            dark += [{"pair": name, "start_s": a / 1e9, "stop_s": b / 1e9} for a, b in gaps]
    total = sum(len(of) for of, _ in rows.values())
    bars, dark = bars[:BARS], dark[:BARS]
    names = list(dict.fromkeys(bar["pair"] for bar in bars))
    y = alt.Y("pair:N", sort=names, title=None, axis=alt.Axis(labelLimit=260, grid=True))
    layers = [
        alt.Chart(inline_csv(pl.DataFrame(bars), digits=12))
        .mark_bar(color=BLUE, height=alt.RelativeBandSize(0.6), clip=True)
        .encode(
            x=_time(found), x2="stop_s:Q", y=y,
            opacity=alt.Opacity("likely:Q", scale=alt.Scale(domain=[0, 1], range=[0.15, 1]), legend=None),
            tooltip=[
                alt.Tooltip("pair:N", title="contact"), alt.Tooltip("said:N", title="said in"),
                alt.Tooltip("start_s:Q", title="from, s"), alt.Tooltip("stop_s:Q", title="until, s"),
                alt.Tooltip("rate:N", title="Mbit/s"), alt.Tooltip("likely:Q", title="likely"),
            ],
        )
    ]  # fmt: skip
    if dark:
        layers.append(
            alt.Chart(inline_csv(pl.DataFrame(dark), digits=12))
            .mark_bar(color=RED, height=alt.RelativeBandSize(0.25), clip=True)
            .encode(x=_time(found), x2="stop_s:Q", y=y)
        )
    width = WIDTH - 60 - min(260, 7 * max(map(len, names)))
    chart = alt.layer(*layers).properties(width=width, height=alt.Step(24 if len(names) <= 30 else 14))
    caption = "When who can send to whom; both directions are one row where they have the same times."
    if any(bar["likely"] < 1 for bar in bars):
        caption += " Paler: less than certain."
    if dark:
        caption += " Red: no range says how far apart they are, so the contact is not used."
    if len(bars) < total:
        shown = f"{len(bars):,} of {total:,} contacts in {len(names)} of {len(rows):,} rows"
        caption += f" {shown}: those that change most often."
    return Figure("contacts", "Contacts over time", caption, chart, len(bars))


def _rows(found: Found) -> dict[str, tuple[list[dict[str, Any]], list[tuple[int, int, int]]]]:
    """Contacts and ranges by row: a direction, or both where they have the same times."""
    pairs = by_pair(found)

    def times(pair: tuple[str, str]) -> list[tuple[Any, ...]]:
        held = [(start, stop) for start, stop, _ in found.ranges.get(pair, [])]
        return [*((one["start_ns"], one["stop_ns"], one["confidence"]) for one in pairs.get(pair, [])), *held]

    rows: dict[str, tuple[list[dict[str, Any]], list[tuple[int, int, int]]]] = {}
    for (a, b), of in pairs.items():
        both = times((a, b)) == times((b, a))
        if both and f"{b} and {a}" in rows:
            continue
        back = pairs[b, a] if both else of
        told = [
            dict(one) | {"rates": _rates(one["rate_bit_s"], other["rate_bit_s"])}
            for one, other in zip(of, back, strict=True)
        ]
        rows[f"{a} and {b}" if both else f"{a} to {b}"] = (told, found.ranges.get((a, b), []))
    return rows


def _rates(forth: int, back: int) -> str:
    return f"{forth / 1e6:.9g}" if forth == back else f"{forth / 1e6:.9g} and back {back / 1e6:.9g}"


def _unknown(start: int, stop: int, ranges: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    gaps: list[tuple[int, int]] = []
    at = start
    for begin, end, _ in ranges:
        if begin >= stop:
            break
        if begin > at:
            gaps.append((at, begin))
        at = max(at, end)
    return [*gaps, (at, stop)] if at < stop else gaps


def _light(found: Found) -> Figure | None:
    """Light times as steps; both directions of a pair are one line where they are the same."""
    start, stop = ends(found)
    lines: dict[str, list[tuple[int, int, int]]] = {}
    for (a, b), held in found.ranges.items():
        if held and found.ranges.get((b, a)) == held:
            both = f"{b} and {a}"
            if both not in lines:
                lines[f"{a} and {b}"] = held
        elif held:
            lines[f"{a} to {b}"] = held
    changing = {name: held for name, held in lines.items() if len({owlt for _, _, owlt in held}) > 1}
    names = [*changing, *(name for name in lines if name not in changing)][:LINES]
    if len({owlt for name in names for _, _, owlt in lines[name]}) < 2:
        return None
    rows = [
        {"pair": name, "piece": f"{name} {number}", "start_s": at / 1e9, "ms": owlt / 1e6}
        for name in names
        for number, (begin, end, owlt) in enumerate(_joined(lines[name]))
        for at in (max(begin, start), min(end, stop))
        if begin < stop and end > start
    ]
    chart = (
        alt.Chart(inline_csv(pl.DataFrame(rows), digits=12))
        .mark_line(strokeWidth=2.5, clip=True)
        .encode(
            x=_time(found),
            y=alt.Y("ms:Q", title="one-way light time, ms", scale=alt.Scale(zero=True)),
            color=colour(names, "pair").legend(title=None, columns=4)
            if len(names) > 1
            else colour(names, "pair"),
            detail="piece:N",
        )
        .properties(width=WIDTH - 80, height=220)
    )
    more = f" {len(names)} of {len(lines)} pairs." if len(names) < len(lines) else ""
    return Figure(
        "light",
        "Light times",
        f"How long light takes one way, a line each time a range says so.{more}",
        chart,
        len(rows),
    )


def _joined(held: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Ranges that follow each other with one light time as one."""
    joined: list[tuple[int, int, int]] = []
    for begin, end, owlt in held:
        if joined and joined[-1][1] == begin and joined[-1][2] == owlt:
            joined[-1] = (joined[-1][0], end, owlt)
        else:
            joined.append((begin, end, owlt))
    return joined
