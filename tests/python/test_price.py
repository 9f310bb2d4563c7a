"""What a run will cost is estimated beforehand, and what nobody can wait for is refused."""

from __future__ import annotations

import gc
import itertools
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import pytest

from bentpipe.cli.console import patience
from bentpipe.lab.access import resolve_path
from bentpipe.plan.cost import estimate as cost_estimate
from bentpipe.plan.cost import flow_cost
from bentpipe.plan.document import load_scenario
from bentpipe.plan.dtn.bundle_paths import bundle_shares
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError

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
    """A sender that is told nothing of a link that is gone every other minute, before a router that holds so much."""
    data = scenario({"congestion": "open-loop", "load": {"bytes": "20 MB"}}, duration="20 min", sample="10 s")
    data["path"] = {
        "segment": [
            {"name": "lan", "delay": "1 ms", "both": {"rate": "100 Mbit/s", "queue": "none"}},
            {"name": "space", "delay": "20 s", "hold": room, "both": {"rate": "1 Mbit/s", "queue": "none"}},
        ],
        "handover": [
            {
                "name": "down",
                "segment": "space",
                "at": "1 min",
                "every": "2 min",
                "gap": "1 min",
                "waiting": "held",
            }
        ],
    }
    return {**data, "quic": {"profile": "deep-space"}}


def moving(in_flight: str) -> dict[str, Any]:
    """A hand-over every second, now to a longer way and now to a shorter one."""
    data = scenario()
    data["path"]["handover"] = [
        {"segment": "s0", "at": at, "every": "2 s", "delay": delay, "in_flight": in_flight}
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
            {"name": "terminal", "between": ["lan", "satellite"], "setup": "pooled"},
            {"name": "gateway", "between": ["satellite", "internet"], "setup": "early"},
        ],
    }
    return {"duration": "60 s", "path": path, "flow": [{**BULK, **flow}]}


LOADS: dict[str, dict[str, Any]] = {
    "bulk": scenario(),
    "tcp": scenario({"transport": "tcp"}),
    "segments": scenario(segments=4),
    "poisson": scenario({"load": {"poisson": {"every": "5 ms", "size": "5 kB"}}}),
    "on-off": scenario({"load": {"on_off": {"on": "10 us", "off": "10 us"}}}),
    "sampled": scenario({"load": {"bytes": "1 kB"}}, sample="100 us"),
    "streams": scenario({"transport": "tcp", "load": {"time": "5 s", "streams": 500}}),
    "page": scenario({"load": {"page": "almanac-2019-light", "http": "2", "loads": 20}}, sample="1 s"),
    "many": scenario({"transport": "tcp", "count": 200}),
    "many over QUIC": scenario({"count": 200}),
    "many with accesses": scenario(
        {"transport": "tcp", "count": 100, "series": "each", "access": {"both": {"rate": "5 Mbit/s"}}}
    ),
    "shared": {**scenario(), "flow": [{**BULK, "name": name} for name in ("a", "b", "c")]},
    "stages": scenario(segments=3, trace={"stages": True}),
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
    "behind proxies": split(transport="tcp", send="down", load={"time": "60 s"}, count=5),
    "a file behind proxies": split(transport="tcp", send="down", load={"bytes": "200 MB"}),
    "moving": moving("in-order"),
    "moving and overtaken": moving("overtaken"),
}

MEASURE = """
import json, sys
from pathlib import Path
import numpy, polars
from bentpipe.runners import worker_process
from bentpipe.store.codec import RunFiles

def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

spec = sys.stdin.read()
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
before = kilobytes("VmRSS")
_, answer = worker_process.serve(spec, {})
grown = (kilobytes("VmHWM") - before) * 1024
print(json.dumps([RunFiles.from_bytes(answer).events, grown]))
"""


@pytest.mark.parametrize("kind", LOADS)
def test_the_estimate_is_right_within_a_factor_of_two(kind: str) -> None:
    made = plan(LOADS[kind])
    found = cost_estimate.estimate_cost(made.cells[0].resolved)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        input=made.runs[0].spec_json(),
        capture_output=True,
        text=True,
        check=True,
    )
    events, memory = json.loads(done.stdout)
    assert 0.5 <= found.events / events <= 2
    assert 0.5 <= found.memory_bytes / memory <= 2


