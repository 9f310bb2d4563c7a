"""A radio channel in the engine's words."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from bentpipe.plan.link.channel_parameters import FONTAN, FONTAN_BAND, P681, ThreeStates, TwoStates
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.plan.input_files import Files
    from bentpipe.plan.spec.run_spec import (
        ChannelSpec,
        LookAngle,
        LooSpec,
        MeasuredChannelSpec,
        ReferenceSnr,
        SemiMarkovCellSpec,
        SemiMarkovChannelSpec,
        SemiMarkovStateSpec,
        TerminalMotion,
        ThreeStateChannelSpec,
    )
    from bentpipe.scenario.link.channel import Channel
    from bentpipe.scenario.quantities import Distance

__all__ = ["channel", "elevation_note"]

_Cells = TypeVar("_Cells", bound="Mapping[int, object]")

_LIGHT_M_S = 299_792_458
_LEAST_STEP_NS = 1_000
_LONGEST_STEP_NS = 1_000_000


def channel(found: Channel, files: Files, key: str) -> ChannelSpec:
    """``ChannelSpec`` of a channel; ``key`` is said in errors.

    Raises:
        ScenarioError: a cell that was never published, an elevation outside the tables, a step too long, a file that
            cannot be used.
    """
    if found.snr_range is not None:
        near: ChannelSpec = _own(found, files, key)
        return {"kind": "ranged", "loss": _range_loss(found.snr_range, files, key), "channel": near}
    return _own(found, files, key)


def _own(found: Channel, files: Files, key: str) -> ChannelSpec:
    """The channel at the distance at which Es/N0 is given."""
    if found.model == "white-noise":
        return {"kind": "fixed", "snr_db": found.snr.db}
    if found.model == "perez-fontan":
        return _three_states(found, files, key)
    if found.model == "p681":
        return _two_states(found, files, key)
    if found.model == "rayleigh":
        return {"kind": "rayleigh", "reference": _reference(found), "motion": _motion(found, key)}
    return _measured(found, files, key)


def elevation_note(found: Channel, key: str) -> str | None:
    """Which elevation's table is used, where there is none of the one asked for."""
    if found.elevation is None:
        return None
    if found.elevation == "orbit":
        return (
            "it follows the orbit: at each instant the table of the highest published elevation below is used"
        )
    asked = found.elevation.degrees
    if found.model == "perez-fontan":
        published = _elevation(found, _fontan(found, key), asked, key)
    else:
        published = _elevation(found, _p681(found, key), asked, key)
    if asked == published:
        return None
    return f"there is no table for {found.elevation}; that of {published} deg, the highest below, is used"


def _fontan(found: Channel, key: str) -> Mapping[int, ThreeStates]:
    """The cells of the environment, by elevation."""
    low, high = FONTAN_BAND
    if not low <= found.frequency <= high:
        raise _error(
            key, "frequency", f"found {found.frequency}, expected {low} to {high}: the tables are of S band"
        )
    if found.environment == "urban":
        raise _error(
            key,
            "environment",
            'found "urban", whose table is not complete (no lengths of frames and transitions), expected one of: '
            f'{", ".join(FONTAN)}; model = "p681" has it',
        )
    return _environment(found, FONTAN, key)


def _p681(found: Channel, key: str) -> Mapping[int, TwoStates]:
    """The cells of the environment, by elevation."""
    for (low, high), tables in P681.items():
        if low <= found.frequency <= high:
            return _environment(found, tables, key)
    bands = " or ".join(f"{low} to {high}" for low, high in P681)
    raise _error(key, "frequency", f"found {found.frequency}, expected {bands}: there is no table for others")


def _environment(found: Channel, published: Mapping[str, _Cells], key: str) -> _Cells:
    environment = found.environment or ""
    tables = published.get(environment)
    if tables is None:
        what = f"published table at {found.frequency} for the environment"
        raise _error(key, "environment", unknown_name(environment, published, what))
    return tables


def _elevation(
    found: Channel, tables: Mapping[int, object], asked: float, key: str, at_ns: int | None = None
) -> int:
    """The highest elevation with a table that is not above the one asked for."""
    below = [elevation for elevation in tables if elevation <= asked]
    if not below:
        when = f" at {Duration(at_ns)}" if at_ns is not None else ""
        raise _error(
            key,
            "elevation",
            f'found {asked:.6g} deg{when}, below the lowest table of "{found.environment}", expected at least '
            f"{min(tables)} deg",
        )
    return max(below)


def _elevations(
    found: Channel, tables: Mapping[int, object], files: Files, key: str
) -> list[tuple[int, int]]:
    """From which instants on which elevation's table holds."""
    if found.elevation is None:
        raise _error(key, "elevation", "missing, expected a value")
    if found.elevation != "orbit":
        return [(0, _elevation(found, tables, found.elevation.degrees, key))]
    ways = files.route_timeline(f"{key}.elevation")
    used: list[tuple[int, int]] = []
    for step, seen in enumerate(ways.elevations_deg[1]):
        if seen is not None:  # else there is no way, and no channel
            at = step * ways.step_ns
            elevation = _elevation(found, tables, seen, key, at)
            if not used or used[-1][1] != elevation:
                used.append((at if used else 0, elevation))
    return used


