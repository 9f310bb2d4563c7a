"""Numbers as text, and what there is to say as plain data: a page, a terminal and a document read the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.stats.intervals import Interval, significant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Answer", "Table", "aligned", "bracketed", "humane", "plus_minus"]

Number = Callable[[float], str]
"""How a number is written."""


@dataclass(frozen=True)
class Table:
    """Rows that share their keys, and what stands above them."""

    title: str
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What came out of something that was asked, for whoever prints it."""

    data: Mapping[str, Any]
    """For programs."""
    shown: tuple[str | Table, ...]
    """For people: lines and tables, in order."""
    problems: tuple[str, ...] = ()
    """What went wrong meanwhile, a line each."""
    good: bool = True
    """Whether every run was made, and no bound is exceeded."""


def humane(value: object) -> str:
    """A cell of a table: numbers to four significant digits, nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        if value and (abs(value) >= 1e7 or abs(value) < 1e-3):
            return f"{value:.3e}"
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def two_digits(value: float) -> str:
    """What half of an interval is worth."""
    return significant(value, 2)


def plus_minus(
    mean: float, half: float | None, number: Number = significant, number_of_half: Number = two_digits
) -> str:
    """``5.72 ± 0.11``: a mean and half of its interval; the mean alone without one."""
    return number(mean) if half is None else f"{number(mean)} ± {number_of_half(half)}"


def aligned(
    mean: float, half: float | None, magnitude: Callable[[float], int], most: int | None = None
) -> str:
    """``plus_minus`` with as many decimals as two digits of the half have, at most four more than the mean's magnitude.

    ``magnitude`` is the power of ten of a number; ``most`` decimals are written.
    """
    if half is None:
        return plus_minus(mean, None)
    decimals = max(0, 1 - magnitude(half))
    decimals = min(decimals if most is None else min(most, decimals), max(0, 4 - magnitude(mean)))
    number = f"{{:.{decimals}f}}".format
    return plus_minus(mean, half, number, number)


def bracketed(found: Interval, factor: float = 1.0, digits: int = 4) -> str:
    """``5.72 [5.6, 5.8]``: an estimate and its interval, where there is one."""
    text = significant(found.estimate * factor, digits)
    if found.low is None or found.high is None:
        return text
    return f"{text} [{significant(found.low * factor, digits)}, {significant(found.high * factor, digits)}]"
