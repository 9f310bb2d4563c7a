"""Texts without a markup of their own: docstrings, comments and strings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prose_lint.markdown import markdown_texts
from prose_lint.text import Text

CODE = re.compile(r"``.+?``|`[^`\n]+`", re.DOTALL)
QUOTED_OR_CODE = re.compile(rf'{CODE.pattern}|"[^" ]+"', re.DOTALL)
SECTION = re.compile(r"(?:Args|Returns|Raises|Yields|Attributes|Examples?):$")
ENTRY = re.compile(r"(?:- )?(?:\*{0,2}[\w.`]+(?: \([^)]*\))?): +")
"""The label of an entry of a list or a section."""
MODULE = re.compile(r"``[^`]+``: +")
"""The label of a line of a list of modules."""
LITERAL = r'"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
STRING_OR_COMMENT = re.compile(rf"#[^\n]*|{LITERAL}", re.DOTALL)
"""A token of Python or TOML. ``tokenize`` takes ten times as long."""
NO_PROSE = re.compile(
    r"#+!?\s*(?:noqa|type: ignore|fmt: |ruff: |mypy: |pragma: |isort: |/|[\w.-]+ = |\[)|# {3,}|#$"
)
"""Comments that are directives, settings or commands."""
LEAST_WORDS = 3
"""A shorter string is a name, not a message."""


def comments(source: str) -> Iterator[Text]:
    """Yield the comments of a Python or TOML file; whole lines of comments in succession are one text."""
    block: list[str] = []
    begin = end = 0
    for line, alone, token in tokens(source):
        if not token.startswith("#") or NO_PROSE.match(token):
            continue
        if block and not (alone and line == end + 1):
            yield masked_text("comment", begin, "\n".join(block))
            block = []
        begin, end = begin if block else line, line if alone else 0
        block.append(token.lstrip("#!: "))
    if block:
        yield masked_text("comment", begin, "\n".join(block))


def tokens(source: str) -> Iterator[tuple[int, bool, str]]:
    """Yield the comments and strings of a Python or TOML file: line, whether nothing is before it there, source."""
    line, position = 1, 0
    for match in STRING_OR_COMMENT.finditer(source):
        line += source.count("\n", position, match.start())
        position = match.start()
        yield line, not source[source.rfind("\n", 0, position) + 1 : position].strip(), match[0]


def toml_texts(source: str) -> Iterator[Text]:
    """Yield comments and strings of a TOML file. A string of several lines is Markdown."""
    yield from comments(source)
    for line, _, token in tokens(source):
        if not token.startswith("#") and "\n" in token:
            yield from markdown_texts(token.strip("\"'"), line)
        elif not token.startswith("#"):
            text = Text("message", line)
            add_masked(text, token.strip("\"'"), QUOTED_OR_CODE)
            if is_message(text):
                yield text


def is_message(text: Text) -> bool:
    """Return whether a string has the words of a message."""
    return text.text.strip().count(" ") + 1 >= LEAST_WORDS


def masked_text(kind: str, line: int, source: str) -> Text:
    """Return a text with the code between backticks masked."""
    text = Text(kind, line)
    add_masked(text, source, CODE)
    return text


def add_masked(text: Text, source: str, code: re.Pattern[str]) -> None:
    """Append a text with its code masked; the lines of the code count."""
    start = 0
    for match in code.finditer(source):
        text.add(source[start : match.start()])
        text.add_code(match[0].strip("`"))
        text.text += "\n" * match[0].count("\n")
        start = match.end()
    text.add(source[start:])


def docstring_texts(line: int, source: str) -> Iterator[Text]:
    """Yield the paragraphs and entries of a docstring; skip code, which is indented, and tables."""
    number, in_section = line, False
    for paragraph in re.split(r"(\n(?:[ \t]*\n)+)", source):
        if not paragraph.strip():
            number += paragraph.count("\n")
            continue
        lines = paragraph.split("\n")
        is_indented = lines[0].startswith(" ")
        in_section = bool(SECTION.match(lines[0])) or (in_section and is_indented)
        if not (is_indented and not in_section) and not lines[0].startswith((">>>", "===")):
            for offset, entry in _entries(lines, in_section):
                yield masked_text("docstring", number + offset, entry)
        number += len(lines) - 1


def _entries(lines: list[str], in_section: bool) -> Iterator[tuple[int, str]]:
    """Yield the items of a list and the entries of a section, each with the offset of its first line."""
    begin = 0
    entry: list[str] = []
    for offset, line in enumerate(lines):
        bare = line.strip()
        label = ENTRY.match(bare) if in_section or bare.startswith("- ") else MODULE.match(bare)
        if label or bare.startswith("- ") or SECTION.match(bare):
            yield begin, "\n".join(entry)
            begin, entry = offset, []
            bare = bare[label.end() :] if label else bare.removeprefix("- ")
        entry.append("" if SECTION.match(bare) else bare)
    yield begin, "\n".join(entry)
