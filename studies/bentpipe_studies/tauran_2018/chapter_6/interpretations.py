"""Interpretations of ambiguities in chapter 6, ranked by the agreement with its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.verdicts import Quantity
from bentpipe_studies.study import Row
from bentpipe_studies.tauran_2018.chapter_6.cells import INTERPRETATIONS

__all__ = ["Score", "nearest", "nearest_text", "scores", "side_by_side", "table"]

GROUPS = {
    "6.4, 10 and 20 users": ("6.4 mean", ("10 users", "20 users"), ""),
    "6.4, 40 to 100": ("6.4 mean", ("40 users", "60 users", "80 users", "100 users"), ""),
    "6.5, 10 and 20 users, by TCP": ("6.5 mean", ("10 users", "20 users"), ", by TCP"),
    "6.5, 40 to 100, by TCP": ("6.5 mean", ("40 users", "60 users", "80 users", "100 users"), ", by TCP"),
    "6.5, 10 and 20 users, by link": ("6.5 mean", ("10 users", "20 users"), ", by link"),
    "6.5, 40 to 100, by link": ("6.5 mean", ("40 users", "60 users", "80 users", "100 users"), ", by link"),
    "packet time": ("packet time", ("",), ""),
    "6.3": ("6.3", ("",), ""),
    "6.3, given up": ("6.3 given up", ("",), ""),
    "loss of 75 calls, DT_S": ("loss DT_S", ("",), ""),
    "useful load": ("useful", ("",), ""),
}
"""Row ids, parts of their text, and the suffix of the interpretation."""


@dataclass(frozen=True)
class Score:
    """Difference of published and measured in one group of numbers under one interpretation."""

    scale: float
    """Exponential of the root mean square of the logarithms' differences."""
    within: int
    count: int


Scores = dict[str, dict[str, Score]]
"""Scores by interpretation and group of numbers."""


def _score(quantities: Sequence[Quantity]) -> Score | None:
    found = [(one, one.interval) for one in quantities]
    pairs = [
        (one, interval.estimate) for one, interval in found if interval is not None and interval.estimate > 0
    ]
    if not pairs:
        return None
    squares = [math.log(mean / one.published) ** 2 for one, mean in pairs]
    within = sum(_inside(one, mean) for one, mean in pairs)
    return Score(math.exp(math.sqrt(math.fsum(squares) / len(squares))), within, len(pairs))


def _inside(one: Quantity, mean: float) -> bool:
    low, high = one.tolerance.around(one.published) if one.tolerance else (one.published, one.published)
    return low <= mean <= high


def scores(rows: Sequence[Row]) -> Scores:
    """Return scores by interpretation and group of what has run; each buffer has its own group."""
    found: Scores = {}
    for interpretation in INTERPRETATIONS:
        for group, (identifier, texts, suffix) in GROUPS.items():
            quantities = [
                quantity
                for row in rows
                if row.id == identifier
                and row.interpretation == f"{interpretation}{suffix}"
                and any(f" {text}," in row.label or not text for text in texts)
                for quantity in row.quantities
            ]
            if (score := _score(quantities)) is not None:
                found.setdefault(str(interpretation), {})[group] = score
    return found


def table(found: Scores) -> tuple[TextTable, ...]:
    """Return the factor between published and measured, and the numbers within tolerance, by interpretation."""
    lines = []
    for interpretation, groups in found.items():
        line = {"interpretation": interpretation}
        for group in GROUPS:
            one = groups.get(group)
            line[group] = f"{format_significant(one.scale, 3)} ({one.within}/{one.count})" if one else "–"
        lines.append(line)
    title = (
        "Interpretations of chapter 6: factor between published and measured (1: equal; root mean "
        "square of the logarithms), and number of values within tolerance"
    )
    return (TextTable(title, tuple(lines)),) if lines else ()


