"""Options of ``bentpipe perf``: loads, hosts, and requests of a controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bentpipe.lab.perf import (
    Client,
    Options,
    Output,
    Server,
    assign_controller,
    client_plan,
    load,
    server_plan,
)
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.flow.perf_string import DataAmount, TimeAmount
from bentpipe.scenario.quantities import Duration


def test_the_plain_words_of_a_load() -> None:
    both = load(time="3 s", send="both", streams=2)
    assert [stream.stream_id for stream in both] == [0, 4, 8, 12]
    assert [stream.amount.send for stream in both if isinstance(stream.amount, TimeAmount)] == [
        "up", "down", "up", "down"
    ]  # fmt: skip
    assert load(size="1 MB")[0].amount == DataAmount(1_000_000, 0)
    assert load(size="1MB", send="down")[0].amount == DataAmount(8, 1_000_000)
    assert load()[0].amount == TimeAmount(Duration.parse("10 s"), "up")
    assert load("D:*1:0:-:100:200")[0].amount == DataAmount(100, 200)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"text": "X:1"}, "LOAD: .*expected T"),
        ({"text": "T:*1:0:-:1s", "time": "1 s"}, "LOAD and --time, expected one of them"),
        ({"time": "1 parsec"}, "--time: .*expected a duration"),
        ({"size": "0 B"}, "--bytes"),
        ({"streams": 0}, "--streams: found 0"),
    ],
)
def test_a_load_that_cannot_be(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        load(**words)


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("example.org", ("example.org", 4433)),
        ("example.org:99", ("example.org", 99)),
        ("[::1]:99", ("::1", 99)),
        ("::1", ("::1", 4433)),
    ],
)
def test_hosts(host: str, found: tuple[str, int]) -> None:
    plan = client_plan(Client(host, load()), Options(), Output())
    assert (plan["host"], plan["port"]) == found


def test_options_that_cannot_be() -> None:
    streams = load()
    for client, options, message in [
        (Client("h:0", streams), Options(), "port"),
        (Client("h", streams, alpn="perv"), Options(), 'did you mean "perf"'),
        (Client("h", streams), Options(mtu="1199"), "1200"),
        (Client("h", streams), Options(initial_window="0"), "--initial-window"),
        (Client("h", streams, insecure=True, fingerprint="00"), Options(), "cannot be combined with"),
        (Client("h", streams, transport="tpc"), Options(), 'did you mean "tcp"'),
        (Client("h", streams, transport="all"), Options(), "--transport"),
        (Client("h", streams, transport="tcp"), Options(initial_window="20"), "is a setting of the route"),
        (Client("h", streams, transport="tls"), Options(mtu="1300"), "--mss"),
        (Client("h", streams, transport="tcp"), Options(ecn=True), "tcp_ecn"),
        (Client("h", streams, transport="tcp"), Options(mss="80"), "88 to 32767"),
        (Client("h", streams, transport="tcp"), Options(buffer="1 B"), "--buffer"),
        (Client("h", streams), Options(mss="1000"), "requires TCP"),
    ]:
        with pytest.raises(ScenarioError, match=message):
            client_plan(client, options, Output())
    with pytest.raises(ScenarioError, match='did you mean "named"'):
        server_plan(Server(choose="name"), Options(), Output())
    with pytest.raises(ScenarioError, match="require each other"):
        server_plan(Server(certificate=Path("x")), Options(), Output())
    assert client_plan(Client("h", streams), Options(initial_window="20", mtu="1200"), Output())["quic"][
        "initial_window_bytes"
    ] == 24_000  # fmt: skip


@pytest.mark.parametrize(
    ("words", "own", "wish"),
    [
        ({"send": "up"}, "bbr3", None),
        ({"send": "down"}, "cubic", ("bbr3", {})),
        ({"send": "both"}, "bbr3", ("bbr3", {})),
        ({"send": "down", "size": "1 MB"}, "cubic", ("bbr3", {})),
        ({"text": "D:*1:0:-:100:1000000"}, "bbr3", ("bbr3", {})),
    ],
)
def test_the_receiver_of_a_controller_request(words: dict[str, Any], own: str, wish: object) -> None:
    found, options = assign_controller(load(**words), Options(congestion="bbr3"))
    assert (found, options.congestion) == (wish, own)
