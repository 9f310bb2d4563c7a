"""Packs: a store has the same contents before and after, with interrupted packing and with damage."""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
import tarfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import bentpipe
import store_damage
from bentpipe.cli import app
from bentpipe.engine_validation.archive import publish
from bentpipe.metrics.store_comparison import compare_stores as compare
from bentpipe.metrics.summary_table import summary_rows
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.report.store_page import write_report
from bentpipe.runners import engine
from bentpipe.runners.execute import CorruptRunWarning
from bentpipe.store import files
from bentpipe.store import pack as packs_of
from bentpipe.store.codec import TABLES, parquet
from bentpipe.store.files import SUMS, DiskError, StoreError, checksum, listing
from bentpipe.store.index import LIST, pack_name, packs
from bentpipe.store.packing import pack
from bentpipe.store.reader import Store
from bentpipe.store.writer import Writer
from nightly import keep

PATH = """
title = "Small"
duration = "1 s"
seeds = 2
[[path.segment]]
name = "satellite"
delay = "50 ms"
both = { rate = "2 Mbit/s", queue = "1 BDP", loss = "1 %" }
[[flow]]
name = "any"
congestion = "cubic"
count = 1
[sweep]
"""
SMALL = PATH + '"flow.any.congestion" = ["cubic", "newreno"]\n'
GROUPS = PATH + '"flow.any.count" = [1, 3]\n'


@pytest.fixture(autouse=True)
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs_of, "MOST_RUNS", 3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario and its store of four runs."""
    folder = tmp_path_factory.mktemp("packs")
    (folder / "small.toml").write_text(SMALL)
    bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be packed and harmed."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


@pytest.fixture(scope="module")
def whole(made: Path) -> dict[str, str]:
    return store_damage.values(made / "store")


def again(folder: Path, **words: Any) -> bentpipe.Results:
    """The command that made the store."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CorruptRunWarning)
        return bentpipe.run(folder / "small.toml", jobs=1, out=folder / "store", **words)


def loose(store: Path) -> list[str]:
    return sorted(entry.name for entry in (store / "runs").iterdir())


def flip(file: Path, byte: int | None = None) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2 if byte is None else byte] ^= 4
    file.write_bytes(data)


def test_a_packed_store_gives_the_same_answers(folder: Path, whole: dict[str, str]) -> None:
    store = folder / "store"
    before = summary_rows(store), summary_rows(store, numbers=True), write_report(store).read_text()
    ran = set(loose(store))
    done = pack(store)
    assert (done.runs, done.packs) == (4, 2)
    assert loose(store) == []
    assert sorted(len(one.packed) for one in packs(store).values()) == [1, 3]  # type: ignore[union-attr, arg-type]
    assert store_damage.values(store) == whole
    assert (summary_rows(store), summary_rows(store, numbers=True), write_report(store).read_text()) == before
    assert not compare(folder.parent / "copy" / "store", store).regressed
    opened = Store(store)
    assert {run["id"] for run in opened.finished()} == ran
    assert {spec["seed"] for spec in opened.specs(sorted(ran)).values()} == {1, 2}
    assert pack(store).runs == 0


def test_the_same_runs_give_the_same_packs(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder / "store", tmp_path / "elsewhere"))
    for store in (folder / "store", other):
        pack(store)
    assert store_damage.contents(other) == store_damage.contents(folder / "store")


def test_a_pack_is_what_sha256sum_says_and_its_runs_are_what_they_were(folder: Path) -> None:
    store = folder / "store"
    sums = {run: checksum((store / "runs" / run / SUMS).read_bytes()) for run in loose(store)}
    before = {str(file.relative_to(store)): file.read_bytes() for file in store.glob("runs/*/*")}
    pack(store)
    found: dict[str, str] = {}
    for place in (store / "packs").iterdir():
        for line in (place / SUMS).read_text().splitlines():
            listed, name = line.split("  ")
            assert checksum((place / name).read_bytes()) == listed
        found |= {line[66:]: line[:64] for line in (place / LIST).read_text().splitlines()}
        names = [file.name for file in place.glob("*.parquet")]
        for run, contents in packs_of.extract_runs(place, names, None):
            assert {f"runs/{run}/{name}": data for name, data in contents.items()} == {
                name: data for name, data in before.items() if run in name and not name.endswith(SUMS)
            }
    assert found == sums


