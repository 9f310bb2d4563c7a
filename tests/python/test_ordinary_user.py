"""Features for an ordinary user: splitting proxies behind a shell, and a page in a browser."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import realtime
from nightly import keep

PATH = """
duration = "30 s"
[[path.segment]]
name = "access"
delay = "20 ms"
both = { rate = "50 Mbit/s" }
[[flow]]
name = "browser"
congestion = "cubic"
load = { page = "target-b" }
"""

SPLIT = """
import socket, time
began = time.monotonic()
socket.create_connection(("192.0.2.1", 9), timeout=5).close()
print(time.monotonic() - began)
"""
"""No server listens: a proxy that answers early accepts the connection all the same."""


@pytest.mark.lab
def test_a_shell_with_a_proxy() -> None:
    """`nft` lies in /usr/sbin, which is not in an ordinary user's search path."""
    realtime.need_namespaces("nft", "setpriv")
    with realtime.nobody(realtime.program()) as (place, words):
        (place / "path.toml").write_text(PATH)
        command = [
            "shell",
            "path.toml",
            "--pep",
            "early",
            "--no-path-check",
            "--",
            sys.executable,
            "-c",
            SPLIT,
        ]
        done = subprocess.run(
            [*words, sys.executable, "-m", "bentpipe.cli", *command],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) >= 0.040
        assert not realtime.running(str(place))


FETCH = """
import os, urllib.request
for host in HOSTS:
    url = f"http://{os.environ[host]}:PORT/" if host.endswith("R") else f"http://[{os.environ[host]}]:PORT/"
    print(urllib.request.urlopen(url, timeout=10).read().decode())
"""

TOOLS = {"pasta": ("127.0.0.1", "::1"), "slirp4netns": ("127.0.0.1",)}
"""Programs of the external network, and the addresses at which servers of the host's loopback are reachable."""

FAR = {"127.0.0.1": "BENTPIPE_SERVER", "::1": "BENTPIPE_SERVER6"}


