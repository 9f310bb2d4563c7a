"""A lab ends with its starter, and with each of its processes: nothing remains (see lab_kills.py)."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lab_kills
import realtime
from nightly import keep

AT_A_TIME = 4


@pytest.fixture(scope="module")
def program() -> Path:
    realtime.need_root("a machine of its own")
    realtime.need_namespaces("nft", "nsenter", "setpriv")
    return realtime.program()


def _carry_out(draws: Sequence[lab_kills.Draw], program: Path) -> None:
    with ThreadPoolExecutor(AT_A_TIME) as trials:
        for found in trials.map(lambda one: lab_kills.trial(one, program), draws):
            if found.wrong:  # whole, where an assertion would say the beginning and the end
                pytest.fail(found.wrong)
            assert found.target == found.draw.target or found.draw.stage == "ending", found


@pytest.mark.lab
@pytest.mark.parametrize("form", keep(["emu"], ["shell", "emu"]))
def test_the_end_of_the_starter(program: Path, form: str) -> None:
    """Killed, terminated and hung up: while the path is measured, and while the commands run."""
    ends = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
    draws = [
        lab_kills.Draw(1, form, stage, lab_kills.STARTER, how, 0.2)
        for stage in ("check", "running")
        for how in ends
    ]
    _carry_out(draws, program)


@pytest.mark.nightly
@pytest.mark.lab
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_kills_at_drawn_moments(program: Path, user: str) -> None:
    """Kills of any process, at any stage. ``scripts/hard-use`` draws more."""
    _carry_out([lab_kills.draw(seed, user=user) for seed in range(1, 9)], program)


@pytest.mark.lab
@pytest.mark.parametrize("form", lab_kills.FORMS)
def test_a_kill_of_nothing_is_none(program: Path, form: str) -> None:
    """A lab that never begins is no lab that has ended."""
    missing = lab_kills.trial(
        lab_kills.Draw(1, form, "setup", "lab", signal.SIGKILL, 0.0), Path("/no/such/bentpipe-rt")
    )
    assert (missing.began, missing.seen, missing.target, missing.left) == (False, False, "", [])
    assert "no lab ever began" in missing.wrong
    assert not missing.counts()


@pytest.mark.nightly
@pytest.mark.lab
def test_the_end_of_page_loads(program: Path) -> None:
    """A browser's own folders too."""
    realtime.need("chromium")
    draws = [
        lab_kills.Draw(seed, "browse", "running", target, signal.SIGKILL, 0.5 * seed)
        for seed, target in enumerate((lab_kills.STARTER, "lab", "keep"), 2)
    ]
    _carry_out(draws, program)


@pytest.mark.lab
@pytest.mark.parametrize("to", ["terminal", "process"])
def test_ctrl_c_while_a_lab_is_set_up(program: Path, tmp_path: Path, to: str) -> None:
    """It is obeyed: the command never begins."""
    (tmp_path / "path.toml").write_text(lab_kills.PATH)

    def judge(_: int) -> list[object]:
        status, message = _interrupted(program, tmp_path, to)
        if b"begun" in message or b"measured RTT" in message:
            return [message]  # it was set up by then
        assert (status, re.sub(rb"\^C|bentpipe: measuring the path first.*\r\n", b"", message)) == (130, b"")
        return []

    realtime.tried(judge)


def _interrupted(program: Path, tmp_path: Path, to: str) -> tuple[int, bytes]:
    """Return exit status and output of a shell with Ctrl-C 0.8 s after the creation of its folder."""
    ours, theirs = pty.openpty()
    command = [*lab_kills.CLI, "shell", "path.toml", "--", "sh", "-c", "echo begun"]
    environment = {**os.environ, "BENTPIPE_RT": str(program), "PYTHONPATH": str(lab_kills.ROOT / "python"),
                   "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", _IN_FRONT, *command], stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path,
        env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        until = time.monotonic() + 30
        while not list(tmp_path.glob("bentpipe-control-*")) and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(0.8)
        if to == "terminal":
            os.write(ours, b"\x03")
        else:
            process.send_signal(signal.SIGINT)
        status = process.wait(60)
        message = b""
        while select.select([ours], [], [], 0.1)[0]:
            try:
                message += os.read(ours, 4096)
            except OSError:  # no process has the other end
                break
    os.close(ours)
    assert not list(tmp_path.glob("bentpipe-*"))
    return status, message


_IN_FRONT = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal this session's."""
