"""``bentpipe doctor``: what of this machine bentpipe can use."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Check", "examine"]


@dataclass(frozen=True)
class Check:
    """One thing: whether it is well, whether it must be, and what was found."""

    what: str
    good: bool
    needed: bool
    found: str


def examine() -> list[Check]:
    """Everything bentpipe needs or can use, in order of importance."""
    version = platform.python_version()
    checks = [Check("Python 3.11 or newer", sys.version_info >= (3, 11), True, version), _engine()]
    checks += [_package(name, needed=True) for name in ("polars", "duckdb", "pydantic", "altair", "scipy")]
    cores = len(os.sched_getaffinity(0))
    checks.append(Check("processors", True, False, f"{cores}"))
    checks.append(_memory())
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    checks.append(Check("disk, 1 GB free here", free >= 1, False, f"{free:.1f} GB"))
    checks.append(_package("distributed", needed=False, use="--on dask://"))
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    checks.append(
        Check("Chromium (screenshots of reports, page loads)", browser is not None, False, browser or "none")
    )
    return checks


def _engine() -> Check:
    try:
        from bentpipe.runners import engine

        return Check("engine", True, True, f"{engine.version()}, {len(engine.catalogue())} controllers")
    except ImportError as error:
        return Check("engine", False, True, f"{error}; `make engine` builds it")


def _package(name: str, *, needed: bool, use: str = "") -> Check:
    what = f"{name} ({use})" if use else name
    try:
        return Check(what, True, needed, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(what, False, needed, "not installed")


def _memory() -> Check:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return Check("memory", True, False, "unknown")
    values = {
        line.split(":")[0]: int(line.split()[1]) for line in text.splitlines() if line.split()[1].isdecimal()
    }
    free = values.get("MemAvailable", 0) / 1e6
    return Check(
        "memory, 100 MB a worker", free >= 0.1 * len(os.sched_getaffinity(0)), False, f"{free:.1f} GB free"
    )
