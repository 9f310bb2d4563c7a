"""Tests of ``bentpipe-rt pep``: TCP split between real sockets, by one proxy in separate namespaces."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bentpipe.lab.kernel_tcp import Machine, check_proxies
from bentpipe.runners import engine
from namespaces import Namespace, default, forward, join, namespaces
from proxy_chains import CLIENT, SERVER, connect, listen, needed, proxies, proxy, received, send_and_end


@pytest.fixture(scope="module")
def program() -> Path:
    return needed()


@dataclass
class Line:
    """Client, proxy, server; the plan of the proxy."""

    client: Namespace
    middle: Namespace
    server: Namespace
    plan: dict[str, Any]
    counters: Path

    def last(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.counters.read_text().splitlines()[-1])
        return found


@pytest.fixture
def line(program: Path, tmp_path: Path) -> Iterator[Line]:
    """client 10.9.1.1 - 10.9.1.2 proxy 10.9.2.1 - 10.9.2.2 server."""
    del program
    with namespaces(3) as (client, middle, server):
        join(client, middle, "n", 1)
        join(middle, server, "f", 2)
        default(client, 1, 2)
        default(server, 2, 1)
        forward(middle)
        counters = tmp_path / "counters.jsonl"
        plan = {
            "proxy": proxies(path__gateway__buffer="100 kB")[1],
            "client_device": "nr",
            "server_device": "fl",
            "counters": {"file": str(counters), "interval_ns": 50_000_000},
        }
        yield Line(client, middle, server, plan, counters)


@pytest.mark.lab
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("setup", ["early", "relayed"])
def test_both_ends_see_each_other_and_halves_close_alone(
    program: Path, line: Line, tmp_path: Path, version: int, setup: str
) -> None:
    line.plan["proxy"]["handshake"] = setup
    with proxy(program, line.middle, line.plan, tmp_path), listen(line.server, version) as server:
        near = connect(line.client, version)
        far, peer = server.accept()
        assert peer[:2] == near.getsockname()[:2]
        assert peer[0] == CLIENT[version]
        assert near.getpeername()[:2] == far.getsockname()[:2] == (SERVER[version], 4433)
        sent = bytes(range(256)) * 8192
        thread = threading.Thread(target=send_and_end, args=(near, sent))
        thread.start()
        assert received(far) == sent
        thread.join()
        # The other half is open still.
        far.sendall(b"still here")
        far.close()
        assert received(near) == b"still here"
        near.close()
        # It was the proxy: the kernel there has two connections' counts.
        deadline = time.monotonic() + 5
        while (last := line.last())["open"] and time.monotonic() < deadline:
            time.sleep(0.02)
    last = line.last()
    assert (last["end"], last["open"]) == (True, 0)
    assert [last[side]["connections"] for side in ("client_side", "server_side")] == [1, 1]
    assert last["server_side"]["sent_bytes"] >= len(sent) == last["client_side"]["received_bytes"] - 1
    # Nothing stays in the namespace.
    assert "bentpipe" not in line.middle.run("nft", "list", "ruleset")
    assert "0x70" not in line.middle.run("ip", "rule")


@pytest.mark.lab
def test_packets_of_the_kernel_after_both_ends_are_counted(program: Path, line: Line, tmp_path: Path) -> None:
    """Both ends have sent all data and the proxy is done; the client reads it later."""
    sent = bytes(60_000)

    def small_window() -> socket.socket:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect((SERVER[4], 4433))
        return one

    def counted(wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 5
        while not wanted(last := line.last()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return last

    with proxy(program, line.middle, line.plan, tmp_path), listen(line.server) as server:
        near = line.client.inside(small_window)
        far, _ = server.accept()
        near.shutdown(socket.SHUT_WR)
        send_and_end(far, sent)
        assert received(far) == b""
        far.close()
        before = counted(lambda last: last["server_side"]["connections"] == 1 and not last["open"])
        assert before["open"] == 0
        assert before["client_side"]["written_bytes"] < len(sent)
        assert received(near) == sent
        near.close()
        after = counted(lambda last: last["client_side"]["written_bytes"] == len(sent))
        assert after["client_side"]["written_bytes"] == len(sent) < after["client_side"]["sent_bytes"]
    assert line.last()["client_side"]["written_bytes"] == len(sent)


@pytest.mark.lab
def test_a_server_that_refuses_is_a_client_that_is_refused(program: Path, line: Line, tmp_path: Path) -> None:
    """Relayed: as from end to end. Early: the client is connected already, and reset."""
    line.plan["proxy"]["handshake"] = "relayed"
    with proxy(program, line.middle, line.plan, tmp_path):
        for version in (4, 6):
            with pytest.raises(ConnectionRefusedError):
                connect(line.client, version)
    assert line.last()["unreachable"] == 2
    line.plan["proxy"]["handshake"] = "early"
    with proxy(program, line.middle, line.plan, tmp_path):
        for version in (4, 6):
            # On so short a way the reset may come before connect() has returned.
            with pytest.raises(ConnectionResetError):
                connect(line.client, version).recv(1)
    assert (line.last()["unreachable"], line.last()["open"]) == (2, 0)


@pytest.mark.lab
def test_a_reset_is_carried_over_both_ways(program: Path, line: Line, tmp_path: Path) -> None:
    at_once = struct.pack("ii", 1, 0)
    with proxy(program, line.middle, line.plan, tmp_path), listen(line.server) as server:
        for breaks_off in ("client", "server"):
            near = connect(line.client)
            far, _ = server.accept()
            near.sendall(b"x")
            assert far.recv(1) == b"x"
            one, other = (near, far) if breaks_off == "client" else (far, near)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            one.close()
            other.settimeout(5)
            with pytest.raises(ConnectionResetError):
                other.recv(1)
    assert (line.last()["reset"], line.last()["open"]) == (2, 0)


@pytest.mark.lab
def test_a_reader_that_stalls_stops_the_sender_and_bounds_what_is_held(
    program: Path, line: Line, tmp_path: Path
) -> None:
    for side in ("client_side", "server_side"):
        line.plan["proxy"][side]["tcp"] |= {"receive_buffer_bytes": 300_000, "send_buffer_bytes": 300_000}
    bound = line.plan["proxy"]["buffer_bytes"]
    with proxy(program, line.middle, line.plan, tmp_path) as process, listen(line.server) as server:
        near = connect(line.client)
        far, _ = server.accept()
        near.setblocking(False)
        began = still = time.monotonic()
        sent = held = 0
        while held != bound and time.monotonic() < began + 20:
            with contextlib.suppress(BlockingIOError):
                sent += near.send(bytes(1 << 20))
                still = time.monotonic()
            if time.monotonic() > still + 0.5:
                held = line.last()["server_side"]["buffered_bytes"]
            time.sleep(0.001)
        assert held == bound, "the buffer is full, and no fuller"
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident = next(text for text in status.splitlines() if text.startswith("VmRSS"))
        assert int(resident.split()[1]) < 40_000
        # Everything comes once it is read.
        near.setblocking(True)
        near.shutdown(socket.SHUT_WR)
        assert len(received(far)) == sent > bound
    assert line.last()["server_side"]["largest_buffered_bytes"] == bound


@pytest.mark.lab
def test_two_thousand_connections_at_a_time_and_no_more(program: Path, line: Line, tmp_path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    count = 2000
    line.plan["connections"] = count
    with proxy(program, line.middle, line.plan, tmp_path), listen(line.server) as server:
        nears: list[socket.socket] = []

        def all_of_them() -> None:
            nears.extend(socket.create_connection((SERVER[4], 4433), 10) for _ in range(count))

        thread = threading.Thread(target=lambda: line.client.inside(all_of_them))
        thread.start()
        fars = [server.accept()[0] for _ in range(count)]
        thread.join()
        with pytest.raises(ConnectionRefusedError):
            connect(line.client)
        for number, near in enumerate(nears):
            near.sendall(number.to_bytes(4, "big"))
        by_port = {near.getsockname()[1]: number for number, near in enumerate(nears)}
        for far in fars:
            far.settimeout(10)
            assert int.from_bytes(far.recv(4), "big") == by_port[far.getpeername()[1]]
        for one in (*nears, *fars):
            one.close()
        deadline = time.monotonic() + 10
        while line.last()["open"] and time.monotonic() < deadline:
            time.sleep(0.05)
    last = line.last()
    assert (last["open"], last["refused"]) == (0, 1)
    assert last["client_side"]["connections"] == last["server_side"]["connections"] == count


def syn(source: str, target: str, port: int, to: int) -> bytes:
    """A first SYN of IPv4 (RFC 791 section 3.1, RFC 9293 section 3.1) without options."""

    def checksum(data: bytes) -> int:
        total = sum(struct.unpack(f"!{len(data) // 2}H", data))
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        return ~total & 0xFFFF

    ends = socket.inet_aton(source) + socket.inet_aton(target)
    # The kernel fills in the IP header's checksum and identification (raw(7)).
    header = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0) + ends
    segment = struct.pack("!HHIIBBHHH", port, to, port * 7919, 0, 0x50, 0x02, 64240, 0, 0)
    total = checksum(ends + struct.pack("!HH", socket.IPPROTO_TCP, len(segment)) + segment)
    return header + segment[:16] + struct.pack("!H", total) + segment[18:]


def flood(client: Namespace, count: int, to: int, pause_s: float = 0) -> None:
    """``count`` SYNs from ports on which nothing waits for an answer."""

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
            for number in range(count):
                raw.sendto(syn(CLIENT[4], SERVER[4], 1024 + number % 30_000, to), (SERVER[4], 0))
                time.sleep(pause_s)

    client.inside(send)


def greets(line: Line, server: socket.socket) -> None:
    """A client gets in and its byte gets through, long before a half-open connection is given up (63 s)."""
    server.settimeout(20)
    near = connect(line.client, timeout=20)
    far, _ = server.accept()
    near.sendall(b"x")
    far.settimeout(20)
    assert far.recv(1) == b"x"
    far.close()
    near.close()


@pytest.mark.lab
@pytest.mark.parametrize("setup", ["early", "relayed"])
def test_handshakes_that_clients_reset_free_their_places(
    program: Path, line: Line, tmp_path: Path, setup: str
) -> None:
    """The client's kernel resets an unknown connection."""
    line.plan["connections"] = 100
    line.plan["proxy"]["handshake"] = setup
    with (
        proxy(program, line.middle, line.plan, tmp_path),
        listen(line.server) as server,
        listen(line.server, port=4434),
    ):
        # No faster than places are freed on any machine: none has to give way.
        for wave in range(1, 11):
            flood(line.client, 50, 4434)
            deadline = time.monotonic() + 20
            while (last := line.last())["reset"] < 50 * wave and time.monotonic() < deadline:
                time.sleep(0.02)
            names = ("reset", "open", "refused", "evicted_half_open")
            assert [last[name] for name in names] == [50 * wave, 0, 0, 0]
        greets(line, server)
        # The proxy learns of the last close a little later than its client.
        deadline = time.monotonic() + 20
        while line.last()["open"] and time.monotonic() < deadline:
            time.sleep(0.02)
        assert line.last()["open"] == 0


