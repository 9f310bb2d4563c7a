"""The long commands of the documents in virtual time: each page's commands in order, in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from documented_commands import list_pages
from page_runs import classify_page, run_page

KINDS = {page: {kind for kind, _ in classify_page(page)} for page in list_pages()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "page", [page for page, kinds in KINDS.items() if "nightly" in kinds and "lab" not in kinds]
)
def test_commands_of_a_page_run(page: str, tmp_path: Path, saved: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    wrong = run_page(page, ("followed", "fast", "nightly"), tmp_path, saved)
    assert not wrong, "\n\n".join(wrong)
