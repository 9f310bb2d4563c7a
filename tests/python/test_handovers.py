"""Handovers in a scenario: input of the engine, results, values of `check`, and messages."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bentpipe.lab.access import find_route_changes, resolve_path
from bentpipe.lab.emulation.build import round_trips_ns
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.plan import plan as plan_plan
from bentpipe.plan.analysis.bounds import Bound, bounds
from bentpipe.plan.analysis.lint import lint_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.scenario.errors import ScenarioError
from traced_runs import judged, made, spec_of

PATH: dict[str, Any] = {
    "duration": "6 s",
    "trace": {"packet_steps": True},
    "path": {
        "segment": [
            {"name": "lan", "delay": "1 ms"},
            {"name": "satellite", "delay": "30 ms", "both": {"rate": "10 Mbit/s"}},
            {"name": "internet", "delay": "4 ms"},
        ],
        "handover": [
            {"name": "switch", "at": "2 s", "segment": "satellite", "delay": "10 ms", "in_flight": "in-order"}
        ],
    },
    "flow": [{"name": "f0", "congestion": "cubic", "direction": "down", "load": {"time": "6 s"}}],
}
GRAPH: dict[str, Any] = {
    "duration": "6 s",
    "trace": {"packet_steps": True},
    "graph": {
        "node": [
            "terminal", {"name": "far", "kind": "router"}, {"name": "near", "kind": "router"},
            {"name": "gateway", "kind": "router"}, "server",
        ],
        "link": [
            {"name": "one", "client_side": "terminal", "server_side": "far", "delay": "30 ms",
             "both": {"rate": "10 Mbit/s"}},
            {"name": "two", "client_side": "terminal", "server_side": "near", "delay": "10 ms",
             "both": {"rate": "20 Mbit/s"}, "enabled": False},
            {"name": "three", "client_side": "far", "server_side": "gateway", "delay": "5 ms"},
            {"name": "four", "client_side": "near", "server_side": "gateway", "delay": "5 ms"},
            {"name": "ground", "client_side": "gateway", "server_side": "server", "delay": "1 ms"},
        ],
        "handover": [{"at": "2 s", "to": "two", "replaces": "one", "in_flight": "drop"}],
    },
    "flow": [
        {"name": "f0", "congestion": "cubic", "client": "terminal", "server": "server", "load": {"time": "6 s"}}
    ],
}  # fmt: skip


def planned(data: dict[str, Any], **change: Any) -> Plan:
    changes = {key.replace("__", "."): value for key, value in change.items()}
    return build_plan(load_scenario(copy.deepcopy(data), list(changes.items())), "test")


def with_handovers(*handovers: dict[str, Any], base: dict[str, Any] = PATH) -> dict[str, Any]:
    data = copy.deepcopy(base)
    data["path" if "path" in data else "graph"]["handover"] = list(handovers)
    return data


def at_2_s(**keys: Any) -> dict[str, Any]:
    return {"at": "2 s", "segment": "satellite", **keys}


def stage(line: str, number: int, kind: str, **change: Any) -> dict[str, Any]:
    return {"simplex_link": line, "stage": number, "update": {"kind": kind, **change}}


def test_the_engine_gets_one_event() -> None:
    handover = at_2_s(
        delay="10 ms", down={"rate": "20 Mbit/s", "queue": "1 BDP", "loss": "1 %"}, up={"delay": "12 ms"},
        in_flight="drop", queued="drop", gap="100 ms",
    )  # fmt: skip
    graph = spec_of(with_handovers(handover))["graph"]
    first, second = graph["changes"]
    assert [first["at_ns"], second["at_ns"]] == [2_000_000_000, 2_100_000_000]
    assert first["links"] == [{"link": "satellite", "enabled": False}]
    assert second == {"at_ns": 2_100_000_000, "links": [{"link": "satellite", "enabled": True}]}
    up, down = "satellite.up", "satellite.down"
    # at 10 and 12 ms the round trip is 32 ms, of which 20 Mbit/s are 80 kB
    assert first["stages"] == [
        stage(up, 0, "in_flight", policy="drop"),
        stage(up, 1, "in_flight", policy="drop"),
        stage(down, 0, "in_flight", policy="drop"),
        stage(down, 2, "in_flight", policy="drop"),
        stage(up, 1, "delay", delay_ns=12_000_000),
        stage(down, 2, "delay", delay_ns=10_000_000),
        stage(down, 0, "rate", rate_bit_s=20_000_000),
        stage(down, 0, "limit", limit={"bytes": 80_000}),
        stage(down, 1, "loss", probability=0.01),
    ]
    assert "changes" not in spec_of(with_handovers())["graph"], "scenarios without keep their runs"


def test_a_queue_of_a_hand_over_is_of_the_round_trip_after_all_of_the_instant() -> None:
    """The delay may come from either side or from the handover: 100 ms of 5 Mbit/s are 62,500 B."""

    def limits(*handovers: dict[str, Any]) -> list[Any]:
        data = with_handovers(*handovers)
        data["path"]["segment"] = [{"name": "satellite", "delay": "20 ms", "both": {"rate": "5 Mbit/s"}}]
        (event,) = spec_of(data)["graph"]["changes"]
        return [one["update"]["limit"] for one in event["stages"] if one["update"]["kind"] == "limit"]

    whole = {"bytes": 62_500}
    assert limits(at_2_s(delay="50 ms", both={"queue": "1 BDP"})) == [whole, whole]
    assert limits(at_2_s(both={"queue": "1 BDP"}), at_2_s(delay="50 ms")) == [whole, whole]
    assert limits(at_2_s(up={"queue": "1 BDP"}), at_2_s(both={"delay": "50 ms", "rate": "5 Mbit/s"})) == [
        whole
    ]


def test_repeated_and_simultaneous_events() -> None:
    again = {"interval": "2 s", "in_flight": "reorder"}
    handovers = [
        at_2_s(delay="10 ms", **again),
        {**at_2_s(delay="20 ms", **again), "at": "1 s"},
        {"at": "1 s", "segment": "lan", "gap": "1 s"},
    ]
    events = spec_of(with_handovers(*handovers))["graph"]["changes"]
    assert [event["at_ns"] // 10**9 for event in events] == [1, 2, 3, 4, 5]
    assert [bool(event.get("links")) for event in events] == [True, True, False, False, False]
    delays = [event["stages"][2]["update"]["delay_ns"] // 10**6 for event in events]
    assert delays == [20, 10, 20, 10, 20]


RADIO: dict[str, dict[str, Any]] = {
    "radio": {
        "channel": {"model": "rayleigh", "speed": "60 km/h", "snr": "13 dB"},
        "link_layer": {"scheme": "adaptive-harq", "frame": "1115 B"},
    },
    "nr": {"nr": {"slot": "1 ms", "block_error_rate": ["10 %", "1 %"], "rlc": "am"}},
}


def over_radio(kind: str) -> dict[str, Any]:
    """Packets queued for a radio link, or for retransmission over it, are lost."""
    data = with_handovers(at_2_s(queued="drop", interval="1 s"))
    segment = data["path"]["segment"][1]
    segment["down"] = {"queue": "100 packets", "rate": "10 Mbit/s", **RADIO[kind]}
    segment["up"] = {"rate": "2 Mbit/s"}
    del segment["both"]
    return data


RUNS = {
    "path": PATH,
    "lost before a radio link": over_radio("radio"),
    "lost before a 5G link": over_radio("nr"),
    "overtaken": with_handovers(at_2_s(delay="10 ms", in_flight="reorder")),
    "lost": with_handovers(at_2_s(in_flight="drop", queued="drop", interval="1 s")),
    "gap": with_handovers(at_2_s(gap="200 ms", both={"rate": "5 Mbit/s", "queue": "20 packets"})),
    "graph": GRAPH,
    "graph with a gap": with_handovers(
        {"at": "2 s", "to": "two", "replaces": "one", "gap": "300 ms"}, base=GRAPH
    ),
    "a way that comes later": with_handovers(
        {"at": "2 s", "to": "one"}, {"at": "4 s", "to": "two"}, base=GRAPH
    ),
}
RUNS["a way that comes later"]["graph"]["link"][0]["enabled"] = False


@pytest.mark.parametrize("transport", ["quic", "tcp"])
@pytest.mark.parametrize("name", RUNS)
def test_runs_are_sound(name: str, transport: str, tmp_path: Path) -> None:
    data = copy.deepcopy(RUNS[name])
    data["flow"][0]["transport"] = transport
    spec = spec_of(data)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    ways = planned(data).cells[0].resolved.ways["f0"]
    least = min(sum(hop.delay_min_ns for hops in way for hop in hops) for way in ways)
    rtt = tables["flows"]["min_rtt_ms"].drop_nulls().min()
    assert isinstance(rtt, float)
    assert least / 1e6 <= rtt, "no packet is quicker than the bound, whatever changes"


@pytest.mark.parametrize("kind", RADIO)
def test_packets_queued_for_a_radio_link_are_lost_too(kind: str) -> None:
    data = over_radio(kind)
    spec = spec_of(data)
    stage_kinds = [one["kind"] for one in spec["graph"]["links"][1]["down"]]
    assert stage_kinds[0] == kind
    assert spec["graph"]["changes"][0]["stages"] == [
        stage("satellite.up", 0, "in_flight", policy="drop"),
        stage("satellite.down", 0, "in_flight", policy="drop"),
    ]
    dropped = made(spec)["packets"]["dropped"]
    assert dropped.str.ends_with("satellite.down: outage").sum() > 0


def test_a_segment_holds_what_comes_in_its_gap(tmp_path: Path) -> None:
    data = with_handovers(at_2_s(gap="200 ms"))
    rows = made(spec_of(data))["packets"]
    assert rows.filter(pl.col("dropped").str.ends_with(": no_route")).height > 0
    data["path"]["segment"][1]["store_and_forward"] = "200 kB"
    spec = spec_of(data)
    holding = [
        node["name"] for node in spec["graph"]["nodes"] if node.get("store_and_forward_bytes") == 200_000
    ]
    assert holding == ["lan-satellite", "satellite-internet"]
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    assert set(tables["node_buffers"]["node"]) == set(holding)
    assert tables["node_buffers"]["released_packets"].max() > 0  # type: ignore[operator]
    assert not any(drop.endswith(": no_route") for drop in tables["packets"]["dropped"].unique())


def test_bounds_are_those_of_the_whole_run() -> None:
    def of(data: dict[str, Any]) -> Bound:
        return bounds(planned(data))[0]

    still, quicker = of(with_handovers()), of(PATH)
    assert still.min_rtt_ms - quicker.min_rtt_ms == pytest.approx(40)
    assert of(with_handovers(at_2_s(both={"rate": "40 Mbit/s"}))).rate_bit_s == 40_000_000
    assert of(with_handovers(at_2_s(both={"rate": "1 Mbit/s"}))).rate_bit_s == still.rate_bit_s
    bound = of(GRAPH)
    assert bound.rate_bit_s == 20_000_000
    assert bound.min_rtt_ms == pytest.approx(2 * 16 + 1480 * 8 / 20_000)
    changed = with_handovers()
    changed["path"]["segment"][1]["down"] = {"changes": [{"at": "1 s", "delay": "20 ms"}]}
    assert of(changed).min_rtt_ms == pytest.approx(still.min_rtt_ms - 10)


def test_a_window_is_not_the_limit_after_a_hand_over() -> None:
    longer = with_handovers(at_2_s(delay="20 s", both={"rate": "100 Mbit/s"}))
    quic = spec_of(longer)["flows"][0]["transport"]
    assert quic["receive_window_bytes"] > 4 * 100_000_000 / 8 * 40


def test_a_sweep_and_a_warning() -> None:
    plan = planned(
        PATH, sweep={"path.switch.in_flight": ["in-order", "drop"], "path.switch.rate": ["5 Mbit/s"]}
    )
    assert [cell.values["path.switch.in_flight"] for cell in plan.cells] == ["in-order", "drop"]
    assert plan.cells[1].resolved.spec["graph"]["changes"][0]["stages"][0]["update"]["policy"] == "drop"
    late = lint_plan(planned(PATH, path__switch__at="7 s"))
    assert [(one.key, one.text) for one in late] == [
        ("path.switch.at", "found 7 s, but the run lasts 6 s: the handover never happens")
    ]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no segment": (
        {"at": "2 s", "segment": "satelite", "delay": "1 ms"},
        (
            'path.handover[1].segment: no segment "satelite", expected one of: lan, satellite, internet; did you mean '
            '"satellite"?'
        ),
    ),
    "nothing": (
        at_2_s(),
        (
            "path.handover[1]: found a handover without changes, expected at least one of delay, up, down, both, "
            "in_flight, gap"
        ),
    ),
    "a gap without end": (
        at_2_s(gap="2 s", interval="2 s"),
        "path.handover[1]: found a gap of 2 s with interval = 2 s, expected a shorter gap",
    ),
    "a fate": (
        at_2_s(in_flight="in_order"),
        (
            'path.handover[1].in_flight: found "in_order", expected one of: in-order, reorder, drop; '
            'did you mean "in-order"?'
        ),
    ),
    "a direction's key": (
        at_2_s(rate="5 Mbit/s"),
        'path.handover[1].rate: no key "rate" here: it belongs to a direction; did you mean "both = { rate = ... }"?',
    ),
    "too many": (
        {"at": "1 ms", "interval": "10 us", "segment": "satellite", "delay": "1 ms"},
        "path.handover[1].interval: has more than 200,000 handovers in 6 s; expected fewer",
    ),
    "no rate": (
        {"at": "2 s", "segment": "lan", "both": {"rate": "5 Mbit/s"}},
        "path.handover[1].up.rate: requires a rate of path.lan.up",
    ),
    "called like a segment": (
        at_2_s(delay="1 ms", name="lan"),
        'path.lan: a handover and another element have the name "lan", expected unique names',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_reported_at_their_key(name: str) -> None:
    handover, message = WRONG[name]
    with pytest.raises(ScenarioError) as caught:
        planned(with_handovers(handover))
    assert str(caught.value) == f"scenario: {message}"


def error_message(data: dict[str, Any]) -> str:
    with pytest.raises(ScenarioError) as caught:
        planned(data)
    return str(caught.value)


def test_the_number_of_handovers_in_a_plan_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_plan, "MAX_CHANGES", 11)
    data = with_handovers(at_2_s(interval="1 s", delay="1 ms")) | {
        "sweep": {"path.lan.delay": ["1 ms", "2 ms"]}
    }
    assert len(planned(data).runs) == 2, "four in each"
    data["sweep"]["path.lan.delay"].append("3 ms")
    assert error_message(data) == (
        "scenario: sweep: has more than 11 handovers in all; expected fewer cells, or fewer in each"
    )


def test_further_errors() -> None:
    nowhere = with_handovers(at_2_s(in_flight="drop"))
    nowhere["path"]["segment"][1]["delay"] = "0 s"
    assert 'found "drop", and satellite has no delay; expected one' in error_message(nowhere)
    idle = with_handovers({"at": "2 s", "segment": "lan", "queued": "drop"})
    assert 'queued: found "drop", and lan has no queue; expected one' in error_message(idle)
    beside = with_handovers(at_2_s(delay="1 ms"))
    beside["path"]["segment"][1]["down"] = {"changes": [{"at": "1 s", "delay": "20 ms"}]}
    assert "found a delay beside changes of path.satellite.down, expected one of them" in error_message(
        beside
    )
    two = copy.deepcopy(PATH)
    for segment, hold in zip(two["path"]["segment"], ("1 MB", "2 MB", "2 MB"), strict=True):
        segment["store_and_forward"] = hold
    assert (
        "path.satellite.store_and_forward: found 2 MB beside 1 MB of lan, expected one of the node between"
        in error_message(two)
    )
    two["path"]["segment"][0]["store_and_forward"] = "0 B"
    assert 'path.lan.store_and_forward: found "0 B", expected a size above 0' in error_message(two)
    unused = with_handovers(base=GRAPH)
    assert (
        "graph.two.enabled: found false, and no handover uses the link; expected a handover to it, or true"
        in error_message(unused)
    )
    same = with_handovers({"at": "2 s", "to": "two", "replaces": "two"}, base=GRAPH)
    assert 'found to and replaces "two", expected two links, or no replaces' in error_message(same)


def test_real_time_changes_links_and_refuses_other_ways() -> None:
    spec = spec_of({**PATH, "trace": {}})
    assert refusals(spec, []) == [] or all("handover" not in key for key, _ in refusals(spec, []))
    longer = spec_of(with_handovers(at_2_s(delay="50 ms")))
    assert round_trips_ns(longer) == [2 * (1 + 50 + 4) * 10**6]
    path, _ = resolve_path({"path": PATH["path"]}, pep="early")
    assert path["graph"]["changes"][0]["at_ns"] == 2_000_000_000
    gap = with_handovers(at_2_s(gap="100 ms"))
    why = 'at 2 s the link "satellite" goes out of use; an access can change delay, rate, queue and loss, but no routes'
    assert why in find_route_changes(spec_of(gap)["graph"])[0][1]
    # Between hosts of a run, ways change too.
    assert not any(
        "handover" in key or "out of use" in error_message
        for key, error_message in refusals(spec_of(gap), [])
    )
    with pytest.raises(ScenarioError, match='the link "satellite" goes out of use'):
        resolve_path({"path": gap["path"]})
