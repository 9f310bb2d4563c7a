"""Keys of a 5G link: what they become, what follows from them, and what is refused, by its key."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

import bentpipe
from bentpipe.plan.document import load_scenario
from bentpipe.plan.link.nr import cycle_slots, rate_max_bit_s, utilisation
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.codec import decode

MS = 1_000_000
ONE = {"block_error_rate": ["1 %"]}


def scenario(delay: Any = "300 ms", transport: str = "tcp", **down: Any) -> dict[str, Any]:
    keys = {"rate": "8 Mbit/s", "nr": ONE} | down
    given = {key: value for key, value in keys.items() if value is not None}
    segment = {"name": "ntn", "delay": delay, "up": {"rate": "8 Mbit/s"}, "down": given}
    flow = {
        "name": "f",
        "transport": transport,
        "congestion": "cubic",
        "direction": "down",
        "load": {"time": "30 s"},
    }
    return {"duration": "30 s", "seeds": 1, "path": {"segment": [segment]}, "flow": [flow]}


def spec(**keys: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        build_plan(load_scenario(scenario(**keys)), "test").runs[0].spec_json()
    )
    return found


def stage(**keys: Any) -> Any:
    return spec(**keys)["graph"]["links"][0]["down"][0]


def nr(**keys: Any) -> Any:
    return stage(nr=ONE | keys)


def test_timers_come_of_the_link() -> None:
    cycle = 601 * MS
    assert nr() == {
        "kind": "nr", "queue": {"kind": "drop_tail", "limit": {"bytes": 600_000}}, "channel": None, "slot_ns": MS,
        "block_bytes": 1000, "coded_bits": 8000, "decoder": {"kind": "block_errors", "probabilities": [0.01]},
        "combining": "incremental", "processes": 16, "feedback_disabled_processes": 0, "repetitions": 1, "attempts": 4,
        "offset_slots": 0, "feedback": {"delay_ns": 600 * MS, "loss": 0.0},
        "rlc": {
            "kind": "acknowledged", "poll_pdus": 32, "poll_bytes": None, "max_retransmissions": 32,
            "reassembly_ns": 3 * cycle, "status_prohibit_ns": cycle + 10 * MS,
            "poll_retransmit_ns": cycle + 3 * cycle + 3 * cycle + cycle + 10 * MS,
        },
        "reordering": {"time_limit_ns": None},
    }  # fmt: skip
    alone = nr(feedback_disabled_processes=16)
    assert (alone["attempts"], alone["rlc"]["reassembly_ns"]) == (1, 0)
    unacknowledged = nr(rlc="um")
    assert unacknowledged["rlc"] == {"kind": "unacknowledged"}
    assert unacknowledged["reordering"] == {"time_limit_ns": 3 * cycle}
    silent = nr(rlc="um", feedback_disabled_processes=16, in_order=False)
    assert (silent["feedback"], silent["reordering"]) == (None, None)


def test_keys_are_the_engine_s() -> None:
    found = nr(
        slot="0.5 ms", processes=32, feedback_disabled_processes=4, repetitions=8, retransmissions=1,
        scheduling_offset=12, feedback_delay="25 ms", feedback_loss="2 %", reordering="90 ms", code_rate="1/3",
        rlc={"mode": "am", "poll_pdus": 4, "poll_bytes": "5 kB", "poll_retransmit": "80 ms", "reassembly": "35 ms",
             "status_prohibit": "0 s", "max_retransmissions": 8},
    )  # fmt: skip
    assert (found["slot_ns"], found["block_bytes"], found["coded_bits"]) == (MS // 2, 500, 12_000)
    assert (found["processes"], found["feedback_disabled_processes"], found["repetitions"]) == (32, 4, 8)
    assert (found["attempts"], found["offset_slots"]) == (2, 12)
    assert found["feedback"] == {"delay_ns": 25 * MS, "loss": 0.02}
    assert found["rlc"] == {
        "kind": "acknowledged", "poll_pdus": 4, "poll_bytes": 5000, "poll_retransmit_ns": 80 * MS,
        "reassembly_ns": 35 * MS, "status_prohibit_ns": 0, "max_retransmissions": 8,
    }  # fmt: skip
    assert found["reordering"] == {"time_limit_ns": 90 * MS}
    over = stage(nr={"code_rate": 0.5}, channel={"model": "white-noise", "snr": "3 dB"})
    assert over["decoder"] == {"kind": "information", "margin": 1.05}
    assert over["coded_bits"] == 16_000


@pytest.mark.parametrize(("processes", "share"), [(16, 0.027), (32, 0.053)])
def test_a_run_uses_what_the_closed_form_says(processes: int, share: float) -> None:
    """``min(1, N slot / RTT)``: 2.7 % of 600 ms with 16 processes, 5.3 % with 32."""
    keys: dict[str, Any] = {"processes": processes, "block_error_rate": ["0.1 %"], "feedback_delay": "599 ms"}
    whole = spec(nr=keys)
    found = whole["graph"]["links"][0]["down"][0]
    assert cycle_slots(found) == 600
    assert utilisation(found) == pytest.approx(processes / 600)
    assert round(utilisation(found), 3) == share
    users = decode(engine.run(json.dumps(whole))).tables["radio_users"]
    # from 10 s on, when nothing of the beginning is seen any more
    late = users.filter(pl.col("time_s") >= 10)
    used = (late["airtime_s"].max() - late["airtime_s"].min()) / (late["time_s"].max() - late["time_s"].min())  # type: ignore[operator]
    assert used == pytest.approx(processes / 600, rel=0.02)


@pytest.mark.parametrize("transport", ["tcp", "quic"])
def test_rlc_alone_is_not_bound_by_it(transport: str) -> None:
    keys: dict[str, Any] = {"feedback_disabled_processes": 16, "block_error_rate": ["1 %"]}
    tables = decode(engine.run(json.dumps(spec(nr=keys, queue="2 BDP", transport=transport)))).tables
    bound = decode(engine.run(json.dumps(spec(queue="2 BDP", transport=transport)))).tables
    most = [found["radio_users"]["useful_bits"].max() for found in (tables, bound)]
    assert most[0] > 10 * most[1]  # type: ignore[operator]
    assert tables["radio_users"]["dropped_retry_limit_packets"].max() == 0


def test_a_process_without_feedback_waits_for_its_next_decision() -> None:
    """Its cycle is the offset and the block: of one process with an offset of 10 slots a run never uses more than 1/11."""
    keys: dict[str, Any] = {
        "processes": 1,
        "feedback_disabled_processes": 1,
        "scheduling_offset": 10,
        "rlc": "am",
    }
    document = scenario(nr=ONE | keys)
    (found,) = bentpipe.check(document).nr_links
    assert found.utilisation == pytest.approx(1 / 11)
    whole = spec(nr=ONE | keys)
    tables = decode(engine.run(json.dumps(whole))).tables
    stage_ = whole["graph"]["links"][0]["down"][0]
    most = rate_max_bit_s(stage_, whole["duration_ns"])
    assert most == pytest.approx(stage_["block_bytes"] * 8e9 / stage_["slot_ns"] / 11, rel=0.001)
    end = whole["duration_ns"] / 1e9
    assert 0.5 * most < tables["radio_users"]["useful_bits"].max() / end < most  # type: ignore[operator]


def test_check_says_what_can_be_used() -> None:
    document = scenario(nr=ONE)
    document["sweep"] = {
        "path.ntn.down.nr.processes": [16, 32],
        "path.ntn.down.nr.block_error_rate": [["1 %"], ["10 %"]],
    }
    found = bentpipe.check(document).nr_links
    assert [(one.link, one.processes, one.cycle_slots) for one in found] == [
        ("ntn.down", 16, 601), ("ntn.down", 32, 601),
    ]  # fmt: skip
    assert [one.utilisation for one in found] == [pytest.approx(16 / 601), pytest.approx(32 / 601)]
    assert found[0].rate_bit_s == pytest.approx(8e6 * 16 / 601)
    assert bentpipe.check({**scenario(), "path": {"preset": "starlink"}}).nr_links == ()


def test_no_run_beats_the_bound_of_its_goodput() -> None:
    for keys in (
        {},
        {"processes": 32},
        {"repetitions": 4},
        {"feedback_disabled_processes": 16},
        {"feedback_delay": "5 ms"},
    ):
        document = scenario(nr={"block_error_rate": ["0 %"], **keys}, queue="2 BDP")
        (bound,) = bentpipe.check(document).bounds
        received = bentpipe.run(document).flow_summary.filter(side="client")["received_in_order_bytes"].sum()
        share = float(received) * 8 / 30 / (bound.goodput_bit_s or 0.0)
        # what is missing is the beginning, and headers of blocks
        assert 0.75 < share <= 1, (keys, share)


def test_presets_are_tr_38_821_s() -> None:
    for preset, cycle in (("nr-ntn-geo", 543), ("nr-ntn-leo", 27)):
        document = scenario()
        document["path"] = {"preset": preset}
        (found,) = {one.cycle_slots for one in bentpipe.check(document).nr_links}
        assert found == cycle


GEO = "path.ntn.down.nr"
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"nr": {**ONE, "processes": 0}}, f"{GEO}.processes", "at least 1"),
    ({"nr": {**ONE, "processes": 33}}, f"{GEO}.processes", "at most 32"),
    ({"nr": {**ONE, "repetitions": 9}}, f"{GEO}.repetitions", "at most 8"),
    ({"nr": {**ONE, "feedback_disabled_processes": 17}}, GEO, "at most processes = 16"),
    ({"nr": {**ONE, "feedback_disabled_processes": 16, "retransmissions": 2}}, GEO, "blocks are sent once"),
    ({"nr": {**ONE, "feedback_disabled_processes": 16, "rlc": "um", "feedback_loss": "1 %"}}, f"{GEO}.feedback_loss", "requires feedback"),
    ({"nr": {**ONE, "margin": 1.1}}, GEO, "found margin, which cannot be combined with block_error_rate"),
    ({"nr": {**ONE, "slot": "1 us"}}, GEO, "slot: found 1 us"),
    ({"nr": {**ONE, "rlc": "tm"}}, f"{GEO}.rlc", "am, um"),
    ({"nr": {**ONE, "rlc": {"mode": "um", "reassembly": "1 ms"}}}, f"{GEO}.rlc", 'found reassembly beside "um", expected it with am'),
    ({"nr": {**ONE, "rlc": {"mode": "am", "max_retransmissions": 33}}}, f"{GEO}.rlc.max_retransmissions", "at most 32"),
    ({"nr": {**ONE, "in_order": False, "reordering": "1 s"}}, GEO, "in_order = true"),
    ({"nr": {**ONE, "process": 3}}, f"{GEO}.process", 'did you mean "processes"'),
    ({"nr": {}}, GEO, "block_error_rate"),
    ({"nr": {}, "channel": {"model": "white-noise", "snr": "3 dB"}}, f"{GEO}.code_rate", "such as"),
    ({"rate": None}, GEO, "requires a constant rate"),
    ({"rate": "50 kbit/s"}, f"{GEO}.slot", "6 bytes a slot"),
    ({"netem": True}, "path.ntn.down.netem", "cannot be combined with nr"),
    ({"reordering_buffer": 125}, "path.ntn.down.reordering_buffer", "cannot be combined with nr"),
    ({"changes": [{"at": "1 s", "rate": "5 Mbit/s"}]}, "path.ntn.down.changes", "nr"),
    ({"delay": "0 s"}, f"{GEO}.feedback_delay", "is 0 or varies"),
    ({"scheduler": "round-robin"}, "path.ntn.down.scheduler", "one"),
]  # fmt: skip


@pytest.mark.parametrize(("down", "key", "text"), WRONG)
def test_errors_name_their_key(down: dict[str, Any], key: str, text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        build_plan(load_scenario(scenario(**down)), "test")
    problems = caught.value.problems
    assert [found for found, _ in problems] == [key]
    assert text in problems[0][1]
