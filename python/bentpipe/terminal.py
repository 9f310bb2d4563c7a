"""What the command line prints: tables, the progress bar, and rows as JSON."""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bentpipe.plan import Plan, Run

__all__ = ["emit", "humane", "print_table", "progress"]


def humane(value: object) -> str:
    """A cell of a table: numbers to four significant digits, nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        if value and (abs(value) >= 1e7 or abs(value) < 1e-3):
            return f"{value:.3e}"
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def print_table(
    rows: Sequence[Mapping[str, Any]], title: str = "", headings: Mapping[str, str] | None = None
) -> None:
    """Prints rows that share their keys; numbers to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 200)
    if not rows:
        console.print("(no rows)")
        return
    if title:
        console.print(Text(title), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for key in rows[0]:
        numeric = any(isinstance(row.get(key), (int, float)) for row in rows)
        heading = (headings or {}).get(key, key)
        table.add_column(Text(heading), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(humane(row.get(key))) for key in rows[0]))
    console.print(table)


def emit(rows: object) -> None:
    """Prints rows as JSON."""
    json.dump(rows, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


@contextmanager
def progress(
    plan: Plan, runs: Sequence[Run], *, quiet: bool = False
) -> Iterator[Callable[[Run, bool], None]]:
    """A progress bar on standard error with an estimate of the time left; nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from bentpipe.session import cost

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[runs]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=quiet or not console.is_terminal or not runs,
    )
    total = len(runs)
    done = failed = 0
    with bar:
        task = bar.add_task(plan.title, total=sum(cost(run) for run in runs), runs=f"0 of {total} runs")

        def each(run: Run, good: bool) -> None:
            nonlocal done, failed
            done += 1
            failed += not good
            tail = f", {failed} failed" if failed else ""
            bar.update(task, advance=cost(run), runs=f"{done} of {total} runs{tail}")

        yield each
