"""Script with ``tc``: its fixed functions, which are files beside this module, and the selection of a command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["dispatch", "functions", "schedule_function"]

_FOLDER = Path(__file__).parent / "shell"


def functions(name: str) -> str:
    """Return the functions of a file: ``setup``, ``lab`` (network namespaces) or ``change``."""
    return (_FOLDER / f"{name}.sh").read_text(encoding="utf-8")


def schedule_function(commands: Sequence[str], boundary: str = "", *, is_repeated: bool) -> str:
    """Return the functions that change the settings over time.

    Args:
        commands: calls of ``change_down``, ``change_up`` and ``sleep``.
        boundary: command that waits for the first instant; empty: none.
        is_repeated: the commands repeat until the script is interrupted.
    """
    indent = " " * (8 if is_repeated else 4)
    lines = ["schedule() {", "    devices"]
    lines += [f"    {boundary}"] if boundary else []
    if is_repeated:  # an interrupted burst of losses must not stay
        lines += ["    trap restore EXIT", "    trap 'exit 130' INT TERM", "    while :; do"]
    lines += [f"{indent}{command}" for command in commands]
    lines += ["    done"] if is_repeated else []
    return "\n".join([functions("change"), *lines, "}"]) + "\n"


def dispatch(commands: Sequence[str]) -> str:
    """Return the selection of the command, at the end of the script."""
    cases = [f"{name}) {name.replace('-', '_')} ;;" for name in commands]
    usage = '*) echo "usage: $0 ' + "|".join(commands) + '" >&2; exit 2 ;;'
    return "\n".join(["", 'case "${1:-}" in', *cases, usage, "esac"]) + "\n"
