"""Contact plans and routes: every form of a plan, what is wrong with one, the page, decisions with their reasons."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from bentpipe.cli import console
from bentpipe.dtn.contact_plan import CheckedPlan, read
from bentpipe.dtn.export import as_ion, as_tables, write
from bentpipe.dtn.figures import figures
from bentpipe.dtn.summary import nodes
from bentpipe.scenario.errors import ScenarioError
from commands import bentpipe

ION = """# hops 1-6, 1-3, 3-6
@ 2026/11/22-12:00:00
a contact +0   +100 1 6 12500000
a contact +110 +300 1 6 12500000 0.9
a contact +0   +300 6 1 12500000
a contact +0   +300 1 3 12500000
a contact +0   +300 3 1 12500000
a contact +0   +300 3 6 12500000
a contact +0   +300 6 3 12500000
a range   +0   +300 1 6 1
a range   +0   +300 1 3 1
a range   +0   +200 3 6 2
a range   +50  +60  6 3 3
m horizon +0
"""

TOML = """title = "relay"
epoch = "2026-11-22T12:00:00Z"

[[contact]]
from = "moon"
to = "earth"
start = "10 s"
stop = "2026-11-22T12:01:40Z"
rate = "2 Mbit/s"
owlt = "1.28 s"
both = true

[[contact]]
from = "rover"
to = "moon"
stop = "50 s"
rate = "1 Mbit/s"
confidence = 0.8

[[range]]
from = "rover"
to = "moon"
owlt = "2 ms"

