"""A question in words, as the command has it, and its answer by the engine."""

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

__all__ = ["RouteQuery", "ask", "rate_of", "run_query"]


@dataclass(frozen=True)
class RouteQuery:
    """A pair over a constellation for some time."""

    orbit: Orbit
    duration: Duration
    folder: Path
    """Where files of elements are."""


def ask(table: Mapping[str, Any], duration: str, settings: Sequence[str] = ()) -> RouteQuery:
    """The question of a table ``[orbit]``; ``constellation`` may be a file of elements (``.tle``, ``.txt``, ``.json``).

    ``settings`` are ``KEY=VALUE`` texts, keys of that table.

    Raises:
        ScenarioError: what is wrong, by the command's option.
    """
    try:
        length = Duration.parse(duration)
    except UnitError as error:
        raise ScenarioError([("--duration", str(error))]) from None
    if length.ns == 0:
        raise ScenarioError([("--duration", 'found 0, expected more, such as "10 min"')])
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


MOST_OPPORTUNITIES = 10_000_000
"""Lines of a Mahimahi trace: 200 s at 600 Mbit/s, 70 MB."""


def rate_of(text: str | None, duration: Duration) -> Rate | None:
    """The rate of ``--rate``. Raises ScenarioError: it is none, or too high for a trace of so long."""
    if text is None:
        return None
    try:
        rate = Rate.parse(text)
    except UnitError as error:
        raise ScenarioError([("--rate", str(error))]) from None
    lines = rate.bit_s * duration.ns // (MAHIMAHI_BYTES * 8 * 10**9)
    if lines > MOST_OPPORTUNITIES:
        message = f"found {rate} for {duration}, {lines:,} lines of Mahimahi's, expected at most {MOST_OPPORTUNITIES:,}"
        raise ScenarioError([("--rate", message)])
    return rate


def run_query(question: RouteQuery, frames: int = 0) -> RouteTimeline:
    """The engine's answer, with so many pictures of the whole sky. Raises ScenarioError."""
    try:
        return find_routes(question.orbit, question.duration.ns, question.folder, engine.orbit, frames=frames)
    except ScenarioError as error:
        said = [(key.removeprefix("orbit").removeprefix("."), text) for key, text in error.problems]
        raise ScenarioError(said, "orbit") from None
