"""Evidence for where differences come from: one setting at a time is another one. Never a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.stats.intervals import mean_interval
from bentpipe.stats.wording import Table, plus_minus
from bentpipe.studies.tauran_2018.cells import REORDERING, VARIANT
from bentpipe.studies.tauran_2018.runs import Runs

if TYPE_CHECKING:
    from bentpipe.studies.parts import Measured

__all__ = ["evidence"]


def evidence(measured: Measured) -> tuple[Table, ...]:
    """Goodput and events by setting, at 13 dB."""
    runs = Runs(measured, "why")
    if not runs.frame.height:
        return ()
    column = next(name for name in ("sweep.setting", "setting") if name in runs.frame.columns)
    tables = []
    for measure, title in (("goodput_kbps", "goodput, kb/s"), ("dupack", "DUPACK, % of packets")):
        rows = []
        for setting in runs.frame[column].unique(maintain_order=True):
            row = {"setting": setting}
            for reordering in ("without", "with"):
                for variant in ("NewReno", "CUBIC"):
                    cell = {"setting": setting, REORDERING: reordering, VARIANT: variant}
                    values = runs.values(cell, measure)
                    found = mean_interval(values) if values else None
                    row[f"{variant}, {reordering} reordering"] = plus_minus(found, digits=3) if found else "–"
            rows.append(row)
        tables.append(Table(f"Evidence: one setting at a time at 13 dB, {title}", tuple(rows)))
    return tuple(tables)