def side_by_side(rows: Sequence[Row]) -> tuple[TextTable, ...]:
    """Return means of tables 6.4 and 6.5 and other numbers, a line for each interpretation and policy."""
    tables = []
    for title, identifiers, suffix in (
        ("Table 6.4 by interpretation, means, Mb/s", ("6.4 mean",), ""),
        ("Table 6.5 by interpretation, means, Mb/s, by TCP", ("6.5 mean",), ", by TCP"),
        ("Table 6.5 by interpretation, means, Mb/s, by link", ("6.5 mean",), ", by link"),
        ("Table 6.3 by interpretation, %", ("6.3", "6.3 given up"), ""),
        ("Other numbers of chapter 6 by interpretation", SINGLES, ""),
    ):
        wanted = [row for row in rows if row.id in identifiers and row.interpretation.endswith(suffix)]
        lines: dict[tuple[str, str], dict[str, str]] = {}
        for row in wanted:
            for one in row.quantities:
                column = row.label.removeprefix("mean at ").removesuffix(", Mb/s").removesuffix(", 75 calls")
                first = lines.setdefault(
                    ("published", one.name), {"interpretation": "published", "policy": one.name}
                )
                first[column] = f"{one.published:g}"
                if one.interval is not None:
                    key = row.interpretation, one.name
                    line = lines.setdefault(
                        key, {"interpretation": row.interpretation.removesuffix(suffix), "policy": one.name}
                    )
                    line[column] = format_significant(one.interval.estimate, 3)
        columns = list(dict.fromkeys(column for line in lines.values() for column in line))
        full = [{column: line.get(column, "–") for column in columns} for line in _ordered(lines)]
        if len({line["interpretation"] for line in full}) > 1:
            tables.append(TextTable(title, tuple(full)))
    return tuple(tables)


SINGLES = (
    "loss DT_S", "loss PF", "useful", "coded", "carried", "19 users", "total", "saturated", "packet time",
    "delivery time",
)  # fmt: skip


def _ordered(lines: dict[tuple[str, str], dict[str, str]]) -> list[dict[str, str]]:
    """Return the lines by policy, published first, so that compared values are adjacent."""
    policies = list(dict.fromkeys(policy for _, policy in lines))
    return [line for policy in policies for (_, one), line in lines.items() if one == policy]


def nearest_text(found: Scores) -> tuple[str, ...]:
    """Return the nearest interpretation, by group and over all groups that every interpretation has."""
    if len(found) < 2:
        return ()
    closest = {
        group: min(
            (interpretation for interpretation, groups in found.items() if group in groups),
            key=lambda interpretation: found[interpretation][group].scale,
        )
        for group in GROUPS
        if sum(group in groups for groups in found.values()) > 1
    }
    by_group = [f"{group}: {interpretation}" for group, interpretation in closest.items()]
    text = "Nearest interpretation by group of numbers: " + "; ".join(by_group) + "."
    whole = _whole(found)
    lines = [text]
    if len(whole) < len(found):
        lines.append(f"Nearest over the groups of all interpretations: {_ranks(found)}.")
    if _shared(whole):
        of = "all" if len(whole) == len(found) else "those with the most groups"
        lines.append(f"Nearest over all groups, of {of}: {_ranks(whole)}.")
    return tuple(lines)


def _ranks(found: Scores) -> str:
    """Return the three nearest."""
    ranks = []
    for interpretation in _order(found)[:3]:
        groups = [found[interpretation][group] for group in _shared(found)]
        within, count = sum(one.within for one in groups), sum(one.count for one in groups)
        factor = format_significant(math.exp(_apart(found, interpretation)), 3)
        ranks.append(f"{interpretation} (factor {factor}, {within} of {count} within tolerance)")
    return "; ".join(ranks)


def nearest(found: Scores) -> str:
    """Return the nearest interpretation, of those with most of the numbers."""
    whole = _whole(found)
    return _order(whole)[0] if len(whole) > 1 and _shared(whole) else ""


def _whole(found: Scores) -> Scores:
    """Return the interpretations with the most groups of numbers: delayed ACKs do not affect calls."""
    most = max((len(groups) for groups in found.values()), default=0)
    return {interpretation: groups for interpretation, groups in found.items() if len(groups) == most}


def _shared(found: Scores) -> list[str]:
    """Return the groups of numbers that every interpretation has."""
    return [group for group in GROUPS if found and all(group in groups for groups in found.values())]


def _apart(found: Scores, interpretation: str) -> float:
    """Return the mean over groups of the factors' logarithms."""
    shared = _shared(found)
    return math.fsum(math.log(found[interpretation][group].scale) for group in shared) / len(shared)


def _order(found: Scores) -> list[str]:
    return (
        sorted(found, key=lambda interpretation: _apart(found, interpretation))
        if _shared(found)
        else list(found)
    )
