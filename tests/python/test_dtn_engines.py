"""A contact plan of seconds on both clocks: what comes at which pass, over LTP, TCPCLv4 and QUICCL."""

from __future__ import annotations

import tomllib
from pathlib import Path

import polars as pl
import pytest

import bentpipe
import realtime
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.store.reader import Store

FILE = Path(__file__).resolve().parents[2] / "scenarios/dtn/both-clocks.toml"
MARS = FILE.parents[1] / "mars.toml"

NEAR_S = 0.3
"""A delivery is at the same time on both clocks, within this bound. The round trip of the slowest hop is off by less on
a busy machine. The bound is a third of the shortest pass."""


def brief() -> str:
    """The first pass, and bundles that are there for it: all passes are in the standing table (studies/agreement/bundles.toml)."""
    text = FILE.read_text()
    for was, put in (
        ('duration = "39 s"', 'duration = "6 s"'),
        ("seeds = 3", "seeds = 1"),
        ("-T 22", "-T 3"),
    ):
        assert text.count(was) == 1
        text = text.replace(was, put)
    return text


def test_it_is_the_chain_of_mars_and_runs_on_both_clocks() -> None:
    own, mars = (tomllib.loads(one.read_text()) for one in (FILE, MARS))
    assert own["graph"]["node"] == mars["graph"]["node"]
    for one, other in zip(own["flow"], mars["flow"], strict=True):
        assert [one[key] for key in ("name", "client", "server")] == [
            other[key] for key in ("name", "client", "server")
        ]
    runs = build_plan(load_scenario(FILE), "test", catalogue=engine.catalogue()).runs
    assert len(runs) == 9
    for run in runs:
        assert refusals(run.spec, engine.catalogue()) == []


def test_the_standing_table_has_the_same_scenario() -> None:
    standing = FILE.parents[2] / "studies/agreement/bundles.toml"
    own, there = (tomllib.loads(one.read_text()) for one in (FILE, standing))
    assert {**own, "title": there["title"]} == there


def test_every_bundle_is_there_before_the_run_ends(tmp_path: Path) -> None:
    results = bentpipe.run(FILE, out=tmp_path / "sim", jobs=1, seeds=1)
    rows = Store(results.path).rows("bundles").filter(kind="data")
    for _, run in rows.group_by("run"):
        assert run.filter(event="delivered").height == run.filter(event="generated").height == 28


@pytest.mark.nightly
@pytest.mark.lab
def test_bundles_come_at_the_same_passes_on_both_clocks(tmp_path: Path) -> None:
    realtime.need_namespaces()
    (tmp_path / "plan.toml").write_text(brief())
    sim = _times(tmp_path, "sim", "sim")
    assert {layer: len(times) for layer, times in sim.items()} == dict.fromkeys(
        ("LTP", "TCPCLv4", "QUICCL"), 4
    )
    # A node that gets no processor as a pass begins sends in the next one.
    realtime.tried(lambda number: _apart(sim, _times(tmp_path, "emu", f"emu{number}")))


def _times(folder: Path, clock: str, out: str) -> dict[str, dict[int, float]]:
    """By layer and bundle, when it was delivered."""
    store = realtime.ran(folder, "plan.toml", out, "--engine", clock, "--jobs", "3")
    rows = store.rows("bundles").filter(kind="data", event="delivered")
    labels = {run["id"]: run["cell"]["layer"] for run in store.planned}
    rows = rows.with_columns(layer=pl.col("run").cast(pl.String).replace_strict(labels))
    found: dict[str, dict[int, float]] = {layer: {} for layer in labels.values()}
    for layer, sequence, time_s in rows.select("layer", "sequence", "time_s").iter_rows():
        found[layer][sequence] = time_s
    return found


def _apart(sim: dict[str, dict[int, float]], emu: dict[str, dict[int, float]]) -> list[str]:
    """Layers in which other bundles came, or one at another time."""
    return [
        f"{layer}: {times} and {emu.get(layer)}"
        for layer, times in sim.items()
        if times.keys() != emu[layer].keys()
        or max(abs(at - emu[layer][one]) for one, at in times.items()) > NEAR_S
    ]
