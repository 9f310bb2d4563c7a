"""Routes between two places over a constellation: request to the engine, and routes, delays, handovers and gaps.

This module does not import the engine: callers pass it as a :data:`RouteSolver`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.input_file import read_input_text
from bentpipe.scenario.network.constellations import EPOCH
from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.scenario.network.constellations import Constellation
    from bentpipe.scenario.network.orbit import HandoverRule, Orbit
    from bentpipe.scenario.network.places import Place

__all__ = [
    "DELAY_COLUMNS",
    "Handover",
    "Route",
    "RouteSolver",
    "RouteTimeline",
    "find_routes",
    "format_gaps",
    "route_request",
]

RouteSolver = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""The engine's function from a request to a response."""

TOLERANCE_NS = 1000
"""Largest error of a piecewise linear delay: a thousandth of a full packet's time at 10 Mbit/s."""

DELAY_COLUMNS = {"before-last-hop": 1, "last-hop": 2}
"""Position of the delay before the last hop, and of the last hop, in a point of :attr:`RouteTimeline.legs`."""

MAX_ELEMENTS_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Route:
    """A route and the time it begins; without nodes, there is no route."""

    at_ns: int
    nodes: tuple[int, ...]
    """Indices of satellites, and of relays, which follow the satellites."""
    end: int
    """Index of the destination."""
    before_ns: int | None
    """One-way delay of the previous route at this time."""
    after_ns: int | None
    """One-way delay of this route at this time."""

    @property
    def hops(self) -> int | None:
        """Number of links from end to end; None without a route."""
        return len(self.nodes) + 1 if self.nodes else None


@dataclass(frozen=True, slots=True)
class Handover:
    """A change from one route to another."""

    at_ns: int
    before_ns: int
    after_ns: int
    unchanged: int
    """Number of nodes on both routes."""
    new: int
    """Number of nodes on the new route only."""
    left: int
    """Number of nodes on the previous route only."""

    @property
    def size(self) -> Literal["small", "partial", "large"]:
        """Small: one node added, removed or replaced; large: no common node, several added or removed."""
        if self.unchanged == 0 and (self.new > 1 or self.left > 1):
            return "large"
        return "small" if self.new <= 1 and self.left <= 1 else "partial"


