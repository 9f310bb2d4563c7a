"""Hard use: what a newcomer or a saboteur does ends in one message, never in a traceback, and loses nothing."""

from __future__ import annotations

import json
import random
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from bentpipe.cli.console import print_table
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.spec.run_id import SCHEMA
from bentpipe.runners.worker_process import format_error
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.sweep import overrides
from commands import bentpipe, process
from store_edit import change_plan

DATA = tomllib.loads(Path(__file__).with_name("wrong.toml").read_text())
GEO: str = DATA["scenario"]


def refused(folder: Path, *words: str, status: int = 2) -> str:
    """The message of a command that is refused."""
    done = bentpipe(folder, *words)
    assert done.returncode == status, done
    assert done.stderr.startswith("error: "), done.stderr
    assert "Traceback" not in done.stderr
    assert "BENTPIPE_TRACEBACK" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    (folder / "test.toml").write_text(GEO)
    done = bentpipe(folder, "run", "test.toml", "--jobs", "1", "--out", "store")
    assert done.returncode == 0, done.stderr
    return folder / "store"


@pytest.fixture
def store(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "store"))


HOSTILE = (
    '""', '"x"', "0", "-1", "1e308", "nan", "9223372036854775808", "9" * 5000, "true", "[]", "{}", "[{}]",
    '"1e999 s"', '"-1 s"', '"1e30 Gbit/s"', '"0 packets"', '"1e20 packets"', '"1e300 BDP"', "1979-05-27",
    '"\\u0000\\n"', '"é ☃"', '"٣ ms"', '{ trace = "/" }', "{ name = 3 }", '"T:*1:99999999999999999999996:-:1s"',
    '"D:*1:0:-:8:999999999999999999999999"', "[" * 2000,
)  # fmt: skip


