"""SQL over a store: the tables hold what ``show`` prints, the list of tables, and messages of wrong queries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import bentpipe
from bentpipe.metrics.registry import METRICS, column_unit
from bentpipe.metrics.summary_table import bundle_rows, call_rows, page_rows, summary_rows, user_tables
from bentpipe.plan.spec.result_columns import COLUMNS, FILLED_BY, OPTIONAL_COLUMNS
from bentpipe.store.codec import TABLES
from commands import bentpipe as command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCENARIO = """
title = "mixed"
duration = "8 s"
seeds = 2
path = { segment = [{ name = "sky", delay = "20 ms", up = { rate = "4 Mbit/s" }, down = { rate = "20 Mbit/s", scheduler = "round-robin", loss = "0.5 %" } }] }
[[flow]]
name = "page"
congestion = "cubic"
load = { page = "almanac-2019-light" }
[[flow]]
name = "call"
transport = "udp"
load = { call = "g711" }
[[flow]]
name = "bulk"
congestion = "cubic"
direction = "down"
count = 2
load = { bytes = "300 kB" }
[sweep]
"path.sky.delay" = ["20 ms", "60 ms"]
"""

BUNDLES = """
title = "bundles"
duration = "20 s"
path = { segment = [{ name = "sky", delay = "20 ms", both = { rate = "4 Mbit/s" } }] }
[[flow]]
name = "data"
congestion = "cubic"
load = { bundles = { layer = "quiccl", dtnperf = "-D 400k -P 50k -W 2" } }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("query")
    for name, text in (("mixed", SCENARIO), ("bundles", BUNDLES)):
        (place / f"{name}.toml").write_text(text)
        done = command(place, "run", f"{name}.toml", "--jobs", "1", "--out", name)
        assert done.returncode == 0, done.stderr
    return place


