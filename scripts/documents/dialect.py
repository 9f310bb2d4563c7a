"""Conversion of GitHub's Markdown to that of Python-Markdown.

Lists, tables and fenced blocks need an empty line before them. The contents of an item are indented by four columns.
The title of a fenced block is quoted. The contents of fenced blocks do not change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

FENCE = re.compile(r"^( *)(```+|~~~+)")
ITEM = re.compile(r"^( *)([-*+]|\d+[.)])( +)(?=\S)")
HEADING = re.compile(r"^#{1,6} ")
RULE = re.compile(r"^ *\|?[-:| ]*-[-:| ]*\|[-:| ]*$")
"""Between a table's head and its rows."""
BEGINS = ("-", "*", "+", "1.", "1)")
"""Markers that begin a list without an empty line after a paragraph."""
TITLE = re.compile(r"^( *```\w+) title=([^\s\"]+)$")
SPAN = re.compile(r"(`+)(?:.(?!\1))*?.\1(?!`)", re.DOTALL)


def python_markdown(text: str) -> str:
    """Return ``text`` in the dialect of Python-Markdown."""
    without = outside_code(text, lambda part: re.sub(r"<!--.*?-->\n?", "", part, flags=re.DOTALL))
    return "".join(f"{line}\n" for line in _lists(without.splitlines()))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return ``text`` with ``change`` applied outside of fenced blocks and code spans."""
    parts, start = [], 0
    for begin, end in _code(text):
        parts += [change(text[start:begin]), text[begin:end]]
        start = end
    return "".join([*parts, change(text[start:])])


def _code(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each fenced block and code span."""
    blocks = re.compile(r"^( *)(```+|~~~+)[^\n]*\n.*?^ *\2 *$", re.MULTILINE | re.DOTALL)
    found = [block.span() for block in blocks.finditer(text)]
    edges = [0, *(edge for span in found for edge in span), len(text)]
    spans = [
        span.span()
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
        for span in SPAN.finditer(text, begin, end)
        if "\n\n" not in span[0]
    ]
    yield from sorted(found + spans)


def _lists(lines: list[str]) -> Iterator[str]:
    """Yield the lines with empty lines around lists, and four columns of indentation per level."""
    levels: list[int] = []  # columns at which the contents of the open items begin
    before = ""
    rest = iter(lines)
    tables = {above for above, line in pairwise(lines) if RULE.match(line) and "|" in above}
    for line in rest:
        if not line.strip():
            yield line
        elif mark := FENCE.match(line):
            if before.strip():
                yield ""
            yield from _block(line, rest, mark[2], levels[: _depth(line, levels)])
            yield ""
            before = ""
            continue
        elif (item := ITEM.match(line)) and (levels or not before.strip() or item[2] in BEGINS):
            if before.strip() and not levels:
                yield ""
            del levels[_depth(line, levels) :]
            yield f"{' ' * 4 * len(levels)}{item[2]} {line[item.end() :]}"
            levels.append(item.end())
        else:
            begins = line in tables or bool(HEADING.match(line))
            if begins and before.strip():
                yield ""
            if begins or not before.strip():  # only a paragraph's next line may be indented less than it
                del levels[_depth(line, levels) :]
            inner = line[levels[-1] :] if levels and _depth(line, levels) == len(levels) else line.lstrip()
            yield " " * 4 * len(levels) + inner if levels else line
        before = line


def _block(first: str, rest: Iterator[str], fence: str, levels: list[int]) -> Iterator[str]:
    """Yield the lines of a fenced block with the indentation of its item."""
    column = levels[-1] if levels else 0
    indent = " " * 4 * len(levels)
    yield TITLE.sub(r'\1 title="\2"', indent + first[column:])
    for line in rest:
        yield indent + line[min(column, len(line) - len(line.lstrip())) :] if line.strip() else ""
        if line.strip() == fence:
            return


def _depth(line: str, levels: list[int]) -> int:
    """Return the number of open items that contain a line with this indentation."""
    indent = len(line) - len(line.lstrip())
    return sum(indent >= level for level in levels)
