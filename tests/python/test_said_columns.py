"""Columns that the label of a tied axis already says, in the tables of show and of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bentpipe.figures.registry import FigureContext
from bentpipe.metrics.summary_table import summary_rows
from bentpipe.report import tables
from bentpipe.scenario.sweep_columns import label_says
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
    ("labels", "said"),
    [
        (("cubic, 10 ms", "bbr, 50 ms"), {"congestion", "delay", "controller"}),
        (("cubic near", "bbr far"), {"congestion", "controller"}),
        (("near", "far"), {"controller"}),
    ],
)
def test_show_leaves_out_what_a_label_says(
    synthetic: ModuleType, tmp_path: Path, labels: tuple[str, str], said: set[str]
) -> None:
    """The column of the controller is also redundant beside that of its swept key."""
    rows = summary_rows(_store(synthetic, tmp_path / "s", labels)).rows
    columns = {"case", "congestion", "delay", "controller"}
    assert columns - rows[0].keys() == said
    assert [row["case"] for row in rows] == list(labels)


@pytest.mark.parametrize(
    ("labels", "controller"), [(("cubic, 10 ms", "bbr, 50 ms"), False), (("near", "far"), True)]
)
def test_a_report_has_the_controller_unless_the_label_says_it(
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
    ("label", "value", "says"),
    [
        ("cubic, 10 ms", "10 ms", True),
        ("cubic, 10 ms", "cubic", True),
        ("cubic, 10 ms", "0 ms", False),
        ("bbr3", "bbr", False),
        ("loss 0.5 %", "5 %", False),
    ],
)
def test_a_label_says_whole_words(label: str, value: str, says: bool) -> None:
    assert label_says(label, value) is says
