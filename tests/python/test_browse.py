"""``bentpipe browse``: units in a real Chromium, and what is read out of them."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import realtime
from bentpipe import studies
from bentpipe.lab.access import path_of
from bentpipe.lab.browser import split
from bentpipe.lab.browser.chromium import Site, flags
from bentpipe.lab.browser.connections import connections
from bentpipe.lab.browser.far import authorities, lab_plan, object_of
from bentpipe.lab.browser.measurements import _Tables
from bentpipe.lab.browser.pcapng import Packet, Writer, read
from bentpipe.lab.browser.planned import Options, in_order, pauses, plan_units
from bentpipe.lab.browser.runner import BrowserRunner, Due
from bentpipe.lab.browser.serving import Serving, plan
from bentpipe.report.report import build
from bentpipe.runners import engine
from bentpipe.scenario.har import read_har
from bentpipe.scenario.problems import ScenarioError
from bentpipe.store.files import DiskError
from bentpipe.store.reader import Store
from bentpipe.studies.thomas_2019 import real

CATALOGUE = engine.catalogue()
ROOT = Path(__file__).parents[2]

HEAD = """
title = "A small page"
duration = "30 s"
"""
SATELLITE = """
[[path.segment]]
name = "satellite"
delay = "60 ms"
down = { rate = "25 Mbit/s" }
up = { rate = "5 Mbit/s" }
"""
FLOW = """
[[flow]]
name = "browser"
congestion = "cubic"
load = { page = "target-b" }
"""
SCENARIO = HEAD + SATELLITE + FLOW


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(SCENARIO)
    return file


# --- units ---------------------------------------------------------------------------------------------------------


def test_both_versions_are_compared_unless_the_scenario_says_otherwise(scenario: Path) -> None:
    found = plan_units(str(scenario), Options(units=3), "e", CATALOGUE)
    assert [(run.cell["flow.browser.load.http"], run.seed) for run in found.runs] == [
        (mode, seed) for mode in ("3", "2") for seed in (1, 2, 3)
    ]
    scenario.write_text(SCENARIO.replace('"target-b"', '"target-b", http = "alt-svc"'))
    assert [run.cell for run in plan_units(str(scenario), Options(units=2), "e", CATALOGUE).runs] == [{}, {}]
    chosen = plan_units(str(scenario), Options(units=1, http=("2", "1.1")), "e", CATALOGUE)
    assert [run.spec["flows"][0]["load"]["http"] for run in chosen.runs] == ["2", "1.1"]


def test_units_have_names_of_their_own_and_keep_them(scenario: Path) -> None:
    def ids(**options: Any) -> set[str]:
        return {run.id for run in plan_units(str(scenario), Options(units=2, **options), "e", CATALOGUE).runs}

    assert ids() == ids()
    for other in ({"pause_s": (1.0, 2.0)}, {"loads": 2}, {"timeout_s": 9.0}, {"netlog": True}):
        assert not ids() & ids(**other), other
    real = {"field_host": "127.0.0.1"}
    assert ids(**real, real=("1", "a")) == ids(**real, real=("1", "b"))
    assert not ids(**real, real=("1", "")) & ids(**real, real=("2", ""))


def test_order_is_drawn_within_a_number_and_pauses_within_their_range(scenario: Path) -> None:
    runs = plan_units(str(scenario), Options(units=40), "e", CATALOGUE).runs
    ordered = in_order(runs)
    assert [run.seed for run in ordered] == [seed for seed in range(1, 41) for _ in range(2)]
    first = [run.spec["flows"][0]["load"]["http"] for run in ordered[::2]]
    assert 10 <= first.count("3") <= 30  # 20 expected; outside has a chance of 1 in 500
    times = [pause for run in runs for pause in pauses(run)]
    assert len(times) == 160
    assert 5.0 <= min(times) < 5.5
    assert 14.5 < max(times) <= 15.0
    assert len(set(times)) == 160


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('target-b"', 'target-b", resumption = true', "loses tickets"),
        ('target-b"', 'target-b", keep_connections = true', "closed between"),
        ('target-b"', 'target-b", tls = "1.2"', "1.2-false-start"),
        ('congestion = "cubic"', 'congestion = "hybla"', "this kernel's TCP has .*cubic"),
        (
            'congestion = "cubic"',
            'congestion = "bbr"',
            r'found "bbr", which is BBRv3; .*did you mean "bbr1", BBR version 1',
        ),
        (
            'congestion = "cubic"',
            'congestion = { name = "cubic", slow_start_exit = "hystart++" }',
            'Linux\'s cubic is { name = "cubic", slow_start_exit = "classic" }',
        ),
        ('page = "target-b"', 'bytes = "1 MB"', "one flow with load"),
    ],
)
def test_what_a_browser_cannot_do_is_refused_by_its_key(
    scenario: Path, old: str, new: str, message: str
) -> None:
    scenario.write_text(SCENARIO.replace(old, new))
    with pytest.raises(ScenarioError, match=message):
        plan_units(str(scenario), Options(), "e", CATALOGUE)


def test_beside_a_simulated_tcp_the_kernels_has_to_be_the_same(scenario: Path) -> None:
    """What the scenario leaves open is the kernel's for a browser alone; for `agree` it is the simulation's."""
    assert plan_units(str(scenario), Options(units=1), "e", CATALOGUE).runs
    with pytest.raises(ScenarioError, match=r"slow_start_exit = .hystart.*; Linux's cubic is"):
        plan_units(str(scenario), Options(units=1, same_tcp=True), "e", CATALOGUE)
    linux = 'tcp = { congestion = { name = "cubic", slow_start_exit = "classic", avoidance = "linux" } }\n'
    scenario.write_text(SCENARIO + linux)
    assert plan_units(str(scenario), Options(units=1, same_tcp=True), "e", CATALOGUE).runs
    # QUIC's controller is not TCP's
    scenario.write_text(SCENARIO.replace('"cubic"', '"bbr3"') + linux)
    assert plan_units(str(scenario), Options(units=1, same_tcp=True), "e", CATALOGUE).runs
    assert plan_units(str(scenario), Options(units=1, http=("3",)), "e", CATALOGUE).runs


def test_what_the_proxies_sockets_cannot_be_is_refused_by_its_key(scenario: Path) -> None:
    """For a browser alone a proxy's CUBIC is the kernel's; beside a simulated page the socket that sends it has to say so."""
    split = HEAD + realtime.split(SATELLITE) + FLOW
    linux = '{ name = "cubic", slow_start_exit = "classic", avoidance = "linux" }'
    same = f"tcp = {{ congestion = {linux} }}\n"

    def refused(text: str, **options: Any) -> list[str]:
        scenario.write_text(text)
        try:
            assert plan_units(str(scenario), Options(units=1, **options), "e", CATALOGUE).runs
        except ScenarioError as error:
            return [key for key, _ in error.problems]
        return []

    assert refused(split + same) == []
    sends = [f"path.{name}.client_side.congestion" for name in ("terminal", "gateway")]
    assert refused(split + same, same_tcp=True) == sends
    assert refused(split + same, same_tcp=True, http=("3",)) == []
    assert refused(split + same + f"[tcp]\ncongestion = {linux}\n", same_tcp=True) == []
    hybla = split.replace('"early"', '"early"\nclient_side = { congestion = "hybla" }')
    # A lab starts its proxies whatever the page comes over.
    for http in ("2", "3"):
        assert refused(hybla + same, http=(http,)) == sends
    slow = split.replace('"early"', '"early"\nserver_side = { initial_rto = "3 s" }')
    assert refused(slow + same) == [
        f"path.{name}.server_side.initial_rto" for name in ("terminal", "gateway")
    ]


def test_a_controller_of_quic_alone_is_not_passed_to_the_kernel(scenario: Path, tmp_path: Path) -> None:
    for given, of_tcp in (("bbr1", "bbr1"), ("newreno", "newreno"), ("bbr", None), ("hybla", None)):
        words = plan(Serving("target-a", congestion=given))
        assert (words["congestion"]["name"], words["tcp"]["congestion"]) == (given, of_tcp)
    scenario.write_text(SCENARIO + 'tcp = { congestion = "bbr3" }\n')
    with pytest.raises(ScenarioError, match=r'flow.browser.tcp.congestion: .*did you mean "bbr1"'):
        plan(Serving(str(scenario)))


@pytest.mark.parametrize(
    ("tcp", "key", "words"),
    [
        ('min_rto = "1 s"', "min_rto", "Linux's is 200 ms"),
        ('initial_rto = "3 s"', "initial_rto", "no setting"),
        ('server = { max_rto = "60 s" }', "server.max_rto", "120 s"),
        ('delayed_ack = "off"', "delayed_ack", "no setting"),
        ("limited_transmit = false", "limited_transmit", "always"),
        ("adapt_reordering = false", "adapt_reordering", "always"),
        ("prr = false", "prr", "always"),
        ("pacing = true", "pacing", "BBR alone"),
        ("fast_open = true", "fast_open", "programs in a lab"),
        ("abc = 2", "abc", "every byte"),
        ("ip = 6", "ip", "expected 4"),
    ],
)
def test_what_the_kernels_tcp_cannot_do_is_refused_by_its_key(
    scenario: Path, tcp: str, key: str, words: str
) -> None:
    scenario.write_text(SCENARIO + f"[tcp]\n{tcp}\n")
    with pytest.raises(ScenarioError) as error:
        plan_units(str(scenario), Options(), "e", CATALOGUE)
    ((place, said),) = error.value.problems
    assert place == f"flow.browser.tcp.{key}"
    assert words in said
    # without TCP it plays no part
    assert plan_units(str(scenario), Options(http=("3",)), "e", CATALOGUE).runs


def test_options_of_tcp_are_the_kernels(scenario: Path, tmp_path: Path) -> None:
    """By the same words as a flow of `--engine emu`, each end its own."""
    scenario.write_text(
        SCENARIO
        + """
