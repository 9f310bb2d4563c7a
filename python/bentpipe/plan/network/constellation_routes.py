"""A pair of places over a constellation, in the engine's words and back: ways, delays, hand-overs, gaps.

The engine is not known here: :data:`RouteSolver` stands for it, as the catalogue does for its controllers.
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
"""The engine's answer to a route_request."""

TOLERANCE_NS = 1000
"""How far a leg as straight lines may be from the leg: a thousandth of a full packet's time at 10 Mbit/s."""

DELAY_COLUMNS = {"first": 1, "last": 2}
"""Where a corner of :attr:`Ways.legs` has them."""

MOST_ELEMENTS_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Route:
    """A way from an instant on; no nodes: there is none."""

    at_ns: int
    nodes: tuple[int, ...]
    """Satellites and, numbered behind them, relays."""
    end: int
    before_ns: int | None
    """One-way delay that the way before would have now."""
    after_ns: int | None

    @property
    def hops(self) -> int | None:
        """Links from end to end."""
        return len(self.nodes) + 1 if self.nodes else None


@dataclass(frozen=True, slots=True)
class Handover:
    """From one way to another at one instant."""

    at_ns: int
    before_ns: int
    after_ns: int
    kept: int
    """Nodes of the way before that are on this one too."""
    new: int
    """Nodes that are on this one only."""
    left: int
    """Nodes that were on the one before only."""

    @property
    def size(self) -> Literal["small", "partial", "large"]:
        """Small: one node comes, goes, or takes the place of one; large: the whole way is another one."""
        if self.kept == 0 and (self.new > 1 or self.left > 1):
            return "large"
        return "small" if self.new <= 1 and self.left <= 1 else "partial"


@dataclass(frozen=True)
class RouteTimeline:
    """What the engine says of a pair over time."""

    start_unix_ns: int
    epochs_unix_ns: tuple[int, int]
    """The earliest and the latest epoch of the satellites."""
    step_ns: int
    duration_ns: int
    names: tuple[str, ...]
    delay_ns: Sequence[int | None]
    """One-way, by step."""
    last_ns: Sequence[int | None]
    """Of the last satellite's leg."""
    seen: tuple[Sequence[int], Sequence[int]]
    """By step, satellites within reach: of the first place, and of the end that reaches most."""
    elevations_deg: tuple[Sequence[float | None], Sequence[float | None]]
    """By step: of the first satellite at the first place, and of the last one at the end."""
    routes: tuple[Route, ...]
    legs: tuple[tuple[int, int, int], ...]
    """Instant, first leg, last leg: straight lines between."""
    frames: tuple[Mapping[str, Any], ...]
    links: Sequence[tuple[int, int]]
    """Pairs of satellites that are linked whenever they see each other; with frames."""

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """From when to when there is no way."""
        ends = [route.at_ns for route in self.routes[1:]] + [self.duration_ns]
        return [
            (route.at_ns, end)
            for route, end in zip(self.routes, ends, strict=True)
            if not route.nodes and end > route.at_ns
        ]

    def changes(self, leg: Literal["first", "last"]) -> list[int]:
        """When another way begins; of the last leg, when its satellite or its end is another one."""
        return [
            new.at_ns
            for old, new in pairwise(self.routes)
            if old.nodes and new.nodes
            and (leg == "first" or (old.nodes[-1], old.end) != (new.nodes[-1], new.end))
        ]  # fmt: skip

    @property
    def handovers(self) -> list[Handover]:
        """From a way to another one, without a gap between."""
        found = []
        for old, new in pairwise(self.routes):
            if old.nodes and new.nodes and new.before_ns is not None and new.after_ns is not None:
                kept = len(set(old.nodes) & set(new.nodes))
                found.append(
                    Handover(
                        new.at_ns, new.before_ns, new.after_ns, kept,
                        len(new.nodes) - kept, len(old.nodes) - kept,
                    )
                )  # fmt: skip
        return found


def find_routes(
    orbit: Orbit, duration_ns: int, folder: Path, ask: RouteSolver, *, frames: int = 0, key: str = "orbit"
) -> RouteTimeline:
    """Follows the pair of ``orbit`` for ``duration_ns``. Raises ScenarioError."""
    asked = route_request(orbit, duration_ns, folder, frames=frames, key=key)
    try:
        answer = ask(asked)
    except ValueError as error:
        raise ScenarioError([_problem(orbit, key, str(error))]) from None
    return RouteTimeline(
        start_unix_ns=answer["start_unix_ns"],
        epochs_unix_ns=(answer["epochs_unix_ns"][0], answer["epochs_unix_ns"][1]),
        step_ns=orbit.step.ns,
        duration_ns=duration_ns,
        names=tuple(answer["names"]),
        delay_ns=answer["delay_ns"],
        last_ns=answer["last_ns"],
        seen=(answer["seen"][0], answer["seen"][1]),
        elevations_deg=(answer["elevations_deg"][0], answer["elevations_deg"][1]),
        routes=tuple(
            Route(r["at_ns"], tuple(r["nodes"]), r["end"], r["before_ns"], r["after_ns"])
            for r in answer["routes"]
        ),
        legs=tuple((at, first, last) for at, first, last in answer["legs"]),
        frames=tuple(answer["frames"]),
        links=[(one, other) for one, other in answer["links"]],
    )