[[route]]
at = "earth"
via = "moon"
"""


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    (tmp_path / "a.ionrc").write_text(ION)
    (tmp_path / "b.toml").write_text(TOML)
    return tmp_path


def run_json(folder: Path, *words: str) -> dict[str, Any]:
    done = bentpipe(folder, "dtn", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(folder: Path, *words: str) -> str:
    done = bentpipe(folder, "dtn", *words)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_a_plan_of_ion(plans: Path) -> None:
    found = run_json(plans, "plan", "a.ionrc")
    assert (found["epoch"], found["nodes"]) == ("2026-11-22T12:00:00Z", ["1", "3", "6"])
    direct = next(one for one in found["pairs"] if (one["from"], one["to"]) == ("1", "6"))
    assert (direct["contacts"], direct["up_s"], direct["longest_gap_s"]) == (2, 290.0, 10.0)
    assert (direct["volume_bytes"], direct["rate_bit_s"]) == (290 * 12_500_000, [100_000_000] * 2)
    back = next(one for one in found["pairs"] if (one["from"], one["to"]) == ("6", "3"))
    assert back["owlt_s"] == [2.0, 3.0]
    warnings = [(" ".join(one["at"]), one["text"]) for one in found["warnings"]]
    assert warnings == [
        ("line 14", '"m horizon" does not describe contacts: ignored'),
        ("line 8", "3 to 6: no range from 200 s to 300 s, not used then"),
        ("line 9", "6 to 3: no range from 200 s to 300 s, not used then"),
    ]
    assert "warning: line 8: 3 to 6" in bentpipe(plans, "dtn", "plan", "a.ionrc").stdout


def test_a_plan_of_toml_and_the_same_of_json(plans: Path) -> None:
    found = run_json(plans, "plan", "b.toml")
    assert (found["contacts"], found["title"]) == (3, "relay")
    up = next(one for one in found["pairs"] if one["from"] == "moon")
    assert (up["first_s"], up["last_s"], up["owlt_s"]) == (10.0, 100.0, [1.28, 1.28])
    assert found["static_routes"] == [{"at": "earth", "to": None, "via": "moon"}]
    assert found["warnings"] == [{"at": ["line 13"], "text": "rover to moon: no return contact"}]
    (plans / "b.json").write_text(json.dumps(as_tables(read(plans / "b.toml"))))
    again = run_json(plans, "plan", "b.json")
    assert again["pairs"] == found["pairs"]
    assert again["warnings"][0]["at"] == ["contact[3]"]


@draw.composite
def contact_plans(take: draw.DrawFn) -> dict[str, Any]:
    """Tables of a plan that ION's commands can express: numbers of nodes, whole seconds, whole bytes."""
    pairs = draw.tuples(draw.integers(1, 5), draw.integers(1, 5)).filter(lambda pair: pair[0] < pair[1])
    contacts, ranges, last = [], [], 0
    for a, b in take(draw.lists(pairs, min_size=1, max_size=5, unique=True)):
        for one, other in ((a, b), (b, a)):
            times = sorted(take(draw.sets(draw.integers(0, 10_000), min_size=2, max_size=4)))
            times = times[: len(times) // 2 * 2]
            last = max(last, times[-1])
            for start, stop in zip(times[::2], times[1::2], strict=False):
                rate, sure = 8 * take(draw.integers(1, 10**9)), take(draw.sampled_from([1, 0.25, 0.9]))
                contacts.append({"from": one, "to": other, "start": f"{start} s", "stop": f"{stop} s",
                                 "rate": f"{rate} bit/s", "confidence": sure})  # fmt: skip
        ranges.append({"from": a, "to": b, "owlt": f"{take(draw.integers(0, 2000))} s"})
    for one in ranges:
        one["stop"] = f"{last} s"
    return {"epoch": "2026-11-22T12:00:00Z", "contact": contacts, "range": ranges}


def placeless(plan: CheckedPlan) -> list[dict[str, Any]]:
    """The contacts of a plan without their lines in the file."""
    return [
        {key: value for key, value in one.items() if key != "declared_at"} for one in plan.spec["contacts"]
    ]


@settings(max_examples=30)
@given(contact_plans())
def test_every_form_says_the_same(tables: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "first.json").write_text(json.dumps(tables))
        first = read(folder / "first.json")
        written = write(first, folder)
        assert [file.name for file in written] == ["plan.toml", "plan.json", "plan.ionrc"]
        for file in written:
            again = read(file)
            assert placeless(again) == placeless(first), file.name
            assert again.ranges == first.ranges, file.name
            assert as_tables(again).get("epoch") == tables["epoch"]
            assert nodes(again) == nodes(first)


def test_a_plan_beyond_ion_is_not_written_as_ion(plans: Path) -> None:
    # names and parts of a second are beyond ION's commands
    assert as_ion(read(plans / "b.toml")) is None
    text = 'contact = [{from = 1, to = 2, stop = "5 s", rate = "8 bit/s"}]\n'
    (plans / "c.toml").write_text(text + "range = [{from = 2, to = 1, owlt = '1 s'}]")
    assert (
        as_ion(read(plans / "c.toml")) == "a contact +0 +5 1 2 1\na range +0 +5 2 1 1\na range +0 +5 1 2 1\n"
    )
    (plans / "d.toml").write_text(text + "range = [{from = 1, to = 2, owlt = '1 s', one_way = true}]")
    assert as_ion(read(plans / "d.toml")) is None


def test_the_page_needs_no_network(plans: Path) -> None:
    assert bentpipe(plans, "dtn", "plan", "a.ionrc", "-o", "out").returncode == 0
    page = (plans / "out/plan.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)\s*=\s*"https?:', page)
    for part in (
        "Contacts over time",
        "One-way light time",
        "Contacts by pair",
        "no range from 200 s to 300 s",
    ):
        assert part in page, part
    run_json = page.replace("\u00a0", " ")
    # 290 of 300 s; 12.5 MB/s for 290 s or for 300 s
    assert (
        "Pairs are connected for 96.7 to 100 % of the time; the longest gap between two contacts is 10 s, 1 to 6.<"
        in run_json
    )
    assert "contact volume of a direction 3,625 to 3,750 MB; 3 warnings.<" in run_json
    for name in ("contacts.svg", "contacts.pdf", "light.svg", "light.pdf"):
        assert (plans / "out" / name).stat().st_size > 1000
    contacts, light = figures(read(plans / "a.ionrc"))
    # 1 and 3 are one row; 1 and 6 have other times, 3 and 6 other ranges
    assert contacts.rows == 6
    assert "Red: unused" in contacts.caption
    # 1 and 6, 1 and 3 are one constant line; 3 to 6 and back differ
    assert light.rows == 2 + 2 + 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a contcat +0 +1 1 2 3", 'line 1: found "a contcat", expected "a contact" or "a range"; did you mean "contact"?'),
        ("# x\na contact +5 +1 1 2 3", "line 2: found a stop that is no later than the start"),
        (
            "a contact +0 +9 1 2 3\na range +0 +9 1 2 1\na contact +5 +12 1 2 4",
            "line 1 and line 3: 1 to 2: contacts contradict each other from 5 s to 9 s: 24 and 32 bit/s",
        ),
        ("a range +0 +9 1 2 1\na range +3 +9 1 2 2", "line 1 and line 2: 1 to 2: ranges contradict each other"),
        ("# nothing", "has no contacts, expected some"),
        ("\n".join("x" for _ in range(50)), "and 30 more problems"),
    ],
)  # fmt: skip
def test_a_wrong_plan_of_ion_is_refused_by_its_lines(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "a.ionrc").write_text(text)
    assert expected in refused(tmp_path, "plan", "a.ionrc")


