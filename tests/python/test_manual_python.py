"""Tests of docs/how-to/python.md: its blocks of Python run in order, and their output is compared.

The output of a block follows in a block `text`, in which `...` matches anything. `BENTPIPE_UPDATE=1 pytest
tests/python/test_manual_python.py` writes these anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

from test_tutorial import matches, normal

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = 0
    for block in BLOCK.finditer(page):
        code, expected = block.groups()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102
        found = normal(printed.getvalue())
        if os.environ.get("BENTPIPE_UPDATE"):
            page = page.replace(
                block[0], f"```python\n{code}```\n```text\n{found}\n```\n" if found else block[0]
            )
        else:
            assert matches(normal(expected or ""), found), f"{code}\n{found}\n--- expected\n{expected}"
        blocks += 1
    if os.environ.get("BENTPIPE_UPDATE"):
        PAGE.write_text(page)
    assert blocks >= 5
    assert (tmp_path / "cwnd.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "two.html").stat().st_size > 10_000
