"""Texts of a Rust file: doc comments, comments and messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prose_lint.markdown import markdown_texts
from prose_lint.plain import CODE, add_masked, is_message, masked_text
from prose_lint.text import Text

TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|\b[bc]?r(?P<hashes>#*)".*?"(?P=hashes)'
    r'|[bc]?"(?:[^"\\]|\\.)*"'
    r"|b?'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|u\{\w+\}|[^ux]))'",
    re.DOTALL,
)
"""A comment or a literal. A lifetime is neither."""
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{")
"""The begin of the tests of a file, which are at its end."""
MARKUP = re.compile(r"\n *\n|(?m:^ *(?:[#|>*+-]|\d+\.|```))|\]\(|<")
"""Signs of Markdown other than code. The parser takes ten times as long as the search."""
VALUE = re.compile(r"\{\{|\}\}|\{[^{}]*\}")
"""A value of a format string, or an escaped brace."""
QUOTED_OR_CODE = re.compile(rf'{CODE.pattern}|{VALUE.pattern}|"[^" ]+"', re.DOTALL)
CODE_TEXT = re.compile(r"\A\s*(?:<|\w+ [a-z]+ (?:inet|element)\b|link set|\(?function)|[{;] *\\n|\\r\\n")
"""Strings that are markup, rules of a firewall, commands or protocol."""


def rust_texts(source: str, messages: bool = True) -> Iterator[Text]:
    """Yield doc comments, comments and messages. The strings of tests are no messages."""
    tests = TESTS.search(source)
    end = tests.start() if tests else len(source)
    block = _Block()
    line, position = 1, 0
    for match in TOKEN.finditer(source):
        line += source.count("\n", position, match.start())
        position = match.start()
        token = match[0]
        if token.startswith("/"):
            alone = not source[source.rfind("\n", 0, position) + 1 : position].strip()
            if not block.continues(token, line, alone):
                yield from block.texts()
                block = _Block()
            block.add(token, line, alone)
        elif messages and position < end and '"' in token and " " in token:
            yield from _message(token, line)
    yield from block.texts()


class _Block:
    """Comments of one kind in succession."""

    def __init__(self) -> None:
        self._mark = ""
        self._begin = self._end = 0
        self._lines: list[str] = []

    def continues(self, token: str, line: int, alone: bool) -> bool:
        """Return whether a comment continues the block."""
        return not self._lines or (alone and line == self._end + 1 and _mark(token) == self._mark)

    def add(self, token: str, line: int, alone: bool) -> None:
        """Append a comment; no comment continues one beside a statement."""
        if not self._lines:
            self._mark, self._begin = _mark(token), line
        self._end = line + token.count("\n") if alone else 0
        text = token.removeprefix("/*").removesuffix("*/") if token.startswith("/*") else token.lstrip("/!")
        self._lines.append(text.removeprefix(" "))

    def texts(self) -> Iterator[Text]:
        """Yield the texts of the block. A doc comment is Markdown."""
        source = "\n".join(self._lines)
        if not source.strip():
            return
        if self._mark == "//":
            yield masked_text("comment", self._begin, source)
        elif MARKUP.search(source):
            yield from markdown_texts(source, self._begin)
        else:
            yield masked_text("docstring", self._begin, source)


def _mark(token: str) -> str:
    return token[:3] if token.startswith(("///", "//!")) else "//"


def _message(token: str, line: int) -> Iterator[Text]:
    """Yield a string of several words that is no code. A value within it is one word."""
    words = token[token.index('"') + 1 : token.rindex('"')]
    words = re.sub(r"\\\n\s*", "", words)
    if CODE_TEXT.search(words):
        return
    words = re.sub(r'\\(["\\])', r"\1", words).replace("\\n", " ")
    text = Text("message", line)
    # The lines of a message are not the lines of the file.
    add_masked(text, re.sub(r"\s*\n\s*", " ", words), QUOTED_OR_CODE)
    if is_message(text):
        yield text
