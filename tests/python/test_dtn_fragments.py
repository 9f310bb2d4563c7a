"""Fragments of a bundle by a contact plan, what does not fit, and missing ranges: against calculations by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from bentpipe.dtn.contact_loss import earliest_arrival
from bentpipe.dtn.contact_plan import read
from bentpipe.dtn.delivery_bound import curve
from bentpipe.dtn.route_query import BundleQuery, ask
from commands import bentpipe

RANGES = "".join(f"a range +0 +1800 {a} {b} 1\n" for a, b in ((1, 2), (1, 3), (2, 4), (3, 5), (4, 5)))
CONTACTS = """a contact +0 +600 1 2 250000
a contact +0 +900 1 3 150000
a contact +300 +1200 2 4 125000
a contact +600 +1500 3 5 160000
a contact +1000 +1800 4 5 200000
"""
LIGHT_S = 1 + 125 / 186_282
OVER_3 = (1500 - LIGHT_S) / (1 / 150e3 + 1 / 160e3)
"""Bytes over 3: they leave 1 at 150 kB/s, and then 3 at 160 kB/s by 1500 s."""
OVER_2 = (1200 - LIGHT_S) / (1 / 250e3 + 1 / 125e3)
"""Bytes over 2 and 4: they leave 1 at 250 kB/s, and then 2 at 125 kB/s by 1200 s."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "five.ionrc").write_text(CONTACTS + RANGES)
    (tmp_path / "bare.ionrc").write_text(CONTACTS)
    return tmp_path


