"""Traces in files: delay, rate, loss and attenuation over time, as CSV, Mahimahi's or plain lists.

Everything becomes whole nanoseconds, bits per second and probabilities when it is read; a run's
plan holds the points themselves, so a run does not depend on the file any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from bentpipe.scenario.input_file import read_input_text
from bentpipe.scenario.quantity_text import nearest

__all__ = ["MAHIMAHI_BYTES", "Mahimahi", "TraceError", "packet_list", "read_csv", "read_mahimahi"]

MAHIMAHI_BYTES = 1504
"""Bytes of one delivery opportunity (Netravali et al., USENIX ATC 2015, section 4: mm-link's MTU)."""

MOST_POINTS = 5_000_000

MOST = 10**12
"""Greatest number of a trace, in whatever unit (12 days are 10^6 s, 1 Tbit/s is 10^12 bit/s)."""


class TraceError(ValueError):
    """A trace that cannot be used; the message names the file and the line."""


_TIMES = {"time_s": 10**9, "time_ms": 10**6, "time_us": 10**3, "time_ns": 1}
COLUMNS: dict[str, dict[str, Decimal]] = {
    "delay": {
        "delay_s": Decimal(10**9),
        "delay_ms": Decimal(10**6),
        "delay_us": Decimal(10**3),
        "delay_ns": Decimal(1),
    },
    "rate": {
        "rate_bit_s": Decimal(1),
        "rate_kbit_s": Decimal(10**3),
        "rate_Mbit_s": Decimal(10**6),
    },
    "loss": {"loss": Decimal(1), "loss_percent": Decimal("0.01")},
    "attenuation": {"attenuation_dB": Decimal(1)},
}
"""Column names of a CSV trace, with the factor to nanoseconds, bit/s, a probability or dB."""
_SIGNED = ("attenuation",)
"""What may be below 0: a signal that is stronger than without anything in its way."""


def _lines(folder: Path, name: str) -> list[tuple[int, str]]:
    """Numbered lines of a file, without comments (#) and empty ones."""
    path = folder / name
    try:
        text = read_input_text(path)
    except FileNotFoundError:
        there = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest(path.name, there)
        hint = f'; did you mean "{Path(name).with_name(near)}"?' if near else ""
        raise TraceError(f'no file "{name}" beside the scenario{hint}') from None
    except UnicodeDecodeError:
        raise TraceError(f'cannot read "{name}": it is not text in UTF-8') from None
    except OSError as error:
        raise TraceError(f'cannot read "{name}": {error.strerror}') from None
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    kept = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not kept:
        raise TraceError(f'"{name}" is empty, expected at least one point')
    if len(kept) > MOST_POINTS:
        raise TraceError(f'"{name}" has {len(kept)} lines, expected at most {MOST_POINTS}')
    return kept


def _number(field: str, name: str, line: int, what: str, *, signed: bool = False) -> Decimal:
    try:
        value = Decimal(field)
    except InvalidOperation:
        raise TraceError(f'"{name}", line {line}: found "{field}", expected {what}') from None
    if not value.is_finite() or (value < 0 and not signed):
        raise TraceError(f'"{name}", line {line}: found {field}, expected {what} of 0 or more')
    if value > MOST:
        raise TraceError(f'"{name}", line {line}: found {field}, expected {what} of at most {MOST}')
    return value


def read_csv(folder: Path, name: str, kind: str) -> list[tuple[int, Decimal]]:
    """Points ``(time in ns, value)`` of a CSV trace of ``kind`` "delay", "rate", "loss" or "attenuation".

    The first line names two columns: a time (``time_s``, ``time_ms``...) and the value with its unit
    (``delay_ms``, ``rate_Mbit_s``, ``loss_percent``...).

    Raises:
        TraceError: no such file, a column without a unit, not a number, or time that runs back.
    """
    lines = _lines(folder, name)
    number, header = lines[0]
    columns = [column.strip() for column in header.split(",")]
    units = COLUMNS[kind]
    if len(columns) != 2 or columns[0] not in _TIMES or columns[1] not in units:
        allowed = (list(_TIMES), list(units))
        wrong = next((c for c, ok in zip(columns, allowed, strict=False) if c not in ok), header)
        near = nearest(wrong, [*_TIMES, *units])
        hint = f'; did you mean "{near}"?' if near else ""
        raise TraceError(
            f'"{name}", line {number}: found "{header}", expected two columns with their units: one of '
            f"{', '.join(_TIMES)} and one of {', '.join(units)}{hint}"
        )
    scale = _TIMES[columns[0]]
    points: list[tuple[int, Decimal]] = []
    for number, line in lines[1:]:
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 2:
            raise TraceError(f'"{name}", line {number}: found {len(fields)} fields, expected 2')
        at = int(_number(fields[0], name, number, "a time") * scale)
        if at > MOST * 10**6:
            raise TraceError(f'"{name}", line {number}: found {fields[0]}, expected a time within {MOST} ms')
        if points and at <= points[-1][0]:
            raise TraceError(
                f'"{name}", line {number}: time runs back: {fields[0]} after the line before, '
                "expected increasing times"
            )
        value = _number(fields[1], name, number, f"a {kind}", signed=kind in _SIGNED)
        points.append((at, value * units[columns[1]]))
    if not points:
        raise TraceError(f'"{name}" has no points, expected at least one line below the columns')
    return points


def packet_list(folder: Path, name: str) -> list[int]:
    """Indices of lost packets, counted from 0, one a line, increasing. Raises TraceError."""
    return _increasing(folder, name, "the index of a packet", strict=True)


@dataclass(frozen=True, slots=True)
class Mahimahi:
    """Delivery opportunities: instants in ns, and the length after which they come again."""

    slots_ns: Sequence[int]
    repeat_ns: int

    @property
    def bit_s(self) -> int:
        """Mean rate."""
        return len(self.slots_ns) * MAHIMAHI_BYTES * 8 * 10**9 // self.repeat_ns


def read_mahimahi(folder: Path, name: str) -> Mahimahi:
    """A Mahimahi packet-delivery trace: one line an opportunity, in whole milliseconds.

    The trace comes again after its last instant, as mm-link has it. Raises TraceError.
    """
    instants = _increasing(folder, name, "an instant in whole milliseconds", strict=False)
    if instants[-1] == 0:
        raise TraceError(f'"{name}" ends at 0 ms, expected a trace that lasts')
    return Mahimahi([instant * 10**6 for instant in instants], instants[-1] * 10**6)


def _increasing(folder: Path, name: str, what: str, *, strict: bool) -> list[int]:
    values: list[int] = []
    below: Callable[[int, int], bool] = (lambda a, b: a <= b) if strict else (lambda a, b: a < b)
    for number, line in _lines(folder, name):
        if not line.isdecimal():
            raise TraceError(f'"{name}", line {number}: found "{line}", expected {what}')
        value = int(line) if len(line) < 20 else MOST + 1
        if value > MOST:
            raise TraceError(f'"{name}", line {number}: found {line}, expected {what} of at most {MOST}')
        if values and below(value, values[-1]):
            order = "increasing values" if strict else "values that do not decrease"
            raise TraceError(
                f'"{name}", line {number}: time runs back: {value} after {values[-1]}, expected {order}'
            )
        values.append(value)
    return values
