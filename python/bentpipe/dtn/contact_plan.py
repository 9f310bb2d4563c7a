"""A contact plan of a file: ION's commands, TOML or JSON, checked by the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError, encoding_error, from_pydantic
from bentpipe.scenario.input_file import parse_json, parse_toml, read_input_text
from bentpipe.scenario.network.contact_plan import ContactPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["Found", "Remark", "read", "tables", "unseen"]

MOST_PROBLEMS = 20
"""Problems of a file that are said."""


@dataclass(frozen=True)
class Remark:
    """Something said of a plan, and where it is said."""

    at: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{' and '.join(self.at)}: {self.text}"


@dataclass(frozen=True)
class Found:
    """A plan that is in order."""

    name: str
    title: str
    spec: Mapping[str, Any]
    """The plan in the engine's words."""
    ranges: Mapping[tuple[str, str], list[tuple[int, int, int]]]
    """By pair of contacts: start, stop and light time, ns; those that are implied among them."""
    remarks: tuple[Remark, ...]
    """What is in order and yet hardly meant, and lines that were passed over."""
    statics: tuple[tuple[str, str | None, str], ...] = ()
    """Next hops set by hand: at, to, via."""


def unseen(_step: str) -> None:
    """Take no notice."""


def read(file: Path, step: Callable[[str], None] = unseen) -> Found:
    """Read the plan of a file.

    Args:
        file: ION's commands, TOML or JSON.
        step: is told what begins, for whom waits: a plan of a million contacts takes some ten seconds.

    Raises:
        ScenarioError: no such file, or what is wrong with it, by its lines.
    """
    name = str(file)
    step(f"reading {name}")
    text = _text(file, name)
    notes: list[Remark] = []
    plan = ContactPlan()
    if file.suffix in (".toml", ".json"):
        data = _data(text, file.suffix, name)
        try:
            plan = ContactPlan.model_validate(data)
            spec = plan.spec(_lines(text, data) if file.suffix == ".toml" else None)
        except ValidationError as error:
            raise from_pydantic(error, data, name) from None
        except ScenarioError as error:
            raise error.with_source(name) from None
    else:
        parsed = engine.read_contact_plan(text)
        if parsed["problems"]:
            raise _refused([(f"line {line}", problem) for line, problem in parsed["problems"]], name)
        notes = [Remark((f"line {line}",), note) for line, note in parsed["notes"]]
        spec = parsed["plan"]
    step(f"checking {len(spec['contacts']):,} contacts")
    checked = engine.check_contact_plan(spec)
    if checked["problems"]:
        said = [(" and ".join(one["at"]), one["text"]) for one in checked["problems"]]
        raise _refused(said, name)
    if not spec["contacts"] and not spec.get("nodes"):
        example = {".toml": "a table [[contact]]", ".json": 'a list "contact"'}.get(
            file.suffix, '"a contact +0 +60 1 2 125000"'
        )
        raise ScenarioError([("", f"has no contacts, expected some, such as {example}")], name)
    remarks = [Remark(tuple(one["at"]), one["text"]) for one in checked["remarks"]]
    ranges = {(one["from"], one["to"]): [tuple(held) for held in one["ranges"]] for one in checked["pairs"]}
    return Found(
        name,
        plan.title,
        spec,
        ranges,
        (*notes, *remarks),
        tuple((hop.at, hop.to, hop.via) for hop in plan.route),
    )


def _refused(problems: list[tuple[str, str]], name: str) -> ScenarioError:
    more = len(problems) - MOST_PROBLEMS
    shown = problems[:MOST_PROBLEMS]
    return ScenarioError([*shown, ("", f"and {more:,} more problems")] if more > 0 else shown, name)


def tables(file: Path, expected: str) -> dict[str, Any]:
    """The tables of a TOML or JSON file. Raises ScenarioError, with what was ``expected`` where there are none."""
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
        found = parse_toml(text) if suffix == ".toml" else parse_json(text)
    except ValueError as error:
        raise ScenarioError([("", f"is not {kind}: {error}")], name) from None
    if not isinstance(found, dict):
        raise ScenarioError([("", f"expected {expected}")], name)
    return found


def _lines(text: str, data: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """Where the members of lists begin, where each has a header of its own."""
    found: dict[tuple[str, int], str] = {}
    for key in ("contact", "range"):
        header = re.compile(rf"\s*\[\[\s*[\"']?{key}[\"']?\s*\]\]")
        lines = [number for number, line in enumerate(text.splitlines(), 1) if header.match(line)]
        if len(lines) == len(data.get(key, ())):
            found |= {(key, place): f"line {number}" for place, number in enumerate(lines)}
    return found
