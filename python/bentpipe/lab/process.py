"""A process of ``bentpipe-rt lab``: started, given its plan, ended. Nothing of it is left, whatever ends it or us.

It watches the process that started it, and ends with it. Folders that belong to both are named before they are made, so
that another process of the lab's can remove them if this one cannot (decision 0014).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bentpipe.interrupts import defer_import, send_later
from bentpipe.lab.process_plans import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from sys import UnraisableHookArgs
    from types import FrameType

    from bentpipe.lab.process_plans import LabPlan, WirePlan

__all__ = ["LabProcess", "folder_name", "handed", "remove", "signals_in_order", "started"]

PATIENCE_S = 8.0
"""From the request to end until a lab is killed: its commands have 3 s, and then its services."""

LEAVING_S = 5.0
"""Longest wait for what the kernel has yet to end: it may still write, or hold a device."""

LOOK_S = 0.2
"""Ctrl-C is seen at least this often (see hands.py)."""


def folder_name(prefix: str) -> Path:
    """A name that nobody has, for a folder among the temporary ones."""
    return Path(tempfile.gettempdir(), f"{prefix}{secrets.token_hex(6)}")


@dataclass
class LabProcess:
    """A lab that was started: it waits for its plan."""

    process: subprocess.Popen[bytes]
    folders: Sequence[Path]
    _plan: IO[bytes]

    def send(self, plan: LabPlan) -> None:
        """Gives it its plan."""
        # One that has ended has said why.
        with contextlib.suppress(BrokenPipeError):
            self._plan.write(to_json(plan))
            self._plan.flush()
        with contextlib.suppress(BrokenPipeError):
            self._plan.close()

    def wait(self) -> tuple[int, bool]:
        """Its exit status, and whether Ctrl-C came meanwhile: once the lab stands, that is its commands'."""
        interrupted = False
        with os.fdopen(os.pidfd_open(self.process.pid), "rb", buffering=0) as ended:
            ends = select.poll()
            ends.register(ended, select.POLLIN)
            while True:
                try:
                    if ends.poll(LOOK_S * 1e3):
                        return self.process.wait(), interrupted
                except KeyboardInterrupt:
                    interrupted = True
                    self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Ends it, whatever it is doing."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def started(program: Path, folders: Sequence[Path], **how: Any) -> Iterator[LabProcess]:
    """Starts ``program`` (``bentpipe-rt``) and makes ``folders``. At the end the lab ends, and they are removed.

    Args:
        program: the executable.
        folders: names of folders, of which none is there.
        how: what else ``subprocess.Popen`` is to know.
    """
    rest, theirs = os.pipe()
    plan, ours = os.pipe()
    with os.fdopen(rest, "rb", buffering=0) as left, os.fdopen(ours, "wb") as asked:
        words = [str(program), "lab", f"/proc/self/fd/{plan}", str(os.getpid()), str(theirs)]
        try:
            process = subprocess.Popen([*words, *map(str, folders)], pass_fds=[plan, theirs], **how)
        finally:
            os.close(plan)
            os.close(theirs)
        lab = LabProcess(process, folders, asked)
        try:
            for folder in folders:
                folder.mkdir(mode=0o700)
            yield lab
        finally:
            lab.end()
            for folder in folders:
                remove(folder)
            _gone(left)


def remove(folder: Path) -> None:
    """Removes ``folder``, in which what the kernel has yet to end may still write."""
    until = time.monotonic() + LEAVING_S
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists() or time.monotonic() > until:
            return
        time.sleep(0.01)


def _gone(rest: IO[bytes]) -> None:
    """Waits until the last process of a lab has ended, which has the other end of this pipe."""
    waiting = select.poll()
    waiting.register(rest, select.POLLIN)
    waiting.poll(LEAVING_S * 1e3)


@contextmanager
def signals_in_order() -> Iterator[None]:
    """What SIGTERM and SIGHUP do to a process, they do at the end of this: what is under way ends in order first.

    In the main thread alone, and where nobody else sees to these signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    got: list[int] = []

    def take(number: int, frame: FrameType | None) -> None:
        if got:
            return
        if defer_import(number, frame):
            return
        got.append(number)
        raise SystemExit(128 + number)

    def take_again(found: UnraisableHookArgs) -> None:
        """Repeat the signal if its exception came where nothing can be raised, as while pydantic makes a class."""
        if got and isinstance(found.exc_value, SystemExit):
            send_later(got.pop())
        else:
            report(found)

    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for one in numbers:
        signal.signal(one, take)
    report, sys.unraisablehook = sys.unraisablehook, take_again
    try:
        yield
    finally:
        sys.unraisablehook = report
        for one in numbers:
            signal.signal(one, signal.SIG_DFL)
        if got:
            signal.raise_signal(got[0])


@contextmanager
def handed(plan: WirePlan) -> Iterator[int]:
    """The descriptor of a file in memory with ``plan``, which is gone with the processes that have it open."""
    with os.fdopen(os.memfd_create("bentpipe-plan"), "wb") as file:
        file.write(to_json(plan))
        file.flush()
        yield file.fileno()
