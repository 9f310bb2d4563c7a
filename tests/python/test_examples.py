"""Every examples/X.py prints what stands in X.out, byte for byte: the same seed gives the same numbers.

`BENTPIPE_UPDATE=1 pytest tests/python/test_examples.py` writes the files anew.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, example], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{done.stderr}\nreplay: {sys.executable} {example}"
    expected = example.with_suffix(".out")
    if os.environ.get("BENTPIPE_UPDATE"):
        expected.write_text(done.stdout)
    assert done.stdout == expected.read_text()
