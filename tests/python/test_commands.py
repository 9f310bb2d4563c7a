"""A command within the process of the tests behaves as in a separate process, and leaves nothing behind."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

import commands

SCENARIO = """title = "one \\u001b[31m"
duration = "1 s"
seeds = 2
[[path.segment]]
name = "link"
delay = "5 ms"
both = { rate = "10 Mbit/s" }
[[flow]]
name = "main"
congestion = "cubic"
"""


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["check", "f.toml"], 0),
        (["check", "f.toml", "--set", "duration=1e9999 s"], 2),
        (["check", "f.toml", "--nothing"], 2),
        (["run", "f.toml", "--jobs", "1"], 0),
        (["show", "nothing"], 2),
        ([], 2),
        (["--help"], 0),
    ],
)
def test_it_is_what_a_process_says(tmp_path: Path, words: list[str], status: int) -> None:
    found = []
    for name in ("within", "alone"):
        folder = tmp_path / name / "here"
        folder.mkdir(parents=True)
        (folder / "f.toml").write_text(SCENARIO)
        command = commands.bentpipe if name == "within" else commands.process
        done = command(folder, *words)
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        printed = re.sub(r"[\d.]+ s$", "? s", done.stdout)  # how long it took
        found.append((done.returncode, printed, done.stderr, files))
    assert found[0] == found[1]
    assert found[0][0] == status


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(SCENARIO)
    environment = {**os.environ, "COLUMNS": "61", "BENTPIPE_TRACEBACK": ""}

    def state() -> list[object]:
        streams = [sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__]
        handlers = [signal.getsignal(number) for number in commands.RESTORED_SIGNALS]
        return [Path.cwd(), dict(os.environ), sys.argv, *streams, *handlers]

    before = state()
    for words, status in ((["check", "f.toml"], 0), (["check", "no.toml"], 2)):
        assert commands.bentpipe(tmp_path, *words, environment=environment).returncode == status
    assert state() == before
