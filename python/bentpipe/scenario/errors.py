"""Errors of scenarios: each message has the key, the expected value and the nearest valid name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = [
    "SOURCE_ARGUMENT",
    "SYNONYMS",
    "ScenarioError",
    "UserCodeError",
    "encoding_error",
    "from_pydantic",
    "is_name",
    "key_path",
    "one_table",
    "syntax_error",
    "unknown_name",
]


NO_FILE = "scenario"
"""Source of a message that concerns no file."""

SOURCE_ARGUMENT = ""
"""Source of a message about a function argument; ``cli/common`` replaces its name with the option."""


class ScenarioError(ValueError):
    """Invalid scenario: one or more problems, each with its key.

    ``str()`` is the message for people: one line for each problem, which starts with the name of the file.
    Without a file, the name is omitted if the key is empty, an option or a variable of the command line.
    """

    def __init__(self, problems: Sequence[tuple[str, str]], source: str = NO_FILE) -> None:
        """Create the error.

        Args:
            problems: pairs of key and message. The key may be empty.
            source: the file, or one of the constants of this module.
        """
        self.problems = tuple((_to_line(key), _to_line(text)) for key, text in problems)
        self.source = source
        super().__init__("\n".join(self._format(key, text) for key, text in self.problems))

    def _format(self, key: str, text: str) -> str:
        omit_source = self.source == NO_FILE and (not key or key.startswith("--") or key.isupper())
        return ": ".join(part for part in ("" if omit_source else self.source, key, text) if part)

    def with_source(self, source: str, context: str = "") -> ScenarioError:
        """Return the same problems of ``source``, with ``context`` (a cell of the sweep) appended."""
        suffix = f" ({context})" if context else ""
        return ScenarioError([(key, text + suffix) for key, text in self.problems], source)


class UserCodeError(RuntimeError):
    """Failure of a user-supplied controller or scheduler. The message has the location."""


_MAX_WORD_LENGTH = 120
"""Number of characters after which a message truncates a word."""


def _to_line(text: str) -> str:
    """Return the text as one printable line, with overlong words truncated."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return re.sub(rf"\S{{{_MAX_WORD_LENGTH},}}", lambda word: f"{word[0][: _MAX_WORD_LENGTH // 2]}...", line)


def encoding_error(error: UnicodeDecodeError) -> str:
    """Return the message for a text that is not UTF-8: its encoding if recognised, otherwise the line."""
    data = error.object
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is UTF-16 text, expected UTF-8; save it as UTF-8"
    if b"\0" in data:
        return "is not text, expected UTF-8"
    line = data.count(b"\n", 0, error.start) + 1
    return f"is not UTF-8: byte 0x{data[error.start]:02x} in line {line}; save it as UTF-8"


_SYNTAX = {
    "Illegal character '\\n'": "unterminated text or line",
    "Cannot overwrite a value": "duplicate key",
    "Cannot declare": "duplicate table",
    "Expecting value": "expected a value",
    "Expecting property name enclosed in double quotes": "expected a key in double quotes",
}
"""Beginnings of messages of the parsers of TOML and JSON, and their causes."""


def syntax_error(error: ValueError) -> str:
    """Return the message for a text that is not TOML or JSON: its line and column, then the cause."""
    text, place = str(error), ""
    if found := re.fullmatch(
        r"(.*?):? \(?(?:at )?(line \d+),? column (\d+)(?: \(char \d+\))?\)?", text, re.DOTALL
    ):
        text, place = found[1], f"{found[2]}, column {found[3]}: "
    cause = next((ours for theirs, ours in _SYNTAX.items() if text.startswith(theirs)), "")
    return place + (cause or _to_line(text[:1].lower() + text[1:]))


def unknown_name(found: str, names: Iterable[str], kind: str = "key", others: str = "") -> str:
    """Return the message for a name that is none of ``names``.

    Args:
        found: the unknown name.
        names: the valid names.
        kind: the kind of name, such as "preset".
        others: further accepted values, such as "a file".
    """
    names = list(names)
    near = [f'"{name}"' for name in _nearest_names(found, names)]
    hint = (
        f"; did you mean {' or '.join([', '.join(near[:-1]), near[-1]] if near[1:] else near)}?"
        if near
        else ""
    )
    if not names:
        return f'no {kind} "{found}", none is defined here'
    alternative = f"; or {others}" if others else ""
    return f'no {kind} "{found}", expected one of: {", ".join(names)}{alternative}{hint}'


SYNONYMS = {
    "algorithm": "congestion",
    "bandwidth": "rate",
    "bitrate": "rate",
    "buffer": "queue",
    "bw": "rate",
    "capacity": "rate",
    "cc": "congestion",
    "cca": "congestion",
    "congestion_control": "congestion",
    "controller": "congestion",
    "latency": "delay",
    "packet_loss": "loss",
    "plr": "loss",
    "protocol": "transport",
    "runs": "seeds",
    "runtime": "duration",
    "size": "bytes",
    "throughput": "rate",
}
"""Keys of other tools, in lower case, and the key of a scenario with the same meaning."""

_MOST_SUGGESTIONS = 3
_VERY_SIMILAR = 0.8
"""Similarity (difflib's ratio) of a misspelt name."""


def _nearest_names(found: str, names: Sequence[str]) -> list[str]:
    """Return the suggestions for an unknown name.

    The first rule that applies decides: a synonym, a very similar name, names with the word ``found``, the most similar
    name. ``geo-viasat`` is a name with the word ``geo``.
    """
    from bentpipe.scenario.quantity_text import nearest

    word = found.casefold()
    if SYNONYMS.get(word) in names:
        return [SYNONYMS[word]]
    if near := nearest(found, names, cutoff=_VERY_SIMILAR):
        return [near]
    matches = [name for name in names if word in re.split(r"[-_.]", name.casefold())] if len(word) > 1 else []
    if 0 < len(matches) <= _MOST_SUGGESTIONS:
        return matches
    near = nearest(found, matches or names)
    return [near] if near else matches[:_MOST_SUGGESTIONS]


def is_name(text: str) -> bool:
    """Return whether a text is a letter of any alphabet, then letters, combining marks, digits, _ or -."""
    return text[:1].isalpha() and all(c in "_-" or unicodedata.category(c)[0] in "LMN" for c in text)


def key_path(location: Sequence[int | str], data: object) -> str:
    """Return the dotted key of a location in ``data``, with the names of the members of lists.

    ``("path", "segment", 0, "down")`` is ``path.satellite.down`` if that segment has the name "satellite".
    """
    parts: list[str] = []
    table = data
    for step in location:
        child: Any = None  # a bare value (loss = "1 %" for { probability = "1 %" }) has no keys
        if (
            isinstance(step, int)
            and isinstance(table, Sequence)
            and not isinstance(table, str)
            and step < len(table)
        ):
            child = table[step]
            name = child.get("name") if isinstance(child, Mapping) else None
            if isinstance(name, str) and is_name(name):
                if parts and parts[-1] in ("segment", "link", "proxy", "handover"):
                    parts.pop()
                parts.append(name)
            elif parts:
                parts[-1] += f"[{step + 1}]"
        elif isinstance(table, Mapping):
            parts.append(str(step))
            child = table.get(step)
        table = child
    return ".".join(parts)


def from_pydantic(error: ValidationError, data: object, source: str) -> ScenarioError:
    """Return the errors of pydantic as a ScenarioError.

    Args:
        error: the errors of pydantic.
        data: the validated data, which has the names of the members of lists.
        source: the file, or one of the constants of this module.
    """
    problems: list[tuple[str, str]] = []
    from bentpipe.scenario.expected_value import describe_expected, find_model

    model = find_model(error.title)
    for item in error.errors(include_url=False):
        location = list(item["loc"])
        context: Mapping[str, Any] = item.get("ctx", {})
        relative_key = context.get("at")
        if isinstance(relative_key, str):
            location.append(relative_key)
        message = _message(item["type"], item["msg"], context, item["input"])
        if (
            item["type"] == "list_type"
            and isinstance(item["input"], Mapping)
            and location[-1] in _TABLE_LISTS
        ):
            message = one_table(".".join(map(str, location)))
        elif item["type"] == "missing" and location[-1] in _TABLE_LISTS:
            message = f"missing, expected [[{'.'.join(map(str, location))}]]"
        elif item["type"] == "missing" and model is not None:
            message = f"missing, expected {describe_expected(model, location) or 'a value'}"
        elif item["type"] in ("list_type", "too_short") and model is not None:
            expected = describe_expected(model, location) or "a list"
            found = "an empty list" if item["input"] == [] else _format_value(item["input"])
            if item["type"] == "list_type" or (item["input"] == [] and expected != "a list"):
                message = f"found {found}, expected {expected}"
        elif item["type"] in _TABLE_TYPES and model is not None:
            expected = describe_expected(model, location) or "a table"
            message = f"found {_format_value(item['input'])}, expected {expected}"
        problem = (key_path(location, data), message)
        if problem not in problems:
            problems.append(problem)
    return ScenarioError(problems, source)


def _format_value(found: object) -> str:
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
    """Return the message for a single table ``[key]`` instead of a list of tables ``[[key]]``."""
    return f'[{key}] is one table, expected a list of them; did you mean "[[{key}]]"?'


_TABLE_LISTS = ("flow", "segment", "proxy", "node", "link", "handover", "object", "neighbour", "contact")
"""Keys of lists of tables, which TOML writes in double brackets."""

_TABLE_TYPES = ("model_type", "model_attributes_type", "dict_type")
"""Kinds of errors about a value in place of a table."""

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
        names = [text or number for text, number in expected]
        if isinstance(found, str):
            return f"found {_format_value(found)}, {unknown_name(found, names).split(', ', 1)[1]}"
        return f"found {_format_value(found)}, expected one of: {', '.join(names)}"
    if kind in _EXPECTED:
        return f"found {_format_value(found)}, expected {_EXPECTED[kind]}"
    for name, relation in (
        ("greater_than_equal", "at least"),
        ("greater_than", "more than"),
        ("less_than_equal", "at most"),
        ("less_than", "less than"),
    ):
        if kind == name:
            limit = next(iter(context.values()))
            return f"found {_format_value(found)}, expected {relation} {limit}"
    if kind == "too_short":
        return f"found a list of {context.get('actual_length', 0)}, expected at least {context.get('min_length', 1)}"
    return f"found {_format_value(found)}: {text}"
