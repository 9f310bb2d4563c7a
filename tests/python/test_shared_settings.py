"""Two labs of root share the machine's forwarding: the first to end takes nothing from the second, the last puts it back."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import lab_kills
import realtime
from bentpipe.lab.access import lab

SCENARIO = """
duration = "1 s"
[[path.segment]]
name = "link"
delay = "5 ms"
[[flow]]
name = "any"
congestion = "cubic"
"""
OUTSIDE, OWN = "192.0.2.1", "192.0.2.2"  # RFC 5737
ECHO = f"""
import socket
taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taker.bind(("{OUTSIDE}", 7))
print("up", flush=True)
while True:
    data, peer = taker.recvfrom(100)
    taker.sendto(data, peer)
"""
ASK = f"""
import socket, time
while True:
    asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asker.settimeout(5)
    asker.sendto(b"?", ("{OUTSIDE}", 7))
    try:
        asker.recv(100)
        print("yes", flush=True)
    except OSError:
        print("no", flush=True)
    time.sleep(0.1)
"""


@dataclass
class Machine:
    """A network namespace in the place of a machine, with a neighbour."""

    holder: int
    place: Path

    def begin(self, name: str, program: Path, path: str = "") -> subprocess.Popen[bytes]:
        """A lab that sends repeated requests to its neighbour and records them in this file; ``path`` is searched for programs first."""
        words = self.words(name, program, [sys.executable, "-c", ASK])
        environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
        process = subprocess.Popen(words, start_new_session=True, env=environment)
        self.answers(name, "yes")
        return process

    def words(self, name: str, program: Path, command: list[str]) -> list[str]:
        """Return the command of a lab with one program, which writes its output to this file."""
        scenario = self.place / "path.toml"
        scenario.write_text(SCENARIO)
        near = {"name": name, "command": command, "output": str(self.place / name)}
        plan = self.place / f"{name}.json"
        plan.write_text(json.dumps({"lab": lab(str(scenario)), "commands": [near], "has_uplink": True}))
        return ["nsenter", "-t", str(self.holder), "-n", str(program), "lab", str(plan)]

    def answers(self, name: str, what: str) -> None:
        """Three answers of a lab in a row are these, from the third on from now: within 40 s."""
        file = self.place / name
        before = len(file.read_text().split()) if file.exists() else 0
        until = time.monotonic() + 40
        while time.monotonic() < until:
            message = file.read_text().split() if file.exists() else []
            if any(message[at : at + 3] == [what] * 3 for at in range(before + 2, len(message))):
                return
            time.sleep(0.02)
        pytest.fail(f"{name}: {file.read_text() if file.exists() else 'nothing'}")

    def settings_are(self, wanted: str) -> None:
        """Forwarding of IPv4 and IPv6, within 5 s."""
        until = time.monotonic() + 5
        while (found := lab_kills.settings(self.holder).split()) != wanted.split():
            assert time.monotonic() < until, found
            time.sleep(0.02)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[[str], Machine]]:
    """Maker of one with these settings."""
    realtime.need_root("a machine of its own")
    realtime.need_namespaces("nft", "nsenter")
    with contextlib.ExitStack() as stack:

        def inside(holder: int, words: str) -> None:
            subprocess.run(["nsenter", "-t", str(holder), "-n", *words.split()], check=True)

        def make(settings: str) -> Machine:
            ours, theirs = (stack.enter_context(lab_kills.network_of_its_own()) for _ in range(2))
            inside(ours, f"ip link add out type veth peer name in netns {theirs}")
            for holder, device, address in ((ours, "out", OWN), (theirs, "in", OUTSIDE)):
                inside(holder, f"ip addr add {address}/24 dev {device}")
                inside(holder, f"ip link set {device} up")
            four, six = settings.split()
            for name, value in (("ipv4/ip_forward", four), ("ipv6/conf/all/forwarding", six)):
                change = ["sh", "-c", f"echo {value} > /proc/sys/net/{name}"]
                subprocess.run(["nsenter", "-t", str(ours), "-n", *change], check=True)
            echo = ["nsenter", "-t", str(theirs), "-n", sys.executable, "-c", ECHO]
            process = stack.enter_context(subprocess.Popen(echo, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            return Machine(ours, tmp_path)

        yield make


@pytest.mark.lab
@pytest.mark.parametrize(
    ("how", "settings"), [(signal.SIGTERM, "0 0"), (signal.SIGKILL, "0 0"), (signal.SIGKILL, "1 0")]
)
def test_the_last_lab_puts_forwarding_back(
    machine: Callable[[str], Machine], how: signal.Signals, settings: str
) -> None:
    program = realtime.program()
    found = machine(settings)
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(found.begin(name, program)) for name in ("first", "second"))
        for one in (first, second):
            stack.callback(one.kill)
        found.settings_are("1 1")
        first.send_signal(how)
        first.wait(10)
        found.answers("second", "yes")
        found.settings_are("1 1")
        third = stack.enter_context(found.begin("third", program))
        stack.callback(third.kill)
        second.send_signal(signal.SIGTERM)
        second.wait(10)
        found.answers("third", "yes")
        third.send_signal(how)
        third.wait(10)
        found.settings_are(settings)


@pytest.mark.lab
def test_the_next_lab_restores_settings_of_a_killed_lab_and_guard(machine: Callable[[str], Machine]) -> None:
    """Killed at once, they can do nothing; the file names what was changed."""
    program = realtime.program()
    found = machine("0 0")
    with found.begin("first", program) as first:
        guards = [
            int(task.name)
            for task in Path("/proc").glob("[0-9]*")
            if "\0guard\0" in _text(task / "cmdline")
            and _text(task / "status").count(f"PPid:\t{first.pid}\n")
        ]
        assert len(guards) == 1
        for one in (first.pid, guards[0]):
            os.kill(one, signal.SIGSTOP)
        for one in (guards[0], first.pid):
            os.kill(one, signal.SIGKILL)
        first.wait(10)
    found.settings_are("1 1")
    with found.begin("second", program) as second:
        second.send_signal(signal.SIGTERM)
        second.wait(10)
    found.settings_are("0 0")


@pytest.mark.lab
def test_a_lab_that_is_killed_as_it_begins_to_share_leaves_nothing(
    machine: Callable[[str], Machine],
) -> None:
    """At the first sight of the file, eight times."""
    found = machine("0 0")
    words = found.words("wait", realtime.program(), ["sleep", "60"])
    number = lab_kills.network(found.holder).strip("net:[]")
    file = f"/run/bentpipe/forwarding-{number}"
    for _ in range(8):
        with subprocess.Popen(words, start_new_session=True) as process:
            until = time.monotonic() + 40
            while not os.path.exists(file):  # noqa: PTH110 - a Path's takes longer than what is to be met
                assert process.poll() is None
                assert time.monotonic() < until
            process.kill()
        until = time.monotonic() + 5
        while os.path.exists(file):  # noqa: PTH110
            assert time.monotonic() < until, Path(file).read_text()
            time.sleep(0.01)
        found.settings_are("0 0")


@pytest.mark.lab
def test_no_packet_leaves_before_the_rules(machine: Callable[[str], Machine], tmp_path: Path) -> None:
    """An `nft` that takes two seconds to begin: a receiver of a packet from a lab's address has no route back to it."""
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "nft").write_text('#!/bin/sh\nsleep 2\nexec "$0-itself" "$@"\n')
    (slow / "nft").chmod(0o755)
    (slow / "nft-itself").symlink_to(shutil.which("nft", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "")
    found = machine("0 0")
    with found.begin("first", realtime.program(), str(slow)) as first:
        first.kill()
    assert set((tmp_path / "first").read_text().split()) == {"yes"}


@pytest.mark.lab
def test_refused_rules_are_reported(machine: Callable[[str], Machine], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "nft").write_text(
        "#!/bin/sh\necho 'Error: Could not process rule: Operation not supported'\ncat\n"
    )
    (wrong / "nft").chmod(0o755)
    found = machine("0 0")
    (tmp_path / "path.toml").write_text(SCENARIO)
    plan = {
        "lab": lab(str(tmp_path / "path.toml")),
        "commands": [{"name": "one", "command": ["true"]}],
        "has_uplink": True,
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run(
        ["nsenter", "-t", str(found.holder), "-n", str(realtime.program()), "lab", str(tmp_path / "plan.json")],
        env={**os.environ, "PATH": f"{wrong}:{os.environ['PATH']}"}, capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "nft: Could not process rule: Operation not supported" in done.stderr
    found.settings_are("0 0")


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
