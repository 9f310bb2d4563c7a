"""A bundle node on real sockets: ``bentpipe-rt dtn``, and what it says while it runs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bentpipe.lab.executable import executable
from bentpipe.lab.process import handed
from bentpipe.runners.runner import RunnerError
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bentpipe.lab.process_plans import BundleNodePlan, IssuePlan

__all__ = ["Running", "issued", "running"]

LOOK_S = 0.1
"""Longest time without a word to who listens."""

BAD_INPUT = 2
"""Exit status of a plan that cannot be run."""


class Running:
    """A node that was started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """``process`` has pipes."""
        self._process = process
        self._ending = False

    def end(self) -> None:
        """Tells it to end; what it has yet to say still comes."""
        if not self._ending and self._process.poll() is None:
            self._ending = True  # a second time would end it at once
            self._process.terminate()

    def said(self) -> Iterator[dict[str, Any] | None]:
        """What it says, line by line until it has ended; None where it has said nothing for a moment.

        Raises:
            ScenarioError: the plan cannot be run.
            RunnerError: it failed.
        """
        out = self._process.stdout
        if out is None:
            raise TypeError("a process without a pipe")
        rest = b""
        while True:
            if not select.select([out], [], [], LOOK_S)[0]:
                yield None
                continue
            found = os.read(out.fileno(), 1 << 16)
            if not found:
                break
            *lines, rest = (rest + found).split(b"\n")
            yield from map(json.loads, lines)
        error = b"" if self._process.stderr is None else self._process.stderr.read()
        status = self._process.wait()
        text = error.decode(errors="replace").strip().removeprefix("error: ")
        if status == BAD_INPUT:
            raise ScenarioError([("", text)])
        if status:
            raise RunnerError(text or f"bentpipe-rt ended with status {status}")


def issued(plan: IssuePlan) -> dict[str, Any]:
    """Makes the certificate of ``plan``, and says what it is.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built; it cannot be made.
        RunnerError: it failed.
    """
    program = executable()
    with handed(plan) as descriptor:
        words = [str(program), "issue", f"/proc/self/fd/{descriptor}"]
        done = subprocess.run(words, pass_fds=[descriptor], capture_output=True, check=False)
    text = done.stderr.decode(errors="replace").strip().removeprefix("error: ")
    if done.returncode == BAD_INPUT:
        raise ScenarioError([("", text)])
    if done.returncode:
        raise RunnerError(text or f"bentpipe-rt ended with status {done.returncode}")
    made: dict[str, Any] = json.loads(done.stdout)
    return made


@contextmanager
def running(plan: BundleNodePlan) -> Iterator[Running]:
    """Runs the node of ``plan``. Ctrl-C and SIGTERM tell it to end, and it ends with this at the latest.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
    """
    program = executable()
    with handed(plan) as descriptor:
        words = [str(program), "dtn", f"/proc/self/fd/{descriptor}"]
        # In a group of its own: of Ctrl-C at a terminal it hears from us, once.
        process = subprocess.Popen(
            words, pass_fds=[descriptor], stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
        with process:
            node = Running(process)
            try:
                with _told(node):
                    yield node
            finally:
                process.kill()


@contextmanager
def _told(node: Running) -> Iterator[None]:
    """Signals end ``node``, as far as this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.signal(one, lambda _number, _frame: node.end()) for one in numbers}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
