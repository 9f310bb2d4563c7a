"""QUIC over minutes to days: the handshake by hand, store-and-forward routers, links on a contact plan. Also the
profile of draft-ietf-tiptop-quic-profile, and warnings of settings that cannot work."""

from __future__ import annotations

import copy
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bentpipe.plan.analysis.lint import lint_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.toml_writer import dumps
from nightly import keep
from traced_runs import judged, made, spec_of

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios/deep-space"
SECOND = 10**9
HOUR = 3600 * SECOND
PTO_S = 3 * 0.333
"""RFC 9002 sections 6.2.1 and 6.2.2: 333 ms and four times its half."""

FAR: dict[str, Any] = {
    "duration": "3 h",
    "sample_interval": "10 s",
    "trace": {"packet_steps": True},
    "path": {
        "segment": [
            {"name": "lan", "delay": "1 ms", "both": {"rate": "100 Mbit/s", "queue": "none"}},
            {"name": "space", "delay": "4 min", "both": {"rate": "100 kbit/s", "queue": "none"}},
        ]
    },
    "flow": [{"name": "file", "congestion": "no-op", "load": {"bytes": "2 MB"}}],
    "quic": {"profile": "deep-space"},
}


def far(*settings: tuple[str, object], hold: str | None = None, **gap: Any) -> dict[str, Any]:
    """The path, whose second link goes down ``at`` for ``gap``; its near node holds."""
    data = copy.deepcopy(FAR)
    if gap:
        data["path"]["handover"] = [{"segment": "space", "queued": "hold", **gap}]
    if hold is not None:
        data["path"]["segment"][1]["store_and_forward"] = hold
    for key, value in settings:
        table, _, name = key.rpartition(".")
        (data["flow"][0] if table == "flow" else data.setdefault(table, {}) if table else data)[name] = value
    return data


