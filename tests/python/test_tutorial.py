"""Tests of docs/tutorial.md: its files are written, its commands run, and their outputs are compared.

A fenced block `toml title=NAME` (or `json`, `python`) is a file. In a block `console`, a line `$ COMMAND` is run in the
same folder for all blocks. The lines below it are its output, in which `...` stands for any text, also for several
lines. A line `[exit status 2]` follows a command that fails.

`BENTPIPE_UPDATE=1 pytest tests/python/test_tutorial.py` writes the outputs into the tutorial anew.
"""

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import commands

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(toml|json|python|console)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def matches(expected: str, found: str) -> bool:
    """Return whether `found` equals `expected`, in which `...` matches anything."""
    words = [re.escape(part) for part in re.split(r"\.\.\.", expected.strip())]
    return re.fullmatch(".*?".join(words), found.strip(), re.DOTALL) is not None


def normal(text: str) -> str:
    """Without trailing blanks, which no reader sees."""
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def timeless(text: str) -> str:
    """Output as the tutorial shows it: what the machine decides is left open."""
    text = re.sub(r"(passed.* in )[\d.]+s", r"\1...s", text)
    text = re.sub(r"engine 0[\w.+]+", "engine ...", text)
    text = re.sub(r"(runs in (?:\S+, )?)[\d.]+ (s|min)", r"\1... \2", text)
    return re.sub(r"about .+? on \d+ processors?", "about ... processors", text)


def plugin() -> str:
    """Return the module of the pytest plug-in; empty if an entry point has it already."""
    listed = {one.value for one in importlib.metadata.entry_points(group="pytest11")}
    return "" if "bentpipe.testing.plugin" in listed else "bentpipe.testing.plugin"


def run(command: str, folder: Path) -> str:
    """Return the output of a command, and its exit status unless 0."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    environment["PYTEST_ADDOPTS"] = ""
    environment["PYTEST_PLUGINS"] = plugin()
    if command.startswith("bentpipe ") and not set(command) & set("|&;<>$*"):
        done = commands.bentpipe(folder, *shlex.split(command)[1:], environment=environment)
    else:
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
    found = normal(done.stdout + done.stderr).replace(str(folder), "...")
    return f"{found}\n[exit status {done.returncode}]" if done.returncode else found


def follow(page: Path, folder: Path) -> int:
    """Run the commands of a page in ``folder``; return their number.

    With BENTPIPE_UPDATE it writes their outputs anew.
    """
    update = bool(os.environ.get("BENTPIPE_UPDATE"))
    messages = page.read_text()
    done = 0
    for block in BLOCK.finditer(messages):
        kind, title, text = block.groups()
        if kind != "console":
            if title:
                (folder / title).write_text(text)
            continue
        shown = ""
        for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            found = run(command, folder)
            shown += f"$ {command}\n{timeless(found)}\n"
            if not update:
                assert matches(normal(expected), found), f"$ {command}\n{found}\n--- expected\n{expected}"
            done += 1
        if update:
            messages = messages.replace(block[0], f"```console\n{shown}```")
    if update:
        page.write_text(messages)
    return done


def test_tutorial(tmp_path: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    assert follow(ROOT / "docs/tutorial.md", tmp_path) >= 6
