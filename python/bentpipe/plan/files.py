"""What a plan reads beside its scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from bentpipe.scenario.problems import ScenarioError
from bentpipe.scenario.traces import Mahimahi, TraceError, packet_list, read_csv, read_mahimahi

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from decimal import Decimal
    from pathlib import Path

__all__ = ["Files"]

_Read = TypeVar("_Read")


class Files:
    """What a plan reads beside its scenario: traces, pages, HAR files, each once."""

    def __init__(self, folder: Path) -> None:
        """``folder`` holds the scenario."""
        self.folder = folder
        self._points: dict[tuple[str, str], list[tuple[int, Decimal]]] = {}
        self._packets: dict[str, list[int]] = {}
        self._mahimahi: dict[str, Mahimahi] = {}
        self._others: dict[Hashable, Any] = {}

    def once(self, what: Hashable, read: Callable[[], _Read]) -> _Read:
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