@pytest.mark.lab
@pytest.mark.parametrize("setup", ["early", "relayed"])
def test_handshakes_that_nobody_ends_give_way_and_established_connections_stay(
    program: Path, line: Line, tmp_path: Path, setup: str
) -> None:
    """SYNs of a sender that is not there, at most 500 a second at 400 places: each has one for its 0.5 s at least."""
    line.plan["connections"] = 400
    line.plan["proxy"]["handshake"] = setup
    line.client.run("nft", "add table inet quiet")
    line.client.run("nft", "add chain inet quiet out { type filter hook output priority 0; }")
    line.client.run("nft", "add rule inet quiet out tcp dport 4434 tcp flags & rst == rst drop")
    with (
        proxy(program, line.middle, line.plan, tmp_path),
        listen(line.server) as server,
        listen(line.server, port=4434),
    ):
        before = connect(line.client)
        beyond, _ = server.accept()
        flooding = threading.Thread(target=flood, args=(line.client, 2500, 4434, 0.002))
        flooding.start()
        while not line.last()["evicted_half_open"]:
            assert flooding.is_alive()
            time.sleep(0.02)
        for _ in range(3):
            greets(line, server)
        flooding.join()
        # The flood's are still half-open, and as many as there are places for.
        assert line.last()["open"] <= 400
        greets(line, server)
        before.sendall(b"still here")
        beyond.settimeout(20)
        assert beyond.recv(100) == b"still here"
        beyond.close()
        before.close()
    last = line.last()
    assert last["refused"] == 0
    assert last["evicted_half_open"] > 0


