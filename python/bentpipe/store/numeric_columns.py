"""Swept quantities as numbers: beside the text that a scenario has (``"250 ms"``), a column in its unit.

The column is called like the key, with the unit behind it: ``path.satellite.delay_s`` (seconds), ``_bit_s``,
``_bytes``, ``_probability`` (0 to 1), ``_bdp``, ``_packets``, of a radio link ``_db``, ``_hz``, ``_baud``, ``_m_s``, of
places ``_km``, ``_deg``, and ``_number`` for what has no unit. An axis of several sorts of quantity (a queue of
``"1 BDP"`` or ``"417 packets"``) has a column of each; words have none.
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
    """The numbers of one key of a sweep in one unit: ``unit`` as it stands behind the key, numbers by their text."""

    key: str
    unit: str
    values: Mapping[str, float]


def text(value: object) -> str | None:
    """A value of a sweep as columns of text hold it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def axes(cells: Iterable[Mapping[str, object]]) -> tuple[Axis, ...]:
    """The axes of numbers among the ``cells`` of a sweep."""
    from bentpipe.scenario.sweep import is_scenario_key

    values: dict[str, dict[str, object]] = {}
    for cell in cells:
        for key, value in cell.items():
            said = text(value)
            if said is not None and is_scenario_key(key):
                values.setdefault(key, {})[said] = value
    found = []
    for key, by_text in values.items():
        quantities = {said: _quantity(value) for said, value in by_text.items()}
        units = list(dict.fromkeys(one[0] for one in quantities.values() if one is not None and one[0]))
        if not units and any(value == 0 and not isinstance(value, bool) for value in by_text.values()):
            units = [_PLAIN]  # nothing but 0
        for unit in units:
            # 0 needs no unit, and has that of the others if these have one
            also = ("",) if len(units) == 1 else ()
            numbers = {said: one[1] for said, one in quantities.items() if one and one[0] in (unit, *also)}
            found.append(Axis(key, unit, numbers))
    return tuple(found)


_PLAIN = "_number"


def _queue(found: str) -> tuple[str, float]:
    size = QueueSize.parse(found)
    if size.kind not in ("bdp", "packets"):
        raise UnitError(found)
    return f"_{size.kind}", float(size.amount)


_SORTS: tuple[Callable[[str], tuple[str, float]], ...] = (
    lambda found: ("_s", Duration.parse(found).seconds),
    lambda found: ("_bit_s", float(Rate.parse(found).bit_s)),
    lambda found: ("_bytes", float(Size.parse(found).bytes)),
    lambda found: ("_probability", Probability.parse(found).value),
    _queue,
    lambda found: ("_db", Decibel.parse(found).db),
    lambda found: ("_hz", float(Frequency.parse(found).hz)),
    lambda found: ("_baud", float(SymbolRate.parse(found).symbols_s)),
    lambda found: ("_m_s", Speed.parse(found).m_h / 3600),
    lambda found: ("_km", Distance.parse(found).km),
    lambda found: ("_deg", Angle.parse(found).degrees),
)


def _quantity(value: object) -> tuple[str, float] | None:
    """Unit and number; the unit of 0 is empty."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return (_PLAIN if value else "", float(value))
    if not isinstance(value, str):
        return None
    if value.strip() == "0":
        return ("", 0.0)
    for sort in _SORTS:
        try:
            return sort(value)
        except UnitError:
            continue
    return None


def add_numeric_columns(
    frame: pl.LazyFrame, numbers: Sequence[Axis], called: Mapping[str, str] | None = None
) -> pl.LazyFrame:
    """``frame`` with each axis of ``numbers`` behind the text it is made of.

    ``called`` are the columns of that text by key, where they are not called like it. What another column is called is
    not taken: then the number's has ``sweep.`` in front.
    """
    if not numbers:
        return frame
    import polars as pl

    names = frame.collect_schema().names()
    columns: dict[str, list[pl.Expr]] = {}
    for axis in numbers:
        worded = (called or {}).get(axis.key, axis.key)
        if worded not in names:
            continue
        name = f"{worded}{axis.unit}"
        number = pl.col(worded).replace_strict(
            list(axis.values), list(axis.values.values()), default=None, return_dtype=pl.Float64
        )
        columns.setdefault(worded, []).append(
            number.alias(f"{LABELS}{axis.key}{axis.unit}" if name in names else name)
        )
    return frame.select(part for name in names for part in (pl.col(name), *columns.get(name, ())))
