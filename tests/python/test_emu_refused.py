"""Unsupported options of real time are errors with their key: kernel TCP, sockets of a proxy, loads."""

from __future__ import annotations

from typing import Any

import pytest

from bentpipe.lab.emulation import runner as emu
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.plan.network.graph import proxy_keys
from bentpipe.plan.plan import Plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from emu_plans import CLASSIC, Linux, plan_of, refused, scenario, triangle


@pytest.mark.parametrize(
    ("flow", "key", "message"),
    [
        ({"congestion": "cubic"}, "flow.t.congestion", 'slow_start_exit = "hystart++"'),
        (
            {"congestion": {"name": "cubic", "slow_start_exit": "classic"}},
            "flow.t.congestion",
            'avoidance = "rfc9438"',
        ),
        ({"congestion": "hybla"}, "flow.t.congestion", "this kernel's TCP has cubic, newreno, reno"),
        (
            {"congestion": "bbr"},
            "flow.t.congestion",
            'which is BBRv3; this kernel\'s TCP has cubic, newreno, reno; did you mean "bbr1", BBR version 1',
        ),
        (
            {"congestion": {"name": "bbr1", "policer_detection": True}},
            "flow.t.congestion",
            "modprobe tcp_bbr",
        ),
        ({"tcp": {"min_rto": "1 s"}}, "flow.t.tcp.min_rto", "Linux's is 200 ms"),
        ({"tcp": {"pacing": True}}, "flow.t.tcp.pacing", "paces only with BBR"),
        ({"tcp": {"fast_open": True}}, "flow.t.tcp.fast_open", "programs in a lab do not use it"),
    ],
)
def test_unsupported_options_of_kernel_tcp_are_refused(flow: dict[str, Any], key: str, message: str) -> None:
    found = refused({"name": "t", "transport": "tcp"} | flow, machine=Linux("reno", "cubic"))
    assert [place for place, _ in found] == [key]
    assert message in found[0][1]


def split(*proxies: dict[str, Any], **flow: Any) -> Plan:
    """A download over TCP through a satellite link with ``proxies`` at its far end, which have Linux's CUBIC there."""
    data = scenario({"name": "t", "transport": "tcp"} | flow)
    (satellite,) = data["path"]["segment"]
    data["path"]["segment"] = [satellite, {"name": "ground", "delay": "5 ms"}]
    usual = {"name": "pep", "between": ["satellite", "ground"], "client_side": {"congestion": CLASSIC}}
    data["path"]["proxy"] = [usual | proxy for proxy in proxies]
    return plan_of(data)


def of_proxies(plan: Plan) -> list[tuple[str, str]]:
    (cell,) = plan.cells
    return refusals(cell.resolved.spec, engine.catalogue(), Linux("reno", "cubic"), proxy_keys(cell.scenario))


@pytest.mark.parametrize(
    ("side", "key", "message"),
    [
        ({}, "congestion", 'slow_start_exit = "hystart++"'),
        ({"congestion": "cubic"}, "congestion", 'avoidance = "rfc9438"'),
        ({"congestion": "hybla"}, "congestion", "this kernel's TCP has cubic, newreno, reno"),
        ({"congestion": "bbr"}, "congestion", 'did you mean "bbr1", BBR version 1'),
        ({"congestion": {"name": "fixed", "window_bytes": 100_000}}, "congestion", "without rate_bit_s"),
        ({"congestion": CLASSIC, "initial_rto": "3 s"}, "initial_rto", "Linux has no setting for it"),
        ({"congestion": CLASSIC, "max_rto": "60 s"}, "max_rto", "Linux's is 120 s"),
        ({"congestion": CLASSIC, "min_rto": "1.5 ms"}, "min_rto", "found 1.5 ms; routes have whole"),
        ({"congestion": CLASSIC, "rto_estimate": "rfc6298"}, "rto_estimate", "Linux has its own"),
        ({"congestion": CLASSIC, "delayed_ack": "100 ms"}, "delayed_ack", "Linux's is 40 ms"),
        ({"congestion": CLASSIC, "prr": False}, "prr", "Linux always has it"),
        ({"congestion": CLASSIC, "abc": 2}, "abc", "Linux counts every byte"),
        ({"congestion": CLASSIC, "fast_open": True}, "fast_open", "do not use it"),
    ],
)
def test_invalid_sockets_of_a_proxy_are_refused(side: dict[str, Any], key: str, message: str) -> None:
    """A download leaves the proxy towards the client; a controller that sends nothing need not be the same."""
    ((place, why),) = of_proxies(split({"client_side": side}))
    assert (place, message in why) == (f"path.pep.client_side.{key}", True), why
    if key == "congestion" and side.get("congestion", "cubic") == "cubic":
        assert of_proxies(split({"server_side": side})) == []
        assert (
            of_proxies(split({"server_side": side}, direction="up"))[0][0]
            == "path.pep.server_side.congestion"
        )
    else:
        assert of_proxies(split({"server_side": side}))[0][0] == f"path.pep.server_side.{key}"


