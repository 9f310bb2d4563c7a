"""A session in real time (``session``): services, commands, proxies, schedules, live changes, records."""

from __future__ import annotations

import copy
import json
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

import realtime
from bentpipe.lab import plan_validation, process_plans, shell
from bentpipe.lab import process as labs
from bentpipe.lab.access import resolve_path
from bentpipe.lab.control import set_path
from bentpipe.lab.executable import executable
from bentpipe.lab.plan_validation import validate_plan
from bentpipe.lab.shell import LabError, run_lab
from bentpipe.scenario.base import Table
from bentpipe.scenario.errors import ScenarioError
from test_process_plans import keys

ROOT = Path(__file__).parents[2]
Plans = Callable[..., dict[str, Any]]

HEAD = 'duration = "1 s"\n[[flow]]\nname = "any"\ncongestion = "cubic"\n'
ONE = """
[[path.segment]]
name = "link"
delay = "20 ms"
down = {{ rate = "{rate}"{more} }}
up = {{ rate = "{rate}" }}
"""
TWO = """
[[path.segment]]
name = "satellite"
delay = "40 ms"
down = { rate = "20 Mbit/s" }
up = { rate = "10 Mbit/s" }
[[path.segment]]
name = "internet"
delay = "10 ms"
[[path.proxy]]
name = "gateway"
between = ["satellite", "internet"]
handshake = "early"
"""

SEND = """
import socket, sys, time
to, seconds = (sys.argv[1], 9000), float(sys.argv[2])
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + seconds
while time.monotonic() < end:
    sender.sendto(bytes(972), to)
    time.sleep(0.0005)
"""
"""1000-byte IP packets at up to 16 Mbit/s."""

SINK = """
import socket, sys, time
taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taker.bind(("", 9000))
while True:
    size = len(taker.recv(2000))
    print(f"{time.monotonic():.6f} {size + 28}", flush=True)
"""


@pytest.fixture(scope="module", autouse=True)
def program() -> Iterator[None]:
    realtime.need_namespaces()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENTPIPE_RT", str(realtime.program()))
        yield


@pytest.fixture
def plan(tmp_path: Path) -> Plans:
    """A plan over a scenario's path."""

    def make(path: str, *near: list[str], **more: object) -> dict[str, Any]:
        file = tmp_path / "path.toml"
        file.write_text(HEAD + path)
        lab, proxies = resolve_path(str(file))
        tasks = [
            {"name": f"n{index}", "command": words, "output": str(tmp_path / f"n{index}")}
            for index, words in enumerate(near)
        ]
        return {
            "lab": lab,
            "proxies": proxies,
            "commands": tasks,
            "check": False,
            "server_namespace": True,
            **more,
        }

    return make


def _one(rate: str = "4 Mbit/s", more: str = "") -> str:
    return ONE.format(rate=rate, more=more)


def _deep(more: str = "") -> str:
    """A path whose queue upwards lasts 0.2 s and longer at the rates here: while its sender waits for a processor the
    link does not."""
    return _one().replace(
        'up = { rate = "4 Mbit/s" }', f'up = {{ rate = "4 Mbit/s", queue = "200 kB"{more} }}'
    )


@pytest.mark.lab
def test_services_commands_and_statuses(plan: Plans, tmp_path: Path) -> None:
    """A service that listens, commands at their times, addresses, settings, windows and statuses."""
    serve = [sys.executable, "-m", "http.server", "8080", "--bind", "{server}"]
    fetch = "import urllib.request as u; print(len(u.urlopen('http://{server}:8080/').read()))"
    look = "cat /proc/sys/net/ipv4/tcp_rmem; ip route; ip -6 route; echo {client6} {server6}"
    words = plan(
        _one(), [sys.executable, "-c", fetch], ["sh", "-c", look], ["sh", "-c", "exit 7"],
        ["bentpipe-has-no-such-command"],
        services=[{"name": "web", "command": serve, "listen_port": 8080, "output": str(tmp_path / "web")}],
        settings={"client": {"net.ipv4.tcp_rmem": "4096 131072 16000000"}, "server": {}},
        initial_windows={"client": 40, "server": None}, check=True,
    )  # fmt: skip
    words["commands"][2]["start_ns"] = 300_000_000
    found = run_lab(words)
    assert {name: found["statuses"][name] for name in ("n0", "n1", "n2", "n3")} == {
        "n0": 0, "n1": 0, "n2": 7, "n3": 127,
    }  # fmt: skip
    assert int((tmp_path / "n0").read_text()) > 100
    seen = (tmp_path / "n1").read_text()
    assert seen.startswith("4096\t131072\t16000000")
    assert "default dev bentpipe scope link initcwnd 40 initrwnd 40" in seen
    assert "fdbe::2 fdbe::1" in seen
    assert found["wall_s"] >= 0.3
    assert found["check"]["rtt_ns"] >= 40e6
    assert found["cpu_s"] > 0
    segment = found["links"][0]
    assert segment["name"] == "link"
    for way in (segment["up"], segment["down"]):
        assert way["packets_in"] >= way["packets_out"] + sum(way["dropped"].values())
        assert (
            sum(count for _, count in way["lateness_histogram"])
            == way["packets_out"] + way["device_rejected"]
        )
        assert way["cpu_s"] > 0
        wakes = way["calibration_us"]
        assert 0 < wakes["short_sleep"] <= 200
        assert 0 < wakes["long_sleep"] <= 200
        assert 0 <= wakes["arrival"] <= 200


