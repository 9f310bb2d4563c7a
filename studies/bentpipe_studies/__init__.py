"""Published studies, reproduced: published values beside measured ones, with a verdict for each.

Each part of a study (``studies/NAME``) is a scenario with a store in ``out/NAME``. The command that made a
store
resumes it, and ``report`` reads it as any other store. A difference is a result, not a failure.

- ``cli``: the command ``study``
- ``study``: the interface of a study, and the selection by ``--part``
- ``parts``: the parts of a study, their plans, runs and measurements
- ``verdicts``: verdicts on published numbers and statements
- ``measures``: congestion window, variation and fairness over a time span
- ``page_loads``: page loads of a cell, slow start and opinion scores
- ``evidence``: controllers nearer to picoquic
- ``output``: findings as text, tables and JSON
- ``headline``: the first sentences of the page of a study
- ``page``: the HTML page of a study
- ``andreotti_2025``: QUIC over LEO and GEO, and bundles over QUIC
- ``thomas_2019``: Google QUIC over a public satellite access
- ``tauran_2018``: TCP over Adaptive-HARQ
- ``etosat``: the regression tests of draft-kuhn-quic-4-sat
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.figures.export import FigureExport
    from bentpipe.runners.execute import ExecutionSummary, Observer
    from bentpipe_studies.output import StudyOutput
    from bentpipe_studies.study import Study

__all__ = ["NAMES", "find", "run"]

NAMES = {
    "andreotti-2025": "bentpipe_studies.andreotti_2025",
    "thomas-2019": "bentpipe_studies.thomas_2019",
    "etosat": "bentpipe_studies.etosat",
    "tauran-2018": "bentpipe_studies.tauran_2018",
}
"""Names of studies, and the module of each."""


def find(name: str) -> Study:
    """Return the study ``name``.

    Raises:
        ScenarioError: there is no such study.
    """
    if name not in NAMES:
        raise ScenarioError([("name", unknown_name(name, list(NAMES), "study"))], SOURCE_ARGUMENT)
    import importlib

    study: Study = importlib.import_module(NAMES[name]).STUDY
    return study


def run(
    name: str,
    *,
    part: str | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    engine: str = "sim",
    watch: Observer | None = None,
    full: bool = False,
    files: FigureExport | None = None,
) -> StudyOutput:
    """Run the missing parts of a study and compare published values with measured ones.

    Args:
        name: name of the study.
        part: selections of the study, comma-separated; everything without.
        seeds: number of seeds, in place of that of the scenarios.
        jobs: number of worker processes.
        out: directory of the stores; ``out/NAME`` without.
        settings: dotted keys to set in each scenario, for a shorter form of the study.
        engine: ``emu`` for the short form in real time, if the study has one.
        watch: observer of progress and messages.
        full: run every point for as long as the publication did, if the study is shorter without.
        files: export of figures; the key of a figure starts with the part of the study if it is a figure of a
            part.

    Returns:
        Output with a frame of the verdicts; it is good when every run finished, whatever the verdicts.

    Raises:
        ScenarioError: no such study, part or figure, or no longer form; it names the argument.
        bentpipe.StoreError: a store in ``out`` belongs to another study.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
    """
    from bentpipe.runners.execute import InterruptedExecution
    from bentpipe.runners.local import Idle
    from bentpipe_studies.headline import build_headline
    from bentpipe_studies.output import StudyOutput, format_findings, to_json, verdict_rows
    from bentpipe_studies.page import figures_of, write_page
    from bentpipe_studies.parts import Measurements, plan_part, run_part
    from bentpipe_studies.study import decidable_selections, select_parts

    study = find(name).to_full_length() if full else find(name)
    if engine == "emu":
        if files is not None:
            text = "cannot be combined with --engine emu, which writes figures beside the page; requires --engine sim"
            raise ScenarioError([("figures", text)], SOURCE_ARGUMENT)
        return _run_emulation(name, part, seeds, jobs, out, watch)
    selection, filters = select_parts(study, part)
    directory = Path(out) if out is not None else Path("out") / name
    # Every part is planned before the first runs, so that errors appear at once.
    planned = [
        plan_part(part, filters[part.name], seeds, settings) for part in study.parts() if part.name in filters
    ]
    try:
        with Idle() as idle:
            summaries = {
                planned_part.part.name: run_part(planned_part, directory, jobs=jobs, watch=watch, idle=idle)
                for planned_part in planned
            }
    except KeyboardInterrupt:
        raise InterruptedExecution(f"finished runs are in {directory}; rerun the command to resume") from None
    measurements = Measurements(directory, study.parts())
    findings = study.findings(measurements, selection)
    head = {"study": name, "title": study.title, "stores": _store_rows(summaries)}
    data = {**head, **to_json(findings)}
    # The page has the verdicts of earlier parts too.
    failed = [failure for report in summaries.values() for failure in report.failed]
    whole = replace(
        study.findings(measurements, decidable_selections(study, measurements, selection)),
        needs_other_parts=bool(selection) and not failed,
    )
    page = write_page(directory, study.title, whole, {**head, **to_json(whole)})
    headline = build_headline(whole)
    output = StudyOutput(
        data,
        (
            *format_findings(study.title, findings),
            *_format_stores(list(summaries.values()), page),
            f"\n{headline.sentence}",
            *([headline.tally] if headline.tally else []),
        ),
        tuple(
            f"failed: {planned_part.run}: {planned_part.error}\n  again: {planned_part.replay}"
            for planned_part in failed[:10]
        ),
        not failed,
        verdicts=verdict_rows(findings),
    )
    if files is None:
        return output
    charts = figures_of(directory, findings)
    files.check([figure.key for figure in charts])
    return files.added(output, charts)


EMULATED = {
    "andreotti-2025": "bentpipe_studies.andreotti_2025.emulation",
    "thomas-2019": "bentpipe_studies.thomas_2019.emulation",
}
"""Studies with a form in real time, and the module of each; its ``run`` compares published, simulated and real."""


def _run_emulation(
    name: str,
    only: str | None,
    seeds: int | None,
    jobs: int | None,
    out: str | Path | None,
    watch: Observer | None,
) -> StudyOutput:
    if name not in EMULATED:
        available = ", ".join(EMULATED)
        raise ScenarioError(
            [("engine", f'found "emu", expected "sim"; only {available} have a form in real time')],
            SOURCE_ARGUMENT,
        )
    import importlib

    directory = Path(out) if out is not None else Path("out") / f"{name}-emu"
    run_real = importlib.import_module(EMULATED[name]).run
    output: StudyOutput = run_real(directory, only=only, seeds=seeds, jobs=jobs, watch=watch)
    return output


def _store_rows(summaries: Mapping[str, ExecutionSummary]) -> list[dict[str, Any]]:
    return [
        {"part": name, "store": str(report.store), "runs": report.planned, "reused": report.reused, "done": report.done,
         "failed": len(report.failed), "seconds": round(report.seconds, 1), "packets": report.packets}
        for name, report in summaries.items()
    ]  # fmt: skip


def _format_stores(summaries: Sequence[ExecutionSummary], page: Path) -> list[str]:
    done = sum(report.done for report in summaries)
    reused = sum(report.reused for report in summaries)
    seconds = sum(report.seconds for report in summaries)
    return [
        f"\n{done} runs in {seconds:.0f} s, {reused} from earlier runs. Tables and figures: {page}",
        *(f"  bentpipe report {report.store}" for report in summaries),
    ]
