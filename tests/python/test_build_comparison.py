"""``bentpipe compare-builds``: what it refuses, its pairs, its answer, and a build that is worse by a known amount."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import commands
import realtime
from bentpipe.build_comparison import command_pairs
from bentpipe.build_comparison.build import build_of, name_controllers
from bentpipe.build_comparison.markdown import markdown
from bentpipe.lab.command_timing import CommandError
from bentpipe.metrics.compare import Criteria
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

SHARES = [(5.0, 4.0), (5.3, 3.8), (4.9, 4.2), (5.1, 4.1), (5.2, 3.9), (5.0, 4.3)]
TENTH = (0.9, 0.91, 0.89, 0.9, 0.905, 0.895)
"""A change of goodput by a tenth, seed by seed."""

SCENARIO = """
title = "one"
duration = "2 s"
seeds = 2
[[path.segment]]
name = "link"
delay = "5 ms"
both = { rate = "10 Mbit/s", loss = "0.5 %" }
[[flow]]
name = "main"
congestion = "cubic"
direction = "up"
load = { time = "2 s" }
"""


@pytest.fixture(scope="module")
def stores(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario beside two stores, ``a`` and ``b``, in which one flow of ``b`` has a tenth less, and ``newer``."""
    folder = tmp_path_factory.mktemp("stores")
    synthetic.pair_store(folder / "a", SHARES)
    synthetic.pair_store(
        folder / "b", [(tenth * one, other) for (one, other), tenth in zip(SHARES, TENTH, strict=True)]
    )
    synthetic.pair_store(folder / "c", SHARES, {"path.satellite.delay": "1 s"})
    plan = folder / "newer/plan.json"
    shutil.copytree(folder / "a", folder / "newer")
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"schema": 99, "engine": "9.9"}))
    (folder / "s.toml").write_text(SCENARIO)
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "s.toml --before nothing",
            '--before: no file or folder "nothing", expected the folder of a virtual',
        ),
        ("s.toml --before s.tomm", 'or a store; did you mean "s.toml"?'),
        ("s.toml --before .", '--before: "." has no bin/bentpipe and no plan.json, expected the folder of'),
        (
            "s.toml --before s.toml",
            '--before: "s.toml" is not an executable, expected the folder of a virtual',
        ),
        ("s.toml --before cubik", 'or a built-in one, or a store; did you mean "cubic"?'),
        ("s.toml --before main=cubik", 'did you mean "main=cubic"?'),
        ("s.toml --before cubic --after nothing.py:Mine", '--controller: no file "nothing.py"'),
        ("s.toml --before a --after newer", "newer was created by engine 9.9, schema 99, expected schema "),
        ("s.toml --before a --after c", "a and c have no run in common (same cell and seed)"),
        ("s.toml --before a --after b --metric plt_s", "a and b have no plt_s"),
        (
            "no.toml --before a",
            "no.toml: no such file, expected a scenario; an access requires -- and a command",
        ),
        (
            "s.toml --before a --metric goodput",
            '--metric: no metric "goodput", expected one of: goodput_bit_s',
        ),
        ("s.toml --before a --threshold 5s", '--threshold: found "5s": no unit "s", expected a percentage'),
        ("s.toml --before a --threshold plt=5%", '--threshold: no metric "plt", expected one of: '),
        ("s.toml --before a --confidence 100%", '--confidence: found "100%", expected from 50 % to 99.9 %'),
        ("s.toml --before a --runs 7", "--runs: requires a command after --"),
        ("s.toml --before a --summary no/s.md", "--summary: no/s.md cannot be written, expected a file in"),
        (
            "lte-4g --before a -- ls {}",
            "--after: missing, expected the second value of {}",
        ),
        ("lte-4g --before a --after b -- ls", "CMD: found no {}, expected it where the builds differ"),
        ("lte-4g --before a --after b --", "CMD: missing, expected -- and a command after the accesses"),
        ("lte-4g --before a --after b -- no-{}", 'CMD: command "no-a" not found, or not executable'),
        ("lte-4h --before a --after b -- ls {}", 'ACCESS: no preset "lte-4h", expected one of: adsl, '),
        (
            "lte-4g --before a --after b --seeds 3 -- ls {}",
            "--seeds: cannot be combined with a command, wh",
        ),
        ("lte-4g --before a --after b --timeout 3 -- ls {}", '--timeout: found "3" without a unit, expected'),
        (
            "lte-4g --before a --after b --metric jain -- ls {}",
            '--metric: no metric "jain", expected one of: com',
        ),
    ],
)
def test_bad_input_is_one_message_and_leaves_nothing(stores: Path, words: str, message: str) -> None:
    before = set(stores.iterdir())
    done = commands.bentpipe(stores, "compare-builds", *words.split())
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert set(stores.iterdir()) == before


