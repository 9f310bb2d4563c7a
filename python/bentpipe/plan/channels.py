"""A radio channel in the engine's words: published tables, and what is taken of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from bentpipe.scenario.problems import ScenarioError, unknown_word
from bentpipe.scenario.radio_units import Frequency
from bentpipe.scenario.units import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.files import Files
    from bentpipe.plan.spec import ChannelSpec, LooSpec, Motion, Reference
    from bentpipe.scenario.channel import Channel

__all__ = ["channel", "remarks"]

_LIGHT_M_S = 299_792_458
_LONGEST_STEP_NS = 1_000_000


@dataclass(frozen=True)
class ThreeStates:
    """A published cell of the three-state model, at one elevation.

    ``states`` are (mean, deviation, multipath) in dB; lengths are metres of the way.
    """

    transitions: Sequence[Sequence[float]]
    states: Sequence[tuple[float, float, float]]
    frames_m: Sequence[float]
    transition_m: float
    correlation_m: float


FONTAN: Mapping[str, Mapping[int, ThreeStates]] = {
    "open": {
        40: ThreeStates(
            [[0.9530, 0.0431, 0.0039], [0.0515, 0.9347, 0.0138], [0.0334, 0.0238, 0.9428]],
            [(0.1, 0.37, -22.0), (-1.0, 0.5, -22.0), (-2.25, 0.13, -21.2)],
            [8.9, 7.5, 4.0],
            12.4,
            2.5,
        )
    },
    "suburban": {
        40: ThreeStates(
            [[0.8177, 0.1715, 0.0108], [0.1544, 0.7997, 0.0459], [0.1400, 0.1433, 0.7167]],
            [(-1.0, 0.5, -13.0), (-3.7, 0.98, -12.2), (-15.0, 5.9, -13.0)],
            [5.2, 3.7, 3.0],
            2.2,
            1.7,
        )
    },
    "intermediate-tree-shadowed": {
        40: ThreeStates(
            [[0.7193, 0.1865, 0.0942], [0.1848, 0.7269, 0.0883], [0.1771, 0.0971, 0.7258]],
            [(-0.4, 1.5, -13.2), (-8.2, 3.9, -12.7), (-17.0, 3.14, -10.0)],
            [6.3, 6.3, 4.5],
            2.6,
            1.5,
        )
    },
    # The line-of-sight state is not met.
    "heavy-tree-shadowed": {
        40: ThreeStates(
            [[0.9259, 0.0741], [0.0741, 0.9259]],
            [(-10.1, 2.25, -10.0), (-19.0, 4.0, -10.0)],
            [4.8, 4.5],
            3.5,
            1.7,
        )
    },
}
"""F. Perez-Fontan et al., IEEE Trans. Broadcasting 44(1):40-76, 1998, and IEEE Trans. Veh. Tech. 50(6):1549-1567, 2001:
S band. Taken from public re-typings: open and suburban from two that agree (where one has 0.1314 for the chance of
moderate after deep shadowing in suburban, its row does not add up to 1), the others from one. The stationary vectors
of all are the published ones to four digits, which a test holds. Not here: urban, whose lengths could not be read;
other elevations, for the same reason; L band."""

_S_BAND = (Frequency(2 * 10**9), Frequency(4 * 10**9))


def channel(found: Channel, files: Files, key: str) -> ChannelSpec:
    """``ChannelSpec`` of a channel, ``key`` is said in errors.

    Raises:
        ScenarioError: a cell that was never published, an elevation outside the tables, a step too long, a file that
            cannot be used.
    """
    del files
    if found.model == "white-noise":
        return {"kind": "fixed", "snr_db": found.snr.db}
    cell, _ = _fontan(found, key)
    frames = cell.frames_m if found.state_lengths == "each" else [cell.frames_m[0]] * len(cell.frames_m)
    return {
        "kind": "three_state",
        "reference": _reference(found),
        "motion": _motion(found, key),
        "transitions": cell.transitions,
        "states": [_loo(*state) for state in cell.states],
        "frames_m": frames,
        "transition_m": cell.transition_m,
        "correlation_m": cell.correlation_m,
    }


def remarks(found: Channel, key: str) -> list[str]:
    """What the channel is not exactly as asked for."""
    if found.model != "perez-fontan":
        return []
    _, published = _fontan(found, key)
    asked = found.elevation.degrees if found.elevation is not None else published
    if asked == published:
        return []
    return [
        f"{key}.elevation: there is no table for {found.elevation}; that of {published} deg, the highest below, is used"
    ]


def _fontan(found: Channel, key: str) -> tuple[ThreeStates, int]:
    """The cell, and the elevation that it was published for."""
    environment = found.environment or ""
    tables = FONTAN.get(environment)
    if environment == "urban":
        raise _error(
            key,
            "environment",
            'found "urban", whose table is not complete (no lengths of frames and transitions), expected one of: '
            f'{", ".join(FONTAN)}; model = "p681" has it',
        )
    if tables is None:
        raise _error(
            key, "environment", unknown_word(environment, FONTAN, "published table of the environment")
        )
    low, high = _S_BAND
    if not low <= found.frequency <= high:
        raise _error(
            key,
            "frequency",
            f"found {found.frequency}, expected {low} to {high}: the tables of S band are there",
        )
    elevation = _elevation(found, list(tables), key)
    return tables[elevation], elevation


def _elevation(found: Channel, published: Sequence[int], key: str) -> int:
    """The highest elevation with a table that is not above the one asked for."""
    asked = found.elevation.degrees if found.elevation is not None else 0.0
    below = [elevation for elevation in published if elevation <= asked]
    if not below:
        raise _error(
            key,
            "elevation",
            f'found {found.elevation}, below the lowest table of "{found.environment}", expected at least '
            f"{min(published)} deg",
        )
    return max(below)


def _reference(found: Channel) -> Reference:
    return {"snr_db": found.snr.db, "error_db": found.snr_error.db}


def _loo(mean_db: float, deviation_db: float, multipath_db: float) -> LooSpec:
    return {"mean_db": mean_db, "deviation_db": deviation_db, "multipath_db": multipath_db}


def _motion(found: Channel, key: str) -> Motion:
    speed, elevation = found.speed, found.elevation
    if speed is None or elevation is None:
        raise _error(key, "speed", "missing, expected a value")
    # 1/16 wavelength, less what rounding might add.
    sixteenth = Fraction(_LIGHT_M_S * 3600, 16 * found.frequency.hz * speed.m_h) * 10**9
    most = min(_LONGEST_STEP_NS, math.ceil(sixteenth) - 1)
    step = found.step.ns if found.step is not None else most
    if step > most:
        raise _error(
            key,
            "step",
            f"found {found.step}, expected at most {Duration(most)}, the shorter of 1 ms and 1/16 wavelength "
            f"at {speed}",
        )
    if step < 1:
        raise _error(
            key, "speed", f"found {speed}, expected a speed at which 1/16 wavelength takes 1 ns or more"
        )
    return {
        "seed": found.seed,
        "step_ns": step,
        "carrier_hz": found.frequency.hz,
        "speed_m_s": speed.m_s,
        "elevation_deg": elevation.degrees,
        "azimuth_deg": found.azimuth.degrees,
    }


def _error(key: str, name: str, text: str) -> ScenarioError:
    return ScenarioError([(f"{key}.{name}", text)])
