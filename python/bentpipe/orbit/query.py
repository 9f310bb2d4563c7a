"""Query of a pair over a constellation: options of the command, and the answer of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bentpipe.plan.network.constellation_routes import RouteTimeline, find_routes
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError, from_pydantic, unknown_name
from bentpipe.scenario.network.constellations import constellation_names
from bentpipe.scenario.network.orbit import Orbit
from bentpipe.scenario.quantities import Duration, Rate, UnitError
from bentpipe.scenario.sweep import parse_override, set_key
from bentpipe.scenario.traces import MAHIMAHI_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RouteQuery", "parse_query", "parse_rate", "run_query"]


@dataclass(frozen=True)
class RouteQuery:
    """Pair over a constellation for some time."""

    orbit: Orbit
    duration: Duration
    folder: Path
    """Directory of files of orbital elements."""


def parse_query(table: Mapping[str, Any], duration: str, settings: Sequence[str] = ()) -> RouteQuery:
    """Return the query of a table ``[orbit]``.

    Args:
        table: keys of the table; ``constellation`` may be a file of elements (``.tle``, ``.txt``, ``.json``).
        duration: duration with unit.
        settings: ``KEY=VALUE`` texts, keys of that table.

    Raises:
        ScenarioError: an invalid value, by the command's option.
    """
    try:
        length = Duration.parse(duration)
    except UnitError as error:
        raise ScenarioError([("--duration", str(error))]) from None
    if length.ns == 0:
        raise ScenarioError(
            [("--duration", f'found "{duration}", expected a duration above 0 such as "10 min"')]
        )
    data = {key: value for key, value in table.items() if value is not None}
    data["constellation"] = _constellation(str(data.get("constellation", "")))
    whole = {"orbit": data}
    for text in settings:
        key, value = parse_override(text, example="handover.phase=12 s")
        try:
            set_key(whole, f"orbit.{key}", value)
        except ScenarioError as error:
            raise error.with_source("orbit", "in --set") from None
    try:
        return RouteQuery(Orbit.model_validate(data), length, Path())
    except ValidationError as error:
        raise from_pydantic(error, data, "orbit") from None


def _constellation(name: str) -> object:
    kind = {".tle": "tle", ".txt": "tle", ".json": "omm"}.get(Path(name).suffix)
    if kind is not None:
        if not Path(name).exists():
            raise ScenarioError([("--constellation", f'no file "{name}"')])
        return {kind: name, "title": Path(name).name, "elevation": "10 deg"}
    if name not in constellation_names():
        text = unknown_name(name, constellation_names(), "constellation")
        raise ScenarioError([("--constellation", f"{text}; or a file of elements (.tle, .txt, .json)")])
    return name


MAX_OPPORTUNITIES = 10_000_000
"""Maximum lines of a Mahimahi trace: 200 s at 600 Mbit/s, 70 MB."""


def parse_rate(text: str | None, duration: Duration) -> Rate | None:
    """Return the rate of ``--rate``.

    Raises:
        ScenarioError: the rate is invalid, or too high for a trace of this duration.
    """
    if text is None:
        return None
    try:
        rate = Rate.parse(text)
    except UnitError as error:
        raise ScenarioError([("--rate", str(error))]) from None
    lines = rate.bit_s * duration.ns // (MAHIMAHI_BYTES * 8 * 10**9)
    if lines > MAX_OPPORTUNITIES:
        message = f"found {rate} for {duration}, {lines:,} lines of Mahimahi's, expected at most {MAX_OPPORTUNITIES:,}"
        raise ScenarioError([("--rate", message)])
    return rate


def run_query(query: RouteQuery, frames: int = 0) -> RouteTimeline:
    """Return the engine's answer, with ``frames`` frames of all satellites.

    Raises:
        ScenarioError: the query is invalid.
    """
    try:
        return find_routes(query.orbit, query.duration.ns, query.folder, engine.orbit, frames=frames)
    except ScenarioError as error:
        problems = [(key.removeprefix("orbit").removeprefix("."), text) for key, text in error.problems]
        raise ScenarioError(problems, "orbit") from None