@pytest.mark.lab
def test_packets_of_other_devices_are_not_split(program: Path, line: Line, tmp_path: Path) -> None:
    with namespaces(1) as (stranger,):
        join(stranger, line.middle, "s", 3)
        default(stranger, 3, 2)
        with proxy(program, line.middle, line.plan, tmp_path), listen(line.server) as server:
            near = connect(stranger)
            far, peer = server.accept()
            assert peer[0] == "10.9.3.1"
            near.sendall(b"hello")
            assert far.recv(5) == b"hello"
            # From the server's side towards the client's it is.
            back = line.client.inside(lambda: socket.create_server((CLIENT[4], 8080)))
            out = line.server.inside(lambda: socket.create_connection((CLIENT[4], 8080), 10))
            got, peer = back.accept()
            assert peer == out.getsockname()
            got.sendall(b"there")
            assert out.recv(5) == b"there"
            back.close()
    last = line.last()
    assert (last["client_side"]["connections"], last["server_side"]["connections"]) == (1, 1)


@pytest.mark.lab
def test_a_proxy_that_is_killed_leaves_no_rule_and_the_way_open(
    program: Path, line: Line, tmp_path: Path
) -> None:
    with proxy(program, line.middle, line.plan, tmp_path) as process, listen(line.server) as server:
        near = connect(line.client)
        far, _ = server.accept()
        near.sendall(b"x")
        assert far.recv(1) == b"x"
        process.send_signal(signal.SIGKILL)
        process.wait(5)
        near.settimeout(5)
        far.settimeout(5)
        for one in (near, far):
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b"", "both halves have ended"
        deadline = time.monotonic() + 5
        while "bentpipe" in line.middle.run("nft", "list", "ruleset"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        again = connect(line.client)
        through, _ = server.accept()
        again.sendall(b"direct")
        assert through.recv(6) == b"direct"


@pytest.mark.lab
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"client_device": "nowhere"}, "this namespace has no device nowhere"),
        ({"client_device": "fl"}, "client_device and server_device are both fl"),
        (
            {"proxy.server_side.congestion": "hybla"},
            'server_side.congestion: found "hybla" (Hybla), which the kernel',
        ),
        (
            {"proxy.server_side.congestion": "vegass"},
            'server_side.congestion: found "vegass", expected one of',
        ),
        (
            {"proxy.client_side.congestion": "bbr3"},
            'expected "bbr1", which the kernel has as BBR version 1 (tcp_bbr.c)',
        ),
        ({"proxy.client_side.tcp.prr": False}, "client_side.tcp.prr: found false, expected true"),
        ({"proxy.client_side.tcp.sack": False}, "client_side.tcp.sack and server_side.tcp.sack differ"),
        ({"proxy.handshake": "pooled"}, "to_pool: missing, expected a pool with handshake = Pooled"),
        ({"proxy.buffer_bytes": 10}, "buffer_bytes: found 10, expected at least a segment"),
        ({"connections": 0}, "connections: found 0"),
    ],
)
def test_impossible_requests_are_refused(
    program: Path, line: Line, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    for key, value in change.items():
        table = line.plan
        *tables, name = key.split(".")
        for word in tables:
            table = table[word]
        table[name] = value
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(line.plan))
    words = ["nsenter", "-t", str(line.middle.pid), "-n", str(program), "pep", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "bentpipe" not in line.middle.run("nft", "list", "ruleset")


@pytest.mark.lab
def test_full_disks_under_a_proxy(program: Path, line: Line, tmp_path: Path) -> None:
    """It cannot report that it splits, so it does not. Counters that cannot be kept end nothing but their file."""
    line.plan["counters"]["file"] = "/dev/full"
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(line.plan))
    words = ["nsenter", "-t", str(line.middle.pid), "-n", str(program), "pep", str(file)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=10, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "error: standard output: No space left on device" in done.stderr
    assert "bentpipe" not in line.middle.run("nft", "list", "ruleset")
    with (
        listen(line.server) as server,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"]
        one = connect(line.client)
        other, _ = server.accept()
        one.sendall(b"split")
        assert other.recv(5) == b"split"
        # A few more lines would be due.
        time.sleep(0.2)
        process.terminate()
        _, message = process.communicate(timeout=10)
        one.close()
        other.close()
    assert (process.returncode, message.count("\n")) == (2, 1), message
    assert "error: counters: /dev/full: No space left on device" in message


SECOND = 1_000_000_000
LINUX = {"slow_start_exit": "classic", "avoidance": "linux"}
CHANGES: list[dict[str, Any]] = [
    {"initial_rto_ns": 3 * SECOND}, {"max_rto_ns": 60 * SECOND}, {"min_rto_ns": 1_500_000}, {"min_rto_ns": 50_000_000},
    {"rto_estimate": "rfc6298"}, {"loss_detection": {"kind": "duplicate_acks", "threshold": 3, "forward": True}},
    {"loss_detection": {"kind": "duplicate_acks", "threshold": 5}}, {"limited_transmit": False}, {"prr": False},
    {"ack_counting": {"kind": "per_ack"}}, {"ack_counting": {"kind": "bytes", "limit": 2}}, {"fast_open": True},
    {"pacing": True}, {"delayed_ack": None}, {"delayed_ack": {"timeout_ns": 40_000_000, "segments_per_ack": 1, "quick_acks": 16}},
    {"mss_bytes": 1000}, {"initial_window_bytes": 100_000}, {"receive_buffer_bytes": 100_000}, {"send_buffer_bytes": 100_000},
    *({option: False} for option in ("sack", "dsack", "adapt_reordering", "frto", "timestamps", "window_scaling",
                                     "restart_after_idle")),
    {"ecn": True},
]  # fmt: skip
"""One option of a socket, other than Linux has it or not."""


@pytest.mark.lab
def test_the_planner_refuses_what_a_proxy_refuses_and_nothing_else(program: Path, tmp_path: Path) -> None:
    """Both sides changed alike, one of them, and every controller with and without options. A proxy with valid sockets
    fails for its devices, which do not exist."""
    file = tmp_path / "plan.json"

    def judged(*sides: dict[str, Any]) -> tuple[bool, bool, str]:
        proxy = proxies()[1]
        for word, changed in zip(("client_side", "server_side"), sides, strict=False):
            tcp = {key: value for key, value in changed.items() if key not in ("congestion", "options")}
            proxy[word] |= {key: changed[key] for key in changed.keys() - tcp.keys()}
            proxy[word]["tcp"] |= tcp
        plan = {"proxy": proxy, "client_device": "none1", "server_device": "none2", "connections": 10}
        file.write_text(json.dumps(plan))
        done = subprocess.run([program, "pep", file], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        spec: Any = {"proxies": [proxy]}
        planner = check_proxies(spec, engine.catalogue(), Machine())
        return bool(planner), "has no device" not in done.stderr, f"{sides}: {planner}; {done.stderr}"

    cases = [judged(*[change] * count) for change in CHANGES for count in (1, 2)]
    names = [name for entry in engine.catalogue() for name in (entry["scenario_name"], *entry["aliases"])]
    cases += [judged({"congestion": name}) for name in names]
    known = {"rate_bit_s": 1_000_000, "window_bytes": 100_000}
    for name, options in (("cubic", LINUX), ("cubic", {"beta": 0.5}), ("fixed", known)):
        cases.append(judged({"congestion": name, "options": options}))
    assert [message for planner, proxy, message in cases if planner != proxy] == []
    assert {planner for planner, _, _ in cases} == {True, False}
