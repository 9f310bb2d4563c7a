"""Option ``--open``, and ``show`` of a folder of stores."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest

from commands import bentpipe

SCENARIO = """
title = "{title}"
duration = "1 s"
[[path.segment]]
name = "satellite"
delay = "10 ms"
both = {{ rate = "1 Mbit/s" }}
[[flow]]
name = "a"
transport = "tcp"
congestion = "cubic"
load = {{ bytes = "10 kB" }}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores")
    for name in ("first", "second"):
        (path / f"{name}.toml").write_text(SCENARIO.format(title=f"The {name} study"))
        assert bentpipe(path, "run", f"{name}.toml", "--out", f"out/{name}").returncode == 0
    (path / "out/empty").mkdir()
    return path


def test_show_of_a_folder_lists_its_stores(folder: Path) -> None:
    rows = json.loads(bentpipe(folder, "show", "out", "--json").stdout)
    assert {row["store"]: row["title"] for row in rows} == {
        "out/first": "The first study",
        "out/second": "The second study",
    }
    assert {row["runs"] for row in rows} == {"1 of 1"}
    # A store without its journal is readable.
    (folder / "out/second/journal.jsonl").rename(folder / "journal")
    assert "The second study" in bentpipe(folder, "show", ".").stdout
    (folder / "journal").rename(folder / "out/second/journal.jsonl")
    missing = bentpipe(folder, "show", "out/empty")
    assert missing.returncode == 2
    assert "out/empty is not a store" in missing.stderr


def test_open_opens_the_written_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    bentpipe(folder, "report", "out/first", "--open")
    assert opened == [(folder / "out/first/report.html").resolve().as_uri()]


def test_open_without_a_browser_is_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    result = bentpipe(folder, "report", "out/second", "--open")
    assert "warning: --open: no browser found" in result.stderr


def test_open_of_sessions_leads_to_report(folder: Path) -> None:
    result = bentpipe(folder, "browse", "first.toml", "--open")
    assert result.returncode == 2
    assert "bentpipe report DIR --open" in result.stderr


def test_open_of_a_map(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    words = ["--sizes", "10 kB", "--rtts", "20 ms", "--out", "out/map", "--open"]
    assert bentpipe(folder, "break-even", "adsl", *words).returncode == 0
    assert opened == [(folder / "out/map/map.html").resolve().as_uri()]
