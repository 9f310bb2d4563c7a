"""A stand-in for ``bentpipe-rt lab`` without a kernel: it writes the frames that clients and servers would.

Every stream moves its bytes at RATE (environment, bit/s) after one round trip. Its processes wake WAKES_LATE
milliseconds after their ticks. BEHAVIOUR selects the outcome: ``good``, ``late`` (not valid), ``late-once``, ``broken``
(no result), ``silent`` (no connection), ``hang`` or ``hang-later``. A file beside the program makes ``late-once`` late
once, and ``hang-later`` hang from the second time on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

RATE = float(os.environ.get("RATE", "8e6"))
ZERO = 7_000_000_000_000
STEP = 50_000_000
WAKES_LATE = int(float(os.environ.get("WAKES_LATE", "0")) * 1e6)
COUNTERS = (
    "sent_packets", "sent_bytes", "ack_packets", "ack_bytes", "lost_packets", "lost_bytes", "congestion_events", "ptos",
    "rtos", "cwnd_undos", "retransmitted_bytes", "written_bytes", "received_bytes", "received_in_order_bytes",
)  # fmt: skip


def main() -> None:
    assert sys.argv[1] == "lab"
    plan = json.loads(Path(sys.argv[2]).read_text())
    behaviour = os.environ.get("BEHAVIOUR", "good")
    if behaviour == "hang-later":
        mark = Path(os.environ["MARK"])
        behaviour = "hang" if mark.exists() else "good"
        mark.touch()
    if behaviour == "hang":
        Path(os.environ["MARK"]).write_text(str(os.getpid()))
        time.sleep(600)
    if behaviour == "broken":
        print("error: cannot create a namespace")
        sys.exit(1)
    rtt = sum(
        stage["delay_ns"]
        for link in plan["lab"]["graph"]["links"]
        for way in ("up", "down")
        for stage in link[way]
        if stage["kind"] == "delay"
    )
    servers = {
        one["listen_port"]: json.loads(Path(one["command"][2]).read_text()) for one in plan["services"]
    }
    received: dict[int, list[str]] = {port: [] for port in servers}
    for number, near in enumerate(plan["commands"]):
        file = next(word for word in near["command"] if word.endswith(".client.json"))
        client = json.loads(Path(file).read_text())
        if behaviour != "silent":
            connection(client, near["start_ns"] + ZERO, rtt, 40_000 + number, received)
    for port, lines in received.items():
        Path(servers[port]["report"]["frames"]["file"]).write_text("".join(lines))
    late = behaviour == "late"
    if behaviour == "late-once":
        mark = Path(os.environ["MARK"])
        late = not mark.exists()
        mark.write_text("late")
    series = (
        "time_s,segment,direction,packets_in,packets_out,bytes_out,queued_packets,queued_bytes,dropped_loss,"
    )
    series += (
        "dropped_overflow,dropped_aqm,dropped_outage,dropped_retry_limit,dropped_no_route,lateness_p99_ms\n"
    )
    for link in plan["lab"]["graph"]["links"]:
        series += f"0.5,{link['name']},down,5,4,6000,1,1500,0,1,0,0,0,0,0.1\n"
    Path(plan["record"]["directory"], "links.csv").write_text(series)
    way = {"packets_in": 10, "packets_out": 10, "bytes_out": 15_000, "lateness_p99_ms": 90.0 if late else 0.2}
    segments = [{"name": link["name"], "up": way, "down": way} for link in plan["lab"]["graph"]["links"]]
    statuses = {near["name"]: 1 if behaviour == "silent" else 0 for near in plan["commands"]}
    result = {"valid": not late, "reasons": ["packets were late by 90 ms"] if late else [], "statuses": statuses,
              "check": None, "started_ns": ZERO, "links": segments, "cpu_s": {"total": 0.5}, "wall_s": 1.0, "offload": False}  # fmt: skip
    Path(plan["result"]).write_text(json.dumps(result))


def connection(
    client: dict[str, Any], start: int, rtt: int, port: int, received: dict[int, list[str]]
) -> None:
    """Both sides of one connection with the load's first stream."""
    stream = client["load"][0]
    amount = stream["amount"]
    up, down = amount.get("up_bytes", 0), amount.get("down_bytes", 0)
    opened = start + rtt
    first = opened + rtt // 2 if up > 8 else opened + rtt
    last = first + int((up if up > 8 else down) * 8e9 / RATE)
    ours: list[dict[str, Any]] = [
        {"frame": "begin", "version": 2, "time_ns": start, "role": "client", "interval_ns": STEP}
    ]
    theirs: list[dict[str, Any]] = []
    head = {"frame": "connection", "connection": 0, "transport": client["transport"], "mss_bytes": 1448}
    ours.append(head | {"local": f"10.0.0.2:{port}", "remote": f"10.0.0.1:{client['port']}", "start_ns": start,
                        "connected_ns": opened, "time_ns": opened})  # fmt: skip
    number = len([line for line in received[client["port"]] if '"connection"' in line and '"local"' in line])
    theirs.append(head | {"connection": number, "local": f"10.0.0.1:{client['port']}", "remote": f"10.0.0.2:{port}",
                          "start_ns": start + rtt // 2, "connected_ns": opened + rtt // 2, "time_ns": opened})  # fmt: skip
    sides = ((ours, 0, up, down), (theirs, number, down, up))
    # who wakes late has slept through ticks: the next one is the first after the wake-up
    for due in range(-(-opened // STEP) * STEP, last - WAKES_LATE, (WAKES_LATE // STEP + 1) * STEP):
        at = due + WAKES_LATE
        for frames, own, sent, got in sides:
            done = max(0.0, min(1.0, (at - first) / (last - first)))
            frames.append(sample("sample", own, at, sent, int(got * done), rtt) | {"due_ns": due})
    tcp = client["transport"] == "tcp"
    for frames, own, sent, got in sides:
        frames.append({"frame": "stream", "time_ns": last, "connection": own, "stream_id": 0 if tcp else stream["stream_id"],
                       "label": stream["stream_id"], "mode": amount["mode"], "opened_ns": opened, "first_byte_ns": first,
                       "last_byte_ns": last, "fin_ns": last, "finished_ns": last, "written_bytes": sent,
                       "received_bytes": got, "received_in_order_bytes": got, "done": True})  # fmt: skip
        frames.append(sample("end_connection", own, last, sent, got, rtt)
                      | {"end": "closed", "ended_ns": last, "due_ns": None, "cwnd_max_bytes": 50_000})  # fmt: skip
    ours.append({"frame": "end", "time_ns": last, "end": "done", "cpu_s": 0.1})
    Path(client["report"]["frames"]["file"]).write_text("".join(json.dumps(one) + "\n" for one in ours))
    received[client["port"]] += [json.dumps(one) + "\n" for one in theirs]


def sample(frame: str, connection: int, at: int, sent: int, got: int, rtt: int) -> dict[str, Any]:
    row: dict[str, Any] = {"frame": frame, "time_ns": at, "connection": connection, "cwnd_bytes": 40_000,
                           "ssthresh_bytes": None, "in_flight_bytes": 1000, "smoothed_rtt_ms": rtt / 1e6,
                           "latest_rtt_ms": rtt / 1e6, "min_rtt_ms": rtt / 1e6, "pacing_rate_bit_s": RATE}  # fmt: skip
    row |= dict.fromkeys(COUNTERS, 0) | {"rtos": None, "cwnd_undos": None}
    return row | {
        "written_bytes": sent,
        "received_bytes": got,
        "received_in_order_bytes": got,
        "sent_bytes": sent,
    }


if __name__ == "__main__":
    main()