def test_a_packed_store_is_resumed_and_grows(folder: Path, tmp_path: Path) -> None:
    store = folder / "store"
    pack(store)
    packed = store_damage.contents(store)
    assert len(again(folder).finished()) == 4
    assert store_damage.contents(store) == packed, "nothing was missing"
    assert len(again(folder, seeds=4).finished()) == 8
    assert len(loose(store)) == 4
    (tmp_path / "plain").mkdir()
    plain = bentpipe.run(folder / "small.toml", jobs=1, out=tmp_path / "plain" / "store", seeds=4)

    def sorted_values(path: Path) -> dict[str, Any]:
        opened = Store(path)
        tables = ("flows", "flow_summary", "links", "streams", "events")
        return {name: opened.table(name).sort(pl.all()).to_dicts() for name in tables}

    wanted = sorted_values(plain.path)
    assert sorted_values(store) == wanted, "packed and loose"
    runs = [run["id"] for run in Store(store).planned]
    assert Store(store).table("flows")["run"].unique(maintain_order=True).to_list() == runs
    assert Store(store).rows("flows", ["time_s"], runs[1:2])["run"].unique().to_list() == runs[1:2]
    pack(store)
    assert loose(store) == []
    assert sorted_values(store) == wanted
    assert Store(store).table("flows")["run"].unique(maintain_order=True).to_list() == runs


class Killed(BaseException):
    """Nothing runs any more."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> bool:
    """Acts until the ``step``-th time that something is to happen on the disk; from then on nothing happens at all."""
    count = itertools.count()

    def dies(real: Callable[..., Any], half: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def tried(*words: Any, **more: Any) -> Any:
            if words[0].name in ("specs.parquet", *(f"{name}.parquet" for name in TABLES[1:])):
                return real(*words, **more)  # one table is like the next
            at = next(count)
            if at == step and half is not None:
                half(*words)
            if at >= step:
                raise Killed
            return real(*words, **more)

        return tried

    def half_written(path: Path, data: bytes) -> None:
        path.write_bytes(data[: len(data) // 2])

    def half_removed(path: Path, **_: Any) -> None:
        for file in sorted(path.glob("*"))[:3]:
            file.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_soon", dies(files.write_soon, half_written))
        patch.setattr(packs_of, "sync", dies(packs_of.sync))
        patch.setattr(Path, "rename", dies(Path.rename))
        patch.setattr(Path, "mkdir", dies(Path.mkdir))
        patch.setattr(shutil, "rmtree", dies(shutil.rmtree, half_removed))
        try:
            act()
        except Killed:
            return True
    return False


@pytest.mark.nightly
def test_a_kill_at_any_step_loses_nothing_and_nothing_is_there_twice(
    folder: Path, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pack(Path(shutil.copytree(folder / "store", tmp_path / "packed")))
    packed = store_damage.contents(tmp_path / "packed")

    def seen(store: Path) -> list[Any]:
        opened = Store(store)
        return [opened.runs.rows(), opened.table("flows").rows(), opened.table("flow_summary").rows()]

    before = seen(folder / "store")
    for step in itertools.count():
        store = Path(shutil.copytree(folder / "store", tmp_path / f"killed{step}"))
        if not killed_at(step, monkeypatch, lambda store=store: pack(store)):  # type: ignore[misc]
            break
        assert seen(store) == before, step
        if step % 10 == 0:
            assert store_damage.values(store) == whole, step
        pack(store)
        assert store_damage.contents(store) == packed, step
        shutil.rmtree(store)
    assert step >= 20


def test_a_run_after_a_kill_makes_nothing_again(
    folder: Path, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = build_plan(load_scenario(folder / "small.toml"), engine.version())
    for step in range(0, 20, 3):
        store = Path(shutil.copytree(folder / "store", tmp_path / f"killed{step}"))
        assert killed_at(step, monkeypatch, lambda store=store: pack(store))  # type: ignore[misc]
        with Writer(store, plan) as writer:
            assert writer.missing(plan.runs) == []
            assert writer.damaged == {}
            assert writer.count() == 4
        assert store_damage.values(store) == whole
        assert not list(store.glob(".part-*"))


@pytest.mark.nightly
def test_a_kill_while_a_damaged_pack_is_taken_apart_loses_nothing(
    folder: Path, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = build_plan(load_scenario(folder / "small.toml"), engine.version())
    pack(folder / "store")
    place = max((folder / "store" / "packs").iterdir(), key=lambda place: len((place / LIST).read_bytes()))
    flip(place / LIST)
    for step in itertools.count():
        store = Path(shutil.copytree(folder / "store", tmp_path / f"killed{step}"))
        if not killed_at(step, monkeypatch, lambda store=store: Writer(store, plan).__enter__().__exit__()):  # type: ignore[misc]
            break
        with Writer(store, plan) as writer:
            assert writer.missing(plan.runs) == [], step
        assert len(Store(store).finished()) == 4
        assert step % 5 or store_damage.values(store) == whole, step
    assert step > 10


@pytest.mark.parametrize("count", keep([20], [20, 80]))
def test_flipped_bits_of_packs_change_nothing_or_are_named(
    folder: Path, whole: dict[str, str], count: int
) -> None:
    store = folder / "store"
    pack(store)
    assert store_damage.values(store) == whole
    came = Counter(store_damage.judge(store, one, whole) for one in store_damage.flips(store, 7, count))
    assert set(came) <= {"identical", "named"}, came
    assert came["named"] > 0.7 * count


@pytest.mark.parametrize("what", [LIST, SUMS])
def test_runs_of_a_pack_with_damaged_lists_are_unchanged(
    folder: Path, whole: dict[str, str], what: str
) -> None:
    store = folder / "store"
    pack(store)
    flip(next((store / "packs").iterdir()) / what, 65)
    with pytest.raises(StoreError, match=f"{what} is damaged"):
        Store(store).table("flows")
    with pytest.raises(StoreError, match=f"{what} is damaged"):
        pack(store)
    before = (store / "journal.jsonl").read_text()
    again(folder)
    assert '"event": "run"' not in (store / "journal.jsonl").read_text()[len(before) :], "none was made again"
    assert store_damage.values(store) == whole
    assert len(packs(store)) == 1


def _all_of(store: Path) -> None:
    store_damage.values(store)
    Store(store).specs([run["id"] for run in Store(store).planned])


@pytest.mark.parametrize(
    "table", ["flows.parquet", "specs.parquet", "flow_summary.parquet", "streams.parquet"]
)
def test_damaged_runs_of_a_pack_are_made_again(folder: Path, whole: dict[str, str], table: str) -> None:
    store = folder / "store"
    pack(store)
    place = max(
        (store / "packs").iterdir(), key=lambda place: len((place / LIST).read_bytes())
    )  # that of three runs
    flip(place / table)
    message = f"packs/{place.name}/{table} is damaged: checksum mismatch; rerun the command of the store"
    with pytest.raises(StoreError, match=re.escape(message)):
        _all_of(store)
    again(folder)
    assert store_damage.values(store) == whole
    assert not place.exists()


def test_only_missing_runs_of_a_pack_are_lost(folder: Path, whole: dict[str, str]) -> None:
    """Another value in one run's rows: the others are shown to be what they were by their own checksums."""
    store = folder / "store"
    pack(store)
    place = max((store / "packs").iterdir(), key=lambda place: len((place / LIST).read_bytes()))
    frame = pl.read_parquet(place / "flows.parquet")
    wrong = frame["run"][0]
    frame = frame.with_columns(
        pl.when(pl.col("run") == wrong)
        .then(pl.col("sent_bytes") + 1)
        .otherwise("sent_bytes")
        .alias("sent_bytes")
    )
    (place / "flows.parquet").write_bytes(parquet(frame))
    with pytest.warns(CorruptRunWarning, match=f"run {wrong}, which bentpipe repeats"):
        bentpipe.run(folder / "small.toml", jobs=1, out=store)
    assert store_damage.values(store) == whole
    journal = (store / "journal.jsonl").read_text()
    assert '"saved": 2, "lost": 1' in journal