[tcp]
sack = false
timestamps = false
ecn = true
restart_after_idle = false
mss = "1000 B"
receive_buffer = "3 MB"
server = { window_scaling = false, frto = false, loss_detection = { name = "dupacks", threshold = 5 }, initial_window = "4 packets" }
"""
    )
    run = plan_units(str(scenario), Options(units=1, http=("2",)), "e", CATALOGUE).runs[0]
    lab = lab_plan(run, tmp_path, tmp_path / "home", Path("/c"), Path("/rt"), check=True)
    near, far = lab["tcp"]["near"], lab["tcp"]["far"]
    for side in (near, far):
        assert [side[key] for key in ("sack", "dsack", "timestamps", "ecn", "restart_after_idle")] == [
            False, False, False, True, False
        ]  # fmt: skip
        assert side["receive_buffer_bytes"] == 3_000_000
    duplicates = [
        {"kind": "duplicate_acks", "threshold": 3},  # without SACK
        {"kind": "duplicate_acks", "threshold": 5},
    ]
    assert [side["loss_detection"] for side in (near, far)] == duplicates
    assert [(side["window_scaling"], side["frto"]) for side in (near, far)] == [(True, True), (False, False)]
    assert (near["initial_window_bytes"], far["initial_window_bytes"]) == (10_000, 4000)
    assert {"settings", "initial_windows"} & set(lab) == set()
    assert lab["lab"]["mtu"] == 1500
    assert json.loads((tmp_path / "server.json").read_text())["tcp"]["mss_bytes"] == 1000


@pytest.mark.parametrize(
    ("mss", "mtu", "asked"), [(None, 1500, None), (8960, 9000, 8960), (1460, 1500, None)]
)
def test_links_let_the_segments_pass(
    scenario: Path, tmp_path: Path, mss: int | None, mtu: int, asked: int | None
) -> None:
    scenario.write_text(SCENARIO + ("" if mss is None else f'[tcp]\nmss = "{mss} B"\n'))
    run = plan_units(str(scenario), Options(units=1, http=("2",)), "e", CATALOGUE).runs[0]
    lab = lab_plan(run, tmp_path, tmp_path / "home", Path("/c"), Path("/rt"), check=True)
    assert lab["lab"]["mtu"] == mtu
    assert json.loads((tmp_path / "server.json").read_text())["tcp"]["mss_bytes"] == asked


def test_words_that_are_not_there(scenario: Path) -> None:
    with pytest.raises(ScenarioError, match="alt-svc"):
        plan_units(str(scenario), Options(http=("altsvc",)), "e", CATALOGUE)
    with pytest.raises(ScenarioError, match="target-a"):
        plan_units("target-aa", Options(field_host="there"), "e", CATALOGUE)
    with pytest.raises(ScenarioError, match="--field"):
        plan_units("target-a", Options(), "e", CATALOGUE)
    with pytest.raises(ScenarioError, match="--access: found it beside the scenario"):
        plan_units(str(scenario), Options(access="geo-konnect"), "e", CATALOGUE)
    with pytest.raises(ScenarioError, match="both or none"):
        plan(Serving("target-a", key=Path("k.pem")))


def test_a_har_file_behind_an_access(scenario: Path, tmp_path: Path) -> None:
    """As it is: of a preset and of a scenario, whose own flows and sweeps of them have no part in it."""
    har = tmp_path / "shop.har"
    answer = {"status": 200, "bodySize": 5000}
    har.write_text(json.dumps({"log": {"entries": [{"request": {"url": "https://a/"}, "response": answer}]}}))
    preset = Options(units=1, access="geo-konnect", settings=("path.konnect.delay=100 ms",), pep="early")
    found = plan_units(str(har), preset, "e", CATALOGUE)
    assert [run.cell["flow.browser.load.http"] for run in found.runs] == ["3", "2"]
    spec = found.runs[0].spec
    assert [one["body_bytes"] for one in spec["flows"][0]["load"]["page"]["objects"]] == [5000]
    assert {"kind": "delay", "delay_ns": 100_000_000, "changes": []} in spec["graph"]["links"][0]["down"]
    assert [one["setup"] for one in spec["proxies"]] == ["early"]
    scenario.write_text(SCENARIO + '[sweep]\n"flow.browser.congestion" = ["cubic", "newreno"]\n')
    theirs = plan_units(str(har), Options(units=1, access=str(scenario)), "e", CATALOGUE)
    assert len(theirs.runs) == 2
    assert theirs.runs[0].spec["graph"]["links"][0]["name"] == "satellite"
    with pytest.raises(ScenarioError, match="expected --access ACCESS or --field HOST"):
        plan_units(str(har), Options(), "e", CATALOGUE)
    har.write_text("{}")
    with pytest.raises(ScenarioError, match=r"shop.har is not a HAR file: expected log.entries"):
        plan_units(str(har), preset, "e", CATALOGUE)


def test_an_access_is_one_path(scenario: Path) -> None:
    scenario.write_text(SCENARIO + '[sweep]\n"path.satellite.delay" = ["60 ms", "300 ms"]\n')
    said = r"sweep.path.satellite.delay: has 2 values, and an access is one path; .* --set 'path.satellite.delay=60 ms'"
    with pytest.raises(ScenarioError, match=said):
        path_of(str(scenario))
    graph = path_of(str(scenario), [("path.satellite.delay", "300 ms")])[0]["graph"]
    assert {"kind": "delay", "delay_ns": 300_000_000, "changes": []} in graph["links"][0]["up"]


def test_the_lab_has_the_path_the_server_and_the_browser(scenario: Path, tmp_path: Path) -> None:
    run = plan_units(str(scenario), Options(units=1, http=("2",)), "e", CATALOGUE).runs[0]
    lab = lab_plan(run, tmp_path, tmp_path / "home", Path("/usr/bin/chromium"), Path("/rt"), check=True)
    assert lab["lab"]["graph"] == run.spec["graph"]
    assert lab["far"][0]["command"][:2] == ["/rt", "serve"]
    assert lab["near"][0]["command"][-1] == "{far}"
    tcp = run.spec["flows"][0]["transport"]["tcp"]
    assert lab["tcp"] == {"near": tcp["client"], "far": tcp["server"]}
    server = json.loads((tmp_path / "server.json").read_text())
    assert server["congestion"]["name"] == "cubic"
    assert server["content"]["authorities"] == {
        "origin": "origin.example:4433",
        "google": "google.example:4433",
    }
    unit = json.loads((tmp_path / "plan.json").read_text())
    assert (unit["mode"], unit["opened"], unit["url"]) == (
        "2",
        ["google.example"],
        "https://origin.example:4433/",
    )


def test_urls_are_objects_of_the_page(scenario: Path) -> None:
    page = (
        plan_units(str(scenario), Options(units=1), "e", CATALOGUE).runs[0].spec["flows"][0]["load"]["page"]
    )
    assert object_of(page, "https://origin.example:4433/") == ("index", "origin")
    assert object_of(page, "https://google.example:4433/2.png") == ("logo", "google")
    assert object_of(page, "https://google.example:4433/9.png") is None
    assert authorities(page, "www.test") == {"origin": "www.test", "google": "google.www.test"}


def test_flags_force_one_protocol_and_let_nothing_else_resolve(tmp_path: Path) -> None:
    site = Site({"a.example": "192.0.2.1", "b.example": "2001:db8::1"}, 4433, "KEY")
    by_mode = {mode: " ".join(flags(mode, site, tmp_path, sandbox=False)) for mode in ("3", "2", "alt-svc")}
    assert "--origin-to-force-quic-on=a.example:4433,b.example:4433" in by_mode["3"]
    assert "--disable-quic" in by_mode["2"]
    assert "--origin-to-force-quic-on=a.example:1,b.example:1" in by_mode["alt-svc"]
    for words in by_mode.values():
        assert "MAP a.example 192.0.2.1, MAP b.example [2001:db8::1], MAP * ~NOTFOUND" in words
        assert "--no-sandbox" in words
    assert "--no-sandbox" not in flags("3", site, tmp_path, sandbox=True)


# --- when ----------------------------------------------------------------------------------------------------------


def _at(hour: int, minute: int = 0) -> datetime.datetime:
    return datetime.datetime(2026, 3, 1, hour, minute, tzinfo=datetime.UTC)


def test_units_start_at_a_rate_and_within_hours() -> None:
    due = Due(every_s=600.0)
    assert due.wait(_at(3), None, 50.0) == 0
    assert due.wait(_at(3), 50.0, 80.0) == pytest.approx(570)
    assert due.wait(_at(3), 50.0, 900.0) == 0
    day = Due(hours=(8.0, 18.0))
    assert day.wait(_at(8), None, 0) == 0
    assert day.wait(_at(7, 30), None, 0) == pytest.approx(1800)
    assert day.wait(_at(18), None, 0) == pytest.approx(14 * 3600)
    night = Due(hours=(22.5, 6.0))
    assert night.wait(_at(23), None, 0) == night.wait(_at(5, 59), None, 0) == 0
    assert night.wait(_at(12), None, 0) == pytest.approx(10.5 * 3600)
    # The rate ends outside the hours: the next day's first.
    late = Due(every_s=3600.0, hours=(8.0, 18.0))
    assert late.wait(_at(17, 30), 0.0, 0.0) == pytest.approx(14.5 * 3600)


# --- captures --------------------------------------------------------------------------------------------------------


def _ipv4(source: int, target: int, protocol: int, body: bytes, length: int | None = None) -> bytes:
    total = 20 + (len(body) if length is None else length)
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, total, 0, 0, 64, protocol, 0, bytes([10, 0, 0, source]),
                       bytes([10, 0, 0, target])) + body  # fmt: skip


def _tcp(ports: tuple[int, int], number: int, acked: int, flags_: int, payload: bytes = b"") -> bytes:
    return (
        struct.pack("!HHIIBBHHH", *ports, number & 0xFFFFFFFF, acked & 0xFFFFFFFF, 0x50, flags_, 9, 0, 0)
        + payload
    )


def _handshake() -> list[Packet]:
    """SYN, SYN-ACK, ACK, ClientHello, ServerHello, data over the end of the numbers, the same data again."""
    isn, other = 1000, 0xFFFFFF00
    up, down = (50000, 4433), (4433, 50000)
    client_hello, server_hello = (
        b"\x16\x03\x01\x00\x80\x01" + bytes(20),
        b"\x16\x03\x03\x00\x80\x02" + bytes(94),
    )
    sent = [
        (0, True, _ipv4(2, 1, 6, _tcp(up, isn, 0, 0x02))),
        (100, False, _ipv4(1, 2, 6, _tcp(down, other, isn + 1, 0x12))),
        (100, True, _ipv4(2, 1, 6, _tcp(up, isn + 1, other + 1, 0x10))),
        (101, True, _ipv4(2, 1, 6, _tcp(up, isn + 1, other + 1, 0x18, client_hello))),
        (203, False, _ipv4(1, 2, 6, _tcp(down, other + 1, isn + 27, 0x18, server_hello))),
        (204, False, _ipv4(1, 2, 6, _tcp(down, other + 101, isn + 27, 0x18, bytes(1000)))),
        (205, False, _ipv4(1, 2, 6, _tcp(down, other + 101, isn + 27, 0x18, bytes(1000)))),
        (300, True, _ipv4(2, 1, 17, struct.pack("!HHHH", 50001, 4433, 1208, 0) + b"\xc3" + bytes(1199))),
        (350, True, _ipv4(2, 9, 17, struct.pack("!HHHH", 50001, 4433, 1208, 0) + b"\xc3" + bytes(1199))),
    ]
    return [Packet(ms * 10**6, data[:128], len(data), outgoing) for ms, outgoing, data in sent]


def test_captures_are_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    with Writer(file, 128) as writer:
        for packet in _handshake():
            writer.packet(packet.time_ns, packet.data, packet.length, packet.outgoing)
        writer.statistics(9, 0)
    data = file.read_bytes()
    assert list(read(data)) == _handshake()
    assert list(read(data[:-100]))  # cut short: what is whole
    assert list(read(b"\0" * 64)) == []
    if shutil.which("tshark"):
        words = [
            "tshark",
            "-r",
            str(file),
            "-T",
            "fields",
            "-e",
            "frame.time_epoch",
            "-e",
            "frame.len",
            "-e",
            "tcp.flags",
        ]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        assert len(said) == 9
        assert said[1].split()[2] == "0x0012"


def test_packets_are_connections_with_sequence_numbers() -> None:
    tcp, quic = connections(_handshake(), 4433, ["10.0.0.1"])
    assert [one.label for one in tcp.segments] == [
        "SYN", "SYN-ACK", "ACK", "ClientHello", "ServerHello", "data", "data",
    ]  # fmt: skip
    assert [one.sequence for one in tcp.segments if not one.outgoing] == [0, 100, 1100, 1100]
    assert [one.again for one in tcp.segments][-2:] == [False, True]
    assert tcp.segments[3].acknowledged == 0
    assert (quic.transport, [one.label for one in quic.segments]) == ("quic", ["Initial"])
    assert connections(_handshake(), 4434, ["10.0.0.1"]) == []


def test_bytes_that_are_no_packets_do_no_harm() -> None:
    chance = random.Random(3)  # noqa: S311
    for _ in range(2000):
        data = bytearray(chance.randbytes(chance.randrange(0, 129)))
        if len(data) > 20:
            data[0] = chance.choice((0x45, 0x4F, 0x60))
            data[9 if data[0] != 0x60 else 6] = chance.choice((6, 17))
            data[12:20] = bytes([10, 0, 0, 1, 10, 0, 0, 1])
        for one in connections([Packet(1, bytes(data), 60, True)], 4433, ["10.0.0.1"]):
            assert one.segments[0].payload >= 0 or one.transport == "quic"


# --- is TCP split? --------------------------------------------------------------------------------------------------


def _connection(
    syn: float, tls: float, received: list[tuple[float, int]], transport: str = "tcp"
) -> dict[str, Any]:
    return {"transport": transport, "handshake_ms": syn, "tls_ms": tls if transport == "tcp" else None,
            "again": False, "received": received}  # fmt: skip


def _doubling(rtt: float, window: int, most: int, trips: int) -> list[tuple[float, int]]:
    return [
        (trip * rtt + step * rtt / 20, min(window * 2**trip, most) // 10)
        for trip in range(trips)
        for step in range(10)
    ]


@pytest.mark.parametrize(
    ("syn", "tls", "received", "answer", "words"),
    [
        (2.0, 753.0, [], "split", "close to the client"),
        (720.0, 753.0, [], "split", "close to the server"),
        (751.0, 753.0, _doubling(750, 14600, 2_300_000, 12), "not split", "slow start"),
        (751.0, 753.0, _doubling(750, 2_300_000, 2_300_000, 5), "split", "relays"),
        (751.0, 753.0, [(0.0, 11_000)], "uncertain", "too little"),
        (730.0, 753.0, _doubling(750, 14600, 2_300_000, 12), "uncertain", "within"),
    ],
)
def test_split_or_not(
    syn: float, tls: float, received: list[tuple[float, int]], answer: str, words: str
) -> None:
    found = split.judge([{"connections": [_connection(syn, tls, received), _connection(753, 0, [], "quic")]}])
    assert found.answer == answer
    assert words in found.text


def test_without_a_capture_nothing_is_claimed() -> None:
    assert split.judge([{"loads": []}]).answer == "uncertain"


# --- in a real browser ----------------------------------------------------------------------------------------------


def _cli(*words: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bentpipe.cli", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


UNIT = {"mode": "2", "error": "", "loads": [], "began_s": 1e9, "ended_s": 1e9 + 1, "port": 4433, "addresses": ["10.0.0.1"],
        "chromium": "C", "cpu": {"busy_mean": 0.1}}  # fmt: skip


def _machine(tmp_path: Path, unit: dict[str, Any], lab: dict[str, Any], status: int = 0) -> Path:
    """A bentpipe-rt whose labs end at once, with this record and result; it counts them."""
    program = tmp_path / "rt"
    folder = "$5"
    program.write_text(
        f"#!/bin/sh\ncat $2 > /dev/null\necho >> {tmp_path}/labs\ncat > {folder}/unit.json <<'E'\n{json.dumps(unit)}\nE\n"
        f"cat > {folder}/lab.json <<'E'\n{json.dumps(lab)}\nE\nexit {status}\n"
    )
    program.chmod(0o755)
    return program


def test_a_unit_that_the_machine_was_too_late_for_is_made_again_and_fails(
    scenario: Path, tmp_path: Path
) -> None:
    run = plan_units(str(scenario), Options(units=1, http=("2",)), "e", CATALOGUE).runs
    program = _machine(tmp_path, UNIT, {"valid": False, "reasons": ["9 ms late"]})
    runner = BrowserRunner(tmp_path, "e", Path("none"), program)
    (outcome,) = runner.run(run)
    assert (outcome.data, len((tmp_path / "labs").read_text())) == (None, 3)
    assert "too busy: 9 ms late" in outcome.error
    runner = BrowserRunner(tmp_path, "e", Path("none"), program, keep_late=True)
    (outcome,) = runner.run(run)
    assert (outcome.data is not None, len((tmp_path / "labs").read_text())) == (True, 4)
    assert list(tmp_path.glob(".part-*")) == []


def test_a_full_disk_ends_the_campaign_with_one_message(scenario: Path, tmp_path: Path) -> None:
    run = plan_units(str(scenario), Options(units=3, http=("2",)), "e", CATALOGUE).runs
    full = _machine(tmp_path, {**UNIT, "error": f"load-1.har: {os.strerror(28)}"}, {}, 1)
    with pytest.raises(DiskError, match="the disk is full; 0 finished units are kept"):
        list(BrowserRunner(tmp_path, "e", Path("none"), full).run(run))
    assert len((tmp_path / "labs").read_text()) == 1


def test_a_disk_too_full_for_a_record_is_said_too(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plan_units(str(scenario), Options(units=3, http=("2",)), "e", CATALOGUE).runs
    mute = _machine(tmp_path, {}, {}, 101)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(DiskError, match="the disk is full"):
        list(BrowserRunner(tmp_path, "e", Path("none"), mute).run(run))
    assert len((tmp_path / "labs").read_text()) == 1


@pytest.fixture(scope="module")
def rt() -> Path:
    realtime.need("chromium")
    os.environ.setdefault("BENTPIPE_RT", str(realtime.program()))
    return realtime.program()


@pytest.fixture(scope="module")
def server(rt: Path) -> Iterator[list[str]]:
    """``bentpipe serve`` on loopback: the words with which browse finds it."""
    command = [sys.executable, "-u", "-m", "bentpipe.cli", "serve", "target-b", "--listen", "127.0.0.1:44330"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        words = process.stdout.readline().split()
        yield ["--field", "127.0.0.1:44330", "--spki", words[-1]]
        process.send_signal(signal.SIGTERM)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files of commands: a name of its own, and short, as Chromium puts a socket there."""
    with tempfile.TemporaryDirectory(prefix="bp-") as name:
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


