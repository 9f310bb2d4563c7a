"""What ``perf`` has kept of a measurement, read again: ``--json-stream`` or ``--csv`` of one side, or of both."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from bentpipe.lab.emulation.perf_stream import VERSION, Connection, read_frames
from bentpipe.metrics.perf_samples import PerfConnection, PerfEndpoint, Point, Stream
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.input_file import open_input, open_input_text, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["files_of", "kept_name", "read_sides"]


HEADER = ("time_s", "connection", "stream", "event")
"""First columns of a table of ``perf``."""

SUFFIXES = (".jsonl", ".csv")


def kept_name(role: str) -> str:
    """What ``--record`` calls the file of a side."""
    return f"{role}.jsonl"


def files_of(place: Path) -> list[Path]:
    """The measurements of ``perf`` that are at ``place``: it, or those in the folder, frames before a table of the same
    name; none where there are none."""
    if place.is_file():
        return [place] if _kind(place) else []
    if not place.is_dir() or (place / "plan.json").exists():
        return []
    found: dict[str, Path] = {}
    for suffix in SUFFIXES:
        for file in sorted(place.glob(f"*{suffix}")):
            if _kind(file):
                found.setdefault(file.stem, file)
    return [found[name] for name in sorted(found)]


def _kind(file: Path) -> str:
    """``frames`` or ``table`` by its first line; empty for what is neither."""
    try:
        with open_input(file) as content:
            first = content.read(4096).decode(errors="replace").partition("\n")[0]
    except OSError:
        return ""
    if first.startswith(",".join(HEADER)):
        return "table"
    try:
        begin = parse_json(first)
    except ValueError:
        return ""
    return "frames" if isinstance(begin, dict) and begin.get("frame") == "begin" else ""


def read_sides(place: Path) -> list[PerfEndpoint]:
    """The sides of the measurement at ``place``, the client first. Raises ScenarioError, which names file and fault."""
    sides = []
    for file in files_of(place):
        try:
            sides.append(_frames(file) if _kind(file) == "frames" else _table(file))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ScenarioError):
                raise
            raise ScenarioError([("", f"{file} is no whole measurement of perf: {error!r}")]) from None
    if not any(side.connections for side in sides):
        raise ScenarioError(
            [("", f"{place} has no connection: nobody came, or its process was killed at once")]
        )
    return [side for side in sides if side.connections]


# --- frames ---


def _frames(file: Path) -> PerfEndpoint:
    found = read_frames(file)
    begin, end = found.begin, found.end
    if begin is None or int(begin["version"]) > VERSION:
        text = (
            "has frames of a newer bentpipe, expected" if begin else "has no whole line, expected frames of"
        )
        raise ScenarioError([("", f"{file} {text} version {VERSION}")])
    zero = min((int(one.opening["start_ns"]) for one in found.connections.values()), default=0)
    return PerfEndpoint(
        str(begin["role"]),
        [_connection(number, found.connections[number], zero) for number in sorted(found.connections)],
        None if end is None else float(end["cpu_s"]),
        None if end is None else str(end["end"]),
    )


def _connection(number: int, found: Connection, zero: int) -> PerfConnection:
    def seconds(time_ns: int) -> float:
        return (int(time_ns) - zero) / 1e9

    points = [
        Point(
            seconds(one["time_ns"]), int(one["written_bytes"]), int(one["received_in_order_bytes"]),
            one["smoothed_rtt_ms"], one["cwnd_bytes"], one["lost_packets"],
        )
        for one in found.samples
    ]  # fmt: skip
    last: Mapping[str, Any] = found.samples[-1] if found.samples else {}
    connected = seconds(found.opening["connected_ns"])
    streams = []
    for one in found.streams:
        ends = [int(one[key]) for key in ("fin_ns", "finished_ns", "last_byte_ns") if one[key] is not None]
        ended = seconds(max(ends)) if ends else None
        streams.append(
            Stream(
                int(one["stream_id"]), int(one["written_bytes"]), int(one["received_in_order_bytes"]),
                seconds(one["opened_ns"]), ended, bool(one["done"]),
            )
        )  # fmt: skip
    ends_s = [one.ended_s for one in streams if one.ended_s is not None]
    windows = [one.window_bytes for one in points if one.window_bytes is not None]
    said = found.end or {}
    return PerfConnection(
        number, points,
        began_s=min((one.opened_s for one in streams), default=connected),
        ended_s=max(ends_s, default=points[-1].time_s if points else connected),
        transport=found.opening["transport"],
        congestion=said.get("congestion", found.opening["congestion"]),
        least_rtt_ms=last.get("min_rtt_ms"),
        largest_window_bytes=said.get("largest_cwnd_bytes") if windows else None,
        sent_packets=last.get("sent_packets"), retransmitted_bytes=last.get("retransmitted_bytes"),
        end=said.get("end", "its process was gone before it ended"), streams=streams,
    )  # fmt: skip


# --- a table ---


def _table(file: Path) -> PerfEndpoint:
    of: dict[int, list[Mapping[str, str]]] = {}
    with open_input_text(file) as lines:
        for row in csv.DictReader(lines):
            if None in row or None in row.values():
                break  # the process was killed in the middle of a line
            if row["stream"] == "all":
                of.setdefault(int(row["connection"]), []).append(row)
    return PerfEndpoint(file.stem, [_of_rows(number, rows) for number, rows in of.items()])


def _of_rows(number: int, rows: list[Mapping[str, str]]) -> PerfConnection:
    points = [
        Point(
            float(row["time_s"]), int(row["up_bytes"]), int(row["down_bytes"]), _number(row["rtt_ms"]),
            _whole(row["cwnd_bytes"]), _whole(row["lost_packets"]),
        )
        for row in rows
    ]  # fmt: skip
    last = rows[-1]
    ended = points[-1].time_s
    # Rates are averages since the first stream opened.
    spans = [
        int(last[f"{way}_bytes"]) * 8e-6 / rate
        for way in ("up", "down")
        if (rate := float(last[f"{way}_mbit_s"]))
    ]
    least = [rtt for row in rows if (rtt := _number(row["min_rtt_ms"])) is not None]
    return PerfConnection(
        number, points, began_s=ended - max(spans, default=ended), ended_s=ended,
        congestion=last["congestion"] or None, least_rtt_ms=min(least, default=None),
        largest_window_bytes=max((one.window_bytes for one in points if one.window_bytes is not None), default=None),
        sent_packets=_whole(last["sent_packets"]), retransmitted_bytes=_whole(last["retransmitted_bytes"]),
        end=None if last["event"] == "total" else "its process was gone before it ended",
    )  # fmt: skip


def _number(text: str) -> float | None:
    return float(text) if text else None


def _whole(text: str) -> int | None:
    return int(text) if text else None
