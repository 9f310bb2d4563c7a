"""The cost of a run is estimated beforehand, and the engine ends a run at its limits."""

from __future__ import annotations

import gc
import re
import time
from pathlib import Path
from typing import Any

import pytest

from bentpipe.cli.console import patience
from bentpipe.lab.access import resolve_path
from bentpipe.plan import cost
from bentpipe.plan.analysis.lint import lint_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.toml_writer import dumps
from bentpipe.store.codec import decode
from bentpipe.store.reader import open_store
from commands import bentpipe

BULK: dict[str, Any] = {"name": "f", "congestion": "cubic"}
SEGMENT: dict[str, Any] = {"name": "s", "delay": "10 ms", "both": {"rate": "100 Mbit/s"}}


def scenario(flow: dict[str, Any] | None = None, segments: int = 1, **top: Any) -> dict[str, Any]:
    path = {"segment": [{**SEGMENT, "name": f"s{n}"} for n in range(segments)]}
    return {"duration": "10 s", "path": path, "flow": [{**BULK, **(flow or {})}], **top}


def plan(data: dict[str, Any]) -> Plan:
    return build_plan(load_scenario(data), "test", catalogue=engine.catalogue())


def refused(data: dict[str, Any]) -> str:
    with pytest.raises(ScenarioError) as found:
        plan(data)
    return str(found.value)


def bundles(layer: str, client: str, **more: str) -> dict[str, Any]:
    return {"bundles": {"layer": layer, "dtnperf": client, **more}}


def relayed(client: str) -> dict[str, Any]:
    """Bundles from one node over a second to a third."""
    nodes = ["a", "m", "b"]
    links = [
        {
            "name": f"{near}{far}",
            "client_side": near,
            "server_side": far,
            **{key: SEGMENT[key] for key in ("delay", "both")},
        }
        for near, far in (("a", "m"), ("m", "b"))
    ]
    flows = [
        {**BULK, "name": "am", "client": "a", "server": "m", "load": bundles("quiccl", client, to="b")},
        {**BULK, "name": "mb", "client": "m", "server": "b", "load": {"bundles": "quiccl"}},
    ]
    contact = [
        {"from": one, "to": to, "rate": "100 Mbit/s", "owlt": "10 ms", "stop": "1 h", "both": True}
        for one, to in ("am", "mb")
    ]
    return {
        "duration": "10 s",
        "graph": {"node": nodes, "link": links},
        "flow": flows,
        "dtn": {"contact": contact},
    }


def held(room: str) -> dict[str, Any]:
    """A sender without notice of a link that fails every other minute, before a store-and-forward router with this limit."""
    data = scenario(
        {"congestion": "open-loop", "load": {"bytes": "20 MB"}}, duration="20 min", sample_interval="10 s"
    )
    data["path"] = {
        "segment": [
            {"name": "lan", "delay": "1 ms", "both": {"rate": "100 Mbit/s", "queue": "none"}},
            {
                "name": "space",
                "delay": "20 s",
                "store_and_forward": room,
                "both": {"rate": "1 Mbit/s", "queue": "none"},
            },
        ],
        "handover": [
            {
                "name": "down",
                "segment": "space",
                "at": "1 min",
                "interval": "2 min",
                "gap": "1 min",
                "queued": "hold",
            }
        ],
    }
    return {**data, "quic": {"profile": "deep-space"}}


def moving(in_flight: str) -> dict[str, Any]:
    """A handover every second, in turn to a longer and to a shorter path."""
    data = scenario()
    data["path"]["handover"] = [
        {"segment": "s0", "at": at, "interval": "2 s", "delay": delay, "in_flight": in_flight}
        for at, delay in (("1 s", "30 ms"), ("2 s", "10 ms"))
    ]
    return data