def program(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(place.stat().st_mode | stat.S_IXUSR)
    return place


def test_a_build_is_known_by_what_it_is(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "ours")
    other = program(tmp_path / "venv/bin/bentpipe", "exit 1")
    engine = tmp_path / "_engine.abi3.so"
    engine.touch()
    for word in (tmp_path / "venv", other):
        build = build_of("after", str(word))
        assert build.command == (str(other),)
        assert "PYTHONPATH" not in build.environment, "another installation would run with this one's modules"
    assert build_of("after", str(engine)).environment["BENTPIPE_ENGINE"] == str(engine)
    for word, controller in (
        ("mine=old/cc.py:Mine", ("mine", "old/cc.py:Mine")),
        ("mine=cc.py", ("mine", "cc.py")),
        ("cc.py:Mine", ("", "cc.py:Mine")),
        ("mine=cubic", ("mine", "cubic")),
        ("bbr", ("", "bbr")),
    ):
        assert build_of("after", word).controller == controller
    assert build_of("after", str(stores / "a")).store == stores / "a"
    assert build_of("after", None).command[0] == sys.executable
    with pytest.raises(ScenarioError, match="after: no file or folder"):
        build_of("after", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("before", "after", "options"),
    [
        ("mine=a.py", "mine=b.py:B", ("--controller mine=a.py", "--controller mine=b.py:B")),
        ("cubic", "mine=b.py", ("--controller mine=cubic", "--controller mine=b.py")),
        (
            "cubic",
            "b.py:Mine",
            (
                "--set flow.x.congestion=cubic --set flow.y.congestion=cubic",
                "--controller Mine=b.py:Mine --set flow.x.congestion=Mine --set flow.y.congestion=Mine",
            ),
        ),
        (
            "bbr.py",
            None,
            (
                "--controller user-bbr=bbr.py --set flow.x.congestion=user-bbr --set flow.y.congestion=user-bbr",
                "",
            ),
        ),
    ],
)
def test_a_controller_of_one_side_has_the_name_of_the_other(
    before: str, after: str | None, options: tuple[str, str]
) -> None:
    named = name_controllers(build_of("before", before), build_of("after", after), {"x": False, "y": False})
    assert tuple(" ".join(build.options) for build in named) == options


@pytest.mark.nightly
def test_controllers_of_every_flow_keep_their_names(tmp_path: Path) -> None:
    """The stores and the headline have the names of the controllers; a second comparison keeps the first."""
    (tmp_path / "held_cc.py").write_text(OWN)
    (tmp_path / "s.toml").write_text(SCENARIO + '[sweep]\n"flow.main.congestion" = ["cubic", "newreno"]\n')
    words = ["compare-builds", "s.toml", "--jobs", "1", "--metric", "goodput_bit_s", "--json"]
    for before in ("cubic", "newreno"):
        done = commands.process(
            tmp_path, *words, "--seeds", "5", "--before", before, "--after", "held_cc.py:Held"
        )
        assert done.returncode == 1, done.stderr
        found = json.loads(done.stdout)
        assert found["messages"][0].startswith("Worse: goodput of main (up) is 0.")
        assert f"({before} before, Held after)" in found["messages"][-1] or len(found["messages"]) == 1
    stores = {store.name for store in (tmp_path / "out/compare-builds-s").iterdir()}
    assert stores == {"before-cubic", "before-newreno", "after-Held"}


def test_few_seeds_are_no_pass(tmp_path: Path) -> None:
    (tmp_path / "held_cc.py").write_text(OWN)
    (tmp_path / "s.toml").write_text(SCENARIO)
    words = ["compare-builds", "s.toml", "--jobs", "1", "--before", "cubic", "--after", "held_cc.py"]
    done = commands.process(tmp_path, *words)
    assert done.returncode == 3, done.stderr
    assert "\nUndecided: " in done.stdout
    assert "too few seeds (2 of 5)" in done.stdout
    done = commands.process(tmp_path, *words, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["worse"], found["undecided"]) == (3, False, True)


def test_a_controller_for_every_flow_needs_a_second_one_beside_a_sweep(tmp_path: Path) -> None:
    (tmp_path / "held_cc.py").write_text(OWN)
    (tmp_path / "s.toml").write_text(SCENARIO)
    words = ["compare-builds", "s.toml", "--before", "held_cc.py:Held"]
    done = commands.bentpipe(tmp_path, *words, "--sweep", "flow.main.congestion=cubic,bbr")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --after: missing, expected a second controller such as cubic: ")
    assert "the scenario sweeps flow.main.congestion, and --before held_cc.py:Held replaces" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("mine=held_cc.py", 'a flow names its controller by its key, flow.main.congestion = "mine"'),
        ("main=held_cc.py:Held", '"main" is a flow; a flow names its controller by its key, flow.main.'),
        ("kubic=held_cc.py", 'expected a controller of the flows: cubic; did you mean "cubic"?'),
        ("mine=bbr", 'no flow has the controller "mine", expected a controller of the flows: cubic; '),
    ],
)
def test_a_controller_that_no_flow_has_is_an_error(tmp_path: Path, word: str, message: str) -> None:
    (tmp_path / "held_cc.py").write_text(OWN)
    (tmp_path / "s.toml").write_text(SCENARIO)
    for words in (["run"], ["check"]):
        done = commands.bentpipe(tmp_path, *words, "s.toml", "--controller", word)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: --controller: no flow has the controller ")
        assert message in done.stderr
    done = commands.bentpipe(tmp_path, "compare-builds", "s.toml", "--before", word, "--after", word)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --before: {word}: --controller: no flow has the controller ")
    assert not (tmp_path / "out").exists()


