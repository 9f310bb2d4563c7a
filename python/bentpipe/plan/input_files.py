"""Input files of a plan: traces, pages, HAR files and constellations."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, TypeVar

from bentpipe.plan.network.constellation_routes import (
    DELAY_COLUMNS,
    RouteSolver,
    RouteTimeline,
    find_routes,
    format_gaps,
    route_request,
)
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.traces import Mahimahi, TraceError, packet_list, read_csv, read_mahimahi

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from decimal import Decimal
    from pathlib import Path

    from bentpipe.scenario.link.direction import Delay
    from bentpipe.scenario.network.orbit import Orbit

__all__ = ["Files"]

_Value = TypeVar("_Value")


class Files:
    """Input files of a plan, each read once."""

    def __init__(self, folder: Path, solver: RouteSolver | None = None) -> None:
        """Read files relative to a folder.

        Args:
            folder: the folder of the scenario.
            solver: the engine's routes over constellations; None refuses scenarios with an orbit.
        """
        self.folder = folder
        self._solver = solver
        self._orbit: tuple[Orbit, int] | None = None
        self._routes: RouteTimeline | None = None
        self._csv: dict[tuple[str, str], list[tuple[int, Decimal]]] = {}
        self._packets: dict[str, list[int]] = {}
        self._mahimahi: dict[str, Mahimahi] = {}
        self._cache: dict[Hashable, Any] = {}

    def read_once(self, key: Hashable, read: Callable[[], _Value]) -> _Value:
        """Return the value that ``read`` gave at the first call with this key; callers do not modify it."""
        if key not in self._cache:
            self._cache[key] = read()
        value: _Value = self._cache[key]
        return value

    def csv(self, name: str, kind: str, key: str) -> list[tuple[int, Decimal]]:
        """Return the points (ns, value) of a CSV trace.

        Args:
            name: the file, relative to the folder.
            kind: the quantity of the trace.
            key: key of the scenario, for errors.

        Raises:
            ScenarioError: no such file, or not such a trace.
        """
        if (kind, name) not in self._csv:
            try:
                self._csv[kind, name] = read_csv(self.folder, name, kind)
            except TraceError as error:
                raise ScenarioError([(key, str(error))]) from None
        return self._csv[kind, name]

    def with_orbit(self, orbit: Orbit | None, duration_ns: int) -> Files:
        """Return a copy for a scenario with this ``[orbit]`` and duration; it shares all files read."""
        if orbit is None and self._orbit is None:
            return self
        clone = copy.copy(self)
        clone._orbit = (orbit, duration_ns) if orbit is not None else None  # noqa: SLF001 - same class
        clone._routes = None  # noqa: SLF001
        return clone

    def delays(self, delay: Delay, key: str) -> list[tuple[int, int]]:
        """Return the points (ns, delay in ns) of a trace or an orbit; ``key`` is for errors. Raises ScenarioError."""
        if delay.orbit is None:
            return [(at, int(value)) for at, value in self.csv(delay.trace or "", "delay", f"{key}.delay")]
        column = DELAY_COLUMNS[delay.orbit]
        return [(point[0], point[column]) for point in self.route_timeline(f"{key}.delay").legs]

    def route_timeline(self, key: str) -> RouteTimeline:
        """Return the routes of ``[orbit]``; gaps only if the scenario permits them. Raises ScenarioError."""
        if self._routes is not None:
            return self._routes
        if self._orbit is None:
            raise ScenarioError([(key, "a delay, elevation or handover of an orbit requires [orbit]")])
        if self._solver is None:
            raise ScenarioError([(key, "an orbit requires the engine, which is not available here")])
        orbit, duration_ns = self._orbit
        solver, request = (
            self._solver,
            json.dumps(route_request(orbit, duration_ns, self.folder), sort_keys=True),
        )
        timeline: RouteTimeline = self.read_once(
            ("orbit", request), lambda: find_routes(orbit, duration_ns, self.folder, solver)
        )
        if not timeline.legs:
            raise ScenarioError([("orbit", f"no route from {orbit.from_} at any time of the run")])
        if timeline.gaps and orbit.coverage_gaps == "error":
            pair = f"from {orbit.from_} to {' or '.join(map(str, orbit.to))}"
            gaps = format_gaps(timeline.gaps)
            text = f'no route {pair} from {gaps}; expected a route at all times, or coverage_gaps = "outage"'
            raise ScenarioError([("orbit", text)])
        self._routes = timeline
        return timeline

    def packets(self, name: str, key: str) -> list[int]:
        """Return the indices of lost packets in a file; ``key`` is for errors. Raises ScenarioError."""
        if name not in self._packets:
            try:
                self._packets[name] = packet_list(self.folder, name)
            except TraceError as error:
                raise ScenarioError([(key, str(error))]) from None
        return self._packets[name]

    def mahimahi(self, name: str, key: str) -> Mahimahi:
        """Return a packet-delivery trace of Mahimahi; ``key`` is for errors. Raises ScenarioError."""
        if name not in self._mahimahi:
            try:
                self._mahimahi[name] = read_mahimahi(self.folder, name)
            except TraceError as error:
                raise ScenarioError([(key, str(error))]) from None
        return self._mahimahi[name]
