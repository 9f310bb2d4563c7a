"""``study thomas-2019 --engine emu``: compare published, simulated and browser times.

Two scenarios (``studies/thomas-2019/real-*.toml``) run in both engines: in the simulator, and as sessions of
``bentpipe
browse`` in a lab with the project's proxies. The operator's proxies are not published, so the ratio of QUIC
to TCP
is given for each model of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.verdicts import Claim, Verdict
from bentpipe.runners.execute import InterruptedExecution, Observer, execute
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe_studies.page_loads import times
from bentpipe_studies.parts import Measurements, Part
from bentpipe_studies.study import Findings
from bentpipe_studies.thomas_2019 import orderings
from bentpipe_studies.thomas_2019.cells import PAGE

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.plan.plan import Plan
    from bentpipe.runners.execute import ExecutionSummary
    from bentpipe_studies.output import StudyOutput
    from bentpipe_studies.thomas_2019 import Thomas2019

__all__ = ["Job", "compare", "findings", "run"]

PARTS = ("satcom", "4g")
ENGINES = {"": "simulated", "-browser": "browser"}
"""Suffixes of the stores of a part, and the engine of each."""

ON, OFF = "QUIC on", "QUIC off"
MAX_LABS = 3
"""Maximum number of concurrent labs, as with ``browse``."""

TWICE = (1.5, 2.5)
"""Ratios that are nearer to 2 than to 1 or 3, as in ``claims``."""

SLIGHTLY = (1.0, 1.5)
G4_GAP_MS = (70.0, 110.0)
TARGETS = {"target-a": "A", "target-b": "B"}
FIGURES = ("page-load-time", "time-to-response", "time-sequence")

TOLERANCE = (
    "Medians over sessions with the 95 % interval of order statistics (Le Boudec, theorem 2.1; at "
    "least 6 sessions). A check holds or fails if the whole interval does; otherwise it is "
    "undecided. Claims are rated for each proxy model separately. A failed claim excludes its "
    "model as the operator's proxy."
)


@dataclass(frozen=True)
class Job:
    """Options of the comparison."""

    out: Path
    units: int | None = None
    only: tuple[str, ...] = ()
    labs: int = 1
    settings: Mapping[str, object] | None = None
    keep_invalid: bool = False
    watch: Observer = field(default_factory=Observer)


def _parts(study: Thomas2019) -> list[Part]:
    return [
        Part(f"{name}{tail}", study.directory / f"real-{name}.toml") for name in PARTS for tail in ENGINES
    ]


def run(
    directory: Path,
    *,
    only: str | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    settings: Mapping[str, object] | None = None,
    keep_invalid: bool = False,
    watch: Observer | None = None,
) -> StudyOutput:
    """Run the study in both engines below ``directory`` and compare; good when every run finished.

    Args:
        directory: directory of the stores.
        only: parts, comma-separated; all without.
        seeds: number of browser sessions.
        jobs: number of concurrent labs, at most 3.
        settings: dotted keys that override the scenarios.
        keep_invalid: keep sessions in which the lab missed its deadlines.
        watch: observer of progress and messages.

    Raises:
        ScenarioError: no such part; no Chromium.
        bentpipe.StoreError: a store belongs to another study.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
    """
    from bentpipe_studies.output import StudyOutput, format_findings, to_json, verdict_rows
    from bentpipe_studies.page import write_page
    from bentpipe_studies.thomas_2019 import STUDY

    parts = tuple(word.strip() for word in only.split(",") if word.strip()) if only else ()
    job = Job(directory, seeds, parts, min(jobs or 1, MAX_LABS), settings, keep_invalid, watch or Observer())
    try:
        found, reports = compare(STUDY, job)
    except KeyboardInterrupt:
        raise InterruptedExecution(f"finished runs are in {directory}; rerun the command to resume") from None
    title = f"{STUDY.title}, emulation"
    stores = {
        name: {
            "store": str(summary.store),
            "runs": summary.planned,
            "reused": summary.reused,
            "done": summary.done,
            "failed": len(summary.failed),
        }
        for name, summary in reports.items()
    }
    data = {"study": STUDY.name, "title": title, "stores": stores, **to_json(found)}
    page = write_page(directory, title, found, data)
    commands = [f"  bentpipe report {summary.store}" for summary in reports.values()]
    failed = [failure for summary in reports.values() for failure in summary.failed]
    return StudyOutput(
        data,
        (*format_findings(title, found), f"\nTables and figures: {page}", *commands),
        tuple(f"failed: {error}" for error in dict.fromkeys(failure.error for failure in failed)),
        not failed,
        verdicts=verdict_rows(found),
    )


def compare(study: Thomas2019, job: Job) -> tuple[Findings, dict[str, ExecutionSummary]]:
    """Run what the stores lack and return the findings with the execution summaries.

    Raises:
        ScenarioError: no such part; no Chromium.
        bentpipe.StoreError: a store belongs to another study.
    """
    for part in job.only:
        if part not in PARTS:
            raise ScenarioError([("only", unknown_name(part, PARTS, "part in real time"))], SOURCE_ARGUMENT)
    parts = job.only or PARTS
    plans = {name: _plans(study.directory / f"real-{name}.toml", job) for name in parts}
    reports: dict[str, ExecutionSummary] = {}
    for name, (simulated, real) in plans.items():
        reports[name] = _execute(simulated, job.out / name, job, real=False)
        reports[f"{name}-browser"] = _execute(real, job.out / f"{name}-browser", job, real=True)
    return findings(study, Measurements(job.out, _parts(study))), reports


def _plans(file: Path, job: Job) -> tuple[Plan, Plan]:
    from bentpipe.lab.browser import chromium
    from bentpipe.lab.browser.sessions import Options, engine_name, plan_sessions
    from bentpipe.plan.plan import build_plan
    from bentpipe.runners import engine
    from bentpipe.scenario.sweep import format_override

    try:
        name = engine_name(engine.version(), chromium.version(chromium.find()))
    except chromium.ChromiumError as error:
        raise ScenarioError([("", str(error))], str(file)) from None
    settings = tuple(format_override(*one) for one in (job.settings or {}).items())
    catalogue = engine.catalogue()
    options = Options(units=job.units or 10, settings=settings, same_tcp=True)
    real = plan_sessions(str(file), options, name, catalogue)
    seeds = range(1, options.units + 1)
    return build_plan(
        real.document, engine.version(), seeds=seeds, catalogue=catalogue, orbits=engine.orbit
    ), real


def _execute(plan: Plan, store: Path, job: Job, *, real: bool) -> ExecutionSummary:
    from bentpipe.lab.browser import chromium
    from bentpipe.lab.browser.runner import BrowserRunner
    from bentpipe.lab.executable import executable
    from bentpipe.runners.execute import BROWSER
    from bentpipe.runners.local import LocalRunner
    from bentpipe.runners.runner import Runner

    runner: Runner = LocalRunner()
    if real:
        runner = BrowserRunner(
            store, plan.engine, chromium.find(), executable(), labs=job.labs, keep_invalid=job.keep_invalid,
            on_message=job.watch.on_message,
        )  # fmt: skip
    where = BROWSER if real else "local"
    return execute(plan, runner, store, watch=job.watch, where=where)


def findings(study: Thomas2019, measurements: Measurements) -> Findings:
    """Return tables and claims of what has run."""
    tables = (_loads_table(measurements), _ratio_table(measurements))
    return Findings(
        (),
        tuple(
            claim
            for claim in _claims(study, measurements)
            if any(check.verdict is not Verdict.NOT_RUN for check in claim.checks)
        ),
        tuple(table for table in tables if table.rows),
        TOLERANCE,
        figures=tuple((f"{name}-browser", key) for name in PARTS for key in FIGURES),
        notes=tuple(note for part, note in study.notes["real"].items() if _stacks(measurements, part)),
        interpretation_title="engine and proxy",
    )


def _stacks(measurements: Measurements, part: str) -> list[str]:
    """Return the stacks that have run in either engine, in the order of the sweep."""
    found: dict[str, None] = {}
    for tail in ENGINES:
        rows = measurements.table(f"{part}{tail}", "pages")
        if rows.height:
            found |= dict.fromkeys(rows["stack"].unique(maintain_order=True).to_list())
    return list(found)


def _times(
    measurements: Measurements, part: str, tail: str, page: str, stack: str, load: int, column: str
) -> tuple[float, ...]:
    return times(measurements, f"{part}{tail}", {PAGE: page, "stack": stack}, load, column)


def _loads_table(measurements: Measurements) -> TextTable:
    rows: list[dict[str, Any]] = []
    for part in PARTS:
        for page, target in TARGETS.items():
            for stack in _stacks(measurements, part):
                for load in (1, 2, 3):
                    row: dict[str, Any] = {
                        "access": part,
                        "target": target,
                        "TCP proxy": stack,
                        "load": load,
                    }
                    found = False
                    for column in ("plt_s", "ttr_s"):
                        for tail, clock in ENGINES.items():
                            values = _times(measurements, part, tail, page, stack, load, column)
                            row[f"{METRICS[column].heading}, {clock}"] = orderings.format_median(values)
                            found = found or bool(values)
                    if found:
                        rows.append(row)
    return TextTable("Medians over sessions with 95 % confidence intervals", tuple(rows))


def _ratio_table(measurements: Measurements) -> TextTable:
    """Return QUIC over TCP by model of the proxy: the published factor, and those of both engines."""
    rows: list[dict[str, Any]] = []
    for part, published in (("satcom", "about 2"), ("4g", "slightly below 1")):
        for stack in _stacks(measurements, part):
            if stack == ON:
                continue
            row: dict[str, Any] = {"access": part, "TCP proxy": stack, "published": published}
            for tail, clock in ENGINES.items():
                for load in (2, 3):
                    quic, tcp = (
                        _times(measurements, part, tail, "target-a", one, load, "plt_s")
                        for one in (ON, stack)
                    )
                    row[f"{clock}, load {load}"] = _ratio(quic, tcp)
            rows.append(row)
    return TextTable("Target A: ratio of page load times, QUIC to TCP", tuple(rows))


def _ratio(above: Sequence[float], below: Sequence[float]) -> str:
    if not above or len(above) != len(below):
        return orderings.NO_SAMPLE
    fact = orderings.ratio("", above, below, *TWICE)
    return fact.measured


def _claims(study: Thomas2019, measurements: Measurements) -> Iterator[Claim]:
    """Yield r1 to r6 as far as a browser can measure them, for each engine and model of the proxy."""
    statements = study.published["results"]
    for tail, clock in ENGINES.items():
        for stack in _stacks(measurements, "satcom"):
            if stack == ON:
                continue

            def pair(page: str, load: int, column: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
                quic, tcp = (
                    _times(measurements, "satcom", tail, page, one, load, column)  # noqa: B023 - called at once
                    for one in (ON, stack)  # noqa: B023
                )
                return quic, tcp

            interpretation = f"{clock}, {stack}"
            checks = []
            for load in (2, 3):
                quic, tcp = pair("target-a", load, "plt_s")
                checks.append(orderings.ratio(f"load {load}, PLT ratio, QUIC to TCP", quic, tcp, *TWICE))
            yield Claim(
                "r1", statements["r1"], "the ratio of PLT is 1.5 to 2.5", interpretation, tuple(checks)
            )
            most = 0.25 * 750.0
            gaps = [
                orderings.gap(f"load {load}, TTR of TCP minus TTR of QUIC", tcp, quic, 0.0, most)
                for load in (2, 3)
                for quic, tcp in [pair("target-a", load, "ttr_s")]
            ]
            yield Claim("r4", statements["r4"], "difference below RTT/4", interpretation, tuple(gaps))
            better = [
                orderings.ratio(f"load {load}, PLT ratio, TCP to QUIC", tcp, quic, *SLIGHTLY)
                for load in (2, 3)
                for quic, tcp in [pair("target-b", load, "plt_s")]
            ]
            yield Claim(
                "r6",
                statements["r6"],
                "target B: the ratio of PLT is 1 to 1.5",
                interpretation,
                tuple(better),
            )
        g4 = [
            tuple(_times(measurements, "4g", tail, "target-a", one, load, column) for one in (ON, OFF))
            for column in ("plt_s", "ttr_s")
            for load in (2, 3)
        ]
        ratios = [orderings.ratio(f"load {load}, PLT ratio, TCP to QUIC", tcp, quic, *SLIGHTLY)
                  for load, (quic, tcp) in zip((2, 3), g4[:2], strict=True)]  # fmt: skip
        yield Claim("r5", statements["r5"], "the ratio of PLT is 1 to 1.5", clock, tuple(ratios))
        waits = [orderings.gap(f"load {load}, TTR of TCP minus TTR of QUIC", tcp, quic, *G4_GAP_MS)
                 for load, (quic, tcp) in zip((2, 3), g4[2:], strict=True)]  # fmt: skip
        yield Claim("r5b", statements["r5b"], "difference of 70 to 110 ms", clock, tuple(waits))