def _problem(orbit: Orbit, key: str, error: str) -> tuple[str, str]:
    """The engine's ``field: what is wrong with it``, said of the key that the field is made from."""
    flies = orbit.constellation
    height = "altitude" if flies.altitude is not None else "revolutions_per_day"
    reach = "slant" if flies.slant is not None else "elevation"
    own = f"constellation.{reach}"
    keys = {
        "planes": "constellation.planes",
        "inclination_deg": "constellation.inclination",
        "spread_deg": "constellation.spread",
        "phasing": "constellation.phasing",
        "longitudes_deg": "constellation.longitudes",
        "height": f"constellation.{height}",
        "reach": "elevation" if orbit.elevation is not None else own,
        "step_ns": "step",
        "links": "links",
        "policy": "handover",
    }
    place, _, text = error.partition(": ")
    if place in keys:
        return f"{key}.{keys[place]}", text
    for kind, name in (("tle", flies.tle), ("omm", flies.omm)):
        if name is not None:
            return f"{key}.constellation.{kind}", f'"{name}": {text if place == "elements" else error}'
    return key, error


def route_request(
    orbit: Orbit, duration_ns: int, folder: Path, *, frames: int = 0, key: str = "orbit"
) -> dict[str, Any]:
    """The engine's request (``JsonRequest`` of ``crates/orbit``). Raises ScenarioError: no such file of elements."""
    flies = orbit.constellation
    return {
        "orbit": {
            "constellation": _constellation(flies, folder, f"{key}.constellation"),
            "start_unix_ns": orbit.start.unix_ns if orbit.start is not None else None,
            "duration_ns": duration_ns,
            "step_ns": min(orbit.step.ns, duration_ns),
            "from": _site(orbit.from_),
            "to": [_site(place) for place in orbit.to],
            "relays": [_site(place) for place in orbit.relays],
            "reach": _reach(orbit),
            "links": _links(flies, orbit.links or flies.links),
            "policy": _policy(orbit.handover),
        },
        "tolerance_ns": TOLERANCE_NS,
        "frames": frames,
    }


def _constellation(flies: Constellation, folder: Path, key: str) -> dict[str, Any]:
    if flies.longitudes is not None:
        return {"kind": "geostationary", "longitudes_deg": [float(one) for one in flies.longitudes]}
    for kind, name in (("tle", flies.tle), ("omm", flies.omm)):
        if name is not None:
            return {"kind": kind, "text": _text(folder, name, f"{key}.{kind}")}
    height: dict[str, float]
    if flies.altitude is not None:
        height = {"altitude_km": flies.altitude.km}
    else:
        height = {"revolutions_day": float(flies.revolutions_per_day or 0)}
    return {
        "kind": "walker",
        "planes": flies.planes,
        "per_plane": flies.per_plane,
        "inclination_deg": flies.inclination.degrees if flies.inclination is not None else 0.0,
        "height": height,
        "spread_deg": flies.spread.degrees,
        "phasing": "alternate" if flies.phasing == "alternate" else {"factor": float(flies.phasing)},
        "propagation": flies.propagation,
        "epoch_unix_ns": (flies.epoch or EPOCH).unix_ns,
    }


def _text(folder: Path, name: str, key: str) -> str:
    path = folder / name
    try:
        return read_input_text(path, MOST_ELEMENTS_BYTES)
    except FileNotFoundError:
        raise ScenarioError([(key, f'no file "{name}" beside the scenario')]) from None
    except UnicodeDecodeError:
        raise ScenarioError([(key, f'cannot read "{name}": it is not text in UTF-8')]) from None
    except OSError as error:
        raise ScenarioError([(key, f'cannot read "{name}": {error.strerror}')]) from None


def _site(place: Place) -> dict[str, Any]:
    return {"name": place.name, "latitude_deg": place.latitude, "longitude_deg": place.longitude}


def _reach(orbit: Orbit) -> dict[str, float]:
    flies = orbit.constellation
    if orbit.elevation is not None:
        return {"elevation_deg": orbit.elevation.degrees}
    if flies.elevation is not None:
        return {"elevation_deg": flies.elevation.degrees}
    return {"slant_km": flies.slant.km if flies.slant is not None else 0.0}


def _links(flies: Constellation, links: str) -> dict[str, Any]:
    if links == "bent-pipe":
        return {"kind": "bent_pipe"}
    found: dict[str, Any] = {
        "kind": "grid",
        "nearest": flies.neighbours == "nearest",
        "closed": flies.spread.degrees == 360,
    }
    if flies.cross_links_within is not None:
        found["within_latitude_deg"] = flies.cross_links_within.degrees
    return found


def _policy(handover: HandoverRule | None) -> dict[str, Any]:
    if handover is None:
        return {"kind": "shortest_path"}
    if handover.rule != "slots":
        return {"kind": handover.rule.replace("-", "_")}
    return {
        "kind": "slots",
        "period_ns": handover.every.ns,
        "phase_ns": handover.phase.ns,
        "jitter_ns": handover.jitter.ns,
        "seed": handover.seed,
    }


def format_gaps(gaps: Sequence[tuple[int, int]]) -> str:
    """Gaps as text, at most ten: ``155.4 s to 165.1 s``."""
    text = ", ".join(f"{Duration(a)} to {Duration(b)}" for a, b in gaps[:10])
    return f"{text} and {len(gaps) - 10} more times" if len(gaps) > 10 else text
