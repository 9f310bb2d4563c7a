"""``bentpipe compare-engines``: verdicts on differences, both stores side by side, and the short form over real sockets."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import commands
import realtime
from bentpipe.engine_validation import compare_engines
from bentpipe.engine_validation.bounds import verdict
from bentpipe.engine_validation.run_both import plan_engines, run_both
from bentpipe.engine_validation.summary_table import Part, markdown
from bentpipe.metrics.compare import Equivalence
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.randomness import is_path_stochastic
from bentpipe.runners import engine
from bentpipe.store.journal import host_summary
from store_edit import put
from synthetic_pages import page_store

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("fake_lab.py")
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
direction = "down"
load = { bytes = "2 MB" }
[sweep]
"flow.q.congestion" = ["cubic", "newreno"]
"""


@pytest.mark.parametrize(
    ("metric", "differences", "answer"),
    [
        # of 10 Mbit/s and 5 %; the interval of two values reaches 12.7 / sqrt(2) of their deviation to each side
        ("goodput_bit_s", [0.40e6, 0.41e6], Equivalence.WITHIN),
        ("goodput_bit_s", [0.40e6, 0.45e6], Equivalence.UNDECIDED),
        ("goodput_bit_s", [-0.60e6, -0.61e6], Equivalence.EXCEEDED),
        ("goodput_bit_s", [2e6, -2e6], Equivalence.UNDECIDED),
        ("goodput_bit_s", [0.9e6, 1.1e6, 1.0e6], Equivalence.EXCEEDED),
        ("goodput_bit_s", [3e6, -1e6, 1e6], Equivalence.UNDECIDED),
        ("goodput_bit_s", [0.0], Equivalence.UNDECIDED),
        ("goodput_bit_s", [0.0, 0.0], Equivalence.WITHIN),
        ("ttr_s", [0.0235, 0.0236], Equivalence.WITHIN),
        ("ttr_s", [0.0265, 0.0266], Equivalence.EXCEEDED),
        ("loads_finished", [0.0, 0.0], Equivalence.WITHIN),
        ("loads_finished", [-0.5, -0.5], Equivalence.EXCEEDED),
        ("cwnd_max_bytes", [1e9, 1e9], Equivalence.UNBOUNDED),
    ],
)
def test_a_difference_is_judged_by_its_whole_interval(
    metric: str, differences: list[float], answer: Equivalence
) -> None:
    assert verdict(metric, 10e6, differences) is answer
    assert verdict(metric, 10e6, [-one for one in differences]) is answer, "either way"


def test_noise_is_no_agreement() -> None:
    """Two clocks that are 8 % apart, with seeds that differ by 20 %: an interval that holds 0 was agreement."""
    rng = np.random.Generator(np.random.PCG64(1))
    verdicts = [verdict("goodput_bit_s", 10e6, row) for row in rng.normal(0.8e6, 2e6, (1000, 5)).tolist()]
    assert verdicts.count(Equivalence.WITHIN) / 1000 < 0.025
    assert verdicts.count(Equivalence.UNDECIDED) / 1000 > 0.9


def test_clocks_at_the_bound_agree_in_2_5_percent() -> None:
    """The two one-sided tests of an equivalence, each at 2.5 %."""
    rng = np.random.Generator(np.random.PCG64(2))
    verdicts = [verdict("goodput_bit_s", 10e6, row) for row in rng.normal(0.5e6, 0.05e6, (5000, 10)).tolist()]
    for answer in (Equivalence.WITHIN, Equivalence.EXCEEDED):
        assert verdicts.count(answer) / 5000 == pytest.approx(0.025, abs=0.007)


def test_a_page_may_be_late_by_50_ms_or_3_percent() -> None:
    for simulated, late, answer in (
        (1.0, 0.0485, Equivalence.WITHIN), (1.0, 0.0515, Equivalence.EXCEEDED), (4.0, 0.118, Equivalence.WITHIN),
    ):  # fmt: skip
        assert verdict("plt_s", simulated, [late, late + 1e-5]) is answer


