"""A metric has one name, unit and factor, and all that show it read them in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import bentpipe
from bentpipe.engine_validation.compare import COMPARED
from bentpipe.metrics.compare import OF_PROGRAMS, OF_STORES
from bentpipe.metrics.groups import OVER_FLOWS
from bentpipe.metrics.registry import METRICS, OVER_SEEDS, Metric
from bentpipe.report.tables import GROUPS, LINKS, RESULTS

ROOT = Path(bentpipe.__file__).parent
REGISTRY = ROOT / "metrics/registry.py"
PACKAGES = (
    "metrics",
    "figures",
    "report",
    "engine_validation",
    "break_even",
    "capacity",
    "link_layer",
    "cli",
)

WITH_A_UNIT = {
    text
    for metric in METRICS.values()
    for text in (metric.heading, metric.heading_alone, metric.axis)
    if text.endswith(metric.unit or "nothing")
} | {metric.title for metric in METRICS.values() if ", " in metric.title}
"""Texts that can stand for a metric only: with the unit, or in two parts."""


def _files() -> list[Path]:
    assert REGISTRY.is_file()
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py") if file != REGISTRY]
    assert len(files) > 50
    return sorted(files)


def test_no_title_is_written_beside_the_registry() -> None:
    written = {
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for file in _files()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in WITH_A_UNIT
    }
    assert not written
    assert {"goodput Mbit/s", "goodput, Mbit/s", "PLT s", "completion, p95"} <= WITH_A_UNIT


def test_every_metric_that_is_shown_is_there() -> None:
    shown = {*RESULTS, *GROUPS, *LINKS, *OVER_SEEDS, *OVER_FLOWS, *OF_STORES, *OF_PROGRAMS}
    assert shown <= METRICS.keys()
    assert {metric.name for metric in COMPARED} <= METRICS.keys()


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
def test_the_factor_leads_from_the_columns_unit_to_that_of_people(metric: Metric) -> None:
    """The suffix of a column is its unit, which gives the factor."""
    base = {"_bit_s": ("Mbit/s", 1e-6), "_bytes": ("kB", 1e-3), "_ms": ("ms", 1.0), "_ratio": ("%", 100.0),
            "_percent": ("%", 1.0), "_s": ("s", 1.0)}  # fmt: skip
    ending = next((ending for ending in base if metric.name.endswith(ending)), None)
    if ending is not None:
        assert (metric.unit, metric.scale) == base[ending]
    else:
        assert (metric.unit, metric.scale) in {("", 1.0), ("%", 100.0)}
