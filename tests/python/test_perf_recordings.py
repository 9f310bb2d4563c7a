"""``bentpipe report`` of what ``perf`` has kept: its frames, or its table, of one side or of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bentpipe.lab.perf_recording import find_files, read_endpoints
from bentpipe.metrics.perf_samples import PerfConnection, Point, rates, window_s
from bentpipe.report import perf_page
from commands import bentpipe

START = 5_000_000_000
"""Times of the client's clock; the server's clock is that of another machine."""


def frames(
    role: str, sent: int, received: int, *, start: int = START, seconds: int = 4
) -> list[dict[str, Any]]:
    """A connection that moves ``sent`` and ``received`` bytes a second, with a sample a second."""
    counted = {"latest_rtt_ms": 80.0, "ssthresh_bytes": None, "in_flight_bytes": 0, "min_rtt_ms": 79.5}
    window = 30_000 if sent else None
    rows: list[dict[str, Any]] = [
        {"frame": "begin", "version": 2, "role": role, "transport": "quic", "congestion": "cubic",
         "interval_ns": 10**9, "program": "x", "kernel_congestion": None, "time_ns": start},
        {"frame": "connection", "connection": 0, "transport": "quic", "local": "10.0.0.1:1", "remote": "10.0.0.2:2",
         "congestion": "cubic", "start_ns": start, "connected_ns": start, "mss_bytes": 1452, "time_ns": start},
    ]  # fmt: skip
    for second in range(1, seconds + 1):
        at = start + second * 10**9
        ends = second == seconds
        one = {"frame": "end_connection" if ends else "sample", "connection": 0, "time_ns": at, "due_ns": None,
               "cwnd_bytes": window, "smoothed_rtt_ms": 81.0, "sent_packets": 100 * second, "lost_packets": second // 2,
               "retransmitted_bytes": 0, "written_bytes": sent * second, "received_in_order_bytes": received * second,
               **counted}  # fmt: skip
        if ends:
            rows.append({"frame": "stream", "connection": 0, "stream_id": 0, "time_ns": at, "opened_ns": start,
                         "first_byte_ns": None, "last_byte_ns": None, "fin_ns": at, "finished_ns": at, "done": True,
                         "written_bytes": sent * second, "received_in_order_bytes": received * second})  # fmt: skip
            one |= {
                "end": "closed",
                "ended_ns": at,
                "cwnd_max_bytes": window,
                "congestion": "cubic" if sent else None,
            }
        rows.append(one)
    return [*rows, {"frame": "end", "end": "done", "cpu_s": 0.5, "time_ns": start}]


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A client that sends 1 MB a second, of which the server has 0.9 MB; clocks of two machines."""
    folder = tmp_path / "kept"
    folder.mkdir()
    write(folder / "client.jsonl", frames("client", 1_000_000, 10))
    write(folder / "server.jsonl", frames("server", 0, 900_000, start=9 * START))
    (folder / "notes.csv").write_text("a,b\n1,2\n")
    return folder


def test_a_direction_is_its_receivers(saved: Path) -> None:
    sides = read_endpoints(saved)
    assert [side.name for side in sides] == ["client", "server"]
    assert (
        perf_page.headline_text(sides)
        == "Client to server 3.6 MB at 7.2 Mbit/s with cubic, minimum RTT 79.5 ms."
    )
    assert (
        "Client: 1 connection over QUIC, 1 of 1 stream completed, 2 of 400 packets lost (0.5 %), 0.5 CPU s."
        in (perf_page.supporting_text(sides))
    )
    window = window_s(sides)
    assert window == 1.0
    server = sides[1].connections
    assert rates(server, perf_page.RECEIVED, window) == [(float(at), 7.2e6) for at in (1, 2, 3, 4)]
    assert {one.key for one in perf_page.figures(sides)} == {"goodput", "rtt", "cwnd", "lost"}
    assert perf_page.notes(sides) == []


def test_points_that_are_late_or_early_leave_rates_even() -> None:
    """1 MB a second, points every 0.5 s that timers move by some milliseconds."""
    times = [0.502, 0.9985, 1.4998, 2.0003, 2.4999, 3.001]
    points = [Point(at, 0, round(1e6 * at), None, None, None) for at in times]
    one = PerfConnection(0, points, 0.0, times[-1])
    found = rates([one], lambda point: point.received_bytes, 0.5)
    assert [at for at, _ in found] == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert [rate for _, rate in found] == pytest.approx([8e6] * 6, rel=1e-3)


