"""``bentpipe fit``: the phase, the model beside data that it was not fitted to, what is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bentpipe.fit import export, run
from bentpipe.fit.estimate import fit_delays
from bentpipe.fit.goodness_of_fit import DISTANCE, GoodnessOfFit
from bentpipe.fit.log_merge import gather
from bentpipe.fit.log_reader import read
from bentpipe.fit.model import Bursts, Distribution, Model, Points, sample
from bentpipe.fit.model_comparison import autocorrelation, distance, runs_of_loss
from bentpipe.fit.page import headline_text
from bentpipe.fit.phase import find, refine_phase
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.traces import read_csv, read_mahimahi
from commands import bentpipe
from synthetic_dish import pings
from traced_runs import made, spec_of

MINUTES = 25


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pings of a dish that shares no code with the model."""
    path = tmp_path_factory.mktemp("dish") / "dish.txt"
    path.write_text(pings(1, 60 * MINUTES))
    return path


@pytest.fixture(scope="module")
def brief(log: Path) -> Path:
    """Some minutes of it, for tests of what is done with files."""
    path = log.with_name("brief.txt")
    path.write_text(pings(1, 60 * 6))
    return path


@pytest.fixture(scope="module")
def fit_json(log: Path) -> Mapping[str, Any]:
    """Return the JSON output of ``fit``."""
    return run([str(log)], [], log.parent / "out", "dish", "15 s").data


@pytest.fixture(scope="module")
def fit_folder(log: Path, fit_json: Mapping[str, Any]) -> Path:
    """The folder that it has written."""
    assert fit_json
    return log.parent / "out"


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


# The model for new data.


def test_the_second_half_is_as_the_model_of_the_first_says(fit_json: Mapping[str, Any]) -> None:
    """No model of the first half is nearer to the second than the first half itself is; this one is not much farther."""
    assert (fit_json["phase_s"], fit_json["of_day"]) == (12, True)
    assert 45 <= fit_json["training_intervals"] <= 51
    rows = {row["quantity"]: (row["test data"], row["model of training data"]) for row in fit_json["judged"]}
    itself, away = rows[DISTANCE]
    assert away < itself + 8
    for name, tolerance in {
        "5th percentile of the delay, ms": 0.15,
        "50th percentile of the delay, ms": 0.2,
        "95th percentile of the delay, ms": 0.25,
    }.items():
        assert rows[name][1] == pytest.approx(rows[name][0], rel=tolerance), name
    assert rows["lost, %"][1] == pytest.approx(rows["lost, %"][0], abs=0.6)
    # a handover loses for 350 ms in 60 % of the slots, and one ping in 500 is lost by itself
    assert fit_json["bursts"]["probability"] == pytest.approx(0.6, abs=0.1)
    assert np.median(fit_json["bursts"]["length_ms"]) == pytest.approx(350, abs=50)


def test_inserted_values_are_recovered() -> None:
    """Samples of a known model, fitted: its tables come back."""
    at_s = np.arange(12.0, 12 + 15 * 400, 0.05)
    known = Model(
        15.0, 12.0, [20.0, 30.0, 60.0], [0.0, 2.0, 4.0], 0.05, 0.5, [0.0, 0.01], Bursts(0.4, (400.0, 600.0))
    )
    points = sample(known, at_s, seed=7)
    found = Model(15.0, 12.0)
    fit_delays(points, found)
    assert found.slots == 400
    again = sample(found, at_s, seed=8)
    assert distance(points.delays, again.delays) < 0.05
    assert np.interp([0, 0.5, 1], np.linspace(0, 1, len(found.delay_ms)), found.delay_ms) == pytest.approx(
        [20, 30, 60], rel=0.12
    )
    assert found.bursts is not None
    assert found.bursts.probability == pytest.approx(0.4, abs=0.07)
    assert np.median(found.bursts.length_ms) == pytest.approx(500, abs=51), "pings are 50 ms apart"
    assert np.mean(found.loss) == pytest.approx(0.005, abs=0.001)
    longest = max(runs_of_loss(points))
    assert 9 <= longest <= 15


# The phase


def slotted(
    random: np.random.Generator, at_s: np.ndarray[tuple[int], np.dtype[np.float64]], phase: float
) -> object:
    slot = np.floor((at_s - phase) / 15).astype(int)
    slot -= slot.min()  # a number for each slot that is seen, not for all since 1970
    return 40 + 5 * random.standard_normal(slot.max() + 2)[slot] + random.exponential(10, len(at_s))


