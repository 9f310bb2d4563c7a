"""Proxies in a scenario: place, sockets, messages, and values of `check`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bentpipe.plan.analysis.bounds import bounds
from bentpipe.plan.analysis.slow_start import slow_start_s
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.scenario.errors import ScenarioError

THREE: dict[str, Any] = {
    "duration": "30 s",
    "path": {
        "segment": [
            {"name": "lan", "delay": "0.5 ms"},
            {
                "name": "satellite",
                "delay": "359.5 ms",
                "down": {"rate": "25 Mbit/s"},
                "up": {"rate": "5 Mbit/s"},
            },
            {"name": "internet", "delay": "15 ms"},
        ],
        "proxy": [
            {"name": "terminal", "between": ["lan", "satellite"]},
            {"name": "gateway", "between": ["satellite", "internet"]},
        ],
    },
    "flow": [{"name": "web", "transport": "tcp", "congestion": "newreno", "direction": "down"}],
}


def planned(change: dict[str, Any] | None = None, base: dict[str, Any] | None = None) -> Plan:
    return build_plan(load_scenario(copy.deepcopy(base or THREE), list((change or {}).items())), "test")


def test_a_proxy_stands_between_its_segments() -> None:
    spec = planned().runs[0].spec
    assert [(node["name"], node["kind"]) for node in spec["graph"]["nodes"]] == [
        ("client", "host"), ("terminal", "proxy"), ("gateway", "proxy"), ("server", "host"),
    ]  # fmt: skip
    assert [link["server_side"] for link in spec["graph"]["links"]] == ["terminal", "gateway", "server"]
    terminal = spec["proxies"][0]
    assert (terminal["node"], terminal["handshake"]) == ("terminal", "early")
    assert terminal["client_side"]["congestion"] == "cubic"


@pytest.mark.parametrize("base", ["path", "graph"])
def test_a_proxy_with_setup_none_only_forwards(base: str) -> None:
    change = {"path.terminal.handshake": "none", "path.gateway.client_side.line_rate": True}
    document = copy.deepcopy(THREE)
    if base == "graph":
        segments = document["path"].pop("segment")
        line = ["client", "terminal", "gateway", "server"]
        links = [
            {**segment, "client_side": a, "server_side": b}
            for segment, a, b in zip(segments, line[:-1], line[1:], strict=True)
        ]
        document["graph"] = {
            "node": ["client", {"name": "terminal", "kind": "proxy", "handshake": "none"},
                     {"name": "gateway", "kind": "proxy"}, "server"],
            "link": links,
        }  # fmt: skip
        del document["path"]
        document["flow"][0] |= {"client": "client", "server": "server"}
        change = {}
    spec = planned(change, document).runs[0].spec
    kinds = [node["kind"] for node in spec["graph"]["nodes"]]
    assert sorted(kinds) == ["host", "host", "proxy", "router"]
    assert [proxy["node"] for proxy in spec["proxies"]] == ["gateway"]
    both = {"path.terminal.handshake": "none", "path.gateway.handshake": "none"}
    if base == "path":
        assert "proxies" not in planned(both, document).runs[0].spec
        with pytest.raises(ScenarioError, match="without a proxy further on"):
            planned({"path.terminal.handshake": "pooled", "path.gateway.handshake": "none"}, document)


def test_sides_take_the_options_of_all_but_no_fast_open_onward() -> None:
    change = {
        "tcp.initial_window": "32 packets",
        "tcp.fast_open": True,
        "path.gateway.client_side.mss": "1000 B",
    }
    terminal, gateway = planned(change).runs[0].spec["proxies"]
    assert terminal["server_side"]["tcp"]["initial_window_bytes"] == 32 * 1460
    assert gateway["client_side"]["tcp"]["initial_window_bytes"] == 32_000
    assert (terminal["client_side"]["tcp"]["fast_open"], terminal["server_side"]["tcp"]["fast_open"]) == (
        True,
        False,
    )


def test_a_side_that_knows_its_rate_sends_at_it() -> None:
    change = {"path.terminal.server_side.line_rate": True, "path.gateway.client_side.line_rate": True}
    terminal, gateway = planned(change).runs[0].spec["proxies"]
    for side, rate in ((terminal["server_side"], 5e6), (gateway["client_side"], 25e6)):
        assert side["congestion"] == "fixed"
        # payload of 1448 in 1500 bytes on the wire; two BDPs over 719 ms
        assert side["options"]["rate_bit_s"] == int(rate * 1448 / 1500)
        assert side["options"]["window_bytes"] == int(2 * rate * 0.719 / 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path.terminal.between": ["lan", "satelite"]}, 'did you mean "satellite"'),
        ({"path.terminal.between": ["lan", "internet"]}, "follow each other"),
        ({"path.terminal.between": ["satellite", "lan"]}, "follow each other"),
        ({"path.terminal.between": ["satellite", "internet"]}, "the same place"),
        ({"path.gateway.name": "terminal"}, 'duplicate proxy name "terminal"'),
        ({"path.gateway.name": "lan"}, 'a proxy and a segment have the name "lan"'),
        ({"path.gateway.name": "server"}, "which is an endpoint of the path"),
        ({"path.gateway.handshake": "pooled"}, "without a proxy further on towards the server"),
        ({"path.gateway.handshake": "erly"}, 'did you mean "early"'),
        ({"path.gateway.server_side.line_rate": True}, "path.gateway.server_side.line_rate"),
        ({"path.gateway.client_side.sak": True}, 'did you mean "sack"'),
        ({"path.gateway.buffer": "0 B"}, "path.gateway.buffer"),
        ({"path.gateway.buffer": "1 kB"}, "expected at least a segment of client_side, 1460 B"),
        ({"path.gatway.handshake": "early"}, 'did you mean "gateway"'),
    ],
)
def test_errors_are_reported(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        planned(change)
    assert message in str(error.value)
    assert len(error.value.problems) == 1


GRAPH: dict[str, Any] = {
    "duration": "10 s",
    "graph": {
        "node": ["a", {"name": "pep", "kind": "proxy", "server_side": {"line_rate": True}}, "b"],
        "link": [
            {"name": "near", "client_side": "a", "server_side": "pep", "delay": "1 ms"},
            {
                "name": "far",
                "client_side": "pep",
                "server_side": "b",
                "delay": "250 ms",
                "both": {"rate": "8 Mbit/s"},
            },
        ],
    },
    "flow": [{"name": "x", "transport": "tcp", "congestion": "cubic", "client": "a", "server": "b"}],
}


def test_a_node_of_a_graph_is_a_proxy() -> None:
    (pep,) = planned({"graph.pep.handshake": "relayed"}, GRAPH).runs[0].spec["proxies"]
    assert (pep["handshake"], pep["server_side"]["options"]["window_bytes"]) == ("relayed", 1_000_000)
    with pytest.raises(ScenarioError, match="further on"):
        planned({"graph.pep.handshake": "pooled"}, GRAPH)
    with pytest.raises(ScenarioError, match='requires kind = "proxy"'):
        planned({"graph.pep.kind": "router"}, GRAPH)


def test_slow_start_by_hand() -> None:
    # 25 Mbit/s * 0.75 s = 2,343,750 B; / 46,720 B = 50.17 = 2^5.649; halved, 2^4.649
    assert slow_start_s(25_000_000, 750_000_000, 32 * 1460, one_way=True) == pytest.approx(3.49, abs=0.005)
    assert slow_start_s(25_000_000, 750_000_000, 32 * 1460) == pytest.approx(4.24, abs=0.005)
    assert slow_start_s(1_000_000, 10_000_000, 14_600) == 0


def test_slow_start_of_each_segment() -> None:
    (bound,) = bounds(planned({"tcp.initial_window": "32 packets"}))
    assert bound.slow_start_s == pytest.approx(4.24, abs=0.005)
    assert bound.slow_start_one_way_s == pytest.approx(3.49, abs=0.005)
    assert [(one.segment, one.longest) for one in bound.segments] == [
        ("lan", False), ("satellite", True), ("internet", False),
    ]  # fmt: skip
    # 25e6 * 0.719 / 8 / 46720 = 48.09 = 2^5.588, of 0.719 s each
    assert bound.segments[1].two_way_s == pytest.approx(5.588 * 0.719, abs=0.002)
    (known,) = bounds(planned({"path.gateway.client_side.line_rate": True}))
    assert known.segments[1].two_way_s == 0


@pytest.mark.parametrize(
    ("tls", "setups", "ms"),
    [  # KA-SAT's row of docs/explanation/web.md
        ("1.2", ("relayed", "relayed"), 3000), ("1.2", ("early", "early"), 2969), ("1.2", ("pooled", "early"), 2280),
        ("1.3", ("relayed", "relayed"), 2250), ("1.3", ("early", "early"), 2219), ("1.3", ("pooled", "early"), 1530),
        ("1.2-false-start", ("pooled", "early"), 1530),
    ],
)  # fmt: skip
def test_first_byte_by_the_table(tls: str, setups: tuple[str, str], ms: int) -> None:
    data = copy.deepcopy(THREE)
    data["flow"][0] = {"name": "web", "congestion": "cubic",
                       "load": {"page": "target-a", "http": "2", "tls": tls, "loads": 1}}  # fmt: skip
    change = {"path.terminal.handshake": setups[0], "path.gateway.handshake": setups[1]}
    (bound,) = bounds(planned(change, data))
    assert bound.first_byte_s == pytest.approx(ms / 1000, abs=1e-6)
    (quic,) = bounds(planned({**change, "flow.web.load.http": "3"}, data))
    assert quic.first_byte_s == pytest.approx(1.5, abs=1e-6)
