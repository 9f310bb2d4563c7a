"""A lab as a graph: hosts, links and ways between them (``session`` with ``hosts``)."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import realtime
from bentpipe.lab.access import resolve_graph
from bentpipe.lab.perf import Client, Options, Output, Server, client_plan, load, server_plan
from bentpipe.lab.process_plans import LabPlan, LabSpec, Process, to_json
from bentpipe.lab.shell import LabError, run_lab
from bentpipe.scenario.errors import ScenarioError

ROOT = Path(__file__).parents[2]


def link(name: str, client: str, server: str, delay: str, rate: str, **more: object) -> dict[str, Any]:
    return {
        "name": name, "client_side": client, "server_side": server, "delay": delay, "both": {"rate": rate}, **more,
    }  # fmt: skip


SIDES = {"ab": ("a", "b", 5, 20), "bc": ("b", "c", 20, 10), "ca": ("c", "a", 50, 5)}
"""Links of the triangle: their ends, delay in ms, rate in Mbit/s."""

TRIANGLE = {
    "graph": {
        "node": ["a", "b", "c"],
        "link": [
            link(name, one, other, f"{ms} ms", f"{rate} Mbit/s") for name, (one, other, ms, rate) in SIDES.items()
        ],
    }
}  # fmt: skip

ASK = """
import json, socket, sys, time
count, pause, found = int(sys.argv[1]), float(sys.argv[2]), []
for number in range(count):
    for address in sys.argv[3:]:
        asker = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        asker.settimeout(1)
        sent = time.monotonic()
        asker.sendto(b"?", (address, 9001))
        try:
            peer = asker.recvfrom(10)[1][0]
            took = (time.monotonic() - sent) * 1e3
        except TimeoutError:
            peer, took = None, None
        found.append([address, peer, sent, took])
        time.sleep(pause)
