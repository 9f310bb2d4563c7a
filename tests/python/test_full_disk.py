"""A full disk for output and stores: one message, no traceback, no silent loss."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import realtime
from bentpipe.lab.access import lab
from bentpipe.lab.free_port import free_port

ROOT = Path(__file__).parents[2]
FULL = Path("/dev/full")
GEO = str(ROOT / "scenarios" / "geo.toml")
SHORT = """
duration = "1 s"
[[path.segment]]
name = "link"
delay = "5 ms"
both = { rate = "10 Mbit/s" }
[[flow]]
name = "any"
congestion = "cubic"
"""


@pytest.fixture(scope="module")
def program() -> Path:
    return realtime.program()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    (folder / "short.toml").write_text(SHORT)
    done = _bentpipe(
        "run", str(folder / "short.toml"), "--seeds", "1", "--jobs", "1", "--out", str(folder / "out")
    )
    assert done.returncode == 0, done.stderr
    return folder / "out"


def _bentpipe(*words: str, full: str = "", closed: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
    """A command of bentpipe's with one of ``stdout`` and ``stderr`` full or closed."""
    command = [sys.executable, "-m", "bentpipe.cli", *words]
    if closed:
        command = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *command]
    return _run(command, full, PYTHONPATH=str(ROOT / "python"), **more)


def _run(
    command: Sequence[str], full: str = "", timeout: float = 30, **variables: str
) -> subprocess.CompletedProcess[str]:
    with FULL.open("wb") as sink:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if full:
            streams[full] = sink
        environment = os.environ | variables
        return subprocess.run(command, env=environment, text=True, timeout=timeout, check=False, **streams)


def _one_line(text: str, *words: str) -> None:
    assert text.count("\n") == 1, text
    for word in words:
        assert word in text


@pytest.mark.parametrize("words", [["check", GEO], ["presets", "--json"], ["--help"], ["show", "STORE"]])
def test_a_result_that_cannot_be_printed_is_reported_once(store: Path, words: list[str]) -> None:
    words = [str(store) if word == "STORE" else word for word in words]
    done = _bentpipe(*words, full="stdout")
    assert done.returncode == 2
    _one_line(done.stderr, "error: standard output: No space left on device")
    done = _bentpipe(*words, closed="1")
    assert done.returncode == 2
    _one_line(done.stderr, "error: standard output: Bad file descriptor")


def test_a_message_that_cannot_be_printed_changes_no_exit_status(store: Path) -> None:
    for words, status in ((["check", "nowhere.toml"], 2), (["check", "--nonsense"], 2), (["check", GEO], 0)):
        for broken in ({"full": "stderr"}, {"closed": "2"}):
            done = _bentpipe(*words, **broken)
            assert done.returncode == status
            assert "error" not in done.stdout
            assert bool(done.stdout) == (status == 0)
    assert (
        _bentpipe("run", str(store.parent / "short.toml"), "--out", str(store), full="stderr").returncode == 0
    )


@pytest.mark.parametrize("form", ["lab", "perf", "serve", "pep"])
def test_the_executable_keeps_its_status_without_messages(program: Path, form: str) -> None:
    """A panic would be status 101."""
    assert _run([str(program), form, "/nowhere"], "stderr").returncode == 2


@pytest.mark.parametrize("form", ["perf", "serve"])
def test_results_of_the_executable_that_cannot_be_printed(program: Path, tmp_path: Path, form: str) -> None:
    if form == "perf":
        done = _perf(program, "server", "--listen", "127.0.0.1:0", full="stdout")
    else:
        (tmp_path / "index.html").write_text("<p>")
        command = ["serve", str(tmp_path), "--listen", f"127.0.0.1:{free_port()}"]
        done = _bentpipe(*command, full="stdout", BENTPIPE_RT=str(program))
    assert done.returncode == 2
    _one_line(done.stderr, "error: standard output: No space left on device")


@pytest.mark.live
@pytest.mark.parametrize("transport", ["quic", "tcp"])
def test_a_client_without_a_screen_lets_its_server_go(program: Path, transport: str) -> None:
    with _server(program) as (address, server):
        words = ["client", address, "--transport", transport, "--time", "2s", "--interval", "0.1s"]
        done = _perf(program, *words, full="stdout")
        assert done.returncode == 2
        _one_line(done.stderr, "error: standard output: No space left on device")
        assert server.wait(5) == 0


