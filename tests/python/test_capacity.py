"""How many users fit: the search, its criterion, and small searches end to end with closed forms."""

from __future__ import annotations

import itertools
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.capacity import parse_config, resolve_access
from bentpipe.capacity.binding import find_binding
from bentpipe.capacity.config import STEP, CapacityConfig, user_counts
from bentpipe.capacity.estimate import Estimate
from bentpipe.capacity.headline import headline_text, supporting_text
from bentpipe.capacity.quality import Quality, read_quality
from bentpipe.capacity.search import Capacity, Evaluation, Probe, find_limits
from bentpipe.metrics.call_quality import rate_calls
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.store.reader import open_store
from commands import bentpipe
from nightly import keep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CALL_BIT_S = 80_000
"""G.711: 160 B of speech, 12 B of RTP and 28 B of UDP and IPv4 every 20 ms."""

CALLS = ["capacity", "--down", "1Mbit/s", "--up", "1Mbit/s", "--rtt", "60ms", "--mix", "call"]


# --- the search ---------------------------------------------------------------------------------------------


@given(
    st.integers(1, 300),
    st.dictionaries(st.integers(1, 9), st.integers(-1, 299), min_size=1),
    st.integers(-5, 400),
)
def test_the_search_finds_every_limit(size: int, limits: dict[int, int], start: int) -> None:
    """Any limits of the seeds, from any start: exact, no probe twice, few of them."""
    limits = {seed: min(limit, size - 1) for seed, limit in limits.items()}
    probed: list[Probe] = []

    def holds(probes: Sequence[Probe]) -> Mapping[Probe, bool]:
        probed.extend(probes)
        return {probe: probe.index <= limits[probe.seed] for probe in probes}

    assert find_limits(size, list(limits), start, holds) == limits
    assert len(set(probed)) == len(probed)
    # doubling up to the limit and bisecting what it left, and three numbers of users that all seeds run
    assert all(sum(probe.seed == seed for probe in probed) <= 2 * math.log2(size + 1) + 6 for seed in limits)
    middle = sorted(limits.values())[(len(limits) - 1) // 2]
    for index in {min(limits.values()), middle, middle + 1} & set(range(size)):
        assert {probe.seed for probe in probed if probe.index == index} == set(limits), index


@given(st.integers(2, 40), st.lists(st.sets(st.integers(0, 39)), min_size=1, max_size=7), st.integers(0, 39))
def test_a_limit_is_below_every_failure(size: int, failures: list[set[int]], start: int) -> None:
    """Without monotony: everything below a limit that ran holds, and the next number fails."""
    outcomes: dict[Probe, bool] = {}

    def holds(probes: Sequence[Probe]) -> Mapping[Probe, bool]:
        assert not outcomes.keys() & set(probes)
        found = {probe: probe.index not in failures[probe.seed] for probe in probes}
        outcomes.update(found)
        return found

    for seed, limit in find_limits(size, range(len(failures)), start, holds).items():
        assert limit < 0 or outcomes[Probe(limit, seed)]
        assert limit == size - 1 or not outcomes[Probe(limit + 1, seed)]
        assert all(held for probe, held in outcomes.items() if probe.seed == seed and probe.index <= limit)


@given(st.lists(st.integers(0, 20), min_size=4, max_size=4).filter(any))
def test_numbers_of_users_grow_kind_by_kind(parts: list[int]) -> None:
    whole = sum(parts)
    kinds = ("tcp", "quic", "call", "page")
    mix = {kind: part / whole for kind, part in zip(kinds, parts, strict=True)}
    counts = user_counts(mix)
    assert all(set(count) == {kind for kind in kinds if mix[kind]} for count in counts)
    assert all(min(count.values()) >= 1 for count in counts)
    for before, after in itertools.pairwise(counts):
        assert all(after[kind] >= number for kind, number in before.items())
        assert (
            sum(before.values())
            < sum(after.values())
            <= max(sum(before.values()) + 1, STEP * sum(before.values()) + 1)
        )
    assert sum(counts[-1].values()) > 10_000 / STEP


@pytest.mark.parametrize(("share", "value"), [(1.0, 1.0), (0.95, 2.0), (0.9, 3.0), (0.5, 11.0), (0.01, 20.0)])
def test_a_share_of_the_users_has_a_value(share: float, value: float) -> None:
    """19 users are 95 % of 20: the worst of these has the value."""
    assert Quality(tuple(float(score) for score in range(20, 0, -1))).mos_of(share) == value
    assert Quality(page_s=tuple(float(at) for at in range(1, 21))).page_of(share) == 21 - value


def test_both_parts_of_a_criterion_must_hold() -> None:
    criterion = _config(mos=3.5, page="3 s").criterion
    assert Quality((3.5,) * 19 + (1.0,), (3.0,) * 19 + (9.0,)).failures(criterion) == ()
    assert Quality((3.5,) * 18 + (1.0,) * 2, (3.0,)).failures(criterion) == ("mos",)
    assert Quality((4.0,), (3.0, 3.1)).failures(criterion) == ("page",)
    assert Quality().failures(criterion) == ("mos", "page"), "nobody finished anything"


# --- the sentence --------------------------------------------------------------------------------------------


def _config(**words: Any) -> CapacityConfig:
    access = resolve_access(None, "50Mbit/s", "6Mbit/s", "620ms")
    return parse_config(access, **{"mos": 3.5, "page": "8 s"} | words)


def _result(limits: Sequence[int], largest: int = 10_000, **words: Any) -> Capacity:
    bad = Quality((2.5,), (9.25,))
    users = sorted(limits)[(len(limits) - 1) // 2] + 2
    evaluations = [
        Evaluation(
            users, {"call": users // 2, "page": users // 2}, seed, bad, ("page",) if limit < users else ()
        )
        for seed, limit in enumerate(limits, start=1)
        if users <= largest
    ]
    return Capacity(
        _config(**words), tuple(evaluations), dict(enumerate(limits, start=1)), 2, largest,
        Estimate({"down": 5e7, "up": 6e6}, {"down": 1e5, "up": 1e4}), "test",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "words", "message"),
    [
        ((40, 41, 42, 43, 44, 60), {}, "42 users fit (median of 6 seeds, 95 % interval 40 to 60): 95 % of each kind have a MOS of at least 3.5 and a page load time"),
        ((3, 13, 13, 14, 14, 15, 16, 17, 90), {}, "14 users fit (median of 9 seeds, 95 % interval 13 to 17)"),
        ((40, 42, 44), {}, "42 users fit (median of 3 seeds, which range from 40 to 44)"),
        ((41, 41), {"page": "3s"}, "41 users fit, and 43 do not, in each of 2 seeds: 95 % of each kind have a MOS of at least 3.5 and a page load time of at most 3 s (mix call 50 %, page 50 %)."),
        ((41, 41, 41), {"mos": "none"}, "41 users fit, and 43 do not, in each of 3 seeds: 95 % of each kind have a page load time of at most 8 s"),
        ((41,), {"page": None, "share": "50%"}, "41 users fit, and 43 do not: 50 % of each kind have a MOS of at least 3.5 (mix"),
        ((1,), {"mix": "page"} | {"mos": None}, "1 user fits, and 3 do not: 95 % of each kind have a page load time of at most 8 s (mix page 100 %)"),
        ((0, 0), {}, "Fewer than 2 users fit: with 1 call and 1 page, the page load time is 9.25 s, not at most 8 s"),
        ((0, 4), {"page": "8.5s"}, "the page load time is 9.25 s in 1 of 2 seeds, not at most 8.5 s"),
        ((100, 90, 100), {"largest": 100}, "At least 100 users fit (median of 3 seeds, which range from 90 to 100)"),
    ],
)  # fmt: skip
def test_the_answer_is_a_sentence(limits: Sequence[int], words: dict[str, Any], message: str) -> None:
    result = _result(limits, **words)
    assert message in headline_text(result)
    if not result.is_none and not result.is_bounded_by_search:
        assert "fails by the page load time" in supporting_text(result)
    assert ("one seed gives no confidence interval" in supporting_text(result)) == (len(limits) == 1)


@pytest.mark.parametrize(
    ("limits", "words", "message"),
    [
        ((0, 5, 6, 6, 7, 21), {}, "No number of users meets it in all 6 seeds."),
        (
            (0, 5, 6, 6, 7, 21),
            {},
            "The limits differ by more than half of the result: --seeds 20 is more certain.",
        ),
        ((1, 5, 6, 6, 7, 8), {}, "All 6 seeds meet the criterion up to 1 user."),
        ((10, 11, 12), {}, "A 95 % interval of the median requires --seeds 6."),
        (
            (10,) * 20 + (40,) * 20,
            {},
            "With 12 users the criterion fails by the page load time (20 of 40 seeds).",
        ),
        ((5, 6), {"mos": "none"}, "No MOS is required (--mos)."),
        ((5, 6), {"page": None}, "No page load time is required (--page)."),
    ],
)
def test_uncertainty_and_missing_criteria_are_named(
    limits: Sequence[int], words: dict[str, Any], message: str
) -> None:
    assert message in supporting_text(_result(limits, **words))


@pytest.mark.parametrize(
    ("failed", "busy", "scores", "resources", "message"),
    [
        ("mos", (0.21, 0.15), (3.83, 3.47), ["uplink"], "The uplink binds by bursts: the MOS is 3.83 down and 3.47 up, the mean utilisation is 21 % down and 15 % up."),
        ("mos", (0.97, 0.15), (3.1, 3.47), ["downlink"], "The downlink binds: the MOS is 3.10 down"),
        ("page", (0.91, 0.3), (4.0, 4.0), ["downlink"], "The downlink binds: the mean utilisation is 91 % down and 30 % up."),
        ("page", (0.8, 0.79), (4.0, 4.0), ["downlink", "uplink"], "The downlink and the uplink bind: the mean"),
        ("page", (0.05, 0.02), (4.0, 4.0), ["latency"], "Latency binds, because a page takes round trips: the mean utilisation is 5 %"),
    ],
)  # fmt: skip
def test_the_resource_that_binds_is_named(
    failed: str, busy: tuple[float, float], scores: tuple[float, float], resources: list[str], message: str
) -> None:
    sides = ("down", "up")
    quality = Quality(
        (min(scores),), (9.0,), {side: (score,) for side, score in zip(sides, scores, strict=True)}
    )
    run = Evaluation(7, {"call": 4, "page": 3}, 1, quality, (failed,), dict(zip(sides, busy, strict=True)))
    result = replace(_result((6,)), evaluations=(run,))
    binding = find_binding(result)
    assert binding is not None
    assert binding.resources == resources
    assert message in supporting_text(result)


# --- small searches --------------------------------------------------------------------------------------------


def _data(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "capacity.json").read_text())
    return data


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search for calls alone."""
    folder = tmp_path_factory.mktemp("calls")
    done = bentpipe(folder, *CALLS, "--seeds", "2", "--jobs", "2", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "12 users fit, and 13 do not, in each of 2 seeds: 95 % of each kind have a MOS of at least 3.5"
    )
    assert "upper bound" not in done.stderr, "below 100 Mbit/s it takes no time"
    return folder / "out"


def test_calls_fill_the_link_and_not_more(calls: Path) -> None:
    """The closed form: 12.5 calls of 80 kbit/s on 1 Mbit/s, if nothing else sends. A 13th overloads it."""
    data = _data(calls)
    assert data["estimate"]["load_of_user_bit_s"] == {"down": CALL_BIT_S, "up": CALL_BIT_S}
    assert data["estimate"]["users"] == 1_000_000 // CALL_BIT_S == 12
    assert data["users_by_seed"] == {"1": 12, "2": 12}
    thirteen = [run for run in data["runs"] if run["users"] == 13]
    assert thirteen
    assert all(run["mos"] < 3.5 for run in thirteen)
    by_users = {(run["seed"], run["users"]): run["mos"] for run in data["runs"]}
    for (seed, users), mos in by_users.items():
        assert (mos >= 3.5) == (users <= 12), (seed, users)


def test_the_quality_is_that_of_the_store(calls: Path) -> None:
    """The command `calls` reads the same store; without a warm-up both rate every datagram."""
    config = parse_config(resolve_access(None, "1Mbit/s", "1Mbit/s", "60ms"), mix="call", warm_up="0 s")
    store = open_store(calls / "store")
    runs = store.index["run"].to_list()

    rated = rate_calls(store)
    for run, quality in read_quality(store, runs, config).items():
        worse = pl.col("mos").min()
        of_run = rated.filter(run=run).group_by("flow").agg(worse)
        assert sorted(of_run["mos"].to_list(), reverse=True) == list(quality.mos)


def test_the_scenario_that_ran_is_beside_the_result(calls: Path) -> None:
    plan = build_plan(load_scenario(calls / "scenario.toml"), engine.version(), all_seeds=True)
    store = open_store(calls / "store")
    counts = {int(users) for users in store.index[store.columns[0]].unique().to_list()}
    assert counts == {run["users"] for run in _data(calls)["runs"]}
    assert len(plan.runs) == 2 * len(counts)
    assert {run.id for run in plan.runs} >= set(store.index["run"].to_list())
    for name in ("capacity.html", "brief.html", "capacity.svg", "capacity.pdf"):
        assert (calls / name).stat().st_size > 0


def test_another_criterion_runs_only_what_is_new(calls: Path, tmp_path: Path) -> None:
    """The same runs answer it; a stricter criterion carries no more users."""
    done = bentpipe(tmp_path, *CALLS, "--seeds", "2", "--mos", "4.2", "--out", str(calls), "--json")
    assert done.returncode == 0, done.stderr
    strict = json.loads(done.stdout)
    assert all(limit <= 12 for limit in strict["users_by_seed"].values())
    done = bentpipe(tmp_path, *CALLS, "--seeds", "2", "--out", str(calls))
    assert done.returncode == 0, done.stderr
    assert "\n0 runs in " in done.stdout
    assert " from earlier runs" in done.stdout


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_same_seeds_give_the_same_bytes(calls: Path, tmp_path: Path, jobs: str) -> None:
    assert bentpipe(tmp_path, *CALLS, "--seeds", "2", "--jobs", jobs, "--out", "again").returncode == 0
    for name in ("capacity.json", "capacity.svg", "scenario.toml", "capacity.html"):
        assert (tmp_path / "again" / name).read_bytes() == (calls / name).read_bytes(), name


@pytest.mark.parametrize("how", keep([signal.SIGKILL], [signal.SIGKILL, signal.SIGINT]))
def test_a_search_that_was_ended_resumes(tmp_path: Path, how: signal.Signals) -> None:
    words = [*CALLS, "--seeds", "3", "--jobs", "1", "--out", "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bentpipe.cli", *words],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    runs = tmp_path / "out/store/runs"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(list(runs.glob("*"))) < 2:
        time.sleep(0.01)
    os.killpg(process.pid, how)
    _, error = process.communicate(timeout=60)
    saved = len(list(runs.iterdir()))
    assert saved >= 2
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert f"interrupted: {saved} runs are in out/store; rerun the command to resume" in error.decode()
    assert not (tmp_path / "out/capacity.html").exists()
    done = bentpipe(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert f", {saved} from earlier runs" in done.stdout
    assert bentpipe(tmp_path, *words[:-1], "whole").returncode == 0
    assert (tmp_path / "out/capacity.json").read_bytes() == (tmp_path / "whole/capacity.json").read_bytes()


def test_pages_are_limited_by_their_time_and_bytes(tmp_path: Path) -> None:
    """A page takes its round trips at least; more users than bytes fit in a limit and a pause cannot load in time."""
    own = '[[path.segment]]\nname = "sat"\ndelay = "20 ms"\nboth = { rate = "10 Mbit/s", queue = "1 BDP" }\n'
    page = '[[page.small.object]]\nname = "index"\nsize = "500 kB"\n'
    (tmp_path / "own.toml").write_text(own + page)
    words = ["capacity", "own.toml", "--mix", "page=1", "--seeds", "1", "--set", "flow.page.load.page=small"]
    done = bentpipe(tmp_path, *words, "--page", "2s", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # 5 to 15 s of pause, up to 2 s of load: a user takes at least 500 kB in 17 s
    assert 1 <= found["users"] <= 10e6 * 17 / (8 * 500e3)
    # TCP, TLS, request: three round trips of 40 ms, and 0.4 s of bytes
    assert all(run["page_median_s"] >= 3 * 0.04 + 0.4 for run in found["runs"])
    done = bentpipe(tmp_path, *words, "--page", "0.3s", "--out", "out/capacity-own")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Fewer than 1 users fit: with 1 page, the page load time is ")


def test_above_100_mbit_s_an_estimate_comes_first(tmp_path: Path) -> None:
    words = [
        "capacity",
        "--down",
        "200Mbit/s",
        "--up",
        "250kbit/s",
        "--rtt",
        "60ms",
        "--mix",
        "call",
        "--seeds",
        "1",
    ]
    done = bentpipe(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(
        "upper bound by volume: 3 users fill the uplink (80 kbit/s down and 80 kbit/s up each); queues and round trips usually"
    )
    assert done.stdout.startswith("3 users fit, and 4 do not: ")


def test_a_failed_run_ends_the_search(tmp_path: Path) -> None:
    done = bentpipe(tmp_path, *CALLS, "--seeds", "1", "--set", "limits.events=1000")
    assert done.returncode == 1
    assert done.stderr.startswith("failed: ")
    assert not list(tmp_path.rglob("capacity.html"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "ACCESS: missing, expected a preset"),
        (["geo-konect"], 'ACCESS: no preset "geo-konect"'),
        (["geo-konnect", "--up", "5 Mbit/s"], "--up: cannot be combined with geo-konnect"),
        (["geo-konnect", "--pep", "pooled"], "--pep: requires --down, --up and --rtt"),
        (["--down", "50Mbit/s", "--up", "6Mbit/s"], "--rtt: missing beside --down and --up"),
        (
            ["A", "--pep", "pool"],
            '--pep: no kind of PEP "pool", expected one of: none, plain, pooled, line-rate',
        ),
        (
            ["A", "--mix", "web=60%,call=40%"],
            '--mix: no kind of user "web", expected one of: tcp, quic, call, page',
        ),
        (["A", "--mix", "call=many"], "--mix: found call=many, expected a share"),
        (["A", "--mix", "call=60%3"], "--mix: found call=60%3, expected a share"),
        (
            ["A", "--mix", "tcp"],
            '--page: missing, expected a time such as "5 s": no user of --mix is in a call',
        ),
        (["A", "--mix", "page", "--mos", "3.5"], "--mos: requires users of the kind call in --mix"),
        (["A", "--mix", "call", "--page", "3s"], "--page: requires users of the kind page in --mix"),
        (["A", "--mos", "5"], "--mos: found 5, expected 1 to 4.5 (ITU-T G.107), or none"),
        (["A", "--mos", "good"], "--mos: found good, expected 1 to 4.5"),
        (
            ["A", "--mos", "none"],
            '--page: missing, expected a time such as "5 s": --mos none requires nothing',
        ),
        (["A", "--mix", "call=0.9,page=0.3"], "--mix: found shares that add up to 120 %, expected 100 %"),
        (["A", "--loss", "100%"], '--loss: found "100%", which loses every packet'),
        (["A", "--set", "access.down.loss=1%"], 'no key "access"; did you mean "path.access.down.loss"?'),
        (["A", "--page", "3"], '--page: found "3" without a unit'),
        (["A", "--page", "0s"], '--page: found "0s", expected a time above 0'),
        (["A", "--share", "0"], '--share: found "0", expected a share above 0'),
        (["A", "--share", "95 percent"], '--share: found "95 percent", expected a share'),
        (["A", "--warm-up", "15s"], '--warm-up: found "15s", expected a multiple of 10 s'),
        (
            ["A", "--duration", "20s", "--page", "10s"],
            '--duration: found "20s", expected whole seconds, at least 50 s',
        ),
        (["A", "--set", "seeds=7"], "--set: found seeds, expected the option --seeds"),
        (["A", "--set", "flow.page.load.page=almanac-2042"], "almanac-2042"),
        (["A", "--set", "flow.pages.count=3"], 'no flow "pages"'),
        (["A", "--out", "file"], "--out: file is a file, expected a folder"),
    ],
)
def test_wrong_words_start_nothing(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    numbers = ["--down", "1Mbit/s", "--up", "1Mbit/s", "--rtt", "60ms"]
    done = bentpipe(tmp_path, "capacity", *(numbers if words[:1] == ["A"] else words[:1]), *words[1:])
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ({"page": None}, "capacity-50Mbit-6Mbit-620ms"),
        ({"page": None, "mix": "call=50%,page=0.5", "mos": 4}, "capacity-50Mbit-6Mbit-620ms"),
        ({}, "capacity-50Mbit-6Mbit-620ms-duration=50s"),
        ({"page": None, "mix": "call=3,page=1"}, "capacity-50Mbit-6Mbit-620ms-mix=call75%+page25%"),
        (
            {"settings": ["path.access.down.scheduler=deficit-round-robin"]},
            "capacity-50Mbit-6Mbit-620ms-duration=50s-access.down.scheduler=deficit-round-robin",
        ),
    ],
)
def test_a_default_folder_has_what_changes_the_runs(words: dict[str, Any], folder: str) -> None:
    assert _config(**words).default_folder.as_posix() == f"out/{folder}"


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"mix": "call=3,page=1", "mos": "none", "share": "50%", "seeds": 2},
        {"settings": ["path.access.down.loss=1 %"], "warm_up": "20 s", "duration": "90 s", "mos": 4.1},
    ],
)
def test_the_command_of_a_search_repeats_it(words: dict[str, Any], tmp_path: Path) -> None:
    config = _config(**words)
    given = shlex.split(config.command())[1:]
    found: list[CapacityConfig] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bentpipe.capacity.run", lambda config, *_, **__: found.append(config) or Nothing)
        assert bentpipe(tmp_path, *given).returncode == 0
    assert found == [config]


class Nothing:
    """Output of a search that did not run."""

    shown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    good = True
    page = None


def test_no_users_bring_advice(tmp_path: Path) -> None:
    """A page of many round trips: no number of users meets the criterion, and PEPs save round trips."""
    page = '[[path.segment]]\nname = "access"\ndelay = "150 ms"\n'
    page += 'down = { rate = "20 Mbit/s", queue = "1 BDP" }\nup = { rate = "5 Mbit/s", queue = "1 BDP" }\n'
    page += '[[page.small.object]]\nname = "index"\nsize = "900 kB"\n'
    (tmp_path / "own.toml").write_text(page)
    words = ["capacity", "own.toml", "--set", "flow.page.load.page=small", "--seeds", "2", "--page", "1.2s"]
    done = bentpipe(tmp_path, *words, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Fewer than 2 users fit: with 1 call and 1 page, the page load time is ")
    # three round trips of 300 ms, some of slow start, and 0.36 s of bytes
    assert "One user alone on the path loads the page in 2." in done.stdout
    assert "The page is small (1 request, 0.9 MB)." in done.stdout
    data = _data(tmp_path / "out")
    assert data["users"] == 0
    (alone,) = data["advice"]["single_users"]
    assert alone["value"] > 3 * 0.3 + 0.36
    assert not alone["holds"]
    assert data["advice"]["changes"] == [], "a scenario has its own PEPs, and a scheduler saves no round trip"
    assert "Causes and changes" in (tmp_path / "out/capacity.html").read_text()


def test_another_search_is_refused(calls: Path, tmp_path: Path) -> None:
    words = [*CALLS[:-1], "call=0.5,page=0.5", "--page", "9s", "--out", str(calls)]
    done = bentpipe(tmp_path, *words)
    assert done.returncode == 2
    assert "holds the runs of another scenario" in done.stderr
    assert "duration is 40 s there and 50 s now" in done.stderr