LOOPBACK = """a contact +1 +3600 1 1 100000
a contact +1 +3600 2 2 100000
a range +1 +3600 1 1 1
"""
"""As 150 of the 193 plans of nasa-jpl/ION-DTN begin."""


def test_a_node_with_itself_is_passed_over_with_a_note_and_known(tmp_path: Path) -> None:
    (tmp_path / "a.ionrc").write_text(LOOPBACK + "a contact +1 +3600 1 3 100000\na range +1 +3600 1 3 1\n")
    found = run_json(tmp_path, "plan", "a.ionrc")
    assert (found["nodes"], found["contacts"]) == (["1", "2", "3"], 1)
    warnings = [(one["at"], one["text"]) for one in found["warnings"]][:3]
    assert warnings == [
        (["line 1"], "a contact of node 1 with itself: ignored, the node is known"),
        (["line 2"], "a contact of node 2 with itself: ignored, the node is known"),
        (["line 3"], "a range of node 1 with itself: ignored, the node is known"),
    ]
    assert "no contacts lead from 1 to 2" in run_json(tmp_path, "route", "a.ionrc", "1", "2")["reason"]


@pytest.mark.parametrize("text", [LOOPBACK, "a contact -1 -1 1 1 0\na contact -1 -1 2 2 0\n"])
def test_a_plan_of_known_nodes_without_contacts_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ionrc").write_text(text)
    found = run_json(tmp_path, "plan", "a.ionrc", "--out", "o")
    assert (found["nodes"], found["contacts"], found["pairs"]) == (["1", "2"], 0, [])
    assert "The plan has no contact between two nodes." in (tmp_path / "o/plan.html").read_text()
    assert "2 nodes, 0 contacts of 0 pairs" in bentpipe(tmp_path, "dtn", "plan", "a.ionrc").stdout
    assert "delivers the bundle" in run_json(tmp_path, "route", "a.ionrc", "1", "1")["reason"]
    again = run_json(tmp_path, "plan", "o/plan.ionrc")
    assert again["nodes"] == ["1", "2"]


def test_a_date_and_a_time_after_the_reference_in_a_line(tmp_path: Path) -> None:
    """``configs/3node-ltp-brs`` of nasa-jpl/ION-DTN; ionrc(5): without ``@``, from when ionadmin begins."""
    line = "a contact +0 2009/01/01-00:00:00 5 7 10000\n"
    (tmp_path / "a.ionrc").write_text(line)
    found = run_json(tmp_path, "plan", "a.ionrc")
    assert (found["epoch"], found["start_s"], found["stop_s"]) == (None, 0, 3_155_760_000)
    assert "it lasts for a century" in found["warnings"][0]["text"]
    (tmp_path / "a.ionrc").write_text("@ 2008/12/31-23:00:00\n" + line)
    found = run_json(tmp_path, "plan", "a.ionrc")
    assert (found["epoch"], found["stop_s"]) == ("2008-12-31T23:00:00Z", 3600)


def test_confidence_that_leaves_no_contact_is_named(plans: Path) -> None:
    saved = run_json(plans, "route", "b.toml", "rover", "moon", "--confidence", "0.9")["reason"]
    assert saved == "contacts lead from rover to moon, but only over contacts with a confidence below 0.9"
    assert run_json(plans, "route", "b.toml", "rover", "moon", "--confidence", "0.8")["reason"] is None
    saved = run_json(plans, "route", "b.toml", "moon", "rover", "--confidence", "0.9")["reason"]
    assert saved.startswith("no contacts lead from moon to rover")


