"""Control sequences in titles, names, labels and files do not reach a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bentpipe.cli import console
from bentpipe.cli.console import emit, plain, print_table

ROOT = Path(__file__).parents[2]
EVIL = "a\x1b]0;pwned\x07b\x9b31mc\u202ed\x7fe\rf\x00\u2066"
SHOWN = r"a\x1b]0;pwned\x07b\x9b31mc\u202ed\x7fe\x0df\x00\u2066"
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in EVIL)  # as TOML and JSON have it
TOML = f"""
title = "{ESCAPED}"
duration = "1 s"
[[path.segment]]
name = "link"
delay = "5 ms"
both = {{ rate = "10 Mbit/s" }}
[[flow]]
name = "any"
congestion = "cubic"
[sweep]
step = [{{ label = "{ESCAPED}", "path.link.delay" = "5 ms" }}, {{ label = "other", "path.link.delay" = "6 ms" }}]
"""
OURS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours, and what the progress bar moves the cursor with."""


def test_control_characters_are_written_out() -> None:
    assert plain(EVIL) == SHOWN
    assert plain("two lines\n\tand a tab, é, 日本, 🛰️") == "two lines\n\tand a tab, é, 日本, 🛰️"


def test_a_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{EVIL: EVIL, "n": 1}], EVIL)
    shown = capsys.readouterr().out
    assert shown.count(SHOWN) == 3
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    emit([{EVIL: EVIL}])
    shown = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert json.loads(shown) == [{EVIL: EVIL}]


def on_a_terminal(folder: Path, *words: str) -> tuple[int, bytes]:
    """Exit status of a command, and all that it wrote to its terminal."""
    ours, theirs = pty.openpty()
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "python"),
        "TERM": "xterm-256color",
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "bentpipe.cli", *words]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=theirs, stderr=theirs, stdin=theirs
    ) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # a terminal reports the end of its last user so
                break
            if not part:
                break
            written += part
    os.close(ours)
    return process.returncode, written


def test_nothing_that_a_terminal_obeys_gets_through(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(TOML)
    (tmp_path / "wrong.toml").write_text(TOML.replace('"cubic"', f'"{ESCAPED}"'))
    (tmp_path / "key.toml").write_text(f'"{ESCAPED}" = 1\n')
    commands = {
        ("check", "f.toml"): 0,
        ("run", "f.toml", "--out", "store"): 0,
        ("run", "f.toml", "--out", "store", "--json"): 0,
        ("show", "store"): 0,
        ("show", "store", "--json"): 0,
        ("query", "store", "FROM runs"): 0,
        ("query", "store", f"SELECT '{EVIL.replace(chr(0), '')}' AS x"): 0,
        ("query", "store", f"FROM {EVIL.replace(chr(0), '')}"): 2,
        ("diff", "store", "store"): 0,
        ("check", "wrong.toml"): 2,
        ("check", "key.toml"): 2,
        ("check", "no\x1b]0;pwned\x07file.toml"): 2,
        ("check", "--no\x1b]0;pwned\x07option"): 2,
        ("no\x1b]0;pwned\x07command",): 2,
    }
    for words, status in commands.items():
        left, written = on_a_terminal(tmp_path, *words)
        assert left == status, (words, written)
        rest = OURS.sub(b"", written.replace(b"\r\n", b"\n")).decode()
        bad = {letter for letter in rest if not letter.isprintable() and letter not in "\n\r"}
        assert not bad, (words, bad, rest)
        assert r"\x1b]0;pwned" in rest or "\\u001b]0;pwned" in rest or words[0] in ("run", "diff", "query"), (
            words,
            rest,
        )
    assert b"\x1b[" in on_a_terminal(tmp_path, "show", "store")[1], "headings are bold"


def test_a_title_is_no_markup(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(TOML.replace(f'title = "{ESCAPED}"', 'title = "[/red] and [bold]"'))
    status, written = on_a_terminal(tmp_path, "run", "f.toml", "--out", "store")
    assert status == 0, written
    assert b"[/red] and [bold]" in written


@pytest.mark.parametrize("gap", ["x", "a long heading of several words that has to share"])
def test_many_rows_are_printed_as_few_are(
    gap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {
            "label": f"日本 {number % 7}",
            gap: number * 1000.5,
            "said": "é" * (number % 9),
            "none": None,
            "n": number,
        }
        for number in range(150)
    ]
    print_table(rows, "title")
    ours = capsys.readouterr().out
    monkeypatch.setattr(console, "MANY_ROWS", 1000)
    print_table(rows, "title")
    assert capsys.readouterr().out == ours
    wide = [row | {"more": "word " * 50} for row in rows]
    print_table(wide)
    by_rich = capsys.readouterr().out
    monkeypatch.setattr(console, "MANY_ROWS", 100)
    print_table(wide)
    assert capsys.readouterr().out == by_rich, "what wraps is Rich's"


def test_columns_keep_their_least_width_at_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long text beside a column of 30 characters wraps; the last column is whole."""
    rows = [
        {"name": "wan-grid", "case": "delay 100 ms, rate 50 Mbit/s, loss 0.1 %", "measure": "m" * 30, "last": "15.7 ± 5.8"},
        {"name": "vs-cubic", "case": "path 80 ms", "measure": "m", "last": "51.1 ± 6.6"},
    ]  # fmt: skip
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "70")
    print_table(rows)
    printed = OURS.sub(b"", capsys.readouterr().out.encode()).decode()
    for text in ("15.7 ± 5.8", "51.1 ± 6.6", "m" * 30, "wan-grid"):
        assert text in printed
    assert max(map(len, printed.splitlines())) <= 70