def _three_states(found: Channel, files: Files, key: str) -> ThreeStateChannelSpec:
    tables = _fontan(found, key)
    used = {elevation for _, elevation in _elevations(found, tables, files, key)}
    if len(used) > 1:
        raise _error(key, "elevation", "found an orbit over several tables, which this model cannot follow")
    cell = tables[used.pop()]
    one = found.state_lengths == "one"
    return {
        "kind": "three_state",
        "reference": _reference(found),
        "motion": _motion(found, key),
        "sight": _sight(found, files, key),
        "transitions": cell.transitions,
        "states": [_loo(*state) for state in cell.states],
        "frames_m": [cell.frames_m[0]] * len(cell.frames_m) if one else cell.frames_m,
        "transition_m": cell.transition_m,
        "correlation_m": cell.correlation_m,
    }


def _two_states(found: Channel, files: Files, key: str) -> SemiMarkovChannelSpec:
    tables = _p681(found, key)
    return {
        "kind": "semi_markov",
        "reference": _reference(found),
        "motion": _motion(found, key),
        "sight": _sight(found, files, key),
        "cells": [
            _two_state_cell(at, tables[elevation]) for at, elevation in _elevations(found, tables, files, key)
        ],
    }


def _two_state_cell(at_ns: int, cell: TwoStates) -> SemiMarkovCellSpec:
    return {
        "at_ns": at_ns,
        "good": _state(cell.good, (0.0, 1.0)),
        "bad": _state(cell.bad, cell.bad_quantiles),
        "correlation_m": cell.correlation_m,
        "transition_m_per_db": cell.transition_m_per_db,
        "transition_least_m": cell.transition_least_m,
    }


def _state(numbers: tuple[float, ...], quantiles: tuple[float, float]) -> SemiMarkovStateSpec:
    mu, sigma, least, mean, deviation, h1, h2, g1, g2 = numbers
    return {
        "ln_mean": mu,
        "ln_deviation": sigma,
        "least_m": least,
        "mean_db": mean,
        "mean_deviation_db": deviation,
        "quantiles": list(quantiles),
        "deviation_per_db": g1,
        "deviation_db": g2,
        "multipath_per_db": h1,
        "multipath_db": h2,
    }


def _measured(found: Channel, files: Files, key: str) -> MeasuredChannelSpec:
    if found.trace is not None:
        read = files.csv(found.trace, "attenuation", f"{key}.trace")
        points = [(at, float(value)) for at, value in read]
    else:
        points = [(point.at.ns, point.attenuation.db) for point in found.schedule or []]
    if found.repeat is not None and points[-1][0] >= found.repeat.ns:
        last = Duration(points[-1][0])
        raise _error(key, "repeat", f"found {found.repeat}, expected more than the last point's {last}")
    steepest = next((value for _, value in points if abs(value) > _MOST_DB), None)
    if steepest is not None:
        raise _error(key, "trace", f"found an attenuation of {steepest:g} dB, expected at most {_MOST_DB} dB")
    return {
        "kind": "measured",
        "reference": _reference(found),
        "points": [[at, value] for at, value in points],
        "interpolation": found.interpolation,
        "repeat_ns": found.repeat.ns if found.repeat is not None else None,
    }


_MOST_DB = 200


def _reference(found: Channel) -> ReferenceSnr:
    return {"snr_db": found.snr.db, "error_db": found.snr_error.db}


def _loo(mean_db: float, deviation_db: float, multipath_db: float) -> LooSpec:
    return {"mean_db": mean_db, "deviation_db": deviation_db, "multipath_db": multipath_db}


def _sight(found: Channel, files: Files, key: str) -> LookAngle:
    """Where the satellite is; of an orbit at the start."""
    if found.elevation == "orbit":
        seen = files.route_timeline(f"{key}.elevation").elevations_deg[1]
        elevation = next(one for one in seen if one is not None)
    else:
        elevation = found.elevation.degrees if found.elevation is not None else 0.0
    return {"elevation_deg": elevation, "azimuth_deg": found.azimuth.degrees}


def _range_loss(reference: Distance, files: Files, key: str) -> list[list[float]]:
    """Free-space loss to the orbit's last satellite beyond that at the reference, in dB, by the orbit's steps."""
    ways = files.route_timeline(f"{key}.snr_range")
    return [
        [step * ways.step_ns, 20 * math.log10(way_ns * 1e-9 * _LIGHT_M_S / reference.m)]
        for step, way_ns in enumerate(ways.last_ns)
        if way_ns is not None  # else there is no way, and no channel
    ]


def _motion(found: Channel, key: str) -> TerminalMotion:
    speed = found.speed
    if speed is None:
        raise _error(key, "speed", "missing, expected a value")
    # 1/16 wavelength, less what rounding might add.
    sixteenth = Fraction(_LIGHT_M_S * 3600, 16 * found.frequency.hz * speed.m_h) * 10**9
    most = min(_LONGEST_STEP_NS, math.ceil(sixteenth) - 1)
    if most < _LEAST_STEP_NS:
        raise _error(
            key, "speed", f"found {speed}, expected a speed at which 1/16 wavelength takes 1 us or more"
        )
    step = found.step.ns if found.step is not None else most
    if step < _LEAST_STEP_NS:
        raise _error(key, "step", f"found {found.step}, expected at least 1 us")
    if step > most:
        raise _error(
            key,
            "step",
            f"found {found.step}, expected at most {Duration(most)}, the shorter of 1 ms and 1/16 wavelength "
            f"at {speed}",
        )
    return {
        "seed": found.seed,
        "step_ns": step,
        "carrier_hz": found.frequency.hz,
        "speed_m_s": speed.m_s,
    }


def _error(key: str, name: str, text: str) -> ScenarioError:
    return ScenarioError([(f"{key}.{name}", text)])
