"""Text of quantities: numbers with units, exact arithmetic, and suggestions for misspelt units."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation, localcontext
from functools import lru_cache
from pathlib import PurePath

__all__ = [
    "UnitError",
    "format_decimal",
    "format_largest_unit",
    "format_value",
    "nearest",
    "nearest_file",
    "nearest_unit",
    "parse_whole",
    "split_quantity",
    "suggest_unit",
]

_QUANTITY = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*?)?\s*")

_MAX_DIGITS = 40
"""Digits before or after the decimal point: more than any quantity has in its smallest unit."""

_MAX_WHOLE = 2**63 - 1
"""Largest whole number of the engine and of BIGINT in SQL."""


class UnitError(ValueError):
    """Invalid text of a quantity. The caller puts the key before the message."""


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the candidate most similar to ``word``, ignoring case; None if none is similar."""
    by_fold: dict[str, str] = {}
    for candidate in candidates:
        by_fold.setdefault(candidate.casefold(), candidate)
    matches = difflib.get_close_matches(word.casefold(), list(by_fold), n=1, cutoff=cutoff)
    return by_fold[matches[0]] if matches else None


def nearest_file(name: str, candidates: Iterable[str]) -> str | None:
    """Return the file name most similar to ``name`` without their suffixes; None if none is similar."""
    by_stem = {PurePath(candidate).stem: candidate for candidate in candidates}
    stem = nearest(PurePath(name).stem, by_stem, cutoff=0.7)
    return by_stem[stem] if stem is not None else None