@pytest.mark.parametrize("phase", [0.0, 3.25, 12.0, 14.75])
def test_the_phase_is_found(phase: float) -> None:
    at_s = 1_700_000_010 + np.arange(0, 900, 0.1)
    values = slotted(np.random.default_rng(1), at_s, phase)
    assert find(at_s, values, 15.0, "log").phase_s == pytest.approx(phase, abs=0.25)  # type: ignore[arg-type]


@pytest.mark.parametrize("begin", [11.84, 12.0, 12.6])
def test_bursts_say_to_10_ms_where_slots_begin(begin: float) -> None:
    at_s = np.arange(0, 300, 0.01)
    lost = (at_s - begin) % 15 < 0.3
    points = Points(at_s, np.where(lost, np.nan, 40.0))
    assert refine_phase(points, 12.25, 15.0) == pytest.approx(begin, abs=0.011)
    few = Points(at_s, np.where(lost & (at_s < 50), np.nan, 40.0))
    assert refine_phase(few, 12.25, 15.0) == 12.25, "three are not enough"
    scattered = np.zeros(len(at_s), bool)
    for slot, off in enumerate([-0.9, -0.5, -0.1, 0.3, 0.6, 0.9, -0.7, 0.5]):
        scattered |= (at_s > 12.25 + 15 * slot + off) & (at_s < 12.45 + 15 * slot + off)
    assert refine_phase(Points(at_s, np.where(scattered, np.nan, 40.0)), 12.25, 15.0) == 12.25


def test_rates_on_a_clock_of_their_own_have_their_own_phase(log: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    rates = random.uniform(20, 80, 41)
    rows = [f"{at},{rates[int((at - 4) // 15 + 1)]:.3f}" for at in range(600)]
    trace = written(tmp_path, "down.csv", "time_s,rate_Mbit_s\n" + "\n".join(rows) + "\n")
    found = gather([str(log), str(trace)], [], 15.0, None)
    assert (found.phase_s, found.of_day, found.rates["down"].phase_s) == (12.0, True, 4.0)


def walk(random: np.random.Generator, at_s: np.ndarray[tuple[int], np.dtype[np.float64]]) -> object:
    return 40 + np.cumsum(random.standard_normal(len(at_s))) / 10


SHAPELESS: dict[str, Callable[..., object]] = {
    "noise": lambda random, at_s: random.exponential(10, len(at_s)),
    "walk": walk,
    "wave": lambda random, at_s: 40 + 10 * np.sin(2 * np.pi * at_s / 60) + random.exponential(10, len(at_s)),
    "wave of a slot": lambda random, at_s: (
        40 + 10 * np.sin(2 * np.pi * at_s / 15) + random.exponential(10, len(at_s))
    ),
    "step": lambda random, at_s: 40 + 20 * (at_s > 500) + random.exponential(10, len(at_s)),
    "constant": lambda random, at_s: np.full(len(at_s), 40.0),
}


@pytest.mark.parametrize("shape", SHAPELESS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_log_without_slots_is_refused(shape: str, seed: int) -> None:
    at_s = np.arange(0, 900, 0.1)
    values = SHAPELESS[shape](np.random.default_rng(seed), at_s)
    with pytest.raises(ScenarioError, match="log: no intervals of 15 s found"):
        find(at_s, values, 15.0, "log")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--interval", "1 s"), "--interval: found 1 s, expected a multiple of 0.25 s of at least 4 s"),
        (("--interval", "15 ducks"), "--interval: "),
        (("--phase", "x"), "--phase: "),
        (("--name", "a b"), '--name: found "a b", expected a name'),
        (("--name", "replay"), '--name: found "replay", expected a name other than'),
        (("--up", "dish.txt"), "--up: dish.txt has delays, expected a log of the uplink's rate"),
        (("dish.txt",), "dish.txt: duplicate log of delays, expected one"),
        (("--out", "rate.csv"), "--out: rate.csv is a file, expected a folder"),
        (("rate.csv", "rate.csv"), "rate.csv: duplicate log of the rate down, expected one; use --up FILE"),
    ],
)
def test_options_that_cannot_be_are_refused(
    tmp_path: Path, log: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "dish.txt").symlink_to(log)
    written(tmp_path, "rate.csv", "time_s,rate_Mbit_s\n0,5\n1,6\n")
    done = bentpipe(tmp_path, "fit", "dish.txt", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}"), done.stderr
    assert not (tmp_path / "out").exists()


