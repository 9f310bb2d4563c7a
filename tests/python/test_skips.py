"""Tests that give up are counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skips import AGAIN, QUOTA

TESTS = """
import pytest
import realtime

@pytest.mark.parametrize("number", range({count}))
def test_that_gives_up(number):
    pytest.skip(f"{{realtime.BUSY}}: {{number}} ms late")

@pytest.mark.parametrize("number", range(10))
def test_that_needs_what_is_not_here(number):
    pytest.skip("nothing is not installed")

def test_that_passes():
    pass
"""


def session(folder: Path, count: int, **more: str) -> subprocess.CompletedProcess[str]:
    """A session of tests of which so many give up."""
    here = str(Path(__file__).parent)
    (folder / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {here!r})\n"
        "from skips import pytest_sessionfinish, pytest_terminal_summary\n"
    )
    (folder / "test_some.py").write_text(TESTS.format(count=count))
    environment = {key: value for key, value in os.environ.items() if key != AGAIN} | more
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip


@pytest.mark.parametrize("count", [0, QUOTA, QUOTA + 1])
def test_more_than_the_quota_fail_the_session(tmp_path: Path, count: int) -> None:
    done = session(tmp_path, count)
    assert done.returncode == (1 if count > QUOTA else 0), done.stdout
    assert (f"{count} gave up on a busy machine, {QUOTA} may" in done.stdout) is (count > 0)
    assert ("test_that_gives_up[2]: machine too busy: 2 ms late" in done.stdout) is (count > 2)
    assert ("error: too many" in done.stdout) is (count > QUOTA)


@pytest.mark.parametrize("count", [0, QUOTA + 1])
def test_those_to_be_tried_again_are_named(tmp_path: Path, count: int) -> None:
    """Tests that gave up beside other work run again alone, and the quota applies then; unsupported ones do not."""
    done = session(tmp_path, count, **{AGAIN: str(tmp_path / "again")})
    assert done.returncode == 0, done.stdout
    named = (tmp_path / "again").read_text().splitlines()
    assert named == [f"test_some.py::test_that_gives_up[{number}]" for number in range(count)]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "@again"]
    if named:
        alone = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert alone.returncode == 1, alone.stdout
        assert f"{count} gave up on a busy machine, {QUOTA} may" in alone.stdout