OWN = """
class Held:
    def __init__(self, config):
        pass

    def on_event(self, now, event):
        return 4 * 1200
"""


@pytest.mark.nightly
def test_built_in_controllers_are_compared_where_the_change_touches(tmp_path: Path) -> None:
    """Two cells of three have other controllers: they are left out, and equal builds touch nothing."""
    (tmp_path / "held_cc.py").write_text(OWN)
    text = SCENARIO.replace('congestion = "cubic"', 'congestion = "mine"').replace("seeds = 2", "seeds = 5")
    (tmp_path / "s.toml").write_text(
        text + '[sweep]\n"flow.main.congestion" = ["cubic", "mine", "newreno"]\n'
    )
    words = ["compare-builds", "s.toml", "--jobs", "1", "--metric", "goodput_bit_s"]
    done = commands.process(tmp_path, *words, "--before", "newreno", "--after", "mine=held_cc.py", "--json")
    found = json.loads(done.stdout)
    assert [change["cell"] for change in found["changes"]] == [{"flow.main.congestion": "mine"}]
    assert found["changes"][0]["verdict"] == "regression"
    assert any(
        "no run of 2 cells, which the comparison leaves out (10 runs)" in text for text in found["messages"]
    )
    assert not any("no counterpart" in text for text in found["messages"])
    done = commands.process(
        tmp_path, *words, "--before", "mine=cubic", "--after", "cubic", "--out", "same", "--json"
    )
    found = json.loads(done.stdout)
    assert len(found["changes"]) == 3
    assert not found["worse"]
    assert "The change touches no run: both builds make the same runs." in found["messages"]


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ('echo "error: s.toml: no key" >&2; exit 2', "other: s.toml: no key"),
        ('echo "Killed" >&2; exit 137', "other: Killed"),
        ("exit 3", "other: it ended with status 3"),
        ("echo hello", "other is not bentpipe: `check --json` failed"),
    ],
)
def test_the_errors_of_a_build_name_the_build(stores: Path, does: str, message: str) -> None:
    program(stores / "other", does)
    try:
        done = commands.bentpipe(stores, "compare-builds", "s.toml", "--before", "a", "--after", "other")
        assert (done.returncode, done.stderr) == (2, f"error: --after: {message}\n")
        assert not (stores / "out").exists()
    finally:
        (stores / "other").unlink()


def test_a_build_that_cannot_run_leaves_no_answer(stores: Path) -> None:
    """It accepts the scenario and then ends without a run; its message has the reason, and names the build."""
    checks = '{ [ "$1" = check ] && echo "{\\"engine\\": \\"7\\"}"; } || exit 3'
    program(stores / "other", checks)
    try:
        done = commands.bentpipe(
            stores, "compare-builds", "s.toml", "--before", "other", "--after", "a", "--summary", "s.md"
        )
        assert done.returncode == 2
        assert done.stderr == (
            "before: other, engine 7, into out/compare-builds-s/before\n"
            "error: before: `run` of other ended with status 3\n"
        )
        assert not (stores / "s.md").exists()
    finally:
        (stores / "other").unlink()