@pytest.mark.parametrize("file", ["flows.parquet", "specs.parquet", LIST, SUMS, ""])
def test_missing_runs_of_a_pack_are_named_and_repeated(
    folder: Path, whole: dict[str, str], file: str
) -> None:
    store = folder / "store"
    pack(store)
    place = next((store / "packs").iterdir())
    if file:
        (place / file).unlink()
        with pytest.raises(StoreError, match=f"{place.name}/{file} is missing"):
            Store(store).table("flow_summary")
    else:
        shutil.rmtree(place)
        assert 1 <= len(Store(store).finished()) <= 3
    again(folder)
    assert store_damage.values(store) == whole


def test_a_full_disk_is_one_message_and_loses_nothing(
    folder: Path, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, real, calls = folder / "store", files.sync_all, itertools.count()

    def full(paths: list[Path]) -> None:
        if next(calls):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(paths)

    monkeypatch.setattr(files, "sync_all", full)
    with pytest.raises(
        DiskError, match=r"store: the disk is full; no run is lost; rerun the command to resume"
    ):
        pack(store)
    assert len(loose(store)) == 1
    assert not list(store.glob(".part-*"))
    assert store_damage.values(store) == whole
    monkeypatch.undo()
    monkeypatch.setattr(packs_of, "MOST_RUNS", 3)
    assert pack(store).runs == 1
    assert store_damage.values(store) == whole


def test_a_store_has_one_writer(folder: Path) -> None:
    plan = build_plan(load_scenario(folder / "small.toml"), engine.version())
    with Writer(folder / "store", plan), pytest.raises(StoreError, match="another bentpipe is writing"):
        pack(folder / "store")
    with pytest.raises(StoreError, match="no such directory"):
        pack(folder / "nowhere")


def test_runs_with_traces_stay_as_they_are(folder: Path) -> None:
    store = folder / "store"
    (folder / "small.toml").write_text(SMALL.replace("seeds = 2", "seeds = 2\ntrace = { qlog = true }"))
    shutil.rmtree(store)
    before = store_damage.values(again(folder).path)
    done = CliRunner().invoke(app, ["pack", str(store)])
    assert done.exit_code == 0
    assert (
        done.stdout == "0 runs packed into 0 packs\n4 runs unchanged: with traces, which are separate files\n"
    )
    assert store_damage.values(store) == before


def test_large_runs_share_packs_by_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = folder / "store"
    sizes = [sum(file.stat().st_size for file in (store / "runs" / run).iterdir()) for run in loose(store)]
    monkeypatch.setattr(packs_of, "MOST_BYTES", 2 * max(sizes))
    assert pack(Path(shutil.copytree(store, folder / "two"))).packs == 2
    monkeypatch.setattr(packs_of, "MOST_BYTES", min(sizes) // 2)
    done = pack(store)
    assert (done.runs, done.packs, done.left.large) == (0, 0, 4)


def test_groups_in_some_cells_alone(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(GROUPS)
    store = bentpipe.run(tmp_path / "small.toml", jobs=1, out=tmp_path / "store").path
    before = store_damage.values(store)
    pack(store)
    assert store_damage.values(store) == before
    for place in (store / "packs").iterdir():
        sums = {line[66:]: line[:64] for line in (place / LIST).read_text().splitlines()}
        names = [file.name for file in place.glob("*.parquet")]
        for run, contents in packs_of.extract_runs(place, names, None):
            made = listing({name: checksum(data) for name, data in contents.items()})
            assert checksum(made) == sums[run]


def test_a_lost_plan_knows_packed_runs_of_other_seeds(folder: Path) -> None:
    store = folder / "store"
    again(folder, seeds=3)
    pack(store)
    known = {run["id"]: run for run in Store(store).planned}
    (store / "plan.json").unlink()
    plan = build_plan(load_scenario(folder / "small.toml"), engine.version())
    with Writer(store, plan) as writer:
        assert {row["id"]: row for row in writer.store_rows} == known
        assert writer.missing(plan.runs) == []
    assert len(Store(store).finished()) == 6


def test_published_files_are_unchanged(folder: Path) -> None:
    store = folder / "store"

    def archived(name: str) -> Iterator[tuple[str, bytes]]:
        publish([store], folder / name)
        with tarfile.open(folder / name) as archive:
            for member in archive.getmembers():
                file = archive.extractfile(member)
                assert file is not None
                if "/runs/" in member.name:
                    yield member.name, file.read()

    before = dict(archived("before.tar.xz"))
    pack(store)
    assert dict(archived("after.tar.xz")) == before


@pytest.mark.parametrize("which", [0, 3])
def test_a_run_without_streams_hides_nobody_elses(folder: Path, which: int) -> None:
    """It had no rows, and so no columns."""
    store = folder / "store"
    run = Store(store).planned[which]["id"]
    place = store / "runs" / run
    (place / "streams.parquet").write_bytes(parquet(pl.DataFrame()))
    names = [file.name for file in place.iterdir() if file.name != SUMS]
    (place / SUMS).write_bytes(listing({name: checksum((place / name).read_bytes()) for name in names}))
    before = store_damage.values(store)
    assert Store(store).streams.height == 3
    assert Store(store).connect().sql("FROM streams").fetchall()[2:]
    pack(store)
    assert store_damage.values(store) == before


@pytest.mark.parametrize("name", ["../../elsewhere", "a/b", ".hidden", "", "two\nlines"])
def test_a_pack_names_no_run_that_leads_elsewhere(folder: Path, name: str) -> None:
    """A forged pack can have a list with the correct hash."""
    store = folder / "store"
    pack(store)
    place = next((store / "packs").iterdir())
    sums = {file.name: checksum(file.read_bytes()) for file in place.iterdir() if file.name != SUMS}
    written = (place / LIST).read_text() + f"{'0' * 64}  {name}\n"
    (place / LIST).write_text(written)
    (place / SUMS).write_bytes(listing(sums | {LIST: checksum(written.encode())}))
    place.rename(place.with_name(pack_name(written.encode())))
    with pytest.raises(StoreError, match=f"{LIST} is damaged"):
        Store(store).table("flows")
    again(folder)
    assert sorted(entry.name for entry in folder.iterdir()) == ["small.toml", "store"]
    assert len(Store(store).finished()) == 4
