"""docs/tutorial.md does what it says: its files are written, its commands are run, its output compared.

A fenced block `toml title=NAME` is a file. In a block `console`, a line `$ COMMAND` is run in the same folder for all
blocks, and the lines below it are its output, in which `...` stands for anything, also for several lines. A command
whose exit status is not 0 says so in a line `[exit status 2]`.

`BENTPIPE_UPDATE=1 pytest tests/python/test_tutorial.py` writes the outputs into the tutorial anew.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).resolve().parents[2] / "docs/tutorial.md"
BLOCK = re.compile(r"^```(toml|console)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def matches(expected: str, found: str) -> bool:
    """Is `found` what `expected` says, `...` being anything?"""
    words = [re.escape(part) for part in re.split(r"\.\.\.", expected.strip())]
    return re.fullmatch(".*?".join(words), found.strip(), re.DOTALL) is not None


def normal(text: str) -> str:
    """Without trailing blanks, which no reader sees."""
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def timeless(text: str) -> str:
    """Output as the tutorial shows it: what the machine decides is left open."""
    text = re.sub(r"(runs in \S+, )[\d.]+ (s|min)", r"\1... \2", text)
    return re.sub(r"about .+? on \d+ processors?", "about ... processors", text)


def run(command: str, folder: Path) -> str:
    """What a command prints, and its exit status unless 0."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    found = normal(done.stdout + done.stderr)
    return f"{found}\n[exit status {done.returncode}]" if done.returncode else found


def test_tutorial(tmp_path: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    update = bool(os.environ.get("BENTPIPE_UPDATE"))
    tutorial = TUTORIAL.read_text()
    commands = 0
    for block in BLOCK.finditer(tutorial):
        kind, title, text = block.groups()
        if kind == "toml":
            (tmp_path / title).write_text(text)
            continue
        shown = ""
        for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            found = run(command, tmp_path)
            shown += f"$ {command}\n{timeless(found)}\n"
            if not update:
                assert matches(normal(expected), found), f"$ {command}\n{found}\n--- expected\n{expected}"
            commands += 1
        if update:
            tutorial = tutorial.replace(block[0], f"```console\n{shown}```")
    if update:
        TUTORIAL.write_text(tutorial)
    assert commands >= 6
