"""Quantities of a radio link: levels in dB, frequencies, symbol rates and speeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Self

from bentpipe.scenario.quantity_text import (
    UnitError,
    format_decimal,
    format_largest_unit,
    format_value,
    parse_whole,
    split_quantity,
)

__all__ = ["Decibel", "Frequency", "Speed", "SymbolRate"]

_MAX_DB = 200
"""Largest magnitude of a level in dB."""


@dataclass(frozen=True, slots=True, order=True)
class Decibel:
    """Ratio in dB, of either sign."""

    db: float

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a level from text such as ``"7 dB"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a level such as "7 dB"'
        number, unit = split_quantity(found, expected)
        if unit == "" and number != 0:
            raise UnitError(
                f"found {format_value(found)} without a unit, expected {expected}; "
                f'did you mean "{format_decimal(number)} dB"?'
            )
        if unit not in ("", "dB"):
            hint = f'; did you mean "{format_decimal(number)} dB"?' if unit.casefold() == "db" else ""
            raise UnitError(
                f'found {format_value(found)}: no unit "{unit}", expected {expected} (units: dB){hint}'
            )
        if abs(number) > _MAX_DB:
            raise UnitError(
                f"found {format_value(found)}, expected {expected}, between -{_MAX_DB} and {_MAX_DB} dB"
            )
        return cls(float(number))

    def __str__(self) -> str:
        return f"{format_decimal(Decimal(repr(self.db)))} dB"


@dataclass(frozen=True, slots=True, order=True)
class Frequency:
    """Frequency in whole hertz."""

    hz: int

    units: ClassVar[Mapping[str, Decimal]] = {
        "Hz": Decimal(1),
        "kHz": Decimal(10) ** 3,
        "MHz": Decimal(10) ** 6,
        "GHz": Decimal(10) ** 9,
    }

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a frequency above 0 from text such as ``"2.2 GHz"``. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a frequency above 0 such as "2.2 GHz"'
        value = parse_whole(found, cls.units, expected, "GHz", "1 Hz")
        if value == 0:
            raise UnitError(f"found {format_value(found)}, expected {expected}")
        return cls(value)

    def __str__(self) -> str:
        return format_largest_unit(self.hz, self.units, ("Hz", "kHz", "MHz", "GHz"))


@dataclass(frozen=True, slots=True, order=True)
class SymbolRate:
    """Symbol rate in whole symbols per second."""

    symbols_s: int

    units: ClassVar[Mapping[str, Decimal]] = {
        "baud": Decimal(1),
        "kbaud": Decimal(10) ** 3,
        "Mbaud": Decimal(10) ** 6,
        "Gbaud": Decimal(10) ** 9,
    }

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a symbol rate above 0 from text such as ``"27.5 Mbaud"``. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a symbol rate above 0 such as "27.5 Mbaud"'
        value = parse_whole(found, cls.units, expected, "Mbaud", "1 baud")
        if value == 0:
            raise UnitError(f"found {format_value(found)}, expected {expected}")
        return cls(value)

    def __str__(self) -> str:
        return format_largest_unit(self.symbols_s, self.units, ("baud", "kbaud", "Mbaud", "Gbaud"))


@dataclass(frozen=True, slots=True, order=True)
class Speed:
    """Speed in whole metres per hour."""

    m_h: int

    units: ClassVar[Mapping[str, Decimal]] = {"m/s": Decimal(3600), "km/h": Decimal(1000)}

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a speed above 0 from text such as ``"60 km/h"``. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a speed above 0 such as "60 km/h"'
        value = parse_whole(found, cls.units, expected, "km/h", "1 m/h")
        if value == 0:
            raise UnitError(f"found {format_value(found)}, expected {expected}")
        return cls(value)

    @property
    def m_s(self) -> float:
        """Speed in metres per second."""
        return self.m_h / 3600

    def __str__(self) -> str:
        return f"{format_decimal(Decimal(self.m_h) / 1000)} km/h"
