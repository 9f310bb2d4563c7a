"""``bentpipe watch``: a running shell's path over time, and the steps of its keys."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import realtime
from bentpipe.cli.watch import draw_bars, draw_slider
from bentpipe.lab import monitor
from bentpipe.lab.access import resolve_path
from bentpipe.lab.control import LinkState, PathState, get_path
from bentpipe.lab.monitor import PathMonitor, step
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Duration, Rate


def line(rate: int | None = 5_000_000, delay: int | None = 40_000_000, loss: float | None = 0.0) -> LinkState:
    return LinkState(
        "sky.up", None if rate is None else Rate(rate), None if delay is None else Duration(delay), loss, ()
    )


@pytest.mark.parametrize(
    ("of", "kind", "up", "words"),
    [
        (line(), "rate", True, "sky.up.rate=6250 kbit/s"),
        (line(), "rate", False, "sky.up.rate=4000 kbit/s"),
        (line(rate=1_234_567_890), "rate", True, "sky.up.rate=1540000 kbit/s"),
        (line(rate=1000), "rate", False, None),
        (line(rate=None), "rate", True, None),
        (line(), "delay", True, "sky.up.delay=50 ms"),
        (line(delay=1_000_000), "delay", False, "sky.up.delay=0 ms"),
        (line(delay=0), "delay", True, "sky.up.delay=1 ms"),
        (line(delay=0), "delay", False, None),
        (line(delay=None), "delay", True, None),
        (line(), "loss", True, "sky.up.loss=0.1 %"),
        (line(loss=0.013), "loss", False, "sky.up.loss=1 %"),
        (line(loss=1.0), "loss", True, None),
        (line(loss=0.0), "loss", False, None),
        (line(loss=None), "loss", True, "sky.up.loss=0.1 %"),
    ],
)
def test_a_step(of: LinkState, kind: str, up: bool, words: str | None) -> None:
    assert step(of, kind, up=up) == words


def test_rates_and_drops_between_looks() -> None:
    """Rows follow the instants at which the emulator updated its counters; a read without an update adds nothing."""
    watched = PathMonitor(max_samples=2)
    for ns, size, dropped in ((0, 0, 0), (500_000_000, 125_000, 1), (500_000_000, 125_000, 1),
                              (10**9, 125_000, 4), (2 * 10**9, 375_000, 4)):  # fmt: skip
        way = {"time_ns": ns, "bytes_out": size, "queued_bytes": 7, "dropped": {"loss": dropped, "aqm": 0}}
        watched.add(PathState(ns / 1e9, (line(),), ({"name": "sky", "up": way, "down": way},)))
    saved = watched.series["sky.up"]
    assert [(one.at_s, one.rate_bit_s, one.dropped) for one in saved] == [(1.0, 0.0, 3), (2.0, 2e6, 0)]
    assert watched.dropped == {"sky.up": 4, "sky.down": 4}


def test_drawn_marks() -> None:
    assert draw_bars([9, 0, 1, 2, 4], 4).strip() == "▂▄█"
    assert draw_bars([0, 0], 4).strip() == ""
    middle = draw_slider(line(), line(), "rate").index("●")
    assert middle == len(draw_slider(line(), line(), "rate")) // 2
    assert draw_slider(line(rate=500_000), line(), "rate").index("●") == 0
    assert draw_slider(line(loss=1.0), line(), "loss").endswith("●")
    assert draw_slider(line(rate=None), line(rate=None), "rate") == ""


def test_which_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The one that answers; folders of those that were killed do not."""
    monkeypatch.setattr(monitor.tempfile, "gettempdir", lambda: str(tmp_path))
    with pytest.raises(ScenarioError, match="no shell is running"):
        monitor.find_control_socket()
    for name in ("a", "b", "c"):
        (tmp_path / f"bentpipe-control-{name}").mkdir()
        (tmp_path / f"bentpipe-control-{name}" / "socket").touch()
    lives = {"b"}

    def get_path_of(*, control: str) -> None:
        if Path(control).parent.name[-1] not in lives:
            raise ScenarioError([("", "no lab answers")])

    monkeypatch.setattr(monitor, "get_path", get_path_of)
    assert monitor.find_control_socket().endswith("control-b/socket")
    lives.add("c")
    with pytest.raises(ScenarioError, match=r"several shells run; expected one of: .*-b/socket, .*-c/socket"):
        monitor.find_control_socket()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    realtime.need_namespaces()
    control = tmp_path / "control"
    path, proxies = resolve_path("lte-4g")
    plan = {"lab": path, "proxies": proxies, "control": str(control), "server_namespace": True,
            "commands": [{"name": "wait", "command": ["sh", "-c", "read _"]}]}  # fmt: skip
    (tmp_path / "plan").write_text(json.dumps(plan))
    with subprocess.Popen([realtime.program(), "lab", tmp_path / "plan"], stdin=subprocess.PIPE) as process:
        try:
            for _ in range(1000):
                if control.exists():
                    break
                time.sleep(0.01)
            yield process, str(control)
        finally:
            process.communicate(b"\n", timeout=20)


@pytest.mark.lab
def test_keys_change_the_path_and_put_it_back(session: tuple[subprocess.Popen[bytes], str]) -> None:
    _, control = session
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bentpipe.cli", "watch", "--control", control]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    message = ""

    def until(words: str, seconds: float = 20) -> None:
        nonlocal message
        end = time.monotonic() + seconds
        while not re.search(words, message):
            assert time.monotonic() < end, message
            if select.select([ours], [], [], 0.1)[0]:
                message += os.read(ours, 1 << 16).decode(errors="replace")

    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as watch:
        try:
            until(r"(?s)lte\.up.*lte\.down")
            os.write(ours, b"\x1b[C")
            until(r"lte\.up: rate 3120 kbit/s, was 2500 kbit/s|lte\.up: rate 3\.12 Mbit/s, was 2\.5 Mbit/s")
            assert get_path(control=control).lines[0].rate == Rate(3_120_000)
            os.write(ours, b"u")
            until(r"lte\.up: rate 2\.5 Mbit/s, was 3|lte\.up: rate 2500 kbit/s, was 3")
            assert get_path(control=control).lines[0].rate == Rate(2_500_000)
            os.write(ours, b"q")
            until("the shell still runs")
            assert watch.wait(10) == 0
        finally:
            watch.kill()
    os.close(ours)
    os.close(theirs)


@pytest.mark.lab
def test_it_ends_with_the_session(session: tuple[subprocess.Popen[bytes], str]) -> None:
    process, control = session
    command = [sys.executable, "-m", "bentpipe.cli", "watch", "--control", control]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        assert re.fullmatch(
            r"\d+\.\d s lte\.up: \d+\.\d\d Mbit/s, queue \d+ kB, dropped \d+\n", watch.stdout.readline()
        )
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        watch.communicate(timeout=20)
    assert watch.returncode == 0
