"""Figures of a contact plan: contacts and light times over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.dtn.summary import by_pair, ends
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, RED, WIDTH, colour, inline_csv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.dtn.contact_plan import CheckedPlan

__all__ = ["KEYS", "figures"]

KEYS = ("contacts", "light")
"""Keys of all possible figures."""

PAIRS = 60
"""Maximum rows of the chart; the most frequently changing pairs have priority."""

BARS = 4000
"""Maximum number of drawn contacts."""

LINES = 8
"""Maximum number of lines of light times: the number of colours."""

MAX_MEMBERS = 4
"""Maximum number of pairs in the label of a line."""


def figures(plan: CheckedPlan) -> list[Figure]:
    """Return the figure of the contacts, and that of the light times where they change or differ."""
    if not plan.spec["contacts"]:
        return []
    charts = [_contacts(plan)]
    light_times = _light(plan)
    return [*charts, light_times] if light_times is not None else charts


def _time(plan: CheckedPlan) -> alt.X:
    start, stop = ends(plan)
    scale = alt.Scale(nice=False, domain=[start / 1e9, stop / 1e9])
    return alt.X(
        "start_s:Q", title="time, s", scale=scale, axis=alt.Axis(labelOverlap="greedy", labelSeparation=8)
    )


def _contacts(plan: CheckedPlan) -> Figure:
    rows = _rows(plan)
    start, stop = ends(plan)
    # permanent contacts come last
    permanent = {
        name: [(contact["start_ns"], contact["stop_ns"]) for contact in contacts] == [(start, stop)]
        for name, (contacts, _) in rows.items()
    }
    selected = set(sorted(rows, key=lambda name: (permanent[name], -len(rows[name][0])))[:PAIRS])
    bars: list[dict[str, Any]] = []
    gaps_drawn: list[dict[str, Any]] = []
    for name, (contacts, ranges) in rows.items():
        if name not in selected:
            continue
        for contact in contacts:
            bars.append(
                {"pair": name, "start_s": contact["start_ns"] / 1e9, "stop_s": contact["stop_ns"] / 1e9,
                 "rate": contact["rates"], "confidence": contact["confidence"], "source": contact["declared_at"]}
            )  # fmt: skip
            gaps = _range_gaps(contact["start_ns"], contact["stop_ns"], ranges)
            gaps_drawn += [{"pair": name, "start_s": begin / 1e9, "stop_s": end / 1e9} for begin, end in gaps]
    total = sum(len(contacts) for contacts, _ in rows.values())
    bars, gaps_drawn = bars[:BARS], gaps_drawn[:BARS]
    names = list(dict.fromkeys(bar["pair"] for bar in bars))
    y = alt.Y("pair:N", sort=names, title=None, axis=alt.Axis(labelLimit=260, grid=True))
    layers = [
        alt.Chart(inline_csv(pl.DataFrame(bars), digits=12))
        .mark_bar(color=BLUE, height=alt.RelativeBandSize(0.6), clip=True)
        .encode(
            x=_time(plan), x2="stop_s:Q", y=y,
            opacity=alt.Opacity("confidence:Q", scale=alt.Scale(domain=[0, 1], range=[0.15, 1]), legend=None),
            tooltip=[
                alt.Tooltip("pair:N", title="contact"), alt.Tooltip("source:N", title="source"),
                alt.Tooltip("start_s:Q", title="start, s"), alt.Tooltip("stop_s:Q", title="end, s"),
                alt.Tooltip("rate:N", title="Mbit/s"), "confidence:Q",
            ],
        )
    ]  # fmt: skip
    if gaps_drawn:
        layers.append(
            alt.Chart(inline_csv(pl.DataFrame(gaps_drawn), digits=12))
            .mark_bar(color=RED, height=alt.RelativeBandSize(0.25), clip=True)
            .encode(x=_time(plan), x2="stop_s:Q", y=y)
        )
    width = WIDTH - 60 - min(260, 7 * max(map(len, names)))
    chart = alt.layer(*layers).properties(width=width, height=alt.Step(24 if len(names) <= 30 else 14))
    caption = "Contacts of each pair of nodes. Directions with equal times share a row."
    if any(bar["confidence"] < 1 for bar in bars):
        caption += " Pale bars: confidence below 1."
    if gaps_drawn:
        caption += " Red: unused, because the plan has no range."
    if len(bars) < total:
        shown = f"{len(bars):,} of {total:,} contacts in {len(names)} of {len(rows):,} rows"
        caption += f" The figure shows the most variable {shown}."
    return Figure("contacts", "Contacts over time", caption, chart, len(bars))


def _rows(plan: CheckedPlan) -> dict[str, tuple[list[dict[str, Any]], list[tuple[int, int, int]]]]:
    """Return contacts and ranges by row: a direction, or both directions with equal times."""
    pairs = by_pair(plan)

    def times(pair: tuple[str, str]) -> list[tuple[Any, ...]]:
        ranges = [(start, stop) for start, stop, _ in plan.ranges.get(pair, [])]
        return [
            *(
                (contact["start_ns"], contact["stop_ns"], contact["confidence"])
                for contact in pairs.get(pair, [])
            ),
            *ranges,
        ]

    rows: dict[str, tuple[list[dict[str, Any]], list[tuple[int, int, int]]]] = {}
    for (a, b), contacts in pairs.items():
        is_symmetric = times((a, b)) == times((b, a))
        if is_symmetric and f"{b} and {a}" in rows:
            continue
        return_contacts = pairs[b, a] if is_symmetric else contacts
        entries = [
            dict(contact) | {"rates": _rates(contact["rate_bit_s"], return_contact["rate_bit_s"])}
            for contact, return_contact in zip(contacts, return_contacts, strict=True)
        ]
        rows[f"{a} and {b}" if is_symmetric else f"{a} to {b}"] = (entries, plan.ranges.get((a, b), []))
    return rows


def _rates(rate: int, return_rate: int) -> str:
    return (
        f"{rate / 1e6:.9g}" if rate == return_rate else f"{rate / 1e6:.9g} (reverse {return_rate / 1e6:.9g})"
    )


def _range_gaps(start: int, stop: int, ranges: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    gaps: list[tuple[int, int]] = []
    covered_until = start
    for begin, end, _ in ranges:
        if begin >= stop:
            break
        if begin > covered_until:
            gaps.append((covered_until, begin))
        covered_until = max(covered_until, end)
    return [*gaps, (covered_until, stop)] if covered_until < stop else gaps


def _light(plan: CheckedPlan) -> Figure | None:
    """Return the figure of light times; both directions of a pair are one line where they are equal."""
    start, stop = ends(plan)
    pairs: dict[str, list[tuple[int, int, int]]] = {}
    for (a, b), ranges in plan.ranges.items():
        if ranges and plan.ranges.get((b, a)) == ranges:
            pair_name = f"{b} and {a}"
            if pair_name not in pairs:
                pairs[f"{a} and {b}"] = ranges
        elif ranges:
            pairs[f"{a} to {b}"] = ranges
    lines = _group_pairs(pairs)
    variable = {name: ranges for name, ranges in lines.items() if len({owlt for _, _, owlt in ranges}) > 1}
    names = [*variable, *(name for name in lines if name not in variable)][:LINES]
    if len({owlt for name in names for _, _, owlt in lines[name]}) < 2:
        return None
    rows: list[dict[str, Any]] = [
        {"pair": name, "piece": f"{name} {number}", "start_s": time / 1e9, "ms": owlt / 1e6}
        for name in names
        for number, (begin, end, owlt) in enumerate(_merge_ranges(lines[name]))
        for time in (max(begin, start), min(end, stop))
        if begin < stop and end > start
    ]
    highest = max(row["ms"] for row in rows)
    step = 3.5 if len(names) <= 4 else 1.5
    frame = pl.DataFrame(rows)
    y = alt.Y(
        "ms:Q",
        title="one-way light time, ms",
        scale=alt.Scale(domain=[0, highest * 1.06], nice=False),
    )
    shade = colour(names, "pair")
    shade = (
        shade.legend(title=None, columns=2, symbolType="stroke", symbolSize=150) if len(names) > 1 else shade
    )
    # A later line is narrower, so that it does not cover an earlier one of equal light time.
    layers = [
        alt.Chart(inline_csv(frame.filter(pair=name), digits=12))
        .mark_line(clip=True, strokeCap="butt", strokeWidth=2.5 + step * (len(names) - 1 - index))
        .encode(x=_time(plan), y=y, color=shade, detail="piece:N")
        for index, name in enumerate(names)
    ]
    chart = alt.layer(*layers).properties(width=WIDTH - 80, height=220)
    rest = f" The figure shows {len(names)} of {len(lines)} light times." if len(names) < len(lines) else ""
    return Figure(
        "light",
        "One-way light time",
        f"One-way light time by the ranges of the plan.{rest}",
        chart,
        len(rows),
    )


def _group_pairs(
    pairs: Mapping[str, list[tuple[int, int, int]]],
) -> dict[str, list[tuple[int, int, int]]]:
    """Return the ranges of pairs; pairs with equal ranges are one entry with all their names."""
    groups: dict[tuple[tuple[int, int, int], ...], list[str]] = {}
    for name, ranges in pairs.items():
        groups.setdefault(tuple(ranges), []).append(name)
    result = {}
    for equal, members in groups.items():
        extra = len(members) - MAX_MEMBERS
        label = ", ".join(members[:MAX_MEMBERS]) + (f" and {extra} more" if extra > 0 else "")
        result[label] = list(equal)
    return result


def _merge_ranges(ranges: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Merge successive ranges with equal light times."""
    merged: list[tuple[int, int, int]] = []
    for begin, end, owlt in ranges:
        if merged and merged[-1][1] == begin and merged[-1][2] == owlt:
            merged[-1] = (merged[-1][0], end, owlt)
        else:
            merged.append((begin, end, owlt))
    return merged
