"""A file is written whole or not at all, also where several processes write the same one at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import altair
import pytest

from bentpipe.figures.figure import Figure
from bentpipe.store.files import atomic_file, write_atomic

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from pathlib import Path
from bentpipe.store.files import write_atomic
for _ in range(100):
    write_atomic(Path("it"), sys.argv[1].encode() * 300_000)
    assert len(set(Path("it").read_bytes())) == 1 and Path("it").stat().st_size == 300_000
"""


def test_eight_write_the_same_file_at_once(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(n)], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
            env={"PYTHONPATH": str(ROOT / "python")},
        )
        for n in range(8)
    ]  # fmt: skip
    message = [(writer.communicate(timeout=120)[1], writer.returncode) for writer in writers]
    assert message == [("", 0)] * 8
    assert [file.name for file in tmp_path.iterdir()] == ["it"]


def test_the_remains_of_a_killed_process_are_resumed(tmp_path: Path) -> None:
    (tmp_path / ".new-it").write_text("half of something longer")
    write_atomic(tmp_path / "it", b"whole")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("it", "whole")]


def test_a_failure_leaves_the_existing_file(tmp_path: Path) -> None:
    (tmp_path / "it").write_text("before")
    for fault in (KeyboardInterrupt(), OSError(28, "No space left on device")):
        with pytest.raises(type(fault)):
            _half(tmp_path / "it", fault)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("it", "before")]


def _half(path: Path, fault: BaseException) -> None:
    with atomic_file(path) as part:
        part.write_text("half")
        raise fault


@pytest.mark.parametrize("suffix", [".svg", ".pdf"])
def test_a_figure_that_cannot_be_drawn_leaves_the_one_that_was_there(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = altair.Chart(altair.Data(values=[{"a": 1}])).mark_point().encode(x="a:Q")
    shown = Figure("f", "a point", "where it is", points, 1)
    file = shown.write(tmp_path / f"f{suffix}")
    before = file.read_bytes()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=f"f{suffix}"):
        shown.write(file)
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
