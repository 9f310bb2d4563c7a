"""What is wrong with a scenario, in one message: the key, what was expected, the nearest right word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = [
    "SOURCE_ARGUMENT",
    "ScenarioError",
    "UserCodeError",
    "encoding_error",
    "from_pydantic",
    "is_name",
    "key_path",
    "one_table",
    "unknown_name",
]


NO_FILE = "scenario"
"""Source of what is said of no file."""

SOURCE_ARGUMENT = ""
"""Source of what is said of a function's argument, by its name; the command line says its option (``cli/common``)."""


class ScenarioError(ValueError):
    """A scenario that cannot be run: one or more problems, each with its key.

    ``str()`` is the message for people, one line a problem, each starting with the file's name; what is
    said of a word of the command line, or of no key at all, and of no file, starts with that word.
    """

    def __init__(self, problems: Sequence[tuple[str, str]], source: str = NO_FILE) -> None:
        """``problems`` are (key, message); the key may be empty."""
        self.problems = tuple((_printable(key), _printable(text)) for key, text in problems)
        self.source = source
        super().__init__("\n".join(self._line(key, text) for key, text in self.problems))

    def _line(self, key: str, text: str) -> str:
        bare = self.source == NO_FILE and (not key or key.startswith("--") or key.isupper())
        return ": ".join(word for word in ("" if bare else self.source, key, text) if word)

    def within(self, source: str, context: str = "") -> ScenarioError:
        """The same problems, said of ``source``; ``context`` (a cell of the sweep) is appended."""
        tail = f" ({context})" if context else ""
        return ScenarioError([(key, text + tail) for key, text in self.problems], source)


class UserCodeError(RuntimeError):
    """A controller or scheduler of one's own that does not work; the message says where."""


_LONGEST = 120
"""Characters of a word beyond which it is cut in a message."""


def _printable(text: str) -> str:
    """The text in one line that a terminal can show, with endless words cut."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return re.sub(rf"\S{{{_LONGEST},}}", lambda word: f"{word[0][: _LONGEST // 2]}...", shown)


def encoding_error(error: UnicodeDecodeError) -> str:
    """Message for a text in another encoding: which one, where that can be seen, or the line."""
    found = error.object
    if found.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is UTF-16 text, expected UTF-8; save it as UTF-8"
    if b"\0" in found:
        return "is not text, expected UTF-8"
    line = found.count(b"\n", 0, error.start) + 1
    return f"is not UTF-8: byte 0x{found[error.start]:02x} in line {line}; save it as UTF-8"


def unknown_name(found: str, words: Iterable[str], what: str = "key") -> str:
    """Message for a word that is none of ``words``."""
    words = list(words)
    from bentpipe.scenario.quantities import nearest

    near = nearest(found, words)
    hint = f'; did you mean "{near}"?' if near else ""
    if not words:
        return f'no {what} "{found}", there are none here'
    return f'no {what} "{found}", expected one of: {", ".join(words)}{hint}'


def is_name(text: str) -> bool:
    """A letter of any alphabet, then letters, marks on them, digits, _ or -."""
    return text[:1].isalpha() and all(c in "_-" or unicodedata.category(c)[0] in "LMN" for c in text)


def key_path(location: Sequence[int | str], data: object) -> str:
    """The dotted key of a place in ``data``; members of lists are called by their name.

    ``("path", "segment", 0, "down")`` is ``path.satellite.down`` where that segment is so named.
    """
    words: list[str] = []
    at = data
    for step in location:
        child: Any = None  # below a bare value (loss = "1 %" for { probability = "1 %" }) nothing is said
        if isinstance(step, int) and isinstance(at, Sequence) and not isinstance(at, str) and step < len(at):
            child = at[step]
            name = child.get("name") if isinstance(child, Mapping) else None
            if isinstance(name, str) and is_name(name):
                if words and words[-1] in ("segment", "link", "proxy", "handover"):
                    words.pop()
                words.append(name)
            elif words:
                words[-1] += f"[{step + 1}]"
        elif isinstance(at, Mapping):
            words.append(str(step))
            child = at.get(step)
        at = child
    return ".".join(words)


def from_pydantic(error: ValidationError, data: object, source: str) -> ScenarioError:
    """pydantic's errors in the words of the scenario."""
    problems: list[tuple[str, str]] = []
    for item in error.errors(include_url=False):
        location = list(item["loc"])
        context: Mapping[str, Any] = item.get("ctx", {})
        extra = context.get("at")
        if isinstance(extra, str):
            location.append(extra)
        message = _message(item["type"], item["msg"], context, item["input"])
        if item["type"] == "list_type" and isinstance(item["input"], Mapping) and location[-1] in _LISTED:
            message = one_table(".".join(map(str, location)))
        problem = (key_path(location, data), message)
        if problem not in problems:
            problems.append(problem)
    return ScenarioError(problems, source)


def _show(found: object) -> str:
    if isinstance(found, str):
        return f'"{found}"'
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, Mapping):
        return "a table"
    if isinstance(found, list):
        return "a list"
    return str(found)


def one_table(key: str) -> str:
    """Message for a table in single brackets where several stand one after the other."""
    return f'[{key}] is one table, expected a list of them; did you mean "[[{key}]]"?'


_LISTED = ("flow", "segment", "proxy", "node", "link", "handover", "object")
"""Keys whose tables stand in double brackets, one after the other."""

_EXPECTED = {
    "missing": "missing, expected a value",
    "bool_type": "true or false",
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def _message(kind: str, text: str, context: Mapping[str, Any], found: object) -> str:
    if kind in ("value_error", "scenario"):
        return str(context.get("error", text))
    if kind == "missing":
        return _EXPECTED[kind]
    if kind == "literal_error":
        expected = re.findall(r"'([^']*)'|(\d+)", str(context.get("expected", "")))
        words = [text or number for text, number in expected]
        if isinstance(found, str):
            return f"found {_show(found)}: {unknown_name(found, words, 'word')}"
        return f"found {_show(found)}, expected one of: {', '.join(words)}"
    if kind in _EXPECTED:
        return f"found {_show(found)}, expected {_EXPECTED[kind]}"
    for name, words_ in (
        ("greater_than_equal", "at least"),
        ("greater_than", "more than"),
        ("less_than_equal", "at most"),
        ("less_than", "less than"),
    ):
        if kind == name:
            limit = next(iter(context.values()))
            return f"found {_show(found)}, expected {words_} {limit}"
    if kind == "too_short":
        return f"found a list of {context.get('actual_length', 0)}, expected at least {context.get('min_length', 1)}"
    return f"found {_show(found)}: {text}"