def format_decimal(number: Decimal) -> str:
    """Return a decimal without exponent and without trailing zeros."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_value(found: object) -> str:
    """Return a value as a message shows it: text in double quotes, booleans as in TOML."""
    if isinstance(found, str):
        return f'"{found}"'
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found)


def split_quantity(found: object, expected: str) -> tuple[Decimal, str]:
    """Return number and unit of a quantity; the unit is "" if the text has none.

    Args:
        found: the text or number of the scenario.
        expected: the expected quantity, for the message.

    Raises:
        UnitError: no number, or one with too many digits.
    """
    return _split_text(found, expected) if isinstance(found, str) else _split_any(found, expected)


@lru_cache(maxsize=1024)
def _split_text(found: str, expected: str) -> tuple[Decimal, str]:
    """Split a text. The cells of a sweep repeat the same quantities, hence the cache."""
    return _split_any(found, expected)


def _split_any(found: object, expected: str) -> tuple[Decimal, str]:
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        digits, unit = str(found), ""
    else:
        match = _QUANTITY.fullmatch(found) if isinstance(found, str) else None
        if match is None:
            raise UnitError(f"found {format_value(found)}, expected {expected}")
        digits, unit = match[1].replace("_", ""), match[2] or ""
    try:
        number = Decimal(digits)
    except InvalidOperation:  # an exponent of 20 digits
        number = Decimal("1e-1000" if "e-" in digits.casefold() else "1e1000")
    if number and abs(number.adjusted()) > _MAX_DIGITS:
        size = "large" if number.adjusted() > 0 else "small"
        raise UnitError(f"found {format_value(found)}, which is too {size}, expected {expected}")
    return number, unit


def parse_whole(
    found: object,
    units: Mapping[str, Decimal],
    expected: str,
    default_units: str | tuple[str, ...],
    smallest: str,
    foreign: Mapping[str, Decimal] | None = None,
) -> int:
    """Return a quantity as a whole number of its smallest unit.

    Args:
        found: the text or number of the scenario.
        units: the valid units, with their factor to the smallest unit.
        expected: the expected quantity, for messages.
        default_units: the units that a message suggests for a bare number.
        smallest: the smallest unit, for messages.
        foreign: units that are invalid here but that a suggestion converts.

    Raises:
        UnitError: no number, no unit, an unknown unit, below 0, or finer than the smallest unit.
    """
    number, unit = split_quantity(found, expected)
    if unit == "":
        if number == 0:
            return 0
        suggested = (default_units,) if isinstance(default_units, str) else default_units
        message = f"found {format_value(found)} without a unit, expected {expected}"
        if number < 0:
            raise UnitError(message)
        near = " or ".join(f'"{format_decimal(number)} {name}"' for name in suggested)
        raise UnitError(f"{message}; did you mean {near}?")
    factor = units.get(unit)
    if factor is None:
        hint = suggest_unit(number, unit, units, foreign or {})
        raise UnitError(
            f'found {format_value(found)}: no unit "{unit}", expected {expected} (units: {", ".join(units)}){hint}'
        )
    if number < 0:
        raise UnitError(f"found {format_value(found)}, which is negative, expected {expected}")
    with localcontext() as context:
        context.prec = 60
        value = number * factor
        if value != value.to_integral_value():
            raise UnitError(
                f"found {format_value(found)}, which is finer than {smallest}, expected {expected}"
            )
        if value > _MAX_WHOLE:
            raise UnitError(f"found {format_value(found)}, which is too large, expected {expected}")
        return int(value)


def suggest_unit(
    number: Decimal, unit: str, units: Mapping[str, Decimal], foreign: Mapping[str, Decimal]
) -> str:
    """Return the suggestion for an unknown unit, to append to a message; empty without one.

    The suggestion is the same quantity if other tools use the unit (``foreign``), else the nearest spelling.
    """
    spellings = (unit, unit.replace("ps", "/s"), re.sub(r"(?i)(?<=[kMGTi])bytes?", "B", unit))
    factor = next((foreign[word] for word in spellings if word in foreign), None)
    if factor is None:
        near = nearest_unit(unit, units)
        return f'; did you mean "{format_decimal(number)} {near}"?' if near in units else ""
    with localcontext() as context:
        context.prec = 60
        value = number * factor
        if value != value.to_integral_value() or not 0 < value <= _MAX_WHOLE:
            return ""
    same_value = format_largest_unit(int(value), units, _SUGGESTED[next(iter(units))])
    # "3kb" for a size is 375 B by its letters; most writers mean 3 kB
    same_letters = next((name for name in units if name.casefold() == unit), None)
    other = f'"{format_decimal(number)} {same_letters}" or ' if same_letters else ""
    return f'; did you mean {other}"{same_value}"?'


_SUGGESTED = {
    "ns": ("ns", "us", "ms", "s", "min", "h"),
    "bit/s": ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"),
    "B": ("B", "kB", "MB", "GB"),
}
"""Units of a suggestion, by the smallest unit."""


_ALIASES = {
    "mbps": "Mbit/s",
    "kbps": "kbit/s",
    "gbps": "Gbit/s",
    "bps": "bit/s",
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "second": "s",
    "msec": "ms",
    "minutes": "min",
    "m": "min",
    "hours": "h",
    "µs": "us",
    "bytes": "B",
    "octets": "B",
    "percent": "%",
    "pkts": "packets",
    "pkt": "packets",
}
"""Spellings of units in other tools, in lower case."""


def nearest_unit(unit: str, units: Iterable[str]) -> str | None:
    """Return the unit with the nearest spelling, or else the unit of an alias; None without either."""
    return nearest(unit, units) or _ALIASES.get(unit.casefold())


def format_largest_unit(value: int, units: Mapping[str, Decimal], names: Iterable[str]) -> str:
    """Return ``value`` in the largest of ``names`` in which it is at least 1 with at most three decimals.

    Args:
        value: the quantity in its smallest unit.
        units: the factor of each unit.
        names: the candidate units, in ascending order.
    """
    chosen, text = "", ""
    for name in names:
        amount = Decimal(value) / units[name]
        if not text or (abs(amount) >= 1 and amount == round(amount, 3)):
            chosen, text = name, format_decimal(amount)
    return f"{text} {chosen}"
