"""The entry of the container (`make container-test` builds and uses the image itself)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from other import script

ROOT = Path(__file__).resolve().parents[2]
ENTRY = script("container-entry")


def test_commands_in_real_time_are_commands() -> None:
    from bentpipe.cli import app

    names = set(typer.main.get_group(app).commands)
    assert {*ENTRY.REAL_TIME, *ENTRY.REAL_WORDS} <= names


@pytest.mark.parametrize(
    ("words", "real"),
    [
        ("shell lte-4g -- true", True),
        ("run s.toml --engine emu", True),
        ("compare-builds lte-4g --before a --after b -- {}", True),
        ("compare-builds s.toml --before a", False),
        ("run s.toml", False),
        ("report out/emu", False),
        ("shell --help", False),
        ("shell lte-4g -- ls --help", True),
        ("", False),
    ],
)
def test_which_words_need_a_lab(words: str, real: bool) -> None:
    assert ENTRY.in_real_time(words.split()) is real


def test_what_is_lacking_is_said_with_the_flags(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(ENTRY.os, "execvp", lambda _program, words: started.append(words))
    monkeypatch.setattr(
        "bentpipe.lab.requirements.first_missing",
        lambda *, proxies: ["TUN devices: no /dev/net/tun; modprobe tun"],
    )
    assert ENTRY.main(["shell", "lte-4g"]) == 2
    said = capsys.readouterr().err
    assert said == (
        "error: this container cannot run real programs: TUN devices: no /dev/net/tun\n"
        f"start it with: {ENTRY.FLAGS}\n"
    )
    assert f"`{ENTRY.FLAGS}`" in (ROOT / "docs/manual/install.md").read_text()
    ENTRY.main(["run", "s.toml"])
    monkeypatch.setattr("bentpipe.lab.requirements.first_missing", lambda *, proxies: [])
    ENTRY.main(["shell", "lte-4g"])
    assert started == [["bentpipe", "run", "s.toml"], ["bentpipe", "shell", "lte-4g"]]


def test_a_demo_that_cannot_write_says_how_it_can(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ENTRY.os, "access", lambda _place, _how: False)
    assert ENTRY.main(["demo"]) == 2
    assert "cannot be written; podman: --userns keep-id" in capsys.readouterr().err


def test_the_image_takes_what_is_there() -> None:
    recipe = (ROOT / "Containerfile").read_text()
    sources = re.findall(r"^COPY (?:--\S+ )?(\S+) ", recipe, re.MULTILINE)
    kept = set((ROOT / ".containerignore").read_text().splitlines())
    assert {f"!{one}" if not one.endswith("/") else f"!{one}*" for one in sources} == kept - {"*"}
    assert all((ROOT / one).exists() for one in sources if one != "dist/")
