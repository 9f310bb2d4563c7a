"""``run --engine emu`` in real labs: splitting proxies, IPv6, a full disk."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import realtime
from bentpipe.lab.emulation.build import lab_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.store.reader import Store

ROOT = Path(__file__).parents[2]

SATELLITE = """
[[path.segment]]
name = "satellite"
delay = "60 ms"
both = { rate = "10 Mbit/s" }
"""
FLOW = """
[[flow]]
name = "t"
transport = "tcp"
congestion = { name = "cubic", slow_start_exit = "classic", avoidance = "linux" }
direction = "down"
load = { bytes = "100 kB" }
"""
ONE = 'duration = "1 s"' + SATELLITE + FLOW
LINUX = '[tcp]\ncongestion = { name = "cubic", slow_start_exit = "classic", avoidance = "linux" }\n'
SPLIT = 'duration = "1 s"\n' + LINUX + realtime.split(SATELLITE) + FLOW
"""Round trips of 2, 120 and 10 ms, Linux's CUBIC at the proxies."""

SETUPS = '[sweep]\n"path.terminal.handshake" = ["early", "pooled", "none"]\n'

SIX = """
[[flow]]
name = "q"
congestion = "cubic"
direction = "down"
load = { bytes = "100 kB" }
quic = { ip = 6 }
"""

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bentpipe(tmp_path: Path) -> Command:
    realtime.need_namespaces("nft")
    program = str(realtime.program())

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bentpipe.cli", *words]
        env = {**os.environ, "BENTPIPE_RT": program, **environment}
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=90, check=False
        )

    return run


def _done(done: subprocess.CompletedProcess[str]) -> None:
    """The runs were valid, or the emulator missed its deadlines for them."""
    realtime.not_too_late(done)
    assert done.returncode == 0, done.stderr


@pytest.mark.lab
def test_proxies_answer_early_from_a_pool_or_not_at_all(bentpipe: Command, tmp_path: Path) -> None:
    """When the connection is up and when the request reaches the server, by the terminal's set-up: of 132 ms in all,
    2 are before it."""
    (tmp_path / "split.toml").write_text(SPLIT + SETUPS)
    expected = {"early": (0.002, 0.186), "pooled": (0.002, 0.076), "none": (0.122, 0.188)}
    for again in range(3):
        with realtime.resting() as at_rest:
            _done(bentpipe("run", "split.toml", "--engine", "emu", "--jobs", "3", "--out", f"real{again}"))
            rested = at_rest()
        store = Store(tmp_path / f"real{again}")
        rows = {row["path.terminal.handshake"]: row for row in store.streams.to_dicts()}
        assert [row["down_bytes"] for row in rows.values()] == [100_000] * 3
        late_s = []
        for setup, (opened, asked) in expected.items():
            row = rows[setup]
            assert opened <= row["start_s"], setup
            assert asked - 0.002 <= row["up_fin_s"], setup
            late_s += [row["start_s"] - opened, row["up_fin_s"] - asked]
        # The runs' own verdict knows nothing of proxies that are kept waiting.
        if rested or max(late_s) < 0.02:
            break
    else:
        realtime.give_up(f"proxies are {max(late_s):.3f} s late")
    assert max(late_s) < 0.02, late_s
    ends = {
        (row["path.terminal.handshake"], row["proxy"], row["socket"]): row for row in store.proxies.to_dicts()
    }
    proxies = [("early", "terminal"), ("pooled", "terminal"), *((setup, "gateway") for setup in rows)]
    assert set(ends) == {(*proxy, socket) for proxy in proxies for socket in ("client_side", "server_side")}
    trips_ms = {
        "terminal": {"client_side": 2, "server_side": 120},
        "gateway": {"client_side": 120, "server_side": 10},
    }
    for (_, proxy, socket), row in ends.items():
        assert row["connections"] == 1
        assert row["smoothed_rtt_ms"] >= trips_ms[proxy][socket], (proxy, socket)


