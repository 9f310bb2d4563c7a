"""Formats of logs: ping, Mahimahi, LeoReplayer, CSV; an error names the line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bentpipe.scenario.errors import ScenarioError

__all__ = [
    "KINDS",
    "Kind",
    "Lines",
    "Log",
    "Side",
    "Transfer",
    "csv",
    "delay_unit",
    "leoreplayer",
    "log_error",
    "mahimahi",
    "number",
    "ping",
]

Kind = Literal["ping", "iperf3", "mahimahi", "leoreplayer", "csv"]
KINDS: tuple[Kind, ...] = ("ping", "iperf3", "mahimahi", "leoreplayer", "csv")
Side = Literal["up", "down"]
Lines = list[tuple[int, str]]

MAHIMAHI_BITS = 12_000
"""Bits of an opportunity as LeoReplayer and ``mm-link`` record it: 1500 bytes."""
LEOREPLAYER_S = 0.01
"""Interval of LeoReplayer's delays: a line is 10 ms (traces/README.md of SpaceNetLab/LeoCC)."""
RATE_STEP_S = 0.5
"""Interval over which opportunities become a rate, s."""
MAX_MISSING = 1_000_000
MAX_MS = 1_000_000
SLACK_S = 0.05
"""Tolerance of time order: ``ping`` rounds times of 100 ms and more to whole ms, and stamps an answer on reading."""


@dataclass
class Transfer:
    """TCP transfer in one direction: pairs of segments and retransmissions."""

    congestion: str = ""
    """Controller of the sender; empty if unknown."""
    streams: int = 1
    intervals: list[tuple[float, int]] = field(default_factory=list)
    """Pairs of each interval, if the log is the sender's."""
    whole: list[tuple[float, int]] = field(default_factory=list)
    """Pairs of each test."""


@dataclass
class Log:
    """Delays and rates over time, s."""

    path: Path
    kind: Kind
    one_way: bool = False
    """Whether the delays are one-way; else round-trip."""
    at_s: list[float] = field(default_factory=list)
    delay_ms: list[float | None] = field(default_factory=list)
    """Delay, ms; ``None`` for a loss."""
    rates: dict[Side | None, tuple[list[float], list[float]]] = field(default_factory=dict)
    """Times and bit/s by direction; ``None`` if the log does not state the direction."""
    instants: list[int] = field(default_factory=list)
    """Mahimahi's instants, unchanged, ms."""
    transfers: dict[Side, Transfer] = field(default_factory=dict)
    """Transfers of iperf3 over TCP."""
    delay_column: str = ""
    """Column of the delays of a CSV file."""
    notes: list[str] = field(default_factory=list)
    """Notes on omitted content."""

    def rate(self, side: Side | None, at_s: float, bit_s: float) -> None:
        """Add a rate."""
        times, rates = self.rates.setdefault(side, ([], []))
        times.append(at_s)
        rates.append(bit_s)


def log_error(path: Path, line: int | None, text: str) -> ScenarioError:
    """Return the error of a log."""
    return ScenarioError([("" if line is None else f"line {line}", text)], str(path))


