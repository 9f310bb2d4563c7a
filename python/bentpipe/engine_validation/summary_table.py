"""The standing table: every scenario of a folder on both clocks, and what came out as one document."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.engine_validation.bounds import Verdict
from bentpipe.engine_validation.compare import EngineComparison, Row
from bentpipe.engine_validation.user_shares import ALONE
from bentpipe.metrics.format import CommandOutput, TextTable, format_mean
from bentpipe.scenario.input_file import MOST_DOCUMENT_BYTES, parse_toml, read_input_text
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.runners.execute import Observer, RunFailure

__all__ = ["markdown", "write_summary"]

NOTES = "notes.toml"
"""What a folder says beside its scenarios: ``title``, ``intro``, ``end``; ``[cells]``, names of values of the sweep;
``[why]``, sentences by scenario."""

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
"""Metrics that have a line of their own; of flows of one table, goodput is all flows' together."""


@dataclass
class Part:
    """A scenario of the folder."""

    name: str
    comparison: EngineComparison | None = None
    """None where nothing has run on one of the clocks."""
    failed: list[RunFailure] = field(default_factory=list)
    """Runs that were not made; the late ones too."""


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
    """Runs (or resumes) both stores of every scenario in ``folder``, below ``place``: the table, with what failed.

    ``table``: where to write it, as one document; ``archive``: the stores as one file. ``as_is`` runs nothing: the
    table is of what has run, wherever it ran. It is good when no run failed and every number is
    within its bound.

    Raises:
        ScenarioError: a scenario is wrong, or real time cannot have it; nothing has run then.
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
    # All are planned before the first is run: what is wrong is said at once.
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
        raise InterruptedExecution(f"what is finished is in {place}; the same command goes on") from None
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
    rows = _judged(comparison)
    alike = Counter(_place(row) for row in rows)
    named = notes.get("cells", {})
    return TextTable(comparison.title, [_line(row, named, several=alike[_place(row)] > 1) for row in rows])


def _place(row: Row) -> tuple[object, ...]:
    """What rows share that only differ by flow or way."""
    return (row.metric.name, *row.cell.values())


def _notes(folder: Path) -> dict[str, Any]:
    """Return the notes of a folder, which may have none. Raises ScenarioError where they are not TOML."""
    from bentpipe.scenario.errors import ScenarioError

    file = folder / NOTES
    try:
        return parse_toml(read_input_text(file, MOST_DOCUMENT_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ScenarioError([("", f"cannot be read: {error.strerror}")], str(file)) from None
    except ValueError as error:
        raise ScenarioError([("", f"is not TOML: {error}")], str(file)) from None


def _judged(comparison: EngineComparison) -> list[Row]:
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
        "simulated": format_mean(row.simulated, row.metric.scale),
        "real": format_mean(row.real, row.metric.scale),
        "difference": row.apart,
        "bound": row.bound,
        "verdict": row.verdict.value,
    }


def cell_name(row: Row, names: Mapping[str, str], *, several: bool = False) -> str:
    """The cell by those of its values that have a name; otherwise its values, without the controller's. Where it has
    ``several`` such numbers, with the flow, and the way of one that is alone.
    """
    values = [
        value for key, value in row.cell.items() if value is not None and not key.endswith("congestion")
    ]
    named = [names[value] for value in values if value in names]
    whose = row.flow if row.among > ALONE else f"{row.flow} {row.direction}"
    return ", ".join([*(named or values), *([whose] if several else [])]) or row.flow


def markdown(parts: Sequence[Part], notes: Mapping[str, Any]) -> str:
    """The document."""
    lines = [f"# {notes.get('title', 'Simulated and real')}", "", *_paragraphs(notes.get("intro", "")), ""]
    judged = [row for part in parts if part.comparison is not None for row in _judged(part.comparison)]
    judged = [row for row in judged if row.verdict is not Verdict.SHOWN]
    count = Counter(row.verdict for row in judged)
    rest = [
        f"{number} {which.value}"
        for which in (Verdict.EXCEEDED, Verdict.UNDECIDED)
        if (number := count[which])
    ]
    held = f"{count[Verdict.WITHIN]} of {len(judged)} numbers are within their bounds"
    lines += ["; ".join(filter(None, (held, " and ".join(rest)))) + ".", ""]
    for part in parts:
        if part.comparison is None and not part.failed:
            continue
        lines += [f"## {part.name if part.comparison is None else part.comparison.title}", ""]
        rows = [] if part.comparison is None else _table(part.comparison, notes).rows
        if rows:
            lines.append("| " + " | ".join(rows[0]) + " |")
            lines.append("|" + "---|" * len(rows[0]))
            lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
        for sentence in _unmade(part.failed):
            lines += [sentence] if lines[-1] == "" else ["", sentence]
        why = notes.get("why", {}).get(part.name)
        if why:
            lines += ["", *_paragraphs(why)]
        lines.append("")
    lines += _paragraphs(notes.get("end", ""))
    return "\n".join(lines).rstrip() + "\n"


def _unmade(failed: Sequence[RunFailure]) -> list[str]:
    """How many runs failed, and for how many the machine was too late, each with the first reason."""
    errors = {word: [one.error for one in failed if one.word == word] for word in ("failed", "late")}
    return [
        f"{len(said)} {'run' if len(said) == 1 else 'runs'} {word}: {said[0]}."
        for word, said in errors.items()
        if said
    ]


def _paragraphs(text: str) -> list[str]:
    return text.strip().splitlines() if text.strip() else []