def test_sockets_of_a_proxy_share_a_namespace() -> None:
    forward = {"name": "dupacks", "forward": True}
    counted = {"congestion": CLASSIC, "loss_detection": forward}
    both = of_proxies(split({"client_side": counted, "server_side": {"loss_detection": forward}}))
    assert [key for key, _ in both] == [
        f"path.pep.{side}.loss_detection.forward" for side in ("client_side", "server_side")
    ]
    ((key, why),) = of_proxies(split({"server_side": {"dsack": False}}))
    assert (key, why.startswith("differs from that of client_side")) == ("path.pep.server_side.dsack", True)
    ((key, why),) = of_proxies(split({"server_side": {"adapt_reordering": False}}))
    assert (key, why.startswith("differs from that of client_side")) == (
        "path.pep.server_side.adapt_reordering",
        True,
    )


@pytest.mark.parametrize(
    "side",
    [
        {"congestion": CLASSIC, "pacing": True, "min_rto": "50 ms", "delayed_ack": "off"},
        {"congestion": "newreno", "initial_window": "100 packets", "mss": "1000 B"},
        {"line_rate": True},
    ],
)
def test_valid_sockets_of_a_proxy_are_accepted(side: dict[str, Any]) -> None:
    assert of_proxies(split({"client_side": side})) == []


def test_proxies_of_flows_over_quic_alone_need_the_same_controllers_of_nobody() -> None:
    assert of_proxies(split({"client_side": {}}, transport="quic")) == []
    ((key, _),) = of_proxies(split({"client_side": {"congestion": "hybla"}}, transport="quic"))
    assert key == "path.pep.client_side.congestion"


def test_a_plan_with_such_a_proxy_is_refused_by_its_key() -> None:
    with pytest.raises(ScenarioError) as error:
        emu.check(split({"client_side": {"initial_rto": "3 s", "congestion": CLASSIC}}), engine.catalogue())
    ((key, why),) = error.value.problems
    assert (key, why.startswith("in emulation: not supported by this kernel's TCP")) == (
        "path.pep.client_side.initial_rto",
        True,
    )
    graph = triangle({"name": "t", "transport": "tcp", "client": "a", "server": "b", "congestion": CLASSIC})
    graph["graph"]["node"] = [
        "a",
        "b",
        {"name": "pep", "kind": "proxy", "client_side": {"congestion": CLASSIC}},
    ]
    graph["graph"]["link"] = [
        {"name": "ab", "client_side": "a", "server_side": "pep", "delay": "50 ms"},
        {"name": "bc", "client_side": "pep", "server_side": "b", "delay": "5 ms"},
    ]
    (found, *_) = of_proxies(plan_of(graph))
    assert found[0] == "graph.pep.server_side.congestion"


def test_unsupported_options_of_real_time_are_refused() -> None:
    page = {"page": {"object": [{"name": "a", "size": "10 kB"}]}}
    assert (
        "bentpipe browse"
        in refused({"name": "w", "load": page, "direction": None, "congestion": "cubic"})[0][1]
    )
    on_off = {"on": "1 s", "off": "1 s"}
    assert refused({"name": "o", "load": {"on_off": on_off}})[0][0] == "flow.o.load"
    assert refused({"name": "z", "quic": {"handshake": "0-rtt"}})[0][0] == "flow.z.quic.handshake"
    own = {"delay": "5 ms", "both": {"rate": "5 Mbit/s"}}
    assert refused({"name": "a", "access": own}, {"name": "b"}) == []
    assert refused({"name": "q"}, trace={"packets": True}) == [
        ("trace.packets", "found true; only simulated packets are traced")
    ]
    many = {"interval": "1 ms", "size": {"fixed": "20 kB"}}
    assert "each a process" in refused({"name": "p", "load": {"poisson": many}})[0][1]


def test_tcp_of_one_side_has_one_set_of_options() -> None:
    flows = [{"name": name, "transport": "tcp", "tcp": {"initial_window": f"{size} packets"}}
             for name, size in (("a", 10), ("b", 20))]  # fmt: skip
    assert refused(*flows, machine=Linux("cubic")) == [
        (
            "flow.b.tcp.initial_window",
            'differs from that of flow "a"; expected the same for all TCP of a side',
        )
    ]


def test_quic_has_every_controller_of_the_simulation() -> None:
    for name in ("newreno", "cubic", "bbr3", "bbr1", "hybla"):
        assert not refused({"name": "q", "congestion": name})