def number(text: str) -> float | None:
    """Return a finite number; ``None`` if the text is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e21 else None


_REPLY = re.compile(r"^(?:\[(\d+(?:\.\d+)?)\] )?.*bytes from .*icmp_seq=(\d+).* time[=<](\d+(?:\.\d+)?) ?ms")
_ANSWER = re.compile(r"bytes from ")


def ping(lines: Lines, log: Log) -> None:
    """Read ``ping -D``: sending time is stamp less round trip; missing numbers are lost."""
    sent = _answers(lines, log.path)
    before: tuple[int, float, float] | None = None
    for sequence, at, took in sent:
        if before is not None:
            if sequence == before[0]:
                continue  # a duplicate
            step = (at - before[1]) / (sequence - before[0])
            for missing in range(1, min(sequence - before[0], MAX_MISSING)):
                log.at_s.append(before[1] + missing * step)
                log.delay_ms.append(None)
        log.at_s.append(at)
        log.delay_ms.append(took)
        before = (sequence, at, took)


def _answers(lines: Lines, path: Path) -> list[tuple[int, float, float]]:
    """Return number, sending time and ms of each answer, in order of numbers."""
    sent: list[tuple[int, float, float]] = []
    turns = 0
    for line, text in lines:
        if not _ANSWER.search(text):
            continue  # heads, sums, warnings, and the lines of -O on late answers
        reply = _REPLY.search(text)
        if reply is None:
            raise log_error(
                path, line, f'found "{text[:80]}", expected a reply with icmp_seq=... and time=... ms'
            )
        if reply[1] is None:
            raise log_error(path, line, "a reply without a timestamp; use ping -D")
        sequence, took = int(reply[2]) + turns, float(reply[3])
        at = float(reply[1]) - took / 1000
        if sent and sequence < sent[-1][0] - 32768:  # the number has 16 bits
            turns, sequence = turns + 65536, sequence + 65536
        if sent and sequence < sent[-1][0] and at > sent[-1][1] + SLACK_S:
            raise log_error(path, line, f"icmp_seq={reply[2]} restarts, expected one ping in a log")
        if sent and sequence > sent[-1][0] and at < sent[-1][1] - SLACK_S:
            raise log_error(path, line, "time goes backwards")
        sent.append((sequence, at, took))
    if not sent:
        raise log_error(path, None, "no replies to pings")
    return sorted(sent)


def mahimahi(lines: Lines, log: Log) -> None:
    """Read opportunities: a line is the millisecond at which a packet may leave."""
    counts: dict[int, int] = {}
    for line, text in lines:
        if not (text.isascii() and text.isdecimal()) or len(text) > 12:
            raise log_error(log.path, line, f'found "{text[:60]}", expected an instant in whole milliseconds')
        at = int(text)
        if log.instants and at < log.instants[-1]:
            raise log_error(log.path, line, f"time goes backwards: {at} after {log.instants[-1]}")
        log.instants.append(at)
        step = int(at / 1000 / RATE_STEP_S)
        counts[step] = counts.get(step, 0) + 1
    first = int(log.instants[0] / 1000 / RATE_STEP_S)
    last = int(log.instants[-1] / 1000 / RATE_STEP_S)  # which may be incomplete
    if last - first > MAX_MISSING:
        raise log_error(
            log.path, lines[-1][0], f"{log.instants[-1]} ms is beyond {MAX_MISSING} steps of 0.5 s"
        )
    if first == last:
        raise log_error(
            log.path, None, f"it lasts {log.instants[-1] - log.instants[0]} ms, expected several intervals"
        )
    for step in range(first, last):
        log.rate(None, step * RATE_STEP_S, counts.get(step, 0) * MAHIMAHI_BITS / RATE_STEP_S)


def leoreplayer(lines: Lines, log: Log) -> None:
    """Read one-way delays in ms, one line for each 10 ms."""
    log.one_way = True
    for index, (line, text) in enumerate(lines):
        value = number(text)
        if value is None or not 0 <= value < MAX_MS:
            raise log_error(log.path, line, f'found "{text[:60]}", expected a delay in ms')
        log.at_s.append(index * LEOREPLAYER_S)
        log.delay_ms.append(value)


_TIMES = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6, "time_ns": 1e-9, "timestamp": 1.0, "time": 1.0}
_DELAYS = {
    "rtt": 1.0, "rtt_ms": 1.0, "rtt_s": 1e3, "rtt_us": 1e-3, "delay_ms": 1.0, "delay_s": 1e3, "delay_us": 1e-3,
}  # fmt: skip
_RATES = {"rate_bit_s": 1.0, "rate_kbit_s": 1e3, "rate_Mbit_s": 1e6}
_WAYS = ("uplink", "downlink")
"""Columns of LENS's IRTT: -1 in one of them is a loss in that direction, with an ``rtt`` of 0."""


def delay_unit(column: str) -> tuple[str, str]:
    """Return the unit of a column of delays, and the column of the same quantity in seconds."""
    unit = {1.0: "ms", 1e3: "s", 1e-3: "us"}[_DELAYS[column]]
    return unit, f"{column.partition('_')[0]}_s"


def csv(lines: Lines, log: Log) -> None:
    """Read a time and a round trip (``rtt``, also LENS's columns), one-way delay or rate; -1 or empty is a loss."""
    header = [cell.strip() for cell in lines[0][1].split(",")]
    columns = ["timestamp", "rtt"]
    if number(header[0]) is None:
        columns, lines = header, lines[1:]
    time = next((n for n, name in enumerate(columns) if name in _TIMES), None)
    value = next((n for n, name in enumerate(columns) if name in _DELAYS or name in _RATES), None)
    if time is None or value is None:
        raise log_error(
            log.path, 1,
            f'found columns "{", ".join(columns)[:80]}", expected one of {", ".join(_TIMES)} '
            f"and one of {', '.join([*_DELAYS, *_RATES])}",
        )  # fmt: skip
    if not lines:
        raise log_error(log.path, 1, "no data rows below the column names")
    direction_columns = [n for n, name in enumerate(columns) if name in _WAYS]
    unit = _RATES.get(columns[value])
    log.one_way = columns[value].startswith("delay")
    log.delay_column = "" if unit is not None else columns[value]
    before = -1.0
    for line, text in lines:
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) <= max(time, value, *direction_columns):
            raise log_error(log.path, line, f"found {len(cells)} fields, expected {len(columns)}")
        at, found = number(cells[time]), number(cells[value] or "-1")
        if at is None or found is None or found >= 1e15:
            bad = cells[time] if at is None else cells[value]
            raise log_error(log.path, line, f'found "{bad[:60]}", expected a number')
        at *= _TIMES[columns[time]] * _time_unit(at, columns[time])
        if at < before:
            raise log_error(log.path, line, "time goes backwards")
        before = at
        if unit is not None:
            log.rate(None, at, max(0.0, found) * unit)
            continue
        lost = found < 0 or any(cells[column] == "-1" for column in direction_columns)
        log.at_s.append(at)
        log.delay_ms.append(None if lost else found * _DELAYS[columns[value]])


def _time_unit(at: float, column: str) -> float:
    """Return the unit of a time of day without unit: s, or ms or ns if the date would be implausible."""
    if column not in ("timestamp", "time"):
        return 1.0
    return 1e-9 if at > 1e17 else 1e-3 if at > 1e11 else 1.0