def split(**flow: Any) -> dict[str, Any]:
    """Behind two proxies, the nearer to the server before the narrow link."""
    path = {
        "segment": [
            {"name": "lan", "delay": "1 ms"},
            {
                "name": "satellite",
                "delay": "300 ms",
                "down": {"rate": "25 Mbit/s"},
                "up": {"rate": "5 Mbit/s"},
            },
            {"name": "internet", "delay": "15 ms"},
        ],
        "proxy": [
            {"name": "terminal", "between": ["lan", "satellite"], "handshake": "pooled"},
            {"name": "gateway", "between": ["satellite", "internet"], "handshake": "early"},
        ],
    }
    return {"duration": "60 s", "path": path, "flow": [{**BULK, **flow}]}


LOADS: dict[str, dict[str, Any]] = {
    "bulk": scenario(),
    "tcp": scenario({"transport": "tcp"}),
    "segments": scenario(segments=4),
    "poisson": scenario({"load": {"poisson": {"interval": "5 ms", "size": "5 kB"}}}),
    "on-off": scenario({"load": {"on_off": {"on": "10 us", "off": "10 us"}}}),
    "sampled": scenario({"load": {"bytes": "1 kB"}}, sample_interval="100 us"),
    "streams": scenario({"transport": "tcp", "load": {"time": "5 s", "streams": 500}}),
    "page": scenario(
        {"load": {"page": "almanac-2019-light", "http": "2", "loads": 20}}, sample_interval="1 s"
    ),
    "many": scenario({"transport": "tcp", "count": 200}),
    "many over QUIC": scenario({"count": 200}),
    "many with accesses": scenario(
        {
            "transport": "tcp",
            "count": 100,
            "time_series": "per-flow",
            "access": {"both": {"rate": "5 Mbit/s"}},
        }
    ),
    "shared": {**scenario(), "flow": [{**BULK, "name": name} for name in ("a", "b", "c")]},
    "stages": scenario(segments=3, trace={"packet_steps": True}),
    "qlog": scenario(trace={"qlog": True, "pcapng": True, "packets": True}),
    "bundles": scenario({"load": bundles("quiccl", "-W 8 -P 100k -T 5")}),
    "bundles over TCP": scenario({"transport": "tcp", "load": bundles("tcpcl", "-R 20M -P 50k -D 10M")}),
    "small bundles": scenario({"load": bundles("qubicle", "-R 4M -P 1k -D 2M")}),
    "bundles over two flows": relayed("-W 8 -P 100k -D 20M"),
    "wires": {
        **scenario({"congestion": {"name": "fixed", "rate_bit_s": 20_000_000}}),
        "path": {"segment": [{"name": name, "delay": "20 ms"} for name in ("a", "b", "c")]},
    },
    "held": held("20 MB"),
    "held and dropped": held("100 kB"),
    "pages behind proxies": split(load={"page": "target-a", "http": "2", "loads": 1}, count=20),
    "behind proxies": split(transport="tcp", direction="down", load={"time": "60 s"}, count=5),
    "a file behind proxies": split(transport="tcp", direction="down", load={"bytes": "200 MB"}),
    "moving": moving("in-order"),
    "moving and overtaken": moving("reorder"),
}


@pytest.mark.parametrize("kind", LOADS)
def test_estimated_events_are_right_within_a_factor_of_three(kind: str) -> None:
    one = plan(LOADS[kind])
    found = cost.estimate_cost(one.cells[0].resolved)
    events = decode(engine.run(one.runs[0].spec_json())).events
    assert 1 / 3 < found.events / events < 3


def test_memory_grows_with_samples_and_traces() -> None:
    def memory(**top: Any) -> float:
        return cost.estimate_cost(plan(scenario(**top)).cells[0].resolved).memory_bytes

    plain = memory(sample_interval="1 s")
    assert memory(sample_interval="100 us") > 5 * plain
    for kind in ("qlog", "pcapng", "packets", "packet_steps"):
        assert memory(sample_interval="1 s", trace={kind: True}) > 2 * plain


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (scenario({"load": {"poisson": {"interval": "1 ns", "size": "1 kB"}}}), "limits.events"),
        (scenario({"load": {"on_off": {"on": "1 ns", "off": "1 ns"}}}), "limits.events"),
        (scenario(sample_interval="1 ns"), "limits.memory"),
        (scenario(duration="100000 h"), "limits.events"),
        (scenario(trace={"qlog": True}, duration="1 h"), "limits.memory"),
    ],
)
def test_a_run_above_a_limit_gives_a_warning(data: dict[str, Any], key: str) -> None:
    warnings = {warning.key: warning.text for warning in lint_plan(plan(data))}
    assert warnings[key].endswith("; it ends at the limit")
    assert not {warning.key for warning in lint_plan(plan(scenario()))} & {"limits.events", "limits.memory"}


