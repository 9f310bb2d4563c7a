"""Radio channels (``ChannelSpec``)."""

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

_LIGHT_SPEED_M_S = 299_792_458
_MIN_STEP_NS = 1_000
_MAX_STEP_NS = 1_000_000
_MAX_ATTENUATION_DB = 200


def channel(config: Channel, files: Files, key: str) -> ChannelSpec:
    """Return the ``ChannelSpec`` of a channel.

    Args:
        config: the table of the scenario.
        files: input files.
        key: key of the table, for errors.

    Raises:
        ScenarioError: parameters that were never published, an elevation outside the tables, a step that is too
            long, or a file that cannot be used.
    """
    at_reference = _channel_at_reference(config, files, key)
    if config.snr_range is not None:
        return {
            "kind": "range_loss",
            "loss": _range_loss(config.snr_range, files, key),
            "channel": at_reference,
        }
    return at_reference


def _channel_at_reference(config: Channel, files: Files, key: str) -> ChannelSpec:
    """Return the channel at the distance for which the scenario gives Es/N0."""
    if config.model == "white-noise":
        return {"kind": "fixed", "snr_db": config.snr.db}
    if config.model == "perez-fontan":
        return _three_states(config, files, key)
    if config.model == "p681":
        return _two_states(config, files, key)
    if config.model == "rayleigh":
        return {"kind": "rayleigh", "reference": _reference(config), "motion": _motion(config, key)}
    return _measured(config, files, key)


def elevation_note(config: Channel, key: str) -> str | None:
    """Return a note on the published elevation in use; None if it is the configured one."""
    if config.elevation is None:
        return None
    if config.elevation == "orbit":
        return (
            "it follows the orbit: at each instant the table of the highest published elevation below is used"
        )
    elevation_deg = config.elevation.degrees
    if config.model == "perez-fontan":
        published = _elevation(config, _fontan(config, key), elevation_deg, key)
    else:
        published = _elevation(config, _p681(config, key), elevation_deg, key)
    if elevation_deg == published:
        return None
    return f"there is no table for {config.elevation}; that of {published} deg, the highest below, is used"


def _fontan(config: Channel, key: str) -> Mapping[int, ThreeStates]:
    """Return the published parameters of the environment, by elevation. Raises ScenarioError."""
    low, high = FONTAN_BAND
    if not low <= config.frequency <= high:
        raise _error(
            key, "frequency", f"found {config.frequency}, expected {low} to {high}: the tables are of S band"
        )
    if config.environment == "urban":
        raise _error(
            key,
            "environment",
            'found "urban", whose table is not complete (no lengths of frames and transitions), expected one of: '
            f'{", ".join(FONTAN)}; model = "p681" has it',
        )
    return _environment(config, FONTAN, key)


def _p681(config: Channel, key: str) -> Mapping[int, TwoStates]:
    """Return the published parameters of the environment, by elevation. Raises ScenarioError."""
    for (low, high), tables in P681.items():
        if low <= config.frequency <= high:
            return _environment(config, tables, key)
    bands = " or ".join(f"{low} to {high}" for low, high in P681)
    raise _error(
        key, "frequency", f"found {config.frequency}, expected {bands}: there is no table for others"
    )


def _environment(config: Channel, published: Mapping[str, _Cells], key: str) -> _Cells:
    environment = config.environment or ""
    tables = published.get(environment)
    if tables is None:
        kind = f"published table at {config.frequency} for the environment"
        raise _error(key, "environment", unknown_name(environment, published, kind))
    return tables


def _elevation(
    config: Channel, tables: Mapping[int, object], elevation_deg: float, key: str, at_ns: int | None = None
) -> int:
    """Return the highest published elevation that is not above the configured one. Raises ScenarioError."""
    below = [elevation for elevation in tables if elevation <= elevation_deg]
    if not below:
        when = f" at {Duration(at_ns)}" if at_ns is not None else ""
        raise _error(
            key,
            "elevation",
            f'found {elevation_deg:.6g} deg{when}, below the lowest table of "{config.environment}", expected at least '
            f"{min(tables)} deg",
        )
    return max(below)


def _elevations(
    config: Channel, tables: Mapping[int, object], files: Files, key: str
) -> list[tuple[int, int]]:
    """Return (ns, published elevation) for each change of the table. Raises ScenarioError."""
    if config.elevation is None:
        raise _error(key, "elevation", "missing, expected a value")
    if config.elevation != "orbit":
        return [(0, _elevation(config, tables, config.elevation.degrees, key))]
    timeline = files.route_timeline(f"{key}.elevation")
    used: list[tuple[int, int]] = []
    for step, elevation_deg in enumerate(timeline.elevations_deg[1]):
        if elevation_deg is not None:  # no channel without a route
            at = step * timeline.step_ns
            elevation = _elevation(config, tables, elevation_deg, key, at)
            if not used or used[-1][1] != elevation:
                used.append((at if used else 0, elevation))
    return used


def _three_states(config: Channel, files: Files, key: str) -> ThreeStateChannelSpec:
    tables = _fontan(config, key)
    used = {elevation for _, elevation in _elevations(config, tables, files, key)}
    if len(used) > 1:
        raise _error(key, "elevation", "found an orbit over several tables, which this model cannot follow")
    cell = tables[used.pop()]
    same_length = config.state_lengths == "one"
    return {
        "kind": "three_state",
        "reference": _reference(config),
        "motion": _motion(config, key),
        "look_angle": _look_angle(config, files, key),
        "transitions": cell.transitions,
        "states": [_loo(*state) for state in cell.states],
        "frames_m": [cell.frames_m[0]] * len(cell.frames_m) if same_length else cell.frames_m,
        "transition_m": cell.transition_m,
        "correlation_m": cell.correlation_m,
    }


