"""The command line: messages, exit statuses, no store of a wrong scenario, and the way from file to table."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from commands import bentpipe

DATA = tomllib.loads(Path(__file__).with_name("wrong.toml").read_text())
GEO: str = DATA["scenario"]


def write(folder: Path, text: str = GEO) -> Path:
    for name, content in DATA["traces"].items():
        (folder / name).write_text(content)
    path = folder / "test.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    write(folder)
    done = bentpipe(folder, "run", "test.toml", "--jobs", "1", "--seeds", "2")
    assert done.returncode == 0, done.stderr
    return folder / "out" / "test"


def test_help_loads_no_large_library(tmp_path: Path) -> None:
    assert "check-controller" in bentpipe(tmp_path, "--help").stdout
    modules = subprocess.run(
        [sys.executable, "-c", "import sys, bentpipe, bentpipe.cli; print(*sys.modules)"],
        capture_output=True,
        text=True,
    ).stdout.split()
    assert not {"polars", "pydantic", "duckdb", "numpy", "scipy", "altair"} & set(modules)


LOADED = """
import atexit, sys
from bentpipe.cli import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.argv = ["bentpipe", *sys.argv[1:]]
main()
"""


def test_a_command_is_made_alone() -> None:
    """Unused commands are not imported."""
    done = subprocess.run([sys.executable, "-c", LOADED, "check", "-h"], capture_output=True, text=True)
    assert "[NAME=]FILE.py:CLASS" in done.stdout
    loaded = set(done.stderr.split())
    rooms = {name.rpartition(".")[2] for name in loaded if name.startswith("bentpipe.cli.")}
    assert "check" in rooms
    assert not rooms & {"run", "browse", "dtn", "shell", "fit", "doctor", "perf"}


@pytest.mark.parametrize(
    ("words", "without"),
    [
        (["check", "test.toml"], "polars duckdb numpy scipy altair vl_convert"),
        (["show", "STORE"], "bentpipe.scenario.model duckdb numpy scipy altair vl_convert"),
        (["query", "STORE", "SELECT 1"], "bentpipe.scenario.model polars numpy scipy altair vl_convert"),
        (["report", "STORE", "-o", "page.html"], "bentpipe.scenario.model duckdb numpy scipy"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_loads_what_it_needs(store: Path, tmp_path: Path, words: list[str], without: str) -> None:
    """These commands spend most of their time on the import of libraries."""
    write(tmp_path)
    command = [sys.executable, "-c", LOADED, *(str(store) if word == "STORE" else word for word in words)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    loaded = done.stderr.splitlines()[-1].split()
    assert "typer" in loaded
    assert not set(without.split()) & set(loaded)


# one wrong scenario of each sort the manual promises to catch; test_scenario.py has them all
SORTS = (
    "titel",
    "path.satellite.delay",
    "path.satellite.down.rate",
    "flow.rivel.congestion",
    "path.satellite.down.queue",
    "path.satellite.up.loss",
    "duration",
    "path.satellite.up.delay",
    "flow.hybla.load",
)


@pytest.mark.parametrize("key", SORTS)
def test_a_wrong_scenario_is_one_message_status_2_and_no_store(tmp_path: Path, key: str) -> None:
    case = next(case for case in DATA["wrong"] if case["key"] == key)
    write(tmp_path, GEO.replace(case["old"], case["new"], 1))
    before = set(tmp_path.iterdir())
    for command in ("run", "check"):
        done = bentpipe(tmp_path, command, "test.toml")
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith(f"error: test.toml: {key}: ")
        for words in case["said"]:
            assert words in done.stderr
        assert "Traceback" not in done.stderr
    assert set(tmp_path.iterdir()) == before


def test_check_prints_the_plan_and_its_bounds(tmp_path: Path) -> None:
    write(tmp_path)
    done = bentpipe(tmp_path, "check", "test.toml", "--json")
    found = json.loads(done.stdout)
    assert (found["runs"], found["cells"]) == (1, 1)
    assert {bound["bdp_bytes"] for bound in found["bounds"]} == {625_000}
    assert "625,000" in bentpipe(tmp_path, "check", "test.toml").stdout


def test_run_resumes_and_another_scenario_is_refused(store: Path) -> None:
    folder = store.parents[1]
    done = bentpipe(folder, "run", "test.toml", "--seeds", "2", "--json")
    assert json.loads(done.stdout)["reused"] == 2
    other = folder / "other.toml"
    other.write_text(GEO.replace("1 %", "2 %"))
    done = bentpipe(folder, "run", "other.toml", "--out", "out/test")
    assert done.returncode == 2
    assert "another scenario" in done.stderr
    done = bentpipe(folder, "run", "test.toml", "--set", "path.satellite.delay=15 ms", "--out", "out/test")
    assert done.returncode == 2
    assert "other --set values" in done.stderr


def test_one_run_can_be_made_alone(store: Path) -> None:
    run = min(entry.name for entry in (store / "runs").iterdir())
    folder = store.parents[1]
    done = bentpipe(folder, "run", "test.toml", "--seeds", "2", "--run", run, "--out", "out/alone", "--json")
    assert json.loads(done.stdout)["done"] == 1
    for file in (store / "runs" / run).iterdir():
        assert file.read_bytes() == (folder / "out" / "alone" / "runs" / run / file.name).read_bytes()
    assert bentpipe(folder, "run", "test.toml", "--run", "nothing").returncode == 2


def test_a_cluster_that_is_not_there_leaves_no_store(tmp_path: Path) -> None:
    write(tmp_path)
    for where, message in (
        ("dask://127.0.0.1:1", "no Dask scheduler"),
        ("somewhere", "expected dask://HOST:PORT"),
    ):
        done = bentpipe(tmp_path, "run", "test.toml", "--cluster", where)
        assert done.returncode == 2
        assert message in done.stderr
        assert not (tmp_path / "out").exists()


def test_query_prints_rows(store: Path) -> None:
    done = bentpipe(
        store,
        "query",
        ".",
        "SELECT seed, count(*) AS n FROM flow_summary GROUP BY seed ORDER BY seed",
        "--json",
    )
    assert json.loads(done.stdout) == [{"seed": 1, "n": 4}, {"seed": 2, "n": 4}]
    done = bentpipe(store, "query", ".", "SELECT nothing FROM flow_summary")
    assert done.returncode == 2
    assert "nothing" in done.stderr


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_export_of_tables(store: Path, tmp_path: Path, form: str) -> None:
    done = bentpipe(tmp_path, "export", str(store), "--format", form, "-o", "here")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / f"flows.{form}").is_file()
    if form == "csv":
        with (tmp_path / "here" / "flow_summary.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert {row["flow"] for row in rows} == {"hybla", "rival"}


@pytest.mark.parametrize(
    ("here", "given", "place"),
    [("..", "{}", "{}-csv"), (".", ".", "../{}-csv"), ("runs", "..", "../../{}-csv")],
)
def test_export_prints_where_in_the_words_it_was_given(
    store: Path, tmp_path: Path, here: str, given: str, place: str
) -> None:
    copy = shutil.copytree(store, tmp_path / "kept")
    done = bentpipe(copy / here, "export", given.format(copy.name), "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert f"{place.format(copy.name)}/flows.csv" in done.stdout.split()
    assert (tmp_path / "kept-csv/flows.csv").is_file()


def test_export_of_traces_says_how_to_get_them(store: Path) -> None:
    done = bentpipe(store, "export", ".", "--format", "qlog")
    assert done.returncode == 2
    assert "trace.qlog=true" in done.stderr


def test_show_prints_goodput(store: Path) -> None:
    done = bentpipe(store, "show", ".")
    assert done.returncode == 0, done.stderr
    assert "goodput" in done.stdout
    assert "±" in done.stdout
    assert json.loads(bentpipe(store, "show", ".", "--json").stdout)


def test_a_directory_that_is_no_store_is_refused(tmp_path: Path) -> None:
    for command in (["show", "."], ["query", ".", "SELECT 1"], ["export", ".", "-f", "csv"]):
        done = bentpipe(tmp_path, *command)
        assert done.returncode == 2
        assert "not a store" in done.stderr


def test_schema_presets_and_doctor(tmp_path: Path) -> None:
    assert json.loads(bentpipe(tmp_path, "schema").stdout)["type"] == "object"
    assert {"name", "title", "source", "segments"} <= set(
        json.loads(bentpipe(tmp_path, "presets", "--json").stdout)[0]
    )
    assert any(item["what"] == "engine" for item in json.loads(bentpipe(tmp_path, "doctor", "--json").stdout))


LONG = GEO.replace("2s", "150s").replace("2 s", "150 s").replace("[[path", "seeds = 8\n[[path", 1)


def test_an_interrupted_map_names_its_saved_runs(tmp_path: Path) -> None:
    sizes = ",".join(f"{n} MB" for n in range(10, 18))
    words = [
        "break-even",
        "geo-konnect",
        "--sizes",
        sizes,
        "--rtts",
        "600 ms",
        "--controllers",
        "cubic",
        "--windows",
        "10",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "bentpipe.cli", *words, "--jobs", "1"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    runs = tmp_path / "out" / "break-even-geo-konnect" / "store" / "runs"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (runs.is_dir() and any(runs.iterdir())):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    saved = len(list(runs.iterdir()))
    assert 1 <= saved < 32
    assert process.returncode == 130
    message = f"interrupted: {saved} of 32 runs are in out/break-even-geo-konnect/store; rerun the command to resume"
    assert message in error.decode()
    assert not (tmp_path / "out" / "break-even-geo-konnect" / "map.html").exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_finished_runs_survive_ctrl_c_and_a_kill(tmp_path: Path, how: signal.Signals) -> None:
    write(tmp_path, LONG)
    command = [sys.executable, "-m", "bentpipe.cli", "run", "test.toml", "--jobs", "2"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    runs = tmp_path / "out" / "test" / "runs"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (runs.is_dir() and any(runs.iterdir())):
        time.sleep(0.02)
    os.killpg(process.pid, how)
    _, error = process.communicate(timeout=60)
    saved = len(list(runs.iterdir()))
    assert saved >= 1
    assert process.returncode != 0
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert f"{saved} of 8 runs are in out/test" in error.decode()
    done = bentpipe(tmp_path, "run", "test.toml", "--json")
    found = json.loads(done.stdout)
    assert (found["reused"], found["done"]) == (saved, 8 - saved)
    shutil.rmtree(tmp_path / "out")


def test_an_older_engine_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("bentpipe._engine.orbit")
    done = bentpipe(tmp_path, "orbit", "toulouse", "new-york")
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: the engine is older than the Python package: it has no 'orbit'; `make engine` rebuilds it\n"
    )