def test_limits_are_no_part_of_a_run() -> None:
    raised = plan(scenario(limits={"events": 10**12, "memory": "8 GB"})).runs[0]
    assert raised.limits == (10**12, 8 * 10**9)
    assert raised.id == plan(scenario()).runs[0].id
    document = load_scenario(scenario(), [("limits.events", 3_000_000_000)])
    assert build_plan(document, "test").runs[0].limits == (3 * 10**9, 4 * 10**9)


def failure(data: dict[str, Any]) -> str:
    (run,) = plan(data).runs
    with pytest.raises(ValueError, match="the run reached its limit") as found:
        engine.run(run.spec_json(), limits=run.limits)
    return str(found.value)


def test_the_engine_ends_a_run_at_its_limit_of_events() -> None:
    message = failure(scenario(limits={"events": 20_000}))
    assert re.fullmatch(
        r"the run reached its limit of 20000 events at \d\.\d{9} s of 10\.000000000 s: "
        r"link s0\.(up|down) has the most events, \d+ %\. A larger limits\.events raises the limit",
        message,
    )
    assert "the sampling has the most events, 9" in failure(
        scenario(sample_interval="1 us", limits={"events": 20_000})
    )
    below = plan(scenario(limits={"events": 20_000_000})).runs[0]
    assert engine.run(below.spec_json(), limits=below.limits) == engine.run(below.spec_json())


def test_the_engine_ends_a_run_at_its_limit_of_memory() -> None:
    message = failure(scenario(sample_interval="1 us", limits={"memory": "50 MB"}))
    assert re.search(
        r"limit of 50 MB of memory at \d\.\d{9} s of 10\.0+ s: the samples take \d+ MB, and", message
    )
    assert message.endswith(" opened 2 connections. A larger limits.memory raises the limit")


def test_a_limit_fails_its_run_alone(tmp_path: Path) -> None:
    """Other runs of the plan continue, and finished runs are saved."""
    data = scenario(sweep={"path.s0.both.rate": ["1 Mbit/s", "100 Mbit/s"]}, limits={"events": 20_000})
    file, store = tmp_path / "limited.toml", tmp_path / "store"
    file.write_text(dumps(data))
    done = bentpipe(tmp_path, "run", str(file), "--out", "store", "--jobs", "1")
    assert done.returncode == 1
    assert "the run reached its limit of 20000 events" in done.stderr
    assert len(open_store(store).load_index().folders) == 1
    raised = bentpipe(
        tmp_path, "run", str(file), "--out", "store", "--jobs", "1", "--set", "limits.events=1000000"
    )
    assert raised.returncode == 0, raised.stderr
    assert len(open_store(store).load_index().folders) == 2


def test_a_path_without_a_rate_is_bounded_by_its_windows_or_refused() -> None:
    bare = {**scenario(), "path": {"segment": [{"name": "s", "delay": "50 ms"}]}}
    found = cost.estimate_cost(plan(bare).cells[0].resolved)
    packets = 64 * 2**20 / 1452 * 10 / 0.1 * 1.5  # the receive window in each round trip, with its ACKs
    assert found.events == pytest.approx(2 * packets, rel=0.01)
    nothing = {**scenario(), "path": {"segment": [{"name": "s"}]}}
    assert "flow.f: no link of its path has a rate or a delay" in refused(nothing)


