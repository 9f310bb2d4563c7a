"""Break-even map: object sizes and round-trip times at which split TCP is faster than QUIC.

``access``: bottleneck of an access network
``config``: input of a map, and its scenario
``ratios``: ratios of page load times from the store of a map
``recommendation``: headline of the map
``page``: HTML page, figures and JSON of the map

:func:`run` is ``bentpipe break-even``, and :func:`break_even_map` is ``bentpipe.break_even_map``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.break_even.access import Access, access, numbers
from bentpipe.break_even.config import SIZES, BreakEvenConfig, parse_config
from bentpipe.plan.access import check_given
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.sweep import format_override, parse_override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.break_even.ratios import Map
    from bentpipe.figures.export import FigureExport
    from bentpipe.metrics.format import CommandOutput
    from bentpipe.runners.execute import ExecutionSummary, Observer

__all__ = ["BreakEvenConfig", "break_even_map", "parse_config", "resolve_access", "run"]

_ARGUMENTS = {"flow.web.congestion": "controllers", "tcp.congestion": "tcp"}
"""Arguments by the key of the map's scenario that they set."""

PATH = "path."
"""Prefix of settings that apply to a preset or scenario file; others apply to the scenario of the map."""


def resolve_access(
    name: str | None, down: str | None, up: str | None, rtt: str | None, settings: Sequence[str] = ()
) -> tuple[Access, tuple[str, ...]]:
    """Resolve the access (preset, scenario or numbers) and return the remaining settings of the map.

    Args:
        name: preset or scenario file (TOML); None if the access is given as numbers.
        down: rate towards the client, such as ``"50 Mbit/s"``.
        up: rate towards the server.
        rtt: round-trip time of the whole path, such as ``"620 ms"``.
        settings: ``KEY=VALUE`` texts; those of ``path.`` apply to the access.

    Raises:
        ScenarioError: the access is missing, incomplete, given twice or wrong, by the argument of
            :func:`break_even_map`.
    """
    check_given(name, down, up, rtt)
    if name is None:
        return numbers(down, up, rtt), tuple(settings)
    path_settings = [text for text in settings if text.startswith(PATH)]
    resolved = access(name, [parse_override(text) for text in path_settings])
    return resolved, tuple(text for text in settings if text not in path_settings)


