"""Tests of the best delivery of a contact plan: by linear programs, by hand, and beside runs."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_array

from bentpipe.dtn.delivery_bound import curve
from commands import bentpipe

S = 10**9
END = 1000
Contact = tuple[str, str, int, int, int]
Ranges = dict[tuple[str, str], list[tuple[int, int, int]]]
"""For each pair: begin, end and light time, whole seconds."""


def plan(contacts: list[Contact], ranges: Ranges, nodes: list[str]) -> dict[str, Any]:
    return {
        "nodes": nodes,
        "contacts": [
            {
                "from": a, "to": b, "start_ns": start * S, "stop_ns": stop * S, "rate_bit_s": 8 * rate,
                "declared_at": f"contact {n}",
            }
            for n, (a, b, start, stop, rate) in enumerate(contacts)
        ],
        "ranges": [
            {
                "from": a, "to": b, "start_ns": start * S, "stop_ns": stop * S, "owlt_ns": light * S,
                "implies_reverse": False, "declared_at": f"range from {start} s",
            }
            for (a, b), held in ranges.items()
            for start, stop, light in held
        ],
    }  # fmt: skip


def most(
    contacts: list[Contact], ranges: Ranges, supplies: list[tuple[str, int, int]], to: str,
    stores: dict[str, int], by: int,
) -> float:  # fmt: skip
    """The most bytes at ``to`` by a whole second: a linear programme with a variable for each second of each contact and of
    each store. Everything begins and ends at whole seconds, so rates that change there suffice. Data sent in a second arrives after the light time of that second. If it falls, later bytes overtake; if it grows, there is a gap."""

    def light(a: str, b: str, at: int) -> int:
        return next(owlt for start, stop, owlt in ranges[a, b] if start <= at < stop)

    sends = [
        (a, b, at, at + light(a, b, at), rate)
        for a, b, start, stop, rate in contacts
        for at in range(start, stop)
        if at + light(a, b, at) < by and a != to
    ]
    nodes = sorted({one for a, b, *_ in contacts for one in (a, b)} | {at for at, *_ in supplies})
    keeps = [(node, at) for node in nodes if node != to for at in range(by)]
    comes: dict[tuple[str, int], float] = defaultdict(float)
    for node, at, size in supplies:
        comes[node, at] += size
    taken = [place for place in comes if place[1] < by]
    variables = len(sends) + len(keeps) + len(taken)
    row = {place: number for number, place in enumerate(keeps)}
    balance = lil_array((len(keeps), variables))
    full = lil_array((len(keeps), variables))
    gain = np.zeros(variables)
    bounds: list[tuple[float, float | None]] = []
    for number, (a, b, leaves, arrives, rate) in enumerate(sends):
        balance[row[a, leaves], number] -= 1
        if b == to:
            gain[number] = -1
        else:
            balance[row[b, arrives], number] += 1
        bounds.append((0, rate))
    for number, (node, at) in enumerate(keeps, len(sends)):  # kept from this second into the next
        balance[row[node, at], number] -= 1
        if (node, at + 1) in row:
            balance[row[node, at + 1], number] += 1
            full[row[node, at + 1], number] += 1
        bounds.append((0, stores.get(node)))
    for number, place in enumerate(taken, len(sends) + len(keeps)):
        balance[row[place], number] += 1
        full[row[place], number] += 1
        bounds.append((0, comes[place]))
    # what comes is in the store with what was there
    bounded = [row[place] for place in keeps if place[0] in stores]
    rooms = [float(stores[node]) for node, _ in keeps if node in stores]
    found = linprog(
        gain, full.tocsr()[bounded] if bounded else None, rooms or None, balance.tocsr(), np.zeros(len(keeps)),
        bounds=bounds, method="highs",
    )  # fmt: skip
    assert found.status == 0, found.message
    return -float(found.fun)


def drawn(chance: random.Random, changes: bool) -> list[tuple[int, int, int]]:
    """A pair's light times; with ``changes`` up to four, most of them within its contacts."""
    until = sorted(chance.sample(range(1, 20), chance.randint(0, 3))) if changes else []
    return [(start, stop, chance.randint(0, 4)) for start, stop in pairwise([0, *until, END])]


@pytest.mark.parametrize("changes", [False, True], ids=["one light time", "changing light times"])
@pytest.mark.parametrize("seed", range(10))
def test_a_drawn_plan_has_the_optimum_of_a_linear_programme(seed: int, changes: bool) -> None:
    chance = random.Random(seed)  # noqa: S311 - plans, not secrets
    exact = 0
    for _ in range(25):
        nodes = ["a", "b", "c", "d", "e"][: chance.randint(3, 5)]
        pairs = [(a, b) for a in nodes for b in nodes if a != b]
        ranges = {pair: drawn(chance, changes) for pair in pairs}
        contacts: list[Contact] = []
        for a, b in pairs:
            start = chance.randint(0, 8)
            for _ in range(chance.choice([0, 1, 1, 2])):
                stop = start + chance.randint(1, 6)
                contacts.append((a, b, start, stop, chance.randint(1, 9)))
                start = stop + chance.randint(0, 5)
        if not contacts:
            continue
        to = nodes[-1]
        supplies = [
            (chance.choice(nodes[:-1]), chance.randint(0, 10), chance.randint(1, 60))
            for _ in range(chance.randint(1, 4))
        ]
        stores = {node: chance.randint(0, 30) for node in nodes[:-1] if chance.random() < 0.3}
        made = curve(
            plan(contacts, ranges, nodes), [(at, time * S, size) for at, time, size in supplies], to, stores
        )
        exact += made.above_bytes == 0
        for by in (12, 40):
            assert made.delivered(by) == pytest.approx(
                most(contacts, ranges, supplies, to, stores, by), abs=1e-6
            )
    assert exact >= 15, "hardly any plan was exact"