@pytest.mark.lab
def test_a_scheduled_change_acts_at_its_time(plan: Plans, tmp_path: Path) -> None:
    """4 Mbit/s become 8 Mbit/s two seconds after the command has started, whatever was before."""
    changes = ', changes = [{ at = "2 s", rate = "8 Mbit/s" }]'
    path = _deep(changes)
    sink = {"name": "sink", "command": [sys.executable, "-c", SINK], "listen_port": 9000,
            "output": str(tmp_path / "sink")}  # fmt: skip
    record = {"directory": str(tmp_path / "kept"), "interval_ns": 50_000_000}
    command = [sys.executable, "-c", SEND, "{server}", "3.5"]
    words = plan(path, command, services=[sink], check=True, record=record)
    for _ in range(3):
        found = run_lab(words)
        spans = [(0.5, 2.0), (2.0, 3.5)]
        rates = [realtime.rate_of_busy_link(found, tmp_path / "kept", span) for span in spans]
        if found["valid"] and None not in rates:
            break
    else:
        realtime.give_up(f"{found['reasons']}; rates {rates}")
    assert rates == [pytest.approx(4, rel=0.03), pytest.approx(8, rel=0.03)]


@pytest.mark.lab
def test_a_live_change(plan: Plans, tmp_path: Path) -> None:
    """By hand, while it runs; what cannot be changed is named; the series show it."""
    control = tmp_path / "control"
    sink = {"name": "sink", "command": [sys.executable, "-c", SINK], "listen_port": 9000,
            "output": str(tmp_path / "sink")}  # fmt: skip
    by_hand = (
        "import sys, time; from bentpipe.lab.control import set_path; time.sleep(1.5)\n"
        "before = time.monotonic()\n"
        f"set_path('link.up.rate=2 Mbit/s', control={str(control)!r})\n"
        f"set_path('loss=0 %', control={str(control)!r})\n"
        "print(before, time.monotonic())\n"
        "try: set_path('lnk.up.rate=2 Mbit/s', control=" + repr(str(control)) + ")\n"
        "except Exception as error: print(error)"
    )
    record = {"directory": str(tmp_path / "kept"), "interval_ns": 50_000_000}
    words = plan(_deep(), [sys.executable, "-c", SEND, "{server}", "4.0"], [sys.executable, "-c", by_hand],
                 services=[sink], control=str(control), record=record)  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "python"))
        for _ in range(3):
            control.unlink(missing_ok=True)
            found = run_lab(words)
            output = (tmp_path / "n1").read_text()
            assert found["statuses"]["n1"] == 0, output
            # the interpreter of the change takes its time to start
            asked, done = (float(word) - found["started_ns"] / 1e9 for word in output.split()[:2])
            spans = [(0.5, asked), (done, 10.0)]
            rates = [realtime.rate_of_busy_link(found, tmp_path / "kept", span) for span in spans]
            if found["valid"] and None not in rates:
                break
        else:
            realtime.give_up(f"{found['reasons']}; rates {rates}")
    assert "link" in output
    assert rates == [pytest.approx(4, rel=0.05), pytest.approx(2, rel=0.05)]


@pytest.mark.lab
def test_a_node_of_a_proxy_forwards(plan: Plans, tmp_path: Path) -> None:
    """Both segments are measured; both families pass the node between them, there and back."""
    words = plan(TWO, ["sh", "-c", "ip route get {server}; ip -6 route get {server6}"],
                 [sys.executable, "-c", _ECHO_CLIENT, "{server}", "{server6}"],
                 services=[{"name": "echo", "command": [sys.executable, "-c", realtime.ECHO], "listen_port": 9001,
                       "output": str(tmp_path / "echo")}], check=True)  # fmt: skip
    words["proxies"] = []

    def off(found: dict[str, Any]) -> list[object]:
        return [realtime.off_promise(found["check"], 100, 10e6, 20e6, ms=0.5, error=0.0175)]

    found = realtime.promised(words, off)
    assert [segment["name"] for segment in found["links"]] == ["satellite", "internet"]
    assert found["statuses"]["n1"] == 0, (tmp_path / "n1").read_text()


