"""The number of findings that a file may still have. It only falls; a file without an entry has none."""

from __future__ import annotations

import tomllib
from pathlib import Path, PurePosixPath

FILE = Path(__file__).with_name("baseline.toml")
HEAD = """\
# Findings of the prose linter that a file may still have. `scripts/prose --update` lowers the numbers.
# An entry follows a file that moves to another folder under the same name. The goal is an empty table.
"""


def read() -> dict[str, int]:
    """Read the numbers of the files."""
    return dict(tomllib.loads(FILE.read_text(encoding="utf-8")))


def allowances(names: list[str], entries: dict[str, int] | None = None) -> dict[str, int]:
    """Return the allowed number of findings of each file; a moved file has the entry of its old path."""
    entries = dict(read() if entries is None else entries)
    allowed = {name: entries.pop(name) for name in names if name in entries}
    for name in names:
        if name not in allowed:
            moved = [old for old in entries if PurePosixPath(old).name == PurePosixPath(name).name]
            allowed[name] = entries.pop(moved[0]) if moved else 0
    return {name: allowed[name] for name in names}


def above(counts: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """List the files with more findings than allowed."""
    return [name for name, count in counts.items() if count > allowed[name]]


def write(counts: dict[str, int]) -> None:
    """Write the numbers of the files that have findings."""
    lines = [f'"{name}" = {count}\n' for name, count in sorted(counts.items()) if count]
    FILE.write_text(HEAD + "".join(lines), encoding="utf-8")
