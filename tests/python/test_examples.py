"""Every examples/X.py prints what stands in X.out, byte for byte: the same seed gives the same numbers.

`BENTPIPE_UPDATE=1 pytest tests/python/test_examples.py` writes the files anew.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nightly import keep

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

FILES = sorted(EXAMPLES.glob("*.py"))
LONG = ("constellation", "rlc_or_harq", "users_carried")
SHORT = [file for file in FILES if file.stem not in LONG]

A_PART = {"rlc_or_harq": ["125 ms"], "users_carried": ["1", "codes"]}
"""Examples of half a minute: these lines are compared separately, and equal those among the others."""


@pytest.mark.parametrize("example", keep(SHORT, FILES), ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES), "COLUMNS": "100"}
    update = bool(os.environ.get("BENTPIPE_UPDATE"))
    words = [] if update else A_PART.get(example.stem, [])
    done = subprocess.run(
        [sys.executable, example, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stderr}\nreplay: {sys.executable} {example}"
    expected = example.with_suffix(".out")
    if update:
        expected.write_text(done.stdout)
    if words:
        whole, messages = iter(expected.read_text().splitlines()), done.stdout.splitlines()
        assert len(messages) > 4
        assert [line for line in messages if line not in whole] == []  # in the same order
    else:
        assert done.stdout == expected.read_text()