_ECHO_CLIENT = """
import socket, sys
for family, address in zip((socket.AF_INET, socket.AF_INET6), sys.argv[1:]):
    asker = socket.socket(family, socket.SOCK_DGRAM)
    asker.settimeout(5)
    asker.sendto(b"?", (address, 9001))
    assert asker.recv(10) == b"?"
"""


@pytest.mark.lab
def test_a_service_that_never_comes_up(plan: Plans, capfd: pytest.CaptureFixture[str]) -> None:
    words = plan(_one(), ["true"], services=[{"name": "web", "command": ["false"], "listen_port": 8080}])
    with pytest.raises(LabError):
        run_lab(words)
    assert "web exited before it listened" in capfd.readouterr().err


@pytest.mark.lab
def test_words_of_a_plan(plan: Plans, capfd: pytest.CaptureFixture[str]) -> None:
    for more, output in (
        ({"settings": {"client": {"net.ipv4.tcp_rmmem": "1"}, "server": {}}}, "net.ipv4.tcp_rmmem"),
        ({"record": {"directory": "/proc/nowhere", "interval_ns": 1}}, "/proc/nowhere"),
    ):
        with pytest.raises(LabError):
            run_lab(plan(_one(), ["true"], **more))
        assert output in capfd.readouterr().err


@pytest.mark.lab
def test_a_disk_that_fills(plan: Plans, tmp_path: Path) -> None:
    """The command continues, the message names the reason, the result is complete."""
    realtime.need_root("a file system of its own")
    saved = tmp_path / "kept"
    saved.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12k", "none", str(saved)], check=True)
    try:
        record = {"directory": str(saved), "interval_ns": 10_000_000}
        found = run_lab(plan(_one(), ["sleep", "5"], record=record))
    finally:
        subprocess.run(["umount", str(saved)], check=True)
    assert found["statuses"] == {"n0": 0}
    assert "No space left" in found["record_error"]


