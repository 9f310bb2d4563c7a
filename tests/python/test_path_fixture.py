"""The fixture ``bentpipe_path``: simulated flows, real programs, and who is skipped where there can be none."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import realtime

ROOT = Path(__file__).parents[2]

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "no:bentpipe", "-p", "bentpipe.testing.plugin", "-p", "no:cacheprovider")
"""The plug-in of this checkout, whether or not the environment has an entry point for it."""

SIMULATED = """
import pytest
import bentpipe

FLOW = {"congestion": "cubic", "direction": "up", "load": {"bytes": "100 kB"}}

def test_a_preset(bentpipe_path):
    path = bentpipe_path("geo-konnect", {"path.konnect.up.loss": "0 %"})
    found = path.simulate(FLOW, duration="5 s", settings={"path.konnect.delay": "100 ms"})
    [seconds] = found.metrics()["completion_p50_s"]
    assert 0.4 < seconds < 2
    assert found.metrics()["flow"].to_list() == ["main"]

def test_a_file_without_flows(bentpipe_path, tmp_path):
    (tmp_path / "s.toml").write_text('''
[[path.segment]]
name = "link"
delay = "5 ms"
both = { rate = "10 Mbit/s" }
''')
    path = bentpipe_path(str(tmp_path / "s.toml"))
    found = path.simulate([FLOW, FLOW | {"start": "1 s"}], duration="2 s")
    assert sorted(found.metrics()["flow"]) == ["flow-1", "main"]
    with pytest.raises(bentpipe.ScenarioError, match="flow: missing, expected flows to simulate"):
        path.simulate()

def test_mistakes(bentpipe_path):
    with pytest.raises(bentpipe.ScenarioError, match='no preset "geo-konect"'):
        bentpipe_path("geo-konect")
    with pytest.raises(bentpipe.ScenarioError, match='path.konnect.up.los: no key "los", .*did you mean "loss"'):
        bentpipe_path("geo-konnect", {"path.konnect.up.los": "1 %"})
    with pytest.raises(bentpipe.ScenarioError, match='path.konect.up.loss: no segment "konect".*in settings'):
        bentpipe_path("geo-konnect", {"path.konect.up.loss": "1 %"})
    with pytest.raises(bentpipe.ScenarioError, match='path.konnect.up.loss: found "1" without a unit'):
        bentpipe_path("geo-konnect", {"path.konnect.up.loss": "1"})
    with pytest.raises(bentpipe.ScenarioError, match="no/such.toml: no such file"):
        bentpipe_path("no/such.toml")
    table = {"path": {"segment": [{"name": "link", "delay": "5 ms", "ratte": "1 Mbit/s"}]}}
    with pytest.raises(bentpipe.ScenarioError, match='path.link.ratte: no key "ratte"'):
        bentpipe_path(table)
    path = bentpipe_path("lte-4g")
    with pytest.raises(bentpipe.ScenarioError, match='client: no command "no-such" found'):
        path.run_program(["no-such"])
    with pytest.raises(bentpipe.ScenarioError, match="server: found 'ls', expected a list of words"):
        path.run_program(["ls"], "ls")
    with pytest.raises(bentpipe.ScenarioError, match='pep: no set-up "earyl", expected one of: early, relayed'):
        path.run_program(["ls"], pep="earyl")
    with pytest.raises(bentpipe.ScenarioError, match='timeout: found "3" without a unit'):
        path.run_program(["ls"], timeout="3")

def test_a_real_one(bentpipe_path):
    bentpipe_path("lte-4g").run_program(["true"])
