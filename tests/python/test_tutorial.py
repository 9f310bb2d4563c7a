"""docs/tutorial.md does what it says: its files are written, its commands are run, its output compared.

A fenced block `toml title=NAME` is a file. In a block `console`, a line `$ COMMAND` is run in the same folder for all
blocks, and the lines below it are its output, in which `...` stands for anything, also for several lines. A command
whose exit status is not 0 says so in a line `[exit status 2]`.

`BENTPIPE_UPDATE=1 pytest tests/python/test_tutorial.py` prints what the commands print now.
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


def test_tutorial(tmp_path: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    commands = 0
    for kind, title, text in BLOCK.findall(TUTORIAL.read_text()):
        if kind == "toml":
            if title:
                (tmp_path / title).write_text(text)
            continue
        for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
            )  # fmt: skip
            found = normal(done.stdout + done.stderr)
            if done.returncode != 0:
                found += f"\n[exit status {done.returncode}]"
            if os.environ.get("BENTPIPE_UPDATE"):
                print(f"$ {command}\n{found}\n")
            else:
                assert matches(normal(expected), found), f"$ {command}\n{found}\n--- expected\n{expected}"
            commands += 1
    assert commands >= 6
