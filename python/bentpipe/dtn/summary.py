"""Summary of a contact plan: durations, gaps and volumes by pair, and warnings with their lines."""

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

    from bentpipe.dtn.contact_plan import CheckedPlan

__all__ = ["by_pair", "ends", "headline", "instant", "nodes", "rank", "summarise", "warning_lines"]

MAX_ROWS = 40
"""Maximum number of printed pairs and warnings."""


def rank(name: str) -> tuple[bool, int, str]:
    """Return a sort key of nodes: numbers first, in numeric order."""
    digits = name.removeprefix("ipn:").removesuffix(".0")
    if digits.isascii() and digits.isdigit():
        return False, int(digits), name
    return True, 0, re.sub(r"\d+", lambda number: number[0].zfill(9), name)


def by_pair(plan: CheckedPlan) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Return the contacts of each pair in order of time; pairs in order of their nodes."""
    pairs: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for contact in plan.spec["contacts"]:
        pairs[contact["from"], contact["to"]].append(contact)
    for contacts in pairs.values():
        contacts.sort(key=lambda contact: int(contact["start_ns"]))
    return {pair: pairs[pair] for pair in sorted(pairs, key=lambda pair: (rank(pair[0]), rank(pair[1])))}


def nodes(plan: CheckedPlan) -> list[str]:
    """Return the names of all nodes, in order."""
    connected = {name for contact in plan.spec["contacts"] for name in (contact["from"], contact["to"])}
    return sorted(connected | set(plan.spec.get("nodes", ())), key=rank)


def ends(plan: CheckedPlan) -> tuple[int, int]:
    """Return the begin of the first contact and the end of the last one in ns; 0 without contacts."""
    contacts = plan.spec["contacts"]
    starts, stops = ([contact[key] for contact in contacts] for key in ("start_ns", "stop_ns"))
    return min(starts, default=0), max(stops, default=0)


def instant(plan: CheckedPlan, ns: int) -> str | None:
    """Return an instant as UTC text; None: the plan has no epoch."""
    epoch = plan.spec.get("epoch_unix_s")
    if epoch is None:
        return None
    try:
        time = datetime.fromtimestamp(epoch, tz=UTC) + timedelta(microseconds=ns // 1000)
    except (OverflowError, OSError, ValueError):
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def summarise(plan: CheckedPlan) -> CommandOutput:
    """Return the summary as data and as text."""
    pairs = by_pair(plan)
    start, stop = ends(plan)
    rows = [
        _row(pair, pair_contacts, plan.ranges.get(pair, []), stop - start)
        for pair, pair_contacts in pairs.items()
    ]
    epoch = instant(plan, 0)
    data: dict[str, Any] = {
        "plan": plan.name,
        "title": plan.title,
        "epoch": epoch,
        "nodes": nodes(plan),
        "contacts": len(plan.spec["contacts"]),
        "start_s": start / 1e9,
        "stop_s": stop / 1e9,
        "pairs": rows,
        "static_routes": [{"at": node, "to": to, "via": via} for node, to, via in plan.statics],
        "warnings": [{"at": list(warning.at), "text": warning.text} for warning in plan.warnings],
    }
    interval = f"{start / 1e9:.9g} s to {stop / 1e9:.9g} s"
    head = (
        f"{plan.title or plan.name}: {len(data['nodes'])} nodes, {len(plan.spec['contacts']):,} contacts of "
    )
    head += f"{len(rows):,} pairs, {interval}" + (f" after {epoch}" if epoch else "")
    columns = [_printed_row(row) for row in rows[:MAX_ROWS]]
    shown: list[str | TextTable] = [head]
    if rows:
        shown += ["", TextTable(f"Contacts by pair{_extent_note(rows)}", columns)]
    if plan.statics:
        hops = [
            {"at": node, "destination": to or "all others", "next hop": via} for node, to, via in plan.statics
        ]
        shown += ["", TextTable("Static routes", hops)]
    return CommandOutput(data, (*shown, *warning_lines(plan)))


def warning_lines(plan: CheckedPlan) -> list[str]:
    """Return the warnings of a plan as lines, after an empty one."""
    if not plan.warnings:
        return []
    lines = [f"warning: {warning}" for warning in plan.warnings[:MAX_ROWS]]
    extra = len(plan.warnings) - MAX_ROWS
    return ["", *lines, *([f"warning: and {extra:,} more (--json has all)"] if extra > 0 else [])]


def headline(summary: CommandOutput) -> Headline:
    """Return the headline: availability of pairs, longest gap, and contents of the plan."""
    rows = summary.data["pairs"]
    if not rows:
        return Headline("The plan has no contact between two nodes.", f"{summary.shown[0]}.")
    shares = sorted(min(100.0, 100 * row["up"]) for row in rows)
    lower, upper = (format_significant(share, 3) for share in (shares[0], shares[-1]))
    subject = "The pair is" if len(rows) == 1 else "Every pair is" if lower == upper else "Pairs are"
    text = f"{subject} connected for {lower}{'' if lower == upper else f' to {upper}'} % of the time"
    gapped = [row for row in rows if row["longest_gap_s"]]
    if gapped:
        longest = max(gapped, key=lambda row: float(row["longest_gap_s"]))
        gap = format_significant(longest["longest_gap_s"], 3)
        text += f"; the longest gap between two contacts is {gap} s, {longest['from']} to {longest['to']}"
    volumes = sorted(row["volume_bytes"] / 1e6 for row in rows)
    least, most = (
        f"{one:,.0f}" if one >= 100 else format_significant(one, 3) for one in (volumes[0], volumes[-1])
    )
    volume = f"contact volume of a direction {least}{'' if least == most else f' to {most}'} MB"
    warnings = len(summary.data["warnings"])
    noted = f"; {warnings:,} warning{'s' * (warnings != 1)}" if warnings else ""
    return Headline(f"{text}.", f"{summary.shown[0]}; {volume}{noted}.")


def _row(
    pair: tuple[str, str],
    contacts: Sequence[Mapping[str, Any]],
    ranges: Sequence[tuple[int, int, int]],
    total_ns: int,
) -> dict[str, Any]:
    up_ns = sum(contact["stop_ns"] - contact["start_ns"] for contact in contacts)
    gaps = [later["start_ns"] - earlier["stop_ns"] for earlier, later in pairwise(contacts)]
    rates = [contact["rate_bit_s"] for contact in contacts]
    light_times = [owlt for _, _, owlt in ranges]
    return {
        "from": pair[0],
        "to": pair[1],
        "contacts": len(contacts),
        "first_s": contacts[0]["start_ns"] / 1e9,
        "last_s": contacts[-1]["stop_ns"] / 1e9,
        "up_s": up_ns / 1e9,
        "up": up_ns / total_ns,
        "longest_gap_s": max(gaps) / 1e9 if gaps else None,
        "volume_bytes": sum(
            (contact["stop_ns"] - contact["start_ns"]) * contact["rate_bit_s"] // (8 * 10**9)
            for contact in contacts
        ),
        "rate_bit_s": [min(rates), max(rates)],
        "owlt_s": [min(light_times) / 1e9, max(light_times) / 1e9] if light_times else None,
    }


def _printed_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "from": row["from"], "to": row["to"], "contacts": row["contacts"], "first start, s": row["first_s"],
        "last end, s": row["last_s"], "connected, s": row["up_s"], "connected, %": 100 * row["up"],
        "longest gap, s": row["longest_gap_s"], "volume, MB": row["volume_bytes"] / 1e6,
        "rate, Mbit/s": _spread(row["rate_bit_s"], 1e6), "one-way light time, ms": _spread(row["owlt_s"], 1e-3),
    }  # fmt: skip


def _spread(values: Sequence[float] | None, unit: float) -> str | None:
    if not values:
        return None
    low, high = (f"{value / unit:.6g}" for value in values)
    return low if low == high else f"{low} to {high}"


def _extent_note(rows: Sequence[Any]) -> str:
    return f" (the first {MAX_ROWS} of {len(rows):,}; --json has all)" if len(rows) > MAX_ROWS else ""
