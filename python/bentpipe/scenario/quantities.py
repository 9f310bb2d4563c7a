"""Quantities with units: text such as ``"250 ms"`` or ``"10 Mbit/s"`` as whole numbers.

Parsing is exact (decimal arithmetic, no floats): a duration is in nanoseconds, a rate in bits per second, a size in
bytes. A finer quantity is an error. Every error has the found and the expected value and, if there is one, the nearest
valid spelling. ``parse`` returns a quantity unchanged, and ``str`` of a quantity parses to the same quantity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import ClassVar, Literal, Self

from bentpipe.scenario.quantity_text import (
    UnitError,
    format_decimal,
    format_largest_unit,
    format_value,
    nearest_unit,
    parse_whole,
    split_quantity,
    suggest_unit,
)

__all__ = [
    "Angle",
    "Distance",
    "Duration",
    "Probability",
    "QueueSize",
    "Rate",
    "Size",
    "UnitError",
    "WindowSize",
]


def _scaled(units: str, bits: int, tail: str = "") -> dict[str, Decimal]:
    """Return units with the prefixes k to T and Ki to Ti, as multiples of ``bits``."""
    powers = {"": Decimal(1)}
    for power, letter in enumerate("kMGT", start=1):
        powers[letter] = Decimal(1000) ** power
        powers[letter.upper() + "i"] = Decimal(1024) ** power
    return {f"{prefix}{unit}{tail}": bits * size for unit in units.split() for prefix, size in powers.items()}


_FOREIGN_DURATIONS = {
    "d": Decimal(86400) * 10**9,
    "day": Decimal(86400) * 10**9,
    "days": Decimal(86400) * 10**9,
}
_FOREIGN_RATES = {
    unit: size
    for tail in ("/s", "")
    for unit, size in (_scaled("B", 8, tail) | _scaled("bit b", 1, tail)).items()
}
_FOREIGN_SIZES = {unit: size / 8 for unit, size in _scaled("bit b", 1).items()} | _scaled("B", 1)
"""Units of other tools, in ns, bit/s and bytes. The nearest valid spelling might be another size."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """Length of time in whole nanoseconds."""

    ns: int

    units: ClassVar[Mapping[str, Decimal]] = {
        "ns": Decimal(1),
        "us": Decimal(10) ** 3,
        "ms": Decimal(10) ** 6,
        "s": Decimal(10) ** 9,
        "min": Decimal(60) * Decimal(10) ** 9,
        "h": Decimal(3600) * Decimal(10) ** 9,
    }

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a duration from text such as ``"250 ms"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        return cls(
            parse_whole(
                found, cls.units, 'a duration such as "250 ms"', ("ms", "s"), "1 ns", _FOREIGN_DURATIONS
            )
        )

    @property
    def seconds(self) -> float:
        """Duration in seconds, rounded to a float."""
        return self.ns / 1e9

    def __str__(self) -> str:
        return format_largest_unit(self.ns, self.units, ("ns", "us", "ms", "s"))


@dataclass(frozen=True, slots=True, order=True)
class Rate:
    """Rate in whole bits per second; 1 Mbit/s is 10^6 bit/s."""

    bit_s: int

    units: ClassVar[Mapping[str, Decimal]] = {
        "bit/s": Decimal(1),
        "kbit/s": Decimal(10) ** 3,
        "Mbit/s": Decimal(10) ** 6,
        "Gbit/s": Decimal(10) ** 9,
        "b/s": Decimal(1),
        "kb/s": Decimal(10) ** 3,
        "Mb/s": Decimal(10) ** 6,
        "Gb/s": Decimal(10) ** 9,
    }

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a rate above 0 from text such as ``"10 Mbit/s"``. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a rate above 0 such as "10 Mbit/s"'
        value = parse_whole(found, cls.units, expected, "Mbit/s", "1 bit/s", _FOREIGN_RATES)
        if value == 0:
            raise UnitError(f"found {format_value(found)}, expected {expected}")
        return cls(value)

    def __str__(self) -> str:
        return format_largest_unit(self.bit_s, self.units, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"))


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """Number of bytes; 1 kB is 1000 B, 1 KiB is 1024 B."""

    bytes: int

    units: ClassVar[Mapping[str, Decimal]] = {
        "B": Decimal(1),
        "kB": Decimal(10) ** 3,
        "MB": Decimal(10) ** 6,
        "GB": Decimal(10) ** 9,
        "KiB": Decimal(2) ** 10,
        "MiB": Decimal(2) ** 20,
        "GiB": Decimal(2) ** 30,
    }

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a size from text such as ``"5.3 MB"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        return cls(parse_whole(found, cls.units, 'a size such as "5.3 MB"', "B", "1 B", _FOREIGN_SIZES))

    def __str__(self) -> str:
        return format_largest_unit(self.bytes, self.units, ("B", "kB", "MB", "GB"))


@dataclass(frozen=True, slots=True, order=True)
class Distance:
    """Length in whole metres."""

    m: int

    units: ClassVar[Mapping[str, Decimal]] = {"m": Decimal(1), "km": Decimal(1000)}

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a distance from text such as ``"550 km"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        return cls(parse_whole(found, cls.units, 'a distance such as "550 km"', "km", "1 m"))

    @property
    def km(self) -> float:
        """Distance in kilometres."""
        return self.m / 1000

    def __str__(self) -> str:
        return format_largest_unit(self.m, self.units, ("m", "km"))


@dataclass(frozen=True, slots=True, order=True)
class Angle:
    """Angle of 0 or more in whole millionths of a degree."""

    micro: int

    units: ClassVar[Mapping[str, Decimal]] = {"deg": Decimal(10) ** 6, "°": Decimal(10) ** 6}

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return an angle from text such as ``"25 deg"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'an angle such as "25 deg"'
        value = parse_whole(found, cls.units, expected, "deg", "a millionth of a degree")
        if value > 360 * 10**6:
            raise UnitError(f"found {format_value(found)}, expected {expected}, at most 360 deg")
        return cls(value)

    @property
    def degrees(self) -> float:
        """Angle in degrees."""
        return self.micro / 1e6

    def __str__(self) -> str:
        return f"{format_decimal(Decimal(self.micro) / 10**6)} deg"


@dataclass(frozen=True, slots=True, order=True)
class Probability:
    """Probability between 0 and 1."""

    value: float

    units: ClassVar[Mapping[str, Decimal]] = {"%": Decimal("0.01"), "ppm": Decimal("0.000001")}

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a probability from text such as ``"0.01 %"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a percentage from 0 % to 100 % such as "0.01 %"'
        number, unit = split_quantity(found, expected)
        if unit == "":
            if number == 0:
                return cls(0.0)
            percentages = [percent for percent in (number, number * 100) if 0 <= percent <= 100]
            hint = " or ".join(f'"{format_decimal(percent)} %"' for percent in percentages)
            message = f"found {format_value(found)} without a unit, expected {expected}"
            raise UnitError(f"{message}; did you mean {hint}?" if hint else message)
        if unit not in cls.units:
            near = nearest_unit(unit, cls.units) or "%"
            raise UnitError(
                f'found {format_value(found)}: no unit "{unit}", expected {expected} '
                f'(units: {", ".join(cls.units)}); did you mean "{format_decimal(number)} {near}"?'
            )
        value = number * cls.units[unit]
        if not 0 <= value <= 1:
            raise UnitError(f"found {format_value(found)}, expected {expected}")
        return cls(float(value))

    def __str__(self) -> str:
        return f"{format_decimal(Decimal(repr(self.value)) * 100)} %"


MOST_PACKETS = 1_000_000_000
"""Largest bound of a queue in packets; a larger one is rejected as a mistake."""

MOST_QUEUE_BYTES = MOST_PACKETS * 65_535
"""Largest bound of a queue in bytes, with the largest packets of IP."""


@dataclass(frozen=True, slots=True)
class QueueSize:
    """Bound of a queue as in the scenario; the plan converts it to bytes or packets.

    ``kind`` is ``bdp`` (amount times rate times round-trip time), ``packets``, ``bytes``, ``time`` (nanoseconds at the
    rate of the link) or ``none`` (no bound).
    """

    kind: Literal["bdp", "packets", "bytes", "time", "none"]
    amount: Decimal
    shared: Literal["", "sqrt(n)", "n", "sqrt(n)/n"] = ""
    """Divisor of the bound, with n the number of users: :meth:`for_users`."""

    expected: ClassVar[str] = (
        'the size of a queue above 0 such as "1 BDP", "417 packets", "64 kB" or "100 ms", '
        'or "none" for a queue without bound'
    )

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return the bound of a queue from text such as ``"1 BDP"``. Raises UnitError."""
        if isinstance(found, cls):
            return found
        if found == "none":
            return cls("none", Decimal(0))
        if isinstance(found, str) and "/" in found:
            return cls._parse_shared(found)
        return cls._parse_size(found)

    @classmethod
    def _parse_size(cls, found: object) -> Self:
        if isinstance(found, Mapping):
            raise UnitError(f'found a table, expected {cls.expected}; the discipline is the key "aqm"')
        if isinstance(found, str) and found.isidentifier():
            raise UnitError(f'found "{found}", expected {cls.expected}; a discipline is the key "aqm"')
        number, unit = split_quantity(found, cls.expected)
        if number < 0:
            raise UnitError(f"found {format_value(found)}, which is negative, expected {cls.expected}")
        if number == 0:
            raise UnitError(f"found {format_value(found)}, a queue of 0, expected {cls.expected}")
        if unit == "":
            raise UnitError(
                f"found {format_value(found)} without a unit, expected {cls.expected}; "
                f'did you mean "{format_decimal(number)} packets"?'
            )
        if unit == "BDP":
            return cls("bdp", number)
        if unit in ("packets", "packet"):
            if number != number.to_integral_value():
                raise UnitError(f"found {format_value(found)}, expected a whole number of packets")
            if number > MOST_PACKETS:
                raise UnitError(
                    f'found {format_value(found)}, expected at most {MOST_PACKETS} packets, or "none"'
                )
            return cls("packets", number)
        if unit in Size.units:
            return cls("bytes", Decimal(Size.parse(found).bytes))
        if unit in Duration.units:
            return cls("time", Decimal(Duration.parse(found).ns))
        hint = cls._suggest_unit(number, unit)
        raise UnitError(f'found {format_value(found)}: no unit "{unit}", expected {cls.expected}{hint}')

    @classmethod
    def _parse_shared(cls, found: str) -> Self:
        """Return a bound with a divisor such as ``"1 BDP/sqrt(n)/n"``."""
        amount, *parts = (part.strip() for part in found.split("/"))
        divisors: dict[tuple[str, ...], Literal["sqrt(n)", "n", "sqrt(n)/n"]]
        divisors = {("sqrt(n)",): "sqrt(n)", ("n",): "n", ("sqrt(n)", "n"): "sqrt(n)/n"}
        size = cls.parse(amount)
        if tuple(parts) not in divisors or size.kind == "none":
            raise UnitError(
                f'found {format_value(found)}, expected a size such as "1 BDP", divided by sqrt(n), n (users) or '
                'both: "1 BDP/sqrt(n)/n"'
            )
        return cls(size.kind, size.amount, divisors[tuple(parts)])

    def for_users(self, users: int) -> Self:
        """Return the bound divided by its divisor for ``users`` users; at least one packet or byte."""
        if not self.shared:
            return self
        with localcontext() as context:
            context.prec = 60
            amount = self.amount
            if "sqrt" in self.shared:
                amount /= Decimal(users).sqrt()
            if self.shared.endswith("n"):
                amount /= users
            if self.kind in ("packets", "bytes"):
                amount = Decimal(max(1, int(amount)))
            return type(self)(self.kind, amount)

    @staticmethod
    def _suggest_unit(number: Decimal, unit: str) -> str:
        if unit in _FOREIGN_SIZES:
            return suggest_unit(number, unit, Size.units, _FOREIGN_SIZES)
        near = nearest_unit(unit, ["BDP", "packets", *Size.units, *Duration.units])
        return f'; did you mean "{format_decimal(number)} {near}"?' if near else ""

    def bytes_at(self, rate: Rate, rtt: Duration) -> int | None:
        """Return the bound in bytes at ``rate`` and round-trip time ``rtt``; None for packets or no bound.

        Raises:
            UnitError: above :data:`MOST_QUEUE_BYTES`.
        """
        if self.kind in ("packets", "none"):
            return None
        with localcontext() as context:
            context.prec = 120
            size = int(
                {
                    "bdp": self.amount * rate.bit_s * rtt.ns / (8 * 10**9),
                    "time": self.amount * rate.bit_s / (8 * 10**9),
                    "bytes": self.amount,
                }[self.kind]
            )
        if size > MOST_QUEUE_BYTES:
            raise UnitError(
                f'found {self}, which is {size:.3g} B here, expected at most {Size(MOST_QUEUE_BYTES)}, or "none" for '
                "a queue without bound"
            )
        return size

    def __str__(self) -> str:
        if self.shared:
            return f"{type(self)(self.kind, self.amount)}/{self.shared}"
        if self.kind == "bdp":
            return f"{format_decimal(self.amount)} BDP"
        if self.kind == "packets":
            return f"{self.amount} packets"
        if self.kind == "bytes":
            return str(Size(int(self.amount)))
        return str(Duration(int(self.amount))) if self.kind == "time" else "none"


