"""``action.yml``: it is a composite action, every input is used, and its steps do as they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
INSTALL, COMPARE = ACTION["runs"]["steps"]


def test_it_is_a_composite_action_that_uses_its_inputs() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert {"name", "description", "inputs", "outputs", "runs"} <= set(ACTION)
    used = set(re.findall(r"inputs\.(\w+)", "".join(str(step["env"]) for step in (INSTALL, COMPARE))))
    assert used == set(ACTION["inputs"])
    for name, one in ACTION["inputs"].items():
        assert one["description"], name
        assert one.get("required") or "default" in one, name
        assert f"`{name}`" in (ROOT / "docs/how-to/ci.md").read_text(), name
    for step in (INSTALL, COMPARE):
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "what an input says would be run"
        for name in step["env"]:
            assert f"${name}" in step["run"] or f"${{{name}" in step["run"], name
    for one in ACTION["outputs"].values():
        step, name = re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}", one["value"]).groups()  # type: ignore[union-attr]
        assert step == COMPARE["id"]
        assert f'"{name}=' in COMPARE["run"]


def run(step: dict[str, Any], folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """A step as a runner does it, with what its expressions come to."""
    given = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | inputs

    def value(found: re.Match[str]) -> str:
        words = [given[word.removeprefix("inputs.")] if word.startswith("inputs.") else "/the/action"
                 for word in found[1].split(" || ")]  # fmt: skip
        return next(filter(None, words), "")

    environment = {name: re.sub(r"\$\{\{ (.+?) \}\}", value, text) for name, text in step["env"].items()}
    files = {
        "RUNNER_TEMP": folder,
        "GITHUB_OUTPUT": folder / "output",
        "GITHUB_STEP_SUMMARY": folder / "summary",
    }
    script = folder / "step.sh"
    script.write_text(step["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
        cwd=folder, env={**os.environ, **environment, **{name: str(place) for name, place in files.items()}},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def program(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/bash\n{text}\n")
    place.chmod(0o755)


@pytest.mark.parametrize(("package", "installed"), [("", "/the/action"), ("a wheel.whl", "a wheel.whl")])
def test_it_installs_what_it_was_given_or_itself(tmp_path: Path, package: str, installed: str) -> None:
    """The interpreter records its arguments."""
    says = 'printf "%s|" "$@" >> "$RUNNER_TEMP/asked"; echo >> "$RUNNER_TEMP/asked"'
    program(tmp_path / "bentpipe/bin/python", says)
    program(tmp_path / "python3.11", says)
    done = run(INSTALL, tmp_path, python=str(tmp_path / "python3.11"), package=package)
    assert done.returncode == 0, done.stderr
    made, asked = (tmp_path / "asked").read_text().splitlines()
    assert made == f"-m|venv|{tmp_path}/bentpipe|"
    assert asked.endswith(f"|{installed}|")


def test_it_compares_and_prints_the_result(synthetic: ModuleType, tmp_path: Path) -> None:
    """With this bentpipe in the place of an installed one, and stores as builds."""
    shares = [(5.0, 4.0), (5.3, 3.8), (4.9, 4.2), (5.1, 4.1), (5.2, 3.9), (5.0, 4.3)]
    synthetic.pair_store(tmp_path / "old one", shares)
    synthetic.pair_store(
        tmp_path / "new", [(0.9 * one + at / 50, other) for at, (one, other) in enumerate(shares)]
    )
    (tmp_path / "s.toml").write_text('title = "one"\n')
    program(tmp_path / "bentpipe/bin/bentpipe", f'exec {sys.executable} -m bentpipe.cli "$@"')
    asked = {"scenario": "s.toml", "before": "old one", "after": "new"}
    done = run(COMPARE, tmp_path, **asked, options='--metric goodput_bit_s --threshold "2 %"')
    assert done.returncode == 1, done.stderr
    assert (
        tmp_path / "output"
    ).read_text() == f"summary={tmp_path}/bentpipe-compare-builds.md\nworse=true\nundecided=false\n"
    assert "Worse: goodput of first" in (tmp_path / "summary").read_text()


def test_words_reach_the_command_as_they_are(tmp_path: Path) -> None:
    message = 'printf "%s\\n" "$@"; touch "$RUNNER_TEMP/bentpipe-compare-builds.md"'
    program(tmp_path / "bentpipe/bin/bentpipe", message)
    command = """sh -c 'echo "$HOME" $(id)' {} "two words" """
    done = run(
        COMPARE, tmp_path, scenario="lte-4g", before="old", after="new", command=command, options="--runs 5"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "compare-builds", "lte-4g", "--before", "old", "--after", "new", "--summary", f"{tmp_path}/bentpipe-compare-builds.md",
        "--runs", "5", "--", "sh", "-c", 'echo "$HOME" $(id)', "{}", "two words",
    ]  # fmt: skip
    assert "worse=false" in (tmp_path / "output").read_text()
    program(tmp_path / "bentpipe/bin/bentpipe", 'printf "%s\\n" "$@"; exit 2')
    (tmp_path / "output").unlink()
    done = run(COMPARE, tmp_path, scenario="s.toml", before="old")
    assert done.returncode == 2
    assert done.stdout.splitlines()[:4] == ["compare-builds", "s.toml", "--before", "old"]
    assert "--after" not in done.stdout
    assert not (tmp_path / "output").exists()