def test_an_engine_that_does_not_load(tmp_path: Path) -> None:
    """Errors of ``check`` name the build, as all errors do."""
    from bentpipe.runners import engine

    for name, why in (
        ("old.so", "does not load: "),
        ("old.txt", "is not an engine, expected a file such as "),
    ):
        file = tmp_path / name
        file.write_text("no library")
        with pytest.raises(ImportError) as wrong:
            engine._load_file(str(file))
        assert str(wrong.value).startswith(f'BENTPIPE_ENGINE: "{file}" {why}')


def test_a_tenth_less_is_worse_unless_it_may_be(stores: Path, tmp_path: Path) -> None:
    step = tmp_path / "step.md"
    step.write_text("what stood there before\n")
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(step)}
    words = ["compare-builds", "s.toml", "--before", "a", "--after", "b"]
    summary = ["--summary", str(tmp_path / "s.md")]
    done = commands.bentpipe(stores, *words, *summary, environment=environment)
    assert done.returncode == 1, done.stderr
    assert "Worse: goodput of first (up) is 0.9 [0.893, 0.907] times the previous value" in done.stdout
    text = (tmp_path / "s.md").read_text()
    assert step.read_text() == "what stood there before\n" + text
    assert text.startswith("### s.toml: a → b\n\nWorse: goodput of first (up) is 0.9 [0.893, 0.907] times")
    rows = [line for line in text.split("<details>")[0].splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[-1] for row in rows[2:]].count("regression |") >= 1
    assert "goodput Mbit/s" in rows[2]
    assert all(row.count("|") == rows[0].count("|") for row in rows)
    assert "Before: `a` (engine 1.2.3); after: `b` (engine 1.2.3)." in text
    turned = ["s.toml", "--before", "b", "--after", "a", "--metric", "goodput_bit_s"]
    back = commands.bentpipe(stores, "compare-builds", *turned, "--json")
    assert back.returncode == 0, "better is not worse"
    assert json.loads(back.stdout)["messages"][0].startswith(
        "Better: goodput of first (up) is 1.11 [1.1, 1.12]"
    )
    assert json.loads(back.stdout)["worse"] is False
    for option, status in (("goodput_bit_s=9 %", 1), ("11 %", 0)):
        done = commands.bentpipe(stores, *words, "--metric", "goodput_bit_s", "--threshold", option, "--json")
        assert done.returncode == status, option
        assert {change["metric"] for change in json.loads(done.stdout)["changes"]} == {"goodput_bit_s"}
    less = commands.bentpipe(stores, "diff", "a", "b", "--metric", "goodput_bit_s", "--threshold", "11 %")
    assert less.returncode == 0, "diff has the same words"


def test_an_engine_of_a_file_makes_the_same_runs(tmp_path: Path) -> None:
    """A copy of this one: a build that does the same differs by nothing at all."""
    from bentpipe import _engine

    (tmp_path / "s.toml").write_text(SCENARIO)
    assert commands.bentpipe(tmp_path, "run", "s.toml", "--jobs", "1", "--out", "baseline").returncode == 0
    engine = str(shutil.copy(str(_engine.__file__), tmp_path / "old.so"))
    words = ["--before", "baseline", "--after", engine, "--jobs", "1", "--json"]
    done = commands.bentpipe(tmp_path, "compare-builds", "s.toml", *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"after: {engine}, engine ")
    answer = json.loads(done.stdout)
    assert answer["messages"] == [
        f"None of {len(answer['changes'])} comparisons shows a change.",
        "The change touches no run: both builds make the same runs.",
    ]
    assert {(one["verdict"], one["before"] == one["after"]) for one in answer["changes"]} == {("none", True)}
    made = (tmp_path / "baseline/runs", tmp_path / "out/compare-builds-s/after/runs")
    first, second = (
        {run.name: (run / "SHA256SUMS").read_bytes() for run in place.iterdir()} for place in made
    )
    assert len(first) == 2
    assert first == second


