"""``bentpipe report`` of what ``shell --record`` has kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bentpipe.lab.recording import is_recording, read_recording
from commands import bentpipe

HEAD = (
    "time_s,segment,direction,packets_in,packets_out,bytes_out,queued_packets,queued_bytes,dropped_loss,"
    "dropped_overflow,dropped_aqm,dropped_outage,dropped_retry_limit,dropped_no_route,lateness_p99_ms\n"
)


def record(folder: Path) -> Path:
    """Half a second at 8 Mbit/s, half a second of silence with two drops."""
    folder.mkdir()
    rows = ("0.0000,sky,up,0,0,0,0,0,0,0,0,0,0,0,0.0\n0.5000,sky,up,400,399,500000,1,1250,0,0,0,0,0,0,0.1\n"
            "1.0000,sky,up,402,399,500000,1,1250,0,2,0,0,0,0,0.1\n")  # fmt: skip
    (folder / "links.csv").write_text(HEAD + rows)
    (folder / "plan.json").write_text(
        json.dumps({"commands": [{"name": "command", "command": ["ping", "<a b>"]}]})
    )
    up = {"packets_in": 402, "packets_out": 399, "bytes_out": 500_000, "dropped": {"overflow": 2}}
    down = {"packets_in": 0, "packets_out": 0, "bytes_out": 0, "dropped": {}}
    result = {"started_ns": 10**9, "wall_s": 1.0, "check": {"rtt_ns": 80_300_000}, "reasons": ["sky.up: late"],
              "record_error": None, "links": [{"name": "sky", "up": up, "down": down}]}  # fmt: skip
    (folder / "result.json").write_text(json.dumps(result))
    return folder


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return record(tmp_path / "kept")


def test_rows_of_departures_between_two_samples(saved: Path) -> None:
    found = read_recording(saved)
    assert [(row["time_s"], row["rate_bit_s"], row["dropped_packets"]) for row in found.rows] == [
        (0.5, 8e6, 0), (1.0, 0.0, 2),
    ]  # fmt: skip
    assert found.command == ["ping", "<a b>"]
    assert is_recording(saved)
    (saved / "runs").mkdir()
    assert not is_recording(saved)


def test_the_page_of_a_record(saved: Path) -> None:
    done = bentpipe(saved.parent, "report", "kept")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "kept/report.html"
    text = (saved / "report.html").read_text()
    message = text.replace("\u00a0", " ")
    assert "ran 1.0 s at an RTT of 80.3 ms: sky.up 500 kB, 2 packets dropped; sky.down 0 kB" in message
    assert (
        "399 packets were delivered in 2 directions and 2 dropped (2 by overflow); 2 samples over 1.0 s.<"
        in message
    )
    assert "&lt;a b&gt;" in text
    assert "<a b>" not in text
    assert "The lab missed its deadlines: sky.up: late" in text
    assert all(f"spec-{key}-0" in text for key in ("rate", "queue", "drops"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("result.json", None, "has no result.json: its lab still runs, or was killed"),
        ("result.json", "{", "is not a complete recording"),
        ("plan.json", "[]", "is not a complete recording"),
    ],
)
def test_half_of_a_record(saved: Path, name: str, content: str | None, message: str) -> None:
    if content is None:
        (saved / name).unlink()
    else:
        (saved / name).write_text(content)
    done = bentpipe(saved.parent, "report", "kept")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (saved / "report.html").exists()


def test_missing_parts_of_a_recording(saved: Path) -> None:
    done = bentpipe(saved.parent, "report", "kept", "--range", "1 s")
    assert done.returncode == 2
    assert "--range: requires a store; kept is a recording of shell" in done.stderr


def test_its_figures_as_files(saved: Path) -> None:
    done = bentpipe(saved.parent, "report", "kept", "--figures", "f", "--figure", "rate", "--format", "svg")
    assert (done.returncode, done.stdout.split()) == (0, ["kept/report.html", "f/rate.svg"]), done.stderr