@pytest.mark.parametrize(
    ("change", "seeds"),
    [
        ({}, 1),
        ({"loss": "1 %"}, 3),
        ({"loss": "100 %"}, 1),
        ({"loss": {"gilbert_elliott": {"good_to_bad": "1 %", "bad_to_good": "50 %"}}}, 3),
        ({"loss": {"burst": {"interval": "2 s", "duration": "20 ms"}}}, 1),
        ({"changes": [{"at": "1 s", "loss": "1 %"}]}, 3),
        ({"jitter": {"uniform": "5 ms", "reorder": False}}, 3),
        ({"reorder": {"probability": "1 %", "delay": "5 ms"}}, 3),
    ],
)
def test_a_plan_has_as_many_seeds_as_its_chance_takes(change: dict[str, Any], seeds: int) -> None:
    """Bursts of loss come at set instants: one simulated seed."""
    data = {key: value for key, value in tomllib.loads(SCENARIO).items() if key != "sweep"}
    data["path"]["segment"][0]["down"] = {"rate": "10 Mbit/s"} | change
    data["flow"][0]["transport"] = "tcp"
    plan = build_plan(load_scenario(data), "test", seeds=(1, 2, 3), catalogue=engine.catalogue())
    assert len(plan.runs) == seeds
    assert is_path_stochastic(plan.runs[0].spec["graph"]) is (seeds > 1)


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
    both = plan_engines(scenario, tmp_path / "store")
    run_both(both)
    found = compare_engines(*both.stores)
    rows = {(row.congestion, row.metric.name): row for row in found.rows}
    goodput = rows["cubic", "goodput_bit_s"]
    # the stand-in moves 2 MB at 8 Mbit/s after a round trip of 40 ms
    assert goodput.real.estimate == pytest.approx(16e6 / (2.0 + 0.04), rel=1e-3)
    assert goodput.real.n == 2
    assert goodput.simulated.estimate > goodput.real.estimate
    assert goodput.difference.estimate == pytest.approx(
        goodput.real.estimate / goodput.simulated.estimate - 1, rel=1e-9
    )
    assert goodput.verdict is Equivalence.EXCEEDED
    assert found.exceeded
    assert rows["newreno", "rtt_min_ms"].verdict is Equivalence.UNBOUNDED
    text = markdown([Part("one", found)], {"title": "T", "why": {"one": "A stand-in."}})
    assert text.startswith("# T\n")
    assert "0 of 2 metrics are within their bounds; 2 exceeded." in text
    assert "| cubic | goodput Mbit/s | 2 / 2 |" in text
    assert "A stand-in." in text
    # the same command resumes: nothing is run again
    assert [report.done for report in run_both(both)] == [0, 0]


