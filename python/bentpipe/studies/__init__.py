"""Published studies, run again: scenarios of ``studies/NAME``, published against measured, a verdict a row and a claim.

:func:`run` is ``bentpipe study NAME``. Every part of a study is a scenario with a store of its own in ``out/NAME``;
a store is kept, resumed by the same command, and reported like any other. A difference is a result, not a failure.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.problems import ScenarioError, unknown_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.runners.conduct import Report
    from bentpipe.studies.study import Study

__all__ = ["NAMES", "find", "run"]

NAMES = {
    "andreotti-2025": "bentpipe.studies.andreotti_2025",
    "thomas-2019": "bentpipe.studies.thomas_2019",
    "etosat": "bentpipe.studies.etosat",
}
"""Studies, and the module of each."""


def find(name: str) -> Study:
    """The study called ``name``. Raises ScenarioError when there is none."""
    if name not in NAMES:
        raise ScenarioError([("NAME", unknown_word(name, list(NAMES), "study"))])
    import importlib

    study: Study = importlib.import_module(NAMES[name]).STUDY
    return study


def run(
    name: str,
    *,
    only: str | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    as_json: bool = False,
    settings: Mapping[str, object] | None = None,
    engine: str = "sim",
) -> int:
    """Runs a study as far as it is not in its stores yet, and prints published against measured.

    Args:
        name: the study.
        only: parts of it, comma-separated; everything without.
        seeds: how many, instead of the scenarios'.
        jobs: worker processes.
        out: where its stores are; ``out/NAME`` without.
        as_json: print JSON instead of tables.
        settings: dotted keys to set in each of its scenarios, for a shorter form of it.
        engine: ``emu`` for the study's short form in real time, where it has one.

    Returns:
        0 when everything ran, whatever came out; 1 when a run failed.

    Raises:
        ScenarioError: no such study or part.
        bentpipe.StoreError: a store there is not this study's.
    """
    from bentpipe.cli.terminal import emit
    from bentpipe.studies.output import as_data, print_findings
    from bentpipe.studies.page import write_page
    from bentpipe.studies.parts import Measured, plan_part, run_part
    from bentpipe.studies.study import chosen

    study = find(name)
    if engine == "emu":
        return _real(name, only, seeds, jobs, out, as_json=as_json)
    words, wanted = chosen(study, only)
    place = Path(out) if out is not None else Path("out") / name
    # All parts are planned before the first is run: what is wrong is said at once.
    planned = [
        plan_part(part, wanted[part.name], seeds, settings) for part in study.parts() if part.name in wanted
    ]
    try:
        reports = {one.part.name: run_part(one, place, jobs=jobs, quiet=as_json) for one in planned}
    except KeyboardInterrupt:
        print(
            f"\ninterrupted: what is finished is in {place}; the same command goes on from there",
            file=sys.stderr,
        )
        raise
    findings = study.findings(Measured(place, study.parts()), words)
    data = {"study": name, "title": study.title, "stores": _stores(reports), **as_data(findings)}
    page = write_page(place, study.title, findings, data)
    if as_json:
        emit(data)
    else:
        print_findings(study.title, findings)
        _say_where(list(reports.values()), page)
    return _failures(reports)


REAL = {
    "andreotti-2025": "bentpipe.studies.andreotti_2025.real",
    "thomas-2019": "bentpipe.studies.thomas_2019.real",
}
"""Studies with a form in real time, and the module of each: its ``run`` prints published, simulated and real."""


def _real(
    name: str, only: str | None, seeds: int | None, jobs: int | None, out: str | Path | None, *, as_json: bool
) -> int:
    if name not in REAL:
        there = ", ".join(REAL)
        raise ScenarioError([("--engine", f'found "emu", but only {there} can be had in real time')])
    import importlib

    place = Path(out) if out is not None else Path("out") / f"{name}-emu"
    run_real = importlib.import_module(REAL[name]).run
    status: int = run_real(place, only=only, seeds=seeds, jobs=jobs, as_json=as_json)
    return status


def _stores(reports: Mapping[str, Report]) -> list[dict[str, Any]]:
    return [
        {"part": name, "store": str(report.store), "runs": report.planned, "kept": report.kept, "done": report.done,
         "failed": len(report.failed), "seconds": round(report.seconds, 1), "packets": report.packets}
        for name, report in reports.items()
    ]  # fmt: skip


def _say_where(reports: Sequence[Report], page: Path) -> None:
    done = sum(report.done for report in reports)
    kept = sum(report.kept for report in reports)
    seconds = sum(report.seconds for report in reports)
    print(f"\n{done} runs in {seconds:.0f} s, {kept} were there already. Tables and figures: {page}")
    for report in reports:
        print(f"  bentpipe report {report.store}")


def _failures(reports: Mapping[str, Report]) -> int:
    failed = [failure for report in reports.values() for failure in report.failed]
    for failure in failed[:10]:
        print(f"failed: {failure.run}: {failure.error}\n  again: {failure.replay}", file=sys.stderr)
    return 1 if failed else 0
