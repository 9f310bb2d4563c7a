"""JSON document of a suite: a public format for results of congestion controllers, and its checker.

docs/reference/suite-format.md describes the format. Other programs may write it; :func:`check_document` lists what is
wrong with a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.intervals import round_significant
from bentpipe.metrics.verdicts import Verdict
from bentpipe.suite.criterion import OracleClass
from bentpipe.suite.results import Outcome

if TYPE_CHECKING:
    from bentpipe.suite.results import CellResult, CriterionResult, SuiteResult

__all__ = ["FORMAT", "check_document", "document"]

FORMAT = "bentpipe-suite/1"
"""Name and version of the format."""

_VERDICTS = {
    Verdict.AGREES: "agrees",
    Verdict.DIFFERS: "differs",
    Verdict.UNDECIDED: "undecided",
    Verdict.NOT_RUN: "not run",
}


def document(result: SuiteResult, commands: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Return a suite as plain data.

    Args:
        result: the suite.
        commands: command that repeats a cell, by scenario and controller.
    """
    entries = {cell.entry.name: cell.entry for cell in result.cells}
    return {
        "format": FORMAT,
        "simulator": f"bentpipe {result.engine}",
        "scenarios": [
            {
                "name": entry.name,
                "title": entry.title,
                "question": entry.suite.question,
                "source": entry.suite.source,
                "remark": entry.suite.remark,
            }
            for entry in entries.values()
        ],
        "cells": [_cell(cell, commands[cell.entry.name, cell.controller.label]) for cell in result.cells],
    }


def _cell(cell: CellResult, command: str) -> dict[str, Any]:
    return {
        "scenario": cell.entry.name,
        "controller": cell.controller.label,
        "implementation": cell.controller.location or cell.controller.built_in,
        "outcome": cell.outcome.value,
        "error": cell.error,
        "command": command,
        "seeds": cell.seeds,
        "criteria": [_criterion(one) for one in cell.criteria],
    }


def _criterion(one: CriterionResult) -> dict[str, Any]:
    criterion, interval = one.criterion, one.interval
    bounds = (None, None) if interval is None else (interval.low, interval.high)
    return {
        "measure": criterion.measure,
        "class": criterion.oracle,
        "relative_to": criterion.baseline or None,
        "cell": dict(one.cell),
        "window_s": None if one.window is None else list(one.window),
        "at_least": criterion.at_least,
        "at_most": criterion.at_most,
        "expected": round_significant(one.expected if criterion.law is not None else criterion.published),
        "tolerance": None if criterion.tolerance is None else criterion.tolerance.value,
        "source": one.source,
        "values": [round_significant(value) for value in one.values],
        "mean": None if interval is None else round_significant(interval.estimate),
        "interval": None if None in bounds else [round_significant(bound) for bound in bounds],
        "verdict": _VERDICTS[one.verdict],
        "reason": one.reason,
    }


_NUMBER = (int, float)
_TEXT = (str,)
_OPTIONAL_NUMBER = (int, float, type(None))

_DOCUMENT: Mapping[str, tuple[type, ...]] = {
    "format": _TEXT,
    "simulator": _TEXT,
    "scenarios": (list,),
    "cells": (list,),
}
_SCENARIO: Mapping[str, tuple[type, ...]] = dict.fromkeys(
    ("name", "title", "question", "source", "remark"), _TEXT
)
_CELL: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("scenario", "controller", "implementation", "outcome", "error", "command"), _TEXT),
    "seeds": (int,),
    "criteria": (list,),
}
_CRITERION: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("measure", "class", "source", "verdict", "reason"), _TEXT),
    **dict.fromkeys(("at_least", "at_most", "expected", "tolerance", "mean"), _OPTIONAL_NUMBER),
    "relative_to": (str, type(None)),
    "cell": (dict,),
    "window_s": (list, type(None)),
    "values": (list,),
    "interval": (list, type(None)),
}