@pytest.mark.lab
def test_both_transports_by_ipv6(bentpipe: Command, tmp_path: Path) -> None:
    """QUIC end to end, TCP by the gateway's proxy."""
    one = SPLIT.replace('load = { bytes = "100 kB" }', 'load = { bytes = "100 kB" }\ntcp = { ip = 6 }')
    (tmp_path / "six.toml").write_text(one.replace('name = "terminal"', 'name = "terminal"\nhandshake = "none"', 1)
                                       .replace('handshake = "early"\n', "", 1) + SIX)  # fmt: skip
    _done(bentpipe("run", "six.toml", "--engine", "emu", "--out", "real"))
    store = Store(tmp_path / "real")
    rows = {row["flow"]: row for row in store.streams.to_dicts()}
    assert {name: row["down_bytes"] for name, row in rows.items()} == {"q": 100_000, "t": 100_000}
    spec = build_plan(load_scenario(tmp_path / "six.toml"), "").runs[0].spec
    asks = [one["command"] for one in lab_plan(spec, tmp_path, "rt").plan["commands"]]
    assert all("{server6}" in words and "{server}" not in words for words in asks)


REFUSED = """
import socket, subprocess, sys, time
said = subprocess.run(["ip", "-o", "-6", "addr", "show", "dev", "bentpipe"], capture_output=True, text=True).stdout
peer = next(line for line in said.splitlines() if " peer " in line).split(" peer ")[1].split("/")[0]
asker = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
asker.settimeout(5)
asker.connect((peer, 9))
began = time.monotonic()
asker.send(b"?")
try:
    asker.recv(10)
except ConnectionRefusedError:
    print(time.monotonic() - began)
"""
"""Nothing listens at the server side, and its kernel refuses the connection."""


@pytest.mark.lab
def test_a_command_of_ipv6_behind_a_shell(bentpipe: Command, tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(ONE)
    done = bentpipe("shell", "one.toml", "--no-path-check", "--isolated", "--", sys.executable, "-c", REFUSED)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) >= 0.120


@contextlib.contextmanager
def _small(place: Path, size: str) -> Iterator[Path]:
    """A file system of this size."""
    realtime.need_root("a file system of its own")
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.lab
def test_a_disk_that_fills_while_a_lab_measures(bentpipe: Command, tmp_path: Path) -> None:
    """One message, which names the place, and none of the other runs is begun."""
    (tmp_path / "s.toml").write_text(ONE + '[sweep]\n"flow.t.load.bytes" = ["100 kB", "90 kB"]\n')
    words = ("run", "s.toml", "--engine", "emu", "--out", "real")
    for size in ("4k", "40k"):
        with _small(tmp_path / f"small-{size}", size) as place:
            done = bentpipe(*words, TMPDIR=str(place))
            assert list(place.iterdir()) == []
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert f"{place}: the disk is full" in done.stderr
    assert not realtime.running(str(tmp_path))


@pytest.mark.nightly
@pytest.mark.lab
def test_a_store_on_a_full_disk_keeps_finished_runs(tmp_path: Path) -> None:
    """The same writer stores emulated and simulated runs; the same command resumes with more space."""
    program = tmp_path / "bentpipe-rt"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/tests/python/fake_lab.py "$@"\n')
    program.chmod(0o755)
    text = SPLIT.replace("[sweep]", "") + '[sweep]\n"flow.t.load.bytes" = '
    (tmp_path / "s.toml").write_text(text + str([f"{size} kB" for size in range(20, 30)]) + "\n")
    command = [
        sys.executable,
        "-m",
        "bentpipe.cli",
        "run",
        "s.toml",
        "--engine",
        "emu",
        "--out",
        "small/real",
    ]
    with _small(tmp_path / "small", "500k") as place:
        environment = {**os.environ, "BENTPIPE_RT": str(program)}

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )

        done = run()
        saved = len(list(place.glob("real/runs/*")))
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert "the disk is full" in done.stderr
        assert f"{saved} finished runs are kept" in done.stderr
        assert 0 < saved < 10
        subprocess.run(["mount", "-o", "remount,size=20m", str(place)], check=True)
        done = run()
        assert done.returncode == 0, done.stderr
        assert f"10 of 10 runs in small/real ({saved} from earlier runs)" in done.stdout
        assert not list(place.glob("real/**/.*part*"))


