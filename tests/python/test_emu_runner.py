"""Runs in real time: the mapping to a lab, what is refused, tables, and how a runner takes labs that go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import commands
from bentpipe.lab.emulation import runner as emu
from bentpipe.lab.emulation.build import draw_size, lab_plan, round_trips_ns
from bentpipe.lab.emulation.perf_stream import Connection, Frames, read_frames
from bentpipe.lab.emulation.random_streams import Random
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.lab.plan_validation import validate_plan
from bentpipe.plan.spec.result_columns import COLUMNS
from bentpipe.runners import engine
from bentpipe.runners.runner import RunnerError, RunOutcome
from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.codec import Measurements, decode
from emu_plans import CLASSIC, Linux, plan_of, scenario, triangle

STAND_IN = Path(__file__).with_name("fake_lab.py")


def tables_of(outcome: RunOutcome) -> Mapping[str, pl.DataFrame]:
    assert isinstance(outcome.data, Measurements), outcome.error
    return outcome.data.tables


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "bentpipe-rt"
    file.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    file.chmod(0o755)
    return file


def test_the_streams_of_chance_are_the_engines() -> None:
    poisson = {"interval": "100 ms", "size": {"exponential": "20 kB"}}
    data = scenario({"name": "a"}, {"name": "b", "load": {"poisson": poisson}})
    for run in plan_of(data, seeds=3).runs:
        tables = decode(engine.run(run.spec_json())).tables
        starts = dict(tables["flow_summary"].select("flow", "start_s").unique().iter_rows())
        for flow in run.spec["flows"]:
            jitter = Random(run.seed, flow["name"], "start").below(flow["start_jitter_ns"] + 1)
            assert starts[flow["name"]] == pytest.approx(jitter / 1e9, abs=1e-9)
        # the server of the last arrivals has had no request yet
        sizes = [size for size in tables["streams"].filter(flow="b")["down_written_bytes"] if size]
        random = Random(run.seed, "b", "sizes")
        assert len(sizes) > 10
        assert sizes == [draw_size({"kind": "exponential", "mean_bytes": 20_000}, random) for _ in sizes]


def test_quic_and_tcp_become_processes_and_settings(tmp_path: Path) -> None:
    data = scenario(
        {
            "name": "q",
            "congestion": "bbr3",
            "quic": {"initial_window": "32 packets", "mtu": "1300 B", "ecn": True},
        },
        {
            "name": "t",
            "transport": "tcp",
            "start": "1 s",
            "tcp": {"initial_window": "20 packets", "sack": False},
        },
    )
    spec = plan_of(data).runs[0].spec
    lab = lab_plan(spec, tmp_path, "/bin/rt").plan
    assert [one["name"] for one in lab["services"]] == ["q.server", "t.server"]
    assert [one["listen_port"] for one in lab["services"]] == [4433, 4434]
    assert lab["commands"][1]["start_ns"] >= 1_000_000_000
    quic = json.loads((tmp_path / "0.0.client.json").read_text())
    assert (quic["transport"], quic["quic"]["crypto"]) == ("quic", "rustls")
    assert (quic["quic"]["initial_window_bytes"], quic["quic"]["mtu_bytes"]) == (32 * 1300, 1300)
    assert quic["quic"]["ecn"] is True
    assert quic["congestion"] == {"name": "bbr3", "options": {}}
    tcp = json.loads((tmp_path / "1.server.json").read_text())
    assert (tcp["transport"], tcp["congestion"]) == ("tcp", {"name": "cubic", "options": {}})
    ends = spec["flows"][1]["transport"]
    assert lab["tcp"] == {"client": ends["client"], "server": ends["server"]}
    assert ends["client"]["initial_window_bytes"] == 20 * 1460
    assert lab["server_namespace"] is True
    assert lab["has_uplink"] is False


def test_flows_of_other_ends_run_at_their_hosts(tmp_path: Path) -> None:
    """The ends of the first flow are those of the lab; an error names further ends of other flows."""
    spec = plan_of(triangle(
        {"name": "one", "client": "b", "server": "a"},
        {"name": "two", "client": "c", "server": "a", "transport": "tcp", "tcp": {"initial_window": "20 packets"}},
        {"name": "three", "client": "a", "server": "c", "quic": {"ip": 6}},
    )).runs[0].spec  # fmt: skip
    assert refusals(spec, engine.catalogue(), Linux("cubic")) == []
    plan = lab_plan(spec, tmp_path, "/bin/rt").plan
    assert (plan["lab"]["client"], plan["lab"]["server"], plan["lab"].get("hosts")) == ("b", "a", ["c"])
    assert [one.get("node") for one in plan["commands"]] == [None, "c", "a"]
    assert [one.get("node") for one in plan.get("services", ())] == [None, None, "c"]
    assert [one["command"][4] for one in plan["commands"]] == ["{server}", "{server}", "{host6:c}"]
    options = spec["flows"][1]["transport"]
    assert options["kind"] == "tcp"
    assert plan.get("tcp") == {"client": None, "server": options["server"], "hosts": {"c": options["client"]}}
    validate_plan(plan)
    assert round_trips_ns(spec) == [100_000_000] * 3


def test_hosts_have_one_set_of_options_and_other_graphs_no_proxies() -> None:
    def unsupported(*flows: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
        spec = plan_of(triangle(*flows, **more)).runs[0].spec
        return refusals(spec, engine.catalogue(), Linux("cubic"))

    def tcp(name: str, client: str, server: str, window: int) -> dict[str, Any]:
        ends = {"client": client, "server": server, "transport": "tcp"}
        return {"name": name, **ends, "tcp": {"initial_window": f"{window} packets"}}

    assert unsupported(tcp("one", "a", "b", 10), tcp("two", "a", "b", 10), tcp("three", "b", "c", 10)) == []
    ((key, why),) = unsupported(tcp("one", "a", "b", 10), tcp("two", "b", "c", 20))
    assert (key, 'flow "one"' in why) == ("flow.two.tcp.initial_window", True), (
        "the server of one is two's client"
    )
    data = scenario({"name": "t", "transport": "tcp"})
    second = {**data["path"]["segment"][0], "name": "ground"}
    proxy = {"name": "pep", "between": ["satellite", "ground"], "client_side": {"congestion": CLASSIC}}
    gap = {"at": "1 s", "segment": "satellite", "gap": "100 ms"}
    data["path"] |= {"segment": [*data["path"]["segment"], second], "proxy": [proxy], "handover": [gap]}
    ((key, why),) = refusals(plan_of(data).runs[0].spec, engine.catalogue(), Linux("cubic"))
    assert (key, why.startswith('nodes "pep" split TCP, but routes change')) == ("proxy", True)


def test_every_arrival_is_a_client(tmp_path: Path) -> None:
    poisson = {"interval": "200 ms", "size": {"fixed": "20 kB"}}
    spec = plan_of(scenario({"name": "p", "load": {"poisson": poisson}})).runs[0].spec
    near = lab_plan(spec, tmp_path, "/bin/rt").plan["commands"]
    tables = decode(engine.run(json.dumps(spec))).tables
    assert len(near) == tables["flow_summary"].filter(side="client")["connections"][0]
    first = tables["events"].filter(kind="start", side="client")["time_s"][0]
    assert near[0]["start_ns"] / 1e9 == pytest.approx(first, abs=1e-6)


def test_the_tables_are_the_engines(program: Path) -> None:
    plan = plan_of(scenario({"name": "q"}, {"name": "t", "transport": "tcp", "direction": "up"}))
    (outcome,) = emu.EmulationRunner(program, engine.version()).run(plan.runs)
    simulated = decode(engine.run(plan.runs[0].spec_json())).tables
    real = tables_of(outcome)
    assert set(real) == set(simulated)
    for name, frame in simulated.items():
        assert real[name].columns == frame.columns == list(COLUMNS[name]), name
        assert real[name].dtypes == frame.dtypes, name
    streams = real["streams"].sort("flow")
    assert streams["down_bytes"].to_list() == [500_000, 0]
    assert streams["up_bytes"].to_list() == [8, 500_000]
    summary = real["flow_summary"].filter(side="server", flow="q").row(0, named=True)
    assert (summary["delivered_in_order_bytes"], summary["rtos"]) == (500_000, None)
    start = simulated["flow_summary"].filter(flow="t")["start_s"][0]
    assert real["flow_summary"].filter(flow="t")["start_s"][0] == pytest.approx(start, abs=1e-6)
    # 500 kB at 8 Mbit/s after a round trip of 100 ms
    assert streams["down_fin_s"][0] - streams["start_s"][0] == pytest.approx(0.6, abs=1e-3)
    assert real["links"]["time_s"].max() == pytest.approx(3.0)
    down = real["links"].filter(link="satellite.down").filter(pl.col("time_s") > 0.55).row(0, named=True)
    assert (down["arrived_packets"], down["dropped_overflow_packets"], down["queued_bytes"]) == (5, 1, 1500)
    assert down["sent_bytes"] is None
    total = real["link_summary"].filter(link="satellite.up").row(0, named=True)
    assert (total["delivered_packets"], total["rate_bit_s"], total["propagation_ms"]) == (10, 10e6, 50.0)


def test_a_run_that_is_not_over_ends_with_the_scenario(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATE", "1e6")  # 4 s, of which the run has 3
    plan = plan_of(scenario({"name": "q"}))
    (outcome,) = emu.EmulationRunner(program, engine.version()).run(plan.runs)
    tables = tables_of(outcome)
    assert tables["streams"]["down_fin_s"].to_list() == [None]
    last = tables["flows"].filter(side="client").row(-1, named=True)
    assert 2.9 < last["time_s"] <= 3.0
    assert last["received_in_order_bytes"] == pytest.approx((last["time_s"] - 0.2) * 1e6 / 8, rel=0.02)


def test_frames_that_are_cut_off_are_read(tmp_path: Path) -> None:
    file = tmp_path / "frames"
    opening = {
        "frame": "connection",
        "connection": 0,
        "local": "1.2.3.4:5",
        "remote": "[::1]:6",
        "start_ns": 1,
    }
    file.write_text(json.dumps(opening) + '\n{"frame": "sample", "conn')
    found = read_frames(file)
    assert found.connections[0].port == (5, 6)
    assert not found.connections[0].samples
    assert not read_frames(tmp_path / "none").connections


@pytest.mark.parametrize(
    ("behaviour", "good", "attempts", "error"),
    [
        ("late-once", True, 2, ""),
        (
            "late",
            False,
            3,
            "the emulator missed its deadlines in all 3 attempts: packets were late by 90 ms",
        ),
        ("broken", False, 1, "the lab failed: error: cannot create a namespace"),
        ("silent", False, 1, "no connection was established"),
    ],
)
def test_labs_that_go_wrong(
    program: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, good: bool, attempts: int, error: str
) -> None:
    monkeypatch.setenv("BEHAVIOUR", behaviour)
    monkeypatch.setenv("MARK", str(program.with_name("mark")))
    plan = plan_of(scenario({"name": "q"}))
    (outcome,) = emu.EmulationRunner(program, engine.version()).run(plan.runs)
    assert (outcome.data is not None) is good
    assert outcome.facts["attempts"] == attempts
    assert error in outcome.error
    assert outcome.invalid is (behaviour == "late")


@pytest.mark.parametrize("late_ms", [5, 55, 105])
def test_ticks_that_were_slept_through_are_late(
    program: Path, monkeypatch: pytest.MonkeyPatch, late_ms: int
) -> None:
    """The last of two or three ticks of 50 ms is 5 ms late; the run is as late as for the first."""
    monkeypatch.setenv("WAKES_LATE", str(late_ms))
    (outcome,) = emu.EmulationRunner(program, engine.version()).run(plan_of(scenario({"name": "q"})).runs)
    assert outcome.data is None
    assert outcome.facts["processes_lateness_p95_ms"] == late_ms
    assert outcome.facts["attempts"] == emu.MAX_ATTEMPTS
    assert f"late by {late_ms}.0 ms (95 % of its ticks must be within 2.0 ms)" in outcome.error


def test_lateness_is_that_of_each_tick() -> None:
    """One wake-up 105 ms late is three late ticks for any number of reported connections; an end reports a tick too."""
    second, step = 10**9, 50_000_000
    times = [(0, 0), (step, step + 2 * 10**6), (2 * step, 2 * step + 105_000_000), (5 * step, 5 * step)]
    samples = [
        {"frame": "sample", "due_ns": second + due, "time_ns": second + time_ns} for due, time_ns in times
    ]
    over = {"frame": "end_connection", "due_ns": second + 6 * step, "time_ns": second + 8 * step - 1}
    begin = {"frame": "begin", "version": 2, "interval_ns": step}
    found = Frames(begin, None, {0: Connection({}, samples), 1: Connection({}, [*samples[1:], over])})
    assert [late / 1e6 for late in found.late_ns()] == [0, 2, 105, 55, 5, 0, 99.999999, 49.999999]
    assert Frames().late_ns() == []
    with pytest.raises(RunnerError, match="frames are of version 1, expected 2: bentpipe-rt is older"):
        Frames({"frame": "begin", "version": 1, "interval_ns": step}).late_ns()


def test_closing_the_runner_ends_the_labs(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = program.with_name("mark")
    monkeypatch.setenv("BEHAVIOUR", "hang")
    monkeypatch.setenv("MARK", str(mark))
    runs = plan_of(scenario({"name": "q"})).runs
    outcomes: Iterator[Any] = emu.EmulationRunner(program, engine.version()).run(runs)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            next(outcomes)
    finally:
        signal.signal(signal.SIGALRM, before)
    outcomes.close()  # type: ignore[attr-defined]
    lab = int(mark.read_text())
    for _ in range(50):
        if not Path(f"/proc/{lab}").exists():
            return
        time.sleep(0.1)
    pytest.fail("the lab is still there")


@pytest.mark.parametrize("clock", ["sim", "emu"])
def test_ctrl_c_ends_a_command_at_once(program: Path, tmp_path: Path, clock: str) -> None:
    """During a run of minutes: finished runs are saved, and no process remains."""
    file, mark = tmp_path / "s.toml", tmp_path / "mark"
    load = (
        'time = "10000 s"' if clock == "sim" else 'bytes = "200 kB"'
    )  # the stand-in hangs whatever the load is
    file.write_text(
        '[[path.segment]]\nname = "s"\ndelay = "20 ms"\nboth = { rate = "10 Mbit/s" }\n'
        '[[flow]]\nname = "q"\ncongestion = "cubic"\ndirection = "down"\n'
        f"load = {{ {load} }}\n"
        '[sweep]\nduration = ["1 s", "10000 s"]\n'
    )
    environment = {**os.environ, "BENTPIPE_RT": str(program), "BEHAVIOUR": "hang-later", "MARK": str(mark)}
    command = [
        sys.executable,
        "-m",
        "bentpipe.cli",
        "run",
        str(file),
        "--engine",
        clock,
        "--jobs",
        "1",
        "--out",
        "o",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(3000):
            if any((tmp_path / "o/runs").glob("*")) and (clock == "sim" or mark.read_text()):
                break
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "interrupted: 1 of 2 runs are in o" in error
    if clock == "emu":
        assert not Path(f"/proc/{mark.read_text()}").exists()


@pytest.mark.parametrize(
    ("behaviour", "word", "other"), [("late", "invalid", "failed"), ("broken", "failed", "invalid")]
)
def test_runs_that_were_late_are_counted_apart(
    program: Path, tmp_path: Path, behaviour: str, word: str, other: str
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'duration = "2 s"\n[[path.segment]]\nname = "s"\ndelay = "20 ms"\nboth = { rate = "10 Mbit/s" }\n'
        '[[flow]]\nname = "q"\ncongestion = "cubic"\ndirection = "down"\nload = { bytes = "200 kB" }\n'
    )
    words = ["run", str(file), "--engine", "emu", "--out", "o"]
    environment = {**os.environ, "BENTPIPE_RT": str(program), "BEHAVIOUR": behaviour}
    done = commands.bentpipe(tmp_path, *words, environment=environment)
    assert done.returncode == 1
    assert done.stdout.rstrip().endswith(f"; 1 {word}"), done.stdout
    assert done.stderr.startswith(f"{word}: ")
    (entry,) = [
        one
        for one in map(json.loads, (tmp_path / "o/journal.jsonl").read_text().splitlines())
        if "run" in one
    ]
    assert entry["event"] == word
    again = commands.bentpipe(tmp_path, *words, "--json", environment=environment)
    found = json.loads(again.stdout)
    assert (len(found[word]), found[other]) == (1, [])


def test_the_command_line_keeps_the_clocks_apart(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'duration = "2 s"\nseeds = 2\n[[path.segment]]\nname = "s"\ndelay = "20 ms"\nboth = { rate = "10 Mbit/s" }\n'
        '[[flow]]\nname = "q"\ncongestion = "cubic"\ndirection = "down"\nload = { bytes = "200 kB" }\n'
    )
    environment = {**os.environ, "BENTPIPE_RT": str(program)}

    def bentpipe(*words: str) -> subprocess.CompletedProcess[str]:
        return commands.bentpipe(tmp_path, *words, environment=environment)

    real = bentpipe("run", str(file), "--engine", "emu")
    assert real.returncode == 0, real.stderr
    assert "2 of 2 runs in out/s-emu" in real.stdout
    again = bentpipe("run", str(file), "--engine", "emu")
    assert "2 from earlier runs" in again.stdout
    shown = bentpipe("show", "out/s-emu")
    assert "In emulation: 2 valid runs" in shown.stdout, shown.stdout + shown.stderr
    mixed = bentpipe("run", str(file), "--out", "out/s-emu")
    assert mixed.returncode == 2
    assert "was created by engine" in mixed.stderr
    for words in (("query", "out/s-emu", "select count(*) from flows"), ("report", "out/s-emu"),
                  ("export", "out/s-emu", "--format", "csv")):  # fmt: skip
        done = bentpipe(*words)
        assert done.returncode == 0, done.stderr
    assert "In emulation: 2 valid runs" in (tmp_path / "out/s-emu/report.html").read_text()
    wrong = bentpipe("run", str(file), "--engine", "ns3")
    assert wrong.returncode == 2
    assert 'no engine "ns3", expected one of: sim, emu' in wrong.stderr


def test_two_stores_of_real_time_are_compared(program: Path, tmp_path: Path) -> None:
    """Half the rate on the same path: a regression; the same again: none."""
    file = tmp_path / "s.toml"
    file.write_text(
        'duration = "3 s"\nseeds = 5\n[[path.segment]]\nname = "s"\ndelay = "20 ms"\nboth = { rate = "10 Mbit/s" }\n'
        '[[flow]]\nname = "q"\ncongestion = "cubic"\ndirection = "down"\nload = { bytes = "500 kB" }\n'
    )

    def bentpipe(*words: str, rate: str = "8e6") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "BENTPIPE_RT": str(program), "RATE": rate}
        return commands.bentpipe(tmp_path, *words, environment=environment)

    for store, rate in (("one", "8e6"), ("two", "8e6"), ("half", "4e6")):
        done = bentpipe("run", "s.toml", "--engine", "emu", "--jobs", "4", "--out", store, rate=rate)
        assert done.returncode == 0, done.stderr
    same = bentpipe("diff", "one", "two", "--json")
    assert same.returncode == 0, same.stderr
    worse = bentpipe("diff", "one", "half", "--json")
    assert worse.returncode == 1, worse.stderr
    rows = {row["metric"]: row for row in json.loads(worse.stdout)["changes"]}
    assert rows["goodput_bit_s"]["verdict"] == "regression"
    assert rows["goodput_bit_s"]["effect"] == pytest.approx(0.5, rel=0.1)


def test_an_unsupported_scenario_of_real_time_is_reported_at_once(tmp_path: Path) -> None:
    data = scenario({"name": "t", "transport": "tcp", "congestion": "hybla"})
    with pytest.raises(ScenarioError, match=r"flow\.t\.congestion: in emulation: found \"hybla\""):
        emu.check(plan_of(data), engine.catalogue())


def test_real_time_is_reported_once(tmp_path: Path) -> None:
    gap = {"at": "1 s", "segment": "satellite", "gap": "100 ms"}
    data = scenario({"name": "t", "transport": "tcp"}, {"name": "u", "transport": "tcp", "count": 300})
    data["path"]["handover"] = [gap]
    data["path"]["segment"][0]["store_and_forward"] = "1 MB"
    with pytest.raises(ScenarioError) as refused:
        emu.check(plan_of(data), engine.catalogue())
    unsupported = [text for _, text in refused.value.problems]
    assert len(unsupported) == 2
    assert all(text.count("emulation") == 1 for text in unsupported), unsupported
