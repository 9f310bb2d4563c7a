"""What there is to say of a contact plan: by pair, how long and how much; remarks with their lines."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import CommandOutput, TextTable
from bentpipe.metrics.intervals import format_significant
from bentpipe.report.headline import Headline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.dtn.contact_plan import Found

__all__ = ["by_pair", "ends", "instant", "nodes", "opening", "rank", "summarise"]

SHOWN = 40
"""Pairs, and remarks, that are printed."""


def rank(name: str) -> tuple[bool, int, str]:
    """Puts nodes in order: numbers first, numbers as numbers."""
    digits = name.removeprefix("ipn:").removesuffix(".0")
    if digits.isascii() and digits.isdigit():
        return False, int(digits), name
    return True, 0, re.sub(r"\d+", lambda number: number[0].zfill(9), name)


def by_pair(found: Found) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Contacts of each pair, in order of time; pairs in order of their nodes."""
    pairs: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for one in found.spec["contacts"]:
        pairs[one["from"], one["to"]].append(one)
    for of in pairs.values():
        of.sort(key=lambda one: int(one["start_ns"]))
    return {pair: pairs[pair] for pair in sorted(pairs, key=lambda pair: (rank(pair[0]), rank(pair[1])))}


def nodes(found: Found) -> list[str]:
    """All that are named, in order."""
    named = {name for one in found.spec["contacts"] for name in (one["from"], one["to"])}
    return sorted(named | set(found.spec.get("nodes", ())), key=rank)


def ends(found: Found) -> tuple[int, int]:
    """When the first contact begins and the last one ends, ns; 0 without contacts."""
    contacts = found.spec["contacts"]
    starts, stops = ([one[key] for one in contacts] for key in ("start_ns", "stop_ns"))
    return min(starts, default=0), max(stops, default=0)


def instant(found: Found, ns: int) -> str | None:
    """An instant of UTC, where the plan knows what its zero is."""
    epoch = found.spec.get("epoch_unix_s")
    if epoch is None:
        return None
    try:
        when = datetime.fromtimestamp(epoch, tz=UTC) + timedelta(microseconds=ns // 1000)
    except (OverflowError, OSError, ValueError):
        return None
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def summarise(found: Found) -> CommandOutput:
    """As data, and as text for people."""
    pairs = by_pair(found)
    start, stop = ends(found)
    rows = [_row(pair, of, found.ranges.get(pair, []), stop - start) for pair, of in pairs.items()]
    zero = instant(found, 0)
    data: dict[str, Any] = {
        "plan": found.name,
        "title": found.title,
        "epoch": zero,
        "nodes": nodes(found),
        "contacts": len(found.spec["contacts"]),
        "start_s": start / 1e9,
        "stop_s": stop / 1e9,
        "pairs": rows,
        "static_routes": [{"at": at, "to": to, "via": via} for at, to, via in found.statics],
        "remarks": [{"at": list(one.at), "text": one.text} for one in found.remarks],
    }
    when = f"{start / 1e9:.9g} s to {stop / 1e9:.9g} s"
    head = f"{found.title or found.name}: {len(data['nodes'])} nodes, {len(found.spec['contacts']):,} contacts of "
    head += f"{len(rows):,} pairs, {when}" + (f" after {zero}" if zero else "")
    columns = [_shown(row) for row in rows[:SHOWN]]
    shown: list[str | TextTable] = [head]
    if rows:
        shown += ["", TextTable(f"Contacts by pair{_first(rows)}", columns)]
    if found.statics:
        hops = [{"at": at, "bundles to": to or "any other", "go to": via} for at, to, via in found.statics]
        shown += ["", TextTable("Next hops set by hand", hops)]
    if found.remarks:
        shown.append("")
        shown += [f"note: {one}" for one in found.remarks[:SHOWN]]
        if len(found.remarks) > SHOWN:
            shown.append(f"note: and {len(found.remarks) - SHOWN:,} more (--json has all)")
    return CommandOutput(data, tuple(shown))


def opening(said: CommandOutput) -> Headline:
    """How often pairs can talk and how long they wait for it; what the plan has."""
    rows = said.data["pairs"]
    if not rows:
        return Headline("No node can send to another one.", f"{said.shown[0]}.")
    shares = sorted(min(100.0, 100 * row["up"]) for row in rows)
    least, most = (format_significant(share, 3) for share in (shares[0], shares[-1]))
    who = "The pair is" if len(rows) == 1 else "Every pair is" if least == most else "Pairs are"
    text = f"{who} up for {least}{'' if least == most else f' to {most}'} % of the time"
    waits = [row for row in rows if row["longest_gap_s"]]
    if waits:
        worst = max(waits, key=lambda row: float(row["longest_gap_s"]))
        gap = format_significant(worst["longest_gap_s"], 3)
        text += f"; the longest wait between two contacts is {gap} s, {worst['from']} to {worst['to']}"
    megabytes = sum(row["volume_bytes"] for row in rows) / 1e6
    volume = f"{megabytes:,.0f}" if megabytes >= 100 else format_significant(megabytes, 3)
    remarks = len(said.data["remarks"])
    noted = f"; {remarks:,} remark{'s' * (remarks != 1)} on it" if remarks else ""
    return Headline(f"{text}.", f"{said.shown[0]}; contacts have room for {volume} MB{noted}.")


def _row(
    pair: tuple[str, str], of: Sequence[Mapping[str, Any]], ranges: Sequence[tuple[int, int, int]], whole: int
) -> dict[str, Any]:
    up = sum(one["stop_ns"] - one["start_ns"] for one in of)
    gaps = [b["start_ns"] - a["stop_ns"] for a, b in pairwise(of)]
    rates = [one["rate_bit_s"] for one in of]
    light = [owlt for _, _, owlt in ranges]
    return {
        "from": pair[0],
        "to": pair[1],
        "contacts": len(of),
        "first_s": of[0]["start_ns"] / 1e9,
        "last_s": of[-1]["stop_ns"] / 1e9,
        "up_s": up / 1e9,
        "up": up / whole,
        "longest_gap_s": max(gaps) / 1e9 if gaps else None,
        "volume_bytes": sum(
            (one["stop_ns"] - one["start_ns"]) * one["rate_bit_s"] // (8 * 10**9) for one in of
        ),
        "rate_bit_s": [min(rates), max(rates)],
        "owlt_s": [min(light) / 1e9, max(light) / 1e9] if light else None,
    }


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "from": row["from"], "to": row["to"], "contacts": row["contacts"], "first, s": row["first_s"],
        "until, s": row["last_s"], "up, s": row["up_s"], "up, %": 100 * row["up"],
        "longest gap, s": row["longest_gap_s"], "volume, MB": row["volume_bytes"] / 1e6,
        "rate, Mbit/s": _spread(row["rate_bit_s"], 1e6), "one way, ms": _spread(row["owlt_s"], 1e-3),
    }  # fmt: skip


def _spread(values: Sequence[float] | None, unit: float) -> str | None:
    if not values:
        return None
    low, high = (f"{value / unit:.6g}" for value in values)
    return low if low == high else f"{low} to {high}"


def _first(rows: Sequence[Any]) -> str:
    return f" (the first {SHOWN} of {len(rows):,}; --json has all)" if len(rows) > SHOWN else ""
