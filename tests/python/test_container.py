"""Tests of the container's entry point. `make container-test` builds and uses the image."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import typer

from script_loader import load_script

ROOT = Path(__file__).resolve().parents[2]
ENTRY = load_script("container-entry")


def test_commands_in_real_time_are_commands() -> None:
    from bentpipe.cli import app

    names = set(typer.main.get_group(app).commands)
    assert {*ENTRY.REAL_TIME, *ENTRY.REAL_TIME_ARGUMENTS} <= names


@pytest.mark.parametrize(
    ("arguments", "expected"),
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
def test_commands_that_need_a_lab(arguments: str, expected: bool) -> None:
    assert ENTRY.is_real_time(arguments.split()) is expected


def test_the_error_names_missing_requirements_and_flags(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(ENTRY.os, "execvp", lambda _program, command: started.append(command))
    monkeypatch.setattr(
        "bentpipe.lab.requirements.first_missing",
        lambda *, proxies: ["TUN devices: no /dev/net/tun; modprobe tun"],
    )
    assert ENTRY.main(["shell", "lte-4g"]) == 2
    message = capsys.readouterr().err
    assert message == (
        "error: this container cannot run real programs: TUN devices: no /dev/net/tun\n"
        f"start it with: {ENTRY.FLAGS}\n"
    )
    assert f"`{ENTRY.FLAGS}`" in (ROOT / "docs/how-to/install.md").read_text()
    ENTRY.main(["run", "s.toml"])
    monkeypatch.setattr("bentpipe.lab.requirements.first_missing", lambda *, proxies: [])
    ENTRY.main(["shell", "lte-4g"])
    assert started == [["bentpipe", "run", "s.toml"], ["bentpipe", "shell", "lte-4g"]]


def test_a_demo_keeps_an_existing_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []

    def run(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        assert not check
        commands.append(command[1])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ENTRY.subprocess, "run", run)
    assert ENTRY.main(["demo"]) == 0
    assert commands == ["examples", "run", "show", "report"]
    commands.clear()
    Path("geo.toml").write_text("changed")
    assert ENTRY.main(["demo"]) == 0
    assert commands == ["run", "show", "report"]


def test_the_error_of_a_demo_without_write_access_names_the_flags(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ENTRY.os, "access", lambda _place, _how: False)
    assert ENTRY.main(["demo"]) == 2
    assert "is not writable; podman: --userns keep-id" in capsys.readouterr().err


def test_containerignore_admits_the_files_that_the_image_copies() -> None:
    recipe = (ROOT / "Containerfile").read_text()
    sources = re.findall(r"^COPY (?:--\S+ )?(\S+) ", recipe, re.MULTILINE)
    patterns = set((ROOT / ".containerignore").read_text().splitlines())
    assert {f"!{one}" if not one.endswith("/") else f"!{one}*" for one in sources} == patterns - {"*"}
    assert all((ROOT / one).exists() for one in sources if one != "dist/")
