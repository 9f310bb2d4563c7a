"""The commands of the documents in real time, in a network namespace of this test; its loopback is every host of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

import realtime
from documented_commands import list_pages
from namespaces import namespaces
from page_runs import LONGEST_S, classify_page, run_page

HOSTS = ("192.168.1.7", "10.0.0.7")
"""Second hosts of the documents."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.mark.lab
@pytest.mark.nightly
@pytest.mark.parametrize(
    "page", [page for page in list_pages() if any(kind == "lab" for kind, _ in classify_page(page))]
)
def test_commands_of_a_page_run_in_real_time(
    page: str, tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all other commands of the page, since either may use what the other wrote."""
    pytest.importorskip("bentpipe._engine")
    realtime.need_root("a network namespace with the hosts of the page")
    realtime.need_namespaces("curl", "nft", "nsenter")
    monkeypatch.setenv("BENTPIPE_RT", str(realtime.program()))
    with namespaces(1, seconds=8 * LONGEST_S) as (inside,):
        for host in HOSTS:
            inside.run("ip", "address", "add", f"{host}/32", "dev", "lo")
        wrong = run_page(page, ("followed", "fast", "nightly", "lab"), tmp_path, saved, inside)
    assert not wrong, "\n\n".join(wrong)
