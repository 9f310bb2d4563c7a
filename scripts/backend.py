"""Build backend of pyproject.toml: maturin's, with further content in the wheels.

maturin builds a wheel from one crate and one folder of Python. This backend adds ``bentpipe-rt``, scenarios and
studies.
 of their places (docs/decisions/0063).
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "assemble_wheel",
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("MATURIN_NO_INSTALL_RUST", "1")  # a toolchain is the user's to install
SHIPPED: dict[str, str] = runpy.run_path(str(ROOT / "python/bentpipe/scenario/package_data.py"))["SHIPPED"]


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build engine and ``bentpipe-rt`` with the same arguments of maturin, and a wheel of both (PEP 517)."""
    arguments = maturin.get_maturin_pep517_args(config_settings)
    if "--compatibility" not in arguments:
        arguments = ["--compatibility", "off", *arguments]  # as maturin does for the engine
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        engine = folder / maturin.build_wheel(place, config_settings, metadata_directory)
        run(
            "maturin", "build", "--release", "--locked", "--strip", "--manifest-path", "crates/rt/Cargo.toml",
            "--bindings", "bin", "--out", str(folder / "rt"), *arguments,
        )  # fmt: skip
        [executable] = (folder / "rt").glob("*.whl")
        [rt] = (rt_tree := unpack(executable, folder)).glob("*.data/scripts/bentpipe-rt")
        tree = unpack(engine, folder)
        for listing in rt_tree.glob("*.dist-info/sboms/*"):  # the crates with their licences
            shutil.copy(listing, *tree.glob("*.dist-info/sboms"))
        return pack(tree, rt, Path(wheel_directory))


def assemble_wheel(wheel_directory: Path, engine: Path, rt: Path) -> str:
    """Build the wheel from an existing engine and ``bentpipe-rt``. It fits only machines like this one."""
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "bentpipe"
        shutil.copytree(ROOT / "python/bentpipe", tree / "bentpipe", ignore=IGNORED)
        shutil.copy(engine, tree / "bentpipe/_engine.abi3.so")
        run("maturin", "pep517", "write-dist-info", "--metadata-directory", str(tree), "-i", sys.executable)
        return pack(tree, rt, wheel_directory)


IGNORED = shutil.ignore_patterns("__pycache__", "*.so", "out")
STUDIES = "bentpipe_studies"
"""The package of the published studies, beside their scenarios."""


def pack(tree: Path, rt: Path, wheel_directory: Path) -> str:
    """Pack a wheel from its files, the package of the studies and the contents of ``SHIPPED``; return its name."""
    shutil.copytree(ROOT / "studies" / STUDIES, tree / STUDIES, ignore=IGNORED)
    for name, place in SHIPPED.items():
        target = tree / "bentpipe/shipped" / name
        if name == rt.name:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(rt, target)
            target.chmod(0o755)
        else:
            shutil.copytree(
                ROOT / place, target, ignore=lambda folder, names: {*IGNORED(folder, names), STUDIES}
            )
    with tempfile.TemporaryDirectory() as place:
        run(sys.executable, "-m", "wheel", "pack", str(tree), "--dest-dir", place)
        [wheel] = Path(place).glob("*.whl")
        wheel_directory.mkdir(parents=True, exist_ok=True)
        shutil.move(wheel, wheel_directory / wheel.name)
    return wheel.name


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel below ``folder`` and return the folder of its files."""
    run(sys.executable, "-m", "wheel", "unpack", str(wheel), "--dest", str(folder))
    return folder / "-".join(wheel.name.split("-")[:2])


def run(*command: str) -> None:
    """Run a command in the project's root. Its output goes to standard error, because PEP 517 uses standard output."""
    environment = {
        "SOURCE_DATE_EPOCH": "315532800",
        **os.environ,
    }  # 1980 as in maturin, for reproducible builds
    subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, check=True)
