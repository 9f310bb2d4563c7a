"""``bentpipe dtn perf`` as dtnperf: files, status reports and a monitor's CSV, over loopback."""

from __future__ import annotations

import io
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import realtime
from bentpipe.dtn.dtnperf_monitor import COLUMNS, Monitor
from bentpipe.dtn.node import Client, line, plan_of
from bentpipe.lab.free_port import free_port
from bentpipe.scenario.errors import ScenarioError
from bundle_peers import a_node, until
from commands import bentpipe

NEAR = 'name = "1"\n[[neighbour]]\nname = "2"\nlayer = "tcpcl"\npeer = "127.0.0.1:4556"\n'


def client(folder: Path, words: str, monitor: str | None = None) -> tuple[Client, Any]:
    (folder / "one.toml").write_text(NEAR)
    plan = plan_of(folder / "one.toml")
    return Client(plan, "2", words, monitor), plan


def row(event: str, time_s: float, number: int, **more: Any) -> dict[str, Any]:
    rest = {"kind": "data", "source": "ipn:1.3000", "created_ms": 7, "destination": "ipn:2.2000", "peer": None,
            "offset_bytes": None, "payload_bytes": 1000, "reason": None}  # fmt: skip
    return {"time_s": time_s, "node": "1", "event": event, "sequence": number, **rest, **more}


def report(time_s: float, number: int, **marks: int) -> dict[str, Any]:
    rest = {"report_source": "ipn:2.0", "report_created_ms": 9, "report_sequence": 4, "source": "ipn:1.3000",
            "created_ms": 7, "offset_bytes": None, "total_bytes": None, "reason": 0}  # fmt: skip
    times = {f"{one}_ms": marks.get(one) for one in ("received", "forwarded", "delivered", "deleted")}
    return {
        "table": "bundle_status_reports",
        "time_s": time_s,
        "node": "1",
        "sequence": number,
        **rest,
        **times,
    }


def test_reports_of_delivery_answer_a_client_at_a_rate(tmp_path: Path) -> None:
    it, plan = client(tmp_path, "-R 1M -D 2k -P 1k -l 30 -C -r")
    [perf] = plan["dtn"]["perf"]
    assert perf["reports"] == {"received": True, "forwarded": False, "delivered": True, "deleted": False}
    assert perf["monitor"] == "1"
    for number in (0, 1):
        it.take(row("generated", 1.0 + number, number))
        it.take(row("forwarded", 1.5 + number, number))
        it.take(report(2.0, number, received=5))
    assert not it.done(3.0)
    it.take(report(2.5, 0, delivered=6))
    assert not it.done(3.0)
    assert it.answer().problems == ("1 bundles without an answer",)
    it.take(report(2.6, 1, delivered=6))
    assert it.done(3.0)
    message = it.answer()
    assert message.good
    assert message.data["reports"] == {"received": 2, "delivered": 2}
    assert (message.data["delivered"], message.data["acknowledged"]) == (2, None)
    assert it.stopped() == ("ipn:1.3000", 2.0)


def test_a_bundle_that_a_report_says_is_deleted_is_not_waited_for(tmp_path: Path) -> None:
    it, _ = client(tmp_path, "-R 1M -D 1k -P 1k --del -r")
    it.take(row("generated", 1.0, 0))
    it.take(row("forwarded", 1.1, 0))
    it.take(report(1.5, 0, deleted=5))
    assert it.done(2.0)
    assert (it.answer().good, it.answer().data["deleted"]) == (False, 1)


def test_reports_that_go_elsewhere_are_not_waited_for(tmp_path: Path) -> None:
    it, plan = client(tmp_path, "-R 1M -D 1k -P 1k -r", "ipn:2.0")
    assert plan["dtn"]["perf"][0]["monitor"] == "2"
    it.take(row("generated", 1.0, 0))
    it.take(row("forwarded", 1.1, 0))
    assert it.done(2.0)
    assert "reports" not in it.answer().data


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-F none", "-F: no file"),
        ("-F .", "-F: no file"),
        ("-F empty", "which is empty"),
        ("-F some -D 1M", "found -D and -F"),
        ("-F some -P 40", "expected more than the 40 B"),
    ],
)
def test_a_file_that_cannot_be_sent_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "some").write_bytes(b"12345")
    with pytest.raises(ScenarioError, match=expected):
        client(tmp_path, words)


