"""Recordings of a lab as tables: the last known counters at each tick, and nothing that was not counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bentpipe.lab.counters import read_series
from bentpipe.store.schema import table

START = 5_000_000_000
MS = 1_000_000
HEAD = (
    "time_s,segment,direction,packets_in,packets_out,bytes_out,queued_packets,queued_bytes,"
    "dropped_loss,dropped_overflow,dropped_aqm,dropped_outage,dropped_retry_limit,dropped_no_route,lateness_p99_ms"
)


def totals(packets: int) -> dict[str, Any]:
    return {"packets_in": packets, "packets_out": packets, "bytes_out": 100 * packets, "dropped": {"loss": 1}}


RESULT = {
    "started_ns": START,
    "links": [{"name": "lan", "up": totals(3), "down": totals(4)}, {"name": "a+b", "up": totals(5), "down": totals(6)}],
}  # fmt: skip


def stage(rate: float, delay_ms: int) -> list[dict[str, Any]]:
    return [
        {"kind": "transmit", "service": {"kind": "rate", "rate_bit_s": rate}},
        {"kind": "delay", "delay_ns": delay_ms * MS},
    ]


GRAPH = {
    "links": [
        {"name": "lan", "up": [], "down": []},
        {"name": "a", "up": stage(2e6, 100), "down": stage(10e6, 100)},
        {"name": "b", "up": stage(5e6, 30), "down": stage(5e6, 30)},
    ]
}


def line(at_ns: int, **numbers: int) -> str:
    side = {"connections": 0, "buffered_bytes": 0, "largest_buffered_bytes": 0}
    return json.dumps({"time_ns": at_ns, "client_side": side | numbers, "server_side": side})


def test_ticks_have_the_last_known_counters(tmp_path: Path) -> None:
    rows = ["0.010000,a+b,down,1,0,0,1,1500,0,0,0,0,0,0,0.1", "0.200000,a+b,down,9,8,800,0,0,1,0,0,0,0,0,0.1",
            "0.300000,a+b,down,10"]  # fmt: skip
    (tmp_path / "links.csv").write_text("\n".join([HEAD, *rows]), encoding="utf-8")
    series = read_series(tmp_path, RESULT)
    origin = START + 5 * MS
    links, summary = series.link_rows(GRAPH, origin, [origin + 10 * MS, origin + 195 * MS, origin + 400 * MS])
    frame = table("links", links)
    down = frame.filter(link="a+b.down")
    assert down["time_s"].to_list() == [0.01, 0.195, 0.4]
    assert down["arrived_packets"].to_list() == [1, 9, 9]  # the line that was cut short does not count
    assert down["queued_bytes"].to_list() == [1500, 0, 0]
    assert down["dropped_loss_packets"].to_list() == [0, 1, 1]
    assert down["sent_bytes"].null_count() == 3
    # Nothing was recorded of the others.
    assert frame.filter(link="lan.up")["arrived_packets"].null_count() == 3
    ends = {row["link"]: row for row in table("link_summary", summary).iter_rows(named=True)}
    assert list(ends) == ["a+b.down", "a+b.up", "lan.down", "lan.up"]
    # Two links in a row: the least rate, all of the delay.
    assert (ends["a+b.down"]["rate_bit_s"], ends["a+b.down"]["propagation_ms"]) == (5e6, 130.0)
    assert (ends["a+b.up"]["rate_bit_s"], ends["a+b.up"]["propagation_ms"]) == (2e6, 130.0)
    assert ends["lan.up"]["rate_bit_s"] is None
    assert ends["a+b.down"]["arrived_packets"] == 9
    # Without a series, the values of the lab's result.
    assert (ends["lan.down"]["arrived_packets"], ends["a+b.up"]["delivered_bytes"]) == (4, 500)


def test_proxies_have_a_row_for_each_socket(tmp_path: Path) -> None:
    lines = [
        line(START, connections=1),
        line(START + 50 * MS, connections=2, buffered_bytes=7),
        '{"time_ns": 9, "cli',
    ]
    (tmp_path / "proxy-gateway.jsonl").write_text("\n".join(lines), encoding="utf-8")
    series = read_series(tmp_path, {"started_ns": START})
    ticks = [START - MS, START + 20 * MS, START + 60 * MS]
    frame = table("proxies", series.proxy_rows(["page"], START, ticks))
    assert frame["time_s"].to_list() == [0.02, 0.02, 0.06, 0.06]
    assert frame["socket"].to_list() == ["client_side", "server_side"] * 2
    assert set(frame["proxy"]) == {"gateway"}
    assert set(frame["flow"]) == {"page"}
    assert frame.filter(socket="client_side")["connections"].to_list() == [1, 2]
    assert frame.filter(socket="client_side")["buffered_bytes"].to_list() == [0, 7]
    assert frame["pacing_rate_bit_s"].null_count() == 4
    # The flow of a connection is unknown with several flows.
    assert table("proxies", series.proxy_rows(["a", "b"], START, ticks))["flow"].null_count() == 4


def test_users_of_a_radio_link_have_their_counters_at_each_tick(tmp_path: Path) -> None:
    head = (
        "time_s,segment,direction,user,attempts,duplicate_attempts,airtime_s,coded_bits,useful_bits,decoded_after_0_packets,"
        "decoded_after_1_packets,decoded_after_2_packets,decoded_after_3_packets,decoded_after_more_packets,"
        "dropped_retry_limit_packets"
    )
    rows = [
        "0.1,a+b,down,0,5,1,0.002,9000,4000,3,1,0,0,0,0",
        "0.3,a+b,down,0,9,1,0.004,18000,8000,5,2,0,0,0,1",
        "0.4,a+b,down",
    ]
    (tmp_path / "links.csv").write_text(HEAD, encoding="utf-8")
    assert read_series(tmp_path, RESULT).user_rows(START, [START]) == []
    (tmp_path / "radio_users.csv").write_text("\n".join([head, *rows]), encoding="utf-8")
    found = read_series(tmp_path, RESULT).user_rows(
        START, [START + 50 * MS, START + 250 * MS, START + 500 * MS]
    )
    frame = table("radio_users", found)
    assert frame["time_s"].to_list() == [0.25, 0.5]
    assert frame["link"].unique().to_list() == ["a+b.down"]
    assert frame["attempts"].to_list() == [5, 9]
    assert frame["airtime_s"].to_list() == [0.002, 0.004]
    assert frame["dropped_retry_limit_packets"].to_list() == [0, 1]


def test_queues_of_users_have_their_counters_at_the_end(tmp_path: Path) -> None:
    head = (
        "time_s,segment,direction,user,arrived_packets,sent_packets,queued_packets,queued_bytes,queueing_sum_s,"
        "queueing_max_s,dropped_overflow_packets,dropped_deadline_packets,dropped_outage_packets,best_channel_s,best_channel_periods"
    )
    rows = [
        "0.1,a+b,down,1,5,4,1,1500,0.5,0.2,0,0,0,0.07,3",
        "0.1,a+b,down,2,3,3,0,0,0.1,0.1,0,0,0,,",
        "0.3,a+b,down,1,9,7,0,0,0.9,0.3,1,1,0,0.2,5",
        "0.3,a+b,down,2,3,3",
    ]
    (tmp_path / "links.csv").write_text(HEAD, encoding="utf-8")
    assert read_series(tmp_path, RESULT).queue_rows([START]) == []
    (tmp_path / "user_queues.csv").write_text("\n".join([head, *rows]), encoding="utf-8")
    series = read_series(tmp_path, RESULT)
    assert series.queue_rows([]) == []
    early = table("user_queues", series.queue_rows([START + 50 * MS, START + 200 * MS]))
    assert early["arrived_packets"].to_list() == [5, 3]
    frame = table("user_queues", series.queue_rows([START + 50 * MS, START + 400 * MS]))
    assert frame["link"].unique().to_list() == ["a+b.down"]
    assert frame.select("user", "arrived_packets", "sent_packets", "dropped_overflow_packets").rows() == [
        (1, 9, 7, 1),
        (2, 3, 3, 0),
    ]
    assert frame["queueing_sum_s"].to_list() == [0.9, 0.1]
    # Some schedulers do not use the channel.
    assert frame["best_channel_s"].to_list() == [0.2, None]
    assert frame["best_channel_periods"].to_list() == [5, None]