def _query(folder: Path, store: str, sql: str) -> list[dict[str, Any]]:
    done = command(folder, "query", store, sql, "--json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def _number(text: object) -> float | None:
    word = str(text).split(" ", maxsplit=1)[0].replace(",", "")
    try:
        return float(word)
    except ValueError:
        return None


def _check_in_cells(
    rows: Sequence[Mapping[str, Any]], cells: list[dict[str, Any]], headings: Mapping[str, tuple[str, str]]
) -> int:
    """Check that the numbers of a table of ``show`` are in ``cells``; return their count.

    ``headings`` has the metric and its statistic by heading.
    """
    found = 0
    for row in rows:
        here = [
            cell
            for cell in cells
            if all(
                row.get(name) is None or str(row[name]) == str(cell[column]) or cell[column] is None
                for name, column in (
                    ("flow", "flow"),
                    ("direction", "direction"),
                    ("delay", "path.sky.delay"),
                )
                if column in cell
            )
            and (row.get("load") is None or cell.get("load") == row["load"])
        ]
        for heading, (metric, statistic) in headings.items():
            shown = _number(row.get(heading))
            if shown is None:
                continue
            values = [cell[statistic] * METRICS[metric].scale for cell in here if cell["metric"] == metric]
            digits = str(row[heading]).split(" ", maxsplit=1)[0].partition(".")[2]
            rounding = max(0.5 * 10 ** -len(digits), 0.0005 * abs(shown))
            assert any(abs(value - shown) <= 1.01 * rounding for value in values), (heading, row, values)
            found += 1
    return found


def test_cells_hold_every_number_of_show(folder: Path) -> None:
    cells = _query(folder, "mixed", "SELECT * FROM cells")
    assert cells == json.loads(command(folder, "show", "mixed", "--json").stdout)
    store = folder / "mixed"
    statistic = {name: "median" if metric.is_skewed else "mean" for name, metric in METRICS.items()}
    by_heading = {
        heading: (name, statistic[name])
        for name, metric in METRICS.items()
        for heading in (metric.heading, metric.heading_alone, metric.group_title)
        if heading and name != "mos_min"
    }
    first = {
        key: value for key, value in by_heading.items() if METRICS[value[0]].scope in ("flow", "run", "group")
    }
    assert _check_in_cells(summary_rows(store).rows, cells, first) > 20
    calls = {
        key: value
        for key, value in by_heading.items()
        if "call" in (METRICS[value[0]].scope, METRICS[value[0]].other_scope)
    }
    assert _check_in_cells(call_rows(store), cells, calls) > 20
    users = {key: value for key, value in by_heading.items() if METRICS[value[0]].scope == "users"}
    assert sum(_check_in_cells(table.rows, cells, users) for table in user_tables(store)) > 10
    pages = {
        f"{METRICS[name].short_title} median s": (name, "median") for name in ("connect_s", "ttr_s", "plt_s")
    }
    assert _check_in_cells(page_rows(store), cells, pages) >= 6
    of_bundles = _query(folder, "bundles", "SELECT * FROM cells")
    bundles = {key: value for key, value in by_heading.items() if METRICS[value[0]].scope == "bundle client"}
    assert _check_in_cells(bundle_rows(folder / "bundles"), of_bundles, bundles) >= 5


def test_metrics_have_a_row_of_each_scope(folder: Path) -> None:
    rows = _query(
        folder, "mixed",
        "SELECT flow, direction, load, count(mos) AS mos, count(plt_s) AS plt, count(goodput_bit_s) AS goodput, "
        "count(user_jain) AS users, count(*) AS n FROM metrics GROUP BY ALL ORDER BY ALL",
    )  # fmt: skip
    by = {(row["flow"], row["direction"], row["load"]): row for row in rows}
    assert by["call", "down", None]["mos"] == 4
    assert by["page", None, 1]["plt"] == 4
    assert by["page", None, 1]["goodput"] == 0
    assert by["bulk", "down", None]["goodput"] == by["bulk", "down", None]["users"] == 4
    [answer] = _query(
        folder, "mixed",
        "SELECT avg(mos) - (SELECT mean FROM cells WHERE metric = 'mos' AND direction = 'up' AND "
        "\"path.sky.delay\" = '20 ms') AS x FROM metrics WHERE direction = 'up' AND \"path.sky.delay\" = '20 ms'",
    )  # fmt: skip
    assert abs(answer["x"]) < 1e-9
    results = bentpipe.open_results(folder / "mixed")
    assert results.metrics().filter(flow="page", load=1)["plt_s"].null_count() == 0
    assert {"mos", "plt_s", "goodput_bit_s", "user_jain"} <= set(results.cells()["metric"])
    assert "plt_s" in results.cells(form="wide").columns
    assert "mos" in results.metrics(form="long")["metric"]


def test_without_sql_the_tables_are_listed(folder: Path) -> None:
    done = command(folder, "query", "mixed")
    assert done.returncode == 0, done.stderr
    assert "smoothed_rtt_ms" in done.stdout
    assert "plt_s (s)" in done.stdout
    assert "set trace.packets = true" in done.stdout
    tables = {one["table"]: one for one in json.loads(command(folder, "query", "mixed", "--json").stdout)}
    assert set(tables) == {"runs", "metrics", "cells", "user_metrics", *TABLES}
    assert next(iter(tables)) == "metrics"
    for name in ("runs", "metrics", "flows", "cells", "pages"):
        [row] = _query(folder, "mixed", f"SELECT count(*) AS n FROM {name}")  # noqa: S608
        assert tables[name]["rows"] == row["n"] > 0
        assert tables[name]["filled_by"] is None
    columns = {one["name"]: one for one in tables["metrics"]["columns"]}
    assert columns["goodput_bit_s"] == {"name": "goodput_bit_s", "type": "DOUBLE", "unit": "bit/s"}
    assert columns["utilisation"]["unit"] == "share of 1"
    assert columns["run"]["unit"] == ""
    assert tables["packets"]["rows"] == 0
    assert tables["packets"]["filled_by"] == "set trace.packets = true and rerun"
    assert tables["radio_users"]["columns"] == []


def test_every_table_that_may_be_empty_has_its_key() -> None:
    always = {"flow_summary", "link_summary", "flows", "links"}
    assert {*COLUMNS, *OPTIONAL_COLUMNS, *TABLES} - always <= set(FILLED_BY)
    assert column_unit("time_s") == "s"
    assert column_unit("delay_sum_s") == column_unit("queueing_max_s") == "s"
    assert column_unit("user_goodput_sd_bit_s") == "bit/s"
    assert column_unit("flow") == ""


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT goodput FROM metrics",
            'no column "goodput" in metrics, expected one such as: goodput_bit_s, ',
        ),
        ("SELECT goodput FROM metrics", 'did you mean "goodput_bit_s"?'),
        (
            "SELECT m.cwnd FROM flow_summary m",
            'no column "cwnd" in flow_summary, expected one such as: cwnd_undos, cwnd_max_bytes',
        ),
        ("SELECT plt_s FROM flow_summary", 'the table "pages" has it'),
        ("SELECT * FROM metrix", 'did you mean "metrics"?'),
        ("SELECT * FROM cell", 'did you mean "cells"?'),
        (
            "SELECT * FROM radio_users",
            'the table "radio_users" is empty in this store; set link_layer or nr of a direction',
        ),
        (
            "SELECT path.sky.delay FROM metrics",
            "a column with dots requires double quotes: '\"path.sky.delay\"'",
        ),
        ("SELECT x.flow FROM metrics", 'no table or alias "x" in this query'),
    ],
)
def test_a_wrong_query_names_what_is_meant(folder: Path, sql: str, message: str) -> None:
    done = command(folder, "query", "mixed", sql)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_table_names_its_key(folder: Path) -> None:
    done = command(folder, "query", "mixed", "SELECT * FROM packets")
    assert done.returncode == 0
    assert done.stdout == "(no rows)\n"
    assert (
        done.stderr
        == 'warning: the table "packets" is empty in this store; set trace.packets = true and rerun\n'
    )
    done = command(folder, "query", "mixed", "SELECT * FROM flows WHERE flow = 'nobody'")
    assert done.stderr == ""
    with pytest.raises(bentpipe.QueryError, match="set scheduler of a direction"):
        bentpipe.open_results(folder / "bundles").sql("SELECT * FROM user_queues")
