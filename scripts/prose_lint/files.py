"""The files that are checked, and their texts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from prose_lint.markdown import markdown_texts
from prose_lint.plain import toml_texts
from prose_lint.python import python_texts
from prose_lint.rules import Finding, check
from prose_lint.rust import rust_texts
from prose_lint.templates import template_texts
from prose_lint.text import Text

ROOT = Path(__file__).parents[2]
EXCLUDED = re.compile(
    r"docs/decisions/"  # decisions keep their text
    r"|studies/[^/]*/published\.toml"  # statements of publications
    r"|scripts/prose_lint/rules\.toml"
)
"""Files that are not checked."""
MESSAGES = ("python/", "studies/")
"""Folders of Python files whose strings are read by users."""
RUST_TESTS = re.compile(r"(?:^|/)(?:tests|benches|test_support|examples|fuzz[^/]*)/|tests?\.rs$")
"""Rust files whose strings no user reads."""


SUFFIXES = (".html", ".md", ".py", ".rs", ".toml")


def checked_files() -> list[str]:
    """List the files of the repository that are checked, relative to its root."""
    patterns = [*(f"*{suffix}" for suffix in SUFFIXES), "scripts/*"]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(name for name in set(names) if is_checked(name))


def is_checked(name: str) -> bool:
    """Return whether a file of the repository is checked; without a suffix, a Python script is."""
    path = ROOT / name
    if EXCLUDED.match(name) or not path.is_file():
        return False
    return path.suffix in SUFFIXES or (path.suffix == "" and is_python_script(path))


def is_python_script(path: Path) -> bool:
    """Return whether the first line of a file names Python."""
    with path.open("rb") as file:
        return b"python" in file.readline(200)


def file_texts(path: Path) -> Iterator[Text]:
    """Yield the texts of a file."""
    source = path.read_text(encoding="utf-8")
    name = path.resolve()
    shown = name.relative_to(ROOT).as_posix() if name.is_relative_to(ROOT) else ""
    match path.suffix:
        case ".md":
            return markdown_texts(source)
        case ".html":
            return template_texts(source)
        case ".toml":
            return toml_texts(source)
        case ".rs":
            return rust_texts(source, messages=not RUST_TESTS.search(shown))
    return python_texts(source, messages=not shown or shown.startswith(MESSAGES))


def file_findings(path: Path) -> list[Finding]:
    """Return the findings of a file in the order of its lines."""
    return sorted((one for text in file_texts(path) for one in check(text)), key=lambda one: one.line)