def test_a_run_that_is_too_large_to_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    load = {"bytes": "1 kB", "streams": 10_000}
    assert "flow.f.load: gives more than 2,000,000 streams" in refused(scenario({"count": 201, "load": load}))
    monkeypatch.setattr("bentpipe.plan.plan.MAX_ROUTES", 100)
    many = scenario({"count": 9, "access": {"delay": "1 ms", "both": {"rate": "1 Mbit/s"}}})
    assert "graph: gives a routing table of" in refused(many)


NODES = ["a", "m", "b"]
LINKS = [
    {"name": "one", "client_side": "a", "server_side": "m", "both": {"rate": "1 Mbit/s"}},
    {"name": "two", "client_side": "m", "server_side": "b", "delay": "1 ms"},
]


def graph(nodes: list[Any], links: list[dict[str, Any]]) -> dict[str, Any]:
    flow = {**BULK, "client": "a", "server": "b"}
    return {"duration": "1 s", "graph": {"node": nodes, "link": links}, "flow": [flow]}


def test_a_node_of_no_kind_passes_nothing_on() -> None:
    message = refused(graph(NODES, LINKS))
    assert 'graph.m: no route from "a" to "b": m between them is a host' in message
    assert message.endswith('did you mean kind = "router"?')
    assert plan(graph(["a", {"name": "m", "kind": "router"}, "b"], LINKS)).runs
    direct = {"name": "three", "client_side": "a", "server_side": "b", "delay": "5 ms"}
    assert plan(graph(NODES, [*LINKS, direct])).cells[0].resolved.up["f"][0].name == "three.up"
    alone = graph(["a", "b", "c"], [direct])
    assert 'graph.c: no links lead to it from "a"' in refused(alone)


def test_a_long_plan_says_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    each = patience()
    for done in range(1, 41):
        now += 0.25
        each(1000 * done, 40_000)
    message = capsys.readouterr().err.splitlines()
    assert message == [f"planning: {done:,} of 40,000 cells" for done in (8_000, 28_000, 40_000)]
    each = patience()
    each(3, 3)
    assert not capsys.readouterr().err, "a short plan says nothing"


def test_a_plan_tells_of_each_cell() -> None:
    messages: list[tuple[int, int]] = []
    swept = scenario(sweep={"path.s0.delay": ["1 ms", "2 ms"]})
    build_plan(load_scenario(swept), "test", on_progress=lambda done, of: messages.append((done, of)))
    assert messages == [(1, 2), (2, 2)]
    assert gc.isenabled()


@pytest.mark.parametrize(
    "segment",
    [
        {"name": "s", "delay": "10 ms", "both": {"rate": "10 Gbit/s"}},
        {"name": "s", "delay": "0 ms"},
    ],
)
def test_a_path_that_carries_real_packets_has_no_price(segment: dict[str, Any]) -> None:
    """A shell simulates nothing, so its events cost no time."""
    path, _ = resolve_path({"path": {"segment": [segment]}})
    assert [link["name"] for link in path["graph"]["links"]] == ["s"]


def test_many_small_runs_take_the_time_of_keeping_them() -> None:
    """Three hundred runs of a second were kept in 15.7 s, which the engine made in 0.5."""
    small = scenario({"load": {"bytes": "1 kB"}}, duration="1 s", seeds=300)
    small["path"]["segment"][0]["both"] = {"rate": "1 Mbit/s", "loss": "1 %"}
    assert 10 < cost.estimate_plan(plan(small), 4).seconds < 25


def test_a_message_about_a_cell_shows_the_beginning_of_a_long_value() -> None:
    contacts = [
        {"from": "a", "to": "m", "start": f"{n} s", "stop": f"{n + 1} s", "rate": "1 Mbit/s"}
        for n in range(100)
    ]
    swept = relayed("-W 1 -P 100k -D 1M") | {"sweep": {"dtn.contact": [contacts], "flow.am.start": ["-1 s"]}}
    message = refused(swept)
    assert 'dtn.contact = [{"from": "a", "to": "m", "start": "0 s", "stop": "1 s", ..., ' in message
    assert len(message) < 400
