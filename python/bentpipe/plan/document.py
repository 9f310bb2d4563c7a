"""A scenario document as given: file or table, with its preset and its overrides applied."""

from __future__ import annotations

import copy
import math
import re
import tomllib
from dataclasses import dataclass, field
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.spec.run_id import canonical
from bentpipe.scenario.errors import ScenarioError, encoding_error, syntax_error
from bentpipe.scenario.input_file import MOST_DOCUMENT_BYTES, parse_toml, read_input_text
from bentpipe.scenario.presets import PRESET, expand_preset
from bentpipe.scenario.sweep import SWEEP, axes_of, is_scenario_key, overrides, set_key, swept_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["ScenarioDocument", "load_scenario"]


@dataclass(frozen=True)
class ScenarioDocument:
    """A scenario as given: its text, its parsed data, and the folder of its traces.

    ``data`` has the segments of a preset, unless the sweep sets ``path.preset``.
    """

    text: str
    data: Mapping[str, Any]
    folder: Path
    name: str
    overrides: Sequence[str] = ()
    """Overrides ``KEY=VALUE`` of the command line; two documents with other overrides differ."""
    options: Sequence[str] = ()
    """Other options of the command line that apply to every run, as written."""
    controllers: Mapping[str, str] = field(default_factory=dict)
    """Built-in controllers that names of the scenario stand for."""
    lists: Sequence[str] = ()
    """Keys that an override sets to a list without a sweep; an error there may be a missing sweep."""
    overridden: Sequence[str] = ()
    """Keys of the overrides, for messages."""
    origin: str = ""
    """The option or argument of the overrides, for messages."""


def load_scenario(
    source: str | Path | Mapping[str, Any],
    overrides: Iterable[tuple[str, object]] = (),
    shown: Sequence[str] = (),
    origin: str = "--set",
) -> ScenarioDocument:
    """Read a scenario from a file or a table, and apply its preset and overrides.

    Args:
        source: a TOML file, or its content as a mapping.
        overrides: keys to set, in order. A swept key takes the value (or list of values) as its sweep.
        shown: the overrides as written.
        origin: the option or argument of the overrides, for messages.

    Raises:
        ScenarioError: no such file, not TOML, or an override of a missing member.
    """
    if isinstance(source, (str, Path)):
        name, folder = str(source), Path(source).parent
        text, data = _read_file(Path(source), name)
    else:
        data, folder, name = copy.deepcopy(dict(source)), Path(), "scenario"
        _check_plain(data, "", name)
        text = canonical(data)
    settings = list(overrides)
    lists = _apply_overrides(data, settings, folder, name, origin)
    _check_plain(data, "", name)
    # A message about a swept key names its cell.
    overridden = tuple(key for key, _ in settings if not key.startswith(SWEEP))
    return ScenarioDocument(
        text, data, folder, name, tuple(shown), lists=lists, overridden=overridden, origin=origin
    )


def _apply_overrides(
    data: dict[str, Any], settings: Sequence[tuple[str, object]], folder: Path, name: str, origin: str
) -> tuple[str, ...]:
    """Apply the preset, then the overrides; return the keys that are set to a list without a sweep.

    Segments of a preset exist before other keys are set. With a swept preset each cell has its own segments.

    Raises:
        ScenarioError: no such preset, or an override of a missing member.
    """
    for key, value in settings:
        if key == PRESET:
            _override_preset(data, value)
        elif key == f"{SWEEP}{PRESET}":
            _override(data, key, value, name, origin)
    axes = swept_keys(data.get("sweep"))
    if PRESET not in axes:
        try:
            expand_preset(data, folder)
        except ScenarioError as error:
            raise error.with_source(name) from None
    lists = [
        key for key, value in settings if isinstance(value, list) and is_scenario_key(key) and key not in axes
    ]
    for key, value in settings:
        if key in (PRESET, f"{SWEEP}{PRESET}"):
            continue
        try:
            _override(data, key, value, name, origin)
        except ScenarioError as error:
            raise _add_preset_hint(error, key) if PRESET in axes else error from None
    return tuple(lists)


def _read_file(path: Path, name: str) -> tuple[str, dict[str, Any]]:
    """Return text and table of a scenario file. Raises ScenarioError."""
    try:
        text = read_input_text(path, MOST_DOCUMENT_BYTES, pipes=True)
    except FileNotFoundError:
        problem = f"no such file{_suggest_file(path)}"
    except UnicodeDecodeError as error:
        problem = encoding_error(error)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        if (path / "plan.json").is_file():
            problem = f"is a store, expected a scenario file; its scenario is {path / 'scenario.toml'}"
    else:
        return text, _parse_text(text, path, name)
    raise ScenarioError([("", problem)], name)


