"""Bundle nodes on real sockets that flood: what their files become, and bundles that come where no plan leads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import polars as pl
import pytest

import bentpipe
import dtn_kills
import realtime
from bentpipe.dtn.node import plan_of, unused_neighbours
from bentpipe.dtn.optimality_gap import distances
from bentpipe.lab.free_port import free_port
from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.reader import Store
from bundle_peers import a_node, until

ROOT = Path(__file__).resolve().parents[2]
EPIDEMIC = 'routing = "epidemic"\n'


def neighbour(name: str, way: str, layer: str = "tcpcl") -> str:
    return f'[[neighbour]]\nname = "{name}"\nlayer = "{layer}"\n{way}\n'


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\n{text}')
    return path


NEAR = neighbour("2", 'peer = "127.0.0.1:4556"')
OTHERS = '[[contact]]\nfrom = "1"\nto = "3"\nstop = "1 h"\nrate = "1 Mbit/s"\nowlt = "1 ms"\n'


def test_a_node_gets_the_option_of_flooding(tmp_path: Path) -> None:
    plan = plan_of(file(tmp_path, "1", EPIDEMIC + NEAR))
    assert plan["dtn"].get("epidemic") == {}
    assert plan["dtn"]["nodes"][0].get("routes") == []
    assert unused_neighbours(plan) == []
    plan = plan_of(file(tmp_path, "1", EPIDEMIC + "copies = 3\n" + NEAR + OTHERS))
    assert plan["dtn"].get("epidemic") == {"copies": 3}
    assert unused_neighbours(plan) == []
    assert "epidemic" not in plan_of(file(tmp_path, "1", NEAR))["dtn"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("copies = 2\n", 'copies: found with routing = "sabr"'),
        (EPIDEMIC + "copies = 0\n", "copies"),
        (
            EPIDEMIC + 'route = [{ at = "1", to = "3", via = "2" }]\n',
            'route: found with routing = "epidemic"',
        ),
        (EPIDEMIC + 'plan = "hands.toml"\n', 'route: found with routing = "epidemic"'),
        ('routing = "flooding"\n', "routing"),
    ],
)
def test_meaningless_input_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "hands.toml").write_text('[[route]]\nat = "1"\nto = "3"\nvia = "2"\n' + OTHERS)
    with pytest.raises(ScenarioError) as caught:
        plan_of(file(tmp_path, "1", text + NEAR))
    assert message in str(caught.value)


def test_a_neighbour_missing_in_the_plan_is_reported(tmp_path: Path) -> None:
    """By the plan a node sends nothing where no contact is."""
    three = neighbour("3", 'peer = "127.0.0.1:4557"')
    assert unused_neighbours(plan_of(file(tmp_path, "1", NEAR + three))) == []
    assert unused_neighbours(plan_of(file(tmp_path, "1", NEAR + three + OTHERS))) == ["2"]
    route = 'route = [{ at = "1", to = "2", via = "2" }]\n'
    assert unused_neighbours(plan_of(file(tmp_path, "1", route + NEAR + three + OTHERS))) == []
    over = 'epoch = "2020-01-01T00:00:00Z"\n'
    assert unused_neighbours(plan_of(file(tmp_path, "1", over + NEAR + three + OTHERS))) == ["2", "3"]


SCENARIO = ROOT / "scenarios/dtn/epidemic.toml"
BUSES = ROOT / "examples/buses.toml"


def test_a_flood_gets_past_a_bus_that_breaks_down_and_pays_for_it(tmp_path: Path) -> None:
    """The scenario's bus with half of the bundles fails, by the plan. Bundles that SABR gave to it are lost, and other
    buses have the flooded ones. Flooding loads the links more."""
    table = tomllib.loads(SCENARIO.read_text())
    assert table["dtn"]["contact"] == tomllib.loads(BUSES.read_text())["contact"]
    table["seeds"] = 1
    table["sweep"] = {"routing": table["sweep"]["routing"][:2], "buses": table["sweep"]["buses"][1:2]}
    results = bentpipe.run(table, out=tmp_path / "buses", jobs=1)
    found = distances(Store(results.path)).join(results.runs.select("run", "routing"), on="run")
    sabr, flood = (
        found.row(by_predicate=pl.col("routing").str.starts_with(one), named=True) for one in ("SABR", "epi")
    )
    assert sabr["generated_bundles"] == flood["generated_bundles"] == 180
    assert sabr["delivered_bundles"] < 0.8 * 180 < 0.95 * 180 < flood["delivered_bundles"]
    assert flood["sent_bytes"] > 1.5 * sabr["sent_bytes"]


def ids(rows: list[dict[str, Any]], event: str) -> Counter[int]:
    """Bundles of clients, and how often this has happened to them."""
    return Counter(row["sequence"] for row in rows if row["event"] == event and row["kind"] == "data")


def rest(process: subprocess.Popen[str], out: IO[str]) -> list[dict[str, Any]]:
    """Return the events of a node until its end."""
    process.terminate()
    return [json.loads(text) for text in out]


def perf(folder: Path, to: str, *words: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "bentpipe.cli",
        "dtn",
        "perf",
        str(folder / "1.toml"),
        to,
        *words,
        "--json",
    ]
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.live
@pytest.mark.parametrize("layer", ["tcpcl", "quiccl"])
def test_bundles_reach_a_node_that_no_plan_names_by_a_neighbour_that_turns_up(
    tmp_path: Path, layer: str
) -> None:
    """Nodes in a row, 1 to 4. The plan has a contact of 1 and 2 alone; 3 turns up once 2 has the bundles."""
    ports = {way: free_port() for way in ("12", "23", "34")}

    def row(name: str) -> str:
        text = ""
        for way, port in ports.items():
            if name == way[0]:
                text += neighbour(way[1], f'listen = "127.0.0.1:{port}"', layer)
            if name == way[1]:
                text += neighbour(way[0], f'peer = "127.0.0.1:{port}"\nopened = "with_contact"', layer)
        return text

    plan = '[[contact]]\nfrom = "1"\nto = "2"\nstop = "1 h"\nrate = "1 Gbit/s"\nowlt = "1 ms"\nboth = true\n'
    ends = EPIDEMIC + 'node = [{ name = "1" }, { name = "4" }]\n'
    for name in "1234":
        file(tmp_path, name, ends + row(name) + (plan if name in "12" else ""))
    with (
        a_node(tmp_path / "2.toml", "--json") as (_, second),
        perf(tmp_path, "4", "-W", "10", "-D", "100k", "-P", "10k", "-l", "60") as client,
    ):
        until(second, "received", 10)
        with (
            a_node(tmp_path / "3.toml", "--json") as (_, third),
            a_node(tmp_path / "4.toml", "--json") as last,
        ):
            message = until(third, "received", 10)
            out, errors = client.communicate(timeout=60)
            came = rest(*last)
    # Bundles acknowledged by node 4 may arrive before the tenth of them.
    assert {row["peer"] for row in message if row["event"] == "received" and row["kind"] == "data"} == {"2"}
    assert (client.returncode, errors) == (0, "")
    assert json.loads(out)["acknowledged"] == 10
    assert ids(came, "delivered") == Counter(range(10))


@pytest.mark.live
@pytest.mark.parametrize("layer", ["tcpcl", "quiccl-each"])
def test_a_bundle_that_comes_by_two_ways_is_delivered_once(tmp_path: Path, layer: str) -> None:
    """Each of three nodes has both others as neighbours; the third is killed in between."""
    ports = {way: free_port() for way in ("12", "13", "23")}
    nodes = {}
    for name in "123":
        text = f'name = "{name}"\n' + EPIDEMIC
        for way, port in ports.items():
            if name in way:
                other, side = way.replace(name, ""), "listen" if name == way[1] else "peer"
                text += neighbour(other, f'{side} = "127.0.0.1:{port}"\nidle_timeout = "2 s"', layer)
        words = "-R 4M -D 1M -P 10k -l 600" if name == "1" else None
        nodes[name] = dtn_kills.Node(realtime.program(), tmp_path, name, text, words)
    one, two, three = nodes.values()
    try:
        for node in (two, three, one):
            node.begin(sends=True)
        wait(lambda: len(three.ids("delivered")) >= 20)
        three.end(signal.SIGKILL)
        lines = three.ids("delivered")
        three.begin()
        # A kill between the store and the line takes the line.
        stored = three.found[-1]["delivered"]
        assert stored >= len(lines)
        wait(lambda: len(three.ids("delivered")) - len(lines) + stored == 100)
        wait(lambda: not (one.ids("generated") - two.ids("received")))
        for node in nodes.values():
            assert node.end() == 0
        three.begin()
        assert (three.found[-1]["delivered"], three.found[-1]["bundles"]) == (100, 0)
        assert set(three.ids("delivered").values()) == {1}
        assert {row["peer"] for row in three.rows if row.get("event") == "received"} == {"1", "2"}
    finally:
        for node in nodes.values():
            node.end(signal.SIGKILL)


def wait(true: Callable[[], object]) -> None:
    over = time.monotonic() + dtn_kills.PATIENCE_S
    while not true():
        assert time.monotonic() < over
        time.sleep(0.05)
