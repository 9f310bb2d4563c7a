"""Tables and headlines: no column that a label already says, no winner among amounts, criteria with definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import synthetic_pages
from bentpipe.figures.page_load_samples import PageLoads
from bentpipe.figures.registry import FigureContext
from bentpipe.metrics.summary_table import summary_rows
from bentpipe.report import page_load_tables, tables
from bentpipe.report.findings import findings
from bentpipe.scenario.sweep_columns import label_contains
from bentpipe.store.reader import Store, open_store

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

CONGESTION, DELAY = "flow.bulk.congestion", "path.satellite.delay"


def _store(synthetic: ModuleType, place: Path, labels: tuple[str, str]) -> Store:
    runs = [
        ({"case": label, CONGESTION: name, DELAY: delay}, 1, [synthetic.Flow("bulk", name, rate)], {})
        for label, name, delay, rate in zip(
            labels, ("cubic", "bbr"), ("10 ms", "50 ms"), (4e6, 5e6), strict=True
        )
    ]
    return open_store(synthetic.write_store(place, runs))


@pytest.mark.parametrize(
    ("labels", "labelled"),
    [
        (("cubic, 10 ms", "bbr, 50 ms"), {"congestion", "delay", "controller"}),
        (("cubic near", "bbr far"), {"congestion", "controller"}),
        (("near", "far"), {"controller"}),
    ],
)
def test_show_leaves_out_what_a_label_contains(
    synthetic: ModuleType, tmp_path: Path, labels: tuple[str, str], labelled: set[str]
) -> None:
    """The column of the controller is also redundant beside that of its swept key."""
    rows = summary_rows(_store(synthetic, tmp_path / "s", labels)).rows
    columns = {"case", "congestion", "delay", "controller"}
    assert columns - rows[0].keys() == labelled
    assert [row["case"] for row in rows] == list(labels)


@pytest.mark.parametrize(
    ("labels", "controller"), [(("cubic, 10 ms", "bbr, 50 ms"), False), (("near", "far"), True)]
)
def test_a_report_has_the_controller_unless_the_label_contains_it(
    synthetic: ModuleType, tmp_path: Path, labels: tuple[str, str], controller: bool
) -> None:
    table = tables.results(FigureContext(_store(synthetic, tmp_path / "s", labels)))
    heads = [head.title for head in table.heads]
    assert ("controller" in heads) == controller
    assert "delay" not in heads


def test_numbers_have_every_column(synthetic: ModuleType, tmp_path: Path) -> None:
    store = _store(synthetic, tmp_path / "s", ("cubic, 10 ms", "bbr, 50 ms"))
    assert {CONGESTION, DELAY} <= summary_rows(store, numbers=True).rows[0].keys()


@pytest.mark.parametrize(
    ("label", "value", "contains"),
    [
        ("cubic, 10 ms", "10 ms", True),
        ("cubic, 10 ms", "cubic", True),
        ("cubic, 10 ms", "0 ms", False),
        ("bbr3", "bbr", False),
        ("loss 0.5 %", "5 %", False),
    ],
)
def test_a_label_contains_whole_words(label: str, value: str, contains: bool) -> None:
    assert label_contains(label, value) is contains


def test_a_table_explains_the_criteria_that_it_names(synthetic: ModuleType, tmp_path: Path) -> None:
    store = open_store(synthetic_pages.page_store(tmp_path / "s", synthetic, packets=False))
    _, table = page_load_tables.tables(FigureContext(store))
    assert table is not None
    by = [head.title for head in table.heads].index("by")
    named = {name for row in table.rows for name in page_load_tables.CRITERIA if name in str(row.cells[by])}
    assert "intervals (P1)" in named
    assert [note.partition(":")[0].lower() for note in table.notes] == [
        name.lower() for name in page_load_tables.CRITERIA if name in named
    ]


def test_a_swept_amount_is_no_variant(synthetic: ModuleType, tmp_path: Path) -> None:
    """Loads at several delays are compared with no winner among the delays."""
    store = open_store(
        synthetic_pages.page_store(
            tmp_path / "s", synthetic, seeds=6, arms=("2",), packets=False, delays=("10 ms", "50 ms", "90 ms")
        )
    )
    context = FigureContext(store)
    loads = PageLoads(context)
    assert [dim.title for dim in context.dims] == ["one-way delay"]
    assert loads.variant_dim is None
    assert loads.variants == ["HTTP/2"]
    assert page_load_tables.tables(context)[1] is None, "nothing is compared"
    assert "ahead" not in findings(context)