@pytest.mark.lab
def test_a_lab_without_messages_is_a_lab(program: Path, tmp_path: Path) -> None:
    realtime.need_namespaces()
    (tmp_path / "short.toml").write_text(SHORT)
    plan, result = tmp_path / "lab.plan", tmp_path / "result.json"
    near = [{"name": "command", "command": ["sh", "-c", "sleep 1.2; exit 7"]}]
    words = {"lab": lab(str(tmp_path / "short.toml")), "commands": near, "server_namespace": True, "check": True, "has_status_display": True,
             "result": str(result)}  # fmt: skip
    plan.write_text(json.dumps(words))
    assert _run([str(program), "lab", str(plan)], "stderr").returncode == 7
    assert json.loads(result.read_text())["statuses"] == {"command": 7}
    near[0]["command"] = ["/nowhere/at/all"]
    plan.write_text(json.dumps(words | {"check": False}))
    assert _run([str(program), "lab", str(plan)], "stderr").returncode == 127


@pytest.mark.parametrize("option", ["--csv", "--json-stream"])
def test_a_file_that_takes_nothing_is_refused_before_anything_is_measured(program: Path, option: str) -> None:
    done = _perf(program, "client", "127.0.0.1:9", "--time", "1s", option, str(FULL))
    assert (done.returncode, done.stdout) == (2, "")
    _one_line(done.stderr, f"error: {option[2:]}: /dev/full: No space left on device")


@pytest.mark.live
@pytest.mark.parametrize(
    ("option", "transport"),
    [
        ("--csv", "quic"),
        ("--csv", "tcp"),
        ("--json-stream", "quic"),
        ("--json-stream", "tcp"),
        ("--qlog", "quic"),
    ],
)
def test_a_disk_that_fills_while_it_measures(
    program: Path, tmp_path: Path, option: str, transport: str
) -> None:
    """The file ends with a complete line, the other files and the summary are complete, and the status reports the error."""
    realtime.need_namespaces("mount")
    disk, saved, whole = tmp_path / "disk", tmp_path / "kept", tmp_path / "whole"
    disk.mkdir()
    saved.mkdir()
    other = "--csv" if option == "--json-stream" else "--json-stream"
    words = ["client", "ADDRESS", "--transport", transport, "--time", "3s", option, str(disk / "file"), other,
             str(whole), "--csv-interval", "2ms", "--json-stream-interval", "2ms"]  # fmt: skip
    flags = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = (
        f'mount -t tmpfs -o size=32k none {disk} && "$@"; status=$?; cp -r {disk}/file {saved}; exit $status'
    )
    with _server(program) as (address, server):
        words[1] = address
        done = _perf(program, *words, before=["unshare", *flags, "--mount", "sh", "-c", script, "sh"])
        assert server.wait(30) == 0
    assert done.returncode == 2, done.stderr
    place = disk / "file" / "client-0.cubic.sqlog" if option == "--qlog" else disk / "file"
    _one_line(
        done.stderr, f"error: {option[2:]}: {place}: No space left on device", "the measurement continues"
    )
    assert "goodput: UP" in done.stdout
    found = next(file for file in saved.rglob("*") if file.is_file()).read_text()
    assert found.endswith("\n")
    lines = found.rstrip("\n").split("\n")
    assert len(lines) > 20
    if option == "--csv":
        assert {line.count(",") for line in lines} == {lines[0].count(",")}
        assert ",total," not in found
    else:
        assert all(isinstance(json.loads(line.lstrip("\x1e")), dict) for line in lines)
    last = whole.read_text().splitlines()[-1]
    assert ",all,total," in last if other == "--csv" else json.loads(last)["end"] == "done"


@contextmanager
def _server(program: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of one client on a free port: its address and its process."""
    command, variables = _perf_command(program, "server", "--listen", "127.0.0.1:0", "-1")
    environment = os.environ | variables
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[2].rstrip(":"), process
        process.terminate()


def _perf_command(program: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    variables = {"BENTPIPE_RT": str(program), "PYTHONPATH": str(ROOT / "python")}
    return [sys.executable, "-m", "bentpipe.cli", "perf", *words], variables


def _perf(
    program: Path, *words: str, full: str = "", before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    command, variables = _perf_command(program, *words)
    return _run([*before, *command], full, **variables)
