"""examples/*.ipynb run as they are: their cells in order, in one namespace, and their pictures are drawn.

They have no outputs (whoever runs them makes these) and no magics, so a kernel is not needed.
"""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest
import vl_convert

import bentpipe

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def cells(notebook: Path) -> list[str]:
    """The code of its cells. It must be a notebook (nbformat 4.5) without outputs."""
    book = json.loads(notebook.read_text())
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    return ["".join(cell["source"]) for cell in code]


def shown(source: str, names: dict[str, Any], where: str) -> Any:
    """Runs a cell; the value of its last line, which a notebook shows."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)  # noqa: S102
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), where, "eval"), names)  # noqa: S307


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keep = os.environ.get("BENTPIPE_SCREENSHOT_DIR")
    names: dict[str, Any] = {"__name__": "__main__"}
    charts, frames = 0, 0
    for number, source in enumerate(cells(notebook)):
        value = shown(source, names, f"{notebook.name}, cell {number}")
        if isinstance(value, alt.TopLevelMixin):
            charts += 1
            chart = Path(keep or tmp_path) / f"{notebook.stem}-{number}.png"
            value.save(str(chart))
            assert chart.read_bytes().startswith(b"\x89PNG")
            drawn = vl_convert.vegalite_to_svg(value.to_dict())
            assert drawn.count('aria-roledescription="') > 5
            assert "NaN" not in drawn
        elif isinstance(value, pl.DataFrame):
            frames += 1
            assert value.height > 0
        elif isinstance(value, bentpipe.Results):
            assert "<svg" in str(value._repr_html_())
    assert charts >= 3
    assert frames >= 3
    assert (tmp_path / "two-controllers.html").stat().st_size > 10_000
