"""Short form in real time: QUIC over UDP sockets alone, in pairs, and against kernel TCP.

Tables compare published, simulated and real values. The thesis's runs last 300 s. These last 100 s in both
engines, so
the simulated value shows the effect of the shorter run alone. Explanations of differences are in
``notes.toml``,
``[real]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.engine_validation.compare import Row, compare_engines
from bentpipe.engine_validation.run_both import plan_engines, run_both
from bentpipe.metrics.format import TextTable, format_mean
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.store.journal import host_summary
from bentpipe_studies.andreotti_2025.cells import LEO
from bentpipe_studies.output import StudyOutput, interval_columns
from bentpipe_studies.study import read_toml, study_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.engine_validation.compare import EngineComparison
    from bentpipe.runners.execute import Observer

__all__ = ["run", "side_by_side"]

PARTS = ("real-alone", "real-pairs")
DELAY = "path.satellite.delay"


def run(
    directory: Path,
    *,
    only: str | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    watch: Observer | None = None,
) -> StudyOutput:
    """Run (or resume) both stores of each part in ``directory`` and compare them.

    The output is good when every run finished.

    Raises:
        ScenarioError: no such part, or this host cannot run it in real time.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
    """
    parts = [part.strip() for part in only.split(",")] if only else list(PARTS)
    for part in parts:
        if part not in PARTS:
            raise ScenarioError([("only", unknown_name(part, PARTS, "part in real time"))], SOURCE_ARGUMENT)
    scenarios = study_directory("andreotti-2025")
    plans = {part: plan_engines(scenarios / f"{part}.toml", directory / part, seeds=seeds) for part in parts}
    failures = []
    found: dict[str, EngineComparison] = {}
    for part, pair_ in plans.items():
        for report in run_both(pair_, jobs, watch):
            failures += [f"{failure.run}: {failure.error}" for failure in report.failed]
        found[part] = compare_engines(*pair_.stores)
    published, notes = (
        read_toml(scenarios / "published.toml"),
        read_toml(scenarios / "notes.toml").get("real", {}),
    )
    tables = {part: side_by_side(comparison, published) for part, comparison in found.items()}
    shown: list[str | TextTable] = []
    for part, comparison in found.items():
        shown += [
            TextTable(f"{comparison.title}: goodput, Mb/s", tables[part]),
            host_summary(comparison.real.path),
        ]
    return StudyOutput(
        {"study": "andreotti-2025", "engine": "emu", "rows": tables, "notes": notes},
        (*shown, *(f"  {name}: {sentence}" for name, sentence in notes.items())),
        tuple(f"failed: {error}" for error in failures[:10]),
        not failures,
        verdicts=tuple(row for comparison in found.values() for row in _verdicts(comparison, published)),
    )


def _verdicts(comparison: EngineComparison, published: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return real against simulated goodput as rows of :meth:`StudyOutput.frame`."""
    rows = [row for row in comparison.rows if row.metric.name == "goodput_bit_s"]
    return [
        {
            "id": _pair(row), "what": f"{'LEO' if row.cell[DELAY] == LEO else 'GEO'}: {_pair(row)}",
            "interpretation": "emulation against simulation", "part": "hybla" if row.flow == "hybla" else _rival(row),
            "published": None if (printed := _printed(row, published["friendliness"])) is None else float(printed),
            **interval_columns(row.real, 1e-6), "needed": row.bound, "verdict": row.verdict.value,
            "together": row.verdict.value,
        }
        for row in rows
    ]  # fmt: skip


def side_by_side(comparison: EngineComparison, published: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return published (if printed), simulated and real goodput and their difference, by flow and cell."""
    rows = [row for row in comparison.rows if row.metric.name == "goodput_bit_s"]
    return [
        {
            "path": "LEO" if row.cell[DELAY] == LEO else "GEO",
            "pair": _pair(row),
            "flow": "hybla" if row.flow == "hybla" else _rival(row),
            "published": _printed(row, published["friendliness"]),
            "simulated": format_mean(row.simulated, 1e-6),
            "real": format_mean(row.real, 1e-6),
            "real to simulated": row.apart,
            "": row.verdict.value,
        }
        for row in rows
    ]


def _rival(row: Row) -> str:
    return f"TCP {row.congestion}" if row.cell.get("flow.rival.transport") == "tcp" else row.congestion


def _pair(row: Row) -> str:
    if row.flow == "bulk":
        return "alone"
    named = str(row.cell.get("flow.rival.congestion", ""))
    tcp = row.cell.get("flow.rival.transport") == "tcp"
    return f"hybla, {'TCP cubic' if tcp else named}"


def _printed(row: Row, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the printed goodput of a flow; the thesis's TCP over GEO was split, which this one is not."""
    if row.flow == "bulk":
        return None
    rtt = 30 if row.cell[DELAY] == LEO else 500
    second = _pair(row).removeprefix("hybla, ")
    for entry in rows:
        if entry["rtt_ms"] == rtt and entry["second"] == second:
            return f"{entry['goodput'][0 if row.flow == 'hybla' else 1]:g}"
    return None
