"""The command line in this process, with the arguments, environment, streams and exit status of a separate process.

A process costs a second, of which the command itself takes little. Tests start one if their subject is the process:
signals and kills, closed or full streams, imports. Workers and labs that must end with it also need one.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["bentpipe", "process"]

RESTORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)


def bentpipe(
    folder: Path, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``bentpipe WORDS`` in ``folder`` and return output and exit status; ``environment`` replaces that of this process."""
    from bentpipe.cli import main

    printed, message = io.BytesIO(), io.BytesIO()
    with _place(folder), _environment(environment), _streams(printed, message), _arguments(words):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = _status(end)
        sys.stdout.flush()
        sys.stderr.flush()
        # The streams over them close them as they go.
        texts = [stream.getvalue().decode() for stream in (printed, message)]
    return subprocess.CompletedProcess(["bentpipe", *words], status, *texts)


def process(
    folder: Path, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the same in a separate process."""
    command = [sys.executable, "-m", "bentpipe.cli", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def _status(end: SystemExit) -> int:
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
        return 1
    return int(end.code or 0)


@contextlib.contextmanager
def _place(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _environment(environment: Mapping[str, str] | None) -> Iterator[None]:
    """Undo changes of the environment after a command."""
    before = dict(os.environ)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _streams(printed: io.BytesIO, message: io.BytesIO) -> Iterator[None]:
    """Standard output and error as those of a process are, so that the command wraps them as ever."""
    names = ("stdin", "stdout", "stderr", "__stdout__", "__stderr__")
    before = {name: getattr(sys, name) for name in names}
    sys.stdin = io.StringIO()
    for name, buffer in (("stdout", printed), ("stderr", message)):
        stream = io.TextIOWrapper(buffer, "utf-8")
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    try:
        yield
    finally:
        for name, stream in before.items():
            setattr(sys, name, stream)


@contextlib.contextmanager
def _arguments(words: tuple[str, ...]) -> Iterator[None]:
    """Set the arguments and the initial state of a process: warnings are shown, and no signal handler is installed."""
    before, handlers = sys.argv, {number: signal.getsignal(number) for number in RESTORED_SIGNALS}
    sys.argv = ["bentpipe", *words]
    try:
        with warnings.catch_warnings():
            warnings.resetwarnings()
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    finally:
        sys.argv = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
