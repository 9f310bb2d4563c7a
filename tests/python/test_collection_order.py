"""Heavy files begin first where tests run side by side."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from collection_order import HEAVY, pytest_collection_modifyitems

HERE = Path(__file__).parent


def test_heavy_files_are_there() -> None:
    assert [name for name in HEAVY if not (HERE / f"{name}.py").exists()] == []
    assert len(set(HEAVY)) == len(HEAVY)


def test_heavy_files_begin_first_in_workers_alone() -> None:
    found: Any = [SimpleNamespace(path=HERE / f"{name}.py") for name in ("test_a", *HEAVY[::-1], "test_z")]
    names = [item.path.stem for item in found]
    pytest_collection_modifyitems(SimpleNamespace(), found)  # type: ignore[arg-type]
    assert [item.path.stem for item in found] == names
    pytest_collection_modifyitems(SimpleNamespace(workerinput={}), found)  # type: ignore[arg-type]
    assert [item.path.stem for item in found] == [*HEAVY, "test_a", "test_z"]
