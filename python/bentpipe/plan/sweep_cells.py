"""The scenarios of a sweep's cells. What no cell sets is read once, and is the same table in all of them."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bentpipe.scenario.base import Table
from bentpipe.scenario.link.direction import Direction
from bentpipe.scenario.model import Scenario, validate
from bentpipe.scenario.sweep import set_key, settings, swept_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Scenarios"]

MEMBERS = {"path": ("segment", "proxy", "handover"), "graph": ("link", "node", "handover")}
"""Lists whose members a sweep calls by their names; the flows are another."""


class Scenarios:
    """Scenarios of the cells of one document, one after the other."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        """``data`` is the document as parsed, with its sweep."""
        # a copy by pickle takes a fifth of the time of deepcopy
        self._whole = pickle.dumps({key: value for key, value in data.items() if key != "sweep"})
        places = [place.split(".") for place in swept_keys(data.get("sweep"))]
        self._roots = {words[0] for words in places}
        self._below: dict[tuple[str, str], set[str]] = defaultdict(set)
        for words in places:
            if len(words) > 2:
                self._below[words[0], words[1]] |= _first_words(words[2:], words[0])
        self._first: Scenario | None = None

    def of(self, values: Mapping[str, Any]) -> Scenario:
        """The scenario of a cell. Raises ScenarioError."""
        data: dict[str, Any] = pickle.loads(self._whole)  # noqa: S301 - what was pickled here
        for key, value in settings(values).items():
            set_key(data, key, copy.deepcopy(value))
        if self._first is not None:
            try:
                return Scenario.model_validate(self._again(data, self._first))
            except ValidationError:
                pass  # said below, of the text alone
        scenario = validate(data)
        self._first = self._first or scenario
        return scenario

    def _again(self, data: Mapping[str, Any], first: Scenario) -> dict[str, Any]:
        """``data`` with tables of the first cell in place of what no cell sets, which pydantic takes as they are."""
        again = dict(data)
        for name, raw in data.items():
            read = getattr(first, name)
            if name not in self._roots:
                again[name] = read if isinstance(read, (Table, dict)) else raw
            elif name == "flow":
                again[name] = self._members(name, raw, read)
            elif name in MEMBERS:
                lists = {
                    key: self._members(name, raw[key], getattr(read, key))
                    for key in MEMBERS[name]
                    if key in raw
                }
                again[name] = {**raw, **lists}
        return again

    def _members(self, root: str, raw: Sequence[Any], read: Sequence[Any]) -> list[Any]:
        """Members of a list: of those that a cell sets, what it sets as it is written."""
        return [self._member(root, own, member) for own, member in zip(raw, read, strict=True)]

    def _member(self, root: str, own: Any, read: Table) -> Any:
        below = self._below.get((root, str(getattr(read, "name", ""))))
        if below is None:
            return read
        if not isinstance(own, dict):
            return own
        kept = {key: getattr(read, key, None) for key in own.keys() - below}
        return own | {key: table for key, table in kept.items() if isinstance(table, Table)}


def _first_words(rest: Sequence[str], root: str) -> set[str]:
    """Keys of a member that a place is below; a key of a direction, said of a link, is below both."""
    if root != "flow" and rest[0] in Direction.model_fields and rest[0] != "delay":
        return {"up", "down"}
    return {rest[0]}
