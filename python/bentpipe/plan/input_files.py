"""What a plan reads beside its scenario."""

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

    from bentpipe.scenario.network.orbit import Orbit
    from bentpipe.scenario.network.topology import Delay

__all__ = ["Files"]

_Read = TypeVar("_Read")


class Files:
    """What a plan reads beside its scenario: traces, pages, HAR files, each read_once."""

    def __init__(self, folder: Path, ask: RouteSolver | None = None) -> None:
        """``folder`` holds the scenario; ``ask`` is the engine that follows constellations."""
        self.folder = folder
        self._ask = ask
        self._orbit: tuple[Orbit, int] | None = None
        self._ways: RouteTimeline | None = None
        self._points: dict[tuple[str, str], list[tuple[int, Decimal]]] = {}
        self._packets: dict[str, list[int]] = {}
        self._mahimahi: dict[str, Mahimahi] = {}
        self._others: dict[Hashable, Any] = {}

    def read_once(self, what: Hashable, read: Callable[[], _Read]) -> _Read:
        """What ``read`` gives the first time that ``what`` is asked for; nobody changes it."""
        if what not in self._others:
            self._others[what] = read()
        found: _Read = self._others[what]
        return found

    def csv(self, name: str, kind: str, key: str) -> list[tuple[int, Decimal]]:
        """Points of a CSV trace; ``key`` is said in errors. Raises ScenarioError."""
        if (kind, name) not in self._points:
            try:
                self._points[kind, name] = read_csv(self.folder, name, kind)
            except TraceError as error:
                raise ScenarioError([(key, str(error))]) from None
        return self._points[kind, name]

    def with_orbit(self, orbit: Orbit | None, duration_ns: int) -> Files:
        """The same for a scenario with this ``[orbit]`` and of this length; what has been read is shared."""
        if orbit is None and self._orbit is None:
            return self
        same = copy.copy(self)
        same._orbit = (orbit, duration_ns) if orbit is not None else None  # noqa: SLF001 - of one class
        same._ways = None  # noqa: SLF001
        return same

    def delays(self, delay: Delay, key: str) -> list[tuple[int, int]]:
        """Points of a delay over time, in ns; ``key`` is said in errors. Raises ScenarioError."""
        if delay.orbit is None:
            return [(at, int(value)) for at, value in self.csv(delay.trace or "", "delay", f"{key}.delay")]
        found = self.route_timeline(f"{key}.delay")
        leg = DELAY_COLUMNS[delay.orbit]
        return [(corner[0], corner[leg]) for corner in found.legs]

    def route_timeline(self, key: str) -> RouteTimeline:
        """The ways of ``[orbit]``, with gaps only where they are wanted. Raises ScenarioError."""
        if self._ways is not None:
            return self._ways
        if self._orbit is None:
            raise ScenarioError([(key, "found a leg of an orbit, and there is no [orbit]; expected one")])
        if self._ask is None:
            raise ScenarioError([(key, "an orbit is followed by the engine, and there is none here")])
        orbit, duration_ns = self._orbit
        ask, text = self._ask, json.dumps(route_request(orbit, duration_ns, self.folder), sort_keys=True)
        found: RouteTimeline = self.read_once(
            ("orbit", text), lambda: find_routes(orbit, duration_ns, self.folder, ask)
        )
        if not found.legs:
            raise ScenarioError([("orbit", f"no way from {orbit.from_} at any time of the run")])
        if found.gaps and orbit.gaps == "refused":
            pair = f"from {orbit.from_} to {' or '.join(map(str, orbit.to))}"
            text = f'no way {pair} from {format_gaps(found.gaps)}; expected one all the time, or gaps = "outages"'
            raise ScenarioError([("orbit", text)])
        self._ways = found
        return found

    def packets(self, name: str, key: str) -> list[int]:
        """Indices of lost packets. Raises ScenarioError."""
        if name not in self._packets:
            try:
                self._packets[name] = packet_list(self.folder, name)
            except TraceError as error:
                raise ScenarioError([(key, str(error))]) from None
        return self._packets[name]

    def mahimahi(self, name: str, key: str) -> Mahimahi:
        """A packet-delivery trace. Raises ScenarioError."""
        if name not in self._mahimahi:
            try:
                self._mahimahi[name] = read_mahimahi(self.folder, name)
            except TraceError as error:
                raise ScenarioError([(key, str(error))]) from None
        return self._mahimahi[name]
