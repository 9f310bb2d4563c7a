"""The patches of the changed stack fit the pinned version, and the scripts report missing programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCHES = sorted((ROOT / "scripts/changed-stack.d").glob("*.patch"))


def run_script(script: str, *arguments: str, **environment: str) -> tuple[int, str]:
    """The status of a script, and what it printed."""
    done = subprocess.run(
        [ROOT / "scripts" / script, *arguments],
        env={**os.environ, **environment}, text=True, capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_every_patch_is_described_and_is_for_the_pinned_stack() -> None:
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    (pinned,) = [one["version"] for one in packages if one["name"] == "quinn-proto"]
    page = (ROOT / "docs/notes/changed-stack.md").read_text()
    assert f"quinn-proto {pinned}" in page
    for patch in PATCHES:
        assert f"Against quinn-proto {pinned}; licensed" in patch.read_text()
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == [one.stem for one in PATCHES]


@pytest.mark.skipif(not (shutil.which("patch") and shutil.which("cargo")), reason="needs patch and cargo")
def test_every_patch_applies(tmp_path: Path) -> None:
    status, text = run_script("changed-stack", "--check", CHANGED_STACK=str(tmp_path / "there"))
    if "cargo lacks some crates" in text:
        pytest.skip("cargo lacks some crates")
    assert (status, text) == (
        0, "all patches apply to quinn-proto-0.11.19, each with what it needs, and together\n"
    )  # fmt: skip
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.skipif(
    not (shutil.which("patch") and shutil.which("valgrind")), reason="needs patch and valgrind"
)
def test_an_unknown_variant_gives_the_known_ones(tmp_path: Path) -> None:
    status, text = run_script("changed-stack", "faster", CHANGED_STACK=str(tmp_path / "there"))
    names = " ".join(patch.stem for patch in PATCHES)
    assert status == 2
    assert text == f"changed-stack: no variant faster: expected plain, all or one of {names}\n"
    assert not (tmp_path / "there").exists()


@pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")
def test_a_missing_simulator_is_reported_before_the_build(tmp_path: Path) -> None:
    status, text = run_script("instructions", PICOQUIC_SIM=str(tmp_path / "pico_sim"))
    assert (status, text) == (2, f"PICOQUIC_SIM: found {tmp_path}/pico_sim, expected an executable\n")
    status, text = run_script("instructions", PICOQUIC_SIM="/bin/true", PICOQUIC_DIR=str(tmp_path))
    assert (status, text) == (
        2, "PICOQUIC_DIR: expected picoquic's source, with certs/cert.pem (for /bin/true)\n"
    )  # fmt: skip
