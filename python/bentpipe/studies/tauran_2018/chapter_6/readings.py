"""Which reading of what chapter 6 leaves open its numbers support: counted and measured, not chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bentpipe.stats.intervals import significant
from bentpipe.stats.wording import Table
from bentpipe.studies.study import Row
from bentpipe.studies.tauran_2018.chapter_6.cells import READINGS
from bentpipe.studies.verdicts import Quantity

__all__ = ["Score", "said", "scores", "table"]

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
"""Rows, parts of their text, and what stands behind the reading."""


@dataclass(frozen=True)
class Score:
    """How far published and measured are apart in one group of numbers of one reading."""

    factor: float
    """exp of the root of the mean square of their logarithms' difference."""
    within: int
    count: int


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


def scores(rows: Sequence[Row]) -> dict[str, dict[str, Score]]:
    """By reading and group, the best buffer's in the column of its own; only what has run."""
    found: dict[str, dict[str, Score]] = {}
    for reading in READINGS:
        for group, (identifier, texts, suffix) in GROUPS.items():
            quantities = [
                quantity
                for row in rows
                if row.id == identifier
                and row.reading == f"{reading}{suffix}"
                and any(f" {text}," in row.what or not text for text in texts)
                for quantity in row.quantities
            ]
            if (score := _score(quantities)) is not None:
                found.setdefault(str(reading), {})[group] = score
    return found


def table(found: dict[str, dict[str, Score]]) -> tuple[Table, ...]:
    """A line a reading: the factor between published and measured, and how many numbers are within their tolerance."""
    lines = []
    for reading, groups in found.items():
        line = {"reading": reading}
        for group in GROUPS:
            one = groups.get(group)
            line[group] = f"{significant(one.factor, 3)} ({one.within}/{one.count})" if one else "–"
        lines.append(line)
    title = (
        "Readings of chapter 6: factor between published and measured (1 is equal; means of logarithms' squares), and "
        "how many numbers are within their tolerance"
    )
    return (Table(title, tuple(lines)),) if lines else ()


def said(found: dict[str, dict[str, Score]]) -> tuple[str, ...]:
    """Which reading is nearest, by group and over all groups that every reading has."""
    if len(found) < 2:
        return ()
    shared = [group for group in GROUPS if all(group in groups for groups in found.values())]
    nearest = {
        group: min(
            (reading for reading, groups in found.items() if group in groups),
            key=lambda reading: found[reading][group].factor,
        )
        for group in GROUPS
        if sum(group in groups for groups in found.values()) > 1
    }
    lines = [f"{group}: {reading}" for group, reading in nearest.items()]
    text = "Nearest reading by group of numbers: " + "; ".join(lines) + "."
    if not shared:
        return (text,)

    def apart(reading: str) -> float:
        return math.fsum(math.log(found[reading][group].factor) for group in shared) / len(shared)

    def inside(reading: str) -> tuple[int, int]:
        groups = [found[reading][group] for group in shared]
        return sum(one.within for one in groups), sum(one.count for one in groups)

    order = sorted(found, key=apart)
    ranks = [
        f"{reading} (factor {significant(math.exp(apart(reading)), 3)}, {inside(reading)[0]} of {inside(reading)[1]} "
        "within tolerance)"
        for reading in order[:3]
    ]
    return (text, f"Nearest over the groups that all readings have: {'; '.join(ranks)}.")
