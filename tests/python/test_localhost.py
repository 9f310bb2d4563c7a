"""``localhost`` of a command over an access: servers of this machine answer through the path, in one TCP connection."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import realtime
from bentpipe.lab import access
from bentpipe.lab.plan_validation import validate_plan
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = """
[[path.segment]]
name = "satellite"
delay = "100 ms"
both = { rate = "10 Mbit/s" }
"""
RTT_S = 0.2
TCP_INFO_RTT = 68
"""Offset of tcpi_rtt, microseconds, in struct tcp_info (linux/tcp.h)."""

WILDCARD = ""
HOSTS = {WILDCARD: "localhost", "127.0.0.1": "localhost", "::1": "::1"}
"""Addresses where servers listen, with the host that a command asks: not every machine has ``localhost`` at ``::1``."""


class Server:
    """Servers of TCP and UDP of this machine at one port: they answer and keep their clients and TCP's RTT."""

    def __init__(self, address: str, port: int = 0) -> None:
        self.address = address
        family = socket.AF_INET if address == "127.0.0.1" else socket.AF_INET6
        self.tcp = socket.create_server((address, port), family=family, dualstack_ipv6=address == WILDCARD)
        self.port = int(self.tcp.getsockname()[1])
        self.udp = socket.socket(family, socket.SOCK_DGRAM)
        if address == WILDCARD:
            self.udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.udp.bind((address, self.port))
        self.clients: list[str] = []
        self.rtts_s: list[float] = []
        self.datagrams = 0

    def serve(self, ended: threading.Event) -> None:
        while not ended.is_set():
            for ready in select.select([self.tcp, self.udp], [], [], 0.05)[0]:
                if ready is self.udp:
                    data, peer = self.udp.recvfrom(99)
                    self.datagrams += 1
                    self.udp.sendto(data, peer)
                    continue
                connection, peer = self.tcp.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(10)
                    request = connection.recv(99)
                    self.clients.append(peer[0].removeprefix("::ffff:"))
                    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
                    self.rtts_s.append(struct.unpack_from("I", info, TCP_INFO_RTT)[0] / 1e6)
                    connection.sendall(request)


@contextlib.contextmanager
def serving(address: str, port: int = 0) -> Iterator[Server]:
    server, ended = Server(address, port), threading.Event()
    thread = threading.Thread(target=server.serve, args=[ended])
    thread.start()
    try:
        yield server
    finally:
        ended.set()
        thread.join()
        server.tcp.close()
        server.udp.close()


ASK = """
import json, socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
began = time.monotonic()
with socket.create_connection((host, port), 20) as tcp:
    connected = time.monotonic() - began
    peer = tcp.getpeername()[0]
    tcp.sendall(b"ask")
    answer = tcp.recv(9).decode()
    answered = time.monotonic() - began
with socket.socket(socket.AF_INET6 if ":" in peer else socket.AF_INET, socket.SOCK_DGRAM) as udp:
    udp.settimeout(5)
    for _ in range(3):
        udp.sendto(b"datagram", (peer, port))
        try:
            datagram = udp.recvfrom(9)
            break
        except TimeoutError:
            datagram = (b"", ("",))
    print(json.dumps({"connected": connected, "answered": answered, "peer": peer, "answer": answer,
                      "datagram": datagram[0].decode(), "from": datagram[1][0]}))
"""
"""Asks a server by its name, as a program does that knows nothing of paths."""


