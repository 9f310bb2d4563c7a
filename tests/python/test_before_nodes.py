"""A store that was made before the engine had nodes, users and steps of packets: today's readers, and its numbers today.

``before_nodes.tar.xz`` holds the store of ``before_nodes.toml``: two cells of two seeds with QUIC, TCP that a proxy
splits, loads of a page, and the table of packets.
"""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import polars as pl
import pytest

import bentpipe
import commands
from bentpipe.metrics.store_comparison import compare_stores as compare
from bentpipe.report.export import FORMATS, export
from bentpipe.report.store_page import write_report
from bentpipe.runners import engine
from bentpipe.store.codec import TABLES
from bentpipe.store.files import MissingTableError, StoreError
from bentpipe.store.reader import Store, open_store

SCENARIO = Path(__file__).with_name("before_nodes.toml")
LATER = {
    "stages", "holds", "users", "user_queues", "tcp", "calls", "call_delays", "bundles", "routes", "reports", "stored",
    "attempts",
}  # fmt: skip
"""Tables that came after."""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(Path(__file__).with_name("before_nodes.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    return folder / "before_nodes"


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(bentpipe.run(SCENARIO, out=tmp_path_factory.mktemp("new") / "store", jobs=1).path)


def command(*words: str) -> tuple[int, str]:
    done = commands.bentpipe(Path.cwd(), *words, environment={**os.environ, "COLUMNS": "240"})
    return done.returncode, done.stdout + done.stderr


def test_it_holds_every_kind_of_table(old: Path) -> None:
    store = Store(old)
    assert store.engine != engine.version()
    for name in TABLES:
        if name in LATER:
            with pytest.raises(MissingTableError, match=f"no finished run has a table '{name}'"):
                store.table(name)
        else:
            assert store.table(name).height, name
    assert store.runs.height == 4
    assert open_store(old).rows("stages").columns == ["run"]


def test_the_same_scenario_has_the_same_tables_today(old: Path, new: Path) -> None:
    """Its numbers are those of its engine: later ones have changed results."""
    before, after = Store(old), Store(new)
    assert before.scenario == after.scenario
    for name in set(TABLES) - LATER:
        a, b = (store.table(name).drop("run") for store in (before, after))
        assert b.select(a.columns).schema == a.schema, name
        assert {"runs", "summary", "pages"}.isdisjoint({name}) or b.height == a.height, name
    rows = compare(old, new)
    assert (rows.only_before, rows.only_after) == (0, 0)
    assert {change.metric for change in rows.changes} >= {"goodput_bit_s", "plt_s", "jain"}
    assert {change.verdict for change in rows.changes} == {"none", "too few seeds"}


def test_show_report_query_and_export_read_it(old: Path, tmp_path: Path) -> None:
    status, shown = command("show", str(old))
    assert status == 0, shown
    assert "4 of 4 runs" in shown
    assert "Loads of pages" in shown
    page = write_report(old, tmp_path / "report.html").read_text()
    assert "Before nodes" in page
    status, said = command("query", str(old), "SELECT count(*) AS rows FROM summary", "--json")
    assert (status, json.loads(said)) == (0, [{"rows": 4 * 3 * 2}])
    for form in FORMATS:
        if form in ("qlog", "pcapng"):
            with pytest.raises(StoreError, match=f"no {form} traces in this store"):
                export(Store(old), form, tmp_path / form)
        else:
            assert export(Store(old), form, tmp_path / form)
    flows = pl.read_csv(tmp_path / "csv" / "flows.csv")
    assert flows.height == Store(old).flows.height
    assert not (tmp_path / "csv" / "stages.csv").exists()


def test_what_it_cannot_do_is_said_in_a_line(old: Path) -> None:
    for words, said in (
        (("query", str(old), "SELECT * FROM stages"), "Table with name stages does not exist"),
        (("query", str(old), "SELECT flow_group FROM summary"), "flow_group"),
        (("verify", str(old)), "no packet steps in this store"),
        (("run", str(SCENARIO), "--out", str(old)), "which does not resume it"),
    ):
        status, output = command(*words)
        assert status == 2, words
        assert said in output, words
        assert output.startswith("error: "), output
        assert words[0] == "query" or output.count("\n") == 1, output  # of SQL, DuckDB shows the place
    assert Store(old).runs.height == 4


def test_diff_on_the_command_line(old: Path, new: Path) -> None:
    status, shown = command("diff", str(old), str(new))
    assert status == 0, shown
    assert "goodput" in shown
    status, shown = command("diff", str(new), str(old), "--json")
    assert status == 0, shown
