"""What the command line prints: tables, the progress bar, and rows as JSON."""

from __future__ import annotations

import json
import math
import sys
import textwrap
import threading
import time
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import TextTable, format_cell
from bentpipe.scenario.plain_text import CONTROL, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import IO

    from bentpipe.metrics.format import CommandOutput
    from bentpipe.plan.plan import Plan, Run
    from bentpipe.runners.execute import Observer

__all__ = ["answer", "emit", "patience", "plain", "print_table", "progress", "steps", "watch"]

FIRST_S, NEXT_S = 2.0, 5.0
"""When something long says for the first time how far it is, and from then on."""


def _one_line(text: str) -> str:
    """``text`` as one line of a table or a bar."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def _screen(stream: IO[str]) -> IO[str]:
    """The stream for texts that are plain already, with colours."""
    styled: IO[str] = getattr(stream, "styled", stream)
    return styled


def print_table(
    rows: Sequence[Mapping[str, Any]], title: str = "", headings: Mapping[str, str] | None = None
) -> None:
    """Prints rows that share their keys; numbers to the right. Long texts and headings wrap, but no word is broken.

    What is wider than the terminal even so is printed as wide as it is.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=_screen(sys.stdout), width=None if sys.stdout.isatty() else PAGE)
    if not rows:
        console.print("(no rows)")
        return
    if title:
        console.print(Text(_one_line(title)), soft_wrap=True)
    names = {key: _one_line((headings or {}).get(key, key)) for key in rows[0]}
    cells = {key: [plain(format_cell(row.get(key))) for row in rows] for key in rows[0]}
    wide = {key: max(_least(names[key], cells[key]), len(names[key])) for key in rows[0]}
    least = {key: _least(names[key], cells[key]) for key in rows[0]}
    if sum(wide.values()) + 2 * len(wide) > console.width:
        names = {key: "\n".join(textwrap.wrap(names[key], least[key])) for key in rows[0]}
    else:
        least = wide
    gap = 2 if sum(least.values()) + 2 * len(least) <= console.width else 1
    console.width = max(console.width, sum(least.values()) + gap * len(least))
    many = len(rows) > MANY and _fits(names, cells, gap, console.width)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for key in rows[0]:
        numeric = any(isinstance(row.get(key), (int, float)) for row in rows)
        if many:
            least[key] = _width(names[key], cells[key])
            cells[key] = [_padded(cell, least[key], left=numeric) for cell in cells[key]]
        table.add_column(
            Text(names[key]), justify="right" if numeric else "left", overflow="fold", min_width=least[key]
        )
    for index in range(0 if many else len(rows)):
        table.add_row(*(Text(cells[key][index]) for key in rows[0]))
    console.print(table)
    if many:
        lines = zip(*(cells[key] for key in rows[0]), strict=True)
        print("\n".join((" " * gap).join(line) for line in lines), file=console.file)


PAGE = 200
"""Width where there is no terminal."""

MANY = 100
"""Rows above which a table where nothing wraps is put together here: over a thousand Rich takes most of a second."""

SENTENCE = 32
"""A cell longer than this is text, and may wrap."""


def _least(heading: str, cells: Sequence[str]) -> int:
    """The least width of a column: its longest word, and its longest cell that is no sentence."""
    words = [word for text in (heading, *cells) for word in text.split()]
    whole = [cell for cell in cells if len(cell) <= SENTENCE]
    return max((len(part) for part in (*words, *whole)), default=0)


def _width(heading: str, cells: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, (heading, *cells)))


def _padded(cell: str, width: int, *, left: bool) -> str:
    from rich.cells import cell_len

    space = " " * (width - cell_len(cell))
    return space + cell if left else cell + space


def _fits(names: Mapping[str, str], cells: Mapping[str, Sequence[str]], gap: int, width: int) -> bool:
    """Whether every cell and heading has one line."""
    if any("\n" in text for key in names for text in (names[key], *cells[key])):
        return False
    return sum(_width(names[key], cells[key]) for key in names) + gap * len(names) <= width


def emit(rows: object) -> None:
    """Prints rows as JSON."""
    text = json.dumps(_finite(rows), indent=2, ensure_ascii=False, default=_plain, allow_nan=False)
    # JSON has a way of its own to write them out, which gives the same text back to whoever reads it
    print(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def _finite(value: object) -> object:
    """JSON has no infinities and no not-a-numbers: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value


def _plain(value: object) -> object:
    return _finite(float(value)) if isinstance(value, Decimal) else str(value)


def patience(doing: str = "planning", what: str = "cells") -> Callable[[int, int], None]:
    """Says on standard error how far something long is: after 2 s, then every 5 s, and when it is done."""
    begun = time.monotonic()
    next_s = begun + FIRST_S

    def each(done: int, of: int) -> None:
        nonlocal next_s
        now = time.monotonic()
        if now >= next_s or (done == of and next_s > begun + FIRST_S):
            next_s = now + NEXT_S
            print(f"{doing}: {done:,} of {of:,} {what}", file=sys.stderr, flush=True)

    return each


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Say on standard error which step of something long goes on: after 2 s, then every 5 s; nothing where there is no
    terminal.

    Yields:
        what takes the name of the step that begins.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    begun = time.monotonic()
    ended = threading.Event()
    current = ""

    def begin(step: str) -> None:
        nonlocal current
        current = step

    def report() -> None:
        wait_s = FIRST_S
        while not ended.wait(wait_s):
            print(f"{current}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            wait_s = NEXT_S

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield begin
    finally:
        ended.set()
        reporter.join()


def answer(said: CommandOutput, *, as_json: bool = False) -> None:
    """Prints what came out, and on standard error what went wrong."""
    if as_json:
        emit(said.data)
    else:
        for part in said.shown:
            if isinstance(part, TextTable):
                print_table(part.rows, part.title)
            else:
                print(part)
    for problem in said.problems:
        print(problem, file=sys.stderr)


def watch(*, quiet: bool = False) -> Observer:
    """Says on standard error how far a session is; ``quiet`` is without its bar."""
    from bentpipe.runners.execute import Observer

    return Observer(partial(progress, quiet=quiet), lambda text: print(text, file=sys.stderr))


@contextmanager
def progress(
    plan: Plan, runs: Sequence[Run], *, quiet: bool = False
) -> Iterator[Callable[[Run, bool], None]]:
    """A progress bar on standard error with an estimate of the time left; nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from bentpipe.plan.cost.estimate import run_weight

    console = Console(file=_screen(sys.stderr))
    bar = Progress(
        TextColumn("{task.description}", markup=False),
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
        task = bar.add_task(
            _one_line(plan.title), total=sum(run_weight(run) for run in runs), runs=f"0 of {total} runs"
        )

        def each(run: Run, good: bool) -> None:
            nonlocal done, failed
            done += 1
            failed += not good
            tail = f", {failed} failed" if failed else ""
            bar.update(task, advance=run_weight(run), runs=f"{done} of {total} runs{tail}")

        yield each
