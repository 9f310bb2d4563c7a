"""Saved measures of runs of 600 s, one line for each run, and their spreads over users."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.verdicts import Quantity, Verdict
from bentpipe_studies.study import Row
from bentpipe_studies.tauran_2018.cells import BUFFERS
from bentpipe_studies.tauran_2018.chapter_6.cells import COUNT, INTERPRETATIONS, WITHOUT, Interpretation
from bentpipe_studies.tauran_2018.chapter_6.measures import Backlogged, Callers, Terminals
from bentpipe_studies.tauran_2018.chapter_6.tables import Chapter6Runs, PublishedNumbers, goodputs
from bentpipe_studies.tauran_2018.runs import RunMeasures

__all__ = ["load_saved_runs", "spreads"]

NAMES = {"users": COUNT, "lost": "loss"}
"""Columns that are called otherwise here."""


def _runs(path: Path) -> pl.DataFrame:
    """Read a file that ``full.sql`` or ``full-calls.sql`` wrote, in this form or an earlier one with fewer measures."""
    frame = pl.read_csv(path)
    frame = frame.rename({old: new for old, new in NAMES.items() if old in frame.columns})
    return frame.with_columns(pl.col(COUNT).cast(pl.String), run=pl.lit(""))


class _Terminals(Terminals):
    def __init__(self, path: Path) -> None:
        RunMeasures.__init__(self, _runs(path))
        self.frame = self.frame.with_columns(total=pl.col("mean") * pl.col(COUNT).cast(pl.Int64))
        self.each = pl.DataFrame(schema={"run": pl.String, "goodput": pl.Float64})


class _Callers(Callers):
    def __init__(self, path: Path) -> None:
        RunMeasures.__init__(self, _runs(path))


class _Nothing(Backlogged):
    def __init__(self) -> None:
        RunMeasures.__init__(self, pl.DataFrame())
        self.steps = pl.DataFrame()


def load_saved_runs(place: Path) -> Chapter6Runs:
    """Return the saved measures of the study's runs of 600 s."""
    tcp = _Terminals(place / "full.csv")
    return Chapter6Runs(tcp, _Callers(place / "full-calls.csv"), _Nothing(), tcp, full=True)


def spreads(published: Mapping[str, Any], place: Path) -> TextTable:
    """Return standard deviations over users of the saved runs against tables 6.4 and 6.5, by interpretation."""
    numbers, ran = PublishedNumbers(published, {}), load_saved_runs(place)
    lines = []
    for interpretation in INTERPRETATIONS:
        found = list(goodputs(numbers, ran, interpretation, ["sd"]))
        line = {"interpretation": str(interpretation)}
        for how in (WITHOUT, *BUFFERS):
            line[f"{how}: agree"], line[f"{how}: factor"] = _spread(found, interpretation, how)
        lines.append(line)
    title = (
        "Standard deviations over users in the saved runs of 600 s (PF, DT_S, RR; 10 to 100 users): "
        "number that agree with tables 6.4 and 6.5; mean absolute log factor, published to measured"
    )
    return TextTable(title, tuple(lines))


def _spread(found: list[Row], interpretation: Interpretation, how: str) -> tuple[str, str]:
    named = str(interpretation) if how == WITHOUT else f"{interpretation}, {how}"
    numbers: list[Quantity] = [one for row in found if row.interpretation == named for one in row.quantities]
    pairs = [(one, mean) for one in numbers if (mean := sum(one.values) / max(len(one.values), 1)) > 0]
    if not pairs:
        return "–", "–"
    agree = sum(one.verdict is Verdict.AGREES for one, _ in pairs)
    apart = math.fsum(abs(math.log(mean / one.published)) for one, mean in pairs) / len(pairs)
    return f"{agree} of {len(pairs)}", format_significant(math.exp(apart), 2)