def test_nothing_of_the_user_is_written_over(tmp_path: Path, brief: Path) -> None:
    log = written(tmp_path, "pings.csv", "".join(_as_csv(brief)))
    before = log.read_bytes()
    done = bentpipe(tmp_path, "fit", "pings.csv", "--out", ".")
    assert (done.returncode, done.stderr) == (
        2, "error: --out: pings.csv is an input log; choose another directory\n",
    )  # fmt: skip
    own = written(tmp_path, "scenario.toml", 'title = "mine"\n')
    log = log.rename(tmp_path / "dish.csv")
    done = bentpipe(tmp_path, "fit", "dish.csv", "--out", ".")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --out: scenario.toml exists and is not from bentpipe fit")
    assert (log.read_bytes(), own.read_text()) == (before, 'title = "mine"\n')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dish.csv", "scenario.toml"]
    own.unlink()
    for _ in range(2):
        assert bentpipe(tmp_path, "fit", "dish.csv", "--out", ".").returncode == 0


def _as_csv(log: Path) -> list[str]:
    found = re.findall(r"\[([\d.]+)\].* time=([\d.]+) ms", log.read_text())
    return [
        "timestamp,rtt\n",
        *(f"{at},{took}\n" for at, took in sorted(found, key=lambda one: float(one[0]))),
    ]


# The written preset.


def test_the_preset_runs_and_has_what_was_found(fit_folder: Path) -> None:
    plan = build_plan(load_scenario(fit_folder / "scenario.toml"), "test")
    spec = plan.runs[0].spec
    (link,) = spec["graph"]["links"]
    stages = {stage["kind"]: stage for stage in link["up"]}
    assert stages["reconfiguration_delay"]["reconfiguration"]["phase_ns"] == 12_000_000_000
    half = stages["reconfiguration_delay"]["delay_ns"]
    assert half == sorted(half)
    assert 7e6 < half[0] < half[-1] < 70e6, "a half of the round trip"
    down = {stage["kind"]: stage for stage in link["down"]}
    assert down["reconfiguration_delay"]["jitter_ns"] == [], "what varies within a slot goes up"
    assert down["loss"]["model"]["burst_probability"] == pytest.approx(0.6, abs=0.1)


def test_the_log_is_replayed_as_it_is(fit_folder: Path, log: Path) -> None:
    original = read(log)
    again = read(fit_folder / "pings.csv")
    assert again.at_s == pytest.approx(original.at_s, abs=1e-6)
    assert again.delay_ms == pytest.approx(original.delay_ms)
    delays = read_csv(fit_folder, "delay.csv", "delay")
    seen = [one for one in original.delay_ms if one is not None]
    assert [float(value) / 1e6 for _, value in delays] == pytest.approx([one / 2 for one in seen])
    (run_,) = build_plan(load_scenario(fit_folder / "replay.toml"), "test").runs
    kinds = [stage["kind"] for stage in run_.spec["graph"]["links"][0]["down"]]
    assert "loss" in kinds
    lost = read_csv(fit_folder, "loss.csv", "loss")
    assert [int(value) for _, value in lost[:4]] in ([0, 1, 0, 1], [1, 0, 1, 0])
    share = sum(float(end - start) for (start, value), (end, _) in pairwise(lost) if value) / (60e9 * MINUTES)
    assert share == pytest.approx(
        sum(one is None for one in original.delay_ms) / len(original.delay_ms), abs=1e-3
    )


