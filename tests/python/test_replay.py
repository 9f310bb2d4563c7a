"""A click into a figure over time: the command that makes the run again, with its packets."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import struct
from pathlib import Path

import polars as pl
import pytest

import bentpipe
from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.report import store_page
from bentpipe.store.files import SUMS, checksum, listing, read_listing
from bentpipe.store.packing import pack
from bentpipe.store.reader import Store, open_store
from commands import bentpipe as command

SCENARIO = """
duration = "2 s"
seeds = [3, 7]
[[path.segment]]
name = "sky"
delay = "20 ms"
both = { rate = "2 Mbit/s", loss = "1 %" }
[[flow]]
name = "main"
load = { time = "1 s" }
[sweep]
"flow.main.congestion" = ["cubic", "newreno"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("again")
    (place / "s.toml").write_text(SCENARIO)
    assert command(place, "run", "s.toml", "--out", "a store", "--jobs", "1").returncode == 0
    return place


def _data(page: str, name: str) -> dict[str, dict[str, str]]:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, dict[str, str]] = json.loads(found[1])
    return data


def _sent(trace: bytes, source: bytes) -> int:
    """Packets of a capture (pcapng, draft-ietf-opsawg-pcapng section 4.3) that an IPv4 address sent."""
    at = count = 0
    while at < len(trace):
        kind, length = struct.unpack_from("<II", trace, at)
        if kind == 6:
            count += trace[at + 28 + 12 : at + 28 + 16] == source
        at += length
    return count


def test_the_command_of_a_page_makes_the_run_with_its_packets(folder: Path) -> None:
    done = command(folder, "report", "a store")
    assert done.stdout.strip() == "a store/report.html", done.stderr
    page = (folder / "a store" / "report.html").read_text(encoding="utf-8")
    runs = _data(page, "runs")
    assert [one["called"] for one in runs.values()] == ["cubic, seed 3", "newreno, seed 3"]
    words = shlex.split(runs["2"]["command"])
    assert words[:4] == ["bentpipe", "export", "a store", "--format"]
    before = sorted((folder / "a store").rglob("*"))
    done = command(folder, *words[1:])
    assert done.returncode == 0, done.stderr
    assert sorted((folder / "a store").rglob("*")) == before
    client, server = (folder / line for line in done.stdout.split("\n")[:2])
    assert client.name == f"{words[-1]}.main.newreno.client.pcapng"
    summary = Store(folder / "a store").rows("flow_summary", None, [words[-1]])
    for side, file, source in (("client", client, b"\xc6\x12\0\1"), ("server", server, b"\xc6\x13\0\1")):
        row = summary.row(by_predicate=pl.col("side") == side, named=True)
        assert _sent(file.read_bytes(), source) == row["sent_packets"] > 0


def test_every_line_says_of_which_run_it_is(folder: Path) -> None:
    material = FigureContext(open_store(folder / "a store"))
    runs = store_page.shown_runs(material, [Path("s")])
    for key in ("goodput", "cwnd", "rtt", "queue-length"):
        figure = FIGURES[key](material)
        assert figure is not None
        assert figure.of_runs
        (text,) = figure.spec()["datasets"].values()
        rows = pl.read_csv(text.encode(), schema_overrides={"run": pl.String})
        if "kind" in rows.columns:  # the rate of a link is of no run
            limits = rows.filter(pl.col("kind") == "limit")
            assert not set(limits["run"]) & runs.keys()
            rows = rows.filter(pl.col("kind") != "limit")
        message = {
            runs[row["run"]]["called"].split(",")[0]: row["series"] for row in rows.iter_rows(named=True)
        }
        assert message == {"cubic": "cubic", "newreno": "newreno"}, key


def test_a_packed_store_has_its_runs_again(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "a store", tmp_path / "s")
    pack(tmp_path / "s")
    run = open_store(tmp_path / "s").index["run"][0]
    done = command(tmp_path, "export", "s", "-f", "qlog", "--run", run, "-o", "here")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"here/{run}.main.cubic.{side}.qlog" for side in ("client", "server")]


def test_a_run_that_is_another_one_now_is_no_answer(folder: Path, tmp_path: Path) -> None:
    """An engine with other results resolves the run differently than the measured one."""
    shutil.copytree(folder / "a store", tmp_path / "s")
    place = next((tmp_path / "s" / "runs").iterdir())
    spec = json.loads((place / "spec.json").read_text())
    spec["seed"] += 1
    (place / "spec.json").write_text(json.dumps(spec))
    sums = read_listing((place / SUMS).read_text()) or {}
    sums["spec.json"] = checksum((place / "spec.json").read_bytes())
    (place / SUMS).write_bytes(listing(sums))
    done = command(tmp_path, "export", "s", "-f", "pcapng", "--run", place.name, "-o", "here")
    assert done.returncode == 1
    assert f"run {place.name} has different measurements, from its table" in done.stderr
    assert not (tmp_path / "here").exists()


def test_runs_that_cannot_be_repeated(folder: Path, tmp_path: Path) -> None:
    run = open_store(folder / "a store").index["run"][0]
    store = str(folder / "a store")
    for words, message in (
        (["-f", "pcapng", "--run", run[:-1] + "x"], f"--run: no finished run {run[:-1]}x"),
        (["-f", "pcapng", "--run", run[:-1] + "x"], f'did you mean "{run}"?'),
        (["-f", "csv", "--run", run], "--run requires --format pcapng or qlog"),
        (["-f", "qlog", "--controller", "mine=cc.py:Mine"], "--controller requires --run ID"),
    ):
        done = command(tmp_path, "export", store, *words)
        assert done.returncode == 2
        assert message in done.stderr
    assert not any(tmp_path.iterdir())


OWN = """
class Mine:
    def __init__(self, environment):
        pass

    def on_event(self, event, view):
        return 20_000
"""


def test_a_controller_of_a_file_is_repeated_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "again_cc.py").write_text(OWN)
    (tmp_path / "s.toml").write_text(
        SCENARIO.replace('"cubic", "newreno"', '"mine"').replace("[3, 7]", "[3]")
    )
    own = ["--controller", "mine=again_cc.py:Mine"]
    done = command(tmp_path, "run", "s.toml", "--out", "s", "--jobs", "1", *own)
    assert done.returncode == 0, done.stderr
    run = open_store(tmp_path / "s").index["run"][0]
    words = ["export", "s", "-f", "pcapng", "--run", run, "-o", "here"]
    done = command(tmp_path, *words)
    assert done.returncode == 2
    assert "expected also --controller mine=FILE.py:CLASS" in done.stderr
    assert command(tmp_path, *words, *own).returncode == 0
    assert (tmp_path / "here" / f"{run}.main.mine.client.pcapng").stat().st_size > 1000


def test_a_run_in_real_time_has_no_command(folder: Path) -> None:
    store = folder / "a store"
    run = open_store(store).index["run"][0]
    journal = store / "journal.jsonl"
    before = journal.read_text()
    journal.write_text(before + json.dumps({"event": "run", "run": run, "real_time": {}}) + "\n")
    try:
        runs = store_page.shown_runs(FigureContext(open_store(store)), [store])
        assert [one["called"] for one in runs.values()] == ["newreno, seed 3"]
        done = command(folder, "export", "a store", "-f", "pcapng", "--run", run)
        assert done.returncode == 2
        assert "was run in emulation and cannot be replayed" in done.stderr
    finally:
        journal.write_text(before)
    assert bentpipe.open_results(store).runs.height == 4
