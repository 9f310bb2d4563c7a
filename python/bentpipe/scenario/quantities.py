"""Quantities with units: text such as ``"250 ms"`` or ``"10 Mbit/s"`` becomes whole numbers.

Parsing is exact (decimal arithmetic, no floats): a duration is nanoseconds, a rate bits per second,
a size bytes. A quantity finer than that is refused. Every error says what was found, what was
expected and, where there is one, the nearest right spelling. What is a quantity already is taken as
it is, and ``str`` of it is text that parses to the same.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import ClassVar, Literal, Self

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
    "nearest",
]

_QUANTITY = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*?)?\s*")
_MOST_DIGITS = 40  # before or behind the point: more than any quantity has in its smallest unit
_MOST = 2**63 - 1  # what the engine's whole numbers and SQL's BIGINT both hold


class UnitError(ValueError):
    """A text that is not the quantity it should be; its message needs only the key in front."""


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The one of ``words`` that looks most like ``word``, ignoring case; None if none is near."""
    by_fold: dict[str, str] = {}
    for candidate in words:
        by_fold.setdefault(candidate.casefold(), candidate)
    found = difflib.get_close_matches(word.casefold(), list(by_fold), n=1, cutoff=0.5)
    return by_fold[found[0]] if found else None


def _plain(number: Decimal) -> str:
    """Decimal without an exponent and without trailing zeros."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _show(found: object) -> str:
    if isinstance(found, str):
        return f'"{found}"'
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found)


def _split(found: object, expected: str) -> tuple[Decimal, str]:
    """Number and unit of a quantity; the unit is "" where none was given."""
    return _split_text(found, expected) if isinstance(found, str) else _split_any(found, expected)


@lru_cache(maxsize=1024)
def _split_text(found: str, expected: str) -> tuple[Decimal, str]:
    """The cells of a sweep say the same quantities again and again."""
    return _split_any(found, expected)


def _split_any(found: object, expected: str) -> tuple[Decimal, str]:
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        digits, unit = str(found), ""
    else:
        match = _QUANTITY.fullmatch(found) if isinstance(found, str) else None
        if match is None:
            raise UnitError(f"found {_show(found)}, expected {expected}")
        digits, unit = match[1].replace("_", ""), match[2] or ""
    try:
        number = Decimal(digits)
    except InvalidOperation:  # an exponent of twenty digits
        number = Decimal("1e-1000" if "e-" in digits.casefold() else "1e1000")
    if number and abs(number.adjusted()) > _MOST_DIGITS:
        size = "large" if number.adjusted() > 0 else "small"
        raise UnitError(f"found {_show(found)}, which is too {size}, expected {expected}")
    return number, unit


def _whole(
    found: object,
    units: Mapping[str, Decimal],
    expected: str,
    default_unit: str,
    smallest: str,
    foreign: Mapping[str, Decimal] | None = None,
) -> int:
    """Parses ``found`` into a whole number of the smallest unit; ``foreign`` are units that are not taken, but that a
    suggestion translates.

    Raises:
        UnitError: no number, no unit, an unknown unit, below 0, or finer than the smallest unit.
    """
    number, unit = _split(found, expected)
    if unit == "":
        if number == 0:
            return 0
        raise UnitError(
            f"found {_show(found)} without a unit, expected {expected}; "
            f'did you mean "{_plain(number)} {default_unit}"?'
        )
    factor = units.get(unit)
    if factor is None:
        hint = _hint(number, unit, units, foreign or {})
        raise UnitError(
            f'found {_show(found)}: no unit "{unit}", expected {expected} (units: {", ".join(units)}){hint}'
        )
    if number < 0:
        raise UnitError(f"found {_show(found)}, which is negative, expected {expected}")
    with localcontext() as context:
        context.prec = 60
        value = number * factor
        if value != value.to_integral_value():
            raise UnitError(f"found {_show(found)}, which is finer than {smallest}, expected {expected}")
        if value > _MOST:
            raise UnitError(f"found {_show(found)}, which is too large, expected {expected}")
        return int(value)


def _hint(number: Decimal, unit: str, units: Mapping[str, Decimal], foreign: Mapping[str, Decimal]) -> str:
    """What may be meant by a unit that is none: the same quantity, where the unit is known elsewhere; else the nearest
    spelling."""
    spellings = (unit, unit.replace("ps", "/s"), re.sub(r"(?i)(?<=[kMGTi])bytes?", "B", unit))
    factor = next((foreign[word] for word in spellings if word in foreign), None)
    if factor is None:
        near = nearest(unit, units) or _ALIASES.get(unit.casefold())
        return f'; did you mean "{_plain(number)} {near}"?' if near in units else ""
    with localcontext() as context:
        context.prec = 60
        value = number * factor
        if value != value.to_integral_value() or not 0 < value <= _MOST:
            return ""
    return f'; did you mean "{_largest_unit(int(value), units, _SUGGESTED[next(iter(units))])}"?'


_SUGGESTED = {
    "ns": ("ns", "us", "ms", "s", "min", "h"),
    "bit/s": ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"),
    "B": ("B", "kB", "MB", "GB"),
}
"""Units of a suggestion, by the smallest one."""


def _scaled(units: str, bits: int, tail: str = "") -> dict[str, Decimal]:
    """Units with the prefixes k to T and Ki to Ti, as multiples of ``bits``."""
    powers = {"": Decimal(1)}
    for power, letter in enumerate("kMGT", start=1):
        powers[letter] = Decimal(1000) ** power
        powers[letter.upper() + "i"] = Decimal(1024) ** power
    return {f"{prefix}{unit}{tail}": bits * size for unit in units.split() for prefix, size in powers.items()}


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


def _largest_unit(value: int, units: Mapping[str, Decimal], names: Iterable[str]) -> str:
    """``value`` in the largest of ``names`` in which it has at most three decimals and is >= 1."""
    chosen, text = "", ""
    for name in names:
        amount = Decimal(value) / units[name]
        if not text or (abs(amount) >= 1 and amount == round(amount, 3)):
            chosen, text = name, _plain(amount)
    return f"{text} {chosen}"


_DAYS = {"d": Decimal(86400) * 10**9, "day": Decimal(86400) * 10**9, "days": Decimal(86400) * 10**9}
_RATES = {
    unit: size
    for tail in ("/s", "")
    for unit, size in (_scaled("B", 8, tail) | _scaled("bit b", 1, tail)).items()
}
_SIZES = {unit: size / 8 for unit, size in _scaled("bit b", 1).items()} | _scaled("B", 1)
"""What other tools write, in ns, bit/s and bytes: never taken for the nearest spelling, which may be another size."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in whole nanoseconds."""

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
        """A duration from text such as ``"250 ms"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        return cls(_whole(found, cls.units, 'a duration such as "250 ms"', "ms", "1 ns", _DAYS))

    @property
    def seconds(self) -> float:
        """In seconds, rounded to a float."""
        return self.ns / 1e9

    def __str__(self) -> str:
        return _largest_unit(self.ns, self.units, ("ns", "us", "ms", "s"))


@dataclass(frozen=True, slots=True, order=True)
class Rate:
    """A rate in whole bits per second; 1 Mbit/s is 10^6 bit/s."""

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
        """A rate above 0 from text such as ``"10 Mbit/s"``. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a rate above 0 such as "10 Mbit/s"'
        value = _whole(found, cls.units, expected, "Mbit/s", "1 bit/s", _RATES)
        if value == 0:
            raise UnitError(f"found {_show(found)}, expected {expected}")
        return cls(value)

    def __str__(self) -> str:
        return _largest_unit(self.bit_s, self.units, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"))


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """A number of bytes; 1 kB is 1000 B, 1 KiB is 1024 B."""

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
        """A size from text such as ``"5.3 MB"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        return cls(_whole(found, cls.units, 'a size such as "5.3 MB"', "B", "1 B", _SIZES))

    def __str__(self) -> str:
        return _largest_unit(self.bytes, self.units, ("B", "kB", "MB", "GB"))


@dataclass(frozen=True, slots=True, order=True)
class Distance:
    """A length in whole metres."""

    m: int

    units: ClassVar[Mapping[str, Decimal]] = {"m": Decimal(1), "km": Decimal(1000)}

    @classmethod
    def parse(cls, found: object) -> Self:
        """A distance from text such as ``"550 km"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        return cls(_whole(found, cls.units, 'a distance such as "550 km"', "km", "1 m"))

    @property
    def km(self) -> float:
        """In kilometres."""
        return self.m / 1000

    def __str__(self) -> str:
        return _largest_unit(self.m, self.units, ("m", "km"))


@dataclass(frozen=True, slots=True, order=True)
class Angle:
    """An angle of 0 or more in whole millionths of a degree."""

    micro: int

    units: ClassVar[Mapping[str, Decimal]] = {"deg": Decimal(10) ** 6, "°": Decimal(10) ** 6}

    @classmethod
    def parse(cls, found: object) -> Self:
        """An angle from text such as ``"25 deg"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'an angle such as "25 deg"'
        value = _whole(found, cls.units, expected, "deg", "a millionth of a degree")
        if value > 360 * 10**6:
            raise UnitError(f"found {_show(found)}, expected {expected}, at most 360 deg")
        return cls(value)

    @property
    def degrees(self) -> float:
        """In degrees."""
        return self.micro / 1e6

    def __str__(self) -> str:
        return f"{_plain(Decimal(self.micro) / 10**6)} deg"


@dataclass(frozen=True, slots=True, order=True)
class Probability:
    """A chance between 0 and 1."""

    value: float

    units: ClassVar[Mapping[str, Decimal]] = {"%": Decimal("0.01"), "ppm": Decimal("0.000001")}

    @classmethod
    def parse(cls, found: object) -> Self:
        """A probability from text such as ``"0.01 %"``; 0 needs no unit. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a percentage from 0 % to 100 % such as "0.01 %"'
        number, unit = _split(found, expected)
        if unit == "":
            if number == 0:
                return cls(0.0)
            shares = [share for share in (number, number * 100) if 0 <= share <= 100]
            hint = " or ".join(f'"{_plain(share)} %"' for share in shares)
            said = f"found {_show(found)} without a unit, expected {expected}"
            raise UnitError(f"{said}; did you mean {hint}?" if hint else said)
        if unit not in cls.units:
            near = nearest(unit, cls.units) or _ALIASES.get(unit.casefold()) or "%"
            raise UnitError(
                f'found {_show(found)}: no unit "{unit}", expected {expected} '
                f'(units: {", ".join(cls.units)}); did you mean "{_plain(number)} {near}"?'
            )
        value = number * cls.units[unit]
        if not 0 <= value <= 1:
            raise UnitError(f"found {_show(found)}, expected {expected}")
        return cls(float(value))

    def __str__(self) -> str:
        return f"{_plain(Decimal(repr(self.value)) * 100)} %"


MOST_PACKETS = 1_000_000_000
"""More than any queue: a bound beyond it is taken for a slip."""

MOST_QUEUE_BYTES = MOST_PACKETS * 65_535
"""The same in bytes, of the largest packets of IP."""


@dataclass(frozen=True, slots=True)
class QueueSize:
    """The bound of a queue, in the words of the scenario; the plan turns it into bytes or packets.

    ``kind`` is ``bdp`` (amount times rate x round-trip time), ``packets``, ``bytes``, ``time``
    (nanoseconds at the link's rate) or ``none`` (no bound).
    """

    kind: Literal["bdp", "packets", "bytes", "time", "none"]
    amount: Decimal
    shared: Literal["", "sqrt(n)", "n", "sqrt(n)/n"] = ""
    """What it is divided by, n users: :meth:`among`."""

    expected: ClassVar[str] = (
        'the size of a queue above 0 such as "1 BDP", "417 packets", "64 kB" or "100 ms", '
        'or "none" for a queue without bound'
    )

    @classmethod
    def parse(cls, found: object) -> Self:
        """A queue's bound from text such as ``"1 BDP"``. Raises UnitError."""
        if isinstance(found, cls):
            return found
        if found == "none":
            return cls("none", Decimal(0))
        if isinstance(found, str) and "/" in found:
            return cls._parse_shared(found)
        return cls._parse_size(found)

    @classmethod
    def _parse_size(cls, found: object) -> Self:
        number, unit = _split(found, cls.expected)
        if number < 0:
            raise UnitError(f"found {_show(found)}, which is negative, expected {cls.expected}")
        if number == 0:
            raise UnitError(f"found {_show(found)}, a queue of 0, expected {cls.expected}")
        if unit == "":
            raise UnitError(
                f"found {_show(found)} without a unit, expected {cls.expected}; "
                f'did you mean "{_plain(number)} packets"?'
            )
        if unit == "BDP":
            return cls("bdp", number)
        if unit in ("packets", "packet"):
            if number != number.to_integral_value():
                raise UnitError(f"found {_show(found)}, expected a whole number of packets")
            if number > MOST_PACKETS:
                raise UnitError(f'found {_show(found)}, expected at most {MOST_PACKETS} packets, or "none"')
            return cls("packets", number)
        if unit in Size.units:
            return cls("bytes", Decimal(Size.parse(found).bytes))
        if unit in Duration.units:
            return cls("time", Decimal(Duration.parse(found).ns))
        hint = cls._near(number, unit)
        raise UnitError(f'found {_show(found)}: no unit "{unit}", expected {cls.expected}{hint}')

    @classmethod
    def _parse_shared(cls, found: str) -> Self:
        """Such as ``"1 BDP/sqrt(n)/n"``."""
        whole, *parts = (part.strip() for part in found.split("/"))
        by: dict[tuple[str, ...], Literal["sqrt(n)", "n", "sqrt(n)/n"]]
        by = {("sqrt(n)",): "sqrt(n)", ("n",): "n", ("sqrt(n)", "n"): "sqrt(n)/n"}
        size = cls.parse(whole)
        if tuple(parts) not in by or size.kind == "none":
            raise UnitError(
                f'found {_show(found)}, expected a size such as "1 BDP", over sqrt(n), n (users) or both of them: '
                '"1 BDP/sqrt(n)/n"'
            )
        return cls(size.kind, size.amount, by[tuple(parts)])

    def among(self, users: int) -> Self:
        """What is left of it when it is divided as it says, n being ``users``; at least one packet or byte."""
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
    def _near(number: Decimal, unit: str) -> str:
        if unit in _SIZES:
            return _hint(number, unit, Size.units, _SIZES)
        words = ["BDP", "packets", *Size.units, *Duration.units]
        near = nearest(unit, words) or _ALIASES.get(unit.casefold())
        return f'; did you mean "{_plain(number)} {near}"?' if near else ""

    def bytes_at(self, rate: Rate, rtt: Duration) -> int | None:
        """The bound in bytes at ``rate`` and round trip ``rtt``; None for packets or no bound.

        Raises:
            UnitError: more than any queue holds.
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
            return f"{_plain(self.amount)} BDP"
        if self.kind == "packets":
            return f"{self.amount} packets"
        if self.kind == "bytes":
            return str(Size(int(self.amount)))
        return str(Duration(int(self.amount))) if self.kind == "time" else "none"


@dataclass(frozen=True, slots=True)
class WindowSize:
    """A congestion window: full packets or bytes."""

    packets: int | None
    bytes: int | None

    @classmethod
    def parse(cls, found: object) -> Self:
        """A window from text such as ``"10 packets"`` or ``"14 kB"``. Raises UnitError."""
        if isinstance(found, cls):
            return found
        expected = 'a window above 0 such as "10 packets" or "14720 B"'
        number, unit = _split(found, expected)
        if number <= 0:
            raise UnitError(f"found {_show(found)}, expected {expected}")
        if unit in ("packets", "packet") and number == number.to_integral_value():
            return cls(int(number), None)
        if unit in Size.units:
            return cls(None, Size.parse(found).bytes)
        if unit == "":
            raise UnitError(
                f"found {_show(found)} without a unit, expected {expected}; "
                f'did you mean "{_plain(number)} packets"?'
            )
        if unit in _SIZES:
            hint = _hint(number, unit, Size.units, _SIZES)
        else:
            near = nearest(unit, ["packets", *Size.units]) or _ALIASES.get(unit.casefold())
            hint = f'; did you mean "{_plain(number)} {near}"?' if near else ""
        raise UnitError(f"found {_show(found)}, expected {expected}{hint}")

    def __str__(self) -> str:
        return f"{self.packets} packets" if self.packets is not None else str(Size(self.bytes or 0))

    def in_bytes(self, packet_bytes: int) -> int:
        """The window in bytes for full packets of ``packet_bytes``."""
        return self.packets * packet_bytes if self.packets is not None else self.bytes or 0
