"""Summary table: every scenario of a directory with both engines, as one Markdown document."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.engine_validation.compare import EngineComparison, Row
from bentpipe.engine_validation.user_shares import ALONE
from bentpipe.metrics.compare import Equivalence
from bentpipe.metrics.format import CommandOutput, TextTable, format_mean
from bentpipe.scenario.input_file import MOST_DOCUMENT_BYTES, parse_toml, read_input_text
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.runners.execute import Observer, RunFailure

__all__ = ["markdown", "write_summary"]

NOTES = "notes.toml"
"""Notes beside the scenarios of a directory.

Keys: ``title``, ``intro``, ``end``; ``[cells]``, names of values of the sweep; ``[why]``, sentences by scenario.
"""

SHOWN = (
    "goodput_sum_bit_s",
    "goodput_bit_s",
    "share_percent",
    "loads_finished",
    "ttr_s",
    "plt_s",
    "decoded_ratio",
    "rating",
    "mos",
    "delivered_bundles",
    "delivery_p50_s",
)
"""Metrics with a line in the table. Flows of one scenario table have a line for their total goodput only."""


@dataclass
class Part:
    """Results of one scenario of the directory."""

    name: str
    comparison: EngineComparison | None = None
    """Comparison; None if one of the engines has no finished run."""
    failed: list[RunFailure] = field(default_factory=list)
    """Failed and invalid runs."""


def write_summary(
    folder: Path,
    settings: Sequence[str],
    seeds: int | None,
    jobs: int | None,
    place: Path,
    *,
    table: Path | None = None,
    archive: Path | None = None,
    as_is: bool = False,
    watch: Observer | None = None,
) -> CommandOutput:
    """Run or resume both stores of every scenario in ``folder`` and return the table.

    Args:
        folder: directory of the scenarios.
        settings: ``KEY=VALUE`` texts that change the scenarios.
        seeds: number of seeds (default: those of each scenario).
        jobs: number of labs at a time.
        place: parent directory of the stores.
        table: file for the table as Markdown.
        archive: file for the stores (tar, xz).
        as_is: make the table of the finished runs without running anything.
        watch: callbacks for progress and messages.

    Returns:
        Output with one table for each scenario. It is good if no run failed and every metric is within its bound.

    Raises:
        ScenarioError: a scenario is wrong, or emulation does not support it. Nothing has run then.
        bentpipe.runners.execute.InterruptedExecution: Ctrl-C.
    """
    from bentpipe.engine_validation.archive import publish
    from bentpipe.engine_validation.compare import compare_engines
    from bentpipe.engine_validation.run_both import plan_engines, run_both, stores_of
    from bentpipe.runners.execute import InterruptedExecution
    from bentpipe.scenario.errors import ScenarioError
    from bentpipe.scenario.sweep import parse_override
    from bentpipe.store.files import EmptyStoreError

    files = [file for file in sorted(folder.glob("*.toml")) if file.name != NOTES]
    if not files:
        raise ScenarioError([("", "holds no scenario (*.toml)")], str(folder))
    notes = _notes(folder)
    overrides = [parse_override(text) for text in settings]
    # Plan all scenarios before the first run, to report errors at once.
    plans = {} if as_is else {
        file.stem: plan_engines(file, place / file.stem, overrides, settings, seeds) for file in files
    }  # fmt: skip
    parts = []
    try:
        for name in (file.stem for file in files):
            reports = run_both(plans[name], jobs, watch) if name in plans else ()
            part = Part(name, failed=[failure for report in reports for failure in report.failed])
            parts.append(part)
            with suppress(EmptyStoreError):
                part.comparison = compare_engines(*stores_of(place / name))
    except KeyboardInterrupt:
        raise InterruptedExecution(f"finished runs are in {place}; rerun the command to resume") from None
    if table is not None:
        write_atomic(table, markdown(parts, notes).encode())
    compared = {part.name: part.comparison for part in parts if part.comparison is not None}
    if archive is not None:
        publish((store for name in compared for store in stores_of(place / name)), archive)
    failed = [failure for part in parts for failure in part.failed]
    return CommandOutput(
        {name: comparison.data() for name, comparison in compared.items()},
        tuple(_table(comparison, notes) for comparison in compared.values()),
        tuple(f"{failure.word}: {failure.run}: {failure.error}" for failure in failed[:10]),
        not failed and all(comparison.agreed for comparison in compared.values()),
    )


def _table(comparison: EngineComparison, notes: Mapping[str, Any]) -> TextTable:
    rows = _table_rows(comparison)
    counts = Counter(_metric_cell(row) for row in rows)
    names = notes.get("cells", {})
    return TextTable(
        comparison.title, [_line(row, names, several=counts[_metric_cell(row)] > 1) for row in rows]
    )


def _metric_cell(row: Row) -> tuple[object, ...]:
    """Return a key that rows share if they differ by flow or direction only."""
    return (row.metric.name, *row.cell.values())


def _notes(folder: Path) -> dict[str, Any]:
    """Return the notes of a directory, empty if it has none. Raises ScenarioError if they are not TOML."""
    from bentpipe.scenario.errors import ScenarioError, syntax_error

    file = folder / NOTES
    try:
        return parse_toml(read_input_text(file, MOST_DOCUMENT_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ScenarioError([("", f"cannot be read: {error.strerror}")], str(file)) from None
    except ValueError as error:
        raise ScenarioError([("", f"is not TOML: {syntax_error(error)}")], str(file)) from None


def _table_rows(comparison: EngineComparison) -> list[Row]:
    return [
        row
        for row in comparison.rows
        if row.metric.name in SHOWN and not (row.metric.name == "goodput_bit_s" and row.among > ALONE)
    ]


def _line(row: Row, names: Mapping[str, str], *, several: bool) -> dict[str, Any]:
    return {
        "cell": cell_name(row, names, several=several),
        "controller": row.congestion,
        "metric": row.metric.heading_alone,
        "seeds": f"{row.simulated.n} / {row.real.n}",
        "simulation": format_mean(row.simulated, row.metric.scale),
        "emulation": format_mean(row.real, row.metric.scale),
        "difference": row.apart,
        "bound": row.bound,
        "verdict": row.verdict.value,
    }


def cell_name(row: Row, names: Mapping[str, str], *, several: bool = False) -> str:
    """Return the label of a cell: the names of its values, or the values without that of the controller.

    Args:
        row: row of the comparison.
        names: names of values of the sweep.
        several: append the flow, and the direction of a flow without others in its table.
    """
    values = [
        value for key, value in row.cell.items() if value is not None and not key.endswith("congestion")
    ]
    labels = [names[value] for value in values if value in names]
    flow = row.flow if row.among > ALONE else f"{row.flow} {row.direction}"
    return ", ".join([*(labels or values), *([flow] if several else [])]) or row.flow


def markdown(parts: Sequence[Part], notes: Mapping[str, Any]) -> str:
    """Return the table as a Markdown document."""
    lines = [
        f"# {notes.get('title', 'Simulation and emulation')}",
        "",
        *_paragraphs(notes.get("intro", "")),
        "",
    ]
    rated = [row for part in parts if part.comparison is not None for row in _table_rows(part.comparison)]
    rated = [row for row in rated if row.verdict is not Equivalence.UNBOUNDED]
    count = Counter(row.verdict for row in rated)
    others = [
        f"{number} {verdict.value}"
        for verdict in (Equivalence.EXCEEDED, Equivalence.UNDECIDED)
        if (number := count[verdict])
    ]
    within = f"{count[Equivalence.WITHIN]} of {len(rated)} metrics are within their bounds"
    lines += ["; ".join(filter(None, (within, " and ".join(others)))) + ".", ""]
    for part in parts:
        if part.comparison is None and not part.failed:
            continue
        lines += [f"## {part.name if part.comparison is None else part.comparison.title}", ""]
        rows = [] if part.comparison is None else _table(part.comparison, notes).rows
        if rows:
            lines.append("| " + " | ".join(rows[0]) + " |")
            lines.append("|" + "---|" * len(rows[0]))
            lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
        for sentence in _failure_sentences(part.failed):
            lines += [sentence] if lines[-1] == "" else ["", sentence]
        explanation = notes.get("why", {}).get(part.name)
        if explanation:
            lines += ["", *_paragraphs(explanation)]
        lines.append("")
    lines += _paragraphs(notes.get("end", ""))
    return "\n".join(lines).rstrip() + "\n"


def _failure_sentences(failed: Sequence[RunFailure]) -> list[str]:
    """Return the numbers of failed and of invalid runs, each with the first reason."""
    reasons = {
        word: [failure.error for failure in failed if failure.word == word] for word in ("failed", "invalid")
    }
    return [
        f"{len(errors)} {'run' if len(errors) == 1 else 'runs'} {word}: {errors[0]}."
        for word, errors in reasons.items()
        if errors
    ]


def _paragraphs(text: str) -> list[str]:
    return text.strip().splitlines() if text.strip() else []
