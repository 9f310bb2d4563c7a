"""Tests that give up are counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skips import QUOTA

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


@pytest.mark.parametrize("count", [0, QUOTA, QUOTA + 1])
def test_more_than_the_quota_fail_the_session(tmp_path: Path, count: int) -> None:
    here = str(Path(__file__).parent)
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {here!r})\n"
        "from skips import pytest_sessionfinish, pytest_terminal_summary\n"
    )
    (tmp_path / "test_some.py").write_text(TESTS.format(count=count))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == (1 if count > QUOTA else 0), done.stdout
    assert (f"{count} gave up on a busy machine, {QUOTA} may" in done.stdout) is (count > 0)
    assert ("test_that_gives_up[2]: machine too busy: 2 ms late" in done.stdout) is (count > 2)
    assert ("error: too many" in done.stdout) is (count > QUOTA)