def over(folder: Path, *command: str, more: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> Any:
    """Return the result of a command over :data:`PATH`."""
    (folder / "path.toml").write_text(PATH)
    line = [
        *words,
        sys.executable,
        "-m",
        "bentpipe.cli",
        "shell",
        "path.toml",
        "--no-path-check",
        *more,
        "--",
        *command,
    ]
    environment = None if words else {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    return subprocess.run(
        line,
        cwd=None if words else folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def ask(folder: Path, server: Server, **how: Any) -> dict[str, Any]:
    done = over(folder, sys.executable, "-S", "-c", ASK, HOSTS[server.address], str(server.port), **how)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.lab
@pytest.mark.parametrize("address", HOSTS)
def test_a_server_of_this_machine_answers_through_the_path(address: str, tmp_path: Path) -> None:
    """A handshake and a request take two round trips at least. The server's own TCP has measured one: it is the other
    end of the command's connection."""
    realtime.need_namespaces("nft")
    realtime.need_root("a server of this machine without pasta")
    with serving(address) as server:
        found = ask(tmp_path, server)
    assert found["connected"] >= RTT_S
    assert found["answered"] >= 2 * RTT_S
    assert (found["answer"], found["datagram"]) == ("ask", "datagram")
    assert found["peer"] in ("127.0.0.1", "::1")
    assert found["from"] == found["peer"]
    [client], [rtt_s] = server.clients, server.rtts_s
    assert client.startswith(("10.78.", "fdbe:"))
    assert rtt_s >= RTT_S
    assert server.datagrams >= 1


@pytest.mark.lab
def test_the_address_of_the_server_side_has_servers_of_the_loopback_too(tmp_path: Path) -> None:
    realtime.need_namespaces("nft")
    realtime.need_root("a server of this machine without pasta")
    with serving("127.0.0.1") as server:
        words = [sys.executable, "-S", "-c", ASK, "{server}", str(server.port)]
        done = over(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["peer"].startswith("10.78.")
    assert server.rtts_s[0] >= RTT_S


@pytest.mark.lab
def test_with_a_proxy_the_path_is_crossed_too(tmp_path: Path) -> None:
    realtime.need_namespaces("nft")
    realtime.need_root("a server of this machine without pasta")
    with serving("127.0.0.1") as server:
        found = ask(tmp_path, server, more=("--pep", "relayed"))
    assert found["answered"] >= 2 * RTT_S
    assert server.clients[0].startswith("10.78.")


@pytest.mark.lab
@pytest.mark.nightly
def test_labs_side_by_side(tmp_path: Path) -> None:
    """Each has rules and routes of its own, and a shell in a shell reaches what listens in the outer one."""
    realtime.need_namespaces("nft")
    realtime.need_root("a server of this machine without pasta")
    with serving("::1") as server:
        inner = [sys.executable, "-S", "-c", ASK, "::1", str(server.port)]
        first: list[Any] = []
        thread = threading.Thread(target=lambda: first.append(over(tmp_path, *inner)))
        thread.start()
        second = over(tmp_path, *inner)
        thread.join()
    for done in (first[0], second):
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["answered"] >= 2 * RTT_S
    (tmp_path / "outer.py").write_text(OUTER)
    nested = [
        sys.executable,
        "-m",
        "bentpipe.cli",
        "shell",
        "path.toml",
        "--no-path-check",
        "--",
        sys.executable,
        "-S",
        "-c",
        ASK,
        "::1",
    ]
    done = over(tmp_path, sys.executable, "outer.py", *nested)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answered"] >= 2 * RTT_S


OUTER = """
import socket, subprocess, sys
with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
    with subprocess.Popen([*sys.argv[1:], str(server.getsockname()[1])]) as shell:
        connection = server.accept()[0]
        connection.sendall(connection.recv(9))
        connection.close()
sys.exit(shell.returncode)
"""
"""A server in a shell, asked by a shell inside."""

OWN = """
import socket, sys
from pathlib import Path
reserved = Path("/proc/sys/net/ipv4/ip_local_reserved_ports").read_text().strip().split(",")
for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
    with socket.create_server((host, 0), family=family) as server:
        with socket.create_connection(server.getsockname()[:2], 5) as client:
            peer = server.accept()[1]
            print(peer[0], client.getpeername()[0])
print(sys.argv[1] in {str(port) for one in reserved for port in range(int(one.split("-")[0]), int(one.split("-")[-1]) + 1)})
try:
    socket.create_connection(("localhost", 1), 5)
except ConnectionRefusedError:
    print("refused")
"""


@pytest.mark.lab
def test_a_commands_own_servers_stay_its_own(tmp_path: Path) -> None:
    """A listener inside is reachable inside; it never gets a port of this machine by chance."""
    realtime.need_namespaces("nft")
    realtime.need_root("a server of this machine without pasta")
    with serving("127.0.0.1") as server:
        done = over(tmp_path, sys.executable, "-S", "-c", OWN, str(server.port))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["127.0.0.1 127.0.0.1", "::1 ::1", "True", "refused"]


LATER = """
import socket, sys, time
from pathlib import Path
Path(sys.argv[2]).touch()
end = time.monotonic() + 30
while time.monotonic() < end:
    try:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as tcp:
            tcp.sendall(b"later")
            print(tcp.recv(9).decode(), time.monotonic() - began)
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
"""


@pytest.mark.lab
def test_a_server_that_comes_later(tmp_path: Path) -> None:
    realtime.need_namespaces("nft")
    realtime.need_root("a server of this machine without pasta")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    done: list[Any] = []
    words = [sys.executable, "-S", "-c", LATER, str(port), str(tmp_path / "inside")]
    thread = threading.Thread(target=lambda: done.append(over(tmp_path, *words)))
    thread.start()
    end = time.monotonic() + 30
    while not (tmp_path / "inside").exists() and time.monotonic() < end:
        time.sleep(0.01)
    with serving("127.0.0.1", port):
        thread.join()
    answer, seconds = done[0].stdout.split()
    assert answer == "later"
    assert float(seconds) >= 2 * RTT_S


def _tables() -> str:
    return subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout


@pytest.mark.lab
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_rules_are_left_whatever_ends_it(how: signal.Signals, tmp_path: Path) -> None:
    realtime.need_namespaces("nft")
    realtime.need_root("rules of this machine")
    (tmp_path / "path.toml").write_text(PATH)
    line = [
        sys.executable,
        "-m",
        "bentpipe.cli",
        "shell",
        "path.toml",
        "--no-path-check",
        "--",
        "sleep",
        "60",
    ]
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    before = set(_tables().splitlines())
    with subprocess.Popen(line, cwd=tmp_path, env=environment) as process:
        end = time.monotonic() + 30
        while not (new := {one for one in _tables().splitlines() if "_localhost_" in one} - before):
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(how)
        process.wait(30)
    end = time.monotonic() + 10
    while new & set(_tables().splitlines()):
        assert time.monotonic() < end, "rules are left"
        time.sleep(0.05)


TOOLS = ("pasta", "slirp4netns")


@pytest.mark.lab
@pytest.mark.parametrize(
    ("tool", "address"), [("pasta", "127.0.0.1"), ("pasta", "::1"), ("slirp4netns", "127.0.0.1")]
)
def test_an_ordinary_user(tool: str, address: str) -> None:
    """TCP of pasta and slirp4netns ends at the server side: nothing of it crosses the path, which takes two round trips.
    pasta of 2023 brings datagrams to ::1, and no answers back."""
    realtime.need_namespaces("nft", "setpriv", *TOOLS)
    others = [name for name in TOOLS if name != tool]
    with serving(address) as server, realtime.nobody(realtime.program(), others) as (place, words):
        found = ask(place, server, words=tuple(words))
        assert found["answered"] >= 2 * RTT_S
        assert (found["answer"], found["peer"]) == ("ask", address)
        if address != "::1":
            assert found["datagram"] == "datagram"
        assert server.datagrams >= 1


@pytest.mark.lab
def test_why_localhost_is_the_commands_own() -> None:
    realtime.need_namespaces("nft", "setpriv", *TOOLS)
    words_of_message = (
        "bentpipe: localhost is the client's own loopback address: ordinary users need pasta or "
        "slirp4netns, without --isolated, to reach servers of this machine\n"
    )
    with realtime.nobody(realtime.program()) as (place, words):
        done = over(place, "echo", "http://localhost:8000/", more=("--isolated",), words=tuple(words))
        assert (done.returncode, done.stderr) == (0, words_of_message)
        done = over(place, "true", more=("--isolated",), words=tuple(words))
        assert (done.returncode, done.stderr) == (0, "")
    realtime.need_root("a machine without nft")
    with realtime.nobody(realtime.program(), ["nft"]) as (place, words):
        # The words before setpriv hide nft from root.
        as_root = words[: words.index("setpriv")]
        environment = words[words.index("env") :]
        done = over(
            place, "echo", "http://127.0.0.1:8000/", more=("--isolated",), words=(*as_root, *environment)
        )
        message = "nft: entity not found (Debian: nftables); use {server}, or $BENTPIPE_SERVER in a script, instead of localhost"
        assert (done.returncode, done.stderr) == (
            0,
            f"bentpipe: localhost is the client's own loopback address: {message}\n",
        )


def test_a_lab_of_several_hosts_has_no_one_localhost() -> None:
    lab = access.lab("geo-konnect") | {"hosts": ["third"]}
    plan = {
        "lab": lab, "server_namespace": True, "forwards_localhost": True, "commands": [{"name": "one", "command": ["true"]}],
    }  # fmt: skip
    with pytest.raises(ScenarioError, match=r"forwards_localhost: cannot be combined with lab\.hosts"):
        validate_plan(plan)


def test_the_proxy_of_an_uplink_is_at_the_end_of_the_path() -> None:
    """An ordinary user's TCP crosses every segment in one connection, also where the longest is not the last."""
    spec = build_plan(access.access_document("satcom-2018", ()), "", is_simulated=False).runs[0].spec
    names = [link["name"] for link in spec["graph"]["links"]]
    split = access.insert_proxy(spec, "relayed", at_server=True)
    links = split["graph"]["links"]
    assert [link["name"] for link in links] == [*names, "ground"]
    assert [proxy["node"] for proxy in split["proxies"]] == [links[-1]["client_side"]] == ["gateway"]
    assert links[-2]["server_side"] == "gateway"
    longest = access.insert_proxy(spec, "relayed")
    assert longest["proxies"][0]["node"] == "satellite-internet"
    taken = {
        **spec,
        "graph": {**spec["graph"], "nodes": [*spec["graph"]["nodes"], {"name": "gateway", "kind": "router"}]},
    }
    assert access.insert_proxy(taken, "relayed", at_server=True)["proxies"][0]["node"] == "gateway-2"
