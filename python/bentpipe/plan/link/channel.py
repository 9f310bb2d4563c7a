"""Radio channels (``ChannelSpec``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
        SemiMarkovCellSpec,
        SemiMarkovStateSpec,
    )
    from bentpipe.scenario.link.channel import ElevationText
    from bentpipe.scenario.link.generated import Channel
    from bentpipe.scenario.link.hooks import ThreeStates as ThreeStateFields
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
    at_reference = config.to_spec(_ChannelHooks(config, files, key))
    if config.snr_range is not None:
        return {
            "kind": "range_loss",
            "loss": _range_loss(config.snr_range, files, key),
            "channel": at_reference,
        }
    return at_reference


@dataclass(frozen=True, slots=True)
class _ChannelHooks:
    """Published parameters, files and the orbit of a channel (``ChannelHooks`` of the scenario)."""

    config: Channel
    files: Files
    key: str

    def step_ns(self, step: Duration | None, key: str) -> int:
        """Return the step, by default the longest: at most 1 ms, and below 1/16 wavelength after rounding."""
        speed = self.config.speed
        if speed is None:
            raise _error(self.key, "speed", "missing, expected a value")
        sixteenth_ns = Fraction(_LIGHT_SPEED_M_S * 3600, 16 * self.config.frequency.hz * speed.m_h) * 10**9
        max_step = min(_MAX_STEP_NS, math.ceil(sixteenth_ns) - 1)
        if max_step < _MIN_STEP_NS:
            raise _error(
                self.key,
                "speed",
                f"found {speed}, expected a speed at which 1/16 wavelength takes 1 us or more",
            )
        if step is None:
            return max_step
        if step.ns < _MIN_STEP_NS:
            raise _error(self.key, key, f"found {step}, expected at least 1 us")
        if step.ns > max_step:
            raise _error(
                self.key,
                key,
                f"found {step}, expected at most {Duration(max_step)}, the shorter of 1 ms and 1/16 wavelength at "
                f"{speed}",
            )
        return step.ns

    def elevation_deg(self, elevation: ElevationText, key: str) -> float:
        """Return the elevation; on an orbit, that at the start."""
        if elevation != "orbit":
            return elevation.degrees
        elevations = self.files.route_timeline(f"{self.key}.{key}").elevations_deg[1]
        return next(degrees for degrees in elevations if degrees is not None)

    def three_states(self, state_lengths: str, key: str) -> ThreeStateFields:
        """Return the published parameters; a frame is as long as the state's, or as the first state's."""
        del key
        tables = _fontan(self.config, self.key)
        used = {elevation for _, elevation in _elevations(self.config, tables, self.files, self.key)}
        if len(used) > 1:
            raise _error(
                self.key, "elevation", "found an orbit over several tables, which this model cannot follow"
            )
        cell = tables[used.pop()]
        frames_m = cell.frames_m
        return {
            "transitions": cell.transitions,
            "states": [
                {"mean_db": mean_db, "deviation_db": deviation_db, "multipath_db": multipath_db}
                for mean_db, deviation_db, multipath_db in cell.states
            ],
            "frames_m": [frames_m[0]] * len(frames_m) if state_lengths == "one" else frames_m,
            "transition_m": cell.transition_m,
            "correlation_m": cell.correlation_m,
        }

    def cells(self) -> list[SemiMarkovCellSpec]:
        """Return the published parameters of each elevation."""
        tables = _p681(self.config, self.key)
        return [
            _two_state_cell(at, tables[elevation])
            for at, elevation in _elevations(self.config, tables, self.files, self.key)
        ]

    def points(self) -> list[list[int | float]]:
        """Return the points of the file or of the schedule."""
        config = self.config
        if config.trace is not None:
            trace = self.files.csv(config.trace, "attenuation", f"{self.key}.trace")
            points = [(at, float(value)) for at, value in trace]
        else:
            points = [(point.at.ns, point.attenuation.db) for point in config.schedule or []]
        if config.repeat is not None and points[-1][0] >= config.repeat.ns:
            text = f"found {config.repeat}, expected more than the last point's {Duration(points[-1][0])}"
            raise _error(self.key, "repeat", text)
        excessive = next((value for _, value in points if abs(value) > _MAX_ATTENUATION_DB), None)
        if excessive is not None:
            text = f"found an attenuation of {excessive:g} dB, expected at most {_MAX_ATTENUATION_DB} dB"
            raise _error(self.key, "trace", text)
        return [[at, value] for at, value in points]


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


def _range_loss(reference: Distance, files: Files, key: str) -> list[list[float]]:
    """Return (ns, dB) of the free-space loss to the last satellite, relative to the reference distance."""
    timeline = files.route_timeline(f"{key}.snr_range")
    return [
        [step * timeline.step_ns, 20 * math.log10(delay_ns * 1e-9 * _LIGHT_SPEED_M_S / reference.m)]
        for step, delay_ns in enumerate(timeline.last_ns)
        if delay_ns is not None  # no channel without a route
    ]


def _error(key: str, name: str, text: str) -> ScenarioError:
    return ScenarioError([(f"{key}.{name}", text)])
