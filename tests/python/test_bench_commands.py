"""Tests of ``python -m benchmarks cli-latency``: it measures commands that have an effect."""

from __future__ import annotations

from pathlib import Path

import pytest

import bentpipe
import realtime
from benchmarks import channel, cli_latency, orbits, shell_latency
from benchmarks.cli_latency import Case, CommandError
from benchmarks.large_store import grow
from bentpipe.lab.access import resolve_path
from bentpipe.lab.path_check_cache import save_check
from bentpipe.lab.process_plans import LabPlan as Session
from bentpipe.metrics.summary_table import summary_rows
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.runners import engine
from bentpipe.store.packing import pack
from bentpipe.store.reader import Store

GEO = Path(__file__).parents[2] / "scenarios" / "geo.toml"


def plan(folder: Path, name: str) -> Plan:
    (folder / name).write_text(cli_latency.SCENARIOS[name])
    return build_plan(load_scenario(folder / name), "1")


def test_scenarios_are_what_they_are_called(tmp_path: Path) -> None:
    store, demo = plan(tmp_path, "store.toml"), build_plan(load_scenario(GEO), "1")
    assert [run.id for run in store.runs] == [run.id for run in demo.runs]
    many = plan(tmp_path, "many.toml")
    assert {run.spec["duration_ns"] for run in many.runs} == {10**9}
    assert len(many.runs) == 300
    assert len(plan(tmp_path, "short.toml").runs) == 1000


def test_it_times_whole_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = (
        Case("help", ["--help"], 1.0),
        Case("check", ["check", "many.toml", "--set", "duration=2 s"], 2.0),
    )
    monkeypatch.setattr(cli_latency, "CASES", cases)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    messages: list[str] = []
    first, second = cli_latency.bench(2, messages.append)
    assert messages == [
        "first: help",
        "first: check",
        "1 of 2: help",
        "1 of 2: check",
        "2 of 2: help",
        "2 of 2: check",
    ]
    assert (first.case, first.runs, first.most_s) == ("help", 2, 1.0)
    assert 0 < first.lowest_s <= first.median_s <= first.highest_s
    assert 0 < first.processor_s <= 2 * first.highest_s
    assert second.lowest_s > 0


def test_a_command_that_fails_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_latency, "CASES", (Case("none", ["show", "nowhere"], 1.0),))
    with pytest.raises(CommandError, match="show nowhere: error: nowhere is not a store"):
        cli_latency.bench(1)


@pytest.mark.lab
def test_a_shell_is_timed_until_its_command_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is measured where a check is kept; a command begins before all of its shell is gone."""
    realtime.need_namespaces()
    monkeypatch.setenv("BENTPIPE_RT", str(realtime.program()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path, proxies = resolve_path(shell_latency.ACCESS)
    way = {"calibration_us": {"arrival": 20.0, "long_sleep": 60.0, "short_sleep": 50.0}}
    check = {"rtt_ns": 750_000_000, "up_bit_s": 5e6, "down_bit_s": 25e6, "waited_ns": 0, "late_ns": 0}
    segments = [{"up": way, "down": way} for _ in path["graph"]["links"]]
    plan: Session = {"lab": path, "proxies": proxies, "commands": []}
    save_check(plan, realtime.program(), {"check": check, "wall_s": 1.0, "links": segments})
    messages: list[str] = []
    begins, gone, processor = shell_latency.bench(2, messages.append)
    assert messages == ["the check", "1 of 2", "2 of 2"]
    assert len(list((tmp_path / "bentpipe/checks").iterdir())) == 1
    assert 0 < begins.lowest_s <= begins.median_s <= begins.highest_s < gone.highest_s
    assert processor.lowest_s > 0.05
    assert (begins.runs, begins.most_s, gone.most_s) == (2, 0.5, None)


def test_a_shell_that_cannot_be_is_not_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BENTPIPE_RT", str(tmp_path / "nothing"))
    with pytest.raises(CommandError, match="bentpipe shell geo-konnect: error: "):
        shell_latency.bench(1)


def test_orbits_are_measured_in_satellite_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = (orbits.Case("pair", 0, 20, 1.0), orbits.Case("tables", 3, 2, 1.0))
    monkeypatch.setattr(orbits, "CASES", cases)
    messages: list[str] = []
    pair, tables = orbits.bench(2, messages.append)
    assert messages == ["1 of 2: pair", "1 of 2: tables", "2 of 2: pair", "2 of 2: tables"]
    assert (pair.steps, tables.steps) == (21, 3)
    assert len(cases[1].engine_input()["stations"]) == 3
    assert all(one.lowest <= one.median <= one.highest for one in (pair, tables))
    assert pair.lowest > 0


def test_a_channel_is_measured_by_its_steps_and_by_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = (
        channel.Case("steps", "million", "", least=10),
        channel.Case("run", "seconds", "2 s", most=1),
        channel.Case("users", "seconds", "2 s", most=3, users=20, most_mb=150),
    )
    monkeypatch.setattr(channel, "CASES", cases)
    monkeypatch.setattr(channel, "STEPS", 10_000)
    messages: list[str] = []
    steps, run, users = channel.bench(2, messages.append)
    assert messages == [f"{time} of 2: {name}" for time in (1, 2) for name in ("steps", "run", "users")]
    assert (steps.bound, run.bound, users.bound) == ("at least 10", "at most 1", "at most 3, 150 MB")
    assert 20 < users.peak_mb < 150
    spec = channel.process_input(cases[2])
    assert len(spec["flows"]) == 20
    queues = [stage["queue"] for link in spec["graph"]["links"] for stage in link["down"] if "queue" in stage]
    assert [queue["scheduler"]["name"] for queue in queues] == ["proportional_fair"]
    assert 0 < steps.lowest <= steps.median <= steps.highest
    asked = channel.process_input(cases[0])
    assert asked["channel"]["motion"]["step_ns"] == 511_009
    found = engine.channel_information(asked["channel"], 511_009, 200_000)
    # 13 dB behind trees: most of the time a bit gets through nearly whole
    assert 0.8 < found < 0.98


def test_a_large_store_is_the_small_one_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(
        cli_latency.SCENARIOS["short.toml"].replace("seeds = 50", "seeds = 1")
    )
    store = bentpipe.run(tmp_path / "small.toml", jobs=1, out=tmp_path / "store").path
    pack(store)
    axes = {"flow.bulk.congestion": ["cubic", "bbr"], "path.satellite.delay": ["50 ms", "60 ms", "70 ms"]}
    assert grow(store, tmp_path / "large", axes, seeds=9) == 54
    small, large = Store(store), Store(tmp_path / "large")
    assert large.load_index().find_damage() == {}
    assert len(large.finished()) == len(set(large.runs["run"])) == 54
    assert large.runs["run"].to_list() == [run["id"] for run in large.planned]
    whole, rest = divmod(54, len(small.finished()))
    counted = small.table("flows").group_by("run", maintain_order=True).len()["len"].to_list()
    assert large.flows.height == whole * sum(counted) + sum(counted[:rest])
    assert len(summary_rows(tmp_path / "large")[1]) == 6
