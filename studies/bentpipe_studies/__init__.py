"""Published studies, run again: scenarios of ``studies/NAME``, published against measured, a verdict a row and a claim.

:func:`run` is ``bentpipe study NAME``. Every part of a study is a scenario with a store of its own in ``out/NAME``; a
store is kept, resumed by the same command, and reported like any other. A difference is a result, not a failure.

``verdicts`` and ``parts`` <- ``study`` (what one is) <- ``measures``, ``page_loads`` and ``evidence`` (what several
ask) <- a folder for each study: ``andreotti_2025``, ``thomas_2019``, ``tauran_2018``, ``etosat``; ``output``,
``opening`` and ``page`` say what came out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.figures.export import FigureExport
    from bentpipe.runners.execute import ExecutionSummary, Observer
    from bentpipe_studies.output import Judged
    from bentpipe_studies.study import Study

__all__ = ["NAMES", "find", "run"]

NAMES = {
    "andreotti-2025": "bentpipe_studies.andreotti_2025",
    "thomas-2019": "bentpipe_studies.thomas_2019",
    "etosat": "bentpipe_studies.etosat",
    "tauran-2018": "bentpipe_studies.tauran_2018",
}
"""Studies, and the module of each."""


def find(name: str) -> Study:
    """The study called ``name``. Raises ScenarioError when there is none."""
    if name not in NAMES:
        raise ScenarioError([("name", unknown_name(name, list(NAMES), "study"))], SOURCE_ARGUMENT)
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
    settings: Mapping[str, object] | None = None,
    engine: str = "sim",
    watch: Observer | None = None,
    full: bool = False,
    files: FigureExport | None = None,
) -> Judged:
    """Runs a study as far as it is not in its stores yet: published against measured.

    Args:
        name: the study.
        only: parts of it, comma-separated; everything without.
        seeds: how many, instead of the scenarios'.
        jobs: worker processes.
        out: where its stores are; ``out/NAME`` without.
        settings: dotted keys to set in each of its scenarios, for a shorter form of it.
        engine: ``emu`` for the study's short form in real time, where it has one.
        watch: who is told meanwhile.
        full: every point, and runs as long as the publication's, where the study is shorter without.
        files: figures as files of their own; their keys have the part of the study in front, where they are of one.

    Returns:
        What came out, with a frame of its verdicts; it is good when everything ran, whatever that is.

    Raises:
        ScenarioError: no such study, part or figure, or no longer form, by the argument.
        bentpipe.StoreError: a store there is not this study's.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
    """
    from bentpipe.runners.execute import InterruptedExecution
    from bentpipe.runners.local import Idle
    from bentpipe_studies.output import Judged, as_data, findings_shown, verdicts_of
    from bentpipe_studies.page import figures_of, write_page
    from bentpipe_studies.parts import Measured, plan_part, run_part
    from bentpipe_studies.study import chosen

    study = find(name).at_full_length() if full else find(name)
    if engine == "emu":
        if files is not None:
            text = "found it in real time, where figures are beside the page; expected it with --engine sim"
            raise ScenarioError([("figures", text)], SOURCE_ARGUMENT)
        return _real(name, only, seeds, jobs, out, watch)
    words, wanted = chosen(study, only)
    place = Path(out) if out is not None else Path("out") / name
    # All parts are planned before the first is run: what is wrong is said at once.
    planned = [
        plan_part(part, wanted[part.name], seeds, settings) for part in study.parts() if part.name in wanted
    ]
    try:
        with Idle() as idle:
            reports = {
                one.part.name: run_part(one, place, jobs=jobs, watch=watch, idle=idle) for one in planned
            }
    except KeyboardInterrupt:
        raise InterruptedExecution(
            f"what is finished is in {place}; the same command goes on from there"
        ) from None
    findings = study.findings(Measured(place, study.parts()), words)
    data = {"study": name, "title": study.title, "stores": _stores(reports), **as_data(findings)}
    page = write_page(place, study.title, findings, data)
    failed = [failure for report in reports.values() for failure in report.failed]
    answer = Judged(
        data,
        (*findings_shown(study.title, findings), *_where(list(reports.values()), page)),
        tuple(f"failed: {one.run}: {one.error}\n  again: {one.replay}" for one in failed[:10]),
        not failed,
        verdicts_of(findings),
    )
    if files is None:
        return answer
    drawn = figures_of(place, findings)
    files.check([figure.key for figure in drawn])
    return files.added(answer, drawn)


REAL = {
    "andreotti-2025": "bentpipe_studies.andreotti_2025.emulation",
    "thomas-2019": "bentpipe_studies.thomas_2019.emulation",
}
"""Studies with a form in real time, and the module of each: ``run`` sets published, simulated and real side by side."""


def _real(
    name: str,
    only: str | None,
    seeds: int | None,
    jobs: int | None,
    out: str | Path | None,
    watch: Observer | None,
) -> Judged:
    if name not in REAL:
        there = ", ".join(REAL)
        raise ScenarioError(
            [("engine", f'found "emu", but only {there} can be had in real time')], SOURCE_ARGUMENT
        )
    import importlib

    place = Path(out) if out is not None else Path("out") / f"{name}-emu"
    run_real = importlib.import_module(REAL[name]).run
    answer: Judged = run_real(place, only=only, seeds=seeds, jobs=jobs, watch=watch)
    return answer


def _stores(reports: Mapping[str, ExecutionSummary]) -> list[dict[str, Any]]:
    return [
        {"part": name, "store": str(report.store), "runs": report.planned, "kept": report.kept, "done": report.done,
         "failed": len(report.failed), "seconds": round(report.seconds, 1), "packets": report.packets}
        for name, report in reports.items()
    ]  # fmt: skip


def _where(reports: Sequence[ExecutionSummary], page: Path) -> list[str]:
    done = sum(report.done for report in reports)
    kept = sum(report.kept for report in reports)
    seconds = sum(report.seconds for report in reports)
    return [
        f"\n{done} runs in {seconds:.0f} s, {kept} were there already. Tables and figures: {page}",
        *(f"  bentpipe report {report.store}" for report in reports),
    ]
