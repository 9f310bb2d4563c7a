"""The plan: a scenario's sweep and seeds as explicit runs, each with a stable id.

A run's id is a hash of the resolved run, its cell of the sweep, the schema and the engine's version: equal ids
mean equal bytes. Nothing here runs anything.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import math
import pickle
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan import price
from bentpipe.plan.chance import drawn
from bentpipe.plan.controllers import by_name, silent
from bentpipe.plan.files import Files
from bentpipe.plan.graph import proxies_of
from bentpipe.plan.identity import canonical, identity
from bentpipe.plan.measured import owners
from bentpipe.plan.resolve import Resolved, resolve
from bentpipe.scenario.model import Scenario, validate
from bentpipe.scenario.problems import ScenarioError, not_utf8, unknown_word
from bentpipe.scenario.sweep import cells, covers, describe, is_place, put, settings, swept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bentpipe.plan.orbits import Ask
    from bentpipe.plan.spec import RunSpec
    from bentpipe.scenario.quantities import Congestion
    from bentpipe.scenario.tcp import TcpEnd

__all__ = ["Document", "Plan", "Run", "make", "open_document"]

MOST_RUNS = 1_000_000

PRESET = "path.preset"


@dataclass(frozen=True)
class Document:
    """A scenario as it was given: its text, what it parses to, and where its traces are."""

    text: str
    data: Mapping[str, Any]
    folder: Path
    name: str
    overrides: Sequence[str] = ()
    """``KEY=VALUE`` as the command line gave them; part of what makes two scenarios different."""
    lists: Sequence[str] = ()
    """Keys that were set to a list and are not swept: what is wrong there may have been meant as a sweep."""


@dataclass(frozen=True)
class Run:
    """One run of the plan."""

    id: str
    cell: Mapping[str, Any]
    """Keys of the sweep and their values here, as the scenario writes them."""
    seed: int
    spec: RunSpec
    """The resolved run."""

    def spec_json(self) -> str:
        """The resolved run as the engine takes it."""
        return canonical(self.spec)


@dataclass(frozen=True)
class Cell:
    """One combination of the sweep's values, resolved; its runs differ by seed only."""

    values: Mapping[str, Any]
    scenario: Scenario
    resolved: Resolved
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Every run of a scenario, in order: cells as the sweep has them, then seeds."""

    document: Document
    engine: str
    title: str
    cells: tuple[Cell, ...]
    runs: tuple[Run, ...] = field(repr=False)
    own: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of controllers that were given from outside, by name."""
    seeds: int = 1
    """How many were asked for; a cell without chance has one of them."""

    @property
    def link_seconds(self) -> float:
        """Virtual time of all runs together."""
        return sum(float(run.spec["duration_ns"]) for run in self.runs) / 1e9


def open_document(
    source: str | Path | Mapping[str, Any],
    overrides: Iterable[tuple[str, object]] = (),
    shown: Sequence[str] = (),
) -> Document:
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
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise ScenarioError([("", f"no such file{_near_file(path)}")], name) from None
        except UnicodeDecodeError as error:
            raise ScenarioError([("", not_utf8(error))], name) from None
        except OSError as error:
            raise ScenarioError([("", f"cannot be read: {error.strerror}")], name) from None
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ScenarioError([("", f"is not TOML: {error}")], name) from None
        except (
            ValueError,
            RecursionError,
        ) as error:  # a number of thousands of digits, lists in lists in lists
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
    if PRESET in swept(data.get("sweep")):
        problem = "a preset is not swept, its segments have names of their own; run once for each, with --set"
        raise ScenarioError([(f"sweep.{PRESET}", problem)], name)
    _expand_preset(data, name)
    axes = swept(data.get("sweep"))
    lists = [key for key, value in given if isinstance(value, list) and is_place(key) and key not in axes]
    for key, value in given:
        if key != PRESET:
            _override(data, key, value, name)
    _check_plain(data, "", name)
    return Document(text, data, folder, name, tuple(shown), tuple(lists))


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
        raise ScenarioError(
            [(key, f"found {value}, expected text, a number, true, false, a list or a table")], name
        )
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


