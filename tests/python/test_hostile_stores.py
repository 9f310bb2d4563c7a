"""Stores with correct checksums and wrong content: each gives one line and status 2, or is harmless."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import polars as pl
import pytest

import bentpipe
import store_damage
from bentpipe.store import files
from bentpipe.store.files import SUMS, checksum, listing, read_listing
from bentpipe.store.journal import host_summary
from hostile_inputs import SMALL, command, refused
from store_edit import change_plan


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "small.toml").write_text(SMALL)
    bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def run_of(folder: Path) -> Path:
    (run,) = (folder / "store" / "runs").iterdir()
    return run


def packed(folder: Path) -> Path:
    assert command(folder, "pack", "store").returncode == 0
    (pack,) = (folder / "store" / "packs").iterdir()
    return pack


def put(file: Path, content: bytes) -> None:
    """Write a member of a run or a pack, with its checksum."""
    file.write_bytes(content)
    sums = read_listing((file.parent / SUMS).read_text())
    assert sums is not None
    (file.parent / SUMS).write_bytes(listing(sums | {file.name: checksum(content)}))


def remake(folder: Path, made: Path) -> None:
    """The command that made the store makes what is missing, and the store is as it was."""
    done = command(folder, "run", "small.toml", "--jobs", "1", "--out", "store")
    assert done.returncode == 0, done.stderr
    assert store_damage.contents(folder / "store") == store_damage.contents(made / "store")


# --- large files ---


def test_ctrl_c_ends_the_reading_of_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool of threads does not read each file to its end."""
    checksum_of, read = files._checksum, []

    def counted(file: FileIO, stop: threading.Event | None) -> str:
        found = checksum_of(file, stop)
        read.append(file.tell())
        return found

    monkeypatch.setattr(files, "_checksum", counted)
    wanted: list[tuple[Path, str | None]] = []
    for name in ("one", "two"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(files.MOST_MEMBER_BYTES)
        wanted.append((tmp_path / name, checksum(b"")))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(1)
    try:
        with pytest.raises(KeyboardInterrupt):
            files.changed(wanted)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert read
    assert max(read) < files.MOST_MEMBER_BYTES


def test_the_checksum_of_a_file_is_that_of_all_of_it(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(content)
    right = hashlib.sha256(content).hexdigest()
    assert files.changed([(tmp_path / "one", right), (tmp_path / "two", right)]) == {}
    (tmp_path / "two").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert list(files.changed([(tmp_path / "one", right), (tmp_path / "two", right)])) == [tmp_path / "two"]


# --- scenarios of two stores ---


@pytest.mark.parametrize("text", ["x = " + "[" * 5000 + "]" * 5000, "a" + ".a" * 100_000 + " = 1"])
def test_a_deep_scenario_of_a_store_is_a_note(folder: Path, text: str) -> None:
    shutil.copytree(folder / "store", folder / "other")
    (folder / "store" / "scenario.toml").write_text(text)
    change_plan(folder / "store", scenario=checksum(text.encode()))
    done = command(folder, "diff", "other", "store")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The scenarios cannot be compared: " in done.stdout


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("path.satellite" + ".a" * 20_000 + "=1", "The scenarios differ in --set"),
        ("path.satellite.delay=" + "[" * 5000 + "]" * 5000, "The scenarios differ in path.satellite.delay"),
        (
            "path.satellite.delay={ " + "a." * 100_000 + "a = 1 }",
            "The scenarios differ in path.satellite.delay",
        ),
    ],
)
def test_deep_settings_of_a_store_are_a_note(folder: Path, override: str, message: str) -> None:
    shutil.copytree(folder / "store", folder / "other")
    change_plan(folder / "store", overrides=[override])
    done = command(folder, "diff", "other", "store")
    assert (done.returncode, done.stderr) == (0, "")
    assert message in " ".join(done.stdout.split())


# --- journals ---

LINES = [
    {"real_time": {}},
    {"event": "run", "run": ["a"], "real_time": {}},
    {"event": ["run"], "run": "a", "real_time": {}},
    {"event": "run", "run": "a", "real_time": []},
    {
        "event": "run",
        "run": "a",
        "real_time": {"attempts": "many", "valid": [], "processes_lateness_p95_ms": {}},
    },
    {
        "event": "run",
        "run": "a",
        "real_time": {"attempts": 10**400, "processes_lateness_p95_ms": float("inf")},
    },
    {"event": "run", "run": "a", "real_time": {"links": 1}},
    {
        "event": "run",
        "run": "a",
        "real_time": {"links": [1, {"up": 2, "down": {"lateness_p99_ms": "late"}}]},
    },
]


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_line_of_a_journal_that_is_none_is_passed_over(folder: Path, line: dict[str, object]) -> None:
    with (folder / "store" / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps(line) + "\n")
    run = run_of(folder).name
    for words in (
        ("show", "store"),
        ("report", "store", "-o", "report.html"),
        ("export", "store", "-f", "qlog", "--run", run, "-o", "traces"),
    ):
        done = command(folder, *words)
        assert (done.returncode, done.stderr) == (0, ""), words


