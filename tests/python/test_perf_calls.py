"""Tests of ``bentpipe perf call-client`` and ``call-server``: calls over real UDP at loopback, and their errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import realtime
from bentpipe.lab import call_recording
from bentpipe.lab.calls import CallOptions, call_plan, result_tables
from bentpipe.lab.free_port import free_port
from bentpipe.metrics.call_quality import RatingConfig, parse
from bentpipe.plan.spec.result_columns import OPTIONAL_COLUMNS
from bentpipe.scenario.errors import ScenarioError
from commands import bentpipe

ROOT = Path(__file__).parents[2]


def test_a_plan_has_the_sources_of_a_scenario() -> None:
    plan = call_plan(CallOptions("example.org:5000", "g729a-vad", time="30 s", count=3))
    assert (plan["host"], plan["port"], plan["count"]) == ("example.org", 5000, 3)
    load = plan["load"]
    assert load["up"] == load["down"]
    assert (load["up"]["payload_bytes"], load["duration_ns"]) == (32, 30 * 10**9)
    live = call_plan(CallOptions("[::1]", live="2 Mbit/s", packet="1000 B", send="down"))["load"]
    assert (live["up"], live["down"]["interval_ns"]) == (None, 4_000_000)


@pytest.mark.parametrize(
    ("calling", "key"),
    [
        (CallOptions("h", "g79"), "--codec"), (CallOptions("h", packet="7 us"), "--packet"), (CallOptions("h", time="0 s"), "--time"),
        (CallOptions("h", count=0), "--count"), (CallOptions("h:x"), "HOST"), (CallOptions("h", live="2 Mbit"), "--rate"),
    ],
)  # fmt: skip
def test_impossible_settings_name_their_option(calling: CallOptions, key: str) -> None:
    with pytest.raises(ScenarioError) as error:
        call_plan(calling)
    assert error.value.problems[0][0] == key


def test_reports_become_tables() -> None:
    plan = call_plan(CallOptions("h", send="up"))
    window = {
        "window": 0, "window_s": 0.0, "sent_packets": 3, "received_packets": 2, "duplicate_packets": 0,
        "reordered_packets": 0, "pending_packets": 0, "delay_sum_s": 0.0031, "delay_min_ms": 1.1,
        "delay_max_ms": 2.0, "jitter_ms": 0.1, "jitter_sum_s": 0.0001, "delays": [[1, 1, 1, 0], [2, 1, 1, 1]],
    }  # fmt: skip
    messages: list[dict[str, Any]] = [{"call": 1, "up": {"windows": [window]}, "down": None}]
    calls, delays = result_tables(messages, plan["load"])
    assert set(calls.columns) == {*OPTIONAL_COLUMNS["calls"], "run"}
    assert set(delays.columns) == {*OPTIONAL_COLUMNS["call_delays"], "run"}
    assert calls.select("flow", "direction", "source").row(0) == ("call-1", "up", "g711")
    assert delays["packets"].sum() == 2
    assert calls.schema["sent_packets"] == pl.Int64


@contextmanager
def _answering(program: Path, *words: str) -> Iterator[int]:
    port = free_port()
    command, environment = _command(program, "call-server", "--listen", f"127.0.0.1:{port}", *words)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, process_group=0
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening at ")
        try:
            yield port
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            process.wait(timeout=20)
        assert process.returncode == 0


def _command(program: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    environment = os.environ | {
        "BENTPIPE_RT": str(program),
        "PYTHONPATH": str(ROOT / "python"),
        "COLUMNS": "240",
    }
    return [sys.executable, "-m", "bentpipe.cli", "perf", *words], environment


def _connected(port: int) -> None:
    """Wait for a connection to TCP port ``port`` of loopback, over which calls are requested."""
    over = time.monotonic() + 20
    established, peer = "01", f"0100007F:{port:04X}"
    while [peer, established] not in [
        line.split()[2:4] for line in Path("/proc/net/tcp").read_text().splitlines()
    ]:
        assert time.monotonic() < over
        time.sleep(0.01)


def _perf(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command, environment = _command(program, *words)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.live
def test_calls_over_real_sockets_are_judged_as_those_of_the_simulation() -> None:
    program = realtime.program()
    with _answering(program) as port:

        def judge(_: int) -> list[object]:
            done = _perf(
                program, "call-client", f"127.0.0.1:{port}", "--count", "2", "--time", "2s", "--json"
            )
            assert done.returncode == 0, done.stderr
            rows = json.loads(done.stdout)
            assert [(row["call"], row["direction"]) for row in rows] == [
                ("call-1", "up"), ("call-1", "down"), ("call-2", "up"), ("call-2", "down"),
            ]  # fmt: skip
            # loopback: 20 ms and a sample, and a play-out of little more than nothing
            assert all(row["sent_packets"] <= 100 and row["mouth_to_ear_ms"] > 20 for row in rows), rows
            return [
                row
                for row in rows
                if (row["sent_packets"], row["lost_ratio"]) != (100, 0)
                or row["mouth_to_ear_ms"] >= 120
                or row["mos"] <= 3.5
            ]

        realtime.tried(judge)
        shown = _perf(
            program,
            "call-client",
            f"127.0.0.1:{port}",
            "--time",
            "1s",
            "--codec",
            "g729",
            "--advantage",
            "20",
        )
        assert "mouth-to-ear ms" in shown.stdout
        assert "A = 20" in shown.stdout


@pytest.mark.live
def test_nobody_who_answers_and_an_end_by_ctrl_c() -> None:
    program = realtime.program()
    port = free_port()
    nobody = _perf(program, "call-client", f"127.0.0.1:{port}", "--time", "1s")
    assert nobody.returncode == 2
    assert "Connection refused" in nobody.stderr
    assert "Traceback" not in nobody.stderr
    with _answering(program) as port:
        command, environment = _command(
            program, "call-client", f"127.0.0.1:{port}", "--time", "60s", "--json"
        )

        def judge(_: int) -> list[object]:
            with subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, text=True, process_group=0
            ) as process:
                _connected(port)
                time.sleep(3)
                os.killpg(process.pid, signal.SIGINT)
                message, _ = process.communicate(timeout=20)
            rows = json.loads(message)
            assert len(rows) == 2
            # Datagrams sent until then were received.
            return [row for row in rows if not 50 < row["sent_packets"] < 300 or row["lost_ratio"] >= 0.02]

        realtime.tried(judge)


def _report(call: int, lost: int) -> dict[str, Any]:
    """Two windows of a call both ways; of the way up some are lost."""

    def window(number: int, missing: int) -> dict[str, Any]:
        received = 500 - missing
        return {
            "window": number, "window_s": 10.0 * number, "sent_packets": 500, "received_packets": received,
            "duplicate_packets": 0, "reordered_packets": 0, "pending_packets": 0, "delay_sum_s": 0.3 * received,
            "delay_min_ms": 299.0, "delay_max_ms": 301.0, "jitter_ms": 1.0, "jitter_sum_s": 0.001 * received,
            "delays": [[299, received // 2, 1, 0], [300, received - received // 2, 1, 1]],
        }  # fmt: skip

    ways = {
        way: {"windows": [window(0, missing), window(1, missing)]}
        for way, missing in (("up", lost), ("down", 0))
    }
    return {"call": call, "peer": "10.0.0.7:4433", "one_clock": False, **ways}


def keep(folder: Path) -> None:
    """Two calls of 20 s, as `perf call-client --record` has kept them."""
    plan = call_plan(CallOptions("h", time="20 s"))
    call_recording.write(
        folder, plan, [_report(1, 5), _report(2, 10)], RatingConfig(playout=parse("60 ms"), advantage=20)
    )


def test_saved_calls_become_a_page(tmp_path: Path) -> None:
    keep(tmp_path / "kept")
    words = ["report", "kept", "--figures", "f", "--format", "svg"]
    done = bentpipe(tmp_path, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["kept/report.html", "f/delay.svg", "f/delay-over-time.svg"]
    text = (tmp_path / "kept/report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert '<p class="verdict">Up, most users are satisfied (MOS ' in text
    assert "1.5 % of datagrams lost, mean one-way delay 300 ms; down, most users" in text
    assert "2 calls (g711) with 10.0.0.7:4433, play-out 60 ms, A = 20" in text
    assert "Two host clocks: the one-way delays assume equal delay in both directions." in text
    assert "default-src 'none'" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"frame": "calls", "version": 1, "load": {}, "playout": "adaptive", "advantage": 0, "plc": true}\n',
         "has no calls"),
        ('{"frame": "calls", "version": 9}\n', "has the format of a newer bentpipe"),
        ('{"frame": "calls", "version": 1}\n{"call"', "is not a complete recording of calls"),
    ],
)  # fmt: skip
def test_calls_that_are_not_whole(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "calls.jsonl").write_text(content)
    done = bentpipe(tmp_path, "report", ".")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "report.html").exists()
