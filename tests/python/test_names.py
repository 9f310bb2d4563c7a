"""Names: no listed word in identifiers, one meaning for each public type."""

from __future__ import annotations

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


def python_files() -> Iterator[Path]:
    """Yield the Python files of the repository, with scripts that have no suffix."""
    for folder in PYTHON:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix == ".py" or (folder == "scripts" and path.is_file() and is_python_script(path)):
                yield path


def is_python_script(path: Path) -> bool:
    """Return whether the first line of a file without a suffix names Python."""
    return path.suffix == "" and b"python" in path.read_bytes().partition(b"\n")[0]


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
