"""A scenario as it was given: read, with its preset put in and what was set over it."""

from __future__ import annotations

import copy
import math
import tomllib
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.spec.run_id import canonical
from bentpipe.scenario.errors import ScenarioError, encoding_error
from bentpipe.scenario.input_file import MOST_DOCUMENT_BYTES, parse_toml, read_input_text
from bentpipe.scenario.sweep import SWEEP, is_scenario_key, overrides, set_key, swept_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["ScenarioDocument", "load_scenario"]

PRESET = "path.preset"


@dataclass(frozen=True)
class ScenarioDocument:
    """A scenario as it was given: its text, what it parses to, and where its traces are."""

    text: str
    data: Mapping[str, Any]
    folder: Path
    name: str
    overrides: Sequence[str] = ()
    """``KEY=VALUE`` as the command line gave them; part of what makes two scenarios different."""
    options: Sequence[str] = ()
    """What else the command line says of every run, in its words."""
    lists: Sequence[str] = ()
    """Keys that were set to a list and are not swept: what is wrong there may have been meant as a sweep."""


def load_scenario(
    source: str | Path | Mapping[str, Any],
    overrides: Iterable[tuple[str, object]] = (),
    shown: Sequence[str] = (),
) -> ScenarioDocument:
    """Reads a scenario from a file, or takes it as the table it would parse to.

    Args:
        source: a TOML file, or its content as a mapping.
        overrides: keys to set, in order; a key that is swept takes the value (or the list of values) instead.
        shown: the overrides as they were written.

    Raises:
        ScenarioError: no such file, not TOML, or an override of a member that is not there.
    """
    if isinstance(source, (str, Path)):
        path = Path(source)
        name = str(source)
        try:
            text = read_input_text(path, MOST_DOCUMENT_BYTES, pipes=True)
        except FileNotFoundError:
            raise ScenarioError([("", f"no such file{_near_file(path)}")], name) from None
        except UnicodeDecodeError as error:
            raise ScenarioError([("", encoding_error(error))], name) from None
        except OSError as error:
            raise ScenarioError([("", f"cannot be read: {error.strerror}")], name) from None
        try:
            data = parse_toml(text)
        except tomllib.TOMLDecodeError as error:
            raise ScenarioError([("", f"is not TOML: {error}")], name) from None
        except ValueError as error:  # a number of thousands of digits, lists in lists in lists
            raise ScenarioError([("", f"holds what cannot be read: {error}")], name) from None
        folder = path.parent
    else:
        data, folder, name = copy.deepcopy(dict(source)), Path(), "scenario"
        _check_plain(data, "", name)
        text = canonical(data)
    given = list(overrides)
    for key, value in given:
        if key == PRESET and isinstance(data.setdefault("path", {}), dict):
            data["path"]["preset"] = value
    if PRESET in swept_keys(data.get("sweep")):
        problem = "a preset is not swept, its segments have names of their own; run once for each, with --set"
        raise ScenarioError([(f"sweep.{PRESET}", problem)], name)
    _expand_preset(data, folder, name)
    axes = swept_keys(data.get("sweep"))
    lists = [
        key for key, value in given if isinstance(value, list) and is_scenario_key(key) and key not in axes
    ]
    for key, value in given:
        if key != PRESET:
            _override(data, key, value, name)
    _check_plain(data, "", name)
    return ScenarioDocument(text, data, folder, name, tuple(shown), lists=tuple(lists))


def _check_plain(value: object, key: str, name: str) -> None:
    """Only what JSON has too. Raises ScenarioError for dates, infinities, not-a-numbers and halves of letters."""
    if isinstance(value, dict):
        for word, inner in value.items():
            _check_text(word, key, name)
            _check_plain(inner, f"{key}.{word}" if key else str(word), name)
    elif isinstance(value, list):
        for inner in value:
            _check_plain(inner, key, name)
    elif not isinstance(value, (str, bool, int, float)) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        hint = "; text stands in quotes" if isinstance(value, (date, time)) else ""
        expected = "expected text, a number, true, false, a list or a table"
        raise ScenarioError([(key, f"found {value}, {expected}{hint}")], name)
    elif isinstance(value, str):
        _check_text(value, key, name)


def _check_text(text: object, key: str, name: str) -> None:
    """Keys are text, and text can be written. Raises ScenarioError."""
    try:
        if isinstance(text, str):
            text.encode()
            return
    except UnicodeEncodeError:
        pass
    raise ScenarioError([(key, f"found {text!r}, expected text that can be written as UTF-8")], name)


def _expand_preset(data: dict[str, Any], folder: Path, name: str) -> None:
    """``[path] preset = "NAME"`` becomes the preset's segments and proxies, in front of the scenario's own."""
    path = data.get("path")
    if not isinstance(path, dict) or "preset" not in path:
        return
    from bentpipe.scenario.presets import preset

    try:
        known = preset(path.pop("preset"), folder)
        for key, found in (("segment", known.segments), ("proxy", known.proxies)):
            own = path.get(key, [])
            if found and isinstance(own, list):  # what is no list is refused when the scenario is read
                path[key] = [*found, *own]
    except ScenarioError as error:
        raise error.within(name) from None


def _near_file(path: Path) -> str:
    from bentpipe.scenario.quantities import nearest

    there = [entry.name for entry in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    near = nearest(path.name, there)
    return f'; did you mean "{path.with_name(near)}"?' if near else ""


def _override(data: dict[str, Any], key: str, value: object, name: str) -> None:
    sweep = data.get("sweep")
    axis = key.removeprefix(SWEEP)
    if isinstance(sweep, dict) and axis in sweep:
        sweep[axis] = value if isinstance(value, list) else [value]
        return
    over = next((other for other in swept_keys(sweep) if overrides(other, key)), None)
    if over is not None:
        text = f'would be lost: the sweep sets the whole of "{over}"; set it in the sweep\'s values'
        raise ScenarioError([(key, f"{text} (in --set)")], name)
    try:
        set_key(data, key, value)
    except ScenarioError as error:
        raise error.within(name, "in --set") from None


def add_sweep_hint(error: ScenarioError, document: ScenarioDocument) -> ScenarioError:
    """``error``; where a key was set to a list of values, with how these are swept."""

    def said(key: str, text: str) -> str:
        for wished in document.lists:
            # a key of a direction means both, so that words can be between those that were written
            if text.startswith(("found [", "found a list")) and set(wished.split(".")) <= set(key.split(".")):
                return f'{text}; did you mean to sweep it, as "sweep.{wished}"?'
        return text

    return ScenarioError([(key, said(key, text)) for key, text in error.problems], error.source)