def test_a_monitor_writes_in_order_of_time_while_it_goes() -> None:
    out = io.StringIO()
    monitor = Monitor(out)
    assert out.getvalue() == ";".join(COLUMNS) + "\n"
    # within one read bundles come before reports, in either order
    monitor.take(
        row("delivered", 1.05, 1, kind="acknowledgement", source="ipn:2.2000", destination="ipn:1.3000")
    )
    monitor.take(row("acknowledged", 1.05, 0))
    monitor.take(report(1.01, 0, delivered=6))
    assert len(out.getvalue().splitlines()) == 1
    monitor.take(row("generated", 2.0, 1))
    assert [text.split(";")[4] for text in out.getvalue().splitlines()[1:]] == ["STATUS_REPORT", "SERVER_ACK"]
    monitor.end("ipn:1.3000", 3.0)
    last = out.getvalue().splitlines()[-1]
    assert last.startswith("3.000000;ipn:1.3000;;;CLIENT_STOP;")


def test_the_outcome_of_a_file_is_reported() -> None:
    message = {
        "time_s": 1.5,
        "source": "ipn:1.3000",
        "name": "a\nb",
        "bytes": 1000,
        "path": "in/a_b",
        "problem": None,
    }
    assert (
        line({**message, "event": "file"})
        == r"   1.500000 s  file 'a\nb' of ipn:1.3000, 1,000 B, complete: in/a_b"
    )
    lost = line({**message, "event": "file_lost", "problem": "No space left on device"})
    assert lost.endswith("abandoned: No space left on device")


def neighbours(folder: Path, layer: str) -> None:
    """Two nodes: 1 opens the connection."""
    port = free_port()
    for name, other, way in (("1", "2", "peer"), ("2", "1", "listen")):
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\n[[neighbour]]\nname = "{other}"\nlayer = "{layer}"\n{way} = "127.0.0.1:{port}"\n'
        )


@pytest.mark.live
@pytest.mark.parametrize("layer", ["quiccl", "tcpcl"])
def test_a_file_arrives_and_a_monitor_has_its_reports(tmp_path: Path, layer: str) -> None:
    neighbours(tmp_path, layer)
    data = bytes(at * at % 251 for at in range(1_234_567))
    (tmp_path / "photo.raw").write_bytes(data)
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    with a_node(tmp_path / "2.toml", "--json", "--files", str(tmp_path / "in")) as (process, out):
        out.readline()
        words = ["-F", "photo.raw", "-W", "4", "-P", "100k", "-C", "-r", "--crc", "32", "--monitor", "m.csv"]
        done = bentpipe(tmp_path, "dtn", "perf", "1.toml", "2", *words, "--json", environment=environment)
        assert done.returncode == 0, done.stderr
        message = until(out, "delivered", 13)
        process.send_signal(signal.SIGINT)
        message += map(json.loads, out)
    files = [one for one in message if one["event"].startswith("file")]
    path = tmp_path / "in" / "ipn_1.3000" / "photo.raw"
    assert [(one["name"], one["bytes"], one["path"]) for one in files] == [
        ("photo.raw", len(data), str(path))
    ]
    assert path.read_bytes() == data
    assert [one.name for one in path.parent.iterdir()] == ["photo.raw"]
    sent = json.loads(done.stdout)
    assert (sent["generated"], sent["acknowledged"]) == (13, 13)
    assert sent["reports"] == {"received": 13, "delivered": 13}
    csv = pl.read_csv(tmp_path / "m.csv", separator=";")
    assert tuple(csv.columns) == COLUMNS
    kinds = Counter(csv["Report_Type"])
    assert kinds == {"STATUS_REPORT": 26, "SERVER_ACK": 13, "CLIENT_STOP": 1}
    assert csv["RX_TIME"].is_sorted()
    acknowledged = csv.filter(pl.col("Report_Type") == "SERVER_ACK")["Bndl_SQN"]
    assert set(acknowledged) == set(csv.drop_nulls("Dlv")["Bndl_SQN"])


@pytest.mark.live
def test_reports_reach_a_monitor_elsewhere(tmp_path: Path) -> None:
    neighbours(tmp_path, "tcpcl")
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    with a_node(tmp_path / "2.toml", "--json", "--monitor", str(tmp_path / "two.csv")) as (process, out):
        out.readline()
        words = ["-R", "8M", "-D", "500k", "-P", "100k", "-f", "-r", "-m", "2"]
        done = bentpipe(tmp_path, "dtn", "perf", "1.toml", "2", *words, environment=environment)
        assert done.returncode == 0, done.stderr
        until(out, "delivered", 5)
        process.send_signal(signal.SIGINT)
        out.read()
    csv = pl.read_csv(tmp_path / "two.csv", separator=";")
    # what node 1 forwarded last may not have been reported before its client was done
    by = Counter(csv["Report_SRC"])
    assert by["ipn:2.0"] == 5
    assert csv.filter(pl.col("Report_SRC") == "ipn:2.0").drop_nulls("Dlv").height == 5
    assert 0 < by["ipn:1.0"] <= 5
    assert csv.filter(pl.col("Report_SRC") == "ipn:1.0").drop_nulls("Fwd").height == by["ipn:1.0"]