def quic_of(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec_of(data)["flows"][0]["transport"]
    return found


@pytest.mark.parametrize("minutes", [1, 4, 20])
def test_a_handshake_with_default_timers_is_that_of_rfc_9002_by_hand(minutes: int, tmp_path: Path) -> None:
    segment = {"name": "space", "delay": f"{minutes} min", "both": {"rate": "1 Mbit/s", "queue": "none"}}
    data = far(("quic.profile", "none"), ("flow.load", {"bytes": "1 kB"}))
    data["path"]["segment"] = [segment]
    spec = spec_of(data)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    trip = 120 * minutes
    events = tables["events"].filter(pl.col("side") == "client")
    expired = events.filter((pl.col("kind") == "pto") & (pl.col("time_s") < trip))["time_s"].to_list()
    times = math.floor(math.log2(trip / PTO_S + 1))
    assert expired == pytest.approx([PTO_S * (2**k - 1) for k in range(1, times + 1)], abs=1e-3)
    connected = events.filter(pl.col("kind") == "connected")["time_s"][0]
    assert trip < connected < trip + 0.1
    sent = tables["packets"].filter((pl.col("from_node") == "client") & (pl.col("sent_s") < trip))
    assert set(sent["label"]) == {"Initial"}
    assert sent.height == 1 + 2 * times
    # The server's flight is two packets. Its timers of the Initial and of the Handshake space share one backoff
    # (section 6.2.1), and each expiry sends two. Each Initial that the client repeated is acknowledged (RFC 9000
    # section 13.2.1).
    answers = tables["packets"].filter(pl.col("from_node") == "server").sort("sent_s")
    first, finished = answers["sent_s"][0], answers["sent_s"][0] + trip
    last = {"Initial": first, "Handshake": first}
    due: list[float] = []
    while (at := min((one + PTO_S * 2 ** len(due), name) for name, one in last.items()))[0] < finished:
        due.append(at[0])
        last[at[1]] = at[0]
    probed = tables["events"].filter((pl.col("side") == "server") & (pl.col("kind") == "pto"))["time_s"]
    assert probed.filter(probed < finished).to_list() == pytest.approx(due, abs=0.02 * len(due))
    assert answers.filter(pl.col("sent_s") < finished - 0.1).height == 2 + 2 * len(due) + 2 * times


def test_with_the_profile_nothing_of_a_handshake_is_sent_twice() -> None:
    tables = made(spec_of(far(("flow.load", {"bytes": "1 kB"}))))
    assert not tables["events"].filter(pl.col("kind") == "pto").height
    summary = tables["flow_summary"].sort("side")
    assert summary["sent_packets"].to_list() == [5, 5]
    connected = tables["events"].filter(pl.col("kind") == "connected").sort("time_s")["time_s"].to_list()
    assert connected == pytest.approx([480, 720], abs=1)


def test_the_profile_is_that_of_the_path() -> None:
    # the draft's example: 22.5 minutes one way at the most, a pass every 6 hours: 6 h 45 min
    data = far(at="1 h", interval="12 h", gap="6 h")
    data |= {"duration": "48 h"}
    data["path"]["segment"][0]["delay"] = "0 s"
    data["path"]["segment"][1]["delay"] = "22.5 min"
    longest = 24_300 * SECOND
    words = quic_of(data)
    credit = 2 * 100_000 * 24_300 // 8
    assert words["initial_rtt_ns"] == longest
    assert words["idle_timeout_ns"] == 9 * longest
    assert words["packet_threshold"] == 2**32 - 1
    assert "time_threshold_permille" not in words, "the stack's own 9/8"
    windows = ("receive_window_bytes", "stream_receive_window_bytes", "send_window_bytes")
    assert [words[key] for key in windows] == [credit] * 3
    assert (words["ack_eliciting_threshold"], words["max_ack_delay_ns"]) == (9, SECOND)
    flow = spec_of(data)["flows"][0]
    assert flow["client_congestion"] == {"name": "no-op", "options": {"window_bytes": credit}}
    rates = spec_of({**data, "flow": [{**data["flow"][0], "congestion": "open-loop"}]})["flows"][0]
    assert rates["client_congestion"]["options"] == {"rate_bit_s": 100_000 * 1452 // 1480}
    own = {"name": "no-op", "window_bytes": 5}
    assert spec_of({**data, "flow": [{**data["flow"][0], "congestion": own}]})["flows"][0]["client_congestion"] == {
        "name": "no-op", "options": {"window_bytes": 5},
    }  # fmt: skip


def test_explicit_options_override_the_profile() -> None:
    lint_warnings = quic_of(
        far(("quic.initial_rtt", "1 h"), ("quic.packet_threshold", 7), ("quic.time_threshold", 1.5))
    )
    assert (lint_warnings["initial_rtt_ns"], lint_warnings["packet_threshold"]) == (HOUR, 7)
    assert lint_warnings["time_threshold_permille"] == 1500
    assert lint_warnings["idle_timeout_ns"] == 9 * 480_002_000_000, "the rest is of the path"
    longest = quic_of(far(("quic.max_rtt", "2 h"), ("flow.quic", {"idle_timeout": "none"})))
    assert (longest["initial_rtt_ns"], longest["idle_timeout_ns"]) == (2 * HOUR, None)


@pytest.mark.parametrize(("delay", "expected_s"), [("2 s", 904), ("4 min", 1380)])
def test_round_trips_of_the_trials_at_ietf_124(delay: str, expected_s: int) -> None:
    # they were set to 910 and 1390 s by hand
    document = load_scenario(SCENARIOS / "ietf-124.toml", [("path.space.delay", delay)])
    runs = [run.spec["flows"][0]["transport"] for run in build_plan(document, "test").runs]
    known = {quic["initial_rtt_ns"] for quic in runs if quic["kind"] == "quic"}
    assert known == {333_000_000, expected_s * SECOND}


def test_round_trips_jump_from_eight_minutes_to_an_hour(tmp_path: Path) -> None:
    # 12 minutes after the start the link goes down for 52: what comes meanwhile is there an hour later
    spec = spec_of(far(("duration", "4 h"), at="12 min", gap="52 min", hold="10 MB"))
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    trips = tables["flows"].filter(pl.col("side") == "client")["latest_rtt_ms"].drop_nulls() / 60_000
    assert trips.min() == pytest.approx(8, abs=0.2)
    assert 55 < trips.max() < 65  # type: ignore[operator]
    client = tables["flow_summary"].filter(pl.col("side") == "client")
    assert client["delivered_bytes"][0] == 2_000_000
    assert client["lost_packets"][0] == 0, "what is held is not lost"
    held = tables["packets"].filter((pl.col("received_s") - pl.col("sent_s")) > 1000)
    assert held.height > 100
    assert (tables["packets"]["dropped"] == "").all()


def test_nothing_is_served_while_the_link_is_down(tmp_path: Path) -> None:
    spec = spec_of(far(at="10 min", gap="52 min", hold="10 MB"))
    tables = made(spec)
    arrived = tables["packets"].filter(pl.col("to_node") == "server")["received_s"].drop_nulls()
    down, up = 10 * 60 + 240, 62 * 60 + 240
    # one packet of 118 ms was being served
    assert arrived.is_between(down + 0.2, up, closed="left").sum() == 0
    assert arrived.is_between(up, up + 60).sum() > 100
    longer = copy.deepcopy(spec)
    for event in longer["graph"]["changes"]:
        if event["at_ns"] == 62 * 60 * SECOND:
            event["at_ns"] += 60 * SECOND
    rules = {finding.rule for finding in judged(tmp_path, longer, tables)}
    assert "link rate" in rules, "one who looks sees what was served too soon"


@pytest.mark.parametrize(("hold", "dropped"), [("100 kB", True), ("10 MB", False)])
def test_a_buffer_that_overflows_is_counted_with_its_cause(hold: str, dropped: bool, tmp_path: Path) -> None:
    spec = spec_of(
        far(("duration", "8 h"), ("flow.congestion", "open-loop"), at="9 min", gap="20 min", hold=hold)
    )
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    holds = tables["node_buffers"].filter(pl.col("node") == "lan-space").sort("time_s")
    last = holds.tail(1)
    lost = tables["packets"].filter(pl.col("dropped") != "")
    assert last["dropped_overflow_packets"][0] == lost.height
    assert (lost.height > 0) == dropped
    assert set(lost["dropped"].unique()) <= {"lan-space: overflow"}
    assert holds["buffered_bytes"].max() <= (100_000 if dropped else 10_000_000)  # type: ignore[operator]
    assert last["arrived_packets"][0] == last["released_packets"][0] + last["dropped_overflow_packets"][0]
    client = tables["flow_summary"].filter(pl.col("side") == "client")
    assert client["delivered_bytes"][0] == 2_000_000, "lost and sent again"
    assert client["congestion_events"][0] == 0 or dropped


def test_a_loss_is_found_after_the_time_threshold() -> None:
    def found(threshold: float) -> float:
        burst = {"burst": {"interval": "4 h", "duration": "2 s", "offset": "530 s"}}
        data = far(("duration", "4 h"), ("quic.time_threshold", threshold))
        data["path"]["segment"][1]["up"] = {"loss": burst}
        tables = made(spec_of(data))
        lost = tables["packets"].filter(pl.col("dropped").str.ends_with(": loss"))
        assert lost.height > 10
        first: float = tables["events"].filter(pl.col("kind") == "congestion")["time_s"].min()  # type: ignore[assignment]
        return first - lost["sent_s"].min()  # type: ignore[operator]

    # of round trips of 480 s and what the queue adds, the same for both
    assert found(1.5) / found(1.25) == pytest.approx(1.5 / 1.25, rel=0.01)
    assert found(1.25) > 1.25 * 480


def test_packets_in_flight_are_lost_at_the_configured_link(tmp_path: Path) -> None:
    data = far(("duration", "8 h"), at="17 min", gap="20 min", hold="10 MB", in_flight="drop")
    spec = spec_of(data)
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    lost = tables["packets"].filter(pl.col("dropped").str.ends_with(": outage"))
    assert lost.height > 50
    # on the way when the link fell
    assert lost["sent_s"].max() <= 17 * 60  # type: ignore[operator]
    assert tables["flow_summary"].filter(pl.col("side") == "client")["delivered_bytes"][0] == 2_000_000


PLAN = """
range = [{ from = "rover", to = "orbiter", owlt = "10 ms" }, { from = "orbiter", to = "earth", stop = "30 min", owlt = "4 min" },
         { from = "orbiter", to = "earth", start = "30 min", owlt = "5 min" }]
contact = [
  { from = "rover", to = "orbiter", start = "10 min", stop = "20 min", rate = "1 Mbit/s", both = true },
  { from = "rover", to = "orbiter", start = "40 min", stop = "50 min", rate = "2 Mbit/s", both = true },
  { from = "orbiter", to = "earth", stop = "9 h", rate = "500 kbit/s", both = true },
]
"""
PLANNED: dict[str, Any] = {
    "duration": "3 h",
    "sample_interval": "1 min",
    "trace": {"packet_steps": True},
    "graph": {
        "node": [
            {"name": "rover", "store_and_forward": "50 MB"}, {"name": "orbiter", "kind": "router", "store_and_forward": "50 MB"},
            {"name": "earth", "store_and_forward": "50 MB"},
        ],
        "link": [
            {"name": "proximity", "client_side": "rover", "server_side": "orbiter", "both": {"queue": "none"}},
            {"name": "trunk", "client_side": "orbiter", "server_side": "earth", "both": {"queue": "none"}},
        ],
        "contacts": "plan.toml",
    },
    "flow": [
        {"name": "f", "client": "rover", "server": "earth", "congestion": "open-loop", "load": {"bytes": "3 MB"}}
    ],
    "quic": {"profile": "deep-space"},
}  # fmt: skip


def on_plan(folder: Path, text: str = PLAN, **graph: Any) -> dict[str, Any]:
    """The run of :data:`PLANNED` whose links follow the plan ``text``."""
    (folder / "plan.toml").write_text(text)
    file = folder / "scenario.toml"
    file.write_text(dumps({**PLANNED, "graph": {**PLANNED["graph"], **graph}}))
    spec: dict[str, Any] = json.loads(build_plan(load_scenario(file), "test").runs[0].spec_json())
    return spec


def test_links_follow_a_contact_plan(tmp_path: Path) -> None:
    spec = on_plan(tmp_path)
    events = {event["at_ns"] // (60 * SECOND): event for event in spec["graph"]["changes"]}
    assert sorted(events) == [0, 10, 20, 30, 40, 50, 180]
    used = {at: [one["enabled"] for one in event.get("links", [])] for at, event in events.items()}
    assert used == {0: [False], 10: [True], 20: [False], 30: [], 40: [True], 50: [False], 180: [True]}
    changes = [
        (at, one["simplex_link"], one["update"])
        for at, event in events.items()
        for one in event.get("stages", [])
    ]
    rates = [(at, line) for at, line, change in changes if change["kind"] == "rate"]
    assert rates == [(40, "proximity.up"), (40, "proximity.down")]
    assert {(at, line, change["delay_ns"]) for at, line, change in changes if change["kind"] == "delay"} == {
        (30, "trunk.up", 300 * SECOND), (30, "trunk.down", 300 * SECOND),
    }  # fmt: skip
    assert [change["enabled"] for at, line, change in changes if at == 20 and line == "proximity.up"] == [
        False
    ]
    tables = made(spec)
    assert not judged(tmp_path, spec, tables)
    first = tables["packets"].filter(pl.col("from_node") == "rover")["received_s"].min()
    assert first == pytest.approx(10 * 60 + 240, abs=1), "it waited for the contact"
    assert tables["flow_summary"].filter(pl.col("side") == "client")["delivered_bytes"][0] == 3_000_000


def test_a_plan_of_bundle_nodes_is_one_of_links_too(tmp_path: Path) -> None:
    spec = on_plan(tmp_path)
    data = {**PLANNED, "graph": {**PLANNED["graph"], "contacts": "dtn"}, "dtn": tomllib.loads(PLAN)}
    assert spec_of(data)["graph"] == spec["graph"]


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"quic": {"profile": "deep-spaec"}}, "quic.profile", 'did you mean "deep-space"'),
        ({"quic": {"packet_threshold": 0}}, "quic.packet_threshold", "3"),
        ({"quic": {"time_threshold": 0}}, "quic.time_threshold", "more than 1"),
        ({"quic": {"time_threshold": 1}}, "quic.time_threshold", "more than 1"),
        ({"quic": {"max_rtt": "0 s"}}, "quic.max_rtt", "above 0"),
        ({"quic": {"max_rtt": "10001 h"}}, "quic.max_rtt", "at most 10000 h"),
        ({"quic": {"max_rtt": "3 days"}}, "quic.max_rtt", "72 h"),
    ],
)
def test_invalid_profiles(change: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ScenarioError) as wrong:
        spec_of({**FAR, **change})
    assert key in str(wrong.value)
    assert words in str(wrong.value)


