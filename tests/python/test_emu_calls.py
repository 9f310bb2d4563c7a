"""Calls in real time: the input of a lab, unsupported options, and the reports of both sides as tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bentpipe.lab.counters import Series
from bentpipe.lab.emulation.build import lab_plan
from bentpipe.lab.emulation.call_tables import CallFlow, read_result
from bentpipe.lab.emulation.tables import build_measurements
from emu_plans import plan_of, refused, scenario

S = 10**9
UDP = {"name": "c", "transport": "udp", "congestion": None, "direction": None}


def call(**more: Any) -> dict[str, Any]:
    return {**UDP, "load": {"call": "g729a-vad"}, **more}


def window(number: int, sent: int, received: int) -> dict[str, Any]:
    return {
        "window": number, "window_s": 10.0 * number, "sent_packets": sent, "received_packets": received,
        "duplicate_packets": 0, "reordered_packets": 0, "pending_packets": 0, "delay_sum_s": 0.26 * received,
        "delay_min_ms": 260.0, "delay_max_ms": 261.0, "jitter_ms": 0.1, "jitter_sum_s": 0.1,
        "delays": [[260, received, 0, 0]],
    }  # fmt: skip


REPORTS = {
    "call": 1, "peer": "10.0.0.1:4433", "one_clock": True, "clock_offset_ns": 0, "zero_ns": 1000 * S, "start_ns": 5000,
    "late_ns": [20_000, None],
    "up": {"windows": [window(0, 500, 490), window(1, 100, 100)]}, "down": {"windows": [window(0, 300, 300)]},
}  # fmt: skip


def test_a_call_is_planned_as_its_flow(tmp_path: Path) -> None:
    flows = [call(count=2, start="2 s"), {"name": "t", "transport": "quic"}]
    spec = plan_of(scenario(*flows, duration="30 s")).runs[0].spec
    made = lab_plan(spec, tmp_path, "bentpipe-rt")
    assert made.plan["lab"]["users"] == [(4433, 1), (4434, 2)]
    assert [flow.calls for flow in made.flows] == [True, True, False]
    answers, calls = (
        json.loads((tmp_path / f"1.{name}.json").read_text()) for name in ("server", "0.client")
    )
    assert answers == {"role": "callee", "listen": "[::]:4434", "once": False, "calls": 1, "media": 4434}
    start = made.plan["commands"][1]["start_ns"]
    assert 2 * S <= start < 2 * S + 10**8
    assert calls["flow"] == {"name": "c-2", "since_ns": start}
    assert calls["seed"] == spec["seed"]
    assert calls["load"]["duration_ns"] == 30 * S - start
    assert calls["load"]["up"]["name"] == "g729a-vad"
    # It receives the last datagrams for some more seconds.
    assert float(made.plan["commands"][1]["command"][6]) == pytest.approx(38, abs=0.2)


def test_unsupported_options_of_calls_in_real_time() -> None:
    assert refused(call()) == []
    assert refused(call(load={"cbr": "2 Mbit/s"})) == []
    assert refused(call(load={"on_off": {"on": "1 s", "off": "1 s", "rate": "1 Mbit/s"}})) == []
    over_quic = refused({"name": "q", "load": {"call": "g711"}, "direction": None})
    assert over_quic == [("flow.q.load", "sends datagrams over QUIC; `bentpipe perf` sends them over UDP")]
    quick = {"cbr": {"rate": "500 Mbit/s", "packet": "1200 B"}}
    assert refused(call(load=quick)) == [("flow.c.load", "sends 500 Mbit/s; expected at most 200")]
    short = {"on_off": {"on": "1 us", "off": "1 us", "rate": "1 Mbit/s"}}
    assert "at least 1 ms" in refused(call(load=short))[0][1]


def test_reports_of_both_sides_become_tables(tmp_path: Path) -> None:
    spec = plan_of(scenario(call(), duration="20 s", sample_interval="5 s")).runs[0].spec
    (tmp_path / "told").write_text(json.dumps(REPORTS))
    messages = read_result(tmp_path / "told")
    load = spec["flows"][0]["load"]
    assert load["kind"] == "datagrams"
    called = CallFlow("c", load, 28, messages)
    assert list(called.late_ns()) == [20_000]
    tables = build_measurements("engine", spec, [called], Series()).tables
    calls = tables["calls"]
    assert calls.select("flow", "direction", "window_s", "sent_packets", "received_packets").rows() == [
        ("c", "up", 0.0, 500, 490),
        ("c", "up", 10.0, 100, 100),
        ("c", "down", 0.0, 300, 300),
    ]
    assert calls["source"].unique().to_list() == ["g729a-vad"]
    assert tables["call_delays"]["packets"].sum() == 890
    size = 12 + 20
    client = tables["flow_summary"].filter(side="client").row(0, named=True)
    assert (client["sent_packets"], client["written_bytes"]) == (600, 600 * size)
    assert (client["sent_bytes"], client["received_bytes"]) == (600 * (size + 28), 300 * size)
    assert client["delivered_bytes"] == 590 * size
    assert client["start_s"] == pytest.approx(5e-6)
    flows = tables["flows"].filter(side="client").sort("time_s")
    assert flows["time_s"].to_list() == [5.0, 10.0, 15.0, 20.0]
    # Windows are counted when they end.
    assert flows["sent_packets"].to_list() == [0, 500, 500, 600]
    assert tables["streams"]["up_bytes"].to_list() == [590 * size]


def test_a_call_that_came_to_nothing_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "told").write_text('{"call": 1, "pe')
    assert read_result(tmp_path / "told") is None
    assert read_result(tmp_path / "none") is None