def _two_states(config: Channel, files: Files, key: str) -> SemiMarkovChannelSpec:
    tables = _p681(config, key)
    return {
        "kind": "semi_markov",
        "reference": _reference(config),
        "motion": _motion(config, key),
        "look_angle": _look_angle(config, files, key),
        "cells": [
            _two_state_cell(at, tables[elevation])
            for at, elevation in _elevations(config, tables, files, key)
        ],
    }


def _two_state_cell(at_ns: int, cell: TwoStates) -> SemiMarkovCellSpec:
    return {
        "at_ns": at_ns,
        "good": _state(cell.good, (0.0, 1.0)),
        "bad": _state(cell.bad, cell.bad_quantiles),
        "correlation_m": cell.correlation_m,
        "transition_m_per_db": cell.transition_m_per_db,
        "transition_offset_m": cell.transition_least_m,
    }


def _state(numbers: tuple[float, ...], quantiles: tuple[float, float]) -> SemiMarkovStateSpec:
    mu, sigma, least, mean, deviation, h1, h2, g1, g2 = numbers
    return {
        "ln_mean": mu,
        "ln_deviation": sigma,
        "min_length_m": least,
        "mean_db": mean,
        "mean_deviation_db": deviation,
        "quantiles": list(quantiles),
        "deviation_per_db": g1,
        "deviation_db": g2,
        "multipath_per_db": h1,
        "multipath_db": h2,
    }


def _measured(config: Channel, files: Files, key: str) -> MeasuredChannelSpec:
    if config.trace is not None:
        trace = files.csv(config.trace, "attenuation", f"{key}.trace")
        points = [(at, float(value)) for at, value in trace]
    else:
        points = [(point.at.ns, point.attenuation.db) for point in config.schedule or []]
    if config.repeat is not None and points[-1][0] >= config.repeat.ns:
        last = Duration(points[-1][0])
        raise _error(key, "repeat", f"found {config.repeat}, expected more than the last point's {last}")
    excessive = next((value for _, value in points if abs(value) > _MAX_ATTENUATION_DB), None)
    if excessive is not None:
        raise _error(
            key,
            "trace",
            f"found an attenuation of {excessive:g} dB, expected at most {_MAX_ATTENUATION_DB} dB",
        )
    return {
        "kind": "measured",
        "reference": _reference(config),
        "points": [[at, value] for at, value in points],
        "interpolation": config.interpolation,
        "repeat_ns": config.repeat.ns if config.repeat is not None else None,
    }


def _reference(config: Channel) -> ReferenceSnr:
    return {"snr_db": config.snr.db, "error_db": config.snr_error.db}


def _loo(mean_db: float, deviation_db: float, multipath_db: float) -> LooSpec:
    return {"mean_db": mean_db, "deviation_db": deviation_db, "multipath_db": multipath_db}


def _look_angle(config: Channel, files: Files, key: str) -> LookAngle:
    """Return elevation and azimuth of the satellite; on an orbit, the elevation at the start."""
    if config.elevation == "orbit":
        elevations = files.route_timeline(f"{key}.elevation").elevations_deg[1]
        elevation = next(degrees for degrees in elevations if degrees is not None)
    else:
        elevation = config.elevation.degrees if config.elevation is not None else 0.0
    return {"elevation_deg": elevation, "azimuth_deg": config.azimuth.degrees}


def _range_loss(reference: Distance, files: Files, key: str) -> list[list[float]]:
    """Return (ns, dB) of the free-space loss to the last satellite, relative to the reference distance."""
    timeline = files.route_timeline(f"{key}.snr_range")
    return [
        [step * timeline.step_ns, 20 * math.log10(delay_ns * 1e-9 * _LIGHT_SPEED_M_S / reference.m)]
        for step, delay_ns in enumerate(timeline.last_ns)
        if delay_ns is not None  # no channel without a route
    ]


def _motion(config: Channel, key: str) -> TerminalMotion:
    speed = config.speed
    if speed is None:
        raise _error(key, "speed", "missing, expected a value")
    # The step is below 1/16 wavelength after rounding.
    sixteenth_ns = Fraction(_LIGHT_SPEED_M_S * 3600, 16 * config.frequency.hz * speed.m_h) * 10**9
    max_step = min(_MAX_STEP_NS, math.ceil(sixteenth_ns) - 1)
    if max_step < _MIN_STEP_NS:
        raise _error(
            key, "speed", f"found {speed}, expected a speed at which 1/16 wavelength takes 1 us or more"
        )
    step = config.step.ns if config.step is not None else max_step
    if step < _MIN_STEP_NS:
        raise _error(key, "step", f"found {config.step}, expected at least 1 us")
    if step > max_step:
        raise _error(
            key,
            "step",
            f"found {config.step}, expected at most {Duration(max_step)}, the shorter of 1 ms and 1/16 wavelength "
            f"at {speed}",
        )
    return {
        "seed": config.seed,
        "step_ns": step,
        "carrier_hz": config.frequency.hz,
        "speed_m_s": speed.m_s,
    }


def _error(key: str, name: str, text: str) -> ScenarioError:
    return ScenarioError([(f"{key}.{name}", text)])
