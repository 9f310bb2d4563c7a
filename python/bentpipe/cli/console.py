"""Output of the command line: tables, JSON, messages and the progress bar."""

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

from bentpipe.metrics.format import TextTable, format_cell, unbroken
from bentpipe.scenario.plain_text import CONTROL, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence
    from typing import IO

    from rich.console import Console

    from bentpipe.metrics.format import CommandOutput
    from bentpipe.plan.plan import Plan, Run
    from bentpipe.runners.execute import Observer

__all__ = ["answer", "emit", "patience", "plain", "print_table", "progress", "steps", "watch"]

FIRST_S, NEXT_S = 2.0, 5.0
"""Times of the first and of further messages of a long operation, s."""


def _one_line(text: str) -> str:
    """Return ``text`` as one line of a table or a progress bar."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def _styled_stream(stream: IO[str]) -> IO[str]:
    """Return the stream for texts without control characters, to which Rich may add colours."""
    styled: IO[str] = getattr(stream, "styled", stream)
    return styled


def print_table(
    rows: Sequence[Mapping[str, Any]], title: str = "", headings: Mapping[str, str] | None = None
) -> None:
    """Print rows that share their keys, with right-aligned numbers.

    Long texts and headings wrap between words. A table wider than the terminal is printed in blocks of columns. Without
    a terminal it is printed in full width.

    Args:
        rows: the rows.
        title: line above the table.
        headings: headings by key.
    """
    from rich.console import Console

    console = Console(file=_styled_stream(sys.stdout), width=None if sys.stdout.isatty() else DEFAULT_WIDTH)
    if not rows:
        console.print("(no rows)")
        return
    if title:
        print(
            _wrap(_one_line(title), console.width) if sys.stdout.isatty() else _one_line(title),
            file=console.file,
        )
    names = {key: _one_line((headings or {}).get(key, key)) for key in rows[0]}
    cells = {key: [plain(format_cell(row.get(key))) for row in rows] for key in rows[0]}
    numeric = {key for key in rows[0] if any(isinstance(row.get(key), (int, float)) for row in rows)}
    for block in _blocks(names, cells, numeric, console.width if sys.stdout.isatty() else None):
        _print_block(console, {key: names[key] for key in block}, cells, numeric)


def _blocks(
    names: Mapping[str, str], cells: Mapping[str, Sequence[str]], numeric: Container[str], width: int | None
) -> list[list[str]]:
    """Return the columns of each block of a table that is wider than the terminal, else one block.

    Every block begins with the columns that identify a row: those up to "seeds", or the leading columns of text.

    Args:
        names: headings by column.
        cells: texts by column.
        numeric: columns of numbers.
        width: width of the terminal, characters; None without a terminal.
    """
    columns = list(names)
    widths = {key: _min_width(names[key], cells[key]) + 1 for key in columns}
    if width is None or sum(widths.values()) - 1 <= width:
        return [columns]
    if "seeds" in columns:
        keys = columns[: columns.index("seeds") + 1]
    else:
        keys = columns[: next((number for number, key in enumerate(columns) if key in numeric), 1)]
    key_width = sum(widths[key] for key in keys)
    blocks: list[list[str]] = []
    used = width + 1
    for key in columns[len(keys) :]:
        if used + widths[key] - 1 > width:
            blocks.append([*keys])
            used = key_width
        blocks[-1].append(key)
        used += widths[key]
    return blocks or [columns]


def _print_block(
    console: Console, names: dict[str, str], cells: Mapping[str, Sequence[str]], numeric: Container[str]
) -> None:
    """Print columns of a table; the width of the console grows if they do not fit."""
    from rich.table import Table
    from rich.text import Text

    rows = len(cells[next(iter(names))])
    wide_widths = {key: max(_min_width(names[key], cells[key]), len(names[key])) for key in names}
    widths = {key: _min_width(names[key], cells[key]) for key in names}
    if sum(wide_widths.values()) + 2 * len(wide_widths) > console.width:
        names = {key: "\n".join(textwrap.wrap(names[key], widths[key])) for key in names}
    else:
        widths = wide_widths
    column_gap = 2 if sum(widths.values()) + 2 * len(widths) <= console.width else 1
    console.width = max(console.width, sum(widths.values()) + column_gap * len(widths))
    is_large = rows > MANY_ROWS and _fits(names, cells, column_gap, console.width)
    widths = _column_widths(names, cells, widths, console.width - column_gap * len(widths))
    table = Table(box=None, pad_edge=False, padding=(0, column_gap, 0, 0))
    texts = {key: cells[key] for key in names}
    for key in names:
        if is_large:
            texts[key] = [_pad(cell, widths[key], left=key in numeric) for cell in texts[key]]
        table.add_column(
            Text(names[key]),
            justify="right" if key in numeric else "left",
            overflow="fold",
            width=widths[key],
        )
    for index in range(0 if is_large else rows):
        table.add_row(*(Text(texts[key][index]) for key in names))
    console.print(table)
    if is_large:
        lines = zip(*(texts[key] for key in names), strict=True)
        print("\n".join((" " * column_gap).join(line) for line in lines), file=console.file)


DEFAULT_WIDTH = 200
"""Width without a terminal, characters."""

MANY_ROWS = 100
"""Number of rows above which a table without wrapped cells is formatted here: Rich takes most of a second for
a thousand."""

MAX_UNWRAPPED = 32
"""Length above which a cell is text that may wrap, characters."""


def _min_width(heading: str, cells: Sequence[str]) -> int:
    """Return the minimum width of a column: the longest word or the longest cell that may not wrap."""
    words = [word for text in (heading, *cells) for word in text.split()]
    unwrapped = [cell for cell in cells if len(cell) <= MAX_UNWRAPPED]
    return max((len(part) for part in (*words, *unwrapped)), default=0)


def _column_widths(
    names: Mapping[str, str], cells: Mapping[str, Sequence[str]], least: Mapping[str, int], room: int
) -> dict[str, int]:
    """Return the width of each column: its least, and an equal share of the rest of the room up to its longest cell.

    Rich alone would shrink a column below its least width, and cut off the last column.
    """
    longest = {key: max(least[key], _width(names[key], cells[key])) for key in names}
    rest = room - sum(least[key] for key in names)
    widths = {}
    for number, key in enumerate(sorted(names, key=lambda key: longest[key] - least[key])):
        more = min(longest[key] - least[key], max(0, rest) // (len(names) - number))
        widths[key] = least[key] + more
        rest -= more
    return widths


def _width(heading: str, cells: Sequence[str]) -> int:
    """Return the width of a column without wrapping."""
    from rich.cells import cell_len

    return max(cell_len(line) for text in (heading, *cells) for line in text.split("\n"))


def _pad(cell: str, width: int, *, left: bool) -> str:
    """Return ``cell`` filled with spaces to ``width``."""
    from rich.cells import cell_len

    space = " " * (width - cell_len(cell))
    return space + cell if left else cell + space


def _fits(names: Mapping[str, str], cells: Mapping[str, Sequence[str]], gap: int, width: int) -> bool:
    """Return whether every cell and heading fits on one line."""
    if any("\n" in text for key in names for text in (names[key], *cells[key])):
        return False
    return sum(_width(names[key], cells[key]) for key in names) + gap * len(names) <= width


def emit(rows: object) -> None:
    """Print rows as JSON."""
    text = json.dumps(_finite(rows), indent=2, ensure_ascii=False, default=_to_json_value, allow_nan=False)
    # JSON escapes control characters, so that a reader gets the same text.
    print(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def _finite(value: object) -> object:
    """Return the value with null in place of infinities and NaN, which JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value


