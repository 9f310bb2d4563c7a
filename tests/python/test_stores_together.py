"""Several stores side by side: ``show`` and ``report``; differing paths in ``diff``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from bentpipe.lab.recording import LINKS, PLAN
from bentpipe.store.joined import join_stores
from bentpipe.store.packing import pack
from bentpipe.store.reader import Store
from bentpipe.store.settings import differing_settings
from commands import bentpipe as command

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
title = "two links"
duration = "3 s"
seeds = 2
path = { segment = [{ name = "sky", delay = "20 ms", both = { rate = "4 Mbit/s", loss = "1 %" } }] }
[[flow]]
name = "bulk"
congestion = "cubic"
"""
SWEPT = """
title = "presets"
duration = "2 s"
[[flow]]
name = "bulk"
congestion = "cubic"
[sweep]
"path.preset" = ["lte-4g", "adsl"]
"""
STORES = {
    "plain": ["s.toml"],
    "lossy": ["s.toml", "--set", "path.sky.loss=3 %"],
    "bbr": ["s.toml", "--set", "flow.bulk.congestion=bbr"],
    "many": [
        "s.toml",
        "--set",
        "path.sky.loss=3 %",
        "--set",
        "quic.packets_per_ack=4",
        "--set",
        "duration=2 s",
    ],
    "sweep": ["s.toml", "--sweep", "flow.bulk.congestion=newreno,bbr"],
    "lte": ["p.toml", "--set", "path.preset=lte-4g"],
    "adsl": ["p.toml", "--set", "path.preset=adsl"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("together")
    (place / "s.toml").write_text(SCENARIO)
    (place / "p.toml").write_text(SWEPT)
    for name, words in STORES.items():
        done = command(place, "run", *words, "--jobs", "1", "--out", name)
        assert done.returncode == 0, done.stderr
    return place


def _shown(folder: Path, *stores: str) -> tuple[str, list[dict[str, object]]]:
    done = command(folder, "show", *stores)
    assert done.returncode == 0, done.stderr
    rows = json.loads(command(folder, "show", *stores, "--json").stdout)
    return done.stdout.splitlines()[0], rows


@pytest.mark.parametrize(
    ("stores", "title", "key", "values"),
    [
        (
            ["plain", "lossy"],
            "two links: path.sky.loss 1 % | 3 % (4 of 4 runs",
            "path.sky.loss",
            ["1 %", "3 %"],
        ),
        (
            ["bbr", "plain"],
            "two links: flow.bulk.congestion bbr | cubic (4 of 4 runs",
            "flow.bulk.congestion",
            ["bbr", "cubic"],
        ),
        (
            ["plain", "many"],
            "two links: duration 3 s | 2 s; path.sky.loss 1 % | 3 %; quic.packets_per_ack not set | 4 (",
            "store",
            ["plain", "many"],
        ),
        (
            ["lte", "adsl"],
            "presets: path.preset lte-4g | adsl (2 of 2 runs",
            "path.preset",
            ["lte-4g", "adsl"],
        ),
        (
            ["plain", "sweep"],
            "two links: plain | sweep (6 of 6 runs",
            "flow.bulk.congestion",
            ["cubic", "newreno", "bbr"],
        ),
    ],
)
def test_what_differs_is_in_title_and_columns(
    folder: Path, stores: list[str], title: str, key: str, values: list[str]
) -> None:
    shown, rows = _shown(folder, *stores)
    assert shown.startswith(title), shown
    assert list(dict.fromkeys(row[key] for row in rows)) == values
    alone = [row for store in stores for row in _shown(folder, store)[1]]
    numbers = [(row["metric"], row["n"], row["mean"], row["mean_low"]) for row in rows]
    assert sorted(map(str, numbers)) == sorted(
        str((row["metric"], row["n"], row["mean"], row["mean_low"])) for row in alone
    )


def test_a_report_has_the_stores_side_by_side(folder: Path) -> None:
    done = command(folder, "report", "plain", "lossy", "--figures", "figures", "--format", "svg")
    assert done.returncode == 0, done.stderr
    page = (folder / "plain-lossy.html").read_text().replace("\xa0", " ")
    assert "<h1>two links: path.sky.loss 1 % | 3 %</h1>" in page
    assert re.search(r"Swept: loss[^.]* 1[^.]*3", page)
    assert "bentpipe export plain --format pcapng" in page
    assert "bentpipe export lossy --format pcapng" in page
    assert (folder / "figures" / "cwnd.svg").is_file()
    runs = {row["id"] for store in ("plain", "lossy") for row in Store(folder / store).planned}
    joined = join_stores([folder / "plain", folder / "lossy"])
    assert {row["id"] for row in joined.finished()} == runs
    assert set(joined.links["run"]) == runs


def test_packed_stores_are_joined_alike(folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folder / "lossy", tmp_path / "lossy")
    pack(tmp_path / "lossy")
    loose = join_stores([folder / "plain", folder / "lossy"])
    packed = join_stores([folder / "plain", tmp_path / "lossy"])
    for name in ("flow_summary", "links"):
        assert loose.table(name).equals(packed.table(name))


def test_differing_settings_count_a_preset_once(folder: Path) -> None:
    stores = [Store(folder / name) for name in ("lte", "adsl", "plain")]
    assert differing_settings(stores[:2]) == {"path.preset": ("lte-4g", "adsl")}
    assert differing_settings([stores[2], stores[2]]) == {}
    assert differing_settings(stores)["path.preset"] == ("lte-4g", "adsl", None)


def test_diff_names_differing_paths_in_its_first_line(folder: Path) -> None:
    done = command(folder, "diff", "plain", "lossy")
    first = done.stdout.splitlines()[0]
    assert first.startswith("plain → lossy: different paths, path.sky.loss 1 % → 3 % (means over seeds;")
    done = command(folder, "diff", "lte", "adsl")
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.startswith("lte → adsl: different paths, path.preset lte-4g → adsl (means")
    assert "a file that the scenario refers to has changed" not in done.stdout
    done = command(folder, "diff", "plain", "bbr")
    assert done.stdout.startswith("plain → bbr (means over seeds;")
    assert "flow.bulk.congestion (cubic before, bbr after)" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "plain", "plain"], "is in plain and in plain; expected stores with different settings"),
        (["show", "plain", "nowhere"], "nowhere is not a store: there is no such directory"),
        (["report", "plain", "nowhere"], "nowhere is not a store: there is no such directory"),
        (["report", "plain", "recorded"], "recorded: a recording has a page of its own, expected stores"),
    ],
)
def test_stores_that_cannot_be_joined(folder: Path, words: list[str], message: str) -> None:
    (folder / "recorded").mkdir(exist_ok=True)
    for name in (LINKS, PLAN):
        (folder / "recorded" / name).write_text("{}")
    done = command(folder, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