@pytest.mark.parametrize(
    ("plan", "graph", "words"),
    [
        (PLAN, {"contacts": "none.toml"}, "cannot be read"),
        (PLAN, {"contacts": "plan.csv"}, "expected a contact plan in TOML or JSON"),
        (PLAN, {"contacts": "dtn"}, "which requires [dtn]"),
        (PLAN.replace(", both = true", ""), {}, "both = true"),
        (PLAN.replace('start = "40 min"', 'start = "15 min"'), {}, "overlap"),
        (PLAN.replace('stop = "20 min"', 'stop = "10 min"'), {}, "not after its start"),
        (PLAN.replace('owlt = "10 ms"', 'start = "1 h", owlt = "10 ms"'), {}, "no light time"),
        ("contact = 3", {}, "contact"),
        ("contact = [", {}, "is not TOML"),
    ],
)
def test_invalid_contact_plans_of_links(plan: str, graph: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=words.replace("[", r"\[").replace("]", r"\]")):
        on_plan(tmp_path, plan, **graph)


def test_links_that_the_plan_does_not_know_are_up(tmp_path: Path) -> None:
    of_others = PLAN.replace('"rover"', '"lander"')
    links = [{**link, "delay": "1 s", "both": {"rate": "1 Mbit/s"}} for link in PLANNED["graph"]["link"]]
    spec = on_plan(tmp_path, of_others, link=links)
    # the trunk's only contact outlasts the run, and the keys of a link take precedence
    assert "changes" not in spec["graph"]
    assert [link["up"][1]["delay_ns"] for link in spec["graph"]["links"]] == [SECOND, SECOND]


