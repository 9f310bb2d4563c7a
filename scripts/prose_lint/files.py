"""The files that are checked, and their texts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from prose_lint.markdown import markdown_texts
from prose_lint.rules import Finding, check
from prose_lint.text import Text

ROOT = Path(__file__).parents[2]
EXCLUDED = ("docs/decisions/",)
"""Decisions keep their text."""


def checked_files() -> list[str]:
    """List the files of the repository that are checked, relative to its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(name for name in set(names) if not name.startswith(EXCLUDED) and (ROOT / name).is_file())


def file_texts(path: Path) -> Iterator[Text]:
    """Yield the texts of a file."""
    return markdown_texts(path.read_text(encoding="utf-8"))


def file_findings(path: Path) -> list[Finding]:
    """Return the findings of a file in the order of its lines."""
    return sorted((one for text in file_texts(path) for one in check(text)), key=lambda one: one.line)
