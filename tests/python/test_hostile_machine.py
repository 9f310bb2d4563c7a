"""Little address space, a controller that prints what a terminal obeys, renames and a crash of the system."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import bentpipe
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Run, build_plan
from bentpipe.runners import engine
from bentpipe.runners.local import Idle, LocalRunner
from bentpipe.runners.runner import RunnerError
from bentpipe.store import files

ROOT = Path(__file__).parents[2]
SMALL = """
title = "Small"
duration = "1 s"
seeds = 3
[[path.segment]]
name = "satellite"
delay = "50 ms"
both = { rate = "2 Mbit/s", loss = "1 %" }
[[flow]]
name = "any"
congestion = "cubic"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("machine")
    (made / "small.toml").write_text(SMALL)
    bentpipe.run(made / "small.toml", jobs=1, out=made / "store")
    return made


def command(folder: Path, *words: str, space: int = 0) -> subprocess.CompletedProcess[str]:
    """A command that may have ``space`` bytes of address space."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if space:
            resource.setrlimit(resource.RLIMIT_AS, (space, space))

    environment = {name: text for name, text in os.environ.items() if name != "POLARS_MAX_THREADS"}
    return subprocess.run(
        [sys.executable, "-m", "bentpipe.cli", *words], cwd=folder, preexec_fn=bound, timeout=120, check=False,
        env=environment | {"PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("space", [400_000_000, 1_000_000_000, 1_990_000_000])
@pytest.mark.parametrize(
    "words", [["run", "small.toml", "--out"], ["show", "store"], ["report", "store", "-o"]]
)
def test_little_address_space_is_one_line(folder: Path, tmp_path: Path, words: list[str], space: int) -> None:
    """``run`` tried each run twice, with thousands of lines, and ``show`` aborted."""
    more = [] if words[0] == "show" else [str(tmp_path / "new")]
    done = command(folder, *words, *more, space=space)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"found {space / 1e9:.2f} GB of address space (ulimit -v), expected at least 2 GB" in done.stderr


def test_enough_of_it_is_enough(folder: Path, tmp_path: Path) -> None:
    for words in (["run", "small.toml", "--jobs", "2", "--out", str(tmp_path / "new")], ["show", "store"]):
        done = command(folder, *words, space=2_000_000_000)
        assert (done.returncode, done.stderr) == (0, ""), words


def runs(folder: Path) -> Sequence[Run]:
    return build_plan(load_scenario(folder / "small.toml"), engine.version()).runs


def test_a_worker_that_does_not_start_is_reported_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(
        RunnerError, match=r"cannot start a worker process: exit status 1, before its first run"
    ):
        list(LocalRunner(2, idle=Idle()).run(runs(folder)))


def test_a_load_error_of_a_worker_is_reported_once(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken_here.py").write_text('raise SystemExit("not\\x1b[31m here")\n')
    runner = LocalRunner(2, {"mine": "broken_here:Mine"})
    runner.setup["search"] = [str(tmp_path)]
    with pytest.raises(RunnerError, match=r"cannot start a worker process: SystemExit: not\x1b\[31m here"):
        list(runner.run(runs(folder)))


PRINTS = """
import ctypes
import os
import subprocess
import sys


class Mine:
    def __init__(self, *_, **__):
        print("a title\\x1b]0;owned\\x07 and\\u202e back\\ttab")
        print("colour\\x1b[31m", file=sys.stderr)
        sys.stdout.buffer.write(b"bytes\\x1b[32m\\n")
        sys.stdout.flush()
        os.write(1, b"output\\x1b[33m\\n")
        os.write(2, b"error\\x1b[34m and\\x9b35m \\xe2\\x80")
        os.write(2, b"\\xae \\xc3\\xa4\\n")
        ctypes.CDLL(None).dprintf(2, b"of C\\x1b[36m\\n")
        subprocess.run(["printf", "of a process\\x1b[37m\\n"], check=True)

    def on_event(self, *_):
        raise ValueError("broken\\x1b[2J\\x9b31m")
