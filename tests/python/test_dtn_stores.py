"""Damaged stores of bundle nodes: a disk that fills while a node runs, and damage found at the start."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import dtn_kills
import realtime
from bentpipe.dtn.node import line
from bundle_peers import a_node
from nightly import keep

PATIENCE_S = 60.0
"""Longest wait for what has to come."""


def until(what: str, true: Callable[[], object]) -> None:
    """Waits until ``true()``."""
    over = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < over, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.05)


def reasons(node: dtn_kills.Node, event: str) -> set[str]:
    """Why this has happened to bundles."""
    return {row["reason"] for row in list(node.rows) if row.get("event") == event}


@contextlib.contextmanager
def a_disk(folder: Path, size: str) -> Iterator[Sequence[str]]:
    """A disk of its own mounted at ``folder``; what a command that is to see it begins with."""
    realtime.need_namespaces("mount", "nsenter")
    folder.mkdir()
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = f'mount -t tmpfs -o size={size} none "{folder}" && echo there && exec sleep 600'
    with subprocess.Popen(
        ["unshare", *user, "--mount", "sh", "-c", script], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "there\n"
            within = ["--user", "--preserve-credentials"] if user else []
            yield ["nsenter", "-t", str(holder.pid), *within, "--mount"]
        finally:
            holder.kill()


@pytest.mark.live
@pytest.mark.parametrize("layer", keep(["tcpcl"], ["tcpcl", "quiccl", "ltp"]))
def test_a_disk_that_fills_under_a_relay(tmp_path: Path, layer: str) -> None:
    """A node has 20 MB for 12 MB of space (16 of 28 MiB stay free).

    It refuses further bundles, which stay with the sender; a kill loses no accepted bundle, and with more space the
    others arrive.
    """
    program, count = realtime.program(), 40
    with (
        a_disk(tmp_path / "disk", "28m") as within,
        dtn_kills.row(program, layer, f"-R 100M -D {count * 500_000} -P 500k -l 600") as nodes,
    ):
        one, two, three = (nodes[name] for name in "123")
        two.store, two.before = tmp_path / "disk", within
        two.begin()
        one.begin(sends=True)
        until("all are made", lambda: len(one.ids("generated")) == count)
        until("it is full", lambda: len(one.ids("forwarded") | one.ids("returned")) == count)
        # A second later they are offered again.
        until("they are refused again", lambda: max(one.ids("returned").values()) > 1)
        assert reasons(two, "deleted") == {"depleted storage"}
        assert reasons(one, "returned") == {"the neighbour's store is full"}
        assert not one.ids("deleted")
        two.end(signal.SIGKILL)
        taken = one.ids("forwarded")
        assert 20 <= len(taken) < 30, "as much as there was room for"
        two.begin()
        assert not two.found[-1]["damaged"]
        assert two.found[-1]["bundles"] >= len(taken)
        three.begin()
        until("all are delivered", lambda: len(three.ids("delivered")) == count)
        for node in (one, two, three):
            assert node.end() == 0
        assert set(three.ids("delivered").values()) == {1}
        two.begin()
        assert (two.found[-1]["bundles"], two.found[-1]["damaged"]) == (0, [])


def full(nodes: dict[str, dtn_kills.Node], count: int) -> set[dtn_kills.Id]:
    """Node 2 has taken what node 1 had for node 3, and all have ended; what that is."""
    one, two = nodes["1"], nodes["2"]
    two.begin()
    one.begin(sends=True)
    until("all are taken", lambda: len(one.ids("forwarded")) == count)
    for node in (one, two):
        assert node.end() == 0
    return set(one.ids("generated"))


def started(two: dtn_kills.Node, three: dtn_kills.Node) -> list[dict[str, Any]]:
    """Return the output of node 2 from its start as ``bentpipe dtn node`` until node 3 has all its bundles."""
    before = len(three.ids("delivered"))
    with a_node(two.file, "--store", str(two.store), "--json") as (process, out):
        rows: list[dict[str, Any]] = [json.loads(out.readline()) for _ in range(2)]
        assert [row["event"] for row in rows] == ["started", "store_found"]
        while sum(row["event"] in ("forwarded", "deleted") for row in rows) < rows[1]["bundles"]:
            text = out.readline()
            assert text, rows
            rows.append(json.loads(text))
        passed = sum(row["event"] == "forwarded" for row in rows)
        until("node 3 has them", lambda: len(three.ids("delivered")) - before >= passed)
        process.terminate()
        rows += [json.loads(text) for text in out]
    assert process.returncode == 0
    return rows


def name_of(row: dict[str, Any]) -> dtn_kills.Id:
    return (row["source"], row["created_ms"], row["sequence"])


@pytest.mark.live
def test_a_node_starts_on_files_that_are_bent_cut_and_gone(tmp_path: Path) -> None:
    """A lost bundle is reported at the start or before it is sent, and its file is set aside; the others are delivered."""
    chance = random.Random(3)  # noqa: S311 - a draw that can be made again
    with dtn_kills.row(realtime.program(), "tcpcl", "-R 20M -D 800k -P 20k -l 600") as nodes:
        two, three = nodes["2"], nodes["3"]
        sent = full(nodes, 40)
        files = [
            file for file in (two.store / "payloads").rglob("*") if file.is_file() and file.stat().st_size
        ]
        assert len(files) == 40
        for number, file in enumerate(chance.sample(sorted(files), 9)):
            data = bytearray(file.read_bytes())
            match number % 3:
                case 0:
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                    file.write_bytes(data)
                case 1:
                    file.write_bytes(data[: chance.randrange(1, len(data))])
                case _:
                    file.unlink()
        three.begin()
        rows = started(two, three)
        came = set(three.ids("delivered"))
        at_once = [row for row in rows if row["event"] == "store_damaged"]
        later = [row for row in rows if row["event"] == "deleted"]
        assert rows[1]["bundles"] == 34
        assert sorted(row["reason"].split(" bytes")[0].rstrip("0123456789") for row in at_once) == (
            ["its file has "] * 3 + ["its file is missing"] * 3
        )
        for row in at_once:
            assert line(row).startswith(
                f"   0.000000 s  damaged store entry {row['source']} no. {row['sequence']}: "
            )
        assert [row["reason"] for row in later] == ["it is damaged in the store"] * 3
        lost = {name_of(row) for row in at_once + later}
        assert len(lost) == 9
        assert came == sent - lost
        aside = {str(file) for file in (two.store / "damaged").iterdir()}
        assert len(aside) == 6
        assert {row["file"] for row in at_once} - {None} <= aside
        again = started(two, three)
        assert (len(again), again[1]["bundles"]) == (3, 0), "nothing is said twice"
        assert three.end() == 0


@pytest.mark.live
@pytest.mark.parametrize("payload", keep([20_000], [20_000, 500]))
def test_a_node_starts_on_an_index_that_is_bent_and_cut(tmp_path: Path, payload: int) -> None:
    """All bundles in files arrive; those in the index arrive or are reported as lost."""
    count = 40
    words = f"-R 20M -D {count * payload} -P {payload} -l 600"
    with dtn_kills.row(realtime.program(), "tcpcl", words) as nodes:
        two, three = nodes["2"], nodes["3"]
        sent = full(nodes, count)
        shutil.copytree(two.store, tmp_path / "whole")
        for how in ("cut", 1):
            shutil.rmtree(two.store)
            shutil.copytree(tmp_path / "whole", two.store)
            index = two.store / "index.redb"
            data = bytearray(index.read_bytes())
            match how:
                case "cut":
                    index.write_bytes(data[: len(data) // 2])
                case seed:
                    chance = random.Random(seed)  # noqa: S311 - a draw that can be made again
                    for _ in range(20):
                        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                    index.write_bytes(data)
            three.rows.clear()
            shutil.rmtree(three.store, ignore_errors=True)
            three.begin()
            rows = started(two, three)
            came = set(three.ids("delivered"))
            assert three.end() == 0
            message = [row["reason"] for row in rows if row["event"] == "store_damaged"]
            assert rows[1]["bundles"] == len(came), how
            assert came <= sent, how
            if payload > 4096:
                assert came == sent, how
            if isinstance(how, str):
                assert message[0].startswith("the index is damaged ("), how
                assert payload > 4096 or not came, how
            elif came != sent:
                assert message[0].startswith("the index is damaged ("), how