def _expand_preset(data: dict[str, Any], name: str) -> None:
    """``[path] preset = "NAME"`` becomes the preset's segments and proxies, in front of the scenario's own."""
    path = data.get("path")
    if not isinstance(path, dict) or "preset" not in path:
        return
    from bentpipe.scenario.presets import proxies, segments

    try:
        preset = path.pop("preset")
        for key, found in (("segment", segments(preset)), ("proxy", proxies(preset))):
            own = path.get(key, [])
            if found and isinstance(own, list):  # what is no list is refused when the scenario is read
                path[key] = [*found, *own]
    except ScenarioError as error:
        raise error.within(name) from None


def _near_file(path: Path) -> str:
    from bentpipe.scenario.units import nearest

    there = [entry.name for entry in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    near = nearest(path.name, there)
    return f'; did you mean "{path.with_name(near)}"?' if near else ""


def _override(data: dict[str, Any], key: str, value: object, name: str) -> None:
    sweep = data.get("sweep")
    if isinstance(sweep, dict) and key in sweep:
        sweep[key] = value if isinstance(value, list) else [value]
        return
    over = next((other for other in swept(sweep) if covers(other, key)), None)
    if over is not None:
        text = f'would be lost: the sweep sets the whole of "{over}"; set it in the sweep\'s values'
        raise ScenarioError([(key, f"{text} (in --set)")], name)
    try:
        put(data, key, value)
    except ScenarioError as error:
        raise error.within(name, "in --set") from None


def make(
    document: Document,
    engine: str,
    *,
    seeds: Sequence[int] | None = None,
    catalogue: Sequence[Mapping[str, Any]] | None = None,
    orbits: Ask | None = None,
    own: Mapping[str, str] | None = None,
    repeats: bool = False,
    priced: bool = True,
    each: Callable[[int, int], None] | None = None,
) -> Plan:
    """Every run of ``document``.

    Args:
        document: the scenario.
        engine: version of the engine that will run it; part of every run's id.
        seeds: instead of the scenario's.
        catalogue: the engine's controllers, to check names and options against; None checks neither.
        orbits: the engine's answers on constellations; None refuses scenarios with legs of an orbit.
        own: controllers given from outside: a fingerprint of each by name, part of the ids of runs that use it.
        repeats: every seed is run, also where chance has no part in the scenario: real time is its own chance.
        priced: what costs more than the scenario's limits is refused; False where nothing of it is simulated.
        each: told after each cell how many are planned, and of how many.

    Raises:
        ScenarioError: what is wrong, by key.
    """
    files = Files(document.folder, orbits)
    known = _Controllers(catalogue, own or {})
    planned: list[Cell] = []
    runs: list[Run] = []
    title, asked = "", 1
    whole = pickle.dumps({key: value for key, value in document.data.items() if key != "sweep"})
    with _undisturbed():
        combined = _cells(document)
        for values in combined:
            data = pickle.loads(whole)  # noqa: S301 - a copy of what was just read, in a fifth of deepcopy's time
            context = f"in the sweep, with {describe(values)}" if values else ""
            try:
                for key, value in settings(values).items():
                    put(data, key, copy.deepcopy(value))
                scenario = validate(data)
                known.check(scenario)
                resolved = resolve(scenario, files)
                if priced:
                    price.check(resolved, scenario.limits)
            except ScenarioError as error:
                said = context if values and not known.refuses(document, files, error) else ""
                raise _or_sweep(error, document).within(document.name, said) from None
            title = title or scenario.title
            chosen = tuple(seeds) if seeds is not None else scenario.seeds
            asked = max(asked, len(chosen))
            chosen = chosen if repeats or drawn(resolved.spec, known.silent) else chosen[:1]
            planned.append(Cell(values, scenario, resolved, chosen))
            if len(runs) + len(chosen) > MOST_RUNS:
                raise ScenarioError([("sweep", f"gives more than {MOST_RUNS} runs")], document.name)
            runs.extend(_run(values, seed, resolved.spec, engine, known.own) for seed in chosen)
            if each is not None:
                each(len(planned), len(combined))
    named = title or Path(document.name).stem
    return Plan(document, engine, named, tuple(planned), tuple(runs), known.own, asked)


def _or_sweep(error: ScenarioError, document: Document) -> ScenarioError:
    """``error``; where a key was set to a list of values, with how these are swept."""

    def said(key: str, text: str) -> str:
        for wished in document.lists:
            # a key of a direction means both, so that words can be between those that were written
            if text.startswith(("found [", "found a list")) and set(wished.split(".")) <= set(key.split(".")):
                return f'{text}; did you mean to sweep it, as "sweep.{wished}"?'
        return text

    return ScenarioError([(key, said(key, text)) for key, text in error.problems], error.source)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without the collector of garbage: all that a plan makes stays, and looking through it again and again takes
    longer than making it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _cells(document: Document) -> list[dict[str, Any]]:
    try:
        return cells(document.data.get("sweep"), owners())
    except ScenarioError as error:
        raise error.within(document.name) from None


def _run(cell: Mapping[str, Any], seed: int, spec: RunSpec, engine: str, own: Mapping[str, str]) -> Run:
    whole: RunSpec = {**spec, "seed": seed}
    return Run(identity(cell, whole, engine, own), cell, seed, whole)


class _Controllers:
    """Names and options of controllers, as far as they are known."""

    def __init__(self, catalogue: Sequence[Mapping[str, Any]] | None, own: Mapping[str, str]) -> None:
        self.own = own
        self.entries = by_name(catalogue)
        self.silent = silent(catalogue) - set(own)

    def refuses(self, document: Document, files: Files, wrong: ScenarioError) -> bool:
        """Whether the scenario has these problems without its sweep too."""
        data = copy.deepcopy(dict(document.data))
        data.pop("sweep", None)
        try:
            scenario = validate(data)
            self.check(scenario)
            price.check(resolve(scenario, files), scenario.limits)
        except ScenarioError as error:
            return set(wrong.problems) <= set(error.problems)
        return False

    def check(self, scenario: Scenario) -> None:
        """Raises ScenarioError for a name or an option that is not there."""
        if not self.entries:
            return
        problems: list[tuple[str, str]] = []
        for where, congestion in _named(scenario):
            if congestion.name in self.own:
                continue
            entry = self.entries.get(congestion.name)
            if entry is None:
                words = [*self.entries, *sorted(self.own)]
                problems.append((where, unknown_word(congestion.name, words, "controller")))
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
    options = {option["name"]: option for option in entry.get("options", ())}
    problems = []
    for name, value in given.items():
        option = options.get(name)
        if option is None:
            problems.append((f"{where}.{name}", unknown_word(name, options, f"option of {entry['name']}")))
        elif (text := _misfit(value, option)) is not None:
            problems.append((f"{where}.{name}", text))
    return problems


def _misfit(value: object, option: Mapping[str, Any]) -> str | None:
    """What is wrong with an option's value; None when it fits."""
    kind = option.get("type")
    if kind == "boolean":
        return None if isinstance(value, bool) else f"found {json.dumps(value)}, expected true or false"
    if kind == "string":
        words = list(option.get("allowed", ()))
        if not words or value in words:
            return None
        return f"found {json.dumps(value)}: {unknown_word(str(value), words, 'word')}"
    if kind in ("number", "integer"):
        low, high = option.get("minimum"), option.get("maximum")
        numeric = isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(
            value, bool
        )
        fits = (
            numeric
            and isinstance(value, (int, float))
            and (low is None or value >= low)
            and (high is None or value <= high)
        )
        what = "a whole number" if kind == "integer" else "a number"
        return None if fits else f"found {json.dumps(value)}, expected {what} from {low} to {high}"
    return None
