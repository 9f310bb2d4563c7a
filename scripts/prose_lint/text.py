"""Texts with masked code, and their sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MASK = 0xE000
"""First character of those that stand for code, URLs and formulas: the private use area of Unicode."""
MASKED = re.compile("[\ue000-\uf8ff]")
URL = re.compile(r"\bhttps?://[^\s)>\]]+")
FORMULA = re.compile(r"(?<![\\$\w])\$(?![\s$])([^$\n]+?)(?<!\s)\$(?![\w$])|\$\$.+?\$\$", re.DOTALL)
END = re.compile(r"(?<=[.!?])[\"'”’)\]*_]*(?:\s+|$)|\n\s*\n| · ")
PART_END = re.compile(rf"{END.pattern}|; ")
"""A message has the form "what is wrong; how to go on", and a cell of a table may be a list."""
ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|etc|al|approx|Fig|Figs|Sec|Eq|No|pp|p|St|Dr|ch|Rev|Vol)|\.\.|^\d+|\b[A-Z])\.$"
)


@dataclass
class Text:
    """A paragraph, heading, table cell, message or docstring."""

    kind: str
    """One of ``KINDS`` of ``rules``."""
    line: int
    text: str = ""
    """Code, URLs and formulas are one character each."""
    masked: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Append prose; mask its URLs and formulas."""
        for pattern in (FORMULA, URL):
            text = pattern.sub(lambda match: self._mask(match[0]), text)
        self.text += text

    def add_code(self, code: str) -> None:
        """Append code as one character."""
        self.text += self._mask(f"`{code}`")

    def _mask(self, text: str) -> str:
        self.masked.append(text)
        return chr(MASK + len(self.masked) - 1)

    def plain(self, part: str) -> str:
        """Return a part of the text with its code again, on one line."""
        while MASKED.search(part):
            part = MASKED.sub(lambda match: self.masked[ord(match[0]) - MASK], part)
        return " ".join(part.split())

    def sentences(self) -> Iterator[tuple[int, str]]:
        """Yield the line and the text of each sentence. An abbreviation ends none."""
        start = 0
        for match in (PART_END if self.kind in ("message", "cell") else END).finditer(self.text):
            if not ABBREVIATION.search(self.text[start : match.start()]) or match.end() == len(self.text):
                yield from self._sentence(start, match.end())
                start = match.end()
        yield from self._sentence(start, len(self.text))

    def _sentence(self, start: int, end: int) -> Iterator[tuple[int, str]]:
        part = self.text[start:end]
        begin = start + len(part) - len(part.lstrip())
        if part.strip():
            yield self.line + self.text.count("\n", 0, begin), part.strip()


def count_words(sentence: str) -> int:
    """Return the number of words. A code span, a URL and a formula are one word each; signs are none."""
    return sum(any(char.isalnum() or MASKED.match(char) for char in word) for word in sentence.split())