def test_opportunities_are_replayed_to_the_packet(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    rates = random.uniform(2, 12, 60)
    instants = []
    for slot, rate in enumerate(rates):
        instants += sorted(int(at) for at in 15_000 * slot + random.uniform(0, 15_000, int(rate * 1250)))
    text = "".join(f"{at}\n" for at in instants)
    fit_json = run([str(written(tmp_path, "bw.txt", text))], [], tmp_path / "o", "bw", "15 s").data
    assert fit_json["phase_s"] in (0, 14.75, 0.25)
    assert (tmp_path / "o/down.mahimahi").read_text() == text
    assert len(read_mahimahi(tmp_path / "o", "down.mahimahi").slots_ns) == len(instants)
    assert build_plan(load_scenario(tmp_path / "o/replay.toml"), "test").runs
    (row,) = [row for row in fit_json["distributions"] if row["quantity"] == "rate down, Mbit/s"]
    assert row["50 %"] == pytest.approx(float(np.median(rates)), rel=0.06)
    assert fit_json["taken"] == ["delay and losses down", "delay and losses up", "rate up"]


def test_tests_far_apart_are_replayed_as_a_table_of_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour between tests would be millions of opportunities, each a line."""
    monkeypatch.setattr(export, "MAX_OPPORTUNITIES", 1000)
    rows = [f"{at},{20 + at // 15 % 7}" for at in range(120)] + ["200,5", "201,5"]
    log = written(tmp_path, "rates.csv", "time_s,rate_Mbit_s\n" + "\n".join(rows) + "\n")
    replayed = export.replay(gather([str(log)], [], 15.0, 0.0), "rates.csv")
    assert "down.mahimahi" not in replayed
    for name, text in replayed.items():
        written(tmp_path, name, text)
    assert replayed["down.csv"].splitlines()[-1] == "201.000000,5.000000"
    (run_,) = build_plan(load_scenario(tmp_path / "replay.toml"), "test").runs
    assert run_.spec["duration_ns"] == 201 * 10**9


def test_the_page_lays_model_beside_data(fit_folder: Path) -> None:
    page = (fit_folder / "fit.html").read_text()
    for title in (
        "Delay over time", "Delay (CDF)", "Delay (CDF), model of the training data and test data",
        "Autocorrelation of the delay", "Bursts of loss", "Phase of the reconfiguration intervals",
    ):  # fmt: skip
        assert f"<h2>{title}</h2>" in page
    assert len(page) < 3_000_000
    assert not re.search(r'(?:src|href)="https?:', page)
    verdict, lead = re.findall(r'<p class="(?:verdict|lead)">(.*?)</p>', page)
    assert verdict.startswith("Fitted to the first half of the log, the model differs from ")
    assert lead.startswith("dish.txt: ")


@pytest.mark.parametrize(
    ("row", "fit_json"),
    [
        ((7.0, 8.6, 8.61), "by at most 8.6 % of its delay distribution. This is no more than the difference between the halves, 8.6 %"),
        ((7.0, 15.0, 8.6), "by at most 15 % of its delay distribution. This is more than the difference between the halves, 8.6 %"),
        ((7.0, None, None), "by at most 7 %. The log is too short"),
    ],
)  # fmt: skip
def test_the_page_begins_with_how_far_the_model_is(
    row: tuple[float, float | None, float | None], fit_json: str
) -> None:
    model, other, half = row
    rows = [
        {
            "quantity": DISTANCE,
            "data": None,
            "model": model,
            "test data": half,
            "model of training data": other,
        }
    ]
    assert fit_json in headline_text(GoodnessOfFit(rows, 0, None))


def test_the_output_first_says_what_no_log_has_and_counts_bursts(brief: Path, tmp_path: Path) -> None:
    done = run([str(brief)], [], tmp_path / "o", "dish", "15 s")
    lines = [part for part in done.shown if isinstance(part, str)]
    assert lines[1].startswith("The preset takes rate down and rate up from the values measured for Starlink")
    (bursts,) = [line for line in lines if "loss burst" in line]
    count, intervals, percent = re.findall(r"[\d.]+", bursts)[:3]
    # The shares and their counts agree.
    assert 100 * int(count) / int(intervals) == pytest.approx(float(percent), rel=0.005)
    assert int(intervals) <= done.data["slots"]
    (losses,) = [row for row in done.data["distributions"] if row["quantity"].startswith("single losses")]
    assert losses["mean"] == pytest.approx(100 * done.data["single_losses"]["pings"])


@pytest.mark.parametrize(
    ("column", "factor", "warned"), [("rtt", 1e-3, True), ("rtt_s", 1e-3, False), ("rtt", 1.0, False)]
)
def test_a_log_in_another_unit_is_warned_of(
    brief: Path, tmp_path: Path, column: str, factor: float, warned: bool
) -> None:
    log = read(brief)
    rows = [
        f"{at:.3f},{-1 if delay is None else delay * factor}"
        for at, delay in zip(log.at_s, log.delay_ms, strict=True)
    ]
    path = written(tmp_path, "a.csv", "\n".join([f"time_s,{column}", *rows]))
    (found,) = gather([str(path)], [], 15.0, 12.0).logs
    warning = [note for note in found.notes if note.startswith("warning: the median delay is 0.0")]
    assert bool(warning) == warned
    if warned:
        assert 'Column "rtt" is read in ms; name it "rtt_s" if it is in seconds' in warning[0]


def test_the_page_of_rates_alone_begins_with_their_means() -> None:
    rows = [
        {"quantity": f"{what} {side}, Mbit/s", "data": data, "model": data + 0.5}
        for side, data in (("down", 100.0), ("up", 9.0)) for what in ("5th percentile of interval rates", "mean of intervals")
    ]  # fmt: skip
    fit_json = headline_text(GoodnessOfFit(rows, 0, None))
    assert (
        fit_json
        == "The intervals of the model have a mean of 100 Mbit/s down (log: 100) and 9.5 Mbit/s up (log: 9)."
    )


def test_the_same_log_gives_the_same_bytes(log: Path, fit_folder: Path, tmp_path: Path) -> None:
    run([str(log)], [], tmp_path / "again", "dish", "15 s")
    files = [
        file for file in fit_folder.iterdir() if file.suffix not in (".pdf", ".svg")
    ]  # whose parts have numbers
    assert len(files) == 7
    for file in files:
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name


def test_the_command_says_it_as_json(brief: Path, tmp_path: Path) -> None:
    done = bentpipe(tmp_path, "fit", str(brief), "--out", "o", "--phase", "12 s", "--json")
    assert done.returncode == 0, done.stderr
    fit_json = json.loads(done.stdout)
    assert (fit_json["phase_s"], fit_json["delay"], fit_json["preset"]) == (12, "round trip", "o/fitted.toml")
    assert "spread" not in fit_json, "the phase was given"


def test_the_engine_has_the_same_slots_as_the_second_implementation() -> None:
    """The page draws the model as a run gives it: delays and losses of a permanently busy flow."""
    known = Model(
        0.5,
        0.2,
        [10.0, 20.0, 40.0],
        [0.0, 5.0, 20.0],
        0.05,
        0.6,
        [0.0, 0.02, 0.06],
        Bursts(0.3, (20.0, 60.0)),
    )
    slots = {
        "interval": "500 ms", "phase": "200 ms", "delay": ["10 ms", "20 ms", "40 ms"],
        "delay_jitter": ["0 ms", "5 ms", "20 ms"], "delay_step": "50 ms", "delay_correlation": 0.6,
        "loss": ["0 %", "2 %", "6 %"], "loss_bursts": {"probability": "30 %", "duration": ["20 ms", "60 ms"]},
    }  # fmt: skip
    steady = {"on_off": {"on": "1 s", "off": "1 ms", "rate": "1 Mbit/s", "time": "300 s"}}
    data = {
        "duration": "300 s",
        "trace": {"packet_steps": True},
        "path": {"segment": [{"name": "dish", "up": {"reconfiguration": slots}, "down": {"delay": "10 ms"}}]},
        "flow": [{"name": "f", "congestion": {"name": "bbr"}, "direction": "up", "load": steady}],
    }
    spec = spec_of(data)
    kinds = [stage["kind"] for stage in spec["graph"]["links"][0]["up"]]
    steps = made(spec)["packet_steps"].filter(pl.col("link") == "dish.up")
    come = steps.filter(pl.col("stage") == kinds.index("reconfiguration_delay")).select(
        "packet", come="at_ns"
    )
    gone = steps.filter(pl.col("stage") == kinds.index("reconfiguration_delay") + 1).select(
        "packet", gone="at_ns"
    )
    passed = come.join(gone, on="packet").sort("come")
    at_s = passed["come"].to_numpy() / 1e9
    delay_ms = (passed["gone"] - passed["come"]).to_numpy() / 1e6
    assert len(at_s) > 10_000
    samples = [sample(known, at_s, seed) for seed in range(1, 6)]
    no_loss = replace(known, loss=[], bursts=None)
    engine = Points(at_s, delay_ms)
    assert (
        distance(engine.delays, Distribution.pooled([sample(no_loss, at_s, n) for n in range(1, 6)])) < 0.04
    )
    lags = [0.05, 0.1, 0.2]
    drawn = np.mean([autocorrelation(one, lags) for one in samples], axis=0)
    assert autocorrelation(engine, lags) == pytest.approx(drawn, abs=0.06)
    arrived = steps.filter(pl.col("stage") == 0).height
    lost = steps.filter((pl.col("stage") == kinds.index("loss")) & (pl.col("dropped") != "")).height
    assert lost / arrived == pytest.approx(np.mean([one.lost for one in samples]), rel=0.15)