print(json.dumps(found))
"""
"""Return requested addresses, responders, times of the requests, and round trips in ms."""


@pytest.fixture(scope="module", autouse=True)
def program() -> Iterator[None]:
    realtime.need_namespaces()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENTPIPE_RT", str(realtime.program()))
        yield


def _echoes(*hosts: str) -> list[Process]:
    return [
        {
            "name": f"echo.{host}",
            "node": host,
            "command": [sys.executable, "-c", realtime.ECHO],
            "listen_port": 9001,
        }
        for host in hosts
    ]


def _asks(host: str, folder: Path, count: int, pause: float, *addresses: str) -> Process:
    words = [sys.executable, "-c", ASK, str(count), str(pause), *addresses]
    return {"name": f"ask.{host}", "node": host, "command": words, "output": str(folder / f"ask.{host}")}


def _plan(lab: LabSpec, near: list[Process], far: list[Process], **more: Any) -> dict[str, Any]:
    plan: LabPlan = {"lab": lab, "server_namespace": True, "commands": near, "services": far}
    return {**plan, **more}


def _asked(folder: Path, host: str) -> list[tuple[str, str | None, float, float | None]]:
    return [tuple(one) for one in json.loads((folder / f"ask.{host}").read_text(encoding="utf-8"))]


def test_a_graph_alone_is_enough() -> None:
    lab = resolve_graph(TRIANGLE)
    assert (lab["client"], lab["server"], lab["hosts"]) == ("a", "b", ["c"])
    flow = {"name": "any", "congestion": "cubic", "client": "c", "server": "a"}
    named = resolve_graph({**TRIANGLE, "duration": "1 s", "flow": [flow]})
    assert (named["client"], named["server"], named["hosts"]) == ("c", "a", ["b"])
    assert named["graph"] == lab["graph"]
    one = {"name": "l", "delay": "5 ms"}
    assert "hosts" not in resolve_graph({"path": {"segment": [one]}})
    with pytest.raises(ScenarioError, match="expected a flow that names its client and server"):
        resolve_graph({"graph": {"node": ["a"], "link": []}})


@pytest.mark.lab
def test_every_side_of_a_triangle_is_its_own_link(tmp_path: Path) -> None:
    """Each host answers by its one address, in both families, after the round trip of the link between; each link lets
    through its rate."""
    hosts = ("a", "b", "c")
    everyone = [f"{{{key}:{host}}}" for key in ("host", "host6") for host in hosts]
    near = [_asks(host, tmp_path, 12, 0.01, *everyone) for host in hosts]
    near.append({
        "name": "look", "node": "c", "output": str(tmp_path / "look"),
        "command": ["sh", "-c", "ip -o -4 addr show dev lo; cat /proc/sys/net/ipv4/ip_forward; echo {server} {host:c}"],
    })  # fmt: skip
    lab = resolve_graph(TRIANGLE)
    record = {"directory": str(tmp_path / "kept"), "interval_ns": 100_000_000}
    links = {frozenset(ends[:2]): ends[2:] for ends in SIDES.values()}

    def off(found: dict[str, Any]) -> list[object]:
        sides = [(one, *links[frozenset((one["from"], one["to"]))]) for one in found["checks"]]
        unanswered = [one for host in hosts for one in _asked(tmp_path, host) if one[1] is None]
        return [*unanswered, *(
            realtime.off_promise(one, 2 * ms, rate * 1e6, rate * 1e6, ms=2, error=0.05)
            for one, ms, rate in sides
        )]  # fmt: skip

    with realtime.resting() as at_rest:
        found = realtime.promised(_plan(lab, near, _echoes(*hosts), check=True, record=record), off)
        rested = at_rest()
    assert found["hosts"] == {
        "a": {"v4": "10.78.0.1", "v6": "fdbe::1"},
        "b": {"v4": "10.78.0.2", "v6": "fdbe::2"},
        "c": {"v4": "10.78.0.3", "v6": "fdbe::3"},
    }
    for host in hosts:
        took: dict[str, list[float]] = {}
        for address, peer, _, ms in _asked(tmp_path, host):
            assert peer == address, "a host has one name"
            assert ms is not None
            took.setdefault(address, []).append(ms)
        for other in hosts:
            trip = 0 if other == host else 2 * links[frozenset((host, other))][0]
            for address in found["hosts"][other].values():
                least = min(took[address])
                assert trip <= least, (host, other)
                if least >= trip + 3 and not rested:  # who asks and who answers are ordinary processes
                    realtime.give_up(f"{least:.1f} ms over {trip} ms")
                assert least < trip + 3, (host, other)
    look = (tmp_path / "look").read_text(encoding="utf-8")
    assert "10.78.0.3/32" in look
    assert look.splitlines()[-2:] == ["0", "10.78.0.2 10.78.0.3"], "hosts forward nothing"
    assert {segment["name"]: segment["nodes"] for segment in found["links"]} == {
        "ab": ["a", "b"], "bc": ["b", "c"], "ca": ["c", "a"],
    }  # fmt: skip
    assert (tmp_path / "kept" / "links.csv").read_text(encoding="utf-8").count("\n") > 6
    assert [(one["from"], one["to"]) for one in found["checks"]] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert {**found["checks"][0], "from": None} == {
        **found["check"], "from": None, "to": "b", "path_bounds": found["path_bounds"],
    }  # fmt: skip
    for one in found["checks"]:
        ms, rate = links[frozenset((one["from"], one["to"]))]
        assert one["path_bounds"] == {"rtt_ns": 2e6 * ms, "up_bit_s": rate * 1e6, "down_bit_s": rate * 1e6}


@pytest.mark.lab
def test_flows_on_every_side_at_once(tmp_path: Path) -> None:
    """`perf` between each two hosts fills the link between them and no other."""
    rt = os.environ["BENTPIPE_RT"]
    near: list[Process] = []
    far: list[Process] = []
    for name, (client, server, _, _) in SIDES.items():
        files = [tmp_path / f"{name}.{side}.json" for side in ("server", "client")]
        files[0].write_bytes(
            to_json(server_plan(Server("0.0.0.0:4433", transport="quic"), Options(), Output(interval="0")))
        )
        asks = client_plan(
            Client("198.51.100.1:4433", load(time="2 s", send="up"), transport="quic", insecure=True),
            Options(),
            Output(interval="0"),
        )
        asks["host"] = "TO"
        files[1].write_bytes(to_json(asks))
        far.append({"name": f"{name}.server", "node": server, "command": [rt, "perf", str(files[0])],
                    "listen_port": 4433, "output": str(tmp_path / f"{name}.server")})  # fmt: skip
        ready = f"{files[1]}.ready"
        ask = f'sed "s/TO/$1/" {files[1]} > {ready} && exec {rt} perf {ready}'
        near.append({"name": name, "node": client, "command": ["sh", "-c", ask, "sh", f"{{host:{server}}}"],
                     "output": str(tmp_path / f"{name}.client")})  # fmt: skip

    def off(found: dict[str, Any]) -> list[object]:
        # Six programs of QUIC, to which a busy machine does not always give the processor that they need.
        assert {name: found["statuses"][name] for name in SIDES} == dict.fromkeys(SIDES, 0)
        wrong: list[object] = []
        for segment in found["links"]:
            rate = SIDES[segment["name"]][3] * 1e6
            carried = 8 * segment["up"]["bytes_out"]
            assert segment["down"]["bytes_out"] < 0.2 * segment["up"]["bytes_out"]
            # two seconds and what is in the queue after them; the start takes some round trips
            assert carried < 1.15 * 2 * rate + 8e5, segment["name"]
            if carried <= 0.6 * 2 * rate:
                wrong.append((segment["name"], carried))
        return wrong

    assert len(realtime.promised(_plan(resolve_graph(TRIANGLE), near, far), off)["links"]) == len(SIDES)


@pytest.mark.lab
def test_ways_change_at_their_instants(tmp_path: Path) -> None:
    """A disabled link leaves no route to the host behind it, without notice to the sender.

    A gap ends, and returning packets take the usual route. The client sends for 3.6 s, and may start two requests
    late.
    """
    data = {
        "duration": "10 s",
        "flow": [{"name": "any", "congestion": "cubic", "client": "a", "server": "c"}],
        "graph": {
            **TRIANGLE["graph"],
            "handover": [{"to": "ca", "at": "2 s", "gap": "0.5 s"}],
        },
    }
    lab = resolve_graph(data)
    changes = lab["graph"].get("changes", ())
    assert [(one["at_ns"], one["links"]) for one in changes] == [
        (2_000_000_000, [{"link": "ca", "enabled": False}]), (2_500_000_000, [{"link": "ca", "enabled": True}]),
    ]  # fmt: skip
    ask = ASK.replace("asker.settimeout(1)", "asker.settimeout(0.3)")
    near: list[Process] = [
        {"name": f"ask.{to}", "node": "a", "output": str(tmp_path / f"ask.{to}"),
         "command": [sys.executable, "-c", ask, "15", "0.02", f"{{host:{to}}}", f"{{host6:{to}}}"]}
        for to in ("b", "c")
    ]  # fmt: skip

    def off(found: dict[str, Any]) -> list[object]:
        assert [found["statuses"][one["name"]] for one in near] == [0, 0]
        assert found["routes"]["changes"] == 4, "at both ends, twice"
        begun, wrong = found["started_ns"] / 1e9, []
        wrong.append(found["routes"]["lateness_max_ms"] >= 10 and found["routes"])
        for to, trip in (("b", 10.0), ("c", 100.0)):
            dark, took = 0, [math.inf]
            for address, peer, at, ms in _asked(tmp_path, to):
                assert peer in (address, None)
                sent = at - begun
                if to == "c" and 2.02 < sent < 2.48:
                    wrong.append(peer and f"answered {sent:.3f} s after the start")
                    dark += 1
                elif to == "b" or sent < 1.98 - trip / 1e3 or sent > 2.52:
                    wrong.append(peer is None and f"no answer {sent:.3f} s after the start")
                    took.append(ms or math.inf)
            assert trip <= min(took)
            wrong += [to == "c" and dark == 0 and "never dark", min(took) >= trip + 3 and min(took)]
        return wrong

    realtime.promised(_plan(lab, near, _echoes("b", "c")), off)


@pytest.mark.lab
def test_a_router_passes_on_in_its_own_namespace(tmp_path: Path) -> None:
    """Three hosts around one router: six ways, each the sum of two links."""
    delays = {"a": 3, "b": 10, "c": 20}
    star = {
        "graph": {
            "node": [*delays, {"name": "r", "kind": "router"}],
            "link": [link(f"{name}r", name, "r", f"{ms} ms", "20 Mbit/s") for name, ms in delays.items()],
        }
    }
    near = [
        _asks(host, tmp_path, 10, 0.02, *(f"{{host:{to}}}" for to in delays if to != host)) for host in delays
    ]

    def off(found: dict[str, Any]) -> list[object]:
        assert [segment["nodes"] for segment in found["links"]] == [["a", "r"], ["b", "r"], ["c", "r"]]
        assert set(found["hosts"]) == set(delays)
        by_address = {host["v4"]: name for name, host in found["hosts"].items()}
        least: dict[tuple[str, str], float] = {}
        unanswered: list[object] = []
        for host, ms in delays.items():
            for address, peer, _, took in _asked(tmp_path, host):
                trip = 2 * (ms + delays[by_address[address]])
                if took is None:
                    unanswered.append((host, address))
                    continue
                assert peer == address
                assert took >= trip
                least[host, address] = min(took - trip, least.get((host, address), took))
        assert len(least) == 6
        return [*unanswered, *(late for late in least.values() if late >= 4)]

    realtime.promised(_plan(resolve_graph(star), near, _echoes(*delays)), off)


@pytest.mark.lab
def test_nothing_of_a_graph_is_left_when_it_is_killed(tmp_path: Path) -> None:
    """If any process of the lab is killed, all end, with the tools that wait to change routes."""
    data = {
        "duration": "100 s",
        "flow": [{"name": "any", "congestion": "cubic", "client": "a", "server": "c"}],
        "graph": {**TRIANGLE["graph"], "handover": [{"to": "ca", "at": "90 s", "gap": "1 s"}]},
    }
    word = f"bentpipe-test-graph-{os.getpid()}"
    command = [sys.executable, "-c", f"import time; print('up', flush=True); time.sleep(100)  # {word}"]
    up = tmp_path / "up"
    near: list[Process] = [{"name": "sleep", "node": "b", "command": command, "output": str(up)}]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(_plan(resolve_graph(data), near, _echoes("c"))), encoding="utf-8")
    caller = (
        "import json, sys; from bentpipe.lab.shell import run_plan; run_plan(json.load(open(sys.argv[1])))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    waiting = _waiting_tools()
    with subprocess.Popen([sys.executable, "-c", caller, str(plan)], env=environment) as process:
        until = time.monotonic() + 30
        while time.monotonic() < until and not (up.exists() and up.read_text(encoding="utf-8")):
            time.sleep(0.02)
        assert len(_waiting_tools() - waiting) == 2
        process.send_signal(signal.SIGKILL)
    for _ in range(500):
        if not realtime.running(word) and _waiting_tools() == waiting:
            return
        time.sleep(0.01)
    pytest.fail("something is left behind")


def _waiting_tools() -> set[int]:
    """The processes of `ip` that wait for lines."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes()
        except OSError:
            continue
        if re.fullmatch(rb"ip\0-force\0-batch\0-\0", words):
            found.add(int(place.parent.name))
    return found


@pytest.mark.lab
def test_invalid_graphs(capfd: pytest.CaptureFixture[str]) -> None:
    lab = resolve_graph(TRIANGLE)
    for words, message in (
        (["echo", "{host:d}"], 'no host "d" in this lab'),
        (["true"], "the path never has routes"),
    ):
        near: list[Process] = [{"name": "one", "command": words}]
        wrong = lab
        if words == ["true"]:
            changes = [{"at_ns": 0, "links": [{"link": "ab", "enabled": False}]}]
            wrong = {**lab, "graph": {**lab["graph"], "changes": changes}}
        with pytest.raises(LabError):
            run_lab(_plan(wrong, near, []))
        assert message in capfd.readouterr().err
    with pytest.raises(ScenarioError, match=r"lab.hosts: requires server_namespace = true"):
        run_lab({**_plan(lab, [{"name": "one", "command": ["true"]}], []), "server_namespace": False})
