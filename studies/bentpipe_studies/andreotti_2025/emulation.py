"""The short form in real time: QUIC over UDP sockets alone, in pairs, and against the kernel's TCP.

Published, simulated and real side by side. The thesis's runs last 300 s, these 100 s on both clocks, so that the
simulated number says what the shorter run alone changes. Sentences on differences are in ``notes.toml``, ``[real]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.engine_validation.compare import Row, compare_engines
from bentpipe.engine_validation.run_both import plan_engines, run_both
from bentpipe.metrics.format import TextTable, format_mean
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.store.journal import host_summary
from bentpipe_studies.andreotti_2025.cells import LEO
from bentpipe_studies.output import Judged, bounds
from bentpipe_studies.study import folder, toml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.engine_validation.compare import EngineComparison
    from bentpipe.runners.execute import Observer

__all__ = ["run", "side_by_side"]

PARTS = ("real-alone", "real-pairs")
DELAY = "path.satellite.delay"


def run(
    place: Path,
    *,
    only: str | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    watch: Observer | None = None,
) -> Judged:
    """Runs (or resumes) both stores of each part below ``place``: its rows. Good when everything ran.

    Raises:
        ScenarioError: no such part, or what this machine cannot have in real time.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
    """
    words = [word.strip() for word in only.split(",")] if only else list(PARTS)
    for word in words:
        if word not in PARTS:
            raise ScenarioError([("only", unknown_name(word, PARTS, "part in real time"))], SOURCE_ARGUMENT)
    here = folder("andreotti-2025")
    plans = {word: plan_engines(here / f"{word}.toml", place / word, seeds=seeds) for word in words}
    failures = []
    found: dict[str, EngineComparison] = {}
    for word, both in plans.items():
        for report in run_both(both, jobs, watch):
            failures += [f"{failure.run}: {failure.error}" for failure in report.failed]
        found[word] = compare_engines(*both.stores)
    published, notes = toml(here / "published.toml"), toml(here / "notes.toml").get("real", {})
    tables = {word: side_by_side(comparison, published) for word, comparison in found.items()}
    shown: list[str | TextTable] = []
    for word, comparison in found.items():
        shown += [
            TextTable(f"{comparison.title}: goodput, Mb/s", tables[word]),
            host_summary(comparison.real.path),
        ]
    return Judged(
        {"study": "andreotti-2025", "engine": "emu", "rows": tables, "notes": notes},
        (*shown, *(f"  {name}: {sentence}" for name, sentence in notes.items())),
        tuple(f"failed: {error}" for error in failures[:10]),
        not failures,
        tuple(row for comparison in found.values() for row in _verdicts(comparison, published)),
    )


def _verdicts(comparison: EngineComparison, published: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Real against simulated goodput, as a frame of verdicts has them."""
    rows = [row for row in comparison.rows if row.metric.name == "goodput_bit_s"]
    return [
        {
            "id": _pair(row), "what": f"{'LEO' if row.cell[DELAY] == LEO else 'GEO'}: {_pair(row)}",
            "reading": "real against simulated", "part": "hybla" if row.flow == "hybla" else _rival(row),
            "published": None if (printed := _printed(row, published["friendliness"])) is None else float(printed),
            **bounds(row.real, 1e-6), "needed": row.bound, "verdict": row.verdict.value, "together": row.verdict.value,
        }
        for row in rows
    ]  # fmt: skip


def side_by_side(comparison: EngineComparison, published: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a flow and cell: published (where it is printed), simulated, real, and how far those two are apart."""
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
    """What the thesis prints of this flow; its TCP over GEO was split, which this one is not."""
    if row.flow == "bulk":
        return None
    rtt = 30 if row.cell[DELAY] == LEO else 500
    second = _pair(row).removeprefix("hybla, ")
    for entry in rows:
        if entry["rtt_ms"] == rtt and entry["second"] == second:
            return f"{entry['goodput'][0 if row.flow == 'hybla' else 1]:g}"
    return None