@dataclass(frozen=True)
class RouteTimeline:
    """Routes between two places over time."""

    start_unix_ns: int
    epochs_unix_ns: tuple[int, int]
    """The earliest and the latest epoch of the orbital elements."""
    step_ns: int
    duration_ns: int
    names: tuple[str, ...]
    """Names of the satellites, by index."""
    delay_ns: Sequence[int | None]
    """One-way delay by step; None without a route."""
    last_ns: Sequence[int | None]
    """Delay of the last hop by step; None without a route."""
    seen: tuple[Sequence[int], Sequence[int]]
    """Number of visible satellites by step: from the source, and from the destination that sees most."""
    elevations_deg: tuple[Sequence[float | None], Sequence[float | None]]
    """Elevation by step: of the first satellite at the source, and of the last one at the destination."""
    routes: tuple[Route, ...]
    legs: tuple[tuple[int, int, int], ...]
    """Time, delay of the first hop and delay of the last hop, all in ns; linear between points."""
    frames: tuple[Mapping[str, Any], ...]
    """Positions for an animation."""
    links: Sequence[tuple[int, int]]
    """Pairs of satellites with an inter-satellite link whenever they are visible to each other; with frames only."""

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Intervals without a route: start and end in ns."""
        ends = [route.at_ns for route in self.routes[1:]] + [self.duration_ns]
        return [
            (route.at_ns, end)
            for route, end in zip(self.routes, ends, strict=True)
            if not route.nodes and end > route.at_ns
        ]

    def changes(self, hop: Literal["before-last-hop", "last-hop"]) -> list[int]:
        """Return the times in ns at which the route changes; for the last hop, its satellite or its end."""
        return [
            new.at_ns
            for old, new in pairwise(self.routes)
            if old.nodes and new.nodes
            and (hop == "before-last-hop" or (old.nodes[-1], old.end) != (new.nodes[-1], new.end))
        ]  # fmt: skip

    @property
    def handovers(self) -> list[Handover]:
        """Changes from one route to another without a gap."""
        handovers = []
        for old, new in pairwise(self.routes):
            if old.nodes and new.nodes and new.before_ns is not None and new.after_ns is not None:
                common = len(set(old.nodes) & set(new.nodes))
                handovers.append(
                    Handover(
                        new.at_ns, new.before_ns, new.after_ns, common,
                        len(new.nodes) - common, len(old.nodes) - common,
                    )
                )  # fmt: skip
        return handovers


def find_routes(
    orbit: Orbit, duration_ns: int, folder: Path, solver: RouteSolver, *, frames: int = 0, key: str = "orbit"
) -> RouteTimeline:
    """Compute the routes of an ``[orbit]`` over a duration.

    Args:
        orbit: the table of the scenario.
        duration_ns: duration.
        folder: folder of the files with orbital elements.
        solver: the engine.
        frames: number of frames for an animation.
        key: key of the table, for errors.

    Raises:
        ScenarioError: no such file, or elements or settings that the engine rejects.
    """
    request = route_request(orbit, duration_ns, folder, frames=frames, key=key)
    try:
        answer = solver(request)
    except ValueError as error:
        raise ScenarioError([_problem(orbit, key, str(error))]) from None
    return RouteTimeline(
        start_unix_ns=answer["start_unix_ns"],
        epochs_unix_ns=(answer["epochs_unix_ns"][0], answer["epochs_unix_ns"][1]),
        step_ns=orbit.step.ns,
        duration_ns=duration_ns,
        names=tuple(answer["names"]),
        delay_ns=answer["delay_ns"],
        last_ns=answer["last_hop_delay_ns"],
        seen=(answer["visible_satellites"][0], answer["visible_satellites"][1]),
        elevations_deg=(answer["elevations_deg"][0], answer["elevations_deg"][1]),
        routes=tuple(
            Route(
                r["start_ns"],
                tuple(r["nodes"]),
                r["destination"],
                r["old_path_delay_ns"],
                r["new_path_delay_ns"],
            )
            for r in answer["paths"]
        ),
        legs=tuple((at, first, last) for at, first, last in answer["breakpoints"]),
        frames=tuple(answer["frames"]),
        links=[(first, second) for first, second in answer["links"]],
    )


def _problem(orbit: Orbit, key: str, error: str) -> tuple[str, str]:
    """Return key and text for an error ``FIELD: TEXT`` of the engine; the key is the source of the field."""
    constellation = orbit.constellation
    height = "altitude" if constellation.altitude is not None else "revolutions_per_day"
    reach = "slant" if constellation.slant is not None else "elevation"
    keys = {
        "planes": "constellation.planes",
        "inclination_deg": "constellation.inclination",
        "spread_deg": "constellation.spread",
        "phasing": "constellation.phasing",
        "longitudes_deg": "constellation.longitudes",
        "height": f"constellation.{height}",
        "visibility": "elevation" if orbit.elevation is not None else f"constellation.{reach}",
        "step_ns": "step",
        "links": "links",
        "handover_policy": "handover",
    }
    engine_field, _, text = error.partition(": ")
    if engine_field in keys:
        return f"{key}.{keys[engine_field]}", text
    for kind, name in (("tle", constellation.tle), ("omm", constellation.omm)):
        if name is not None:
            return f"{key}.constellation.{kind}", f'"{name}": {text if engine_field == "elements" else error}'
    return key, error


def route_request(
    orbit: Orbit, duration_ns: int, folder: Path, *, frames: int = 0, key: str = "orbit"
) -> dict[str, Any]:
    """Return the request to the engine (``JsonRequest`` of ``crates/orbit``).

    Args:
        orbit: the table of the scenario.
        duration_ns: duration.
        folder: folder of the files with orbital elements.
        frames: number of frames for an animation.
        key: key of the table, for errors.

    Raises:
        ScenarioError: no such file of orbital elements.
    """
    constellation = orbit.constellation
    return {
        "orbit": {
            "constellation": _constellation(constellation, folder, f"{key}.constellation"),
            "start_unix_ns": orbit.start.unix_ns if orbit.start is not None else None,
            "duration_ns": duration_ns,
            "step_ns": min(orbit.step.ns, duration_ns),
            "from": _site(orbit.from_),
            "to": [_site(place) for place in orbit.to],
            "relays": [_site(place) for place in orbit.relays],
            "visibility": _reach(orbit),
            "links": _links(constellation, orbit.links or constellation.links),
            "handover_policy": _policy(orbit.handover),
        },
        "tolerance_ns": TOLERANCE_NS,
        "frames": frames,
    }


def _constellation(constellation: Constellation, folder: Path, key: str) -> dict[str, Any]:
    if constellation.longitudes is not None:
        return {
            "kind": "geostationary",
            "longitudes_deg": [float(longitude) for longitude in constellation.longitudes],
        }
    for kind, name in (("tle", constellation.tle), ("omm", constellation.omm)):
        if name is not None:
            return {"kind": kind, "text": _text(folder, name, f"{key}.{kind}")}
    height: dict[str, float]
    if constellation.altitude is not None:
        height = {"altitude_km": constellation.altitude.km}
    else:
        height = {"revolutions_day": float(constellation.revolutions_per_day or 0)}
    return {
        "kind": "walker",
        "planes": constellation.planes,
        "per_plane": constellation.per_plane,
        "inclination_deg": constellation.inclination.degrees
        if constellation.inclination is not None
        else 0.0,
        "height": height,
        "spread_deg": constellation.spread.degrees,
        "phasing": "alternate"
        if constellation.phasing == "alternate"
        else {"factor": float(constellation.phasing)},
        "propagation": constellation.propagation,
        "epoch_unix_ns": (constellation.epoch or EPOCH).unix_ns,
    }


def _text(folder: Path, name: str, key: str) -> str:
    path = folder / name
    try:
        return read_input_text(path, MAX_ELEMENTS_BYTES)
    except FileNotFoundError:
        raise ScenarioError([(key, f'no file "{name}" beside the scenario')]) from None
    except UnicodeDecodeError:
        raise ScenarioError([(key, f'cannot read "{name}": it is not text in UTF-8')]) from None
    except OSError as error:
        raise ScenarioError([(key, f'cannot read "{name}": {error.strerror}')]) from None


def _site(place: Place) -> dict[str, Any]:
    return {"name": place.name, "latitude_deg": place.latitude, "longitude_deg": place.longitude}


def _reach(orbit: Orbit) -> dict[str, float]:
    constellation = orbit.constellation
    if orbit.elevation is not None:
        return {"elevation_deg": orbit.elevation.degrees}
    if constellation.elevation is not None:
        return {"elevation_deg": constellation.elevation.degrees}
    return {"slant_km": constellation.slant.km if constellation.slant is not None else 0.0}


def _links(constellation: Constellation, links: str) -> dict[str, Any]:
    if links == "bent-pipe":
        return {"kind": "bent_pipe"}
    grid: dict[str, Any] = {
        "kind": "grid",
        "nearest": constellation.neighbours == "nearest",
        "closed": constellation.spread.degrees == 360,
    }
    if constellation.cross_links_within is not None:
        grid["within_latitude_deg"] = constellation.cross_links_within.degrees
    return grid


def _policy(handover: HandoverRule | None) -> dict[str, Any]:
    if handover is None:
        return {"kind": "shortest_path"}
    if handover.rule != "periodic":
        return {"kind": handover.rule.replace("-", "_")}
    return {
        "kind": "periodic",
        "interval_ns": handover.interval.ns,
        "phase_ns": handover.phase.ns,
        "jitter_ns": handover.jitter.ns,
        "seed": handover.seed,
    }


def format_gaps(gaps: Sequence[tuple[int, int]]) -> str:
    """Format at most ten gaps as text, such as ``155.4 s to 165.1 s``."""
    text = ", ".join(f"{Duration(a)} to {Duration(b)}" for a, b in gaps[:10])
    return f"{text} and {len(gaps) - 10} more times" if len(gaps) > 10 else text