def check_document(data: Any) -> list[str]:
    """Return what is wrong with a document of the format: one message with its place for each problem.

    Args:
        data: parsed JSON.
    """
    if isinstance(data, dict):
        data = {key: value for key, value in data.items() if key != "comparison"}
    problems = _check_object("", data, _DOCUMENT)
    if problems:
        return problems
    if data["format"] != FORMAT:
        return [f'format: found "{data["format"]}", expected "{FORMAT}"']
    for index, scenario in enumerate(data["scenarios"]):
        problems += _check_object(f"scenarios[{index}]", scenario, _SCENARIO)
    if problems:
        return problems
    names = [scenario["name"] for scenario in data["scenarios"]]
    seen: set[tuple[str, str]] = set()
    for index, cell in enumerate(data["cells"]):
        place = f"cells[{index}]"
        found = _check_object(place, cell, _CELL)
        problems += found or _check_cell(place, cell, names, seen)
    return problems


def _check_cell(
    place: str, cell: Mapping[str, Any], names: list[str], seen: set[tuple[str, str]]
) -> list[str]:
    problems = []
    if cell["scenario"] not in names:
        problems.append(f'{place}.scenario: "{cell["scenario"]}" is not in scenarios')
    key = (cell["scenario"], cell["controller"])
    if key in seen:
        problems.append(f"{place}: a second cell of {key[0]} and {key[1]}")
    seen.add(key)
    problems += _check_word(f"{place}.outcome", cell["outcome"], [one.value for one in Outcome])
    for index, one in enumerate(cell["criteria"]):
        here = f"{place}.criteria[{index}]"
        found = _check_object(here, one, _CRITERION)
        problems += found or _check_criterion(here, one, cell["seeds"])
    if not problems and cell["outcome"] != outcome_of(cell):
        problems.append(
            f'{place}.outcome: found "{cell["outcome"]}", but its criteria give "{outcome_of(cell)}"'
        )
    return problems


def _check_criterion(place: str, one: Mapping[str, Any], seeds: int) -> list[str]:
    problems = _check_word(f"{place}.class", one["class"], [item.value for item in OracleClass])
    problems += _check_word(f"{place}.verdict", one["verdict"], list(_VERDICTS.values()))
    values = one["values"]
    if any(isinstance(value, bool) or not isinstance(value, _NUMBER) for value in values):
        problems.append(f"{place}.values: found other than numbers")
    elif len(values) > seeds:
        problems.append(f"{place}.values: found {len(values)}, expected at most {seeds}, one for each seed")
    elif (
        values
        and one["mean"] is not None
        and abs(one["mean"] - sum(values) / len(values)) > 1e-4 * abs(one["mean"])
    ):
        problems.append(f"{place}.mean: found {one['mean']}, expected the mean of values")
    limits = one["at_least"] is not None or one["at_most"] is not None
    if limits == (one["expected"] is not None):
        problems.append(f"{place}: expected either at_least or at_most, or expected with a tolerance")
    return problems


def outcome_of(cell: Mapping[str, Any]) -> str:
    """Return the outcome of a cell of a document by its criteria."""
    if cell["error"]:
        return Outcome.ERROR.value
    if not cell["criteria"]:
        return Outcome.UNPUBLISHED.value
    differs = [one for one in cell["criteria"] if one["verdict"] == "differs"]
    if any(one["class"] != OracleClass.TREND for one in differs):
        return Outcome.FAILS.value
    if differs:
        return Outcome.DIFFERS.value
    is_open = any(one["verdict"] != "agrees" for one in cell["criteria"])
    return Outcome.UNDECIDED.value if is_open else Outcome.PASSES.value


def _check_object(place: str, found: Any, keys: Mapping[str, tuple[type, ...]]) -> list[str]:
    """Return the problems of the keys of an object and their types."""
    name = place or "document"
    if not isinstance(found, dict):
        return [f"{name}: found {type(found).__name__}, expected an object"]
    prefix = f"{place}." if place else ""
    problems = [f"{prefix}{key}: missing" for key in keys if key not in found]
    problems += [
        f"{prefix}{key}: unknown key, expected one of {', '.join(keys)}" for key in found if key not in keys
    ]
    for key, types in keys.items():
        if key in found and (
            not isinstance(found[key], types) or (isinstance(found[key], bool) and bool not in types)
        ):
            problems.append(f"{prefix}{key}: found {type(found[key]).__name__}, expected {_type_text(types)}")
    return problems


def _type_text(types: tuple[type, ...]) -> str:
    names = {
        str: "text",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return " or ".join(dict.fromkeys(names[one] for one in types))


def _check_word(place: str, found: str, known: list[str]) -> list[str]:
    return [] if found in known else [f'{place}: found "{found}", expected one of {", ".join(known)}']
