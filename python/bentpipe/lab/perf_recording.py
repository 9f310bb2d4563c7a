"""Reader of the recordings of ``perf``: ``--json-stream`` or ``--csv`` of one endpoint, or of both."""

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

__all__ = ["find_files", "read_endpoints", "recording_name"]


HEADER = ("time_s", "connection", "stream", "event")
"""First columns of a CSV file of ``perf``."""

SUFFIXES = (".jsonl", ".csv")
"""Suffixes of the files, the preferred one first."""


def recording_name(role: str) -> str:
    """Return the name of the file that ``--record`` writes for an endpoint."""
    return f"{role}.jsonl"


def find_files(place: Path) -> list[Path]:
    """Return the measurements of ``perf`` at ``place``, a file or a directory.

    A JSON stream precedes a CSV file of the same name.
    """
    if place.is_file():
        return [place] if _kind(place) else []
    if not place.is_dir() or (place / "plan.json").exists():
        return []
    files: dict[str, Path] = {}
    for suffix in SUFFIXES:
        for file in sorted(place.glob(f"*{suffix}")):
            if _kind(file):
                files.setdefault(file.stem, file)
    return [files[name] for name in sorted(files)]


def _kind(file: Path) -> str:
    """Return ``frames`` or ``table`` by the first line of ``file``; empty for other files."""
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


def read_endpoints(place: Path) -> list[PerfEndpoint]:
    """Return the endpoints of the measurement at ``place``, the client first.

    Raises:
        ScenarioError: a file cannot be read, or has no connection; the message names it.
    """
    endpoints = []
    for file in find_files(place):
        try:
            endpoints.append(_read_frames(file) if _kind(file) == "frames" else _read_table(file))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ScenarioError):
                raise
            raise ScenarioError([("", f"{file} is not a complete measurement of perf: {error!r}")]) from None
    if not any(endpoint.connections for endpoint in endpoints):
        raise ScenarioError(
            [("", f"{place} has no connection: no client connected, or the process was killed at once")]
        )
    return [endpoint for endpoint in endpoints if endpoint.connections]


# --- JSON stream ---


def _read_frames(file: Path) -> PerfEndpoint:
    frames = read_frames(file)
    begin, end = frames.begin, frames.end
    if begin is None or int(begin["version"]) > VERSION:
        text = (
            "has frames of a newer bentpipe, expected"
            if begin
            else "has no complete line, expected frames of"
        )
        raise ScenarioError([("", f"{file} {text} version {VERSION}")])
    origin_ns = min(
        (int(connection.opening["start_ns"]) for connection in frames.connections.values()), default=0
    )
    return PerfEndpoint(
        str(begin["role"]),
        [
            _convert_connection(number, frames.connections[number], origin_ns)
            for number in sorted(frames.connections)
        ],
        None if end is None else float(end["cpu_s"]),
        None if end is None else str(end["end"]),
    )


def _convert_connection(number: int, found: Connection, origin_ns: int) -> PerfConnection:
    def seconds(time_ns: int) -> float:
        return (int(time_ns) - origin_ns) / 1e9

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
    window_sizes = [one.window_bytes for one in points if one.window_bytes is not None]
    end_frame = found.end or {}
    return PerfConnection(
        number, points,
        began_s=min((one.opened_s for one in streams), default=connected),
        ended_s=max(ends_s, default=points[-1].time_s if points else connected),
        transport=found.opening["transport"],
        congestion=end_frame.get("congestion", found.opening["congestion"]),
        rtt_min_ms=last.get("min_rtt_ms"),
        largest_window_bytes=end_frame.get("cwnd_max_bytes") if window_sizes else None,
        sent_packets=last.get("sent_packets"), retransmitted_bytes=last.get("retransmitted_bytes"),
        end=end_frame.get("end", "its process ended before the connection"), streams=streams,
    )  # fmt: skip


# --- CSV file ---


def _read_table(file: Path) -> PerfEndpoint:
    rows_by_connection: dict[int, list[Mapping[str, str]]] = {}
    with open_input_text(file) as lines:
        for row in csv.DictReader(lines):
            if None in row or None in row.values():
                break  # the process was killed in the middle of a line
            if row["stream"] == "all":
                rows_by_connection.setdefault(int(row["connection"]), []).append(row)
    return PerfEndpoint(
        file.stem, [_convert_rows(number, rows) for number, rows in rows_by_connection.items()]
    )


def _convert_rows(number: int, rows: list[Mapping[str, str]]) -> PerfConnection:
    points = [
        Point(
            float(row["time_s"]), int(row["up_bytes"]), int(row["down_bytes"]), _parse_float(row["rtt_ms"]),
            _parse_int(row["cwnd_bytes"]), _parse_int(row["lost_packets"]),
        )
        for row in rows
    ]  # fmt: skip
    last = rows[-1]
    ended = points[-1].time_s
    # Rates are averages since the first stream opened.
    spans = [
        int(last[f"{direction}_bytes"]) * 8e-6 / rate
        for direction in ("up", "down")
        if (rate := float(last[f"{direction}_mbit_s"]))
    ]
    min_rtts = [rtt for row in rows if (rtt := _parse_float(row["min_rtt_ms"])) is not None]
    return PerfConnection(
        number, points, began_s=ended - max(spans, default=ended), ended_s=ended,
        congestion=last["congestion"] or None, rtt_min_ms=min(min_rtts, default=None),
        largest_window_bytes=max((one.window_bytes for one in points if one.window_bytes is not None), default=None),
        sent_packets=_parse_int(last["sent_packets"]), retransmitted_bytes=_parse_int(last["retransmitted_bytes"]),
        end=None if last["event"] == "total" else "its process ended before the connection",
    )  # fmt: skip


def _parse_float(text: str) -> float | None:
    return float(text) if text else None


def _parse_int(text: str) -> int | None:
    return int(text) if text else None
