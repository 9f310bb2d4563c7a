"""Swept quantities as numbers: columns in base units beside the text of the scenario (``"250 ms"``).

The name is that of the key with the unit as suffix, such as ``path.satellite.delay_s`` (seconds). Suffixes are ``_s``,
``_bit_s``, ``_bytes``, ``_probability`` (0 to 1), ``_bdp``, ``_packets``, and ``_number`` for numbers without a unit.
Radio links also have ``_db``, ``_hz``, ``_baud`` and ``_m_s``, places ``_km`` and ``_deg``. A key with several kinds of
quantity (a queue of
``"1 BDP"`` or ``"417 packets"``) has a column for each; other text has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.scenario.quantities import (
    Angle,
    Distance,
    Duration,
    Probability,
    QueueSize,
    Rate,
    Size,
    UnitError,
)
from bentpipe.scenario.radio_quantities import Decibel, Frequency, Speed, SymbolRate
from bentpipe.scenario.sweep_columns import LABELS

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Axis", "add_numeric_columns", "axes", "text"]


@dataclass(frozen=True)
class Axis:
    """Numbers of one swept key in one unit.

    Args:
        key: key of the sweep.
        unit: suffix of the column.
        values: numbers by their text.
    """

    key: str
    unit: str
    values: Mapping[str, float]


def text(value: object) -> str | None:
    """Return a swept value as the text columns of the store have it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def axes(cells: Iterable[Mapping[str, object]]) -> tuple[Axis, ...]:
    """Return the numeric axes of the ``cells`` of a sweep."""
    from bentpipe.scenario.sweep import is_scenario_key

    values: dict[str, dict[str, object]] = {}
    for cell in cells:
        for key, value in cell.items():
            value_text = text(value)
            if value_text is not None and is_scenario_key(key):
                values.setdefault(key, {})[value_text] = value
    result = []
    for key, by_text in values.items():
        parsed = {value_text: _quantity(value) for value_text, value in by_text.items()}
        units = list(
            dict.fromkeys(quantity[0] for quantity in parsed.values() if quantity is not None and quantity[0])
        )
        if not units and any(value == 0 and not isinstance(value, bool) for value in by_text.values()):
            units = [_NO_UNIT]  # all values are 0
        for unit in units:
            # 0 has no unit of its own: it takes the only unit of the others
            neutral = ("",) if len(units) == 1 else ()
            numbers = {
                value_text: quantity[1]
                for value_text, quantity in parsed.items()
                if quantity and quantity[0] in (unit, *neutral)
            }
            result.append(Axis(key, unit, numbers))
    return tuple(result)


_NO_UNIT = "_number"


def _queue(text: str) -> tuple[str, float]:
    size = QueueSize.parse(text)
    if size.kind not in ("bdp", "packets"):
        raise UnitError(text)
    return f"_{size.kind}", float(size.amount)


_PARSERS: tuple[Callable[[str], tuple[str, float]], ...] = (
    lambda text: ("_s", Duration.parse(text).seconds),
    lambda text: ("_bit_s", float(Rate.parse(text).bit_s)),
    lambda text: ("_bytes", float(Size.parse(text).bytes)),
    lambda text: ("_probability", Probability.parse(text).value),
    _queue,
    lambda text: ("_db", Decibel.parse(text).db),
    lambda text: ("_hz", float(Frequency.parse(text).hz)),
    lambda text: ("_baud", float(SymbolRate.parse(text).symbols_s)),
    lambda text: ("_m_s", Speed.parse(text).m_h / 3600),
    lambda text: ("_km", Distance.parse(text).km),
    lambda text: ("_deg", Angle.parse(text).degrees),
)


def _quantity(value: object) -> tuple[str, float] | None:
    """Return unit and number; the unit of 0 is empty. None: not a quantity."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return (_NO_UNIT if value else "", float(value))
    if not isinstance(value, str):
        return None
    if value.strip() == "0":
        return ("", 0.0)
    for parse in _PARSERS:
        try:
            return parse(value)
        except UnitError:
            continue
    return None


def add_numeric_columns(
    frame: pl.LazyFrame, numbers: Sequence[Axis], called: Mapping[str, str] | None = None
) -> pl.LazyFrame:
    """Return ``frame`` with each axis as a column after the column of its text.

    Args:
        frame: frame with the text columns.
        numbers: axes to add.
        called: names of the text columns by key, where they differ from the key.

    A name that another column has already gets the prefix ``sweep.``.
    """
    if not numbers:
        return frame
    import polars as pl

    names = frame.collect_schema().names()
    columns: dict[str, list[pl.Expr]] = {}
    for axis in numbers:
        text_column = (called or {}).get(axis.key, axis.key)
        if text_column not in names:
            continue
        name = f"{text_column}{axis.unit}"
        expression = pl.col(text_column).replace_strict(
            list(axis.values), list(axis.values.values()), default=None, return_dtype=pl.Float64
        )
        columns.setdefault(text_column, []).append(
            expression.alias(f"{LABELS}{axis.key}{axis.unit}" if name in names else name)
        )
    return frame.select(column for name in names for column in (pl.col(name), *columns.get(name, ())))