def test_a_plan_of_nobody_here_says_who_is(tmp_path: Path) -> None:
    plan = 'contact = [{ from = "a", to = "b", stop = "1 h", rate = "1 Mbit/s", both = true }]'
    with pytest.raises(ScenarioError, match=r"a, b.*rover and orbiter, orbiter and earth"):
        on_plan(tmp_path, plan)


@pytest.mark.parametrize(
    ("handover", "words"),
    [
        ({"at": "1 min", "delay": "1 s"}, "without gap"),
        ({"at": "1 min", "gap": "1 s", "segment": "wire"}, "has no queue"),
    ],
)
def test_nodes_that_can_buffer_packets(handover: dict[str, Any], words: str) -> None:
    data = far()
    data["path"]["segment"].append({"name": "wire", "delay": "1 ms"})
    data["path"]["handover"] = [{"segment": "space", "queued": "hold", **handover}]
    with pytest.raises(ScenarioError, match=words):
        spec_of(data)


def lint_warnings(data: dict[str, Any]) -> dict[str, str]:
    plan = build_plan(load_scenario(copy.deepcopy(data)), "test", catalogue=engine.catalogue())
    return {one.key: one.text for one in lint_plan(plan)}


def test_unsuitable_defaults_give_a_warning() -> None:
    assert lint_warnings(far()) == {}
    assert lint_warnings(far(("duration", "720 h"))) == {}, "a month is nothing unusual here"
    found = lint_warnings(far(("quic.profile", "none"), ("quic.idle_timeout", "30 s")))
    assert set(found) == {"flow.file.quic.initial_rtt", "flow.file.quic.idle_timeout"}
    assert all('quic.profile = "deep-space"' in text for text in found.values())
    assert "8 times" in found["flow.file.quic.initial_rtt"]


def test_a_queue_below_the_store_and_forward_buffer_gives_a_warning() -> None:
    data = far(at="10 min", gap="20 min", hold="10 MB")
    assert lint_warnings(data) == {}
    data["path"]["segment"][1]["both"]["queue"] = "1 MB"
    found = lint_warnings(data)
    assert set(found) == {"path.space.up.queue", "path.space.down.queue"}
    assert "found 1 MB, and lan-space may hold 10 MB" in found["path.space.up.queue"]


@pytest.mark.parametrize("name", keep(["handshake", "mars"], ["handshake", "mars", "ietf-124"]))
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    run = build_plan(load_scenario(SCENARIOS / f"{name}.toml"), "test", catalogue=engine.catalogue()).runs[-1]
    assert engine.run(run.spec_json()) == engine.run(run.spec_json())


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("*.toml")), ids=lambda file: file.stem)
def test_scenarios_are_in_order(file: Path) -> None:
    if "contact" in tomllib.loads(file.read_text()):
        return  # a contact plan of the scenarios beside it
    plan = build_plan(load_scenario(file), "test", catalogue=engine.catalogue())
    assert all(run.spec["duration_ns"] >= HOUR // 2 for run in plan.runs)
