"""For any drawn scenario ``verify`` finds nothing, and the same seed gives the same bytes.

Paths of one to four links with stages of every kind and queues of every discipline. QUIC and TCP with their options,
proxies between the links, several flows at once. Handovers, detours round a link, nodes with store-and-forward.
``BENTPIPE_EXAMPLES=500`` draws that many.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as draw

from bentpipe.runners import engine
from bentpipe.store.codec import decode
from traced_runs import judged, loss, scenario, spec_of

MS = 1_000_000
Stage = dict[str, Any]


def of(kind: str, **fields: draw.SearchStrategy[Any]) -> draw.SearchStrategy[Stage]:
    return draw.fixed_dictionaries({"kind": draw.just(kind), **fields})


def changes(key: str, values: draw.SearchStrategy[Any]) -> draw.SearchStrategy[list[Stage]]:
    one = draw.fixed_dictionaries({"at_ns": draw.integers(0, 2000 * MS), key: values})
    return draw.lists(one, max_size=3, unique_by=lambda c: c["at_ns"]).map(
        lambda c: sorted(c, key=lambda d: d["at_ns"])
    )


NS = draw.integers(0, 60 * MS)
RATES = draw.integers(500_000, 30_000_000)
LIMITS = draw.one_of(
    draw.none(),
    draw.fixed_dictionaries({"packets": draw.integers(1, 80)}),
    draw.fixed_dictionaries({"bytes": draw.integers(3000, 120_000)}),
)
LAW = {
    "target_ns": draw.integers(1 * MS, 20 * MS),
    "interval_ns": draw.integers(20 * MS, 200 * MS),
    "ecn": draw.booleans(),
}
QUEUES = draw.one_of(
    of("drop_tail", limit=LIMITS),
    of("drop_head", limit=LIMITS),
    of("codel", limit=LIMITS, **LAW),
    of(
        "fq_codel",
        limit_packets=draw.integers(5, 80),
        flows=draw.integers(1, 16),
        quantum_bytes=draw.integers(300, 3000),
        **LAW,
    ),
    of(
        "per_user",
        scheduler=draw.deferred(lambda: SCHEDULERS),
        limit=LIMITS,
        total=LIMITS,
        csi_delay_ns=draw.sampled_from([0, 10 * MS]),
    ),
)
AVERAGE = draw.fixed_dictionaries(
    {"quantity": draw.sampled_from(["channel", "served"]), "window_ns": draw.integers(MS, 2000 * MS)}
)
DEADLINE = draw.fixed_dictionaries(
    {
        "delay_ns": draw.integers(MS, 200 * MS),
        "violation_ratio": draw.floats(0.001, 0.5),
        "best_effort": draw.sampled_from([[], [1]]),
    }
)


def named(name: str, **fields: draw.SearchStrategy[Any]) -> draw.SearchStrategy[Stage]:
    return draw.fixed_dictionaries({"name": draw.just(name), **fields})


SCHEDULERS = draw.one_of(
    named("round_robin"),
    named(
        "deficit_round_robin",
        quantum_bytes=draw.integers(1, 3000),
        weights=draw.sampled_from([[], [[1, 2.5]]]),
    ),
    named("maximum_rate"),
    named("proportional_fair", average=AVERAGE),
    named("codes", average=AVERAGE, time_limit_ns=draw.integers(MS, 50 * MS)),
    named("m_lwdf", average=AVERAGE, deadline=DEADLINE),
    named("exp_pf", average=AVERAGE, deadline=DEADLINE),
)
SERVICES = draw.one_of(
    of(
        "reconfiguration",
        reconfiguration=draw.deferred(lambda: TIMINGS),
        rate_bit_s=draw.lists(RATES, min_size=1, max_size=5).map(sorted),
    ),
    of("rate", rate_bit_s=RATES, changes=changes("rate_bit_s", RATES)),
    of(
        "trace",
        opportunities_ns=draw.lists(draw.integers(0, 20 * MS), min_size=4, max_size=40).map(sorted),
        opportunity_bytes=draw.integers(300, 3000),
        repeat_ns=draw.just(20 * MS),
    ),
)
PART = draw.floats(0, 0.05)


def quantiles(values: draw.SearchStrategy[Any]) -> draw.SearchStrategy[list[Any]]:
    return draw.lists(values, min_size=1, max_size=5).map(sorted)


TIMINGS = draw.tuples(draw.integers(50 * MS, 900 * MS), draw.floats(0, 0.99), draw.floats(0, 0.4)).map(
    lambda t: {"interval_ns": t[0], "phase_ns": int(t[0] * t[1]), "jitter_ns": int(t[0] * t[2])}
)
LOSSES = draw.one_of(
    of("loss", model=of("bernoulli", probability=PART), changes=changes("probability", PART)),
    draw.builds(
        lambda a, b, c, d: loss("gilbert_elliott", good_to_bad=a, bad_to_good=b, loss_good=c, loss_bad=d),
        PART,
        draw.floats(0.1, 1),
        PART,
        draw.floats(0, 1),
    ),
    draw.builds(
        lambda p, n, o: loss("burst", interval_ns=p, duration_ns=n, offset_ns=o),
        draw.integers(300 * MS, 2000 * MS),
        draw.integers(0, 60 * MS),
        draw.integers(0, 2000 * MS),
    ),
    draw.builds(
        lambda t, p, b, n: loss(
            "reconfiguration", reconfiguration=t, probability=p, burst_probability=b, burst_ns=n
        ),
        TIMINGS,
        quantiles(PART),
        draw.floats(0, 1),
        quantiles(draw.integers(0, 60 * MS)),
    ),
    draw.sets(draw.integers(0, 500), max_size=10).map(lambda lost: loss("trace", packets=sorted(lost))),
)
JITTERS = draw.one_of(
    of("uniform", max_ns=draw.integers(0, 10 * MS)),
    of("normal", mean_ns=draw.integers(0, 10 * MS), deviation_ns=draw.integers(0, 5 * MS)),
    of("exponential", mean_ns=draw.integers(0, 5 * MS)),
)
POINTS = draw.lists(
    draw.tuples(draw.integers(0, 2000 * MS), NS), min_size=1, max_size=5, unique_by=lambda p: p[0]
)
REFERENCE = draw.builds(lambda snr: {"snr_db": snr, "error_db": 0.0}, draw.floats(0, 20))
CHANNELS = draw.one_of(
    of("fixed", snr_db=draw.floats(-5, 20)),
    of(
        "rayleigh",
        reference=REFERENCE,
        motion=draw.just({"seed": None, "step_ns": 500_000, "carrier_hz": 2_000_000_000, "speed_m_s": 15.0}),
    ),
    of(
        "measured",
        reference=REFERENCE,
        points=draw.just([[0, 0.0], [700 * MS, 0.0], [900 * MS, 12.0], [1200 * MS, 0.0]]),
        interpolation=draw.sampled_from(["step", "linear"]),
        repeat_ns=draw.sampled_from([None, 1500 * MS]),
    ),
)
MODES = [
    {"es_n0_db": need, "data_bits": bits, "coded_bits": 64_800, "symbols": 32_490}
    for need, bits in ((-2.35, 15_928), (1.0, 32_128), (6.42, 58_112))
]
STAGES = draw.one_of(
    of(
        "acm",
        queue=QUEUES,
        channel=CHANNELS,
        symbols_s=RATES,
        modes=draw.integers(1, 3).map(lambda n: MODES[:n]),
        margin_db=draw.floats(0, 2),
        hysteresis_db=draw.floats(0, 2),
        report_interval_ns=draw.integers(10 * MS, 200 * MS),
        report_delay_ns=draw.integers(0, 600 * MS),
    ),
    of(
        "nr",
        queue=QUEUES.filter(lambda queue: queue["kind"] != "per_user"),
        channel=CHANNELS,
        slot_ns=draw.integers(MS // 8, MS),
        block_bytes=draw.integers(200, 3_000),
        coded_bits=draw.integers(3_000, 60_000),
        decoder=draw.one_of(
            of("information", margin=draw.floats(1, 1.2)),
            of("block_errors", probabilities=draw.lists(PART, min_size=1, max_size=3)),
        ),
        combining=draw.sampled_from(["none", "chase", "incremental"]),
        processes=draw.integers(16, 32),
        feedback_disabled_processes=draw.sampled_from([0, 8, 16]),
        repetitions=draw.integers(1, 3),
        attempts=draw.integers(1, 4),
        offset_slots=draw.integers(0, 8),
        feedback=draw.builds(
            lambda delay, lost: {"delay_ns": delay, "loss": lost},
            draw.integers(1, 40 * MS),
            draw.floats(0, 0.3),
        ),
        rlc=draw.one_of(
            of("unacknowledged"),
            of(
                "acknowledged",
                poll_pdus=draw.sampled_from([None, 8]),
                poll_bytes=draw.sampled_from([None, 9_000]),
                poll_retransmit_ns=draw.integers(40 * MS, 300 * MS),
                reassembly_ns=draw.integers(0, 100 * MS),
                status_prohibit_ns=draw.integers(0, 100 * MS),
                max_retransmissions=draw.integers(1, 8),
            ),
        ),
        reordering=draw.sampled_from([None, {"time_limit_ns": 30 * MS}]),
    ),
    of("delay", delay_ns=NS, changes=changes("delay_ns", NS)),
    of(
        "delay_trace",
        points=POINTS.map(sorted),
        interpolation=draw.sampled_from(["step", "linear"]),
        repeat_ns=draw.sampled_from([None, 2100 * MS]),
        reorder=draw.booleans(),
    ),
    of("transmit", queue=QUEUES, service=SERVICES),
    of(
        "reconfiguration_delay",
        reconfiguration=TIMINGS,
        delay_ns=quantiles(NS),
        jitter_ns=draw.just([]) | quantiles(draw.integers(0, 10 * MS)),
        step_ns=draw.integers(MS, 50 * MS),
        correlation=draw.floats(0, 0.99),
    ),
    of("netem", rate_bit_s=RATES, delay_ns=NS, limit_packets=draw.integers(5, 300)),
    LOSSES,
    of("jitter", model=JITTERS, reorder=draw.booleans()),
    of("reorder", probability=draw.floats(0, 0.1), delay_ns=draw.integers(0, 20 * MS)),
    of(
        "outage",
        windows=draw.tuples(draw.integers(0, 400 * MS), draw.integers(1, 300 * MS)).map(
            lambda w: [(w[0], w[0] + w[1])]
        ),
        repeat_ns=draw.sampled_from([None, 1000 * MS]),
        buffer_packets=draw.booleans(),
    ),
)
LINES = draw.lists(STAGES, max_size=3)

CONTROLLERS = draw.sampled_from(
    [one["scenario_name"] for one in engine.catalogue() if one["scenario_name"] != "fixed"]
)
ON_OFF = {"on": "90 ms", "off": "40 ms", "rate": "300 kbit/s", "packet": "500 B"}
LOADS = draw.one_of(
    draw.just({"time": "2 s"}),
    draw.integers(1, 400_000).map(lambda size: {"bytes": f"{size} B"}),
    draw.just({"poisson": {"interval": "200 ms", "size": "20 kB"}}),
    draw.just({"page": "almanac-2019-light", "http": "2"}),
    draw.sampled_from(["g711", "g729a-vad"]).map(lambda codec: {"call": codec}),
    draw.just({"cbr": {"rate": "400 kbit/s", "time": "1 s"}}),
    draw.sampled_from(["fixed", "pareto"]).map(lambda periods: {"on_off": {**ON_OFF, "periods": periods}}),
)
TCP_OPTIONS = draw.fixed_dictionaries(
    {},
    optional={
        "sack": draw.booleans(),
        "timestamps": draw.booleans(),
        "ecn": draw.booleans(),
        "window_scaling": draw.booleans(),
        "pacing": draw.booleans(),
        "fast_open": draw.booleans(),
    },
)
FLOWS = draw.lists(
    draw.fixed_dictionaries(
        {
            "congestion": CONTROLLERS,
            "load": LOADS,
            "direction": draw.sampled_from(["up", "down"]),
            "transport": draw.sampled_from(["quic", "tcp"]),
        }
    ),
    min_size=1,
    max_size=3,
)


TENS = draw.integers(1, 40).map(lambda tens: tens * 10 * MS)
INSTANTS = TENS | draw.integers(0, 600 * MS)
POLICIES = draw.sampled_from(["in_order", "reorder", "drop"])


def in_flight(policies: draw.SearchStrategy[str]) -> draw.SearchStrategy[Stage]:
    return of("in_flight", policy=policies)


def changes_of(stage: Stage) -> draw.SearchStrategy[Stage]:
    """A change that this stage takes."""
    lost = in_flight(draw.just("drop"))
    packets = draw.fixed_dictionaries({"packets": draw.integers(1, 80)})
    if stage["kind"] == "delay":
        return of("delay", delay_ns=NS) | in_flight(POLICIES)
    if stage["kind"] == "transmit":
        some = [lost, of("limit", limit=packets if stage["queue"]["kind"] == "fq_codel" else LIMITS)]
        rated = [of("rate", rate_bit_s=RATES), of("enabled", enabled=draw.booleans())]
        return draw.one_of(*some, *(rated if stage["service"]["kind"] == "rate" else []))
    if stage["kind"] == "netem":
        return of("delay", delay_ns=NS) | of("rate", rate_bit_s=RATES) | of("limit", limit=packets)
    if stage["kind"] == "loss":
        return of("loss", probability=PART)
    return in_flight(POLICIES) if stage.get("reorder") is False else lost


@draw.composite
def handed_over(take: draw.DrawFn, graph: Stage, detour: Stage) -> Stage:
    """``graph`` with a detour round one of its links, which is like ``detour``, with store-and-forward nodes, and
    handovers."""
    links, nodes = list(graph["links"]), [dict(node) for node in graph["nodes"]]
    if take(draw.booleans()):
        round_ = links[take(draw.integers(0, len(links) - 1))]
        ends = {"client_side": round_["client_side"], "server_side": "d"}
        links.append({**detour, "name": "d1", **ends})
        ends = {"client_side": "d", "server_side": round_["server_side"]}
        links.append({"name": "d2", **ends, "up": take(LINES), "down": take(LINES)})
        nodes.append({"name": "d", "kind": "router"})
    for node in nodes:
        if take(draw.booleans()):
            node["store_and_forward_bytes"] = take(draw.integers(1, 60_000))
    events: dict[int, Stage] = {}

    def at(instant: int) -> Stage:
        return events.setdefault(instant, {"at_ns": instant, "links": [], "routes": [], "stages": []})

    # A link is cut for a while, or for good.
    for _ in range(take(draw.integers(1, 3))):
        name, begin = take(draw.sampled_from([link["name"] for link in links])), take(INSTANTS)
        at(begin)["links"].append({"link": name, "enabled": False})
        if take(draw.integers(0, 3)) < 3:
            at(begin + take(TENS))["links"].append({"link": name, "enabled": True})
    hosts = [node["name"] for node in nodes if node["kind"] != "router"]
    ways = draw.fixed_dictionaries(
        {
            "node": draw.sampled_from([node["name"] for node in nodes]),
            "to": draw.sampled_from(hosts),
            "route": draw.sampled_from(["no_route", "shortest", "shortest"]),
        }
    ).filter(lambda way: way["node"] != way["to"])
    stages = [
        (f"{link['name']}.{way}", number, stage)
        for link in links
        for way in ("up", "down")
        for number, stage in enumerate(link[way])
    ]
    for _ in range(take(draw.integers(0, 4))):
        event = at(take(INSTANTS))
        event["routes"] += take(draw.lists(ways, max_size=1))
        for line, number, stage in take(draw.lists(draw.sampled_from(stages), max_size=3)) if stages else []:
            event["stages"].append({"simplex_link": line, "stage": number, "update": take(changes_of(stage))})
    return {"nodes": nodes, "links": links, "changes": [events[when] for when in sorted(events)]}


@draw.composite
def specs(take: draw.DrawFn) -> dict[str, Any]:
    """A resolved run. The narrowest rate of the planned path is kept on its first link, so that no run is endless."""
    links = take(draw.integers(1, 4))
    segments = [{"name": f"s{n}", "delay": "5 ms", "both": {"rate": "20 Mbit/s"}} for n in range(links)]
    flows = take(FLOWS)
    for flow in flows:
        if "page" in flow["load"]:
            del flow["direction"], flow["transport"]  # the page names senders and paths
        elif {"call", "cbr", "on_off"} & set(flow["load"]) and flow["transport"] == "tcp":
            flow["transport"] = "udp"
            del flow["congestion"]
    setups = take(draw.lists(draw.sampled_from(["relayed", "early", None]), max_size=links - 1))
    proxies = [
        {"name": f"p{n}", "between": [f"s{n}", f"s{n + 1}"], "handshake": setup}
        for n, setup in enumerate(setups)
        if setup is not None
    ]
    if len(proxies) > 1 and take(draw.booleans()):
        proxies[0]["handshake"] = "pooled"  # towards the next one
    data = scenario(*segments, flows=tuple(flows), **({"proxy": proxies} if proxies else {}))
    data |= {"duration": "2 s", "sample_interval": "100 ms", "tcp": take(TCP_OPTIONS)}
    spec = spec_of(data)
    for number, flow in enumerate(spec["flows"]):
        if take(draw.booleans()):
            flow["user"] = number
    planned = dict(spec["graph"]["links"][0])
    for number, link in enumerate(spec["graph"]["links"]):
        for way in ("up", "down"):
            drawn = take(LINES)
            link[way] = [*link[way], *drawn] if number == 0 else drawn
    if take(draw.booleans()):
        spec["graph"] = take(handed_over(spec["graph"], planned))
    return {**spec, "seed": take(draw.integers(0, 2**32))}


@settings(
    max_examples=int(os.environ.get("BENTPIPE_EXAMPLES", "40")),
    derandomize="BENTPIPE_EXAMPLES" not in os.environ,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
@given(specs())
def test_any_drawn_scenario(spec: dict[str, Any]) -> None:
    text = json.dumps(spec)
    data = engine.run(text)
    with tempfile.TemporaryDirectory() as folder:
        found = judged(Path(folder), spec, dict(decode(data).tables))
    assert not found, found[:5]
    assert engine.run(text) == data, "the same seed gives the same bytes"
