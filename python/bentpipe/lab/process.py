"""Process of ``bentpipe-rt lab``: start, plan, end. No process or directory of it remains.

The lab watches the process that started it and ends with it. Names of shared directories are chosen before
the directories exist, so that another process of the lab can remove them (decision 0014).
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
    from collections.abc import Callable, Iterator, Sequence
    from sys import UnraisableHookArgs
    from types import FrameType

    from bentpipe.lab.process_plans import LabPlan, WirePlan

__all__ = [
    "LabProcess",
    "defer_signals",
    "folder_name",
    "forward_signals",
    "plan_descriptor",
    "remove",
    "request_end",
    "start_lab",
]  # fmt: skip

END_TIMEOUT_S = 8.0
"""Time from the request to end until the lab is killed, s. Its commands have 3 s, and so have its services
afterwards."""

REMOVAL_TIMEOUT_S = 5.0
"""Maximum wait for processes that the kernel has yet to end, s. They may still write, or use a device."""

REPEAT_S = 1.0
"""Time in s in which a further signal repeats the request to end: `timeout` sends its signal twice."""

POLL_S = 0.2
"""Maximum time until Ctrl-C is handled, s (see bentpipe.runners.worker_pool)."""


def folder_name(prefix: str) -> Path:
    """Return an unused path for a temporary directory."""
    return Path(tempfile.gettempdir(), f"{prefix}{secrets.token_hex(6)}")


@dataclass
class LabProcess:
    """Process of a lab, which waits for its plan."""

    process: subprocess.Popen[bytes]
    folders: Sequence[Path]
    _plan: IO[bytes]

    def send(self, plan: LabPlan) -> None:
        """Send the plan to the lab."""
        # A lab that has ended has reported the reason.
        with contextlib.suppress(BrokenPipeError):
            self._plan.write(to_json(plan))
            self._plan.flush()
        with contextlib.suppress(BrokenPipeError):
            self._plan.close()

    def wait(self) -> tuple[int, bool]:
        """Wait for the end; return the exit status and whether Ctrl-C was pressed meanwhile.

        Ctrl-C is forwarded to the lab. Once the lab runs, its commands handle it.
        """
        interrupted = False
        with os.fdopen(os.pidfd_open(self.process.pid), "rb", buffering=0) as process_file:
            poll = select.poll()
            poll.register(process_file, select.POLLIN)
            while True:
                try:
                    if poll.poll(POLL_S * 1e3):
                        return self.process.wait(), interrupted
                except KeyboardInterrupt:
                    interrupted = True
                    self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """End the lab; kill it if it does not end in time."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(BrokenPipeError):
                self._plan.close()  # a lab that waits for its plan would not end
            try:
                self.process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def start_lab(program: Path, folders: Sequence[Path], **popen_options: Any) -> Iterator[LabProcess]:
    """Start ``bentpipe-rt lab`` and create ``folders``; at the end, end the lab and remove them.

    Args:
        program: path of ``bentpipe-rt``.
        folders: paths of directories that do not exist yet.
        popen_options: further arguments of ``subprocess.Popen``.
    """
    alive_read, alive_write = os.pipe()
    plan_read, plan_write = os.pipe()
    with os.fdopen(alive_read, "rb", buffering=0) as alive, os.fdopen(plan_write, "wb") as plan_file:
        command = [str(program), "lab", f"/proc/self/fd/{plan_read}", str(os.getpid()), str(alive_write)]
        try:
            process = subprocess.Popen(
                [*command, *map(str, folders)], pass_fds=[plan_read, alive_write], **popen_options
            )
        finally:
            os.close(plan_read)
            os.close(alive_write)
        lab = LabProcess(process, folders, plan_file)
        try:
            for folder in folders:
                folder.mkdir(mode=0o700)
            yield lab
        finally:
            lab.end()
            for folder in folders:
                remove(folder)
            _wait_for_processes(alive)


def remove(folder: Path) -> None:
    """Remove ``folder``, in which processes that the kernel has yet to end may still write."""
    deadline = time.monotonic() + REMOVAL_TIMEOUT_S
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists() or time.monotonic() > deadline:
            return
        time.sleep(0.01)


def _wait_for_processes(alive: IO[bytes]) -> None:
    """Wait until the last process of a lab has ended, which has the other end of this pipe."""
    poll = select.poll()
    poll.register(alive, select.POLLIN)
    poll.poll(REMOVAL_TIMEOUT_S * 1e3)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer SIGTERM and SIGHUP to the end of the block, so that the block can clean up.

    The first signal raises SystemExit in the block. Its default action follows at the end. The function has
    an effect only in the main thread, and only on signals without another handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        """Raise SystemExit for the first signal."""
        if received:
            return
        if defer_import(number, frame):
            return
        received.append(number)
        raise SystemExit(128 + number)

    def repeat(exception: UnraisableHookArgs) -> None:
        """Repeat the signal if its exception could not propagate, as while pydantic creates a class."""
        if received and isinstance(exception.exc_value, SystemExit):
            send_later(received.pop())
        else:
            previous_hook(exception)

    numbers = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, handle)
    previous_hook, sys.unraisablehook = sys.unraisablehook, repeat
    try:
        yield
    finally:
        sys.unraisablehook = previous_hook
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        if received:
            signal.raise_signal(received[0])


@contextmanager
def forward_signals(end: Callable[[], object]) -> Iterator[None]:
    """Call ``end`` on SIGINT, SIGTERM and SIGHUP during the block, which waits for the end of a process.

    The process has its own group, so that Ctrl-C at a terminal reaches it only once. SIGINT counts even if the shell
    ignores it for background processes; SIGHUP does not after ``nohup``. Only the main thread handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {
        number: signal.signal(number, lambda _number, _frame: end())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def request_end(process: subprocess.Popen[bytes]) -> Callable[[], None]:
    """Return a function that asks ``process`` to end with its results, for :func:`forward_signals`.

    A call within ``REPEAT_S`` after the first has no effect. A later call ends ``bentpipe-rt`` at once.
    """
    first_s: list[float] = []

    def end() -> None:
        now_s = time.monotonic()
        if not first_s or now_s - first_s[0] > REPEAT_S:
            first_s.append(now_s)
            process.send_signal(signal.SIGINT)

    return end


@contextmanager
def plan_descriptor(plan: WirePlan) -> Iterator[int]:
    """Yield the descriptor of a file in memory that contains ``plan``.

    The file disappears with the last process that has it open.
    """
    with os.fdopen(os.memfd_create("bentpipe-plan"), "wb") as file:
        file.write(to_json(plan))
        file.flush()
        yield file.fileno()