def test_a_long_plan_says_which_step_goes_on(
    plans: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal, on standard error; elsewhere nothing."""
    monkeypatch.setattr(console, "FIRST_S", 0.01)
    monkeypatch.setattr(console, "NEXT_S", 0.01)

    def slow(name: str) -> None:
        with console.steps() as step:
            step(name)
            end = time.monotonic() + 60
            while sys.stderr.isatty() and time.monotonic() < end and f"{name}: " not in printed_so_far():
                time.sleep(0.01)

    printed = ""

    def printed_so_far() -> str:
        nonlocal printed
        printed += capsys.readouterr().err
        return printed

    slow("reading a plan")
    assert printed_so_far() == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    slow("checking 1,000,000 contacts")
    assert re.match(r"(checking 1,000,000 contacts: 0 s\n)+$", printed_so_far())
    steps: list[str] = []
    read(plans / "a.ionrc", steps.append)
    assert steps == [f"reading {plans / 'a.ionrc'}", "checking 7 contacts"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("rate = ", "rtae = "), 'contact[1].rtae: no key "rtae"'),
        (('rate = "2 Mbit/s"', 'rate = "2 MB/s"'), 'did you mean "16 Mbit/s"?'),
        (('epoch = "2026-11-22T12:00:00Z"', ""), "contact[1].stop: found an instant, which needs the plan's epoch"),
        (("2026-11-22T12:01:40Z", "2026-11-22T11:01:40Z"), "which is before the plan's epoch"),
        (('from = "rover"\nto = "moon"\nstop', 'from = "ro ver"\nto = "moon"\nstop'), "its name without blanks"),
        (('stop = "50 s"', 'stop = "0 s"'), "line 13: found a stop of 0 s, expected one after the start, 0 s"),
        (("confidence = 0.8", "confidence = 1.5"), "contact[2].confidence: found 1.5, expected at most 1"),
        (("[[contact]]", "[contact"), "is not TOML"),
        (("both = true", "both = true\n[[contact]]\nfrom = 'earth'\nto = 'moon'\nstop = '20 s'\nrate = '1 Mbit/s'"),
         "line 12 and line 4: earth to moon: contacts contradict each other from 10 s to 20 s"),
    ],
)  # fmt: skip
def test_a_wrong_plan_of_toml_is_refused_by_its_keys(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    assert change[0] in TOML
    (tmp_path / "a.toml").write_text(TOML.replace(*change, 1))
    assert expected in refused(tmp_path, "plan", "a.toml")


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert "no.toml: no such file" in refused(tmp_path, "plan", "no.toml")
    (tmp_path / "a.ionrc").write_bytes(b"a contact \xff")
    assert "is not UTF-8" in refused(tmp_path, "plan", "a.ionrc")
    (tmp_path / "a.json").write_text("[1]")
    assert "expected a table" in refused(tmp_path, "plan", "a.json")
    for name, example in (("c.toml", "a table [[contact]]"), ("c.ionrc", '"a contact +0 +60 1 2 125000"')):
        (tmp_path / name).write_text("")
        assert f"{name}: has no contacts, expected some, such as {example}" in refused(tmp_path, "plan", name)
    (tmp_path / "b.json").write_text('{"contact": ' + "[" * 100_000)
    assert "is not JSON" in refused(tmp_path, "plan", "b.json")


def test_the_relay_is_taken_before_the_contact_closes_and_says_why(plans: Path) -> None:
    found = run_json(plans, "route", "a.ionrc", "1", "6", "--at", "99.99 s")
    assert (found["by"], found["consumption_bytes"]) == ("plan", 1_030_000)
    (one,) = found["forwarded"]
    assert (one["next"], one["route"]["nodes"]) == ("3", ["1", "3", "6"])
    first, second = one["route"]["contacts"]
    # 99.99 s, 82.4 ms at 100 Mbit/s, 1 s of light and 125/186,282 of it; then 2 s of light
    assert first["arrival_s"] == pytest.approx(99.99 + 0.0824 + 1 + 125 / 186_282, abs=2e-9)
    assert second["arrival_s"] == pytest.approx(
        first["arrival_s"] + 0.0824 + 2 * (1 + 125 / 186_282), abs=2e-9
    )
    direct = found["considered"][0]
    assert (direct["nodes"], direct["contacts"], direct["clause"]) == (["1", "6"], ["line 3"], "3.2.6.9 g")
    assert direct["reason"].startswith(
        "at most 125,000 B fit in 1 to 6 (line 3), and the bundle needs 1,030,000 B"
    )
    text = bentpipe(plans, "dtn", "route", "a.ionrc", "1", "6", "--at", "2026-11-22T12:01:39.99Z").stdout
    assert "To 3, computed route: 1 - 3 - 6, projected arrival at" in text
    assert "(3.2.6.9 g)" in text
    # a moment before, it still fits
    assert run_json(plans, "route", "a.ionrc", "1", "6", "--at", "99.9 s")["forwarded"][0]["next"] == "6"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--critical"], ["6", "3"]),
        (["--exclude", "6"], ["3"]),
        (["--received-from", "6"], ["3"]),
        (["--received-from", "6", "--return-to-sender"], ["6"]),
        (["--queued", "6=2 GB"], ["3"]),
        (["--queued", "6=2 GB:bulk"], ["6"]),
        (["--booked", "line 3=1.25 GB"], ["3"]),
        (["--booked", "line 3=1.25 GB", "--priority", "expedited"], ["6"]),
        (["--static", "6=3"], ["3"]),
        (["--static", "*=3"], ["6"]),
        (["--size", "3 GB", "--static", "*=3"], ["3"]),
        (["--size", "2 GB", "--fragment"], ["6"]),
        (["--at", "105 s"], ["3"]),
        (["--at", "105 s", "--confidence", "0.95", "--exclude", "3"], []),
        (["--lifetime", "500 ms"], []),
    ],
)  # fmt: skip
def test_the_request_decides(plans: Path, words: list[str], expected: list[str]) -> None:
    found = run_json(plans, "route", "a.ionrc", "1", "6", *words)
    assert [one["next"] for one in found["forwarded"]] == expected
    assert (found["reason"] is None) == bool(expected)
    assert bentpipe(plans, "dtn", "route", "a.ionrc", "1", "6", *words).returncode == 0


def test_a_next_hop_of_the_plan_and_a_node_that_is_its_own_end(plans: Path) -> None:
    found = run_json(plans, "route", "b.toml", "earth", "rover")
    assert (found["by"], found["forwarded"][0]["next"]) == ("static", "moon")
    text = bentpipe(plans, "dtn", "route", "b.toml", "earth", "rover", "--at", "200 s").stdout
    assert "To moon, static route: no contact can carry the bundle; the bundle stays queued" in text
    assert (
        "The bundle stays at moon: no contacts lead from moon to rover"
        in bentpipe(plans, "dtn", "route", "b.toml", "moon", "rover").stdout
    )
    assert "delivers the bundle" in run_json(plans, "route", "b.toml", "moon", "moon")["reason"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["1", "7"], 'TO: found "7", a node that no contact names'),
        (["mon", "earth"], 'FROM: found "mon", a node that no contact names; did you mean "moon"?'),
        (["moon", "earth", "--at", "5"], '--at: found "5" without a unit'),
        (
            ["moon", "earth", "--at", "2026-11-22T11:00:00Z"],
            "--at: found 2026-11-22T11:00:00Z, which is before",
        ),
        (
            ["moon", "earth", "--priority", "normale"],
            '--priority: no priority "normale", expected one of: bulk, normal',
        ),
        (["moon", "earth", "--queued", "earth"], '--queued: found "earth", expected a size after "="'),
        (["moon", "earth", "--queued", "earth=1"], "--queued: found"),
        (
            ["moon", "earth", "--booked", "line 5=1 MB"],
            '--booked: found "line 5", expected the location of a contact, such as',
        ),
        (["moon", "earth", "--static", "earth"], "--static: found"),
        (["moon", "earth", "--exclude", "mars"], '--exclude: found "mars"'),
        (["moon", "earth", "--received-from", "mars"], '--received-from: found "mars"'),
        (["moon", "earth", "--received-from", "rover", "--exclude", "mars"], '--exclude: found "mars"'),
        (["moon", "earth", "--confidence", "2"], "--confidence: found 2.0, expected 0 to 1"),
    ],
)
def test_a_wrong_question_is_refused_by_its_option(plans: Path, words: list[str], expected: str) -> None:
    plan = "a.ionrc" if words[0] == "1" else "b.toml"
    assert expected in refused(plans, "route", plan, *words)


def test_the_schema_names_every_key(tmp_path: Path) -> None:
    done = bentpipe(tmp_path, "dtn", "schema")
    schema = json.loads(done.stdout)
    contact = schema["$defs"]["PlannedContact"]
    assert set(contact["properties"]) == {"from", "to", "start", "stop", "rate", "owlt", "confidence", "both"}
    assert set(contact["required"]) == {"from", "to", "stop", "rate"}
    assert set(schema["properties"]) == {"title", "epoch", "contact", "range", "route"}


def test_the_plan_of_a_constellation(tmp_path: Path) -> None:
    words = ["-c", "iridium", "--duration", "30 min", "--step", "10 s"]
    found = run_json(tmp_path, "passes", "Toulouse", "Lima", *words, "--out", "a.toml")
    assert found["contacts"] > 100
    assert all(one["passes"] > 0 for one in found["places"])
    plan = read(tmp_path / "a.toml")
    names = {one["from"] for one in plan.spec["contacts"]}
    assert {"Toulouse", "Lima", "sat-0"} <= names
    # no contact is without a range, and each has one back
    assert plan.warnings == ()
    light = [owlt / 1e6 for pair in plan.ranges.values() for _, _, owlt in pair]
    # 780 km above the ground, 14.4 degrees of arc to the next one in its plane
    assert min(light) >= 2.6
    assert max(light) < 20
    rates = {
        (one["from"] == "Toulouse", one["to"] == "Toulouse"): one["rate_bit_s"]
        for one in plan.spec["contacts"]
    }
    assert (rates[True, False], rates[False, True]) == (10_000_000, 100_000_000)
    decided = run_json(tmp_path, "route", "a.toml", "Toulouse", "Lima", "--at", "5 min", "--size", "10 kB")
    (one,) = decided["forwarded"]
    nodes = one["route"]["nodes"]
    assert (nodes[0], nodes[-1]) == ("Toulouse", "Lima")
    assert all(node.startswith("sat-") for node in nodes[1:-1])
    # light over the ground takes 33 ms
    assert one["route"]["projected_s"] - 300 > 0.033


def test_passes_over_one_place_without_links_and_what_is_wrong(tmp_path: Path) -> None:
    words = ["-c", "iridium", "--links", "bent-pipe", "--step", "20 s", "--duration", "20 min"]
    found = run_json(
        tmp_path, "passes", "Toulouse", *words, "--up", "1 Mbit/s", "--down", "1 Mbit/s", "-o", "b.json"
    )
    (place,) = found["places"]
    assert found["contacts"] == 2 * place["passes"] > 0
    assert found["links"] == 0
    for wrong, expected in (
        (["-o", "plan.ionrc"], '--out: found "plan.ionrc", expected a name that ends with .toml or .json'),
        (["-o", "a.toml", "--up", "1"], "--up: found"),
        (["-o", "a.toml", "--step", "0 s"], "step: found"),
        (["-o", "a.toml", "-c", "iridum"], 'did you mean "iridium"?'),
        (
            ["-o", "a.toml", "--elevation", "89 deg", "--duration", "1 min", "--links", "bent-pipe"],
            "no contacts",
        ),
    ):
        assert expected in refused(tmp_path, "passes", "Toulouse", *wrong), wrong


def test_places_in_the_south_have_passes(tmp_path: Path) -> None:
    words = ["--duration", "10 min", "--step", "10 s", "--links", "bent-pipe", "-o", "b.toml"]
    found = run_json(tmp_path, "passes", "-12.05,-77.05", "Toulouse", *words)
    assert [place["place"] for place in found["places"]] == ["-12.05,-77.05", "Toulouse"]
    assert all(place["passes"] > 0 for place in found["places"])
    assert read(tmp_path / "b.toml").spec["contacts"]


def test_a_plan_is_not_written_over_itself(plans: Path) -> None:
    (plans / "plan.toml").write_text(f"# mine\n{TOML}")
    assert "--out: plan.toml exists; choose another directory" in refused(
        plans, "plan", "plan.toml", "-o", "."
    )
    assert (plans / "plan.toml").read_text() == f"# mine\n{TOML}"
    assert "--out: b.toml is a file, expected a folder" in refused(plans, "plan", "plan.toml", "-o", "b.toml")


@settings(deadline=None)
@given(draw.text(max_size=200))
def test_any_text_is_a_plan_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name in ("any.ionrc", "any.toml", "any.json"):
        (folder / name).write_text(text, encoding="utf-8")
        with pytest.raises(ScenarioError):
            read(folder / name)