TRIANGLE = """
duration = "3 s"
[graph]
node = ["a", "b", "c"]
[[graph.link]]
name = "ab"
client_side = "a"
server_side = "b"
delay = "5 ms"
both = { rate = "20 Mbit/s", queue = "100 kB" }
[[graph.link]]
name = "bc"
client_side = "b"
server_side = "c"
delay = "20 ms"
both = { rate = "10 Mbit/s", queue = "100 kB" }
[[graph.link]]
name = "ca"
client_side = "c"
server_side = "a"
delay = "50 ms"
both = { rate = "5 Mbit/s", queue = "100 kB", outages = { windows = [{ at = "200 ms", duration = "100 ms" }], buffer_packets = true } }
[[flow]]
name = "one"
client = "a"
server = "b"
congestion = "cubic"
direction = "up"
load = { bytes = "2 MB" }
[[flow]]
name = "two"
client = "c"
server = "b"
transport = "tcp"
congestion = { name = "cubic", slow_start_exit = "classic", avoidance = "linux" }
direction = "down"
load = { bytes = "1 MB" }
[[flow]]
name = "three"
client = "a"
server = "c"
congestion = "newreno"
direction = "up"
load = { bytes = "500 kB" }
"""

GAP = """
duration = "3 s"
[[path.segment]]
name = "satellite"
delay = "20 ms"
both = { rate = "10 Mbit/s", queue = "100 kB" }
[[path.handover]]
at = "300 ms"
segment = "satellite"
gap = "200 ms"
[[flow]]
name = "three"
congestion = "newreno"
direction = "up"
load = { bytes = "1 MB" }
"""


def _ends(store: Store) -> dict[str, float]:
    return {row["flow"]: max(row["up_fin_s"], row["down_fin_s"]) for row in store.streams.to_dicts()}


def _carried(store: Store) -> dict[str, int]:
    return dict(store.link_summary.select("link", "delivered_bytes").iter_rows())


@pytest.mark.lab
@pytest.mark.parametrize(
    ("scenario", "links"), [pytest.param(TRIANGLE, 6, marks=pytest.mark.nightly), (GAP, 2)]
)
def test_a_graph_is_the_simulations(bentpipe: Command, tmp_path: Path, scenario: str, links: int) -> None:
    """Flows between three hosts, an outage, a time without a way: loads take as long as in virtual time."""
    (tmp_path / "graph.toml").write_text(scenario)
    _done(bentpipe("run", "graph.toml", "--out", "simulated"))
    simulated = Store(tmp_path / "simulated")

    # A stall of 0.1 s is 5 % of a load, and too short to count as the path's lateness.
    def judge(number: int) -> list[object]:
        _done(bentpipe("run", "graph.toml", "--engine", "emu", "--out", f"real{number}"))
        real = Store(tmp_path / f"real{number}")
        names = set(real.link_summary["link"])
        assert names == set(simulated.link_summary["link"])
        assert len(names) == links
        ends, carried = ([found(store) for store in (real, simulated)] for found in (_ends, _carried))
        full = {link: size for link, size in carried[1].items() if size > 100_000}
        assert all(at > 0.95 * ends[1][flow] for flow, at in ends[0].items()), ends
        same = ends[0] == pytest.approx(ends[1], rel=0.05)
        same &= {link: carried[0][link] for link in full} == pytest.approx(full, rel=0.05)
        return [] if same else [ends, carried]

    realtime.tried(judge)
