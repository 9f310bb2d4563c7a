"""Rules of prose, from ``rules.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prose_lint.text import Text, count_words

FILE = Path(__file__).with_name("rules.toml")
KINDS = ("sentence", "heading", "cell", "head", "docstring", "comment", "message")
"""Kinds of texts. ``head`` is a cell of the first row of a table."""
KEYS = frozenset(
    {"max_words", "pattern", "words", "ignore_case", "expected", "kinds", "not_kinds", "questions"}
)


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
    """A limit of words, a pattern or a vocabulary, which sentences of some kinds keep to."""

    name: str
    expected: str
    max_words: int
    pattern: re.Pattern[str] | None
    words: tuple[tuple[re.Pattern[str], str], ...]
    vocabulary: re.Pattern[str] | None
    """Any of ``words``; it is searched first."""
    kinds: frozenset[str]
    questions: bool
    """Questions are checked too."""

    def find(self, sentence: str) -> tuple[str, str] | None:
        """Return the part of a sentence that breaks the rule, and the expected words."""
        if not self.questions and sentence.endswith("?"):
            return None
        if self.max_words and (words := count_words(sentence)) > self.max_words:
            return f"{words} words", self.expected
        if self.pattern and (match := self.pattern.search(sentence)):
            return f'"{match[0]}"', self.expected
        for pattern, instead in self.words:
            if match := pattern.search(sentence):
                return f'"{match[0]}"', instead
        return None

    def may_concern(self, text: Text) -> bool:
        """Return whether a sentence of the text can break the rule."""
        return text.kind in self.kinds and (
            self.vocabulary is None or bool(self.vocabulary.search(text.text))
        )


def read_rules(path: Path = FILE) -> list[Rule]:
    """Read the rules of a file."""
    return [read_rule(name, table) for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items()]


def read_rule(name: str, table: dict[str, Any]) -> Rule:
    """Read one rule.

    Raises:
        ValueError: a key or a kind is unknown.
    """
    kinds = frozenset(table.get("kinds", KINDS)) - frozenset(table.get("not_kinds", ()))
    if unknown := sorted((set(table) - KEYS) | (kinds - set(KINDS))):
        raise ValueError(
            f"{name}: unknown {unknown[0]}, expected one of {', '.join([*sorted(KEYS), *KINDS])}"
        )
    words = {rf"\b(?:{words})\b": instead for words, instead in table.get("words", {}).items()}
    case = re.IGNORECASE if table.get("ignore_case", True) else re.NOFLAG
    return Rule(
        name=name,
        expected=table.get("expected", ""),
        max_words=table.get("max_words", 0),
        pattern=re.compile(table["pattern"]) if "pattern" in table else None,
        words=tuple((re.compile(pattern, case), instead) for pattern, instead in words.items()),
        vocabulary=re.compile("|".join(words), case) if words and "pattern" not in table else None,
        kinds=kinds,
        questions=table.get("questions", True),
    )


RULES = read_rules()


def check(text: Text, rules: list[Rule] = RULES) -> Iterator[Finding]:
    """Yield the findings of a text, at most one of each rule in a sentence."""
    concerned = [rule for rule in rules if rule.may_concern(text)]
    for line, sentence in text.sentences():
        for rule in concerned:
            if found := rule.find(sentence):
                quoted = shorten(text.plain(sentence))
                yield Finding(line, rule.name, f'{text.plain(found[0])} in "{quoted}"', found[1])


def shorten(sentence: str, width: int = 90) -> str:
    """Return the beginning of a long sentence."""
    return sentence if len(sentence) <= width else f"{sentence[: width - 3].rstrip()}..."