def test_any_value_anywhere_is_refused_by_key_or_taken(tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - chance of a test
    places = [match.span(1) for match in re.finditer(r'= ?("[^"\n]*"|\{[^{}\n]*\})', GEO)]
    for _ in range(300):
        begin, end = chance.choice(places)
        text = GEO[:begin] + chance.choice(HOSTILE) + GEO[end:]
        (tmp_path / "f.toml").write_text(text)
        try:
            plan = build_plan(load_scenario(tmp_path / "f.toml"), "test")
        except ScenarioError as error:
            for key, text in error.problems:
                assert key or "TOML" in text or "cannot be read" in text, (key, text)
                assert len(text) < 800
                assert text.isprintable()
        else:
            spec = re.sub(r'"(\\.|[^"\\])*"', "", plan.runs[0].spec_json())
            numbers = [int(word) for word in re.findall(r"[:,\[](\d+)\b", spec)]
            assert max(numbers) < 2**64, text


@pytest.mark.parametrize(
    ("points", "output"),
    [
        ("", "is empty"),
        ("time_s,delay_ms\n", "has no points"),
        ("time_s,delay_ms\n0,1e400\n", "line 2: found 1e400, expected a delay of at most"),
        ("time_s,delay_ms\n1e30,1\n", "line 2: found 1e30, expected a time"),
        ("time_s,delay_ms\n0,nan\n", "line 2: found nan"),
        ("time_s,delay_ms\n0,1,2\n", "found 3 fields, expected 2"),
        ("\ufefftime_s,delay_ms\r\n0,10\r\n", ""),
    ],
)
def test_traces_of_delay(tmp_path: Path, points: str, output: str) -> None:
    (tmp_path / "d.csv").write_text(points)
    (tmp_path / "f.toml").write_text(GEO.replace('delay = "250 ms"', 'delay = { trace = "d.csv" }'))
    if not output:
        assert build_plan(load_scenario(tmp_path / "f.toml"), "test").runs
        return
    with pytest.raises(ScenarioError) as found:
        build_plan(load_scenario(tmp_path / "f.toml"), "test")
    assert "path.satellite.up.delay" in str(found.value)
    assert output in str(found.value)


@pytest.mark.parametrize("instants", ["0\n", "-1\n", "1.5\n", "9999999999999999999999\n", "x\n", "2\n1\n"])
def test_traces_of_mahimahi(tmp_path: Path, instants: str) -> None:
    (tmp_path / "m.mahi").write_text(instants)
    text = GEO.replace('down = { rate = "10 Mbit/s"', 'down = { trace = "m.mahi"')
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(ScenarioError, match=r"path\.satellite\.down\.trace"):
        build_plan(load_scenario(tmp_path / "f.toml"), "test")


def test_a_sweep_that_nobody_can_run_is_refused_at_once(tmp_path: Path) -> None:
    axes = "\n".join(
        f'"path.satellite.{key}" = {[f"{n} ms" for n in range(1, 101)]}' for key in ("delay", "up.delay")
    )
    axes += f'\n"flow.rival.start" = {[f"{n} ms" for n in range(1, 101)]}'
    (tmp_path / "many.toml").write_text(f"{GEO}\n[sweep]\n{axes}\n")
    assert "1,000,000 cells, expected at most 100,000" in refused(tmp_path, "check", "many.toml")


def test_settings_that_a_sweep_would_override_are_refused(tmp_path: Path) -> None:
    swept = GEO + '\n[sweep]\n"flow.rival.congestion" = ["cubic", "newreno"]\n'
    (tmp_path / "f.toml").write_text(swept)
    output = refused(tmp_path, "check", "f.toml", "--set", "flow.rival.congestion.beta=0.8")
    assert 'the sweep sets all of "flow.rival.congestion"' in output
    (tmp_path / "f.toml").write_text(
        swept.replace("[sweep]", '[sweep]\n"flow.rival.congestion.beta" = [0.7, 0.8]')
    )
    assert "follows and sets the whole table; expected it first" in refused(tmp_path, "check", "f.toml")


@pytest.mark.parametrize(
    ("above", "below", "undone"),
    [
        ("flow.a.congestion", "flow.a.congestion.beta", True),
        ("flow.a.congestion.beta", "flow.a.congestion", False),
        ("flow.a.congestion", "flow.b.congestion.beta", False),
        ("path.s.loss", "path.s.up.loss", True),
        ("path.s.up.loss", "path.s.loss", False),
        ("path.s.delay", "path.s.up.delay", False),
        ("path.s.rate", "path.s.rate", False),
    ],
)
def test_which_keys_undo_which(above: str, below: str, undone: bool) -> None:
    assert overrides(above, below) is undone


def test_an_error_outside_the_sweep_does_not_name_the_sweep(tmp_path: Path) -> None:
    text = GEO + '\n[sweep]\n"flow.rival.congestion" = ["cubic", "newreno"]\n'
    (tmp_path / "f.toml").write_text(text.replace('delay = "250 ms"', 'delay = "250"'))
    assert "in the sweep" not in refused(tmp_path, "check", "f.toml")
    (tmp_path / "f.toml").write_text(text.replace('"newreno"]', '"newrno"]'))
    assert "in the sweep, with flow.rival.congestion = newrno" in refused(tmp_path, "check", "f.toml")


@pytest.mark.parametrize(
    "plan",
    ["{}", "[1]", '"x"', "", '{"title": "", "engine": "", "schema": 2, "overrides": [], "runs": [{}]}'],
)
def test_a_plan_that_is_none(store: Path, plan: str) -> None:
    (store / "plan.json").write_text(plan)
    for words in (
        ["show", "store"],
        ["report", "store"],
        ["query", "store", "SELECT 1"],
        ["export", "store", "-f", "csv"],
    ):
        assert "plan.json cannot be read" in refused(store.parent, *words)


@pytest.mark.parametrize(
    ("schema", "message"),
    [(SCHEMA + 1, "a newer bentpipe reads it"), (1, "run its scenario again into a new directory")],
)
def test_a_store_of_another_schema(store: Path, schema: int, message: str) -> None:
    change_plan(store, schema=schema)
    for words in (["show", "store"], ["query", "store", "SELECT 1"], ["report", "store"]):
        assert message in refused(store.parent, *words)


def test_a_damaged_table_is_named_and_made_again(store: Path) -> None:
    (table,) = store.glob("runs/*/flow_summary.parquet")
    whole = table.read_bytes()
    table.write_bytes(b"junk")
    for words in (
        ["show", "store"],
        ["query", "store", "SELECT * FROM flow_summary"],
        ["export", "store", "-f", "json"],
    ):
        assert f"{table.parent.name}/flow_summary.parquet is damaged" in refused(store.parent, *words)
    table.write_bytes(whole)
    assert "scenario.toml is missing" in _without_scenario(store)
    table.write_bytes(b"junk")
    (store.parent / "test.toml").write_text(GEO)
    done = bentpipe(store.parent, "run", "test.toml", "--out", "store", "--json")
    assert json.loads(done.stdout)["done"] == 1


def _without_scenario(store: Path) -> str:
    text = (store / "scenario.toml").read_bytes()
    (store / "scenario.toml").unlink()
    output = refused(store.parent, "report", "store")
    (store / "scenario.toml").write_bytes(text)
    return output


def test_places_that_cannot_be_written(store: Path) -> None:
    folder = store.parent
    (folder / "file").write_text("")
    for words in (
        ["report", "store", "-o", "."],
        ["report", "store", "-o", "file/x.html"],
        ["export", "store", "-f", "csv", "-o", "file"],
        ["export", "store", "-f", "ods", "-o", "."],
        ["export", "store", "-f", "ods", "--template", "nothing.ods"],
        ["run", "store"],
        ["run", "nothing.toml", "--cluster", "dask://"],
    ):
        refused(folder, *words)


def test_queries_that_answer_nothing_and_columns_of_one_name(store: Path) -> None:
    assert bentpipe(store, "query", ".", ";").stdout == "(no rows)\n"
    done = bentpipe(
        store, "query", ".", "SELECT 1 AS a, 'nan'::DOUBLE AS a, 1.5::DECIMAL(4, 1) AS b", "--json"
    )
    assert json.loads(done.stdout) == [{"a": 1, "a_2": None, "b": 1.5}]


BROKEN = {
    "raises": (
        "def on_event(self, now, event): return 1 / 0",
        1,
        "ZeroDivisionError: division by zero (mine.py, line 4",
    ),
    "answers": ("def on_event(self, now, event): return 'many'", 1, "answers with bytes, a whole number"),
    "syntax": ("def on_event(", 2, "cannot be imported: "),
    "ends": ("import sys; sys.exit(3)", 2, "cannot be imported: SystemExit"),
    "none": ("pass", 2, "mine.py: no controller class, expected one with a method on_event"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_check_cc_of_a_broken_controller(tmp_path: Path, kind: str) -> None:
    body, status, output = BROKEN[kind]
    (tmp_path / "mine.py").write_text(
        f"class Mine:\n    def __init__(self, config):\n        pass\n    {body}\n"
    )
    assert output in refused(tmp_path, "check-controller", "mine.py", status=status)


def test_an_error_of_a_controller_names_its_line() -> None:
    with pytest.raises(KeyError) as found:
        {}["x"]
    assert re.fullmatch(r"KeyError: 'x' \(test_hard_use\.py, line \d+, in .*\)", format_error(found.value))


def test_tables_break_no_word(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "congestion": "newreno",
        "controller": "newreno",
        "goodput Mbit/s": "8.54 ± 0.45",
        "queueing p95 ms": 501.2,
    }
    monkeypatch.setattr("bentpipe.cli.console.DEFAULT_WIDTH", 40)
    print_table([row])
    shown = capsys.readouterr().out
    for word in ("congestion", "controller", "goodput", "Mbit/s", "queueing", "p95 ms", "8.54 ± 0.45"):
        assert word in shown
    print_table([{"number": 1, "words": "a sentence of many words that is far longer than the page is wide"}])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_a_preset_can_be_set(tmp_path: Path) -> None:
    text = 'duration = "1 s"\n[path]\npreset = "geo-konnect"\n[[flow]]\nname = "a"\ncongestion = "cubic"\n'
    (tmp_path / "f.toml").write_text(text)
    done = bentpipe(tmp_path, "check", "f.toml", "--set", "path.preset=starlink", "--json")
    (bound,) = json.loads(done.stdout)["bounds"]
    assert bound["min_rtt_ms"] < 100
    assert 'did you mean "starlink"' in refused(tmp_path, "check", "f.toml", "--set", "path.preset=starlnk")


def test_a_regression_is_exit_status_1_and_a_short_table(good: Path, tmp_path: Path) -> None:
    (tmp_path / "test.toml").write_text(GEO)
    slower = ("--set", "path.satellite.up.rate=2 Mbit/s", "--out", "slower")
    for words in (("--out", "before"), slower):
        assert bentpipe(tmp_path, "run", "test.toml", "--seeds", "5", "--jobs", "1", *words).returncode == 0
    done = bentpipe(tmp_path, "diff", "before", "slower")
    assert done.returncode == 1, done.stderr
    assert "goodput Mbit/s" in done.stdout
    assert "regression" in done.stdout
    assert max(map(len, done.stdout.splitlines()[1:])) <= 100
    assert bentpipe(tmp_path, "diff", str(good), str(good)).returncode == 0


def test_a_terminal_without_the_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f.toml").write_text(GEO.replace('title = "test"', 'title = "snow ☃"'))
    # the interpreter reads it as it starts
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert "snow ?: 1 cell" in process(tmp_path, "check", "f.toml").stdout


def test_version_and_one_cell(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(GEO)
    assert re.match(r"bentpipe \d+\.\d+", bentpipe(tmp_path, "--version").stdout)
    assert "test: 1 cell, 1 run, 2 s" in bentpipe(tmp_path, "check", "f.toml").stdout
    assert "..." not in bentpipe(tmp_path, "--help").stdout.split("Simulate:")[1]