def _to_json_value(value: object) -> object:
    return _finite(float(value)) if isinstance(value, Decimal) else str(value)


def patience(operation: str = "planning", items: str = "cells") -> Callable[[int, int], None]:
    """Return a callback that prints the progress of a long operation.

    It prints after 2 s, then every 5 s, and at the end.

    Args:
        operation: name of the operation.
        items: name of the counted items.
    """
    started_s = time.monotonic()
    next_s = started_s + FIRST_S

    def each(done: int, total: int) -> None:
        """Print the progress if it is time."""
        nonlocal next_s
        now = time.monotonic()
        if now >= next_s or (done == total and next_s > started_s + FIRST_S):
            next_s = now + NEXT_S
            print(f"{operation}: {done:,} of {total:,} {items}", file=sys.stderr, flush=True)

    return each


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Print the current step of a long operation on standard error, only at a terminal.

    It prints after 2 s, then every 5 s.

    Yields:
        A function that takes the name of the next step.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    started_s = time.monotonic()
    ended = threading.Event()
    current = ""

    def begin(step: str) -> None:
        nonlocal current
        current = step

    def report() -> None:
        wait_s = FIRST_S
        while not ended.wait(wait_s):
            print(f"{current}: {time.monotonic() - started_s:.0f} s", file=sys.stderr, flush=True)
            wait_s = NEXT_S

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield begin
    finally:
        ended.set()
        reporter.join()


def answer(output: CommandOutput, *, as_json: bool = False) -> None:
    """Print the output of a command, and its problems on standard error."""
    if as_json:
        emit(output.data)
    else:
        width = _terminal_width()
        for part in output.shown:
            if isinstance(part, TextTable):
                print_table(part.rows, part.title)
            else:
                print(part if width is None else _wrap(part, width))
    for problem in output.problems:
        print(problem, file=sys.stderr)


def _terminal_width() -> int | None:
    """Return the width of the terminal; None if standard output is none."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console(file=_styled_stream(sys.stdout)).width


def _wrap(text: str, width: int) -> str:
    """Return the text with lines that fit ``width``, without a break inside a quantity.

    Lines that start with a blank remain: they are commands to copy.
    """
    lines = [
        line
        if len(line) <= width or line[:1].isspace()
        else textwrap.fill(unbroken(line), width, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    ]
    return "\n".join(lines).replace("\u00a0", " ")


def watch(*, quiet: bool = False) -> Observer:
    """Return an observer that prints progress and messages on standard error.

    Args:
        quiet: omit the progress bar.
    """
    from bentpipe.runners.execute import Observer

    return Observer(partial(progress, quiet=quiet), lambda text: print(text, file=sys.stderr))


@contextmanager
def progress(
    plan: Plan, runs: Sequence[Run], *, quiet: bool = False
) -> Iterator[Callable[[Run, bool], None]]:
    """Show a progress bar with the estimated remaining time on standard error, only at a terminal.

    Args:
        plan: the plan.
        runs: its runs that will run.
        quiet: omit the bar.

    Yields:
        A function that takes each finished run and whether it succeeded.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from bentpipe.plan.cost import run_weight

    console = Console(file=_styled_stream(sys.stderr))
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