def _parse_text(text: str, path: Path, name: str) -> dict[str, Any]:
    """Return the table of a scenario. Raises ScenarioError."""
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        problem = _identify(text, path) or f"is not TOML: {syntax_error(error)}"
    except ValueError as error:  # a number of thousands of digits, lists in lists in lists
        problem = f"has a value that cannot be read: {error}"
    raise ScenarioError([("", problem)], name)


def _identify(text: str, path: Path) -> str:
    """Return the message for a text in another format than TOML; empty if it is none of the known ones."""
    if path.suffix == ".py":
        class_name = re.search(r"^class (\w+)", text, re.MULTILINE)
        location = f"{path}:{class_name[1]}" if class_name else str(path)
        return f'is Python, expected a scenario in TOML; a flow of it names a controller as congestion = "{location}"'
    first = text.lstrip()[:1]
    if first == "<":
        return "is HTML or XML, expected a scenario in TOML"
    if first == "{" and path.suffix == ".har":
        return f"is a HAR file, expected a scenario in TOML; `bentpipe import-har {path}` makes a page of it"
    if first == "{":
        return "is JSON, expected a scenario in TOML"
    return ""


def _check_plain(value: object, key: str, name: str) -> None:
    """Reject values that JSON lacks: dates, infinities, NaN and lone surrogates. Raises ScenarioError."""
    if isinstance(value, dict):
        for member, inner in value.items():
            _check_text(member, key, name)
            _check_plain(inner, f"{key}.{member}" if key else str(member), name)
    elif isinstance(value, list):
        for inner in value:
            _check_plain(inner, key, name)
    elif not isinstance(value, (str, bool, int, float)) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        hint = "; text needs quotes" if isinstance(value, (date, time)) else ""
        expected = "expected text, a number, true, false, a list or a table"
        raise ScenarioError([(key, f"found {value}, {expected}{hint}")], name)
    elif isinstance(value, str):
        _check_text(value, key, name)


def _check_text(text: object, key: str, name: str) -> None:
    """Reject keys that are not text, and text without a UTF-8 encoding. Raises ScenarioError."""
    try:
        if isinstance(text, str):
            text.encode()
            return
    except UnicodeEncodeError:
        pass
    raise ScenarioError([(key, f"found {text!r}, expected text that can be written as UTF-8")], name)


def _override_preset(data: dict[str, Any], value: object) -> None:
    """Set the preset, or the values of its sweep."""
    axes = axes_of(data.get("sweep"))
    if PRESET in axes:
        axes[PRESET][:] = value if isinstance(value, list) else [value]
    elif isinstance(data.setdefault("path", {}), dict):
        data["path"]["preset"] = value


def _add_preset_hint(error: ScenarioError, key: str) -> ScenarioError:
    """Return an error about a member of the path that only a swept preset may have, with the place to set it."""
    if not key.startswith("path."):
        return error
    hint = f'the sweep sets {PRESET}; set it beside the preset, as {{ "{PRESET}" = ..., "{key}" = ... }}'
    return ScenarioError([(at, f"{text}; {hint}") for at, text in error.problems], error.source)


def _suggest_file(path: Path) -> str:
    from bentpipe.scenario.package_data import preset_names
    from bentpipe.scenario.quantity_text import nearest_file

    names = [entry.name for entry in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    similar = nearest_file(path.name, names)
    if str(path) in preset_names():
        return f'; "{path}" is a preset, expected it as path.preset of a scenario'
    return f'; did you mean "{path.with_name(similar)}"?' if similar else ""


def _override(data: dict[str, Any], key: str, value: object, name: str, origin: str) -> None:
    sweep = data.get("sweep")
    axis = key.removeprefix(SWEEP)
    if isinstance(sweep, dict) and axis in sweep:
        sweep[axis] = value if isinstance(value, list) else [value]
        return
    table = next((other for other in swept_keys(sweep) if overrides(other, key)), None)
    if table is not None:
        text = f'would have no effect: the sweep sets all of "{table}"; set it in the sweep\'s values'
        raise ScenarioError([(key, f"{text} (in {origin})")], name)
    try:
        set_key(data, key, value)
    except ScenarioError as error:
        raise error.with_source(name, f"in {origin}") from None


def add_override_hints(error: ScenarioError, document: ScenarioDocument) -> ScenarioError:
    """Return an error whose messages name the option of an override.

    For keys that an override sets to a list they suggest a sweep.
    """

    def add_hint(key: str, text: str) -> str:
        option = f" (in {document.origin})" if key in document.overridden else ""
        return suggest_sweep(key, text) + option

    def suggest_sweep(key: str, text: str) -> str:
        for listed in document.lists:
            # A key of a link applies to both directions, so the key of the error may have more parts.
            if text.startswith(("found [", "found a list")) and set(listed.split(".")) <= set(key.split(".")):
                return f'{text}; did you mean to sweep it, as "sweep.{listed}"?'
        return text

    return ScenarioError([(key, add_hint(key, text)) for key, text in error.problems], error.source)
