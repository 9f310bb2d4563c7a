"""Runs of a map in stages: the first seed of every cell, then the other seeds, each with a page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bentpipe.break_even.config import BreakEvenConfig, scenario
from bentpipe.metrics.compare import MIN_SEEDS
from bentpipe.plan.cost import estimate_plan, run_weight
from bentpipe.plan.document import ScenarioDocument, load_scenario
from bentpipe.plan.flow.controllers import deterministic_controllers
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.plan.randomness import RandomInput, is_path_stochastic, random_inputs
from bentpipe.runners import engine
from bentpipe.runners.execute import Observer, execute
from bentpipe.runners.local import Idle, LocalRunner, cores
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError
from bentpipe.scenario.sweep import parse_override

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.break_even.ratios import Map
    from bentpipe.plan.plan import Run
    from bentpipe.runners.execute import ExecutionSummary

__all__ = ["compute", "plan_map"]

_ARGUMENTS = {"flow.web.congestion": "controllers", "tcp.congestion": "tcp"}
"""Arguments by the key of the map's scenario that they set."""


def compute(
    config: BreakEvenConfig,
    out: Path,
    jobs: int | None = None,
    settings: Sequence[str] = (),
    watch: Observer | None = None,
) -> tuple[Map, ExecutionSummary]:
    """Compute the missing runs of a map and write its files; return the map and the execution summary.

    If runs draw, the page exists after the first seed of all cells, and after all seeds of the own RTT. Failed runs
    leave their cells empty.

    Args:
        config: input of the map.
        out: directory of the map; its store is ``out/store``.
        jobs: number of worker processes (default: one for each processor).
        settings: ``KEY=VALUE`` texts that change the scenario.
        watch: callbacks for progress and messages.

    Raises:
        ScenarioError: the input is wrong, by the argument of :func:`bentpipe.break_even.break_even_map`.
        bentpipe.StoreError: ``out`` holds another map.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C came before the last run.
    """
    plan = plan_map(config, settings)
    watch = watch or Observer()
    deterministic = deterministic_controllers(engine.catalogue())
    # One seed cannot show the small effect of QUIC's packet numbers.
    ignored = {RandomInput.QUIC} if plan.seeds == 1 else frozenset[RandomInput]()
    draws = {
        str(cell.values["variant"])
        for cell in plan.cells
        if random_inputs(cell.resolved.spec, deterministic) - ignored
    }
    store, stages = out / "store", _stages(plan, config)
    summary: ExecutionSummary | None = None
    workers = jobs or cores()
    if len(stages) > 1:
        seeds = len({run.seed for run in plan.runs})
        watch.on_message(
            f"{len(plan.runs):,} runs with {seeds} seeds, {_time_text(estimate_plan(plan, workers).seconds, workers)}. "
            f"{out / 'map.html'} follows after the first seed."
        )
    with Idle() as idle:
        for number, runs in enumerate(stages, 1):
            report = execute(
                plan, LocalRunner(jobs, idle=idle), store, only=[run.id for run in runs], watch=watch
            )
            summary = report if summary is None else _sum(summary, report)
            if number < len(stages) and report.done:
                part = _Part(number, len(stages), _remaining(stages, number, report), workers)
                _write_part(store, config, draws, out, watch, part)
    from bentpipe.break_even.page import write
    from bentpipe.break_even.ratios import read_map

    result = read_map(store, config, draws)
    write(result, out)
    if summary is None:
        raise ValueError("a map without runs")
    return result, summary


def _write_part(
    store: Path,
    config: BreakEvenConfig,
    draws: set[str],
    out: Path,
    watch: Observer,
    part: _Part,
) -> None:
    """Write the page of the finished runs, and report what it has and what is missing."""
    from bentpipe.break_even.page import write_page
    from bentpipe.break_even.ratios import read_map

    result = read_map(store, config, draws)
    if any(cell.ratio is not None for cell in result.cells):
        stage = f"stage {part.number} of {part.stages}"
        has = (
            "one seed of every load" if part.number == 1 else f"all seeds at {config.own_rtt}, one elsewhere"
        )
        page = write_page(
            result,
            out,
            f"{stage.capitalize()}: this page has {has}. More seeds follow; reload the page for them.",
        )
        watch.on_message(
            f"{stage}: {page} is ready, with {has}. More seeds follow in {_time_text(part.seconds, part.workers)}"
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """A finished stage."""

    number: int
    stages: int
    seconds: float
    """Estimated time of the remaining stages, s."""
    workers: int


def _remaining(stages: Sequence[Sequence[Run]], number: int, report: ExecutionSummary) -> float:
    """Return the estimated time in s of the stages after the first ``number``, from the speed of the last one."""
    weights = [sum(map(run_weight, runs)) for runs in stages]
    share = max(report.done, 1) / max(report.done + report.reused, 1)
    return report.seconds / share * sum(weights[number:]) / max(weights[number - 1], 1e-9)


def _time_text(seconds: float, workers: int) -> str:
    return f"about {max(seconds, 1):,.0f} s on {workers} processor{'' if workers == 1 else 's'}"


def plan_map(config: BreakEvenConfig, settings: Sequence[str]) -> Plan:
    """Plan all runs of a map; the default number of seeds depends on whether the path is stochastic."""
    overrides = [parse_override(text) for text in settings]
    document = load_scenario(scenario(config), overrides, list(settings))
    document = replace(document, folder=config.access.folder)
    try:
        if config.seeds is None and is_path_stochastic(_first_cell(document).cells[0].resolved.spec["graph"]):
            document = replace(document, data={**document.data, "seeds": MIN_SEEDS})
        return build_plan(document, engine.version(), catalogue=engine.catalogue(), orbits=engine.orbit)
    except ScenarioError as error:
        if not all(key in _ARGUMENTS for key, _ in error.problems):
            raise
        raise ScenarioError(
            [(_ARGUMENTS[key], text) for key, text in error.problems], SOURCE_ARGUMENT
        ) from None


def _first_cell(document: ScenarioDocument) -> Plan:
    """Plan the scenario without its sweep."""
    data = {key: value for key, value in document.data.items() if key != "sweep"}
    return build_plan(
        replace(document, data=data), engine.version(), catalogue=engine.catalogue(), orbits=engine.orbit
    )


def _stages(plan: Plan, config: BreakEvenConfig) -> list[list[Run]]:
    """Return the runs of each stage: the first seed, the own RTT, the rest. Runs that draw nothing are in the first."""
    first = min((run.seed for run in plan.runs), default=1)
    stages: list[list[Run]] = [[], [], []]
    for run in plan.runs:
        stages[0 if run.seed == first else 1 if run.cell["rtt"] == config.own_rtt else 2].append(run)
    return [stage for stage in stages if stage]


def _sum(one: ExecutionSummary, other: ExecutionSummary) -> ExecutionSummary:
    return replace(
        one,
        planned=one.planned + other.planned,
        reused=one.reused + other.reused,
        done=one.done + other.done,
        failed=[*one.failed, *other.failed],
        seconds=one.seconds + other.seconds,
        packets=one.packets + other.packets,
        damaged={**one.damaged, **other.damaged},
    )
