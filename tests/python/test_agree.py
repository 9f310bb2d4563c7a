"""``bentpipe agree``: verdicts on differences, both stores side by side, and the short form over real sockets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

import commands
import realtime
from bentpipe.agree import Verdict, agreement
from bentpipe.agree.both import planned, run_both
from bentpipe.agree.standing import Part, markdown
from bentpipe.agree.tolerance import Kind, kind, verdict
from bentpipe.plan.document import open_document
from bentpipe.plan.runs import make
from bentpipe.runners import engine
from bentpipe.store.journal import machine

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("standin_lab.py")
SCENARIO = """
duration = "6 s"
seeds = 2
[[path.segment]]
name = "satellite"
delay = "20 ms"
both = { rate = "10 Mbit/s", queue = "1 BDP" }
[[flow]]
name = "q"
congestion = "cubic"
send = "down"
load = { bytes = "2 MB" }
[sweep]
"flow.q.congestion" = ["cubic", "newreno"]
"""


@pytest.mark.parametrize(
    ("metric", "which", "differences", "answer"),
    [
        ("goodput_bit_s", Kind.SINGLE, [0.4e6, 0.5e6], Verdict.WITHIN),
        ("goodput_bit_s", Kind.SINGLE, [-0.51e6], Verdict.EXCEEDED),
        ("goodput_bit_s", Kind.SINGLE, [2e6, -2e6], Verdict.WITHIN),
        ("goodput_bit_s", Kind.CHANCE, [0.9e6, 1.1e6, 1.0e6], Verdict.EXCEEDED),
        ("goodput_bit_s", Kind.CHANCE, [3e6, -1e6, 1e6], Verdict.WITHIN),
        ("goodput_bit_s", Kind.CHANCE, [0.9e6], Verdict.UNDECIDED),
        ("goodput_bit_s", Kind.CHANCE, [0.4e6], Verdict.WITHIN),
        ("ttr_s", Kind.SINGLE, [0.024], Verdict.WITHIN),
        ("ttr_s", Kind.SINGLE, [0.026], Verdict.EXCEEDED),
        ("largest_cwnd_bytes", Kind.SINGLE, [1e9], Verdict.SHOWN),
    ],
)
def test_a_difference_is_judged(metric: str, which: Kind, differences: list[float], answer: Verdict) -> None:
    assert verdict(metric, which, 10e6, differences) is answer


def test_a_page_may_be_late_by_50_ms_or_3_percent() -> None:
    assert verdict("plt_s", Kind.SINGLE, 1.0, [0.049]) is Verdict.WITHIN
    assert verdict("plt_s", Kind.SINGLE, 1.0, [0.051]) is Verdict.EXCEEDED
    assert verdict("plt_s", Kind.SINGLE, 4.0, [0.119]) is Verdict.WITHIN


@pytest.mark.parametrize(
    ("change", "seeds", "what"),
    [
        ({}, 1, Kind.SINGLE),
        ({"loss": "1 %"}, 3, Kind.CHANCE),
        ({"loss": "100 %"}, 1, Kind.SINGLE),
        ({"loss": {"gilbert_elliott": {"good_to_bad": "1 %", "bad_to_good": "50 %"}}}, 3, Kind.CHANCE),
        ({"loss": {"burst": {"every": "2 s", "length": "20 ms"}}}, 1, Kind.SINGLE),
        ({"changes": [{"at": "1 s", "loss": "1 %"}]}, 3, Kind.CHANCE),
        ({"jitter": {"uniform": "5 ms", "reorder": False}}, 3, Kind.CHANCE),
        ({"reorder": {"probability": "1 %", "hold": "5 ms"}}, 3, Kind.CHANCE),
    ],
)
def test_plans_and_bounds_have_one_idea_of_chance(change: dict[str, Any], seeds: int, what: Kind) -> None:
    """Bursts of loss come at set instants: one simulated seed, and no interval in place of a bound."""
    data = {key: value for key, value in tomllib.loads(SCENARIO).items() if key != "sweep"}
    data["path"]["segment"][0]["down"] = {"rate": "10 Mbit/s"} | change
    plan = make(open_document(data), "test", seeds=(1, 2, 3), catalogue=engine.catalogue())
    assert len(plan.runs) == seeds
    assert kind(plan.runs[0].spec) is what


def test_a_controllers_chance_is_no_excuse() -> None:
    """BBR draws when it probes: seeds differ, and their mean is judged as without."""
    data = {key: value for key, value in tomllib.loads(SCENARIO).items() if key != "sweep"}
    data["flow"][0]["congestion"] = "bbr1"
    plan = make(open_document(data), "test", seeds=(1, 2, 3), catalogue=engine.catalogue())
    assert len(plan.runs) == 3
    assert kind(plan.runs[0].spec) is Kind.SINGLE
    data["flow"].append(data["flow"][0] | {"name": "other"})
    plan = make(open_document(data), "test", catalogue=engine.catalogue())
    assert kind(plan.runs[0].spec) is Kind.CHANCE


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "bentpipe-rt"
    file.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    file.chmod(0o755)
    monkeypatch.setenv("BENTPIPE_RT", str(file))
    return file


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO)
    return file


def test_both_stores_side_by_side(
    program: Path, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATE", "8e6")
    both = planned(scenario, tmp_path / "store")
    run_both(both)
    found = agreement(*both.stores)
    rows = {(row.congestion, row.metric.name): row for row in found.rows}
    goodput = rows["cubic", "goodput_bit_s"]
    # the stand-in moves 2 MB at 8 Mbit/s after a round trip of 40 ms
    assert goodput.real.estimate == pytest.approx(16e6 / (2.0 + 0.04), rel=1e-3)
    assert goodput.real.n == 2
    assert goodput.simulated.estimate > goodput.real.estimate
    assert goodput.difference.estimate == pytest.approx(
        goodput.real.estimate / goodput.simulated.estimate - 1, rel=1e-9
    )
    assert goodput.verdict is Verdict.EXCEEDED
    assert found.exceeded
    assert rows["newreno", "least_rtt_ms"].verdict is Verdict.SHOWN
    text = markdown([Part("one", found)], {"title": "T", "why": {"one": "A stand-in."}})
    assert text.startswith("# T\n")
    assert "0 of 2 numbers are within their bounds." in text
    assert "| cubic | goodput Mbit/s | 1 / 2 |" in text
    assert "A stand-in." in text
    # the same command resumes: nothing is run again
    assert [report.done for report in run_both(both)] == [0, 0]


def agree(*words: str, where: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return commands.bentpipe(where, "agree", *words, environment={**os.environ, **variables})


def test_the_exit_status_says_whether_a_bound_is_exceeded(
    program: Path, scenario: Path, tmp_path: Path
) -> None:
    simulated = 9.05e6  # what the simulation has of it, about
    near = agree(str(scenario), "--seeds", "1", "--json", "--page", "both.html", "--out", "a", where=tmp_path,
                 RATE=f"{simulated:g}")  # fmt: skip
    rows: list[dict[str, Any]] = json.loads(near.stdout)["rows"]
    apart = [row["difference"]["mean"] for row in rows if row["metric"] == "goodput_bit_s"]
    assert all(abs(value) < 0.05 for value in apart), near.stdout
    assert near.returncode == 0
    page = (tmp_path / "both.html").read_text()
    keys = re.findall(r'data-key="([^"]+)"', page)
    assert len(keys) == 2
    assert all(f'id="spec-{key}-0"' in page for key in keys)
    assert 'class="within">within</abbr>' in page
    assert "In real time: 2 valid runs" in page
    far = agree(str(scenario), "--seeds", "1", "--out", "b", where=tmp_path, RATE="4e6")
    assert far.returncode == 1
    assert "exceeded" in far.stdout
    late = agree(str(scenario), "--seeds", "1", "--out", "c", where=tmp_path, BEHAVIOUR="late")
    assert late.returncode == 1
    assert late.stderr.startswith("late: ")
    assert "the machine was too late in each of 3 attempts" in late.stderr
    assert "error:" not in late.stderr


def test_a_folder_is_a_standing_table(program: Path, scenario: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    scenario.rename(folder / "first.toml")
    (folder / "notes.toml").write_text('title = "Both clocks"\nintro = "As measured."\n')
    done = agree(str(folder), "--seeds", "1", "--table", "table.md", where=tmp_path, RATE="9.05e6")
    assert done.returncode == 0, done.stdout + done.stderr
    table = (tmp_path / "table.md").read_text()
    assert table.startswith("# Both clocks\n\nAs measured.\n\n2 of 2 numbers are within their bounds.")
    words = ("--as-is", "--publish", "stores.tar.xz")
    archives = []
    for _ in range(2):
        agree(str(folder), *words, where=tmp_path)
        archives.append((tmp_path / "stores.tar.xz").read_bytes())
    assert archives[0] == archives[1]
    elsewhere = tmp_path / "elsewhere"
    with tarfile.open(tmp_path / "stores.tar.xz") as archive:
        assert {name.split("/")[0] for name in archive.getnames()} == {"first", "first-emu"}
        archive.extractall(elsewhere, filter="data")
    agree(str(folder), "--as-is", "--out", str(elsewhere), "--table", "again.md", where=tmp_path)
    assert (tmp_path / "again.md").read_text() == table
    late = agree(
        str(folder), "--seeds", "1", "--out", "l", "--table", "l.md", where=tmp_path, BEHAVIOUR="late"
    )
    assert late.returncode == 1
    assert late.stderr.startswith("late: ")
    assert "## first\n\n2 runs late: the machine was too late" in (tmp_path / "l.md").read_text()
    empty = tmp_path / "empty"
    empty.mkdir()
    none = agree(str(empty), where=tmp_path)
    assert none.returncode == 2
    assert "holds no scenario" in none.stderr


def test_the_published_table_is_what_its_stores_say(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    with tarfile.open(root / "docs/agreement.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    table = tmp_path / "table.md"
    done = agree("studies/agreement", "--as-is", "--out", str(tmp_path), "--table", str(table), where=root)
    assert done.stderr == ""
    assert table.read_text() == (root / "docs/agreement.md").read_text()


# --- over real sockets ----------------------------------------------------------------------------------------

SHORT = """
duration = "8 s"
[[path.segment]]
name = "satellite"
delay = "30 ms"
down = { rate = "8 Mbit/s", queue = "1 BDP" }
up = { rate = "4 Mbit/s", queue = "1 BDP" }
[[flow]]
name = "f"
congestion = "newreno"
send = "down"
load = { bytes = "3 MB" }
[sweep]
stack = [
  { "flow.f.transport" = "quic", "flow.f.congestion" = "newreno" },
  { "flow.f.transport" = "quic", "flow.f.congestion" = "bbr3" },
  { "flow.f.transport" = "tcp", "flow.f.congestion" = { name = "cubic", slow_start_exit = "classic", avoidance = "linux" } },
]
"""


def test_three_cells_agree_over_real_sockets(tmp_path: Path) -> None:
    realtime.need_namespaces()
    lab = realtime.program()
    file = tmp_path / "short.toml"
    file.write_text(SHORT)
    began = time.monotonic()
    with realtime.resting() as at_rest:
        done = agree(
            str(file), "--jobs", "1", "--json", "--out", "store", where=tmp_path, BENTPIPE_RT=str(lab)
        )
        rested, took = at_rest(), time.monotonic() - began
    # The runner tries each run three times.
    if "too late" in done.stderr or ((done.returncode == 1 or took >= 240) and not rested):
        realtime.give_up(f"{took:.0f} s, {done.stderr[-400:]}")
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    goodput = [row for row in found["rows"] if row["metric"] == "goodput_bit_s"]
    assert len(goodput) == 3
    assert done.returncode == 0, json.dumps(goodput, indent=1)
    least = [row for row in found["rows"] if row["metric"] == "least_rtt_ms"]
    assert all(abs(row["difference"]["mean"]) < 2 for row in least)
    assert "valid runs" in machine(tmp_path / "store-emu")
    assert took < 240
