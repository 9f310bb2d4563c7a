"""Scenario strings of pico-perf, and their streams.

Grammar, as parsed (spaces around fields are ignored)::

    load    = part *( ";" part ) [ ";" ]
    part    = "T" ":" head ":" time  /  "D" ":" head ":" bytes ":" bytes
    head    = "*" repeat ":" stream ":" previous
    stream  = id / "-" / "--"         "-": the next free id
    previous = id / "-" / "--"        "-": starts with the connection
    time    = whole number, then "s", "ms" or "us"

- Ids are those of client-initiated bidirectional streams (RFC 9000 section 2.1): multiples of 4. The ids of a repeated
  part increase by 4. All its streams wait for the same previous stream.
- Data mode (D): bytes of the client, then bytes of the server. The client sends first. After the FIN of the client the
  server sends as many bytes as the first 8 bytes of the stream specify (big-endian). With fewer than 8 bytes before FIN
  there is no response; a string that requests one is an error.
- Time mode (T): the client sends as fast as it can for this time.
- Parts run concurrently, except that a part with a previous stream starts at the end of that stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from bentpipe.scenario.quantities import Duration, Size, UnitError

__all__ = ["DataAmount", "LoadError", "Stream", "TimeAmount", "parse"]

Side = Literal["up", "down"]
HEADER_BYTES = 8
"""Header of a client stream: the response size (quic-perf, section 2.3.1)."""

MOST_BYTES = 2**62
"""Limit of offsets and ids of a stream (RFC 9000 section 16)."""

MOST_STREAMS = 10_000
"""Largest repeat count; a larger one is rejected as a mistake."""


class LoadError(ValueError):
    """Invalid scenario string. The caller puts the key before the message."""


@dataclass(frozen=True, slots=True)
class DataAmount:
    """Data mode: the client sends ``up_bytes`` and FIN, then the server ``down_bytes`` and FIN."""

    up_bytes: int
    down_bytes: int


@dataclass(frozen=True, slots=True)
class TimeAmount:
    """Time mode: one side sends as fast as it can for ``duration``."""

    duration: Duration
    send: Side


@dataclass(frozen=True, slots=True)
class Stream:
    """Stream: its id, the stream ``after`` whose end it starts, and its amount of data."""

    stream_id: int
    after: int | None
    amount: DataAmount | TimeAmount

    @property
    def sends_up(self) -> bool:
        """Whether the client sends more than the response size."""
        if isinstance(self.amount, TimeAmount):
            return self.amount.send == "up"
        # without a response, fewer than 8 bytes are data, not a response size
        return self.amount.up_bytes > (HEADER_BYTES if self.amount.down_bytes else 0)


_EXAMPLES = {"T": "T:*1:0:-:60s", "D": "D:*1:0:-:100000:100000"}

_TIME = re.compile(r"(\d+)(s|ms|us)")


def parse(text: str) -> tuple[Stream, ...]:
    """Return the streams of a pico-perf scenario string, by increasing id.

    Raises:
        LoadError: an invalid string, with the expected form.
    """
    parts = [part.strip() for part in text.split(";")]
    if parts and parts[-1] == "":
        parts.pop()
    if not parts:
        raise LoadError('found an empty load, expected for example "T:*1:0:-:60s"')
    streams: dict[int, Stream] = {}
    for number, part in enumerate(parts, start=1):
        location = f'part {number}, "{part}"'
        for stream in _parse_part(part, location, streams):
            if stream.stream_id in streams:
                free = _next_free_id(streams)
                raise LoadError(
                    f"{location}: stream {stream.stream_id} is already used, expected an id of its own; "
                    f'did you mean {free} (or "-" for the next free one)?'
                )
            streams[stream.stream_id] = stream
    ordered = tuple(streams[key] for key in sorted(streams))
    check_order(ordered)
    return ordered


def _suggest_table(text: str) -> str:
    """Return the suggestion of a load table for a bare size or duration; empty for other texts."""
    for key, quantity in (("bytes", Size), ("time", Duration)):
        try:
            quantity.parse(text)
        except UnitError:
            continue
        return f'; did you mean {{ {key} = "{text}" }}?'
    return ""


def _parse_part(part: str, location: str, used: dict[int, Stream]) -> Iterable[Stream]:
    fields = [field.strip() for field in part.split(":")]
    mode = fields[0]
    if mode not in ("T", "D"):
        if mode.startswith("*"):
            hint = f'; did you mean "D:{part}"?'
        else:
            hint = f'; did you mean "{mode.upper()}"?' if mode.upper() in ("T", "D") else _suggest_table(part)
        raise LoadError(
            f'{location}: found "{mode}", expected T (time mode) or D (data mode) as its first field, for '
            f'example "{_EXAMPLES["T"]}"; or a table such as {{ bytes = "5.3 MB" }}{hint}'
        )
    form = "T:*repeat:stream:previous:time" if mode == "T" else "D:*repeat:stream:previous:up:down"
    field_count = 5 if mode == "T" else 6
    example = _EXAMPLES[mode]
    if len(fields) != field_count:
        raise LoadError(
            f'{location}: found {len(fields)} fields, expected {field_count}: {form}, for example "{example}"'
        )
    if not re.fullmatch(r"\*\d+", fields[1]):
        near = f'; did you mean "*{fields[1]}"?' if fields[1].isdecimal() else ""
        raise LoadError(
            f'{location}: found "{fields[1]}", expected an asterisk and a repeat count such as "*1"{near}'
        )
    repeat = int(fields[1][1:]) if len(fields[1]) < 20 else MOST_BYTES
    if not 1 <= repeat <= MOST_STREAMS:
        raise LoadError(f"{location}: found a repeat count of {fields[1][1:]}, expected 1 to {MOST_STREAMS}")
    first = _parse_stream_id(fields[2], location, "stream id")
    after = _parse_stream_id(fields[3], location, "previous stream id")
    amount = (
        _parse_time_amount(fields[4], location)
        if mode == "T"
        else _parse_data_amount(fields[4], fields[5], location)
    )
    first = _next_free_id(used) if first is None else first
    return [Stream(first + 4 * index, after, amount) for index in range(repeat)]


def _next_free_id(used: Iterable[int]) -> int:
    return max(used, default=-4) + 4


def _parse_stream_id(field: str, location: str, name: str) -> int | None:
    if field in ("-", "--"):
        return None
    if not field.isdecimal():
        raise LoadError(f'{location}: found "{field}", expected a {name} (0, 4, 8...) or "-"')
    value = int(field) if len(field) < 20 else MOST_BYTES
    if value >= MOST_BYTES:
        raise LoadError(f"{location}: found {name} {field}, expected one below 2^62 (RFC 9000 section 2.1)")
    if value % 4:
        raise LoadError(
            f"{location}: found {name} {value}, expected a multiple of 4 "
            f"(a stream opened by the client in both directions); did you mean {value - value % 4}?"
        )
    return value


def _parse_time_amount(field: str, location: str) -> TimeAmount:
    match = _TIME.fullmatch(field)
    if match is None:
        near = f'; did you mean "{field}s"?' if field.isdecimal() else ""
        if re.fullmatch(r"\d+ +(s|ms|us)", field):
            near = f'; did you mean "{field.replace(" ", "")}"?'
        raise LoadError(
            f'{location}: found "{field}", expected a time such as "60s", "500ms" or "200us"{near}'
        )
    duration = Duration.parse(f"{match[1]} {match[2]}")
    if duration.ns == 0:
        raise LoadError(f'{location}: found "{field}", expected a time above 0 such as "60s"')
    return TimeAmount(duration, "up")


def _parse_data_amount(up: str, down: str, location: str) -> DataAmount:
    for field in (up, down):
        if not field.isdecimal():
            near = ""
            with suppress(UnitError):
                near = f'; did you mean "{Size.parse(field).bytes}"?'
            raise LoadError(
                f'{location}: found "{field}", expected a whole number of bytes such as "100000"{near}'
            )
        if len(field) > 19 or int(field) >= MOST_BYTES:
            raise LoadError(
                f"{location}: found {field} bytes, expected fewer than 2^62 (RFC 9000 section 16)"
            )
    amount = DataAmount(int(up), int(down))
    if amount.up_bytes == 0 and amount.down_bytes == 0:
        raise LoadError(f"{location}: found 0 bytes both ways, expected bytes to send")
    if amount.up_bytes < HEADER_BYTES and amount.down_bytes > 0:
        raise LoadError(
            f"{location}: fewer than 8 bytes before FIN: no response (the first 8 bytes of the client are "
            f'the response size); did you mean "{HEADER_BYTES}:{down}"?'
        )
    return amount


def check_order(streams: Sequence[Stream]) -> None:
    """Check that every previous stream exists and that there is no cycle. Raises LoadError."""
    by_id = {stream.stream_id: stream for stream in streams}
    for stream in streams:
        if stream.after is not None and stream.after not in by_id:
            known = ", ".join(str(key) for key in by_id if key != stream.stream_id) or "none"
            raise LoadError(
                f"stream {stream.stream_id} waits for stream {stream.after}, which does not exist; "
                f'expected one of: {known}, or "-"'
            )
    for stream in streams:
        visited = {stream.stream_id}
        previous = stream
        while previous.after is not None:
            previous = by_id[previous.after]
            if previous.stream_id in visited:
                raise LoadError(
                    f"stream {stream.stream_id} waits for itself through stream {previous.stream_id}; "
                    'expected "-" or the id of an earlier stream as previous stream'
                )
            visited.add(previous.stream_id)