def _browsers() -> list[int]:
    """Processes with a profile of this test's."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"{os.environ['TMPDIR']}/bentpipe-browse-" in entry.read_text():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.system
def test_pages_by_every_version_over_loopback(server: list[str], tmp_path: Path) -> None:
    """Was it really h3? Alt-Svc is learnt by the first load and used by the second; all of it ends up in a store."""
    out = tmp_path / "store"
    command = [
        "browse",
        "target-b",
        *server,
        "--units",
        "1",
        "--pause",
        "0",
        "--http",
        "3,alt-svc",
        "--out",
        str(out),
    ]
    done = _cli(*command, "--loads", "2", "--note", "rain=none", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {(row["asked for"], row["load"]): row["came by"] for row in said["loads"]} == {
        ("HTTP/3", 1): "h3", ("HTTP/3", 2): "h3", ("Alt-Svc", 1): "h2", ("Alt-Svc", 2): "h3",
    }  # fmt: skip
    rows = Store(out).pages.to_dicts()
    assert len(rows) == 4
    for row in rows:
        assert (row["objects"], row["bytes"], row["finished"]) == (3, 11_000, 1)
        assert (
            row["connect_start_s"] < row["connect_end_s"] <= row["request_start_s"] < row["response_start_s"]
        )
        assert row["ttr_s"] < row["plt_s"] < 30
    units = [json.loads(file.read_text()) for file in out.glob("runs/*/unit.json")]
    assert all(unit["notes"] == {"rain": "none"} for unit in units)
    assert not any(
        one["transport"] == "tcp" for unit in units if unit["mode"] == "3" for one in unit["connections"]
    )
    assert {file.suffix for file in next(out.glob("runs/*/")).iterdir()} == {
        ".parquet",
        "",  # the checksums
        ".har",
        ".pcapng",
        ".json",
    }
    page = read_har(next(out.glob("runs/*/load-1.har")))
    assert sorted(one.size.bytes for one in page.object) == [1600, 3100, 6300]
    assert "Page load time" in build(out).read_text()
    again = _cli(*command, "--loads", "2", "--json")
    assert json.loads(again.stdout)["kept"] == 2
    assert _browsers() == []


@pytest.mark.system
def test_a_server_that_is_not_there_and_a_key_that_is_not_its_own(server: list[str], tmp_path: Path) -> None:
    common = ["--units", "1", "--pause", "0", "--http", "2", "--timeout", "10s", "--out"]
    nobody = ["--field", "127.0.0.1:44331", *server[2:]]
    done = _cli("browse", "target-b", *nobody, *common, str(tmp_path / "a"))
    assert (done.returncode, "nothing listens there" in done.stderr) == (1, True), done.stderr
    wrong = [*server[:3], "A" * 43 + "="]
    done = _cli("browse", "target-b", *wrong, *common, str(tmp_path / "b"))
    assert (done.returncode, "nobody vouches for the certificate" in done.stderr) == (1, True), done.stderr
    assert _browsers() == []


@pytest.mark.system
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_whatever_ends_it(server: list[str], tmp_path: Path, how: signal.Signals) -> None:
    words = [
        "browse",
        "target-b",
        *server,
        "--units",
        "9",
        "--pause",
        "90 s",
        "--http",
        "3",
        "--out",
        str(tmp_path / "s"),
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "bentpipe.cli", *words], stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(600):
            if _browsers():
                break
            time.sleep(0.05)
        else:
            pytest.fail("no browser was started")
        process.send_signal(how)
        process.wait(30)
        said = process.stderr.read() if process.stderr is not None else ""
    if how == signal.SIGINT:
        assert "the same command goes on from there" in said
    for _ in range(200):
        if not _browsers():
            break
        time.sleep(0.05)
    assert _browsers() == []
    assert not list(tmp_path.glob("s/runs/*")) or process.returncode


@pytest.mark.system
def test_a_browser_that_hangs_is_killed_and_the_campaign_goes_on(
    server: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first browser of the campaign never answers; its unit fails, the next one is made."""
    hanging = tmp_path / "chromium"
    hanging.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec chromium --version\n'
        f'mkdir {tmp_path}/once 2>/dev/null && exec sleep 987\nexec chromium "$@"\n'
    )
    hanging.chmod(0o755)
    monkeypatch.setenv("BENTPIPE_CHROMIUM", str(hanging))
    monkeypatch.setenv("BENTPIPE_BROWSER_START_S", "4")
    words = [
        "browse",
        "target-b",
        *server,
        "--units",
        "2",
        "--loads",
        "1",
        "--http",
        "2",
        "--out",
        str(tmp_path / "s"),
    ]
    done = _cli(*words, "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said["done"] == 1
    assert "did not answer" in said["failed"][0]["error"]
    assert not any("sleep 987" in _line(entry) for entry in Path("/proc").glob("[0-9]*/cmdline"))


@pytest.mark.system
def test_a_browser_that_is_killed_fails_its_unit_alone(
    server: list[str], tmp_path: Path, folder: Path
) -> None:
    """The first one, as soon as it has a connection to the server; the next unit is made, and nothing is left."""
    there = f":{44330:04X} 01"  # of proc_pid_net(5): the other end's port, and an open connection

    def kill() -> None:
        first: list[int] = []
        while not over.wait(0.002):
            pipe = "--remote-debugging-pipe"
            first = first or [one for one in _browsers() if pipe in _line(Path(f"/proc/{one}/cmdline"))]
            if first and there in Path("/proc/net/tcp").read_text():
                for one in first:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(one, signal.SIGKILL)
                return

    over = threading.Event()
    thread = threading.Thread(target=kill)
    thread.start()
    try:
        words = ["--units", "2", "--loads", "1", "--http", "2", "--out", str(tmp_path / "s"), "--json"]
        done = _cli("browse", "target-b", *server, *words)
    finally:
        over.set()
        thread.join()
    said = json.loads(done.stdout)
    assert (done.returncode, said["done"]) == (1, 1), done.stderr
    assert "the browser has ended" in said["failed"][0]["error"]
    assert _browsers() == []
    assert list(folder.iterdir()) == []


def _line(file: Path) -> str:
    try:
        return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_without_chromium_there_is_one_message(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BENTPIPE_CHROMIUM", raising=False)
    done = _cli("browse", str(scenario))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "apt-get install chromium" in done.stderr


def test_the_quota_stops_the_campaign(scenario: Path, tmp_path: Path) -> None:
    """Bytes of finished units count; no unit is started beyond them."""
    runs = plan_units(str(scenario), Options(units=3), "e", CATALOGUE).runs
    folder = tmp_path / "runs" / "x"
    folder.mkdir(parents=True)
    (folder / "unit.json").write_text(json.dumps({"capture": {"bytes": 5_000_000}}))
    runner = BrowserRunner(tmp_path, "e", Path("none"), Path("none"), due=Due(quota_bytes=5_000_000))
    assert list(runner.run(runs)) == []
    assert "5.0 MB of 5.0 MB" in runner.stopped


# --- in a lab -------------------------------------------------------------------------------------------------------


@pytest.mark.system
def test_behind_a_path_the_response_takes_its_round_trips(rt: Path, scenario: Path, tmp_path: Path) -> None:
    """HTTP/3: 2 round trips of 120 ms to the response (RFC 9001: 1 for the handshake); HTTP/2: 3 (RFC 8446: TCP's and
    TLS's). The path's counters and its check are kept."""
    realtime.need_namespaces()
    out = tmp_path / "store"
    words = [
        "browse",
        str(scenario),
        "--units",
        "1",
        "--loads",
        "1",
        "--keep-late",
        "--out",
        str(out),
        "--json",
    ]
    done = _cli(*words)
    assert done.returncode == 0, done.stderr
    units = {
        one["mode"]: one for one in (json.loads(file.read_text()) for file in out.glob("runs/*/unit.json"))
    }
    for unit in units.values():
        assert unit["lab"]["check"]["rtt_ns"] >= 120e6
        assert unit["lab"]["statuses"] == {"browser": 0, "server": 0}
    store = Store(out)
    assert set(store.links["link"]) == {"satellite.up", "satellite.down"}
    assert set(store.link_summary["rate_bit_s"]) == {5e6, 25e6}
    assert min(store.link_summary["delivered_bytes"]) > 2000  # a ClientHello of 2014 B alone
    pages = {row["http"]: row for row in store.pages.to_dicts()}
    assert {mode: page["protocol"] for mode, page in pages.items()} == {"3": "h3", "2": "h2"}
    assert pages["3"]["ttr_s"] >= 0.240
    assert pages["2"]["ttr_s"] >= 0.360
    assert not store.proxies.height
    assert split.judge(list(units.values())).answer in ("uncertain", "not split") or _late(units.values())
    _sooner(
        {mode: (pages[mode]["ttr_s"], (trips + 1) * 0.120) for mode, trips in (("3", 2), ("2", 3))},
        units.values(),
    )


def _sooner(times: Mapping[str, tuple[float, float]], units: Iterable[dict[str, Any]]) -> None:
    """Each time is below its limit, which is one round trip more than it takes: what is above that is the browser's and
    the machine's. A machine that was too late for it gives up."""
    above = {name: one for name, one in times.items() if one[0] >= one[1]}
    if above and _late(units):
        realtime.give_up(str(above))
    assert not above


def _late(units: Iterable[dict[str, Any]]) -> bool:
    """The machine did not keep up: what was measured is the machine's, not the path's."""
    return not all(unit["lab"]["valid"] and unit["cpu"]["busy_mean"] < 0.9 for unit in units)


@pytest.mark.system
def test_a_proxy_that_answers_for_the_server_is_found(rt: Path, tmp_path: Path) -> None:
    """TCP's other end is 2 ms away, the server 132 ms."""
    realtime.need_namespaces("nft")
    file = tmp_path / "split.toml"
    file.write_text(HEAD + realtime.split(SATELLITE) + FLOW)
    out = tmp_path / "store"
    words = ["--units", "1", "--loads", "1", "--http", "2", "--no-check", "--keep-late", "--out", str(out)]
    done = _cli("browse", str(file), *words)
    assert done.returncode == 0, done.stderr
    units = [json.loads(one.read_text()) for one in out.glob("runs/*/unit.json")]
    # What each proxy counted is in the store: the terminal's sockets are 2 ms from the client, 120 ms from the gateway.
    proxies = Store(out).proxies
    ends = {(row["proxy"], row["socket"]): row for row in proxies.to_dicts()}
    assert set(ends) == set(itertools.product(("terminal", "gateway"), ("client_side", "server_side")))
    assert all(row["flow"] == "browser" and row["connections"] >= 1 for row in ends.values())
    assert ends["terminal", "client_side"]["sent_packets"] > 0
    assert (
        2
        <= ends["terminal", "client_side"]["smoothed_rtt_ms"]
        < ends["terminal", "server_side"]["smoothed_rtt_ms"]
    )
    assert ends["terminal", "server_side"]["smoothed_rtt_ms"] >= 120
    assert ends["gateway", "client_side"]["cwnd_bytes"] >= 10 * 1400
    assert ends["gateway", "client_side"]["sent_bytes"] > 10_000  # the page, with headers
    found = split.judge(units)
    if found.answer != "split" and _late(units):
        realtime.give_up(f"{found.answer} in place of split")
    assert found.answer == "split"
    assert "close to the client" in found.text


@pytest.mark.system
def test_the_study_has_a_form_in_real_time(rt: Path, tmp_path: Path) -> None:
    """One target over 4G, one load, on both clocks: a row each, TTR of at least 2 and 3 round trips of 80 ms."""
    realtime.need_namespaces()
    short = {
        "flow.chrome.load.page": "target-b",
        "flow.chrome.load.loads": 1,
        "flow.chrome.load.pause": "0 s",
    }
    assert real.run(tmp_path, only="4g", seeds=1, settings=short, keep_late=True).good
    data = json.loads((tmp_path / "study.json").read_text())
    rows = data["tables"][0]["rows"]
    assert [(row["target"], row["TCP's proxy"], row["load"]) for row in rows] == [
        ("B", "QUIC on", 1), ("B", "QUIC off", 1),
    ]  # fmt: skip
    for row in rows:
        assert float(row["TTR s, simulated"]) == pytest.approx(0.250, abs=0.03)
        assert (
            float(row["TTR s, browser"]) >= 0.225
        )  # 3 x (80 - 5) ms: the wait upwards is uniform over 10 ms
    units = [json.loads(one.read_text()) for one in tmp_path.glob("4g-browser/runs/*/unit.json")]
    assert len(units) == 2
    _sooner(
        {
            row["TTR s, browser"]: (float(row["TTR s, browser"]), float(row["TTR s, simulated"]) + 0.080)
            for row in rows
        },
        units,
    )


def test_a_study_without_a_form_in_real_time_says_so(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="thomas-2019"):
        studies.run("etosat", out=tmp_path, engine="emu")
    with pytest.raises(ScenarioError, match="satcom"):
        real.run(tmp_path, only="satcomm")


def test_acks_are_counted_where_they_are_seen() -> None:
    """QUIC's are encrypted: no volume is told, not none at all."""
    tcp, quic = connections(_handshake(), 4433, ["10.0.0.1"])
    counted = [
        _Tables._counters(SimpleNamespace(found=found), (9, 900, 3, 120, 0), 0, 0)  # type: ignore[arg-type]
        for found in ([tcp], [tcp, quic], [quic])
    ]
    assert [row.get("ack_bytes") for row in counted] == [120, None, None]
    assert [row.get("sent_bytes") for row in counted] == [900, 900, 900]
