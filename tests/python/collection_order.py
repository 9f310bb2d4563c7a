"""Selection and order of the test files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["HEAVY", "pytest_collection_modifyitems", "pytest_ignore_collect"]

HEAVY = (
    "test_documented_runs",
    "test_trace_check",
    "test_readme",
    "test_examples",
    "test_packs",
    "test_store_damage",
    "test_findings_one_plan",
    "test_documented_commands",
    "test_labels",
    "test_findings_users",
    "test_page_figures",
    "test_engine_validation",
    "test_fit",
    "test_cost",
    "test_study_tauran_users",
    "test_pages",
    "test_wheel",
    "test_hard_use_short",
    "test_cli",
    "test_questions",
    "test_paper_figures",
    "test_studies",
    "test_bench_users",
    "test_findings",
)
"""Those that take most processor time, most first; the others follow as they are collected, each of less than 16 s. A row of tests
side by side whose last file takes a minute ends with one processor at work."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without such a test for ``-m lab`` and ``-m "live and ..."``: three quarters of the files then need no compilation."""
    first = config.getoption("markexpr").partition(" ")[0]
    asked = first in ("lab", "live") and collection_path.name.startswith("test_")
    return True if asked and f"mark.{first}" not in collection_path.read_text(encoding="utf-8") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In workers only: ``--no-loadscope-reorder`` hands files out in this order, not those of many tests first."""
    if hasattr(config, "workerinput"):
        places = {name: place for place, name in enumerate(HEAVY)}
        items.sort(key=lambda item: places.get(item.path.stem, len(HEAVY)))
