"""Damaged, lost, full and read-only: a store names what is wrong, and the command that made it makes it whole again."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import bentpipe
import commands
import realtime
import store_damage
from bentpipe.engine_validation.archive import publish
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.runners.execute import CorruptRunWarning
from bentpipe.store import files as stores
from bentpipe.store.files import SUMS, DiskError, StoreError, listing
from bentpipe.store.index import RunDirectory, StoreIndex
from bentpipe.store.reader import Store, open_store
from bentpipe.store.writer import Writer
from bentpipe_studies.parts import Measurements, Part
from nightly import keep

ROOT = Path(__file__).parents[2]
SMALL = """
title = "Small"
duration = "1 s"
seeds = 2
trace = { qlog = true }
[[path.segment]]
name = "satellite"
delay = "50 ms"
both = { rate = "2 Mbit/s", queue = "1 BDP", loss = "1 %" }
[[flow]]
name = "any"
congestion = "cubic"
[sweep]
"flow.any.congestion" = ["cubic", "newreno"]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario and its store."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "small.toml").write_text(SMALL)
    bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be harmed."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def cli(*words: str, before: Sequence[str] = ()) -> list[str]:
    return [*before, sys.executable, "-m", "bentpipe.cli", *words]


def run(folder: Path, *words: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command; with a prefix that changes its view of the disk, in a separate process."""
    if not before:
        return commands.bentpipe(folder, *words)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(
        cli(*words, before=before), cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


AGAIN = ("run", "small.toml", "--jobs", "1", "--out", "store")


@pytest.mark.parametrize("count", keep([24], [24, 120]))
def test_flipped_bits_change_nothing_or_are_named(folder: Path, count: int) -> None:
    store = folder / "two runs"
    bentpipe.run(folder / "small.toml", jobs=1, out=store, seeds=1)
    whole = store_damage.values(store)
    assert len(whole) > 25
    came = Counter(store_damage.judge(store, flip, whole) for flip in store_damage.flips(store, 11, count))
    assert set(came) <= {"identical", "named"}, came
    assert came["named"] > 0.8 * count
    assert store_damage.values(store) == whole


@pytest.mark.parametrize("what", store_damage.LOSSES)
def test_lost_runs_are_named_by_readers_and_repeated(folder: Path, made: Path, what: str) -> None:
    store_damage.lose(folder / "store", what, 3)
    with pytest.raises(StoreError, match=r"missing|damaged|cannot be read|not a store"):
        store_damage.values(folder / "store")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CorruptRunWarning)
        bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store")
    assert store_damage.contents(folder / "store") == store_damage.contents(made / "store")


def test_every_reader_names_the_run_and_the_file(folder: Path) -> None:
    table = min((folder / "store").glob("runs/*/flow_summary.parquet"))
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 4
    table.write_bytes(data)
    for words in (
        ["report", "store"],
        ["query", "store", "SELECT count(*) FROM flow_summary"],
        ["export", "store", "-f", "csv"],
    ):
        done = run(folder, *words)
        assert done.returncode == 2, words
        assert f"runs/{table.parent.name}/flow_summary.parquet is damaged" in done.stderr, words
        assert done.stderr.count("\n") == 1
    done = run(folder, *AGAIN)
    assert done.returncode == 0
    assert f"{table.parent.name}/flow_summary.parquet is damaged" in done.stderr
    assert "which bentpipe repeats" in done.stderr
    assert "4 of 4 runs in store (3 from earlier runs)" in done.stdout
    journal = (folder / "store" / "journal.jsonl").read_text()
    assert [json.loads(line)["run"] for line in journal.splitlines() if '"damaged"' in line] == [
        table.parent.name
    ]
    table.unlink()
    done = run(folder, *AGAIN, "--json")
    assert [entry["run"] for entry in json.loads(done.stdout)["damaged"]] == [table.parent.name]


def test_a_checksum_is_what_sha256sum_says(folder: Path) -> None:
    place = min((folder / "store" / "runs").iterdir())
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=place, check=True)
    assert {line[66:] for line in (place / SUMS).read_text().splitlines()} == {
        file.name for file in place.iterdir() if file.name != SUMS
    }
    odd = {"a\nb\\c": "0" * 64, "d é": "1" * 64}
    assert listing(odd).decode() == f"\\{'0' * 64}  a\\nb\\\\c\n{'1' * 64}  d é\n"


@pytest.mark.parametrize(
    "left", [(), ("scenario.toml",), ("scenario.toml", ".new-plan.json"), (".new-scenario.toml",)]
)
def test_a_store_interrupted_at_its_creation_is_resumed(
    folder: Path, made: Path, left: Sequence[str]
) -> None:
    shutil.rmtree(folder / "store")
    (folder / "store" / "runs").mkdir(parents=True)
    (folder / "store" / "journal.jsonl").touch()
    for name in left:
        text = SMALL if name == "scenario.toml" else "half of"
        (folder / "store" / name).write_text(text)
    bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store")
    assert store_damage.contents(folder / "store") == store_damage.contents(made / "store")


def test_a_folder_that_only_looks_like_a_store_is_left_alone(folder: Path) -> None:
    foreign = folder / "foreign"
    foreign.mkdir()
    (foreign / "scenario.toml").write_text("of somebody else")
    before = store_damage.contents(foreign)
    with pytest.raises(StoreError, match="not empty and not a store"):
        bentpipe.run(folder / "small.toml", jobs=1, out=foreign)
    (foreign / "runs").mkdir()
    with pytest.raises(StoreError, match=r"holds another scenario, and no plan\.json"):
        bentpipe.run(folder / "small.toml", jobs=1, out=foreign)
    assert store_damage.contents(foreign) == before


@pytest.mark.live
def test_a_disk_of_8_kb_and_then_a_larger_one(folder: Path, made: Path) -> None:
    realtime.need_namespaces("mount")
    disk = folder / "disk"
    disk.mkdir()
    command = " ".join(cli("run", "small.toml", "--jobs", "1", "--out", "disk/store"))
    script = (
        f"mount -t tmpfs -o size=8k none {disk}; {command}; echo first $?; ls -A disk/store; "
        f"mount -o remount,size=4m {disk}; {command}; echo second $?; cp -r disk/store kept"
    )
    flags = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        ["unshare", *flags, "--mount", "sh", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "first 1" in done.stdout, done
    assert "the disk is full" in done.stderr
    assert "second 0" in done.stdout, done
    assert store_damage.contents(folder / "kept") == store_damage.contents(made / "store")


def test_a_lost_plan_knows_other_seeds_and_refuses_other_settings(folder: Path) -> None:
    document = load_scenario(folder / "small.toml")
    bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store", seeds=3)
    whole = {run["id"]: run for run in Store(folder / "store").planned}
    (folder / "store" / "plan.json").write_text("{")
    with pytest.raises(StoreError, match=r"plan.json cannot be read.*rerun the command of the store"):
        Store(folder / "store")
    with pytest.raises(
        StoreError,
        match=r"plan.json is lost, and run \w+ does not belong to this command with engine another",
    ):
        Writer(folder / "store", build_plan(document, "another engine"))
    with Writer(folder / "store", build_plan(document, engine.version())) as writer:
        assert not writer.missing(writer.plan.runs)
    assert {run["id"]: run for run in Store(folder / "store").planned} == whole
    assert len(whole) == 6
    (folder / "store" / "plan.json").unlink()
    with pytest.raises(StoreError, match=r"does not belong to this command.*; repeat --set"):
        bentpipe.run(
            folder / "small.toml", jobs=1, out=folder / "store", settings={"path.satellite.delay": "51 ms"}
        )


def test_a_damaged_run_stays_until_the_new_one_is_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch, made: Path
) -> None:
    damaged = min((folder / "store" / "runs").iterdir())
    (damaged / "links.parquet").unlink()

    def full(paths: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(stores, "sync_all", full)
    with pytest.warns(CorruptRunWarning), pytest.raises(DiskError, match="3 finished runs are kept"):
        bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store")
    assert (damaged / "flows.parquet").is_file()
    monkeypatch.undo()
    with pytest.warns(CorruptRunWarning, match=f"run {damaged.name}, which bentpipe repeats"):
        bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store")
    assert store_damage.contents(folder / "store") == store_damage.contents(made / "store")


@pytest.mark.live
def test_a_whole_store_on_a_read_only_disk_can_be_run(folder: Path) -> None:
    realtime.need_namespaces("mount")
    flags = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = 'mount --bind store store && mount -o remount,bind,ro store store && exec "$@"'
    read_only = ["unshare", *flags, "--mount", "sh", "-c", script, "sh"]
    done = run(folder, *AGAIN, before=read_only)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 runs in store (4 from earlier runs)" in done.stdout
    assert "nothing to do: store is complete, and not writable (Read-only file system)" in done.stdout
    assert run(folder, "show", "store", before=read_only).returncode == 0
    shutil.rmtree(min((folder / "store" / "runs").iterdir()))
    done = run(folder, *AGAIN, before=read_only)
    assert done.returncode == 2
    # A slow machine also gets the progress of the plan.
    message = [line for line in done.stderr.splitlines() if not line.startswith("planning: ")]
    assert message == ["error: store cannot be written: Read-only file system; 1 run is missing in it"]


@pytest.mark.live
@pytest.mark.parametrize("form", ["csv", "parquet", "json", "qlog"])
def test_an_export_on_a_full_disk_leaves_no_cut_file_and_names_it(folder: Path, form: str) -> None:
    realtime.need_namespaces("mount")
    disk = folder / "disk"
    disk.mkdir()
    flags = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = f'mount -t tmpfs -o size=16k none {disk}; "$@"; status=$?; cp -r {disk} kept; exit $status'
    words = ["export", "store", "-f", form, "-o", "disk/tables"]
    done = run(folder, *words, before=["unshare", *flags, "--mount", "sh", "-c", script, "sh"])
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1
    saved = {file.name: file for file in (folder / "kept" / "tables").iterdir()}
    named = done.stderr.removeprefix("error: disk/tables/").split(": ")
    assert named[1] == "No space left on device\n"
    assert named[0] not in saved
    assert not [name for name in saved if name.startswith(".")]
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "json": pl.read_json}.get(form)
    for name, file in saved.items():
        if read is not None:
            assert read(file).height == Store(folder / "store").table(name.split(".")[0]).height


def test_published_runs_can_be_checked(folder: Path) -> None:
    store = folder / "store"
    publish([store], folder / "stores.tar.xz")
    with tarfile.open(folder / "stores.tar.xz") as archive:
        archive.extractall(folder / "elsewhere", filter="data")
    again = folder / "elsewhere" / "store"
    assert open_store(again).rows("flow_summary").equals(open_store(store).rows("flow_summary"))
    assert not list(again.glob("runs/*/packets.parquet"))
    table = min(again.glob("runs/*/flow_summary.parquet"))
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(StoreError, match=r"summary\.parquet is damaged"):
        publish([again], folder / "more.tar.xz")
    assert not list(folder.glob("*more*"))


def test_a_study_does_not_take_damage_for_what_has_not_run(folder: Path) -> None:
    part = Part("store", folder / "small.toml")
    assert Measurements(folder / "nowhere", [part]).store("store") is None
    min((folder / "store").glob("runs/*/flow_summary.parquet")).unlink()
    with pytest.raises(StoreError, match=r"summary\.parquet is missing"):
        Measurements(folder, [part]).store("store")


@pytest.mark.nightly
def test_kills_at_any_moment_lose_nothing(folder: Path, made: Path) -> None:
    chance = random.Random(5)  # noqa: S311 - chance of a test
    began = time.monotonic()
    subprocess.run(
        cli("run", "small.toml", "--jobs", "1", "--out", "whole"), cwd=folder, check=True, capture_output=True
    )
    whole_s = time.monotonic() - began
    killed = 0
    for number in range(4):
        words = cli("run", "small.toml", "--jobs", "1", "--out", f"killed{number}")
        was, status = store_damage.kill_and_resume(words, folder, whole_s * chance.uniform(0.1, 1.1))
        killed += was
        if not was:  # the first run was slower than they are: the next is killed earlier
            whole_s *= 0.6
        assert status == 0
        assert store_damage.contents(folder / f"killed{number}") == store_damage.contents(made / "store")
    assert killed


@pytest.mark.parametrize("size", [10, (1 << 20) - 1, 1 << 20])
@pytest.mark.parametrize("count", [1, 5])
def test_files_of_every_size_are_read(tmp_path: Path, size: int, count: int) -> None:
    """Large ones are read side by side, small ones one after the other; a damaged or missing one is named either way."""
    place = tmp_path / "runs" / "one"
    place.mkdir(parents=True)
    sums: dict[str, str | None] = {}
    for name in (f"{number}.qlog" for number in range(count)):
        data = name.encode() + bytes(size - len(name))
        (place / name).write_bytes(data)
        sums[name] = hashlib.sha256(data).hexdigest()
    last = place / f"{count - 1}.qlog"
    folder = RunDirectory("runs/one", sums)
    places = [(folder, name) for name in sums]
    saved = StoreIndex(tmp_path, {"one": folder}, {})
    saved.check(places)
    last.write_bytes(last.read_bytes()[:-1] + b"x")
    os.utime(last, ns=(1, 1))  # clocks of file systems are coarse
    with pytest.raises(StoreError, match=f"^{re.escape(str(last))} is damaged: checksum mismatch; rerun the"):
        saved.check(places)
    last.unlink()
    with pytest.raises(StoreError, match=f"^{re.escape(str(last))} is missing; rerun the"):
        saved.check(places)
