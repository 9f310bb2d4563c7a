"""The crossover map: from which object size, and at which round-trip time, does split TCP beat QUIC?

``question`` makes a scenario of it, ``ratios`` reads its store, ``page`` draws it; :func:`run` is ``bentpipe map``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.crossover.question import Question
from bentpipe.scenario.problems import ScenarioError

if TYPE_CHECKING:
    from bentpipe.runners.conduct import Report

__all__ = ["Question", "run"]

INTERRUPTED = 130

_ASKED_BY = {"flow.web.congestion": "--controllers", "tcp.congestion": "--tcp"}
"""The options behind keys of the scenario that a map is."""


def run(
    question: Question,
    out: Path,
    *,
    jobs: int | None = None,
    as_json: bool = False,
    settings: tuple[str, ...] = (),
) -> int:
    """Runs what is missing of a map, prints the break-even sizes and writes ``map.html``, ``map.json`` and figures.

    Args:
        question: what is compared.
        out: the directory of the map; its store is ``out/store``.
        jobs: worker processes (default: one a processor).
        as_json: print JSON instead of a table.
        settings: ``KEY=VALUE`` texts that change the scenario, as ``--set`` does.

    Returns:
        0 when every run ended well, 1 when one failed, 130 when Ctrl-C came before the last.

    Raises:
        ScenarioError: what is wrong with the question.
        bentpipe.StoreError: ``out`` holds another map.
    """
    from bentpipe.cli.terminal import emit, print_table, progress, say_interrupted
    from bentpipe.crossover.page import write
    from bentpipe.crossover.question import scenario
    from bentpipe.crossover.ratios import break_even_rows, read_map
    from bentpipe.plan.runs import make, open_document
    from bentpipe.runners import engine
    from bentpipe.runners.conduct import conduct
    from bentpipe.runners.local import LocalRunner
    from bentpipe.scenario.sweep import parse_override
    from bentpipe.store.directory import Writer

    overrides = [parse_override(text) for text in settings]
    document = open_document(scenario(question), overrides, list(settings))
    try:
        plan = make(document, engine.version(), catalogue=engine.catalogue())
    except ScenarioError as error:
        raise ScenarioError([(_ASKED_BY.get(key, key), text) for key, text in error.problems]) from None
    with Writer(out / "store", plan) as writer:
        try:
            with progress(plan, writer.missing(plan.runs), quiet=as_json) as each:
                report = conduct(plan, LocalRunner(jobs), writer, each=each)
        except KeyboardInterrupt:
            say_interrupted(writer, len(plan.runs))
            return INTERRUPTED
    found = read_map(out / "store", question)
    page = write(found, out)
    rows = break_even_rows(found)
    if as_json:
        emit({"access": question.access.name, "proxy": question.proxy, "break_even": rows,
              "cells": [cell.as_row() for cell in found.cells]})  # fmt: skip
    else:
        title = f"Object size at which split TCP overtakes QUIC, {question.access.title} ({question.proxy} proxies)"
        print_table(rows, title)
        _say_where(report, page)
    for failure in report.failed[:10]:
        print(f"failed: {failure.run}: {failure.error}", file=sys.stderr)
    return 1 if report.failed else 0


def _say_where(report: Report, page: Path) -> None:
    kept = f", {report.kept} were there already" if report.kept else ""
    print(f"\n{report.done} runs in {report.seconds:.0f} s{kept}. The map: {page}")
