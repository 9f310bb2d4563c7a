"""Contact plan of a file (ION commands, TOML or JSON), checked by the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError, encoding_error, from_pydantic, syntax_error
from bentpipe.scenario.input_file import parse_json, parse_toml, read_input_text
from bentpipe.scenario.network.contact_plan import ContactPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["CheckedPlan", "PlanWarning", "ignore_step", "read", "tables"]

MOST_PROBLEMS = 20
"""Maximum number of reported problems of a file."""


@dataclass(frozen=True)
class PlanWarning:
    """Warning about a plan."""

    at: tuple[str, ...]
    """Places in the file."""
    text: str

    def __str__(self) -> str:
        return f"{' and '.join(self.at)}: {self.text}"


@dataclass(frozen=True)
class CheckedPlan:
    """Valid contact plan."""

    name: str
    title: str
    spec: Mapping[str, Any]
    """Plan as the engine reads it."""
    ranges: Mapping[tuple[str, str], list[tuple[int, int, int]]]
    """Start, stop and one-way light time in ns by pair of contacts; implied ranges included."""
    warnings: tuple[PlanWarning, ...]
    """Valid but probably wrong settings, and skipped lines."""
    statics: tuple[tuple[str, str | None, str], ...] = ()
    """Static next hops: at, to, via."""


def ignore_step(_step: str) -> None:
    """Do nothing."""


def read(file: Path, step: Callable[[str], None] = ignore_step) -> CheckedPlan:
    """Read the plan of a file.

    Args:
        file: ION commands, TOML or JSON.
        step: callback at the begin of each step: a plan of a million contacts takes about ten seconds.

    Raises:
        ScenarioError: no such file, or an invalid plan, with the lines.
    """
    name = str(file)
    step(f"reading {name}")
    text = _text(file, name)
    notes: list[PlanWarning] = []
    plan = ContactPlan()
    if file.suffix in (".toml", ".json"):
        data = _data(text, file.suffix, name)
        try:
            plan = ContactPlan.model_validate(data)
            spec = plan.spec(_member_lines(text, data) if file.suffix == ".toml" else None)
        except ValidationError as error:
            raise from_pydantic(error, data, name) from None
        except ScenarioError as error:
            raise error.with_source(name) from None
    else:
        parsed = engine.read_contact_plan(text)
        if parsed["errors"]:
            raise _problems_error([(f"line {line}", problem) for line, problem in parsed["errors"]], name)
        notes = [PlanWarning((f"line {line}",), note) for line, note in parsed["notes"]]
        spec = parsed["plan"]
    step(f"checking {len(spec['contacts']):,} contacts")
    checked = engine.check_contact_plan(spec)
    if checked["errors"]:
        problems = [(" and ".join(entry["declared_at"]), entry["text"]) for entry in checked["errors"]]
        raise _problems_error(problems, name)
    if not spec["contacts"] and not spec.get("nodes"):
        example = {".toml": "a table [[contact]]", ".json": 'a list "contact"'}.get(
            file.suffix, '"a contact +0 +60 1 2 125000"'
        )
        raise ScenarioError([("", f"has no contacts, expected some, such as {example}")], name)
    warnings = [PlanWarning(tuple(entry["declared_at"]), entry["text"]) for entry in checked["warnings"]]
    ranges = {
        (entry["from"], entry["to"]): [tuple(interval) for interval in entry["ranges"]]
        for entry in checked["pairs"]
    }
    return CheckedPlan(
        name,
        plan.title,
        spec,
        ranges,
        (*notes, *warnings),
        tuple((hop.at, hop.to, hop.via) for hop in plan.route),
    )


def _problems_error(problems: list[tuple[str, str]], name: str) -> ScenarioError:
    extra = len(problems) - MOST_PROBLEMS
    reported = problems[:MOST_PROBLEMS]
    return ScenarioError([*reported, ("", f"and {extra:,} more problems")] if extra > 0 else reported, name)


def tables(file: Path, expected: str) -> dict[str, Any]:
    """Return the tables of a TOML or JSON file.

    Args:
        file: file.
        expected: description of the content, for messages.

    Raises:
        ScenarioError: unreadable or invalid file.
    """
    name = str(file)
    return _data(_text(file, name), file.suffix, name, expected)


def _text(file: Path, name: str) -> str:
    try:
        return read_input_text(file, pipes=True)
    except FileNotFoundError:
        raise ScenarioError([("", "no such file")], name) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([("", encoding_error(error))], name) from None
    except OSError as error:
        raise ScenarioError([("", f"cannot be read: {error.strerror}")], name) from None


def _data(
    text: str, suffix: str, name: str, expected: str = "a table with contact and range"
) -> dict[str, Any]:
    kind = suffix[1:].upper()
    try:
        data = parse_toml(text) if suffix == ".toml" else parse_json(text)
    except ValueError as error:
        raise ScenarioError([("", f"is not {kind}: {syntax_error(error)}")], name) from None
    if not isinstance(data, dict):
        raise ScenarioError([("", f"expected {expected}")], name)
    return data


def _member_lines(text: str, data: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """Return the lines of list members, where each member has its own header."""
    result: dict[tuple[str, int], str] = {}
    for key in ("contact", "range"):
        header = re.compile(rf"\s*\[\[\s*[\"']?{key}[\"']?\s*\]\]")
        lines = [number for number, line in enumerate(text.splitlines(), 1) if header.match(line)]
        if len(lines) == len(data.get(key, ())):
            result |= {(key, index): f"line {number}" for index, number in enumerate(lines)}
    return result