def run(
    config: BreakEvenConfig,
    out: Path,
    *,
    jobs: int | None = None,
    settings: tuple[str, ...] = (),
    watch: Observer | None = None,
    files: FigureExport | None = None,
) -> CommandOutput:
    """Compute the missing runs of a map, write its files and return the break-even sizes.

    The files are ``map.html``, ``map.json`` and the figure as SVG and PDF.

    Args:
        config: input of the map.
        out: directory of the map; its store is ``out/store``.
        jobs: number of worker processes (default: one for each processor).
        settings: ``KEY=VALUE`` texts that change the scenario, as ``--set`` does.
        watch: callbacks for progress and messages.
        files: export of the figure to further files.

    Raises:
        ScenarioError: the input or ``files`` is wrong, by the argument of :func:`break_even_map`.
        bentpipe.StoreError: ``out`` holds another map.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
    """
    from bentpipe.break_even.page import KEYS, figure, write
    from bentpipe.break_even.ratios import break_even_rows
    from bentpipe.break_even.recommendation import gains, headline_text
    from bentpipe.metrics.format import CommandOutput, TextTable

    if files is not None:
        files.check(KEYS)
    result, report = _compute(config, out, jobs, settings, watch)
    page = write(result, out)
    rows = break_even_rows(result)
    title = f"Object size at which split TCP overtakes QUIC, {config.access.title} ({config.proxy} proxies)"
    output = CommandOutput(
        {"access": config.access.name, "proxy": config.proxy, "answer": headline_text(result),
         "gains": [gain.as_row() for gain in gains(result)], "break_even": rows,
         "cells": [cell.as_row() for cell in result.cells]},
        (f"{headline_text(result)}\n", TextTable(title, rows), _summary_line(report, page)),
        tuple(f"failed: {failure.run}: {failure.error}" for failure in report.failed[:10]),
        not report.failed,
    )  # fmt: skip
    return output if files is None else files.added(output, [figure(result)])


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
    """Compute the ratios of page load times, QUIC to split TCP, by object size and round-trip time.

    Only missing runs are computed. ``map.html``, ``map.json`` and the figure are written beside the store.

    Args:
        access: a preset (:func:`bentpipe.presets`) or a scenario file, which needs a path only. Without it, ``down``,
            ``up`` and ``rtt`` define the access.
        down: rate towards the client, such as ``"50 Mbit/s"``; the queue is 1 BDP.
        up: rate towards the server.
        rtt: round-trip time of the whole path, such as ``"620 ms"``.
        controllers: congestion controllers of QUIC.
        windows: initial windows of QUIC, in packets.
        tcp: controller of the TCP servers.
        proxy: ``"plain"``, ``"pooled"`` or ``"line-rate"`` (default: ``"line-rate"``, or ``"pooled"`` for an
            access with slots).
        sizes: object sizes, such as ``"1 MB"``.
        rtts: round-trip times, such as ``"600 ms"`` (default: seven from 20 to 800 ms, including that of the access).
        seeds: number of seeds, if the access is stochastic (default: 3 for an access with slots, else 1).
        settings: dotted keys to set: those of the path of a preset or file, and any key of the map's scenario.
        jobs: number of worker processes (default: one for each processor).
        out: directory of the map (default: ``out/break-even-ACCESS``).

    Raises:
        bentpipe.ScenarioError: an argument is wrong.
        bentpipe.StoreError: ``out`` holds another map.
        bentpipe.RunsFailedError: some runs failed.
    """
    from bentpipe.api.results import Results
    from bentpipe.api.run import RunsFailedError
    from bentpipe.break_even.page import write

    overrides = [format_override(*item) for item in (settings or {}).items()]
    resolved, map_settings = resolve_access(access, down, up, rtt, overrides)
    config = parse_config(
        resolved, controllers=tuple(controllers), windows=tuple(map(str, windows)), tcp=tcp, proxy=proxy,
        sizes=tuple(sizes), rtts=tuple(rtts) if rtts is not None else None, seeds=seeds,
    )  # fmt: skip
    directory = Path(out) if out is not None else Path("out") / f"break-even-{resolved.name}"
    result, report = _compute(config, directory, jobs, map_settings)
    if report.failed:
        raise RunsFailedError(Results(directory / "store"), report)
    write(result, directory)
    return result


def _compute(
    config: BreakEvenConfig,
    out: Path,
    jobs: int | None,
    settings: tuple[str, ...] = (),
    watch: Observer | None = None,
) -> tuple[Map, ExecutionSummary]:
    """Compute the missing runs and return the map and the execution summary."""
    from bentpipe.break_even.config import scenario
    from bentpipe.break_even.ratios import read_map
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine
    from bentpipe.runners.execute import execute
    from bentpipe.runners.local import LocalRunner

    overrides = [parse_override(text) for text in settings]
    document = load_scenario(scenario(config), overrides, list(settings))
    document = replace(document, folder=config.access.folder)
    try:
        plan = build_plan(document, engine.version(), catalogue=engine.catalogue(), orbits=engine.orbit)
    except ScenarioError as error:
        if not all(key in _ARGUMENTS for key, _ in error.problems):
            raise
        raise ScenarioError(
            [(_ARGUMENTS[key], text) for key, text in error.problems], SOURCE_ARGUMENT
        ) from None
    report = execute(plan, LocalRunner(jobs), out / "store", watch=watch)
    return read_map(out / "store", config), report


def _summary_line(report: ExecutionSummary, page: Path) -> str:
    reused = f", {report.kept} from earlier runs" if report.kept else ""
    return f"\n{report.done} runs in {report.seconds:.0f} s{reused}. Map: {page}"