@pytest.mark.lab
@pytest.mark.parametrize("folders", [0, 1])
def test_nobody_waits_for_folders_at_the_end(
    plan: Plans, tmp_path: Path, folders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last process of a lab ends with it: without folders at once, else when they are gone, however soon that is."""
    ended = []

    def wait(alive: IO[bytes]) -> None:
        ended.append(bool(select.select([alive], [], [], 60)[0]))

    monkeypatch.setattr(labs, "_wait_for_processes", wait)
    with labs.start_lab(executable(), [tmp_path / f"own-{number}" for number in range(folders)]) as lab:
        lab.send(plan(_one(), ["sleep", "0.5"]))
        assert lab.process.wait() == 0
    assert ended == [True]


@pytest.mark.lab
def test_a_lab_that_gets_no_plan_ends_at_once(tmp_path: Path) -> None:
    """A caller that fails before it sends a plan waits neither for the lab nor for its watchdog (5 s)."""

    def fail() -> None:
        with labs.start_lab(executable(), [tmp_path / "own"]):
            time.sleep(0.2)
            raise LookupError

    start = time.monotonic()
    with pytest.raises(LookupError):
        fail()
    assert time.monotonic() - start < 4
    assert not (tmp_path / "own").exists()


@pytest.mark.lab
def test_ctrl_c_keeps_what_was_measured(plan: Plans, tmp_path: Path) -> None:
    """A caller that is interrupted gets the result of a session that ended cleanly."""
    word = "bentpipe-test-interrupt"
    command = [sys.executable, "-c", f"import time; print('up', flush=True); time.sleep(100)  # {word}"]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan(_one(), command)))
    caller = (
        "import json, sys; from bentpipe.lab.shell import InterruptedLab, run_lab\n"
        "try: run_lab(json.load(open(sys.argv[1])))\n"
        "except InterruptedLab as error: print(json.dumps(error.result))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with subprocess.Popen(
        [sys.executable, "-c", caller, str(file)], stdout=subprocess.PIPE, env=environment,
        start_new_session=True,
    ) as process:  # fmt: skip
        seen = tmp_path / "n0"
        for _ in range(1000):
            if seen.is_file() and "up" in seen.read_text():
                break
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=15)
    found = json.loads(output)
    assert found["statuses"]["n0"] != 0
    assert found["wall_s"] < 90
    for _ in range(200):
        if not realtime.running(word):
            return
        time.sleep(0.01)
    pytest.fail("the command is left behind")


@pytest.mark.lab
def test_an_ordinary_user(plan: Plans, tmp_path: Path) -> None:
    """As ``nobody``, with a separate TUN node that all users may open."""
    realtime.need_root("becoming nobody")
    allowed = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user", "--net"]
    if subprocess.run([*allowed, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("ordinary users have no namespaces here")
    words = plan(_one(), ["sh", "-c", "id -u; ip route"], check=True)
    place = Path(tempfile.mkdtemp(prefix="bentpipe-nobody-"))  # pytest gives folders that only root enters
    place.chmod(0o755)
    try:
        rt, tun = place / "rt", place / "tun"
        shutil.copy(executable(), rt)
        rt.chmod(0o755)
        os.mknod(tun, 0o666 | stat.S_IFCHR, os.makedev(10, 200))
        tun.chmod(0o666)
        words["commands"][0]["output"] = None
        words["result"] = str(place / "out" / "result.json")
        (place / "out").mkdir()
        (place / "out").chmod(0o777)
        (place / "plan.json").write_text(json.dumps(words))
        script = (
            f"mount --bind {tun} /dev/net/tun && cd / && "
            f"exec setpriv --reuid=65534 --regid=65534 --clear-groups {rt} lab {place}/plan.json"
        )
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads((place / "out" / "result.json").read_text())
    finally:
        shutil.rmtree(place)
    assert done.stdout.startswith("0\n"), done.stdout
    assert "default dev bentpipe" in done.stdout
    assert found["check"]["rtt_ns"] >= 40e6


PLAN: dict[str, Any] = {
    "lab": {"graph": {}, "client": "a", "server": "b", "seed": 1, "mtu": 1500},
    "server_namespace": True,
    "services": [{"name": "web", "command": ["web"], "listen_port": 80}],
    "commands": [{"name": "ask", "command": ["ask"], "start_ns": 5}],
    "settings": {"client": {"net.ipv4.tcp_rmem": "4096 5000 6000"}, "server": {}},
    "initial_windows": {"client": 10, "server": None},
    "record": {"directory": "kept", "interval_ns": 1},
}


@pytest.mark.parametrize(
    ("key", "value", "output"),
    [
        (
            "services.0.listen_port",
            [80, "tcp"],
            "plan: services.web.listen_port: found [80, 'tcp'], expected a UDP or TCP port from 1 to 65535",
        ),
        (
            "services.0.listen_port",
            "80",
            'plan: services.web.listen_port: found "80", expected a UDP or TCP port from 1 to 65535',
        ),
        ("services.0.listen_port", 0, "plan: services.web.listen_port: found 0, expected a UDP or TCP port"),
        (
            "services.0.listen_port",
            65536,
            "plan: services.web.listen_port: found 65536, expected a UDP or TCP port",
        ),
        (
            "services.0.listen_port",
            True,
            "plan: services.web.listen_port: found True, expected a UDP or TCP port",
        ),
        (
            "services.0.listen",
            80,
            'plan: services.web.listen: no key "listen", expected one of: .*; did you mean "listen_port"?',
        ),
        (
            "services.0.args",
            ["-x"],
            'plan: services.web.args: no key "args"; arguments follow the program in "command"',
        ),
        ("services.0.command", "web -x", 'plan: services.web.command: found "web -x", expected a list'),
        ("services.0.command", [], "plan: services.web.command: found a list of 0, expected at least 1"),
        (
            "services.0.name",
            "ask",
            'plan: duplicate command name "ask", expected a unique name for each command',
        ),
        ("commands.0.start_ns", -1, "plan: commands.ask.start_ns: found -1, expected at least 0"),
        ("commands.0.start_ns", 0.5, "plan: commands.ask.start_ns: found 0.5, expected a whole number"),
        (
            "commands.0.start_ns",
            2**64,
            f"plan: commands.ask.start_ns: found {2**64}, expected at most {2**63 - 1}",
        ),
        ("commands.0.listen_port", 80, "plan: commands.ask.listen_port: only services can listen"),
        ("commands.0.output", Path("a"), "plan: commands.ask.output: found a, expected text"),
        ("commands", [], "plan: commands: found a list of 0, expected at least 1"),
        ("commands", {"name": "ask"}, "plan: commands: found a table, expected a list"),
        (
            "server_namespace",
            False,
            "plan: services: requires server_namespace = true, which gives the server side a namespace",
        ),
        ("server_namespace", "yes", 'plan: server_namespace: found "yes", expected true or false'),
        ("lab.mtu", 70000, "plan: lab.mtu: found 70000, expected at most 65535"),
        ("lab", "geo", 'plan: lab: found "geo", expected a table'),
        (
            "settings.client",
            {"net.ipv4.tcp_sack": 1},
            "plan: settings.client.net.ipv4.tcp_sack: found 1, expected text",
        ),
        ("initial_windows.client", 0, "plan: initial_windows.client: found 0, expected at least 1"),
        ("record.interval_ns", 0, "plan: record.interval_ns: found 0, expected at least 1"),
        ("recorded", True, 'plan: recorded: no key "recorded", expected one of: .*; did you mean "record"?'),
        ("commands.0.node", "c", 'plan: commands.ask.node: no host "c", expected one of: a, b'),
        (
            "initial_windows.hosts",
            {"c": 5},
            'plan: initial_windows.hosts: no host "c", expected one of: a, b',
        ),
        ("lab.hosts", "c", 'plan: lab.hosts: found "c", expected a list'),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_starts(
    key: str, value: object, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = copy.deepcopy(PLAN)
    assert validate_plan(plan) == PLAN
    *above, last = key.split(".")
    at: Any = plan
    for word in above:
        at = at[int(word) if word.isdigit() else word]
    at[last] = value
    monkeypatch.setattr(shell, "executable", lambda: pytest.fail("it was about to start"))
    for carry in (shell.run_lab, shell.run_plan):
        with pytest.raises(ScenarioError) as error:
            carry(plan)
        message = str(error.value)
        assert re.match(re.escape(output).replace(r"\.\*", ".*"), message), message


def test_the_check_of_a_plan_knows_every_key_of_the_plan() -> None:
    """The executable reads the keys of ``process_plans``; test_process_plans.py compares them."""
    tables: list[tuple[type[Table], Any]] = [
        (plan_validation.PlanCheck, process_plans.LabPlan), (plan_validation.LabCheck, process_plans.LabSpec), (plan_validation.ProcessCheck, process_plans.Process),
        (plan_validation.RecordCheck, process_plans.Record), (plan_validation.TcpCheck, process_plans.PerHost), (plan_validation.SettingsCheck, process_plans.PerHost),
        (plan_validation.WindowsCheck, process_plans.PerHost), (plan_validation.WakesCheck, process_plans.Wakes),
    ]  # fmt: skip
    for check, table in tables:
        may = {name: not field.is_required() for name, field in check.model_fields.items()}
        assert may == {name: left_out for name, (_, left_out) in keys(table).items()}


GRAPH = """
[graph]
node = ["near", "far", { name = "hop", kind = "router" }]
[[graph.link]]
name = "one"
client_side = "near"
server_side = "hop"
delay = "5 ms"
[[graph.link]]
name = "two"
client_side = "hop"
server_side = "far"
delay = "7 ms"
"""


def test_a_path_alone_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "path.toml"
    file.write_text(TWO)
    path, proxies = resolve_path(str(file))
    assert (path["client"], path["server"]) == ("client", "server")
    assert [link["name"] for link in path["graph"]["links"]] == ["satellite", "internet"]
    assert [proxy["node"] for proxy in proxies] == ["gateway"]
    assert resolve_path(str(file), [("path.satellite.delay", "1 ms")])[0] != path
    whole = tmp_path / "whole.toml"
    whole.write_text(HEAD + TWO)
    assert resolve_path(str(whole)) == (path, proxies)
    file.write_text(GRAPH)
    found = resolve_path(str(file))[0]
    assert (found["client"], found["server"]) == ("near", "far")
    file.write_text(GRAPH.replace('"far", {', '"far", "third", {'))
    with pytest.raises(
        ScenarioError, match=r"flow: missing, expected a flow that names .*: near, far, third"
    ):
        resolve_path(str(file))
    file.write_text('duration = "1 s"\n')
    with pytest.raises(ScenarioError, match=r"path: missing, expected \[\[path.segment\]\]"):
        resolve_path(str(file))


def test_words_of_a_change(tmp_path: Path) -> None:
    for words in (
        "link.rate",
        "colour=1 Mbit/s",
        ".rate=1 Mbit/s",
        "link.sideways.rate=1 Mbit/s",
        "link.colour=red",
        "link.loss=2",
    ):
        with pytest.raises(Exception, match=r"expected|unknown|found"):
            set_path(words, control=str(tmp_path / "none"))
    with pytest.raises(Exception, match="no response from a lab"):
        set_path("rate=1 Mbit/s", control=str(tmp_path / "none"))
