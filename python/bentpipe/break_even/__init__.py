"""The crossover map: from which object size, and at which round-trip time, does split TCP beat QUIC?

``access`` is what it is about, ``question`` makes a scenario of it, ``ratios`` reads its store, ``verdict`` says it in
a sentence, ``page`` draws it; :func:`run` is ``bentpipe map``, and :func:`measure` is ``bentpipe.break_even_map``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.break_even.access import Access, access, numbers
from bentpipe.break_even.config import SIZES, BreakEvenConfig, parse_config
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.sweep import format_override, parse_override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.break_even.ratios import Map
    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.runners.execute import ExecutionSummary, Observer

__all__ = ["BreakEvenConfig", "break_even_map", "parse_config", "resolve_access", "run"]

_ASKED_BY = {"flow.web.congestion": "controllers", "tcp.congestion": "tcp"}
"""The arguments behind keys of the scenario that a map is."""


PATH = "path."
"""Settings of the access, where it is of a preset or a file; others are of the map's own scenario."""


def resolve_access(
    name: str | None, down: str | None, up: str | None, rtt: str | None, settings: Sequence[str] = ()
) -> tuple[Access, tuple[str, ...]]:
    """The access that is asked for, by its name or as numbers, and the settings that are the map's own.

    Raises:
        ScenarioError: none, both, or half of one; what is wrong with it, by the argument of :func:`measure`.
    """
    given = [key for key, value in (("down", down), ("up", up), ("rtt", rtt)) if value is not None]
    if name is None and not given:
        text = (
            "missing, expected a preset, a scenario (TOML), or an access as numbers: --down, --up and --rtt"
        )
        raise ScenarioError([("access", text)], SOURCE_ARGUMENT)
    if name is None:
        return numbers(down, up, rtt), tuple(settings)
    if given:
        text = f"found beside {name}, whose path has rates and delays; expected one of them, or --set of its keys"
        raise ScenarioError([(given[0], text)], SOURCE_ARGUMENT)
    own = [text for text in settings if text.startswith(PATH)]
    found = access(name, [parse_override(text) for text in own])
    return found, tuple(text for text in settings if text not in own)


def run(
    question: BreakEvenConfig,
    out: Path,
    *,
    jobs: int | None = None,
    settings: tuple[str, ...] = (),
    watch: Observer | None = None,
    files: FigureExport | None = None,
) -> CommandOutput:
    """Runs what is missing of a map, writes ``map.html``, ``map.json`` and figures: the break-even sizes.

    Args:
        question: what is compared.
        out: the directory of the map; its store is ``out/store``.
        jobs: worker processes (default: one a processor).
        settings: ``KEY=VALUE`` texts that change the scenario, as ``--set`` does.
        watch: who is told meanwhile.
        files: the figure as files, too.

    Raises:
        ScenarioError: what is wrong with the question or ``files``, by the argument of :func:`measure`.
        bentpipe.StoreError: ``out`` holds another map.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
    """
    from bentpipe.break_even.page import KEYS, figure, write
    from bentpipe.break_even.ratios import break_even_rows
    from bentpipe.break_even.recommendation import gains, headline_text
    from bentpipe.metrics.format import CommandOutput, TextTable

    if files is not None:
        files.check(KEYS)
    found, report = _measured(question, out, jobs, settings, watch)
    page = write(found, out)
    rows = break_even_rows(found)
    title = (
        f"Object size at which split TCP overtakes QUIC, {question.access.title} ({question.proxy} proxies)"
    )
    answer = CommandOutput(
        {"access": question.access.name, "proxy": question.proxy, "answer": headline_text(found),
         "gains": [one.as_row() for one in gains(found)], "break_even": rows,
         "cells": [cell.as_row() for cell in found.cells]},
        (f"{headline_text(found)}\n", TextTable(title, rows), _where(report, page)),
        tuple(f"failed: {failure.run}: {failure.error}" for failure in report.failed[:10]),
        not report.failed,
    )  # fmt: skip
    return answer if files is None else files.added(answer, [figure(found)])