def route_json(folder: Path, *words: str) -> dict[str, Any]:
    done = bentpipe(folder, "dtn", "route", "five.ionrc", "1", "5", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def route_text(folder: Path, *words: str) -> str:
    done = bentpipe(folder, "dtn", "route", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_bundle_of_two_fragments_arrives_within_its_contacts(folder: Path) -> None:
    found = route_json(folder, "--size", "200 MB", "--fragment")
    first, second = found["fragments"]
    assert first["route"]["nodes"] == ["1", "3", "5"]
    assert second["route"]["nodes"] == ["1", "2", "4", "5"]
    assert first["bytes"] == pytest.approx(OVER_3 / 1.03, abs=2)
    assert first["bytes"] + second["bytes"] == found["delivered_bytes"] == 200_000_000
    # The first fragment fills the contact from 3 to 5.
    assert first["route"]["projected_s"] == pytest.approx(1500 + LIGHT_S, abs=1e-3)
    sent = second["bytes"] * 1.03
    at_4 = sent / 250e3 + LIGHT_S + sent / 125e3 + LIGHT_S
    assert second["route"]["projected_s"] == pytest.approx(max(at_4, 1000) + sent / 200e3 + LIGHT_S, abs=1e-3)
    assert found["arrival_s"] == pytest.approx(max(one["route"]["projected_s"] for one in (first, second)))
    text = route_text(folder, "five.ionrc", "1", "5", "--size", "200 MB", "--fragment")
    assert "in 2 fragments: 112.7 MB over 1 - 3 - 5 and 87.33 MB over 1 - 2 - 4 - 5." in text
    assert not re.search(r"\b\d{2,}\.\d{4,}", text), "times to milliseconds"


def test_the_rest_that_no_contact_carries_is_stated(folder: Path) -> None:
    both = int((OVER_3 + OVER_2) / 1.03)
    found = route_json(folder, "--size", "500 MB", "--fragment")
    assert found["arrival_s"] is None
    assert found["delivered_bytes"] == pytest.approx(both, abs=4)
    text = route_text(folder, "five.ionrc", "1", "5", "--size", "500 MB", "--fragment")
    assert text.startswith(f"{both / 1e6:.4g} MB of 500 MB arrive at 5 by ")
    assert f"The rest, {(5e8 - both) / 1e6:.4g} MB, stays at 1: it needs another contact." in text
    # Without a contact of one route, only the other one remains.
    delivered = {loss["from"]: loss["delivered_bytes"] for loss in found["losses"]}
    assert delivered["3"] == pytest.approx(OVER_2 / 1.03, abs=2)
    assert delivered["2"] == pytest.approx(OVER_3 / 1.03, abs=2)


def test_a_bundle_that_does_not_fit_says_how_much_does(folder: Path) -> None:
    found = route_json(folder, "--size", "500 MB")
    assert (found["arrival_s"], found["delivered_bytes"], found["fragments"]) == (None, 0, [])
    assert [one["projected_s"] for one in found["considered"]] == [None, None]
    reasons = " ".join(one["reason"] for one in found["considered"])
    assert f"at most {int(OVER_3):,} B fit in 3 to 5 (line 4), and the bundle needs 515,000,000 B" in reasons
    assert f"at most {int(OVER_2):,} B fit in 2 to 4 (line 3)" in reasons
    text = route_text(folder, "five.ionrc", "1", "5", "--size", "500 MB")
    assert f"At most {OVER_3 / 1.03e6:.4g} MB fit one route; --fragment sends the bundle in parts." in text
    largest = int(OVER_3 / 1.03) - 2
    assert route_json(folder, "--size", f"{largest} B")["delivered_bytes"] == largest


def test_missing_ranges_are_the_reason_and_warnings_are_printed(folder: Path) -> None:
    text = route_text(folder, "bare.ionrc", "1", "5")
    assert "contacts lead from 1 to 5, but the plan has no range between 1 and " in text
    assert "warning: line 1: 1 to 2: contact without a range, never used" in text
    done = bentpipe(folder, "dtn", "bound", "bare.ionrc", "1", "5")
    assert "No protocol delivers 1 MB from 1 to 5 by this plan" in done.stdout
    assert "warning: line 1: 1 to 2: contact without a range, never used" in done.stdout
    (folder / "one.ionrc").write_text(CONTACTS + RANGES.replace("a range +0 +1800 3 5 1\n", ""))
    text = route_text(folder, "one.ionrc", "1", "3")
    assert "arrives at 3" in text
    (folder / "cut.ionrc").write_text(
        "a contact +0 +9 1 3 1000000\na contact +0 +9 3 5 1000000\na range +0 +9 1 3 1\n"
    )
    text = route_text(folder, "cut.ionrc", "1", "5")
    assert "contacts lead from 1 to 5, but the plan has no range between 3 and 5." in text


def test_the_bound_is_a_lower_bound_of_the_time(folder: Path) -> None:
    text = bentpipe(folder, "dtn", "bound", "five.ionrc", "1", "5", "--size", "16 MB").stdout
    # 16 MB leave 3 from 600 s on at 160 kB/s
    assert text.startswith("No protocol delivers 16 MB from 1 to 5 before 701 s.\n")
    assert "upper bound)" not in text


def test_equal_losses_are_named_together(folder: Path) -> None:
    text = route_text(folder, "five.ionrc", "1", "5", "--size", "1 MB")
    assert "The loss of line 2 (1 to 3) or line 4 (3 to 5) costs a delay of " in text


def test_messages_name_the_remedy(folder: Path) -> None:
    done = bentpipe(folder, "dtn", "route", "five.ionrc", "1", "5", "--at", "2026-11-22T12:00:00Z")
    assert 'the plan has no epoch; add a first line "@ 2026/11/22-12:00:00" to it' in done.stderr
    done = bentpipe(folder, "dtn", "route", "five.ionrc", "1", "7")
    assert 'TO: found "7", a node that no contact names; the plan knows 1, 2, 3, 4, 5' in done.stderr


@draw.composite
def plans(take: draw.DrawFn) -> str:
    """Return a plan of four nodes: one or two contacts of each direction, and ranges of 0 to 3 s."""
    lines = []
    for a in range(1, 5):
        for b in range(1, 5):
            times = sorted(take(draw.sets(draw.integers(0, 60), min_size=0, max_size=4))) if a != b else []
            for start, stop in zip(times[::2], times[1::2], strict=False):
                lines.append(
                    f"a contact +{start} +{stop} {a} {b} {take(draw.sampled_from([100, 1000, 3000]))}"
                )
            if a < b:
                lines.append(f"a range +0 +100 {a} {b} {take(draw.integers(0, 3))}")
    known = [f"a contact -1 -1 {node} {node} 0" for node in range(1, 5)]
    return "\n".join([*known, *lines]) + "\n"


@settings(max_examples=60, deadline=None)
@given(plans(), draw.integers(1, 200_000), draw.integers(0, 20), draw.booleans())
def test_no_arrival_is_after_its_contact_or_before_the_bound(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int, at: int, fragment: bool
) -> None:
    file = tmp_path_factory.getbasetemp() / "any-route.ionrc"
    file.write_text(text)
    plan = read(file)
    query = BundleQuery("1", "4", f"{at} s", f"{size} B", fragment=fragment)
    answer = ask(plan, query)
    arrival = earliest_arrival(answer)
    if arrival is None:
        return
    assert arrival.delivered_bytes + arrival.rest_bytes == size
    volumes: dict[str, float] = {}
    for hop in arrival.hops:
        assert hop["start_ns"] <= hop["first_ns"] <= hop["last_ns"] <= hop["stop_ns"]
        assert hop["arrival_ns"] <= hop["stop_ns"] + hop["owlt_ns"] + hop["margin_ns"]
        passed = (hop["last_ns"] - hop["first_ns"]) * hop["rate_bit_s"] / 8e9
        volumes[hop["declared_at"]] = volumes.get(hop["declared_at"], 0) + passed
    for contact in plan.spec["contacts"]:
        whole = (contact["stop_ns"] - contact["start_ns"]) * contact["rate_bit_s"] / 8e9
        assert volumes.get(contact["declared_at"], 0) <= whole * (1 + 1e-9)
    bound = curve(plan.spec, [("1", at * 10**9, size)], "4", {})
    assert bound.delivered(arrival.time_ns / 1e9) >= arrival.delivered_bytes - 1
