"""What tests in real time share: what they need, the executable, and what it leaves running."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BUSY = "machine too busy"
"""Why a test skips whose lab was kept waiting: its figures say nothing."""


@functools.cache
def program() -> Path:
    """``bentpipe-rt``: ``$BENTPIPE_RT``, or a release build of this checkout."""
    named = os.environ.get("BENTPIPE_RT")
    if named:
        return Path(named)
    need("cargo")
    words = ["cargo", "build", "--release", "--locked", "-q", "-p", "bentpipe-rt"]
    subprocess.run(words, cwd=ROOT, check=True)
    return ROOT / "target" / "release" / "bentpipe-rt"


def need(*commands: str) -> None:
    """Skips, by name, without these commands."""
    for command in commands:
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed")


def need_root(why: str) -> None:
    """Skips an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip(f"{why} needs root")


def need_namespaces(*commands: str) -> None:
    """Skips where there can be no lab: no TUN devices, no namespaces, or one of these further commands is not there."""
    need("ip", "unshare", *commands)
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun cannot be opened")
    if not _namespaces():
        pytest.skip("namespaces are not allowed")


@functools.cache
def _namespaces() -> bool:
    flags = ["--net"] if os.geteuid() == 0 else ["--net", "--user", "--map-root-user"]
    return subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode == 0


def running(word: str) -> bool:
    """Whether some process has this in its command line."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in entry.read_text():
                return True
        except OSError:
            continue
    return False
