"""The loss of each contact of a route, against a search over every sequence of contacts."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

import commands
from bentpipe.cli import console
from bentpipe.dtn.contact_loss import earliest_arrival, route_without_contacts
from bentpipe.dtn.contact_plan import CheckedPlan, read
from bentpipe.dtn.route_query import BundleQuery, ask

pytest.importorskip("bentpipe._engine")

ROOT = Path(__file__).resolve().parents[2]
SECOND = 10**9


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def _brute_force(
    plan: CheckedPlan, source: str, to: str, at_ns: int, size: int, lost: object = None
) -> int | None:
    """Return the earliest arrival in ns over every sequence of contacts, by the equations of docs/explanation/contacts.md."""
    volume = size + max(-(-3 * size // 100), 100)
    contacts = [one for one in plan.spec["contacts"] if one is not lost]
    best: int | None = None
    for length in range(1, 5):
        for sequence in itertools.permutations(contacts, length):
            nodes = [source, *(one["to"] for one in sequence)]
            if nodes[-1] != to or len(set(nodes)) < len(nodes):
                continue
            if any(one["from"] != node for one, node in zip(sequence, nodes, strict=False)):
                continue
            time: int | None = at_ns
            for one in sequence:
                time = _pass(plan, one, time, volume)
                if time is None:
                    break
            if time is not None and (best is None or time < best):
                best = time
    return best


def _pass(plan: CheckedPlan, contact: Any, time: int, volume: int) -> int | None:
    """Return the arrival of a bundle over a contact; None if the contact ends too early or has no range."""
    first = max(time, contact["start_ns"])
    last = first + _ceil(Fraction(volume * 8 * SECOND, contact["rate_bit_s"]))
    if last > contact["stop_ns"]:
        return None
    for start, stop, owlt in plan.ranges.get((contact["from"], contact["to"]), []):
        if start <= first < stop:
            return last + owlt + _ceil(Fraction(owlt * 125, 186_282))
    return None


@draw.composite
def plans(take: draw.DrawFn) -> dict[str, Any]:
    """Tables of a plan of four nodes with at most seven contacts; a range covers the whole plan."""
    nodes = ["a", "b", "c", "d"]
    pairs = [(one, other) for one in nodes for other in nodes if one != other]
    contacts = []
    for one, other in take(draw.lists(draw.sampled_from(pairs), min_size=1, max_size=5, unique=True)):
        times = sorted(take(draw.sets(draw.integers(0, 60), min_size=2, max_size=4)))
        times = times[: len(times) // 2 * 2]
        for start, stop in zip(times[::2], times[1::2], strict=True):
            contacts.append(
                {
                    "from": one,
                    "to": other,
                    "start": f"{start} s",
                    "stop": f"{stop} s",
                    "rate": f"{take(draw.integers(1, 9))} Mbit/s",
                    "owlt": f"{take(draw.integers(0, 3000))} ms",
                }
            )
    return {"contact": contacts[:7]}


@settings(max_examples=150, deadline=None)
@given(tables=plans(), at=draw.integers(0, 40), size=draw.integers(1, 20))
def test_arrival_and_losses_are_those_of_every_sequence_of_contacts(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, Any], at: int, size: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "plan.json"
    file.write_text(json.dumps(tables))
    plan = read(file)
    named = {one[end] for one in plan.spec["contacts"] for end in ("from", "to")}
    if not {"a", "d"} <= named:
        return
    query = BundleQuery("a", "d", f"{at} s", f"{size * 100} kB", alternatives=0)
    answer = ask(plan, query)
    found = earliest_arrival(answer)
    expected = _brute_force(plan, "a", "d", at * SECOND, size * 100_000)
    assert (None if found is None else found.time_ns) == expected
    losses = route_without_contacts(plan, query, answer)
    assert [loss.hop["declared_at"] for loss in losses] == (
        [] if found is None else [hop["declared_at"] for hop in found.hops]
    )
    for loss in losses:
        (lost,) = [one for one in plan.spec["contacts"] if one["declared_at"] == loss.hop["declared_at"]]
        without = _brute_force(plan, "a", "d", at * SECOND, size * 100_000, lost)
        assert loss.arrival_ns == without
        assert expected is not None
        assert loss.delay_ns == (None if without is None else without - expected)
        assert loss.delay_ns is None or loss.delay_ns >= 0


def _route(*words: str) -> dict[str, Any]:
    done = commands.bentpipe(ROOT, "dtn", "route", "examples/relay.ionrc", "1", "6", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_loss_of_a_contact_by_hand() -> None:
    """The direct contact is lost: over the relay the bundle is sent twice and needs two light times."""
    margin = 125 / 186_282
    found = _route()
    (loss,) = found["losses"]
    assert (loss["contact"], loss["start_s"]) == ("line 3", 0)
    assert found["arrival_s"] == pytest.approx(0.0824 + 1 + margin, abs=2e-9)
    assert loss["arrival_s"] == pytest.approx(2 * (0.0824 + 1 + margin), abs=4e-9)
    assert loss["delay_s"] == pytest.approx(0.0824 + 1 + margin, abs=4e-9)


def test_bookings_of_the_lost_contact_are_lost_with_it() -> None:
    (loss,) = _route("--booked", "line 3=1 MB")["losses"]
    assert loss["contact"] == "line 3"
    both = _route("--booked", "line 3=1 MB", "--booked", "line 8=3.75 GB")["losses"]
    assert both[0]["arrival_s"] > 110  # the relay's contact is full: the second direct contact remains


def test_a_static_route_and_a_deadline_leave_no_other() -> None:
    found = _route("--static", "6=3")
    assert (found["arrival_node"], found["losses"][0]["arrival_s"]) == ("3", None)
    assert _route("--lifetime", "2 s")["losses"][0]["delay_s"] is None
    # a default static route leads to its next hop only
    assert _route("--lifetime", "2 s", "--static", "*=3")["losses"][0]["arrival_s"] is None


def test_the_answer_is_a_sentence_and_tables_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "DEFAULT_WIDTH", 80)
    done = commands.bentpipe(
        ROOT, "dtn", "route", "examples/relay.ionrc", "1", "6", "--at", "99.99 s", "--alternatives", "0"
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        "The bundle arrives at 6 at 102.156 s over 2 contacts: 1 - 3 - 6.",
        "The loss of line 6 (1 to 3) or line 8 (3 to 6) costs a delay of 8.927 s, arrival at 111.083 s.",
    ]
    assert max(len(line.rstrip()) for line in lines[2:]) <= 80
    saved = commands.bentpipe(ROOT, "dtn", "route", "examples/relay.ionrc", "1", "6", "--at", "299.99 s")
    assert saved.stdout.startswith(
        "The bundle stays at 1: contacts lead from 1 to 6, but none of their routes can"
    )


def test_a_route_is_drawn(tmp_path: Path) -> None:
    plan = str(ROOT / "examples/relay.ionrc")
    words = ["dtn", "route", plan, "1", "6", "--at", "99.99 s", "--figures", "figures", "--format", "svg"]
    done = commands.bentpipe(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    picture = (tmp_path / "figures/route.svg").read_text()
    for text in (
        "1 to 3",
        "3 to 6",
        "contact of the route",
        "contact of an alternative",
        "The bundle arrives at 6 at 102.156 s",
    ):
        assert text in picture
    assert done.stdout.endswith("figures/route.svg\n")
    wrong = commands.bentpipe(tmp_path, *words, "--figure", "rote")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == (
        'error: --figure: no figure "rote", expected one of: route; did you mean "route"?\n'
    )
