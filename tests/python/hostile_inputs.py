"""Files of strangers, and commands that have to end in time and within their memory whatever they read."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import commands

__all__ = ["HARMS", "SMALL", "command", "in_time", "pipe", "refused"]

SMALL = """
title = "Small"
duration = "1 s"
seeds = 1
[[path.segment]]
name = "satellite"
delay = "50 ms"
both = { rate = "2 Mbit/s", loss = "1 %" }
[[flow]]
name = "any"
congestion = "cubic"
"""
MEMORY = 2 << 30
"""Bytes of address space that a command may take beside what this process has: what grows without a bound fails instead
of filling the machine."""
WAIT_S = 120
"""So long a command may take; what waits for a pipe waits for ever."""


@contextmanager
def in_time(what: object, wait_s: int = WAIT_S) -> Iterator[None]:
    """Fail the test where what stands in it does not end in time."""

    def end(*_: object) -> None:
        pytest.fail(f"{what}: no end within {wait_s} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(wait_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command that ends in time and within its memory, or fails the test."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MEMORY, limits[1]))
    try:
        with in_time(words):
            return commands.bentpipe(folder, *words)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def refused(done: subprocess.CompletedProcess[str], *texts: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for text in ("error: ", *texts):
        assert text in done.stderr, done.stderr
    assert "internal error" not in done.stderr


def link_to_zero(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def sparse(path: Path) -> None:
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(1 << 40)


HARMS: dict[str, Callable[[Path], None]] = {
    "link to a device": link_to_zero, "pipe": pipe, "terabyte": sparse
}  # fmt: skip
