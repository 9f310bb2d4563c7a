"""What a store of page loads says at the end of ``bentpipe browse``: medians with intervals, and what to doubt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.columns import headings
from bentpipe.stats.intervals import median_interval
from bentpipe.stats.titles import METRICS
from bentpipe.stats.wording import bracketed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["doubts", "rows", "units"]


def rows(store: Path) -> list[dict[str, Any]]:
    """One row a cell, load and version of HTTP: what the document came by, TTR and PLT with the median's interval.

    Raises:
        bentpipe.StoreError: no unit has finished.
    """
    from bentpipe.figures.material import Material
    from bentpipe.figures.page_loads import PageLoads
    from bentpipe.store.reader import read_store

    found = PageLoads(Material(read_store(store)))
    ttr_s, plt_s = METRICS["ttr_s"].heading, METRICS["plt_s"].heading
    fixed = [found.arm_title, "load", "came by", "units", ttr_s, plt_s]
    called = headings({dim.key: dim.title for dim in found.cell_dims}, fixed)
    table = []
    for plt, ttr in zip(found.samples("plt_s"), found.samples("ttr_s"), strict=True):
        row: dict[str, Any] = {called[dim.key]: plt.cell[dim.key] for dim in found.cell_dims}
        row |= {found.arm_title: plt.arm, "load": plt.load, "came by": ", ".join(plt.protocols) or None}
        row |= {"units": plt.loads, ttr_s: _shown(ttr.values), plt_s: _shown(plt.values)}
        table.append(row)
    return table


def _shown(values: Sequence[float]) -> str | None:
    """Median, with its 95 % interval where there are values enough (6)."""
    if not values:
        return None
    return bracketed(median_interval(values))


def units(store: Path) -> Iterator[dict[str, Any]]:
    """The records of the finished units. Raises StoreError that names one that cannot be read."""
    from bentpipe.store.files import StoreError
    from bentpipe.store.reader import Store

    for file in Store(store).files("unit.json"):
        try:
            yield json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise StoreError(
                f"{file} is damaged; remove {file.parent}, and the same command makes the unit again"
            ) from None


def doubts(store: Path) -> list[str]:
    """What a reader of the table should know of the units: each a sentence."""
    found = list(units(store))
    total = len(found)
    said = []
    late = [lab for unit in found if (lab := unit.get("lab")) and not lab.get("valid", True)]
    if late:
        why = next((reason for lab in late for reason in lab.get("reasons", [])), "")
        said.append(f"{len(late)} of {total} units: the emulator was too late ({why})")
    blind = {unit["capture"]["error"] for unit in found if unit.get("capture", {}).get("error")}
    said += [f"no capture: {reason}" for reason in sorted(blind)]
    spare = [one for unit in found for one in unit.get("connections", []) if not one["used"]]
    if spare:
        kinds = ", ".join(f"{sum(o['transport'] == k for o in spare)} by {k.upper()}" for k in ("tcp", "quic")
                          if any(o["transport"] == k for o in spare))  # fmt: skip
        said.append(f"connections that no request used (backups, races lost): {kinds}")
    missed = sum(unit.get("capture", {}).get("missed", 0) for unit in found)
    if missed:
        said.append(f"the captures miss {missed} packets that the kernel had no room for")
    loads = [load for unit in found for load in unit["loads"]]
    failed = [load for load in loads if not load["finished"]]
    if failed:
        said.append(f"{len(failed)} of {len(loads)} loads did not finish ({failed[0]['error']})")
    killed = sum(not load["quit_by_itself"] for load in loads)
    if killed:
        said.append(f"the browser had to be killed after {killed} of {len(loads)} loads")
    busy = [unit["cpu"]["busy_mean"] for unit in found if unit.get("cpu", {}).get("busy_mean") is not None]
    if busy and max(busy) > BUSY:
        said.append(f"processors were busy up to {max(busy):.0%} of a unit's time: times may be too long")
    return said


BUSY = 0.9
"""Share of all processors' time over a unit beyond which its times are doubted."""
