"""Congestion controllers of a scenario, checked against the engine's list: names and options."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.quantity_text import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from bentpipe.scenario.base import Congestion
    from bentpipe.scenario.flow.tcp import TcpEnd
    from bentpipe.scenario.model import Scenario

__all__ = [
    "LOCATION",
    "by_name",
    "check_controllers",
    "check_unused",
    "controller_names",
    "deterministic_controllers",
    "located_controllers",
    "replace_controllers",
]

LOCATION = re.compile(r"(?P<file>.*\.py)(?::(?P<class>[^:]*))?", re.DOTALL)
"""Name of a user-supplied controller that is a file and its class: ``FILE.py:CLASS``."""

_KEYS = ("congestion", "server_congestion")
"""Keys whose value names a controller."""


def located_controllers(data: object) -> dict[str, str]:
    """Return the controllers that scenario data names as ``FILE.py:CLASS``, each with its first key."""
    found: dict[str, str] = {}
    for table, place, key in _controller_names(data):
        if LOCATION.fullmatch(table[place]):
            found.setdefault(table[place], key)
    return found


def replace_controllers(data: object, names: Mapping[str, str]) -> None:
    """Replace names of controllers in scenario data."""
    for table, place, _ in list(_controller_names(data)):
        table[place] = names.get(table[place], table[place])


def controller_names(data: object) -> list[str]:
    """Return every text of scenario data that names a controller."""
    return [table[place] for table, place, _ in _controller_names(data)]


def check_unused(given: Collection[str], used: Collection[str], flows: Sequence[str]) -> None:
    """Refuse names of controllers that no flow of any run uses.

    Args:
        given: names from the command line or an argument.
        used: names in the scenario, over all cells.
        flows: names of the scenario's flows.

    Raises:
        ScenarioError: a name is unused.
    """
    problems = [
        ("controllers", _unused_text(name, used, flows)) for name in given if name not in used and name
    ]
    if problems:
        raise ScenarioError(problems, SOURCE_ARGUMENT)


def _unused_text(name: str, used: Collection[str], flows: Sequence[str]) -> str:
    flow = name if name in flows else flows[0]
    if near := nearest(name, list(used)):
        hint = f'did you mean "{near}"?'
    else:
        prefix = f'"{name}" is a flow; ' if name in flows else ""
        value = "NAME" if name in flows else f'"{name}"'
        hint = f"{prefix}a flow names its controller by its key, flow.{flow}.congestion = {value}"
    expected = f", expected a controller of the flows: {', '.join(used)}" if used else ""
    return f'no flow has the controller "{name}"{expected}; {hint}'


def _controller_names(
    value: Any, key: str = "", *, names_controller: bool = False
) -> Iterator[tuple[Any, Any, str]]:
    """Yield the place of each text that names a controller: its table or list, key or index there, and dotted key."""
    for place, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        if isinstance(value, dict):
            is_controller = names_controller or any(part in _KEYS for part in str(place).split("."))
            at = f"{key}.{place}" if key else str(place)
        else:
            is_controller = names_controller
            member = inner.get("name") if isinstance(inner, dict) and not names_controller else None
            at = f"{key}.{member}" if isinstance(member, str) else key
        if not isinstance(inner, str):
            yield from _controller_names(inner, at, names_controller=is_controller)
        elif is_controller:
            yield value, place, at


def by_name(catalogue: Sequence[Mapping[str, Any]] | None) -> dict[str, Mapping[str, Any]]:
    """Index the entries of the engine's list by every name and alias that a scenario may use."""
    return {
        name: entry
        for entry in catalogue or ()
        for name in (entry["scenario_name"], *entry.get("aliases", ()))
    }


def deterministic_controllers(catalogue: Sequence[Mapping[str, Any]] | None) -> set[str]:
    """Return the names of the controllers that draw no random numbers; any other may."""
    return {name for name, entry in by_name(catalogue).items() if not entry.get("draws", True)}


def check_controllers(
    scenario: Scenario, entries: Mapping[str, Mapping[str, Any]], user_controllers: Collection[str]
) -> None:
    """Check the names and options of all controllers in a scenario.

    Args:
        scenario: the scenario.
        entries: the engine's list by name; an empty one disables the check.
        user_controllers: names of user-supplied controllers, whose options are not checked here.

    Raises:
        ScenarioError: an unknown controller or option, or a value outside its range.
    """
    if not entries:
        return
    problems: list[tuple[str, str]] = []
    for key, congestion in _congestion_tables(scenario):
        if congestion.name in user_controllers:
            continue
        entry = entries.get(congestion.name)
        if entry is None:
            names = [*entries, *sorted(user_controllers)]
            problems.append((key, unknown_name(congestion.name, names, "controller")))
            continue
        problems.extend(_option_problems(key, congestion.options, entry))
    if problems:
        raise ScenarioError(problems)


def _congestion_tables(scenario: Scenario) -> list[tuple[str, Congestion]]:
    """Return every controller of a scenario with its key."""
    # Readers of a store need only the names of controllers.
    from bentpipe.plan.network.graph import proxies_of

    found: list[tuple[str, Congestion | None]] = []
    ends: list[tuple[str, TcpEnd | None]] = [("tcp", scenario.tcp), ("tcp.server", scenario.tcp.server)]
    for flow in scenario.flow:
        key = f"flow.{flow.name}"
        if flow.transport == "udp":
            continue
        found += [
            (f"{key}.congestion", flow.congestion),
            (f"{key}.server_congestion", flow.server_congestion),
        ]
        ends += [(f"{key}.tcp", flow.tcp), (f"{key}.tcp.server", flow.tcp.server)]
    for key, proxy in proxies_of(scenario).items():
        ends += [(f"{key}.client_side", proxy.client_side), (f"{key}.server_side", proxy.server_side)]
    found += [(f"{key}.congestion", end.congestion) for key, end in ends if end is not None]
    return [(key, congestion) for key, congestion in found if congestion is not None]


def _option_problems(key: str, options: Mapping[str, Any], entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    definitions = {definition["key"]: definition for definition in entry.get("options", ())}
    problems = []
    for name, value in options.items():
        definition = definitions.get(name)
        if definition is None:
            kind = f"option of {entry['scenario_name']}"
            problems.append((f"{key}.{name}", unknown_name(name, definitions, kind)))
        elif (text := _value_problem(value, definition)) is not None:
            problems.append((f"{key}.{name}", text))
    return problems


def _value_problem(value: object, definition: Mapping[str, Any]) -> str | None:
    """Return the message for a value that does not fit its option; None for one that does."""
    quantity = definition["quantity"]
    if quantity == "flag":
        return None if isinstance(value, bool) else f"found {json.dumps(value)}, expected true or false"
    if quantity == "choice":
        choices = definition["argument"]
        if value in choices:
            return None
        return f"found {json.dumps(value)}: {unknown_name(str(value), choices, 'word')}"
    whole = quantity == "integer"
    low, high = definition["min"], definition["max"]
    fits = (
        isinstance(value, int if whole else (int, float))
        and not isinstance(value, bool)
        and low <= value <= high
    )
    low, high = (int(low), int(high)) if whole else (low, high)
    kind = "a whole number" if whole else "a number"
    return None if fits else f"found {json.dumps(value)}, expected {kind} from {low} to {high}"