@dataclass(frozen=True, slots=True)
class WindowSize:
    """Congestion window: full packets or bytes."""

    packets: int | None
    bytes: int | None

    @classmethod
    def parse(cls, found: object) -> Self:
        """Return a window from text such as ``"10 packets"`` or ``"14 kB"``. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a window above 0 such as "10 packets" or "14720 B"'
        number, unit = split_quantity(found, expected)
        if number <= 0:
            raise UnitError(f"found {format_value(found)}, expected {expected}")
        if unit in ("packets", "packet") and number == number.to_integral_value():
            return cls(int(number), None)
        if unit in Size.units:
            return cls(None, Size.parse(found).bytes)
        if unit == "":
            hint = f'; did you mean "{format_decimal(number)} packets"?' if number > 0 else ""
            raise UnitError(f"found {format_value(found)} without a unit, expected {expected}{hint}")
        if unit in _FOREIGN_SIZES:
            hint = suggest_unit(number, unit, Size.units, _FOREIGN_SIZES)
        else:
            near = nearest_unit(unit, ["packets", *Size.units])
            hint = f'; did you mean "{format_decimal(number)} {near}"?' if near else ""
        raise UnitError(f"found {format_value(found)}, expected {expected}{hint}")

    def __str__(self) -> str:
        return f"{self.packets} packets" if self.packets is not None else str(Size(self.bytes or 0))

    def in_bytes(self, packet_bytes: int) -> int:
        """Return the window in bytes for full packets of ``packet_bytes`` bytes."""
        return self.packets * packet_bytes if self.packets is not None else self.bytes or 0
