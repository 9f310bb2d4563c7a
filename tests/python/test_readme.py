"""The README's result is what scenarios/geo.toml gives. `make golden` writes it anew."""

import html
import os
import re
import shlex
import sys
import textwrap
from pathlib import Path

import pytest

import commands

ROOT = Path(__file__).resolve().parents[2]
TABLE = re.compile(r"(?<=<!-- result -->\n).*?(?=<!-- end of result -->)", re.DOTALL)
ANSWER = re.compile(r"(?<=```\n)At \d+ ms, .*?(?=\n```)", re.DOTALL)
LOSSES = ("0 %", "0.01 %", "0.1 %", "1 %")


def result(folder: Path) -> str:
    """The table: mean goodput by controller and loss, Mbit/s, to one decimal."""
    import bentpipe
    from bentpipe.metrics import compute as stats
    from bentpipe.store.reader import open_store

    store = open_store(bentpipe.run(ROOT / "scenarios/geo.toml", out=folder / "geo"))
    cells = stats.aggregate_seeds(stats.run_metrics(store), store.columns, ["goodput_bit_s"])
    lines = [f"| goodput, Mbit/s | {' | '.join(LOSSES)} |", "|---|---:|---:|---:|---:|"]
    for controller in ("newreno", "cubic", "hybla", "bbr"):
        rows = cells.filter(congestion=controller)
        means = dict(zip(rows["path.satellite.up.loss"], rows["mean"], strict=True))
        lines.append(f"| {controller} | {' | '.join(f'{means[loss] / 1e6:.1f}' for loss in LOSSES)} |")
    return "\n".join(lines) + "\n"


@pytest.mark.nightly
def test_the_result_is_what_the_demo_gives(tmp_path: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    readme = ROOT / "README.md"
    found = result(tmp_path)
    if os.environ.get("BENTPIPE_UPDATE"):
        readme.write_text(TABLE.sub(found, readme.read_text()))
    match = TABLE.search(readme.read_text())
    assert match is not None
    assert match[0] == found


@pytest.mark.nightly
def test_the_terminal_shows_the_commands_and_their_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare the table in the picture with the output; `make golden` draws the picture again."""
    pytest.importorskip("bentpipe._engine")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    from script_loader import load_script

    script, picture = load_script("terminal-svg"), ROOT / "docs/terminal.svg"
    for command in script.COMMANDS:
        output = script.record(command, tmp_path)
    if os.environ.get("BENTPIPE_UPDATE"):
        script.draw(picture)
    drawn = "".join(html.unescape(re.sub(r"<[^>]+>", "", picture.read_text(encoding="utf-8"))).split())
    lines = re.sub(r"\x1b\[[\d;]*m", "", output).splitlines()[: script.LINES]
    assert len(lines) > 16
    for line in lines:
        assert "".join(line.split()) in drawn


@pytest.mark.nightly
def test_the_map_is_what_its_command_gives(tmp_path: Path) -> None:
    """The picture byte by byte, and the sentences that the command prints before the name of the file."""
    pytest.importorskip("bentpipe._engine")
    readme, picture = ROOT / "README.md", ROOT / "docs/map.svg"
    command = re.search(r"(?m)^bentpipe (break-even --down .*?) +#", readme.read_text())
    assert command is not None
    done = commands.bentpipe(tmp_path, *shlex.split(command[1]), "--out", "map")
    assert done.returncode == 0, done.stderr
    message = done.stdout.partition("\n\nWhich kind is yours?")[0]
    drawn = tmp_path / "map/map.svg"
    if os.environ.get("BENTPIPE_UPDATE"):
        picture.write_bytes(drawn.read_bytes())
        paragraphs = message.split("\n\n")
        lines = "\n\n".join(textwrap.fill(text, 120, break_on_hyphens=False) for text in paragraphs)
        readme.write_text(ANSWER.sub(lines, readme.read_text()))
    quoted = ANSWER.search(readme.read_text())
    assert quoted is not None
    assert quoted[0].split() == message.split()
    assert drawn.read_bytes() == picture.read_bytes()
