"""``bentpipe dtn node`` and ``bentpipe dtn perf``: what a node's file becomes, and two nodes over loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dtn_kills
import realtime
from bentpipe.dtn.neighbour_status import NeighbourStatus
from bentpipe.dtn.node import Client, line, plan_of, run
from bentpipe.dtn.node_tables import TABLES, Tables
from bentpipe.lab.free_port import free_port
from bentpipe.plan.spec.result_columns import OPTIONAL_COLUMNS
from bentpipe.scenario.errors import ScenarioError
from bundle_peers import a_node
from commands import bentpipe

ROOT = Path(__file__).resolve().parents[2]
MB = 1_000_000


def file(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def neighbour(name: str, layer: str, way: str) -> str:
    return f'[[neighbour]]\nname = "{name}"\nlayer = "{layer}"\n{way}\n'


NEAR = neighbour("2", "quiccl", 'peer = "127.0.0.1:4556"')


def test_a_node_with_a_neighbour_sends_everything_there(tmp_path: Path) -> None:
    plan = plan_of(file(tmp_path, 'name = 1\nnode = [{ name = "1", store = "1 GB" }]\n' + NEAR))
    own, other = plan["dtn"]["nodes"]
    assert (own["name"], own["eid"], own["store_bytes"]) == ("1", "ipn:1.0", 10**9)
    assert own["routes"] == [{"to": "2", "via": "2"}, {"to": None, "via": "2"}]
    assert (other["name"], other["eid"], other["routes"]) == ("2", "ipn:2.0", [])
    # seconds since 2000, of the clock of this machine
    assert abs(plan["dtn"]["epoch_ms"] / 1e3 + 946_684_800 - time.time()) < 60
    [door] = plan["neighbours"]
    assert (door["listen"], door["peer"], door["can_send"]) == ("0.0.0.0:0", "127.0.0.1:4556", True)
    assert door["cla"] == {"kind": "quiccl", "streams": "one"}


def test_there_are_two_ports_if_each_side_opens_connections(tmp_path: Path) -> None:
    ways = 'connections = "each"\nlisten = "127.0.0.1:1"\npeer = "127.0.0.1:2"'
    plan = plan_of(file(tmp_path, 'name = "sat"\n' + neighbour("moon", "mtcp", ways)))
    assert [(one["listen"], one["peer"], one["can_send"]) for one in plan["neighbours"]] == [
        ("127.0.0.1:1", None, False),
        ("0.0.0.0:0", "127.0.0.1:2", True),
    ]
    assert [one["eid"] for one in plan["dtn"]["nodes"]] == ["dtn://sat/", "dtn://moon/"]


def test_a_node_gets_the_outcome_of_a_returned_bundle(tmp_path: Path) -> None:
    for asked, start in (("alone", "keep"), ("reopen", "reopen"), ("cue", "link_up")):
        ways = f'on_return = "{asked}"\npeer = "127.0.0.1:1"'
        [door] = plan_of(file(tmp_path, 'name = "1"\n' + neighbour("2", "quiccl", ways)))["neighbours"]
        assert door.get("on_contact_start") == start


def test_tls_of_tcpcl_has_the_nodes_files(tmp_path: Path) -> None:
    ways = f'tls = "require"\nfingerprint = "{"ab:" * 31}ab"\npeer = "127.0.0.1:1"'
    plan = plan_of(
        file(tmp_path, 'name = "1"\ncertificate = "a.pem"\nkey = "a.key"\n' + neighbour("2", "tcpcl", ways))
    )
    [door] = plan["neighbours"]
    assert door["cla"] == {"kind": "tcpcl", "tls": "require"}
    assert door.get("tls") == {
        "fingerprint": "ab:" * 31 + "ab",
        "certificate": {"certificate": str(tmp_path / "a.pem"), "key": str(tmp_path / "a.key")},
        "authority": None,
        "pin": None,
    }


CONTACTS = """
[[contact]]
from = "1"
to = "2"
start = "10 s"
stop = "40 s"
rate = "1 Mbit/s"
owlt = "1 ms"
both = true
"""


def test_contacts_are_from_the_start_on_or_from_their_epoch(tmp_path: Path) -> None:
    plan = plan_of(file(tmp_path, 'name = "1"\n' + NEAR + CONTACTS))
    contacts = plan["dtn"]["plan"]["contacts"]
    assert [(one["start_ns"], one["stop_ns"]) for one in contacts] == [(10 * 10**9, 40 * 10**9)] * 2
    assert plan["dtn"]["nodes"][0].get("routes") == []
    begun = time.gmtime(time.time() - 20)
    epoch = f'epoch = "{time.strftime("%Y-%m-%dT%H:%M:%SZ", begun)}"\n'
    plan = plan_of(file(tmp_path, f'name = "1"\n{epoch}' + NEAR + CONTACTS))
    for one in plan["dtn"]["plan"]["contacts"]:
        assert one["start_ns"] == 0
        assert 10 <= one["stop_ns"] / 1e9 <= 20
    assert plan["dtn"]["plan"].get("expired_pairs") == []
    past = plan_of(file(tmp_path, 'name = "1"\nepoch = "2020-01-01T00:00:00Z"\n' + NEAR + CONTACTS))
    assert past["dtn"]["plan"]["contacts"] == []
    assert past["dtn"]["plan"].get("expired_pairs") == [{"from": "1", "to": "2"}, {"from": "2", "to": "1"}]
    assert past["dtn"]["nodes"][0].get("routes") == []


LATER = """
[[contact]]
from = "1"
to = "3"
start = "0 s"
stop = "175200 h"
rate = "1 Mbit/s"
owlt = "1 ms"
both = true
"""


@pytest.mark.live
def test_a_node_after_its_last_contact_keeps_its_bundles_and_opens_no_connection(tmp_path: Path) -> None:
    """A plan in the past closes a link, unlike a link without a plan; one message reports it."""
    routes = '[[route]]\nat = "1"\nto = "2"\nvia = "2"\n'
    with socket.socket() as received:
        received.bind(("127.0.0.1", 0))
        received.listen()
        near = neighbour(
            "2", "tcpcl", f'peer = "127.0.0.1:{received.getsockname()[1]}"\nopened = "with_contact"'
        )
        other = neighbour("3", "tcpcl", f'peer = "127.0.0.1:{free_port()}"')
        text = f'name = "1"\nepoch = "2020-01-01T00:00:00Z"\n{near}{other}{routes}{CONTACTS}{LATER}'
        plan = plan_of(file(tmp_path, text))
        rows: list[dict[str, Any]] = []
        client = Client(plan, "2", "-R 1b -P 1k -D 3k -l 2")
        answer = run(plan, rows.append, client)
        received.settimeout(0)
        with pytest.raises(BlockingIOError):
            received.accept()
    over = [row for row in rows if row["event"] == "contacts_over"]
    assert [(row["node"], row["neighbour"]) for row in over] == [("1", "2")]
    assert line(over[0]).endswith(
        "no future contact from 1 to 2 in the plan: bundles for it stay at this node"
    )
    counted = Counter(row["event"] for row in rows)
    assert (counted["generated"], counted["sent"], counted["deleted"]) == (3, 0, 3)
    assert {row["reason"] for row in rows if row["event"] == "deleted"} == {"lifetime expired"}
    assert not answer.good


def test_a_plan_in_ions_commands_is_named(tmp_path: Path) -> None:
    (tmp_path / "relay.ionrc").write_text((ROOT / "examples/relay.ionrc").read_text())
    plan = plan_of(file(tmp_path, 'name = "1"\nplan = "relay.ionrc"\n' + NEAR))
    assert {one["name"] for one in plan["dtn"]["nodes"]} == {"1", "2", "3", "6"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NEAR, "name: is missing"),
        ('name = "1"\n', "neighbour"),
        ('name = "2"\n' + NEAR, "neighbour.2: is this node itself"),
        ('name = "1"\n' + NEAR + NEAR, "neighbour.2: duplicate name"),
        ('name = "1"\n' + neighbour("2", "quicl", 'peer = "127.0.0.1:1"'), "layer"),
        ('name = "1"\n' + neighbour("2", "quiccl", ""), "found neither listen nor peer"),
        ('name = "1"\n' + neighbour("2", "mtcp", 'peer = "127.0.0.1:1"'), "which is unidirectional"),
        (
            'name = "1"\n' + neighbour("2", "tcpcl", 'peer = "127.0.0.1"'),
            'neighbour.2.peer: found "127.0.0.1", exp',
        ),
        ('name = "1"\n' + neighbour("2", "tcpcl", 'peer = "127.0.0.1:0"'), "neighbour.2.peer: found"),
        (
            'name = "1"\n' + neighbour("2", "quiccl", 'tls = "require"\npeer = "127.0.0.1:1"'),
            "which is over QUIC",
        ),
        (
            'name = "1"\n' + neighbour("2", "tcpcl", f'fingerprint = "{"ab" * 32}"\npeer = "127.0.0.1:1"'),
            "fingerprint",
        ),
        (
            'name = "1"\n' + neighbour("2", "tcpcl", 'on_return = "cue"\npeer = "127.0.0.1:1"'),
            "gets no event of a return",
        ),
        (
            'name = "1"\n' + neighbour("2", "quiccl", 'on_return = "resume"\npeer = "127.0.0.1:1"'),
            "on_return",
        ),
        (
            'name = "1"\n'
            + neighbour("2", "quiccl", 'closed = "with_contact"\non_return = "cue"\npeer = "127.0.0.1:1"'),
            "which leaves no connection",
        ),
        ('name = "1"\ncertificate = "a.pem"\n' + NEAR, "certificate without key"),
        ('name = "1"\nplan = "none.ionrc"\n' + NEAR, "none.ionrc: no such file"),
        ('name = "1"\nplan = "none.ionrc"\n' + NEAR + CONTACTS, "plan: found beside contact"),
        ('name = "1"\nroute = [{ at = "1", to = "6", via = "3" }]\n' + NEAR, "route[1].via"),
        ('name = "1"\nnode = [{ name = "1", eid = "ipn:x" }]\n' + NEAR, "eid"),
    ],
)
def test_a_wrong_file_is_refused_by_its_key(tmp_path: Path, text: str, expected: str) -> None:
    done = bentpipe(tmp_path, "dtn", "node", str(file(tmp_path, text)))
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("to", "words", "expected"),
    [
        ("ipn:3.0", "-D 1M", 'TO: no node "ipn:3.0"'),
        ("1", "-D 1M", "TO: found 1, this node itself"),
        ("2", "-W 2", "expected -T SECONDS, -D BYTES or -F FILE"),
        ("2", "-W 2 -R 1M -D 1M", "found -W and -R"),
        ("2", "-p high -D 1M", '-p: found "high"'),
    ],
)
def test_wrong_words_of_dtnperf_are_refused(tmp_path: Path, to: str, words: str, expected: str) -> None:
    plan = plan_of(file(tmp_path, 'name = "1"\n' + NEAR))
    with pytest.raises(ScenarioError, match=re.escape(expected)):
        Client(plan, to, words)


def row(event: str, time_s: float, number: int, **more: Any) -> dict[str, Any]:
    rest = {"kind": "data", "source": "ipn:1.1", "destination": "ipn:2.2", "offset_bytes": None, "peer": None}
    return {"time_s": time_s, "node": "1", "event": event, "sequence": number, "payload_bytes": MB,
            "reason": None, **rest, **more}  # fmt: skip


def test_a_client_counts_and_ends(tmp_path: Path) -> None:
    client = Client(plan_of(file(tmp_path, 'name = "1"\n' + NEAR)), "2", "-W 2 -D 3M -P 1M -l 30")
    for number in range(3):
        client.take(row("generated", float(number), number))
        assert not client.done(number)
        client.take(row("acknowledged", number + 1.0 + number, number))
    client.take(row("generated", 3.0, 9, kind="report"))
    assert client.done(5.0)
    message = client.answer()
    assert message.good
    assert message.data["goodput_bit_s"] == 3 * 8 * MB / 5
    assert [message.data[f"delay_{one}_s"] for one in ("min", "median", "max")] == [1, 2, 3]
    assert (message.data["generated"], message.data["acknowledged"], message.data["deleted"]) == (3, 3, 0)
    # an acknowledged bundle counts as forwarded before the neighbour's event
    assert message.data["forwarded"] == 3


def test_rows_of_all_tables_are_written_and_nothing_else(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    for message in (
        {"ready": True},
        row("generated", 1.0, 3),
        {"table": "bundle_routes", "time_s": 1.0, "node": "1", "to": "2", "next": "2", "decision": "planned"},
        {"table": "bundle_store", "node": "1", "received_s": 1.5, "sequence": 3},
        {"table": "connections", "node": "1", "begun": 1},
    ):
        tables.take(message)
    tables.write()
    found = {file.name: file.read_text().splitlines() for file in tmp_path.iterdir()}
    assert {name: len(lines) for name, lines in found.items()} == {
        "bundles.csv": 2, "bundle_routes.csv": 2, "bundle_store.csv": 2, "bundle_status_reports.csv": 1,
    }  # fmt: skip
    assert found["bundle_store.csv"][1] == "1,1.5,,,3,,"


def test_a_client_without_answers_ends_after_a_lifetime(tmp_path: Path) -> None:
    client = Client(plan_of(file(tmp_path, 'name = "1"\n' + NEAR)), "2", "-W 2 -D 3M -P 1M -l 30")
    client.take(row("generated", 0.0, 0))
    assert not client.done(30.0)
    assert client.done(31.5)
    message = client.answer()
    assert not message.good
    assert message.data["goodput_bit_s"] is None
    assert message.problems == ("1 bundles without an answer",)


def connections(time_s: float, **more: Any) -> dict[str, Any]:
    rest = {"table": "connections", "node": "1", "end": 0, "neighbour": "2", "begun": 1, "lost": 0}
    return {"time_s": time_s, **rest, "started_s": None, "why": None, **more}


def test_the_outcome_of_connections_is_reported() -> None:
    reached = NeighbourStatus()
    assert reached.take(connections(0.0)) is None
    assert reached.problems() == ("neighbour 2 has not answered",)
    lost = reached.take(connections(1.0, lost=1, why="refused"))
    assert lost is not None
    assert line(lost) == "   1.000000 s  lost a connection with 2: refused"
    assert reached.problems() == ("neighbour 2: the connection was lost: refused",)
    assert reached.take(connections(1.5, lost=1, begun=2, why="refused")) is None
    assert reached.take(connections(2.0, lost=2, begun=3, started_s=0.5, why="reset")) is not None
    assert reached.problems() == ("neighbour 2: 2 of 3 connections were lost, the last one: reset",)
    reached.take(connections(0.0, end=1, started_s=0.1))
    assert len(reached.problems()) == 1


@pytest.mark.live
@pytest.mark.parametrize(
    ("layer", "problem"),
    [("tcpcl", r"neighbour 2: .*lost.*: refused\n"), ("quiccl", r"neighbour 2 has not answered\n")],
)
def test_a_missing_neighbour_is_reported(tmp_path: Path, layer: str, problem: str) -> None:
    (tmp_path / "one.toml").write_text(pages(free_port(), layer)[0])
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    words = ["-D", "1M", "-P", "1M", "-l", "1"]
    done = bentpipe(tmp_path, "dtn", "perf", "one.toml", "ipn:2.0", *words, environment=environment)
    assert done.returncode == 1
    assert re.fullmatch(problem, done.stderr)


def test_a_line_for_people() -> None:
    message = line(row("received", 1.5, 7, peer="2"))
    assert message == "   1.500000 s  received from 2  ipn:1.1 no. 7 for ipn:2.2, 1,000,000 B"


def pages(port: int, layer: str = "quiccl") -> tuple[str, str]:
    """The two files of the manual, at a port."""
    text = (ROOT / "docs/how-to/bundle-node.md").read_text()
    near, far = re.findall(r"^```toml(?: title=\S+)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[:2]
    for page in (near, far):
        assert "127.0.0.1:4556" in page
        assert 'layer = "quiccl"' in page
    return tuple(  # type: ignore[return-value]
        page.replace("127.0.0.1:4556", f"127.0.0.1:{port}").replace('"quiccl"', f'"{layer}"')
        for page in (near, far)
    )


@pytest.mark.live
@pytest.mark.parametrize("layer", ["quiccl", "tcpcl"])
def test_two_nodes_of_the_manual_exchange_ten_bundles(tmp_path: Path, layer: str) -> None:
    port = free_port()
    near, far = pages(port, layer)
    (tmp_path / "one.toml").write_text(near)
    (tmp_path / "two.toml").write_text(far)
    with a_node(tmp_path / "two.toml", "--json") as (process, out):
        started = json.loads(out.readline())
        assert (started["event"], started["node"], started["eid"]) == ("started", "2", "ipn:2.0")
        assert started["neighbours"][0]["listens"] == f"127.0.0.1:{port}"
        words = ["-W", "4", "-D", "10M", "-P", "1M", "-l", "30", "--out", "tables"]
        environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
        done = bentpipe(
            tmp_path, "dtn", "perf", "one.toml", "ipn:2.0", *words, "--json", environment=environment
        )
        assert done.returncode == 0, done.stderr
        sent = json.loads(done.stdout)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    rows = [json.loads(text) for text in rest.splitlines()]
    came = [one["sequence"] for one in rows if one["event"] == "delivered" and one["kind"] == "data"]
    assert sorted(came) == list(range(10))
    assert not [one for one in rows if one["event"] == "connection_lost"]
    counts = {(one["bundles"], one["event"]): one for one in rows[-1]["counts"]}
    assert counts["data", "delivered"]["payload_bytes"] == 10 * MB
    assert counts["acknowledgement", "forwarded"]["count"] == 10
    assert (sent["generated"], sent["delivered"], sent["acknowledged"]) == (10, 10, 10)
    assert sent["acknowledged_bytes"] == 10 * MB
    assert 0 < sent["delay_min_s"] <= sent["delay_median_s"] <= sent["delay_max_s"] <= sent["duration_s"]
    tables = {name: pl.read_csv(tmp_path / "tables" / f"{name}.csv") for name in TABLES}
    assert {name: table.columns for name, table in tables.items()} == {
        name: list(OPTIONAL_COLUMNS[name]) for name in TABLES
    }
    assert tables["bundles"].filter(event="acknowledged").height == 10
    routes = tables["bundle_routes"].select("node", "to", "decision", "next").unique().rows()
    assert [tuple(map(str, row)) for row in routes] == [("1", "2", "static", "2")]
    assert tables["bundle_routes"].height == 10
    assert (tables["bundle_status_reports"].height, tables["bundle_store"].height) == (0, 0)
    # the neighbour may say after the last acknowledgement that the bundle was forwarded
    assert sent["goodput_bit_s"] * sent["duration_s"] >= 10 * MB * 8 * (1 - 1e-9)


@pytest.mark.live
def test_a_taken_port_is_reported(tmp_path: Path) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        _, far = pages(taken.getsockname()[1])
        (tmp_path / "two.toml").write_text(far)
        with a_node(tmp_path / "two.toml") as (process, _):
            out, errors = process.communicate(timeout=20)
    assert (process.returncode, out) == (2, "")
    assert "in use" in errors


def test_the_earlier_contents_of_a_store_are_reported() -> None:
    head = {"time_s": 0.0, "node": "1"}
    found = {
        **head,
        "event": "store_found",
        "folder": "here",
        "bundles": 1200,
        "bytes": 3_400_000,
        "delivered": 7,
    }
    assert line(found) == "   0.000000 s  store here: 1,200 bundles, 3.4 MB, 7 ids of delivered bundles"
    damaged = {**head, "event": "store_damaged", "reason": "its file is missing", "file": None}
    assert line(damaged) == "   0.000000 s  damaged store entry: its file is missing"
    named = {**damaged, "source": "ipn:1.1", "sequence": 4, "file": "here/damaged/4.1"}
    assert line(named).endswith("store entry ipn:1.1 no. 4: its file is missing; moved to here/damaged/4.1")


@pytest.mark.live
@pytest.mark.parametrize(
    ("layer", "node"),
    [("tcpcl", "2"), ("quiccl", "1"), ("quiccl-priorities", "3"), ("qubicle", "2"), ("mtcp", "2"), ("ltp", "2"),
     ("ltp-green", "2")],
)  # fmt: skip
def test_a_node_that_is_killed_loses_nothing_that_was_promised(layer: str, node: str) -> None:
    kill = dtn_kills.Kill(layer, node, (0.3,), 20_000, 20_000_000)
    assert dtn_kills.trial(realtime.program(), kill) == ""


@pytest.mark.live
def test_a_store_is_of_one_node_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(pages(free_port())[1])
    with a_node(tmp_path / "two.toml", "--store", str(tmp_path / "store"), "--json") as (process, out):
        assert json.loads(out.readline())["event"] == "started"
        found = json.loads(out.readline())
        assert (found["event"], found["bundles"], found["bytes"]) == ("store_found", 0, 0)
        environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
        words = ("dtn", "node", "two.toml", "--store", "store")
        second = bentpipe(tmp_path, *words, environment=environment)
        assert second.returncode == 2
        assert "store: another node uses it (process " in second.stderr
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    other = (tmp_path / "two.toml").read_text().replace('name = "2"', 'name = "7"')
    (tmp_path / "seven.toml").write_text(other)
    third = bentpipe(tmp_path, "dtn", "node", "seven.toml", *words[3:], environment=environment)
    assert third.returncode == 2
    assert "store: the store belongs to node ipn:2.0" in third.stderr
