"""Merged logs: one of delays, one of rates for each direction, and the phase of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.fit.log_formats import delay_unit
from bentpipe.fit.log_reader import KINDS, Log, read
from bentpipe.fit.model import Points, Rates
from bentpipe.fit.phase import Phase, find, refine_phase
from bentpipe.scenario.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.fit.log_formats import Side, Transfer

__all__ = ["MergedLogs", "gather", "source"]

DAY_S = 1e8
"""Times above are times of day (1973 and later); times below count from the start of the log."""
MAX_S = 30 * 86_400.0
MIN_DELAY_MS = 1.0
"""Minimum plausible median delay: light takes 1.1 ms to a satellite 160 km above the ground and back."""
SPARSE = 100
"""Maximum ratio of steps to points of a log of probes."""


@dataclass
class MergedLogs:
    """Merged logs, and the phase of their intervals."""

    logs: list[Log]
    points: Points | None = None
    one_way: bool = False
    rates: dict[Side, Rates] = field(default_factory=dict)
    instants: dict[Side, list[int]] = field(default_factory=dict)
    """Mahimahi's traces, unchanged."""
    transfers: dict[Side, Transfer] = field(default_factory=dict)
    """TCP transfers, if iperf3 logged them."""
    phase_s: float = 0.0
    phase: Phase | None = None
    """Estimate of the phase; ``None`` if it was given."""
    of_day: bool = False
    """Whether the phase counts from second 0 of a minute; else from the start of the log."""


def source(logs: Sequence[Log]) -> str:
    """Return the names of the logs."""
    return ", ".join(log.path.name for log in logs)


def gather(files: Sequence[str], up: Sequence[str], every_s: float, phase_s: float | None) -> MergedLogs:
    """Read logs and estimate the phase of their intervals.

    Raises:
        ScenarioError: a log is invalid, duplicate, or without intervals.
    """
    logs = [_read(file) for file in files]
    uplink_logs = [_read(file) for file in up]
    for log in uplink_logs:
        if log.at_s:
            raise ScenarioError([("--up", f"{log.path} has delays, expected a log of the uplink's rate")])
    found = MergedLogs([*logs, *uplink_logs])
    for log in logs:
        _add(found, log, "down")
    for log in uplink_logs:
        _add(found, log, "up")
    _phase(found, every_s, phase_s)
    return found


def _read(file: str) -> Log:
    kind = next((kind for kind in KINDS if file.startswith(f"{kind}=")), None)
    prefix, separator, path = file.partition("=")
    if kind is None and separator and not Path(file).exists() and Path(path).exists():
        raise ScenarioError([("", unknown_name(prefix, KINDS, "kind"))], file)
    return read(Path(file.removeprefix(f"{kind}=") if kind else file), kind)


def _add(found: MergedLogs, log: Log, side: Side) -> None:
    if log.at_s:
        if found.points is not None:
            raise ScenarioError(
                [("", "duplicate log of delays, expected one; fit each log separately")], str(log.path)
            )
        at_s = np.asarray(log.at_s, float)
        delays = np.asarray([np.nan if one is None else one for one in log.delay_ms], float)
        order = np.argsort(at_s, kind="stable")
        found.points, found.one_way = Points(at_s[order], delays[order]), log.one_way
        if np.isnan(delays).all():
            raise ScenarioError([("", "every packet is lost, expected delays")], str(log.path))
        _check(at_s[order], found.points.step_s(), log)
        _check_unit(float(np.nanmedian(delays)), log)
    for known, (times, rates) in log.rates.items():
        direction = side if known is None or side == "up" else known
        if direction in found.rates:
            text = f"duplicate log of the rate {direction}, expected one; use --up FILE for the uplink"
            raise ScenarioError([("", text)], str(log.path))
        found.rates[direction] = Rates(np.asarray(times, float), np.asarray(rates, float))
        _check(found.rates[direction].at_s, 1.0, log)
        if log.instants:
            found.instants[direction] = log.instants
        if known in log.transfers:
            found.transfers[direction] = log.transfers[known]


def _check_unit(median_ms: float, log: Log) -> None:
    """Add a note if the delays are less than those of any satellite path: mostly a wrong unit."""
    if median_ms >= MIN_DELAY_MS:
        return
    text = f"warning: the median delay is {median_ms:.3g} ms, expected at least {MIN_DELAY_MS:g} ms over a satellite"
    if log.delay_column:
        unit, in_seconds = delay_unit(log.delay_column)
        text += f'. Column "{log.delay_column}" is read in {unit}'
        text += f'; name it "{in_seconds}" if it is in seconds' if unit != "s" else ""
    log.notes.append(text)


def _check(at_s: np.ndarray[tuple[int], np.dtype[np.float64]], step_s: float, log: Log) -> None:
    span = float(at_s[-1] - at_s[0])
    if span > MAX_S:
        text = f"it has {span / 86_400:.0f} days, expected at most {MAX_S / 86_400:.0f}"
        raise ScenarioError([("", text)], str(log.path))
    if span / step_s > SPARSE * len(at_s) + 1000:
        text = f"its {len(at_s)} points leave out most of its {span:.4g} s, expected regular ones"
        raise ScenarioError([("", text)], str(log.path))


def _phase(found: MergedLogs, every_s: float, fixed_s: float | None) -> None:
    """Set the phase of all by the delays, if any; rates on a different clock get a phase of their own."""
    points = found.points
    series = [] if points is None else [(points.at_s, points.delay_ms)]
    series += [(rates.at_s, rates.bit_s / 1e6) for rates in found.rates.values()]
    name = ", ".join(str(log.path) for log in found.logs)
    if fixed_s is None:
        at_s, values = series[0]
        known = ~np.isnan(values)
        found.phase = find(at_s[known], values[known], every_s, name)
        found.phase_s = found.phase.phase_s
        if points is not None:
            found.phase_s = refine_phase(points, found.phase_s, every_s)
    else:
        found.phase_s = fixed_s % every_s
    found.of_day = bool(series[0][0][0] > DAY_S)
    for side, rates in found.rates.items():
        same = bool(rates.at_s[0] > DAY_S) == found.of_day
        rates_phase_s = found.phase_s if same or fixed_s is not None else _rates_phase(rates, every_s, name)
        found.rates[side] = replace(rates, phase_s=rates_phase_s)


def _rates_phase(rates: Rates, every_s: float, name: str) -> float:
    return find(rates.at_s, rates.bit_s / 1e6, every_s, name).phase_s