def test_one_side_alone(saved: Path) -> None:
    """Then what its transport took stands for what arrived, and a request is no direction."""
    done = bentpipe(saved.parent, "report", "kept/client.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "kept/client.html"
    text = (saved / "client.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert '<p class="verdict">Client to server 4 MB at 8 Mbit/s with cubic, minimum RTT' in text
    assert "server to client" not in text


def test_the_page_of_both(saved: Path) -> None:
    done = bentpipe(saved.parent, "report", "kept")
    assert (done.returncode, done.stdout.strip()) == (0, "kept/report.html"), done.stderr
    text = (saved / "report.html").read_text(encoding="utf-8")
    assert all(f"spec-{key}-0" in text for key in ("goodput", "rtt", "cwnd", "lost"))
    assert "default-src 'none'" in text
    again = bentpipe(saved.parent, "report", "kept", "-o", "again.html")
    assert again.returncode == 0
    assert (saved.parent / "again.html").read_text(encoding="utf-8") == text


TABLE = (
    "time_s,connection,stream,event,up_bytes,up_mbit_s,down_bytes,down_mbit_s,rtt_ms,cwnd_bytes,lost_packets,min_rtt_ms,"
    "in_flight_bytes,pacing_rate_bit_s,sent_packets,sent_bytes,retransmitted_bytes,acked_bytes,delivery_rate_bit_s,"
    "congestion,peer_congestion\n"
    "0.6,0,0,interval,500000,8.0,9,0.0,80.0,20000,0,79.0,0,1,400,1,0,,,cubic,\n"
    "0.6,0,all,interval,500000,8.0,9,0.0,80.0,20000,0,79.0,0,1,400,1,0,,,cubic,\n"
    "1.1,0,all,total,1000000,8.0,9,0.0,80.0,40000,3,79.0,0,1,800,1,5000,,,cubic,\n"
)


def test_a_table(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text(TABLE)
    (side,) = read_endpoints(tmp_path / "run.csv")
    (one,) = side.connections
    assert (one.began_s, one.ended_s) == (pytest.approx(0.1), 1.1)
    assert (one.largest_window_bytes, one.rtt_min_ms, one.retransmitted_bytes) == (40_000, 79.0, 5000)
    assert perf_page.headline_text([side]) == "Run sent 1 MB at 8 Mbit/s with cubic, minimum RTT 79 ms."
    assert perf_page.notes([side]) == []
    (tmp_path / "run.jsonl").write_text(json.dumps({"frame": "begin"}) + "\n")
    assert find_files(tmp_path) == [tmp_path / "run.jsonl"], "frames say more than a table of the same name"


def test_a_process_that_was_killed(saved: Path) -> None:
    rows = (saved / "client.jsonl").read_text().splitlines()
    (saved / "client.jsonl").write_text("\n".join(rows[:4]) + "\n" + rows[4][:20])
    sides = read_endpoints(saved)
    assert perf_page.notes(sides) == [
        "The file of the client is incomplete: its process was killed or is still running."
    ]
    assert sides[0].connections[0].ended_s == 2.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "has frames of a newer bentpipe, expected version 2"),
        ({"role": None, "version": "x"}, "is not a complete measurement of perf"),
    ],
)
def test_frames_that_cannot_be_read(saved: Path, change: dict[str, Any], message: str) -> None:
    rows = frames("client", 1, 1)
    write(saved / "client.jsonl", [rows[0] | change, *rows[1:]])
    done = bentpipe(saved.parent, "report", "kept")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (saved / "report.html").exists()


def test_its_figures_as_files(saved: Path) -> None:
    done = bentpipe(saved.parent, "report", "kept", "--figures", "f", "--figure", "rtt", "--format", "svg")
    assert (done.returncode, done.stdout.split()) == (0, ["kept/report.html", "f/rtt.svg"]), done.stderr
    assert [file.name for file in (saved.parent / "f").iterdir()] == ["rtt.svg"]


def test_nobody_came(tmp_path: Path) -> None:
    rows = frames("server", 1, 1)
    write(tmp_path / "server.jsonl", [rows[0], rows[-1]])
    done = bentpipe(tmp_path, "report", ".")
    assert done.returncode == 2
    assert "has no connection: no client connected" in done.stderr


def test_missing_parts_of_a_measurement(saved: Path) -> None:
    done = bentpipe(saved.parent, "report", "kept", "--figures", "f", "--seed", "1")
    assert done.returncode == 2
    assert "--seed: requires a store; kept is a measurement of perf" in done.stderr
    for words, message in (
        (["--record", "kept"], "kept/client.jsonl exists, expected a new directory"),
        (["--record", "new", "--json-stream", "f"], "--json-stream: cannot be combined with --record"),
        (["--record", "new", "--transport", "tpc"], 'did you mean "tcp"'),
    ):
        done = bentpipe(saved.parent, "perf", "client", "127.0.0.1", *words)
        assert done.returncode == 2
        assert message in done.stderr
    assert not (saved.parent / "new").exists()
