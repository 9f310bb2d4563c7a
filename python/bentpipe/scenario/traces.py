"""Trace files: delay, rate, loss and attenuation over time, as CSV, Mahimahi traces or plain lists.

Values become whole nanoseconds, bits per second and probabilities. The plan of a run holds the points, so that a run
does not depend on the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from bentpipe.scenario.input_file import read_input_text
from bentpipe.scenario.quantity_text import nearest, nearest_file

__all__ = ["MAHIMAHI_BYTES", "Mahimahi", "TraceError", "packet_list", "read_csv", "read_mahimahi"]

MAHIMAHI_BYTES = 1504
"""Bytes of one delivery opportunity (Netravali et al., USENIX ATC 2015, section 4: mm-link's MTU)."""

MOST_POINTS = 5_000_000
"""Largest number of points of a trace."""

MAX_VALUE = 10**12
"""Largest number of a trace in any unit (10^6 s are 12 days, 10^12 bit/s are 1 Tbit/s)."""


class TraceError(ValueError):
    """Invalid trace. The message has the file and the line."""


_TIMES = {"time_s": 10**9, "time_ms": 10**6, "time_us": 10**3, "time_ns": 1}
"""Column names of times, with the factor to nanoseconds."""

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
"""Column names of a CSV trace by kind, with the factor to nanoseconds, bit/s, a probability or dB."""

_SIGNED = ("attenuation",)
"""Kinds with values below 0: a negative attenuation is a gain."""


def _lines(folder: Path, name: str) -> list[tuple[int, str]]:
    """Return the numbered lines of a file without comments (#) and empty lines. Raises TraceError."""
    path = folder / name
    try:
        text = read_input_text(path)
    except FileNotFoundError:
        candidates = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest_file(path.name, candidates)
        hint = f'; did you mean "{Path(name).with_name(near)}"?' if near else ""
        raise TraceError(f'no file "{name}" beside the scenario{hint}') from None
    except UnicodeDecodeError:
        raise TraceError(f'cannot read "{name}": it is not text in UTF-8') from None
    except OSError as error:
        raise TraceError(f'cannot read "{name}": {error.strerror}') from None
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    data = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not data:
        raise TraceError(f'"{name}" is empty, expected at least one point')
    if len(data) > MOST_POINTS:
        raise TraceError(f'"{name}" has {len(data)} lines, expected at most {MOST_POINTS}')
    return data


def _number(field: str, name: str, line: int, quantity: str, *, signed: bool = False) -> Decimal:
    try:
        value = Decimal(field)
    except InvalidOperation:
        raise TraceError(f'"{name}", line {line}: found "{field}", expected {quantity}') from None
    if not value.is_finite() or (value < 0 and not signed):
        raise TraceError(f'"{name}", line {line}: found {field}, expected {quantity} of 0 or more')
    if value > MAX_VALUE:
        raise TraceError(f'"{name}", line {line}: found {field}, expected {quantity} of at most {MAX_VALUE}')
    return value


def read_csv(folder: Path, name: str, kind: str) -> list[tuple[int, Decimal]]:
    """Return the points ``(time in ns, value)`` of a CSV trace.

    The first line names two columns: a time (``time_s``, ``time_ms``...) and the value with its unit
    (``delay_ms``, ``rate_Mbit_s``, ``loss_percent``...).

    Args:
        folder: the directory of the scenario.
        name: the file, relative to ``folder``.
        kind: "delay", "rate", "loss" or "attenuation".

    Returns:
        Values in nanoseconds, bit/s, a probability or dB, by ``kind``.

    Raises:
        TraceError: no such file, a column without a unit, not a number, or time that runs back.
    """
    lines = _lines(folder, name)
    number, header = lines[0]
    columns = [column.strip() for column in header.split(",")]
    units = COLUMNS[kind]
    if len(columns) != 2 or columns[0] not in _TIMES or columns[1] not in units:
        allowed = (list(_TIMES), list(units))
        unknown = next(
            (column for column, names in zip(columns, allowed, strict=False) if column not in names), header
        )
        near = nearest(unknown, [*_TIMES, *units])
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
        if at > MAX_VALUE * 10**6:
            raise TraceError(
                f'"{name}", line {number}: found {fields[0]}, expected a time within {MAX_VALUE} ms'
            )
        if points and at <= points[-1][0]:
            raise TraceError(
                f'"{name}", line {number}: time goes backwards: {fields[0]} after the line before, '
                "expected increasing times"
            )
        value = _number(fields[1], name, number, f"a {kind}", signed=kind in _SIGNED)
        points.append((at, value * units[columns[1]]))
    if not points:
        raise TraceError(f'"{name}" has no points, expected at least one line below the columns')
    return points


def packet_list(folder: Path, name: str) -> list[int]:
    """Return the increasing indices of lost packets, from 0, one per line. Raises TraceError."""
    return _increasing(folder, name, "the index of a packet", strict=True)


@dataclass(frozen=True, slots=True)
class Mahimahi:
    """Delivery opportunities: instants in ns, and the period of their repetition in ns."""

    slots_ns: Sequence[int]
    repeat_ns: int

    @property
    def bit_s(self) -> int:
        """Mean rate in bit/s."""
        return len(self.slots_ns) * MAHIMAHI_BYTES * 8 * 10**9 // self.repeat_ns


def read_mahimahi(folder: Path, name: str) -> Mahimahi:
    """Return a Mahimahi packet-delivery trace: one opportunity per line, in whole milliseconds.

    The trace repeats after its last instant, as in mm-link. Raises TraceError.
    """
    instants = _increasing(folder, name, "an instant in whole milliseconds", strict=False)
    if instants[-1] == 0:
        raise TraceError(f'"{name}" ends at 0 ms, expected a trace with a duration above 0')
    return Mahimahi([instant * 10**6 for instant in instants], instants[-1] * 10**6)


def _increasing(folder: Path, name: str, quantity: str, *, strict: bool) -> list[int]:
    values: list[int] = []
    is_out_of_order: Callable[[int, int], bool] = (lambda a, b: a <= b) if strict else (lambda a, b: a < b)
    for number, line in _lines(folder, name):
        if not line.isdecimal():
            raise TraceError(f'"{name}", line {number}: found "{line}", expected {quantity}')
        value = int(line) if len(line) < 20 else MAX_VALUE + 1
        if value > MAX_VALUE:
            raise TraceError(
                f'"{name}", line {number}: found {line}, expected {quantity} of at most {MAX_VALUE}'
            )
        if values and is_out_of_order(value, values[-1]):
            order = "increasing values" if strict else "values that do not decrease"
            raise TraceError(
                f'"{name}", line {number}: time goes backwards: {value} after {values[-1]}, expected {order}'
            )
        values.append(value)
    return values