def break_even_map(
    access: str | None = None,
    *,
    down: str | None = None,
    up: str | None = None,
    rtt: str | None = None,
    controllers: Sequence[str] = ("cubic", "bbr"),
    windows: Sequence[int] = (10, 32),
    tcp: str = "cubic",
    proxy: str | None = None,
    sizes: Sequence[str] = SIZES,
    rtts: Sequence[str] | None = None,
    seeds: int | None = None,
    settings: Mapping[str, object] | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
) -> Map:
    """The map of an access: page load times of QUIC over those of split TCP, by object size and round-trip time.

    What is missing is run; ``map.html``, ``map.json`` and figures are written beside the store.

    Args:
        access: a preset (:func:`bentpipe.presets`), or a scenario file, of which the path is enough; without, ``down``,
            ``up`` and ``rtt`` are one.
        down: rate towards the client, such as ``"50 Mbit/s"``; its queue is a BDP.
        up: rate towards the server.
        rtt: its whole round-trip time, such as ``"620 ms"``.
        controllers: QUIC's congestion controllers.
        windows: QUIC's initial windows, in packets.
        tcp: controller of the TCP servers.
        proxy: ``"plain"``, ``"pooled"`` or ``"rate-knowing"``; without, the last, of an access with slots the second.
        sizes: of the object, such as ``"1 MB"``.
        rtts: round-trip times, such as ``"600 ms"``; without, seven from 20 to 800 ms, among them the access's own.
        seeds: how many, where the access has chance; without, 3 where it has slots, else 1.
        settings: dotted keys to set: of a preset or file those of its path, and any of the map's scenario.
        jobs: worker processes (default: one a processor).
        out: directory of the map; ``out/map-ACCESS`` without.

    Raises:
        bentpipe.ScenarioError: what is wrong with the question, by the argument.
        bentpipe.StoreError: ``out`` holds another map.
        bentpipe.RunsFailedError: some runs failed.
    """
    from bentpipe.api.results import Results
    from bentpipe.api.run import RunsFailedError
    from bentpipe.break_even.page import write

    given = [format_override(*one) for one in (settings or {}).items()]
    behind, rest = resolve_access(access, down, up, rtt, given)
    question = parse_config(
        behind, controllers=tuple(controllers), windows=tuple(map(str, windows)), tcp=tcp, proxy=proxy,
        sizes=tuple(sizes), rtts=tuple(rtts) if rtts is not None else None, seeds=seeds,
    )  # fmt: skip
    place = Path(out) if out is not None else Path("out") / f"map-{behind.name}"
    found, report = _measured(question, place, jobs, rest)
    if report.failed:
        raise RunsFailedError(Results(place / "store"), report)
    write(found, place)
    return found


def _measured(
    question: BreakEvenConfig,
    out: Path,
    jobs: int | None,
    settings: tuple[str, ...] = (),
    watch: Observer | None = None,
) -> tuple[Map, ExecutionSummary]:
    """The map, after what was missing of it has been run."""
    from bentpipe.break_even.config import scenario
    from bentpipe.break_even.ratios import read_map
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine
    from bentpipe.runners.execute import execute
    from bentpipe.runners.local import LocalRunner

    overrides = [parse_override(text) for text in settings]
    document = load_scenario(scenario(question), overrides, list(settings))
    document = replace(document, folder=question.access.folder)
    try:
        plan = build_plan(document, engine.version(), catalogue=engine.catalogue(), orbits=engine.orbit)
    except ScenarioError as error:
        if not all(key in _ASKED_BY for key, _ in error.problems):
            raise
        raise ScenarioError(
            [(_ASKED_BY[key], text) for key, text in error.problems], SOURCE_ARGUMENT
        ) from None
    report = execute(plan, LocalRunner(jobs), out / "store", watch=watch)
    return read_map(out / "store", question), report


def _where(report: ExecutionSummary, page: Path) -> str:
    kept = f", {report.kept} were there already" if report.kept else ""
    return f"\n{report.done} runs in {report.seconds:.0f} s{kept}. The map: {page}"