def overtaken(
    jitter: dict[str, Any] | None, duration: str = "4 s", both: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """80 of 100 Mbit/s; time alone finds what is lost, after nine round trips of 200 ms, where ``quic`` says nothing else."""
    late = {} if jitter is None else {"jitter": {**jitter, "reorder": True}}
    quic = {"receive_window": "100 MB", "packet_threshold": "none", "time_threshold": 9} | more.pop(
        "quic", {}
    )
    found = scenario({"congestion": {"name": "fixed", "rate_bit_s": 80_000_000}, **more}, duration=duration)
    found["path"]["segment"][0] |= {"delay": "100 ms", "both": {"rate": "100 Mbit/s", **late, **(both or {})}}
    return {**found, "quic": quic}


def estimate(data: dict[str, Any]) -> float:
    return float(cost_estimate.estimate_cost(plan(data).cells[0].resolved).cpu_s)


WIDE = {"uniform": "200 ms"}


def test_what_overtakes_costs_its_sender_with_every_look() -> None:
    """Thousands of packets that are never acknowledged, a hundred that time alone finds, and a threshold that finds them at
    once; a file of which nine tenths are lost on each way through it; and some that are held back."""

    def seconds(data: dict[str, Any], times: int) -> tuple[float, float]:
        made = plan(data)
        took = []
        for _ in range(times):
            began = time.process_time()
            engine.run(made.runs[0].spec_json())
            took.append(time.process_time() - began)
        return min(took), estimate(data)

    rfc = {"time_threshold": 1.125}
    found = {
        "thousands": seconds(overtaken(WIDE), 1),
        "hundred": seconds(overtaken({"uniform": "20 ms"}, quic=rfc), 2),
        "few": seconds(overtaken(WIDE, quic={**rfc, "packet_threshold": 3}), 2),
        "file": seconds(overtaken(WIDE, "20 s", load={"bytes": "10 MB"}), 1),
        "held": seconds(overtaken(None, both={"reorder": {"probability": "10 %", "hold": "100 ms"}}), 2),
    }
    ratios = {name: estimated / took for name, (took, estimated) in found.items()}
    for more, less in itertools.combinations(("thousands", "hundred", "few"), 2):
        assert 1 / 2.5 < ratios[more] / ratios[less] < 2.5, (more, less)
    for name in ("file", "held"):
        assert 1 / 2.5 < ratios[name] / statistics.median(ratios.values()) < 2.5, name
    assert found["thousands"][1] > 10 * found["few"][1]


def test_what_overtakes_and_what_does_not() -> None:
    plain, wide = estimate(overtaken(None)), estimate(overtaken(WIDE))
    assert wide > 5 * plain
    # A reordering buffer is the transmitter's, jitter is behind it.
    radio = {
        "link_layer": {
            "scheme": "selective-repeat", "frame": "1500 B", "block_error_rate": ["0 %"], "feedback_delay": "20 ms",
        },
        "reordering_buffer": 125,
    }  # fmt: skip
    assert estimate(overtaken(WIDE, both=radio)) == pytest.approx(wide, rel=0.1)
    # The mean of a delay overtakes nobody, what it deviates does.
    for mean, deviation, least, most in (
        ("100 ms", "0 ms", 1, 1),
        ("0 ms", "100 ms", 5, 20),
        ("100 ms", "58 ms", 5, 20),
    ):
        normal = estimate(overtaken({"normal": {"mean": mean, "deviation": deviation}}))
        assert least * plain <= normal <= most * plain
    all_held = {"reorder": {"probability": "100 %", "hold": "100 ms"}}
    assert estimate(overtaken(None, both=all_held)) == pytest.approx(plain, rel=0.01)
    # However long the run is, the same is sent in the same time; what is lost is sent again for longer.
    short, long = (estimate(overtaken(WIDE, one, load={"bytes": "10 MB"})) for one in ("60 s", "600 s"))
    assert short == pytest.approx(long, rel=0.1)
    # A window that is full stops the sender.
    stopped = overtaken(WIDE, "60 s", quic={"time_threshold": 1000})
    assert estimate(stopped) < 1.1 * estimate(overtaken(None, "60 s"))
    # Over TCP nothing of this is the stack's.
    page = {"page": "almanac-2019-light"}
    over = {
        http: [estimate(overtaken(late, "60 s", load={**page, "http": http, "loads": 20}, congestion="cubic"))
               for late in (None, WIDE)]
        for http in ("2", "3")
    }  # fmt: skip
    assert over["2"][0] == over["2"][1]
    assert over["3"][0] < over["3"][1]
    # Connections overtake themselves, not each other.
    poisson = {"load": {"poisson": {"every": "2 ms", "size": "20 kB"}}, "congestion": "cubic"}
    assert estimate(overtaken(WIDE, **poisson)) < 2 * estimate(overtaken(None, **poisson))


@pytest.mark.parametrize(
    ("data", "key", "said"),
    [
        (scenario({"load": {"poisson": {"every": "1 ns", "size": "1 kB"}}}), "flow.f.load.poisson.every", "connections"),
        (scenario({"load": {"on_off": {"on": "1 ns", "off": "1 ns"}}}), "flow.f.load.on_off", "switches"),
        (scenario(sample="1 ns"), "sample", "10,000,000,000 samples of 4 rows each"),
        (scenario(duration="100000 h"), "flow.f", "data of the flow"),
        (scenario(trace={"qlog": True}, duration="10 min"), "trace.qlog", "packets of f"),
    ],
)  # fmt: skip
def test_what_nobody_can_wait_for_is_refused_by_key(data: dict[str, Any], key: str, said: str) -> None:
    text = refused(data)
    assert f"scenario: {key}: " in text
    assert said in text


def test_a_bound_is_raised_by_its_key() -> None:
    long = scenario(duration="20 h")
    said = refused(long)
    assert "about 2,0" in said
    assert said.endswith("events, expected at most limits.events = 1_000_000_000")
    assert plan({**long, "limits": {"events": 3_000_000_000}}).runs
    fine = scenario(sample="10 us", duration="20 s")
    assert refused(fine).endswith("GB of memory, expected at most limits.memory = 4 GB")
    raised = plan({**fine, "limits": {"memory": "8 GB"}})
    assert raised.runs[0].spec == {**raised.runs[0].spec, "sample_interval_ns": 10_000}
    # What is allowed is no part of a run, whose id stays.
    assert plan(scenario()).runs[0].id == plan(scenario(limits={"events": 10**12})).runs[0].id


def test_a_path_without_a_rate_is_bounded_by_its_windows_or_refused() -> None:
    bare = {**scenario(), "path": {"segment": [{"name": "s", "delay": "50 ms"}]}}
    found = cost_estimate.estimate_cost(plan(bare).cells[0].resolved)
    packets = 64 * 2**20 / 1452 * 10 / 0.1 * 1.5  # the receive window in each round trip, with its ACKs
    assert found.events == pytest.approx(packets * (flow_cost.EVENTS_END + flow_cost.EVENTS_WIRE), rel=0.01)
    nothing = {**scenario(), "path": {"segment": [{"name": "s"}]}}
    assert "flow.f: no link of its path has a rate or a delay" in refused(nothing)


NODES = ["a", "m", "b"]
LINKS = [
    {"name": "one", "client_side": "a", "server_side": "m", "both": {"rate": "1 Mbit/s"}},
    {"name": "two", "client_side": "m", "server_side": "b", "delay": "1 ms"},
]


def graph(nodes: list[Any], links: list[dict[str, Any]]) -> dict[str, Any]:
    flow = {**BULK, "client": "a", "server": "b"}
    return {"duration": "1 s", "graph": {"node": nodes, "link": links}, "flow": [flow]}


def test_a_node_of_no_kind_passes_nothing_on() -> None:
    said = refused(graph(NODES, LINKS))
    assert 'graph.m: no route from "a" to "b": m between them is a host' in said
    assert said.endswith('did you mean kind = "router"?')
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
    said = capsys.readouterr().err.splitlines()
    assert said == [f"planning: {done:,} of 40,000 cells" for done in (8_000, 28_000, 40_000)]
    each = patience()
    each(3, 3)
    assert not capsys.readouterr().err, "a short plan says nothing"


def test_a_plan_tells_of_each_cell() -> None:
    told: list[tuple[int, int]] = []
    swept = scenario(sweep={"path.s0.delay": ["1 ms", "2 ms"]})
    build_plan(load_scenario(swept), "test", on_progress=lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]
    assert gc.isenabled()


def test_the_command_line_raises_a_bound_too() -> None:
    document = load_scenario(scenario(duration="20 h"), [("limits.events", 3_000_000_000)])
    assert build_plan(document, "test").runs


@pytest.mark.parametrize(
    "segment",
    [
        {"name": "s", "delay": "10 ms", "both": {"rate": "10 Gbit/s"}},
        {"name": "s", "delay": "0 ms"},
    ],
)
def test_a_path_that_carries_real_packets_has_no_price(segment: dict[str, Any]) -> None:
    """A shell simulates nothing, so that nobody has to wait for its events."""
    path, _ = resolve_path({"path": {"segment": [segment]}})
    assert [link["name"] for link in path["graph"]["links"]] == ["s"]


@pytest.mark.parametrize("name", ["bulk", "tcp", "shared", "page"])
def test_processor_time_is_of_the_right_size(name: str) -> None:
    """Within a factor of five, on whatever machine: another one is as much quicker or slower than the benchmark's."""
    one = plan(LOADS[name])
    text = one.runs[0].spec_json()
    engine.run(text)
    began = time.thread_time()
    engine.run(text)
    assert 1 / 5 < (time.thread_time() - began) / cost_estimate.estimate_cost(one.cells[0].resolved).cpu_s < 5


def test_many_small_runs_take_the_time_of_keeping_them() -> None:
    """Three hundred runs of a second were kept in 15.7 s, which the engine made in 0.5."""
    small = scenario({"load": {"bytes": "1 kB"}}, duration="1 s", seeds=300)
    small["path"]["segment"][0]["both"] = {"rate": "1 Mbit/s", "loss": "1 %"}
    assert 10 < cost_estimate.estimate_seconds(plan(small), 4) < 25


@pytest.mark.parametrize("load", [{}, {"load": {"poisson": {"every": "1 s", "size": "5 kB"}}}])
def test_a_group_costs_what_its_flows_cost_one_by_one(load: dict[str, Any]) -> None:
    own = {"transport": "tcp", **load}
    together = scenario({**own, "count": 7})
    apart = {**scenario(), "flow": [{**BULK, **own, "name": f"f{n}", "count": 1} for n in range(7)]}
    for data in (together, apart):
        data["flow"].append({**BULK, "name": "other"})
    one, each = (cost_estimate.estimate_cost(plan(data).cells[0].resolved) for data in (together, apart))
    assert one.events == pytest.approx(each.events, rel=1e-9)
    assert one.cpu_s == pytest.approx(each.cpu_s, rel=1e-9)


def test_bundles_cost_what_clients_generate_where_that_is_known() -> None:
    def events(client: str) -> float:
        load = {"bundles": {"layer": "quiccl", "dtnperf": client}}
        found = cost_estimate.estimate_cost(
            plan({**scenario({"load": load}), "duration": "10 h"}).cells[0].resolved
        )
        return sum(part.events for part in found.parts if part.key == "flow.f")

    for client in ("-R 1M -P 100k -D 10M", "-R 8k -P 100k -T 10000", "-W 1 -D 10M"):
        assert 10e6 / 1500 < events(client) < 25 * 10e6 / 1500
    with pytest.raises(ScenarioError, match=r"limits\.events"):
        events("-W 8 -P 100k")


def test_bundles_cross_every_flow_on_their_way_once() -> None:
    data = relayed("-R 1M -P 100k -D 20M")
    crossed = bundle_shares(plan(data).cells[0].resolved.spec)
    assert {name: [(one.direction, one.bytes(0.0)) for one in found] for name, found in crossed.items()} == {
        "am": [("up", pytest.approx(20.02e6))],
        "mb": [("up", pytest.approx(20.02e6))],
    }
    back = {**data, "flow": [data["flow"][0], {**data["flow"][1], "client": "b", "server": "m"}]}
    assert [one.direction for one in bundle_shares(plan(back).cells[0].resolved.spec)["mb"]] == ["down"]
    twice = {**data, "flow": [*data["flow"], {**data["flow"][1], "name": "too"}]}
    assert [bundle_shares(plan(twice).cells[0].resolved.spec)[name][0].share for name in ("mb", "too")] == [
        0.5,
        0.5,
    ]


def test_a_message_about_a_cell_shows_the_beginning_of_a_long_value() -> None:
    contacts = [
        {"from": "a", "to": "m", "start": f"{n} s", "stop": f"{n + 1} s", "rate": "1 Mbit/s"}
        for n in range(100)
    ]
    swept = relayed("-W 1 -P 100k -D 1M") | {"sweep": {"dtn.contact": [contacts], "flow.am.start": ["-1 s"]}}
    said = refused(swept)
    assert 'dtn.contact = [{"from": "a", "to": "m", "start": "0 s", "stop": "1 s", ..., ' in said
    assert len(said) < 400
