"""Names that tests import from helpers exist, also in tests that this machine cannot run."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

HERE = Path(__file__).parent
SHARED = sorted(file.stem for file in HERE.glob("*.py") if not file.stem.startswith(("test_", "conftest")))


def taken(source: str) -> set[tuple[str, str]]:
    """Module and name: of ``module.name`` and of ``from module import name``."""
    imported, found = set(), set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                imported |= {alias.name for alias in node.names if not alias.asname}
            case ast.ImportFrom(module=str(module)):
                found |= {(module, alias.name) for alias in node.names}
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in imported:
                found.add((module, name))
    return {(module, name) for module, name in found if module in SHARED}


def test_imported_names_exist() -> None:
    names = set().union(*(taken(file.read_text(encoding="utf-8")) for file in HERE.glob("*.py")))
    assert len({module for module, _ in names}) > 10
    there = {(module, name) for module in SHARED for name in vars(importlib.import_module(module))}
    assert sorted(names - there) == []


def test_a_name_that_is_gone_is_found() -> None:
    source = "import realtime\nfrom commands import gone\nrealtime.at_rest()\n"
    assert taken(source) == {("realtime", "at_rest"), ("commands", "gone")}