@pytest.mark.lab
@pytest.mark.parametrize("pep", keep([()], [(), ("--pep", "early")]))
@pytest.mark.parametrize("tool", TOOLS)
def test_a_way_outside(tool: str, pep: tuple[str, ...], tmp_path: Path) -> None:
    """The machine's own servers, which listen on its loopback alone, answer at the far end's addresses; what leads there
    has ended with the shell."""
    realtime.need_namespaces("nft", "setpriv", *TOOLS)
    (tmp_path / "index.html").write_text("from the machine")
    others = [name for name in TOOLS if name != tool]
    for listens in TOOLS[tool]:
        with (
            _serving(tmp_path, listens) as port,
            realtime.nobody(realtime.program(), others) as (place, words),
        ):
            (place / "path.toml").write_text(PATH)
            fetch = FETCH.replace("HOSTS", repr([FAR[listens]])).replace("PORT", port)
            command = ["shell", "path.toml", *pep, "--no-path-check", "--", sys.executable, "-c", fetch]
            done = subprocess.run(
                [*words, sys.executable, "-m", "bentpipe.cli", *command],
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip() == "from the machine"
            assert not _lines(place)


def _led(place: Path) -> list[str]:
    """Programs of the external network for shells from ``place``, their home."""
    return [line.split("\0")[0] for line in _lines(place).values() if line.split("\0")[0] in TOOLS]


FAR_PATH = """
[[path.segment]]
name = "sky"
delay = "300 ms"
both = { rate = "20 Mbit/s" }
"""

DOWNLOAD = """
import os, subprocess, time, urllib.request
began = time.monotonic()
content = urllib.request.urlopen(f"http://{os.environ['BENTPIPE_SERVER']}:PORT/file", timeout=60).read()
print(len(content), time.monotonic() - began)
"""


@pytest.mark.lab
@pytest.mark.parametrize("tool", keep(["pasta"], TOOLS))
def test_the_kernels_tcp_crosses_the_path(tool: str, tmp_path: Path) -> None:
    """A window of 64 kB per round trip of 600 ms would take 27 s for 3 MB.

    The path carries them in 1.2 s, and in seven round trips with a handshake and slow start from 10 packets. No sender
    repeats packets that the path drops again.
    """
    realtime.need_namespaces("nft", "setpriv", *TOOLS)
    (tmp_path / "file").write_bytes(bytes(3_000_000))
    others = [name for name in TOOLS if name != tool]
    with _serving(tmp_path) as port, realtime.nobody(realtime.program(), others) as (place, words):
        (place / "sky.toml").write_text(FAR_PATH)
        command = ["shell", "sky.toml", "--no-path-check", "--record", "kept", "--", sys.executable, "-c"]
        done = subprocess.run(
            [*words, sys.executable, "-m", "bentpipe.cli", *command, DOWNLOAD.replace("PORT", port)],
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        length, seconds = done.stdout.split()
        assert int(length) == 3_000_000
        assert 1.2 + 2 * 0.6 < float(seconds) < 27.4 / 2
        constellation, _ = json.loads((place / "kept/result.json").read_text())["links"]
        assert constellation["name"] == "sky"
        assert constellation["down"]["bytes_out"] < 2 * 3_000_000


WAITS = """
import pathlib, time
pathlib.Path("inside").touch()
time.sleep(60)
"""


@pytest.mark.lab
@pytest.mark.parametrize("killed", keep(["bentpipe"], ["bentpipe", "lab", "helper"]))
@pytest.mark.parametrize("tool", TOOLS)
def test_a_killed_shell_leaves_no_way_outside(tool: str, killed: str) -> None:
    """`kill -9` of whoever started the shell, of the lab, or of the way itself: nothing is left once the shell is over."""
    realtime.need_namespaces("nft", "setpriv", *TOOLS)
    others = [name for name in TOOLS if name != tool]
    with realtime.nobody(realtime.program(), others) as (place, words):
        (place / "path.toml").write_text(PATH)
        command = ["shell", "path.toml", "--no-path-check", "--", sys.executable, "-c", WAITS]
        with subprocess.Popen([*words, sys.executable, "-m", "bentpipe.cli", *command]) as shell:
            assert _within(30, (place / "inside").exists), shell.poll()
            assert _led(place) == [tool]
            starts = {"lab": f"{place}/rt\0lab", "helper": f"{tool}\0"}
            number = {
                at: line for at, line in _lines(place).items() if line.startswith(starts.get(killed, "-"))
            }
            os.kill(next(iter(number), shell.pid), signal.SIGKILL)
            if killed == "helper":
                assert _within(10, lambda: not _led(place))
                assert shell.poll() is None, "a shell goes on without its way"
                shell.kill()
            shell.wait(30)
            assert _within(30, lambda: not _lines(place)), _lines(place)


@pytest.mark.lab
def test_why_there_is_no_way_outside() -> None:
    """The program of the external network reports its error; the command runs without it."""
    realtime.need_namespaces("nft", "setpriv", *TOOLS)
    command = [sys.executable, "-m", "bentpipe.cli", "shell", "path.toml", "--no-path-check"]
    with realtime.nobody(realtime.program(), [*TOOLS]) as (place, words):
        (place / "path.toml").write_text(PATH)
        done = subprocess.run(
            [*words, *command, "--", "true"], capture_output=True, text=True, timeout=60, check=False
        )
        message = "neither pasta nor slirp4netns is installed (Debian: passt, or slirp4netns)"
        assert (done.returncode, done.stderr) == (
            0,
            f"bentpipe: the lab has no uplink: {message}\n",
        )
        (place / "bin").mkdir()
        (place / "bin/pasta").write_text("#!/bin/sh\necho first >&2\necho 'so it is' >&2\nexit 1\n")
        (place / "bin/pasta").chmod(0o755)
        done = subprocess.run(
            [*words, "env", f"PATH={place}/bin:/usr/bin:/bin", *command, "--", "true"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        message = "pasta opened no uplink (first; so it is); use --isolated to run without an uplink"
        assert (done.returncode, done.stderr) == (2, f"bentpipe: {message}\n")
        assert not realtime.running(str(place))


def _lines(home: Path) -> dict[int, str]:
    """Command lines of the processes of this home, by number."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_text()
            if line and f"\0HOME={home}\0".encode() in b"\0" + (entry / "environ").read_bytes():
                found[int(entry.name)] = line
    return found


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Return whether the condition holds before this time has passed."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.nightly
@pytest.mark.lab
def test_a_page_in_a_browser() -> None:
    realtime.need_namespaces("chromium", "setpriv")
    with realtime.nobody(realtime.program()) as (place, words):
        _need_browser(place, words)
        (place / "path.toml").write_text(PATH)
        command = ["browse", "path.toml", "--sessions", "1", "--loads", "1", "--http", "3", "--no-path-check", "--keep-invalid",
                   "--out", "store", "--json"]  # fmt: skip
        done = subprocess.run(
            [*words, sys.executable, "-m", "bentpipe.cli", *command],
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert [row["negotiated protocol"] for row in json.loads(done.stdout)["loads"]] == ["h3"]
        unit = json.loads(next(Path(place).glob("store/runs/*/unit.json")).read_text())
        assert unit["lab"]["statuses"]["browser"] == 0
        assert not realtime.running(str(place))


@pytest.mark.lab
def test_a_site_of_the_machine_in_a_browser(tmp_path: Path) -> None:
    """The site listens on the machine's loopback alone."""
    realtime.need_namespaces("chromium", "nft", "setpriv", "slirp4netns")
    (tmp_path / "index.html").write_text(
        "<!doctype html><link rel=icon href=data:,><h1>from the machine</h1>"
    )
    with _serving(tmp_path) as port, realtime.nobody(realtime.program()) as (place, words):
        _need_browser(place, words)
        (place / "path.toml").write_text(PATH)
        command = ["browse", f"http://localhost:{port}/", "--access", "path.toml", "--out", "site", "--json"]
        done = subprocess.run(
            [*words, sys.executable, "-m", "bentpipe.cli", *command],
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        message = json.loads(done.stdout)
        assert [one["status"] for one in message["requests"]] == [200]
        assert message["marks_ms"]["first byte"] >= 2 * 40, "TCP's handshake and the request"
        assert (place / "site" / "page.html").stat().st_uid == 65534
        assert not realtime.running(str(place))
        assert not list(place.glob("bp-*"))


@contextlib.contextmanager
def _serving(folder: Path, address: str = "127.0.0.1") -> Iterator[str]:
    """The port of a server of ``folder`` that listens on the machine's loopback alone."""
    command = [
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "--bind",
        address,
        "--directory",
        str(folder),
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[5]
        finally:
            server.terminate()


def _need_browser(place: Path, words: list[str]) -> None:
    look = ["chromium", "--headless", "--no-first-run", "--disable-gpu", "--dump-dom", "about:blank"]
    tried = subprocess.run(
        [*words, *look, f"--user-data-dir={place}/try"], capture_output=True, timeout=60, check=False
    )
    if tried.returncode != 0:
        pytest.skip("Chromium does not run as nobody")
