"""The command line in this process: the same arguments, environment, streams and exit status as of one of its own.

A process costs a second, of which the command itself takes little. Tests start one where it is what they are about:
signals and kills, streams that are closed or full, what is imported, workers and labs that must end with it.
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

KEPT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)


def bentpipe(
    folder: Path, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What ``bentpipe WORDS`` in ``folder`` prints, and its exit status; ``environment`` in the place of this process'."""
    from bentpipe.cli import main

    printed, said = io.BytesIO(), io.BytesIO()
    with _place(folder), _environment(environment), _streams(printed, said), _arguments(words):
        try:
            main()
            status = 0
        except SystemExit as end:
            status = _status(end)
        sys.stdout.flush()
        sys.stderr.flush()
        # The streams over them close them as they go.
        texts = [stream.getvalue().decode() for stream in (printed, said)]
    return subprocess.CompletedProcess(["bentpipe", *words], status, *texts)


def process(
    folder: Path, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The same of a process of its own."""
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
    """What a command sets in its environment is gone after it."""
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
def _streams(printed: io.BytesIO, said: io.BytesIO) -> Iterator[None]:
    """Standard output and error as those of a process are, so that the command wraps them as ever."""
    names = ("stdin", "stdout", "stderr", "__stdout__", "__stderr__")
    before = {name: getattr(sys, name) for name in names}
    sys.stdin = io.StringIO()
    for name, buffer in (("stdout", printed), ("stderr", said)):
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
    """The words, and what else a process begins with: warnings are shown, nobody handles signals."""
    before, handlers = sys.argv, {number: signal.getsignal(number) for number in KEPT}
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