"""


def test_it_loads_nothing_before_a_test_asks() -> None:
    code = "import sys, pytest; sys.modules['before'] = pytest; before = set(sys.modules); import bentpipe.testing.plugin; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"bentpipe", "bentpipe.testing", "bentpipe.testing.plugin"}


def test_simulated_and_skipped_by_name(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENTPIPE_RT", "/no/such/bentpipe-rt")
    pytester.makepyfile(SIMULATED)
    found = pytester.runpytest_inprocess(*PLUGIN, "-rs")
    found.assert_outcomes(passed=3, skipped=1)
    found.stdout.fnmatch_lines(['*emulation is not available on this host: *no file "/no/such/bentpipe-rt"*'])
    found = pytester.runpytest_inprocess(*PLUGIN, "-k", "real_one", "--bentpipe-real=never", "-rs")
    found.assert_outcomes(skipped=1)
    found.stdout.fnmatch_lines(["*--bentpipe-real=never*"])
    found = pytester.runpytest_inprocess(*PLUGIN, "-k", "real_one", "--bentpipe-real=must")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*Failed: emulation is not available on this host: *"])


def test_the_environment_of_a_checkout_has_the_plug_in(tmp_path: Path) -> None:
    """``scripts/venv`` registers what a wheel does: the entry points of pyproject.toml but for its own command."""
    site, python = tmp_path / "site", tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    site.mkdir()
    python.write_text(f'#!/bin/sh\ncase "$*" in *purelib*) echo {site} ;; esac\n')
    python.chmod(0o755)
    for name in ("pyproject.toml", "Cargo.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (site / "bentpipe-0.dist-info").mkdir()
    subprocess.run(["bash", ROOT / "scripts/venv", sys.executable, "none"], cwd=tmp_path, check=True)
    [found] = importlib.metadata.distributions(name="bentpipe", path=[str(site)])
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert found.version == cargo["workspace"]["package"]["version"]
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert {(one.group, one.name, one.value) for one in found.entry_points} == {
        (group, name, value) for group, points in groups.items() for name, value in points.items()
    }
    assert ("pytest11", "bentpipe", "bentpipe.testing.plugin") in {
        (one.group, one.name, one.value) for one in found.entry_points
    }


CARRIED = """
import sys

SERVE = '''
import socket
server = socket.create_server(("", 9000))
connection, peer = server.accept()
print(peer[0], flush=True)
connection.sendall(connection.recv(100) + bytes(50000))
connection.close()
'''
FETCH = '''
import socket, sys
connection = socket.create_connection((sys.argv[1], 9000))
connection.sendall(b"hello")
got = b""
while more := connection.recv(65536):
    got += more
print(len(got), got[:5])
sys.exit(7)
'''

def test_a_client_and_its_server(bentpipe_path):
    words = [sys.executable, "-S", "-c"]
    path = bentpipe_path("ftth")
    for _ in range(3):  # who waits for a processor takes a segment for lost, and sends it again
        found = path.run_program([*words, FETCH, "{server}"], [*words, SERVE], server_port=9000)
        assert found.status == 7
        assert found.output == "50005 b'hello'\\n"
        assert found.server_output.startswith("10.78.0.")
        assert found.down_bytes > 50_005
        if found.down_bytes < 54_000:
            break
    assert found.down_bytes < 54_000
    assert found.seconds > 0.01

LOOPBACK = SERVE.replace('("", 9000)', '("127.0.0.1", 9000)')

def test_a_server_on_localhost(bentpipe_path):
    path = bentpipe_path("lte-4g", {"path.lte.delay": "50 ms"})
    words = [sys.executable, "-S", "-c"]
    found = path.run_program([*words, FETCH, "localhost"], [*words, LOOPBACK], server_port=9000)
    assert found.output == "50005 b'hello'\\n", found.errors
    assert found.server_output.startswith("10.78.0.")
    assert found.seconds >= 2 * 0.1
    assert found.down_bytes > 50_005

def test_one_that_never_ends(bentpipe_path):
    found = bentpipe_path("ftth").run_program(["sleep", "30"], timeout="200 ms")
    assert found.status is None
    assert found.seconds < 20
"""


@pytest.mark.lab
def test_real_programs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    realtime.need_namespaces("nft")
    monkeypatch.setenv("BENTPIPE_RT", str(realtime.program()))
    pytester.makepyfile(CARRIED)
    found = pytester.runpytest_inprocess(*PLUGIN, "-rs")
    outcome = found.parseoutcomes()
    if outcome.get("skipped") and not outcome.get("failed"):
        realtime.give_up(found.stdout.str().splitlines()[-2])
    found.assert_outcomes(passed=3)
    assert not realtime.running(f"bentpipe-once-{os.getpid()}")