def agree(*words: str, where: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return commands.bentpipe(where, "compare-engines", *words, environment={**os.environ, **variables})


def test_the_exit_status_says_whether_all_agrees(program: Path, scenario: Path, tmp_path: Path) -> None:
    simulated = 9.05e6  # what the simulation has of it, about
    near = agree(str(scenario), "--seeds", "2", "--json", "--report", "both.html", "--out", "a", where=tmp_path,
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
    assert "In emulation: 4 valid runs" in page
    single = agree(str(scenario), "--seeds", "1", "--out", "s", where=tmp_path, RATE=f"{simulated:g}")
    assert single.returncode == 1, "one seed has no interval"
    assert "2 metrics undecided; more seeds (--seeds N) narrow the intervals" in single.stdout
    far = agree(str(scenario), "--seeds", "2", "--out", "b", where=tmp_path, RATE="4e6")
    assert far.returncode == 1
    assert "exceeded" in far.stdout
    late = agree(str(scenario), "--seeds", "1", "--out", "c", where=tmp_path, BEHAVIOUR="late")
    assert late.returncode == 1
    assert late.stderr.startswith("invalid: ")
    assert "the emulator missed its deadlines in all 3 attempts" in late.stderr
    assert "error:" not in late.stderr


def test_a_folder_is_a_standing_table(program: Path, scenario: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    scenario.rename(folder / "first.toml")
    (folder / "notes.toml").write_text('title = "Both clocks"\nintro = "As measured."\n')
    done = agree(str(folder), "--seeds", "2", "--summary", "table.md", where=tmp_path, RATE="9.05e6")
    assert done.returncode == 0, done.stdout + done.stderr
    table = (tmp_path / "table.md").read_text()
    assert table.startswith("# Both clocks\n\nAs measured.\n\n2 of 2 metrics are within their bounds.")
    words = ("--no-run", "--archive", "stores.tar.xz")
    archives = []
    for _ in range(2):
        agree(str(folder), *words, where=tmp_path)
        archives.append((tmp_path / "stores.tar.xz").read_bytes())
    assert archives[0] == archives[1]
    elsewhere = tmp_path / "elsewhere"
    with tarfile.open(tmp_path / "stores.tar.xz") as archive:
        assert {name.split("/")[0] for name in archive.getnames()} == {"first", "first-emu"}
        archive.extractall(elsewhere, filter="data")
    agree(str(folder), "--no-run", "--out", str(elsewhere), "--summary", "again.md", where=tmp_path)
    assert (tmp_path / "again.md").read_text() == table
    late = agree(
        str(folder), "--seeds", "1", "--out", "l", "--summary", "l.md", where=tmp_path, BEHAVIOUR="late"
    )
    assert late.returncode == 1
    assert late.stderr.startswith("invalid: ")
    assert "## first\n\n2 runs invalid: the emulator missed its deadlines" in (tmp_path / "l.md").read_text()
    shutil.rmtree(tmp_path / "l")
    for text in ("title = ", "title = " + "[" * 5000):
        (folder / "notes.toml").write_text(text)
        none = agree(str(folder), "--seeds", "1", "--out", "l", where=tmp_path)
        assert none.returncode == 2
        assert none.stderr.startswith(f"error: {folder / 'notes.toml'}: is not TOML: ")
        assert none.stderr.count("\n") == 1
        assert not (tmp_path / "l").exists()
    empty = tmp_path / "empty"
    empty.mkdir()
    none = agree(str(empty), where=tmp_path)
    assert none.returncode == 2
    assert "holds no scenario" in none.stderr


def test_loads_of_one_run_are_one_value(synthetic: ModuleType, tmp_path: Path) -> None:
    simulated = page_store(tmp_path / "a", synthetic, seeds=4, packets=False, arms=("2",))
    real = Path(shutil.copytree(simulated, tmp_path / "b"))
    rows = {row.metric.name: row for row in compare_engines(simulated, real).rows}
    assert (rows["plt_s"].real.n, rows["plt_s"].verdict) == (4, Equivalence.WITHIN)
    assert "loads_finished" not in rows, "all of them, on both clocks"
    for file in real.glob("runs/*/pages.parquet"):
        one = pl.col("load") == pl.col("load").max()
        pl.read_parquet(file).with_columns(completed=(~one).cast(pl.Int64)).pipe(put, file)
    rows = {row.metric.name: row for row in compare_engines(simulated, real).rows}
    assert rows["loads_finished"].verdict is Equivalence.EXCEEDED


@pytest.mark.parametrize("turned", [False, True])
def test_a_clock_that_delivers_nothing_does_not_agree(
    synthetic: ModuleType, tmp_path: Path, turned: bool
) -> None:
    """The flow's direction has no row there: in the other one went a request."""
    shares = [(5.0, 4.0), (5.3, 3.8), (4.9, 4.2)]
    whole, silent = (synthetic.pair_store(tmp_path / name, shares) for name in ("a", "b"))
    for file in silent.glob("runs/*/flow_summary.parquet"):
        first, client = pl.col("flow") == "first", pl.col("side") == "client"
        written = pl.when(first).then(pl.when(client).then(0).otherwise(8)).otherwise("written_bytes")
        came = pl.when(first).then(pl.when(client).then(8).otherwise(0)).otherwise("received_in_order_bytes")
        pl.read_parquet(file).with_columns(
            written_bytes=written.cast(pl.Int64), received_in_order_bytes=came.cast(pl.Int64)
        ).pipe(put, file)
    found = compare_engines(*((silent, whole) if turned else (whole, silent)))
    goodput = {row.flow: row for row in found.rows if row.metric.name == "goodput_bit_s"}
    assert (goodput["first"].direction, goodput["first"].verdict) == ("up", Equivalence.EXCEEDED)
    assert goodput["second"].verdict is Equivalence.WITHIN
    assert goodput["first"].apart == ("+∞ %" if turned else "-100 ± 10 %")
    assert found.exceeded


@pytest.mark.nightly
def test_the_published_table_is_what_its_stores_say(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    with tarfile.open(root / "docs/validation.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    table = tmp_path / "table.md"
    done = agree("studies/agreement", "--no-run", "--out", str(tmp_path), "--summary", str(table), where=root)
    assert done.stderr == ""
    assert table.read_text() == (root / "docs/validation.md").read_text()


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
direction = "down"
load = { bytes = "3 MB" }
[sweep]
stack = [
  { "flow.f.transport" = "quic", "flow.f.congestion" = "newreno" },
  { "flow.f.transport" = "quic", "flow.f.congestion" = "bbr3" },
  { "flow.f.transport" = "tcp", "flow.f.congestion" = { name = "cubic", slow_start_exit = "classic", avoidance = "linux" } },
]
"""


@pytest.mark.lab
@pytest.mark.nightly
def test_three_cells_agree_over_real_sockets(tmp_path: Path) -> None:
    realtime.need_namespaces()
    lab = realtime.program()
    file = tmp_path / "short.toml"
    file.write_text(SHORT)
    with realtime.resting() as at_rest:
        words = ["--seeds", "3", "--jobs", "1", "--json", "--out", "store"]
        done = agree(str(file), *words, where=tmp_path, BENTPIPE_RT=str(lab))
        rested = at_rest()
    # The runner tries each run three times.
    if "too late" in done.stderr or (done.returncode == 1 and not rested):
        realtime.give_up(done.stderr[-400:])
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    goodput = [row for row in found["rows"] if row["metric"] == "goodput_bit_s"]
    assert len(goodput) == 3
    assert not found["exceeded"], json.dumps(goodput, indent=1)
    assert all(abs(row["difference"]["mean"]) < 0.05 for row in goodput), json.dumps(goodput, indent=1)
    assert done.returncode == (1 if found["undecided"] else 0)
    least = [row for row in found["rows"] if row["metric"] == "rtt_min_ms"]
    assert all(abs(row["difference"]["mean"]) < 2 for row in least)
    assert "valid runs" in host_summary(tmp_path / "store-emu")
