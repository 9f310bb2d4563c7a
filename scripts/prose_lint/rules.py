"""Rules of prose, from ``rules.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prose_lint.text import Text, count_words

FILE = Path(__file__).with_name("rules.toml")
KINDS = ("sentence", "heading", "cell")
"""Kinds of texts."""


@dataclass(frozen=True)
class Finding:
    """A place that breaks a rule."""

    line: int
    rule: str
    found: str
    expected: str

    def __str__(self) -> str:
        """Return the message without the file."""
        return f"{self.line}: {self.rule}: {self.found}; expected {self.expected}"


@dataclass(frozen=True)
class Rule:
    """A pattern that no sentence has, or a limit of its words."""

    name: str
    expected: str
    pattern: re.Pattern[str] | None
    max_words: int
    kinds: frozenset[str]
    questions: bool
    """Questions are checked too."""

    def find(self, sentence: str) -> str:
        """Return the part of a sentence that breaks the rule, or nothing."""
        if not self.questions and sentence.endswith("?"):
            return ""
        if self.pattern is None:
            words = count_words(sentence)
            return f"{words} words" if words > self.max_words else ""
        match = self.pattern.search(sentence)
        return match[0] if match else ""


def read_rules(path: Path = FILE) -> list[Rule]:
    """Read the rules of a file."""
    rules = []
    for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
        kinds = frozenset(table.get("kinds", KINDS))
        questions = table.get("questions", True)
        if "max_words" in table:
            rules.append(Rule(name, table["expected"], None, table["max_words"], kinds, questions))
        if "pattern" in table:
            rules.append(Rule(name, table["expected"], re.compile(table["pattern"]), 0, kinds, questions))
        for words, instead in table.get("words", {}).items():
            pattern = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
            rules.append(Rule(name, instead, pattern, 0, kinds, questions))
    return rules


RULES = read_rules()


def check(text: Text, rules: list[Rule] = RULES) -> Iterator[Finding]:
    """Yield the findings of a text, at most one of each rule in a sentence."""
    for line, sentence in text.sentences():
        seen = set()
        for rule in rules:
            if text.kind in rule.kinds and rule.name not in seen and (found := rule.find(sentence)):
                seen.add(rule.name)
                found = text.plain(found)
                quoted = found if rule.pattern is None else f'"{found}"'
                yield Finding(
                    line, rule.name, f'{quoted} in "{shorten(text.plain(sentence))}"', rule.expected
                )


def shorten(sentence: str, width: int = 90) -> str:
    """Return the beginning of a long sentence."""
    return sentence if len(sentence) <= width else f"{sentence[: width - 3].rstrip()}..."
