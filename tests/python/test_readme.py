"""The README's result is what scenarios/geo.toml gives. `make golden` writes it anew."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = re.compile(r"(?<=<!-- result -->\n).*?(?=<!-- end of result -->)", re.DOTALL)
LOSSES = ("0 %", "0.01 %", "0.1 %", "1 %")


def result(folder: Path) -> str:
    """The table: mean goodput by controller and loss, Mbit/s, to one decimal."""
    import bentpipe
    from bentpipe.stats import metrics as stats
    from bentpipe.store.reader import read_store

    store = read_store(bentpipe.run(ROOT / "scenarios/geo.toml", out=folder / "geo"))
    cells = stats.cell_summary(stats.run_metrics(store), store.columns, ["goodput_bit_s"])
    lines = [f"| goodput, Mbit/s | {' | '.join(LOSSES)} |", "|---|---:|---:|---:|---:|"]
    for controller in ("newreno", "cubic", "hybla", "bbr"):
        rows = cells.filter(congestion=controller)
        means = dict(zip(rows["path.satellite.up.loss"], rows["mean"], strict=True))
        lines.append(f"| {controller} | {' | '.join(f'{means[loss] / 1e6:.1f}' for loss in LOSSES)} |")
    return "\n".join(lines) + "\n"


def test_the_result_is_what_the_demo_gives(tmp_path: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    readme = ROOT / "README.md"
    found = result(tmp_path)
    if os.environ.get("BENTPIPE_UPDATE"):
        readme.write_text(TABLE.sub(found, readme.read_text()))
    match = TABLE.search(readme.read_text())
    assert match is not None
    assert match[0] == found
