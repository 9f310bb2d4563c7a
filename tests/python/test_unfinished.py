"""Downloads that the end of a run cuts off: `run`, `show` and `report` say so, and compare restricted times."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import bentpipe
import commands
from bentpipe.figures.context import FigureContext
from bentpipe.report.findings import findings, variant_pairs
from bentpipe.report.unfinished import unfinished_note
from bentpipe.store.reader import open_store

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("bentpipe._engine")

SCENARIO = """
duration = "12 s"
seeds = 5
[[path.segment]]
name = "sky"
delay = "150 ms"
both = { rate = "10 Mbit/s", queue = "1 BDP", loss = "1 %" }
[[flow]]
name = "download"
direction = "down"
load = { bytes = "1 MB" }
[sweep]
"flow.download.congestion" = ["newreno", "bbr"]
"""
NOTE = "2 of 5 downloads of newreno did not finish in 12 s: raise duration (--set duration=...)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unfinished")
    (folder / "mine.toml").write_text(SCENARIO)
    done = commands.bentpipe(folder, "run", "mine.toml", "--json")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, f"warning: {NOTE}")
    return folder


def test_run_show_and_report_say_what_did_not_finish(folder: Path) -> None:
    again = commands.bentpipe(folder, "run", "mine.toml")
    assert again.stderr == f"warning: {NOTE}\n"
    shown = commands.bentpipe(folder, "show", "out/mine").stdout.splitlines()
    assert shown.count(f"{NOTE}.") == 1
    for options, name in ([], "report"), (["--brief"], "brief"):
        assert commands.bentpipe(folder, "report", "out/mine", *options).returncode == 0
        page = html.unescape((folder / f"out/mine/{name}.html").read_text()).replace("\u00a0", " ")
        head = page[page.index('<p class="verdict">') : page.index('<div class="figure"')]
        assert f'<p class="warning">{NOTE}.</p>' in head


def test_unfinished_downloads_are_compared_by_restricted_means(folder: Path) -> None:
    """A download that did not finish counts with the time until the end of its run: 12 s less one round trip."""
    store = open_store(folder / "out/mine")
    streams = store.rows("streams").join(store.index, on="run")
    tau = 12 - streams["start_s"].max()  # type: ignore[operator]
    took = streams.with_columns(value=(pl.col("down_fin_s") - pl.col("start_s")).fill_null(tau))
    means = {
        name: took.filter(pl.col("flow.download.congestion") == name)["value"] for name in ("newreno", "bbr")
    }
    assert streams["down_fin_s"].null_count() == 2
    ratios = (means["newreno"] / means["bbr"]).log()
    text = findings(FigureContext(store))
    factor = math.exp(ratios.mean())  # type: ignore[arg-type]
    assert text.startswith(
        "No variant leads: the largest difference of restricted mean completion time is bbr"
    ), text
    assert (
        f"with {means['bbr'].mean():.3g} s against {means['newreno'].mean():.3g} for newreno "
        f"({factor:.3g} times as long ["
    ) in text
    assert text.endswith(f" with 5 seeds; an unfinished transfer counts as {tau:.3g} s.")
    table = variant_pairs(FigureContext(store))
    assert table is not None
    (row,) = table.text_rows()
    assert (row["first"], row["second"], row["ahead"]) == ("newreno", "bbr", "–")
    assert f"({row['ratio first / second']}" in text.replace(" times as long", "")
    assert any("geometric mean" in note for note in table.notes)
    assert "Holm's procedure corrects the p-values, not the 95 % intervals." in table.notes


def _note(tmp_path: Path, *flows: dict[str, Any], **other: Any) -> str:
    both = {"rate": "1 Mbit/s", "queue": "1 BDP"}
    segment = {"name": "sky", "delay": "50 ms", "both": both}
    data = {"duration": "4 s", "path": {"segment": [segment]}, "flow": list(flows), **other}
    bentpipe.run(data, out=tmp_path / "store")
    return unfinished_note(FigureContext(open_store(tmp_path / "store")))


def _flow(**other: Any) -> dict[str, Any]:
    return {"name": "bulk", "congestion": "cubic", "direction": "up", "load": {"bytes": "490 kB"}, **other}


def test_a_flow_is_named_beside_others(tmp_path: Path) -> None:
    small = _flow(name="small", direction="down", load={"bytes": "10 kB"})
    note = _note(tmp_path, _flow(count=3, load={"bytes": "300 kB"}), small)
    assert note == "3 of 3 uploads of bulk did not finish in 4 s: raise duration (--set duration=...)"


def test_many_cells_have_one_number(tmp_path: Path) -> None:
    delays = ["10 ms", "20 ms", "30 ms", "40 ms", "50 ms"]
    note = _note(tmp_path, _flow(), sweep={"path.sky.delay": delays})
    assert note.startswith("5 of 5 uploads in 5 of 5 cells did not finish in 4 s: ")


@pytest.mark.parametrize(
    "load",
    [
        {"bytes": "10 kB"},
        {"time": "4 s"},
        {"poisson": {"interval": "100 ms", "size": {"fixed": "100 kB"}}},
        {"page": "target-a", "http": "2"},
    ],
    ids=["finished", "time", "random arrivals", "page"],
)
def test_other_loads_have_no_note(tmp_path: Path, load: dict[str, Any]) -> None:
    """More time would not finish the last of random arrivals."""
    direction = {} if "page" in load else {"direction": "up"}
    flow = {"name": "bulk", "congestion": "cubic", "load": load, **direction}
    assert _note(tmp_path, flow) == ""
