"""The script that draws figures is put together once, and again where what was kept is not what was written."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
import vl_convert

from bentpipe.report.vega_bundle import library


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the requests to vl-convert; it returns a short script."""
    asked: list[str] = []

    def bundle(snippet: str, vl_version: str) -> str:
        asked.append(vl_version)
        return 'draw("µ </script>")'

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    return asked


WHOLE = 'draw("µ <\\/script>")'


def test_it_is_cached(made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert [library(), library()] == [WHOLE, WHOLE]
    assert len(made) == 1
    (saved,) = (tmp_path / "bentpipe").iterdir()
    assert made[0] in saved.name
    assert metadata.version("vl-convert-python") in saved.name
    for damaged in (
        b"",
        saved.read_bytes()[:-1],
        saved.read_bytes().replace(b"draw", b"drew"),
        b"\xff\n\xff",
    ):
        saved.write_bytes(damaged)
        assert library() == WHOLE
        assert library() == WHOLE
    assert len(made) == 5
    assert [saved] == [*(tmp_path / "bentpipe").iterdir()]


def test_it_is_had_where_nothing_can_be_cached(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [library(), library()] == [WHOLE, WHOLE]
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setattr(Path, "home", classmethod(_homeless))
    assert library() == WHOLE
    assert len(made) == 3
    assert not Path("not").exists()


def _homeless(_: type[Path]) -> Path:
    raise RuntimeError("Could not determine home directory.")