def ran_of(times: dict[str, float], late: list[int], order: list[str]) -> Any:
    """In the place of a lab: what each build takes, by its word, and turns that are too late."""

    @contextlib.contextmanager
    def ran(_path: object, words: list[str], **_how: object) -> Iterator[SimpleNamespace]:
        order.append(words[-1])
        status = 3 if words[-1] == "broken" else 0
        valid = len(order) not in late
        took = times.get(words[-1], 1.0) + len(order) / 100
        yield SimpleNamespace(
            status=status,
            seconds=took,
            valid=valid,
            up_bytes=10,
            down_bytes=20,
            last_line=lambda: ": no luck",
        )

    return ran


def test_rounds_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is first in every second round; one that does not count, and one that was too late, are no pairs."""
    order: list[str] = []
    monkeypatch.setattr(command_pairs, "run_command", ran_of({"old": 1.0, "new": 1.5}, [5], order))
    work = command_pairs.Workload(["true", "{}"])
    how: dict[str, Any] = {"confidence": 0.95, "criteria": Criteria()}
    found = command_pairs.regress("ftth", "old", "new", work, runs=5, warmup=1, **how)
    assert order == ["old", "new", "new", "old", "old", "new", *["new", "old", "old", "new"] * 2]
    changes = {change.metric: change for change in found.comparison.changes}
    assert {change.seeds for change in changes.values()} == {5}
    assert changes["command_s"].before == pytest.approx(1 + (4 + 8 + 9 + 12 + 13) / 500)
    assert changes["command_s"].after == pytest.approx(1.5 + (3 + 7 + 10 + 11 + 14) / 500)
    assert [changes[name].verdict for name in ("command_s", "up_bytes")] == ["regression", "none"]
    assert found.worse
    text = markdown("ftth: old → new", found, "")
    assert "Worse: wall time is 1." in text
    assert "| metric | rounds |" in text
    assert "| wall time s | 5 |" in text
    monkeypatch.setattr(command_pairs, "run_command", ran_of({}, list(range(1, 99)), []))
    with pytest.raises(command_pairs.DeadlineMissedError, match="missed its deadlines in 6 of 6 rounds"):
        command_pairs.regress("ftth", "old", "new", work, runs=3, warmup=0, **how)
    with pytest.raises(CommandError, match="true broken ended with status 3: no luck"):
        command_pairs.regress("ftth", "old", "broken", work, runs=3, warmup=0, **how)


def test_names_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_pairs, "run_command", ran_of({}, [], []))
    work = command_pairs.Workload(["true", "{}"])
    found = command_pairs.regress("ftth", "a|b`<i>", "c", work, runs=2, confidence=0.95, criteria=Criteria())
    text = markdown("*a|b* [x](http://y) <b>", found, "")
    assert text.startswith("### \\*a\\|b\\* [x\\](http://y) \\<b\\>\n")
    assert "Before: `` a|b`<i> ``; after: `c`." in text
    assert "Too few rounds for a verdict in 1 of 3 comparisons: it takes 5 (--runs 5)." in text


SERVE = "import socket\ns = socket.create_server(('', 9000))\nwhile True:\n c = s.accept()[0]; c.sendall(bytes({})); c.close()"
FETCH = "import socket, sys\nc = socket.create_connection((sys.argv[1], 9000))\nwhile c.recv(65536): pass"


@pytest.mark.lab
def test_a_server_that_sends_twice_as_much_is_worse_by_its_bytes() -> None:
    realtime.need_namespaces()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENTPIPE_RT", str(realtime.program()))
        serve = f'{sys.executable} -S -c "{SERVE.format("{}")}"'
        fetch = [sys.executable, "-S", "-c", FETCH, "{server}"]
        work = command_pairs.Workload(fetch, server=serve, listens=9000, timeout_s=20)
        until = time.monotonic() + 60

        def judge(_: int) -> list[str]:
            while True:
                try:
                    found = command_pairs.regress(
                        "ftth", "20000", "40000", work, runs=5, warmup=0, confidence=0.95, criteria=Criteria()
                    )
                    break
                except command_pairs.DeadlineMissedError as late:
                    if time.monotonic() > until:
                        realtime.give_up(str(late))
            down = next(change for change in found.comparison.changes if change.metric == "down_bytes")
            assert down.before > 20_000
            assert down.after > 40_000
            assert down.verdict == "regression"
            # who waits for a processor takes a segment for lost, and sends it again
            again = down.before >= 22_000 or down.after >= 43_000
            return [f"{down.before:.0f} B before, {down.after:.0f} after"] if again else []

        realtime.tried(judge)
