"""Names and sentences: no listed word in identifiers, no clause before a subject, one meaning for each public type."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CRATES = ROOT / "crates"

WORDS = frozenset(
    [
        "cast",
        "casts",
        "cue",
        "cues",
        "depot",
        "door",
        "doors",
        "farewell",
        "fate",
        "fates",
        "heard",
        "hearsay",
        "leaving",
        "leg",
        "legs",
        "letters",
        "room",
        "roster",
        "said",
        "seat",
        "seats",
        "shelf",
        "told",
        "warden",
        "whose",
    ]
)
"""Words without a meaning in the field (docs/reference/glossary.md has the others)."""

FOREIGN = re.compile(r"\.cast::<")
"""Names of other libraries."""

COMMENT = r"//[^\n]*|/\*.*?\*/"
LITERAL = r'b?r(?P<hashes>#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\'\\])\''
COMMENT_OR_LITERAL = re.compile(rf"(?P<comment>{COMMENT})|{LITERAL}", re.DOTALL)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
PUBLIC_TYPE = re.compile(r"^\s*pub(?:\(crate\))? (?:struct|enum|trait|union|type) (\w+)", re.MULTILINE)


def sources() -> list[Path]:
    """List the Rust files of the crates, relative to their folder."""
    paths = (path.relative_to(CRATES) for path in CRATES.rglob("*.rs"))
    return sorted(paths)


def read(path: Path) -> str:
    """Read a file of the crates."""
    return (CRATES / path).read_text(encoding="utf-8")


def has_listed_word(name: str) -> bool:
    """Return whether a part of a name in any case is a listed word."""
    return bool(WORDS & {part.lower() for part in PART.findall(name)})


def found_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and identifier, or word of a comment, for each that contains a listed word."""
    plain = COMMENT_OR_LITERAL.sub(lambda match: match["comment"] or "\n" * match[0].count("\n"), text)
    for number, line in enumerate(FOREIGN.sub("", plain).splitlines(), 1):
        for name in IDENTIFIER.findall(line):
            if has_listed_word(name):
                yield number, name


@pytest.mark.parametrize(
    "text",
    [
        "let told = 1;",
        "fn take_said() {}",
        "struct SeatMap;",
        "const MAX_LEGS: u8 = 1;",
        "// Whose it is.",
        "/* a\nroster */",
        '// an inch: "\nlet said = 1;',
    ],
)
def test_a_listed_word_is_found(text: str) -> None:
    assert list(found_words(text))


@pytest.mark.parametrize(
    "text",
    [
        'let name = "told";',
        'let name = r#"a "told" one"#;',
        r'let name = "an \" and told";',
        "fn broadcast() {}",
        "let roomy = 1;",
        "/* broadcast */",
        "let dict = value.cast::<PyDict>();",
    ],
)
def test_other_words_and_strings_are_not_found(text: str) -> None:
    assert not list(found_words(text))


def test_no_identifier_and_no_comment_has_a_listed_word() -> None:
    found = [
        f"crates/{path}:{number}: {name}" for path in sources() for number, name in found_words(read(path))
    ]
    assert found == [], "\n".join(found)


def test_no_path_has_a_listed_word() -> None:
    """Files and folders are modules, crates and test programs."""
    found = [path.as_posix() for path in sources() if has_listed_word(path.as_posix())]
    assert found == [], "\n".join(found)


def test_a_public_type_name_has_one_meaning() -> None:
    """Re-exports are not definitions. ``Options`` is the convention of the controllers' catalogue."""
    definitions: dict[str, list[str]] = defaultdict(list)
    for path in sources():
        if path.parts[1] == "src":
            for name in PUBLIC_TYPE.findall(read(path)):
                if not (name == "Options" and path.parts[0] == "cc"):
                    definitions[name].append(path.as_posix())
    assert {name: paths for name, paths in definitions.items() if len(paths) > 1} == {}


PYTHON = ("benchmarks", "examples", "python", "scripts", "studies", "tests/python")
"""Folders with Python files."""

PYTHON_WORDS = frozenset(
    [
        "depot",
        "farewell",
        "hearsay",
        "heard",
        "kept",
        "roster",
        "said",
        "seat",
        "seats",
        "shelf",
        "thinning",
        "told",
        "whose",
    ]
)
"""Words that no identifier of Python contains. ``cast``, ``leg`` and ``room`` have other meanings there."""

CLAUSE = re.compile(r"(?:^|[.!?:] |\n\n)\s*(?:What|Whatever|Who|Whoever|Whose|Whom|Of|As of) \w+")
"""The beginning of a sentence with a clause before its subject."""


def python_files() -> Iterator[Path]:
    """Yield the Python files of the repository, with scripts that have no suffix."""
    for folder in PYTHON:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix == ".py" or (folder == "scripts" and path.is_file() and is_python_script(path)):
                yield path


def is_python_script(path: Path) -> bool:
    """Return whether the first line of a file without a suffix names Python."""
    return path.suffix == "" and b"python" in path.read_bytes().partition(b"\n")[0]


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring and comment; comments in consecutive lines are one text."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.lineno, value.value
    comment, begin, end = "", 0, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            text = token.string.lstrip("#!: ")
            if line != end + 1:
                yield begin, comment
                comment, begin = "", line
            comment, end = f"{comment} {text}", line
    yield begin, comment


def clauses(source: str) -> Iterator[int]:
    """Yield the line of each text with a sentence that begins with a clause."""
    yield from (line for line, text in python_texts(source) if CLAUSE.search(text.strip()))


@pytest.mark.parametrize(
    "source",
    [
        '"""What is left."""',
        'def f():\n    """Return it. Whose it is, follows."""',
        "# Of these, two are used.",
        "a = 1  # Who may write\n",
        "# Both ends are\n# closed. What remains is counted.",
    ],
)
def test_a_clause_before_the_subject_is_found(source: str) -> None:
    assert list(clauses(source))


@pytest.mark.parametrize(
    "source",
    ['"""Return what is left."""', "# Offer both.", 'a = "What is left."', '"""Whole numbers."""'],
)
def test_other_sentences_are_not_found(source: str) -> None:
    assert not list(clauses(source))


def test_no_sentence_of_python_begins_with_a_clause() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files()
        for line in clauses(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "\n".join(found)


def test_no_identifier_of_python_has_a_listed_word() -> None:
    found = []
    for path in python_files():
        source = path.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            parts = {part.lower() for part in PART.findall(token.string)}
            if token.type == tokenize.NAME and PYTHON_WORDS & parts:
                found.append(f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}")
    assert found == [], "\n".join(found)


def test_no_python_module_has_a_listed_word() -> None:
    found = [
        path.name
        for path in python_files()
        if (PYTHON_WORDS | {"remarks"}) & set(re.split(r"[^a-z]+", path.stem))
    ]
    assert found == [], "\n".join(found)