"""


def test_output_of_a_controller_reaches_the_terminal_without_control_characters(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "loud.py").write_text(PRINTS)
    words = [
        "--controller",
        f"mine={tmp_path}/loud.py:Mine",
        "--set",
        "flow.any.congestion=mine",
        "--jobs",
        "1",
    ]
    done = command(folder, "run", "small.toml", *words, "--out", str(tmp_path / "store"))
    assert done.returncode == 1
    for text in (
        r"a title\x1b]0;owned\x07 and\u202e back	tab",
        r"colour\x1b[31m",
        r"bytes\x1b[32m",
        r"output\x1b[33m",
        r"error\x1b[34m and\x9b35m \u202e ä",
        r"of C\x1b[36m",
        r"of a process\x1b[37m",
        r"broken\x1b[2J\x9b31m",
    ):
        assert text in done.stderr, done.stderr
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(done.stdout + done.stderr)


ENDS = """
import os
import subprocess


class Mine:
    def __init__(self, *_, **__):
        os.write(2, b"last words of {kind}\\n")
        if "{kind}" == "one with a child":
            subprocess.Popen(["sleep", "600"])
        os._exit(3)

    def on_event(self, *_):
        return 100_000
"""


@pytest.mark.parametrize("kind", ["one alone", "one with a child"])
def test_the_last_output_of_a_worker_is_reported(folder: Path, tmp_path: Path, kind: str) -> None:
    """They come before the command ends, which a process of the controller's does not delay."""
    (tmp_path / "ending.py").write_text(ENDS.replace("{kind}", kind))
    own = ["--controller", f"mine={tmp_path}/ending.py:Mine", "--set", "flow.any.congestion=mine"]
    done = command(
        folder, "run", "small.toml", *own, "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "s")
    )
    assert done.returncode == 1
    assert done.stderr.count(f"last words of {kind}\n") == 2, done.stderr
    assert "the worker process died twice in this run: exit status 3" in done.stderr


FLOODS = """
import os


class Mine:
    def __init__(self, *_, **__):
        for _ in range(200):
            os.write(2, b"x" * 9_999 + b"\\n")

    def on_event(self, *_):
        return 100_000
"""


def test_a_worker_that_writes_much_does_not_wait(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "flooding.py").write_text(FLOODS)
    own = ["--controller", f"mine={tmp_path}/flooding.py:Mine", "--set", "flow.any.congestion=mine"]
    done = command(
        folder, "run", "small.toml", *own, "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "s")
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stderr.count("x" * 9_999 + "\n") >= 200


# --- renames ---


class Disk:
    """Names that a folder has after a crash: those of its last fsync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, str]] = []
        rename, fsync = Path.rename, os.fsync

        def renamed(path: Path, target: Path) -> Path:
            self.steps.append(("rename", str(target)))
            return rename(path, target)

        def synced(descriptor: int) -> None:
            self.steps.append(("fsync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
            fsync(descriptor)

        monkeypatch.setattr(Path, "rename", renamed)
        monkeypatch.setattr(os, "fsync", synced)

    def after(self, target: Path) -> list[tuple[str, str]]:
        """Return the calls after the rename to ``target``."""
        return self.steps[self.steps.index(("rename", str(target))) + 1 :]


@pytest.mark.parametrize("kind", ["whole", "folder"])
def test_a_rename_is_on_the_disk_before_it_is_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "runs").mkdir()
    disk = Disk(monkeypatch)
    if kind == "whole":
        files.write_atomic(tmp_path / "page.html", b"text")
        target = tmp_path / "page.html"
        assert disk.steps[0] == ("fsync", str(tmp_path / ".new-page.html"))
    else:
        files.write_directory_atomic(tmp_path, "runs/a", {"one": b"1"})
        target = tmp_path / "runs" / "a"
    assert disk.after(target)[0] == ("fsync", str(target.parent))


def test_a_folder_that_cannot_be_synchronised_does_not_lose_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems refuse it (EINVAL); a disk that fails is an error."""
    import errno

    def refuse(number: int) -> Any:
        fsync = os.fsync

        def tried(descriptor: int) -> None:
            if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
                raise OSError(number, os.strerror(number))
            fsync(descriptor)

        return tried

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse(errno.EINVAL))
        files.write_atomic(tmp_path / "one", b"text")
        assert (tmp_path / "one").read_bytes() == b"text"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            files.write_atomic(tmp_path / "two", b"text")
