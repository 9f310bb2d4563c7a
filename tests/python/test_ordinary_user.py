"""What an ordinary user gets: splitting proxies behind a shell, and a page in a browser."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import realtime

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
"""Nobody is there: a proxy that answers early takes the connection all the same."""


@pytest.mark.system
def test_a_shell_with_a_proxy() -> None:
    """`nft` lies in /usr/sbin, which is not in an ordinary user's search path."""
    realtime.need_namespaces("nft", "setpriv")
    with realtime.nobody(realtime.program()) as (place, words):
        (place / "path.toml").write_text(PATH)
        command = ["shell", "path.toml", "--pep", "early", "--no-check", "--", sys.executable, "-c", SPLIT]
        done = subprocess.run(
            [*words, sys.executable, "-m", "bentpipe.cli", *command],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) >= 0.040
        assert not realtime.running(str(place))


FETCH = """
import os, urllib.request
print(urllib.request.urlopen(f"http://{os.environ['BENTPIPE_FAR']}:PORT/", timeout=10).read().decode())
"""


@pytest.mark.system
@pytest.mark.parametrize("pep", [(), ("--pep", "early")])
def test_a_way_outside(pep: tuple[str, ...], tmp_path: Path) -> None:
    """The machine's own server, which listens on its loopback alone, answers at the far end's address; what leads there
    has ended with the shell."""
    realtime.need_namespaces("nft", "setpriv", "slirp4netns")
    (tmp_path / "index.html").write_text("from the machine")
    with _serving(tmp_path) as port, realtime.nobody(realtime.program()) as (place, words):
        (place / "path.toml").write_text(PATH)
        command = ["shell", "path.toml", *pep, "--no-check", "--", sys.executable, "-c",
                   FETCH.replace("PORT", port)]  # fmt: skip
        done = subprocess.run(
            [*words, sys.executable, "-m", "bentpipe.cli", *command],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "from the machine"
        assert not realtime.running("--exit-fd=0")
        assert not realtime.running(str(place))


@pytest.mark.system
def test_a_page_in_a_browser() -> None:
    realtime.need_namespaces("chromium", "setpriv")
    with realtime.nobody(realtime.program()) as (place, words):
        _need_browser(place, words)
        (place / "path.toml").write_text(PATH)
        command = ["browse", "path.toml", "--units", "1", "--loads", "1", "--http", "3", "--no-check", "--keep-late",
                   "--out", "store", "--json"]  # fmt: skip
        done = subprocess.run(
            [*words, sys.executable, "-m", "bentpipe.cli", *command],
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert [row["came by"] for row in json.loads(done.stdout)["loads"]] == ["h3"]
        unit = json.loads(next(Path(place).glob("store/runs/*/unit.json")).read_text())
        assert unit["lab"]["statuses"]["browser"] == 0
        assert not realtime.running(str(place))


@pytest.mark.system
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
        said = json.loads(done.stdout)
        assert [one["status"] for one in said["requests"]] == [200]
        assert said["marks_ms"]["first byte"] >= 2 * 40, "TCP's handshake and the request"
        assert (place / "site" / "page.html").stat().st_uid == 65534
        assert not realtime.running(str(place))
        assert not list(place.glob("bp-*"))


@contextlib.contextmanager
def _serving(folder: Path) -> Iterator[str]:
    """The port of a server of ``folder`` that listens on the machine's loopback alone."""
    command = [
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "--bind",
        "127.0.0.1",
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
