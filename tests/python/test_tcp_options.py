"""TCP in a scenario: options of the engine, messages by key, and defaults."""

from __future__ import annotations

from typing import Any

import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.errors import ScenarioError


def scenario(**flow: Any) -> dict[str, Any]:
    return {
        "duration": "10 s",
        "path": {"segment": [{"name": "sat", "delay": "375 ms", "both": {"rate": "25 Mbit/s"}}]},
        "flow": [{"name": "bulk", "transport": "tcp", "congestion": "cubic", "direction": "down", **flow}],
    }


def flow_words(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = build_plan(load_scenario(data), "test").runs[0].spec["flows"][0]
    return found


def refusal(data: dict[str, Any]) -> str:
    with pytest.raises(ScenarioError) as error:
        build_plan(load_scenario(data), "test")
    assert len(error.value.problems) == 1
    return str(error.value)


def test_every_default_is_written() -> None:
    found = flow_words(scenario())["transport"]
    assert found["kind"] == "tcp"
    assert found["client"] == found["server"]
    buffers = {key: found["client"].pop(key) for key in ("receive_buffer_bytes", "send_buffer_bytes")}
    assert found["client"] == {
        "mss_bytes": 1460, "header_bytes": 40, "initial_window_bytes": 14_600, "initial_rto_ns": 10**9,
        "min_rto_ns": 200_000_000, "max_rto_ns": 120 * 10**9, "loss_detection": {"kind": "rack_tlp"}, "sack": True,
        "dsack": True, "adapt_reordering": True, "limited_transmit": True, "prr": True, "frto": True,
        "timestamps": True, "window_scaling": True,
        "delayed_ack": {"timeout_ns": 40_000_000, "segments_per_ack": 2, "quick_acks": 16},
        "ack_counting": {"kind": "unlimited"}, "ecn": False, "fast_open": False, "pacing": False,
        "restart_after_idle": True,
    }  # fmt: skip
    two_bdp = 2 * 25e6 * 0.75 / 8  # the BDP and a queue of one
    assert buffers["receive_buffer_bytes"] >= 8 * two_bdp
    assert buffers["send_buffer_bytes"] >= 4 * two_bdp


def test_options_of_a_flow_are_over_those_of_all_and_a_server_has_its_own() -> None:
    data = scenario(tcp={"ip": 6, "server": {"initial_window": "32 packets"}})
    data["tcp"] = {
        "delayed_ack": "off",
        "ip": 4,
        "abc": 2,
        "loss_detection": "dupacks",
        "server": {"ecn": True},
    }
    found = flow_words(data)["transport"]
    client, server = found["client"], found["server"]
    assert (client["mss_bytes"], client["header_bytes"], client["delayed_ack"]) == (1440, 60, None)
    assert client["ack_counting"] == {"kind": "bytes", "limit": 2}
    assert client["loss_detection"] == {"kind": "duplicate_acks", "threshold": 3}
    assert (client["ecn"], server["ecn"]) == (False, True)
    assert (client["initial_window_bytes"], server["initial_window_bytes"]) == (14_400, 32 * 1440)


def test_without_sack_losses_are_found_by_duplicates() -> None:
    found = flow_words(scenario(tcp={"sack": False}))["transport"]["client"]
    assert (found["sack"], found["dsack"]) == (False, False)
    assert found["loss_detection"] == {"kind": "duplicate_acks", "threshold": 3}


def test_loss_by_distance_is_reported_only_if_configured() -> None:
    asked = {"loss_detection": {"name": "dupacks", "forward": True}}
    found = flow_words(scenario(tcp=asked))["transport"]["client"]["loss_detection"]
    assert found == {"kind": "duplicate_acks", "threshold": 3, "forward": True}
    with pytest.raises(ScenarioError, match="forward beside"):
        flow_words(scenario(tcp={"loss_detection": {"name": "rack-tlp", "forward": True}}))


def test_a_controller_for_tcp_is_over_the_flows() -> None:
    data = scenario()
    data["tcp"] = {"congestion": "hybla", "server": {"congestion": {"name": "cubic", "fast": True}}}
    found = flow_words(data)
    assert found["client_congestion"] == {"name": "hybla", "options": {}}
    assert found["server_congestion"] == {"name": "cubic", "options": {"fast": True}}


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (
            {"transport": "quic", "tcp": {"mss": "1400 B"}},
            'found tcp options in a flow with transport = "quic"',
        ),
        ({"quic": {"ip": 6}}, 'found quic options in a flow with transport = "tcp"'),
        ({"transport": "tpc"}, 'did you mean "tcp"'),
        ({"tcp": {"ms": "1400 B"}}, 'did you mean "mss"'),
        ({"tcp": {"mss": "10 B"}}, "88 B to 65495 B"),
        ({"tcp": {"sack": False, "loss_detection": "rack-tlp"}}, "flow.bulk.tcp.loss_detection"),
        ({"tcp": {"sack": False, "dsack": True}}, "flow.bulk.tcp.dsack"),
        ({"tcp": {"loss_detection": {"name": "rack-tlp", "threshold": 3}}}, 'requires "dupacks"'),
        ({"tcp": {"loss_detection": "rack"}}, 'did you mean "rack-tlp"'),
        ({"tcp": {"ip": 5}}, "expected one of: 4, 6"),
        ({"tcp": {"abc": 3}}, "expected one of: unlimited, off, 1, 2"),
        ({"tcp": {"min_rto": "300 s"}}, "at most max_rto"),
        ({"tcp": {"receive_buffer": "2 GiB"}}, "RFC 7323"),
        ({"direction": None, "load": "D:*1:0:-:100:100;D:*1:4:0:100:100"}, "stream 4 waits for stream 0"),
    ],
)
def test_errors_are_reported_once(flow: dict[str, Any], message: str) -> None:
    data = scenario(**flow)
    data["flow"][0] = {key: value for key, value in data["flow"][0].items() if value is not None}
    assert message in refusal(data)


def test_controllers_of_tcp_are_looked_up() -> None:
    data = scenario(tcp={"congestion": "cubik"})
    with pytest.raises(ScenarioError, match=r"flow\.bulk\.tcp\.congestion.*did you mean \"cubic\""):
        build_plan(load_scenario(data), "test", catalogue=[{"scenario_name": "cubic", "options": []}])


def test_packets_are_traced_when_asked() -> None:
    data = scenario()
    assert build_plan(load_scenario(data), "test").runs[0].spec["trace"].get("packets", False) is False
    data["trace"] = {"packets": True}
    assert build_plan(load_scenario(data), "test").runs[0].spec["trace"]["packets"] is True