ION = "a contact +0 +10 1 2 1000\na contact +0 +10 2 3 500\na contact +20 +30 2 3 500\na range +0 +30 1 2 1\na range +0 +30 2 3 2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "two.ionrc").write_text(ION)
    return tmp_path


def test_bundles_of_a_plan_in_words(folder: Path) -> None:
    words = ("dtn", "bound", "two.ionrc", "1", "3", "--size", "2500 B", "--count", "3", "--interval", "1 s")
    done = bentpipe(folder, *words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # 500 B/s from 1 s on: 4500 B until 10 s, two seconds away; the rest 20 s later
    assert [one["earliest_s"] for one in found["bundles"]] == [8.0, 23.0, 28.0]
    assert (found["delivered_bundles"], found["above_bytes"]) == (3, 0)
    text = bentpipe(folder, *words).stdout
    assert text.startswith(
        "No protocol delivers 3 bundles of 2500 B from 1 to 3 before 28 s, or the first of them before 8 s."
    )
    # what the relay can keep: 500 B, and what leaves as it comes
    small = json.loads(bentpipe(folder, *words, "--store", "2=500 B", "--json").stdout)
    assert [one["earliest_s"] for one in small["bundles"]] == [8.0, 22.0 + 500 / 500, None]
    refused = bentpipe(folder, "dtn", "bound", "two.ionrc", "1", "4")
    assert refused.returncode == 2
    assert "a node that no contact names" in refused.stderr
    refused = bentpipe(folder, *words, "--store", "x=1 B")
    assert refused.returncode == 2
    assert "--store" in refused.stderr


RUN = """duration = "40 s"
[graph]
node = ["one", "two"]
[[graph.link]]
name = "hop"
client_side = "one"
server_side = "two"
delay = "100 ms"
both = { rate = "8 Mbit/s", queue = "1 MB" }
[[flow]]
name = "hop"
client = "one"
server = "two"
congestion = "cubic"
load = { bundles = { layer = "qubicle", dtnperf = "-R 2b -P 100k -D 1M" } }
[dtn]
contact = [{ from = "one", to = "two", stop = "40 s", rate = "8 Mbit/s", owlt = "100 ms", both = true }]
"""


def test_a_run_beside_its_best(folder: Path) -> None:
    (folder / "run.toml").write_text(RUN)
    done = bentpipe(folder, "run", "run.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    found = json.loads(bentpipe(folder, "dtn", "gap", "out", "--json").stdout)["runs"]
    assert len(found) == 1
    (row,) = found
    assert (row["to"], row["generated_bundles"], row["delivered_bundles"]) == ("two", 10, 10)
    assert (row["delivered_bytes"], row["best_bytes"]) == (1e6, pytest.approx(1e6))
    # 100 kB at 8 Mbit/s, and 100 ms of light
    assert row["best_delay_mean_s"] == pytest.approx(0.2)
    assert row["delay_mean_s"] > 0.2
    assert row["behind_max_s"] > 0
    assert row["behind_p50_s"] == pytest.approx(row["delay_mean_s"] - 0.2, abs=0.2)
    # headers and acknowledgements are more than the payload; few bundles wait to be acknowledged at a time
    assert 1e6 < row["sent_bytes"] < 1.2e6
    assert row["peak_node"] == "one"
    assert row["peak_bytes"] in (100_000, 200_000, 300_000)
    assert "10 of 10" in bentpipe(folder, "dtn", "gap", "out").stdout
    # by a plan in which the contact comes later the run is before its best
    (folder / "late.toml").write_text(
        '[[contact]]\nfrom = "one"\nto = "two"\nstart = "20 s"\nstop = "40 s"\nrate = "8 Mbit/s"\nowlt = "100 ms"\n'
    )
    late = json.loads(bentpipe(folder, "dtn", "gap", "out", "--plan", "late.toml", "--json").stdout)["runs"]
    assert late[0]["behind_p50_s"] < 0


def test_a_mars_day_is_delivered_and_the_moon_is_near_its_best(folder: Path) -> None:
    mars = (Path(__file__).parents[2] / "scenarios/mars.toml").read_text()
    some = [
        line
        for line in mars.splitlines()
        if not line.startswith(('  { label = "3 min"', '  { label = "12.5 min"'))
    ]
    (folder / "mars.toml").write_text("\n".join(some))
    done = bentpipe(folder, "run", "mars.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    rows = json.loads(bentpipe(folder, "dtn", "gap", "out", "--json").stdout)["runs"]
    found = {row["light"]: row for row in rows}
    assert list(found) == ["1.3 s (Moon)", "22 min"]
    for row in rows:
        assert (row["generated_bundles"], row["delivered_bundles"], row["above_bytes"]) == (1000, 1000, 0)
        # no run is before its best; forwarding whole bundles of 0.8 s and 0.4 s is what LTP adds to it
        assert 1.2 < row["behind_p50_s"] <= row["behind_max_s"] < 4
        assert row["delay_mean_s"] > row["best_delay_mean_s"]
        # four hops
        assert 4e8 < row["sent_bytes"] < 4.5e8
