"""Controllers that a scenario names, against those that there are: names and options."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bentpipe.plan.network.graph import proxies_of
from bentpipe.scenario.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bentpipe.scenario.base import Congestion
    from bentpipe.scenario.flow.tcp import TcpEnd
    from bentpipe.scenario.model import Scenario

__all__ = ["check_controllers"]


def check_controllers(
    scenario: Scenario, entries: Mapping[str, Mapping[str, Any]], own: Collection[str]
) -> None:
    """Raises ScenarioError for a name or an option that is not there.

    Args:
        scenario: whose.
        entries: of the catalogue, by name; nothing is known without.
        own: names of controllers that were given from outside.
    """
    if not entries:
        return
    problems: list[tuple[str, str]] = []
    for where, congestion in _named(scenario):
        if congestion.name in own:
            continue
        entry = entries.get(congestion.name)
        if entry is None:
            words = [*entries, *sorted(own)]
            problems.append((where, unknown_name(congestion.name, words, "controller")))
            continue
        problems.extend(_wrong_options(where, congestion.options, entry))
    if problems:
        raise ScenarioError(problems)


def _named(scenario: Scenario) -> list[tuple[str, Congestion]]:
    """Every controller that the scenario names, with its key."""
    found: list[tuple[str, Congestion | None]] = []
    tables: list[tuple[str, TcpEnd | None]] = [("tcp", scenario.tcp), ("tcp.server", scenario.tcp.server)]
    for flow in scenario.flow:
        where = f"flow.{flow.name}"
        if flow.transport == "udp":
            continue
        found += [
            (f"{where}.congestion", flow.congestion),
            (f"{where}.server_congestion", flow.server_congestion),
        ]
        tables += [(f"{where}.tcp", flow.tcp), (f"{where}.tcp.server", flow.tcp.server)]
    for key, proxy in proxies_of(scenario).items():
        tables += [(f"{key}.client_side", proxy.client_side), (f"{key}.server_side", proxy.server_side)]
    found += [(f"{key}.congestion", table.congestion) for key, table in tables if table is not None]
    return [(key, congestion) for key, congestion in found if congestion is not None]


def _wrong_options(where: str, given: Mapping[str, Any], entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    options = {option["key"]: option for option in entry.get("options", ())}
    problems = []
    for key, value in given.items():
        option = options.get(key)
        if option is None:
            kind = f"option of {entry['scenario_name']}"
            problems.append((f"{where}.{key}", unknown_name(key, options, kind)))
        elif (text := _misfit(value, option)) is not None:
            problems.append((f"{where}.{key}", text))
    return problems


def _misfit(value: object, option: Mapping[str, Any]) -> str | None:
    """Return the message for a value that does not fit its option; None for one that does."""
    quantity = option["quantity"]
    if quantity == "flag":
        return None if isinstance(value, bool) else f"found {json.dumps(value)}, expected true or false"
    if quantity == "choice":
        words = option["argument"]
        if value in words:
            return None
        return f"found {json.dumps(value)}: {unknown_name(str(value), words, 'word')}"
    whole = quantity == "integer"
    low, high = option["min"], option["max"]
    fits = (
        isinstance(value, int if whole else (int, float))
        and not isinstance(value, bool)
        and low <= value <= high
    )
    low, high = (int(low), int(high)) if whole else (low, high)
    what = "a whole number" if whole else "a number"
    return None if fits else f"found {json.dumps(value)}, expected {what} from {low} to {high}"
