"""Tables and data of a map: load times at the RTT of the access, and object sizes by RTT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.break_even.gains import gain, gains
from bentpipe.break_even.recommendation import (
    format_ranges,
    headline_text,
    judgements,
    kinds_text,
    supporting_text,
)
from bentpipe.metrics.format import format_mean
from bentpipe.metrics.intervals import format_significant

if TYPE_CHECKING:
    from bentpipe.break_even.ratios import LoadTimes, Map

__all__ = ["data", "load_time_rows", "ratio_rows", "size_rows", "titles"]


def titles(result: Map) -> tuple[str, str]:
    """Return the titles of :func:`load_time_rows` at the own RTT and of :func:`size_rows`."""
    rtt = result.config.own_rtt
    return f"Page load time at {rtt}, s", "Objects that load faster over split TCP, by RTT"


def load_time_rows(result: Map, rtt: str | None = None) -> list[dict[str, Any]]:
    """Return the load times of all variants at an RTT (default: that of the access), one row for each size."""
    rtt = rtt or result.config.own_rtt
    return [
        {"object": size}
        | {one.name: _time_text(result.times.get((one.name, size, rtt))) for one in result.config.variants}
        for size in result.config.sizes
    ]


def _time_text(times: LoadTimes | None) -> str | None:
    if times is None or times.mean is None:
        return None
    if times.unfinished:
        return f"> {format_significant(times.mean.estimate, 3)}"
    return format_mean(times.mean, digits=3)


def size_rows(result: Map) -> list[dict[str, Any]]:
    """Return the object sizes for which each kind of proxy is faster, one row for each RTT and variant."""
    config = result.config
    rows = []
    for rtt in config.rtts:
        for alternative in config.alternatives:
            row: dict[str, Any] = {"RTT": _rtt_text(result, rtt), "faster than": alternative.name}
            for split in config.split:
                found = gain(result, alternative.name, split.proxy, rtt)
                row[split.name] = None if found is None else format_ranges(found.faster)
            rows.append(row)
    return rows


def _rtt_text(result: Map, rtt: str) -> str:
    is_own = rtt == result.config.own_rtt and result.config.access.rtt is not None
    return f"{rtt} (yours)" if is_own else rtt


def ratio_rows(result: Map) -> list[dict[str, Any]]:
    """Return all ratios with their intervals and load times."""
    return [
        {
            "variant": cell.alternative, "PEP": cell.proxy, "object": cell.size, "RTT": cell.rtt,
            "without PEP, s": cell.times_s[0], "with PEP, s": cell.times_s[1],
            "ratio": None if cell.ratio is None else f"{cell.bound}{format_significant(cell.estimate, 3)}",
            "low": None if cell.ratio is None else cell.ratio.low,
            "high": None if cell.ratio is None else cell.ratio.high,
        }
        for cell in result.cells
    ]  # fmt: skip


def data(result: Map) -> dict[str, Any]:
    """Return the map as plain data."""
    config = result.config
    return {
        "engine": result.engine,
        "access": config.access.name,
        "rtt": config.own_rtt,
        "proxies": list(config.proxies),
        "tcp": config.tcp,
        "seeds": result.seeds,
        "answer": " ".join([headline_text(result), *kinds_text(result)]),
        "verdicts": {one.proxy: one.verdict for one in judgements(result)},
        "assumptions": supporting_text(result),
        "gains": [gain.as_row() for gain in gains(result)],
        "load_times": load_time_rows(result),
        "break_even": size_rows(result),
        "cells": [cell.as_row() for cell in result.cells],
    }