def test_the_lines_of_a_journal_that_are_some_are_counted(folder: Path) -> None:
    facts = {
        "attempts": 2, "valid": True, "processes_lateness_p95_ms": 0.5, "links": [{"up": {"lateness_p99_ms": 0.25}}, {}],
    }  # fmt: skip
    with (folder / "store" / "journal.jsonl").open("a") as journal:
        for line in (*LINES[:4], {"event": "run", "run": "b", "real_time": facts}):
            journal.write(json.dumps(line) + "\n")
    assert host_summary(folder / "store") == (
        "In emulation: 1 valid runs, 1 of them repeated; the emulator's lateness (p99 of packets) was "
        "at most 0.25 ms, that of flow processes (p95) 0.50 ms."
    )


# --- what runs resolved to ---

NO_SPECS = ["[]", "null", "{}", '"text"', "no JSON", "[" * 5000 + "]" * 5000]


def no_flows(text: str, flows: object) -> str:
    return json.dumps(json.loads(text) | {"flows": flows})


@pytest.mark.parametrize(
    "change",
    [
        *(lambda _, text=text: text for text in NO_SPECS),
        lambda text: no_flows(text, 1),
        lambda text: no_flows(text, [1]),
        lambda text: no_flows(text, [{}]),
        lambda text: no_flows(text, [{"name": "any", "user": []}]),
    ],
    ids=range(len(NO_SPECS) + 4),
)
@pytest.mark.parametrize("form", ["loose", "packed"])
def test_an_invalid_specification_gives_one_line(
    folder: Path, change: Callable[[str], str], form: str
) -> None:
    run = run_of(folder).name
    if form == "loose":
        file = run_of(folder) / "spec.json"
        put(file, change(file.read_text()).encode())
    else:
        file = packed(folder) / "specs.parquet"
        frame = pl.read_parquet(file).with_columns(pl.col("spec").map_elements(change, pl.String))
        frame.write_parquet(file)
        put(file, file.read_bytes())
    for words in (("users", "store"), ("export", "store", "-f", "qlog", "--run", run)):
        refused(command(folder, *words), f"{file.name} is damaged: run {run} is not what a run resolves to")


def test_a_spec_that_is_no_text_is_one_line(folder: Path) -> None:
    put(run_of(folder) / "spec.json", b"\xff")
    for words in (("users", "store"), ("pack", "store")):
        refused(command(folder, *words), f"{run_of(folder).name}/spec.json is damaged: it cannot be read")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no Parquet", "specs.parquet is damaged: it cannot be read"),
        (b"PAR1" + bytes(100) + b"PAR1", "specs.parquet is damaged: it cannot be read"),
        (pl.DataFrame({"run": ["other"], "spec": ["{}"]}), "specs.parquet is damaged: it does not have run "),
        (pl.DataFrame({"run": [1], "spec": [2]}), "specs.parquet is damaged: it cannot be read"),
        (pl.DataFrame({"run": [None], "spec": [None]}), "specs.parquet is damaged: it cannot be read"),
        (pl.DataFrame({"x": ["text"]}), "specs.parquet is damaged: it cannot be read"),
    ],
    ids=range(6),
)
def test_specs_of_a_pack_that_are_none_are_one_line(
    folder: Path, made: Path, content: bytes | pl.DataFrame, message: str
) -> None:
    file = packed(folder) / "specs.parquet"
    if isinstance(content, pl.DataFrame):
        content.write_parquet(file)
        content = file.read_bytes()
    put(file, content)
    refused(command(folder, "users", "store"), message, f"{file.parent.name} and rerun the command")
    shutil.rmtree(file.parent)
    remake(folder, made)


def test_a_plan_is_not_found_again_in_specs_that_are_none(folder: Path) -> None:
    put(packed(folder) / "specs.parquet", b"no Parquet")
    (folder / "store" / "plan.json").unlink()
    done = command(folder, "run", "small.toml", "--seeds", "3", "--set", "duration=2 s", "--out", "store")
    refused(done, "plan.json")


def test_tables_of_a_pack_that_are_none_are_one_line(folder: Path) -> None:
    run = run_of(folder).name
    file = packed(folder) / "flows.parquet"
    pl.DataFrame({"x": [1]}).write_parquet(file)
    put(file, file.read_bytes())
    done = command(folder, "export", "store", "-f", "qlog", "--run", run)
    refused(done, f"packs/{file.parent.name} cannot be read")


# --- folders in the place of files ---


@pytest.mark.parametrize("name", ["plan.json", "scenario.toml"])
def test_a_folder_in_the_place_of_a_file_is_the_users_to_remove(folder: Path, made: Path, name: str) -> None:
    place = folder / "store" / name
    place.unlink()
    place.mkdir()
    (place / "kept").write_text("somebody's")
    if name == "plan.json":
        refused(
            command(folder, "show", "store"),
            "plan.json cannot be read: it is a directory",
            "remove it: then ",
        )
    for _ in range(2):
        done = command(folder, "run", "small.toml", "--jobs", "1", "--out", "store")
        refused(
            done,
            f"{name} is a folder, expected a regular file; remove it and rerun the command",
        )
    assert (place / "kept").read_text() == "somebody's"
    shutil.rmtree(place)
    remake(folder, made)


@pytest.mark.parametrize("name", ["plan.json", "scenario.toml"])
def test_a_link_to_a_folder_in_the_place_of_a_file_is_replaced(
    folder: Path, made: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "store" / name).unlink()
    (folder / "store" / name).symlink_to(tmp_path / "elsewhere")
    remake(folder, made)
    assert not list((tmp_path / "elsewhere").iterdir())
