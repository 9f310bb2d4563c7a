"""Fixtures that several test files share."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

from bentpipe.cli import GARBAGE
from bentpipe.runners.local import Idle, LocalRunner
from collection_order import pytest_collection_modifyitems, pytest_ignore_collect
from skips import pytest_sessionfinish, pytest_terminal_summary

__all__ = [
    "pytest_collection_modifyitems", "pytest_ignore_collect", "pytest_sessionfinish", "pytest_terminal_summary",
    "synthetic", "waiting_workers",
]  # fmt: skip

# As the command line does: what tests make is many small objects that stay.
gc.set_threshold(GARBAGE)

# An example that takes long is the machine's doing.
settings.register_profile("bentpipe", deadline=None)
settings.load_profile("bentpipe")


@pytest.fixture(scope="session", autouse=True)
def waiting_workers() -> Iterator[None]:
    """Workers wait for the next test of their kind: each takes half a second to begin, as long as many tests."""
    with Idle() as idle, pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalRunner.__init__, "__defaults__", (None, None, idle))
        yield


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    """The maker of stores without an engine (synthetic.py)."""
    place = Path(__file__).with_name("synthetic.py")
    spec = importlib.util.spec_from_file_location("synthetic", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["synthetic"] = module
    spec.loader.exec_module(module)
    return module
