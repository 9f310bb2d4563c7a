"""Each load over each transport in each direction: its bytes arrive, or the scenario is refused."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import polars as pl
import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.codec import decode

Direction = Literal["up", "down"]

UP: frozenset[Direction] = frozenset({"up"})
DOWN: frozenset[Direction] = frozenset({"down"})
BOTH: frozenset[Direction] = frozenset({"up", "down"})
SENT: dict[str | None, frozenset[Direction]] = {None: UP, "up": UP, "down": DOWN, "both": BOTH}

NO_DATAGRAMS = 'found transport = "udp" without a load of datagrams'
DATAGRAMS = 'found a load of datagrams with transport = "tcp"'
ONE_WAY = 'found direction = "both", expected "up" or "down" for this load; declare two flows'
ITSELF = "with a pico-perf load, which determines the direction"
RATELESS = "missing, expected a rate: a source of datagrams sends at its rate"

PERIODS = {"on": "1 s", "off": "500 ms"}
PICO_UP = "D:*1:0:-:100000:0"
PICO_DOWN = "D:*1:0:-:8:100000"
STREAMS: dict[str, Any] = {
    "nothing": None,
    "time": {"time": "2 s", "streams": 2},
    "bytes": {"bytes": "100 kB", "streams": 2},
    "poisson": {"poisson": {"interval": "300 ms", "size": "10 kB"}},
    "on_off": {"on_off": PERIODS},
    "on_off, rate": {"on_off": {**PERIODS, "rate": "100 kbit/s"}},
    "pico, up": {"pico_perf": PICO_UP},
    "pico, time": {"pico_perf": "T:*1:0:-:2s"},
    "pico, down": {"pico_perf": PICO_DOWN},
}
DATAGRAM_LOADS: dict[str, Any] = {
    "on_off, packet": {"on_off": {**PERIODS, "rate": "100 kbit/s", "packet": "500 B"}},
    "call": {"call": "g711"},
    "live": {"cbr": "500 kbit/s"},
}
LOADS = {**STREAMS, **DATAGRAM_LOADS}

# Handshakes that change which end sends first.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "quic": [{}, {"quic": {"handshake": "0-rtt"}}],
    "tcp": [{}, {"tcp": {"fast_open": True}}, {"tcp": {"sack": False, "timestamps": False}}],
    "udp": [{}],
}

# Response sizes at the head of a stream (8 bytes each), of Poisson arrivals for one.
MOST_REQUESTED = 8 * 40


def expected(load: str, transport: str, send: str | None) -> frozenset[Direction] | str:
    """The directions in which the load's bytes arrive, or a part of the refusal."""
    if load == "on_off, rate" and transport == "udp":
        return SENT[send]
    if load in STREAMS:
        if transport == "udp":
            return RATELESS if load == "on_off" else NO_DATAGRAMS
        if load.startswith("pico"):
            found = DOWN if load == "pico, down" else UP
            return found if send is None or (send == "up" and found == UP) else ITSELF
        return ONE_WAY if send == "both" and load.startswith(("on_off", "poisson")) else SENT[send]
    if transport == "tcp":
        return DATAGRAMS
    return BOTH if load == "call" and send is None else SENT[send]


def scenario(load: str, transport: str, send: str | None, options: dict[str, Any]) -> dict[str, Any]:
    flow: dict[str, Any] = {"name": "f", "transport": transport, **options}
    if transport != "udp":
        flow["congestion"] = "cubic"
    if LOADS[load] is not None:
        flow["load"] = LOADS[load]
    if send is not None:
        flow["direction"] = send
    segment = {"name": "s", "delay": "50 ms", "both": {"rate": "2 Mbit/s"}}
    return {"duration": "4 s", "path": {"segment": [segment]}, "flow": [flow]}


def received(data: dict[str, Any]) -> dict[Direction, int]:
    """Bytes that arrived in each direction."""
    (run,) = build_plan(load_scenario(data), "test").runs
    summary = decode(engine.run(run.spec_json())).tables["flow_summary"]
    side = {"up": "server", "down": "client"}
    return {
        direction: summary.filter(pl.col("side") == side[direction])["received_bytes"].item()
        for direction in ("up", "down")
    }


@pytest.mark.parametrize("transport", ["quic", "tcp", "udp"])
@pytest.mark.parametrize("load", LOADS)
def test_bytes_arrive_in_the_direction_asked_for_or_check_refuses(load: str, transport: str) -> None:
    for send, options in itertools.product(SENT, OPTIONS[transport]):
        case = f"direction = {send}, {options}"
        data = scenario(load, transport, send, options)
        wanted = expected(load, transport, send)
        if isinstance(wanted, str):
            with pytest.raises(ScenarioError) as refusal:
                build_plan(load_scenario(data), "test")
            ((_, text),) = refusal.value.problems
            assert wanted in text, case
            continue
        found = received(data)
        for direction, count in found.items():
            if direction in wanted:
                assert count >= 20_000, f"{case}: {found}"
            else:
                assert count <= MOST_REQUESTED, f"{case}: {found}"


def test_an_on_off_source_sends_the_same_either_way_and_through_proxies() -> None:
    """100 kbit/s for 1 s of every 1.5 s. At 4 s the source was on for 2 + 2/3 s; 50 ms of path and some ticks are left
    of it."""
    segments = [
        {"name": "lan", "delay": "5 ms", "both": {"rate": "10 Mbit/s"}},
        {"name": "satellite", "delay": "50 ms", "both": {"rate": "2 Mbit/s"}},
    ]
    for setup, send in itertools.product((None, "relayed", "early"), ("up", "down")):
        data = scenario("on_off, rate", "tcp", send, {})
        data["path"] = {"segment": segments}
        if setup is not None:
            data["path"]["proxy"] = [{"name": "p", "between": ["lan", "satellite"], "handshake": setup}]
        found = received(data)
        wanted: Direction = "up" if send == "up" else "down"
        assert found[wanted] == pytest.approx(100e3 / 8 * 3, abs=100e3 / 8 * 0.3), f"{setup} {send}: {found}"


@pytest.mark.parametrize("send", ["up", "down", "both"])
def test_bundle_nodes_take_no_direction(send: str) -> None:
    node = {"name": "a", "id": 1}
    data = {
        "duration": "10 s",
        "path": {"segment": [{"name": "s", "delay": "50 ms", "both": {"rate": "2 Mbit/s"}}]},
        "dtn": {"node": [node, {"name": "b", "id": 2}]},
        "flow": [{"name": "f", "transport": "tcp", "congestion": "cubic", "load": {"bundles": "tcpcl"}, "direction": send}],
    }  # fmt: skip
    with pytest.raises(ScenarioError) as refusal:
        build_plan(load_scenario(data), "test")
    assert any("with bundles, which both nodes send" in text for _, text in refusal.value.problems)
