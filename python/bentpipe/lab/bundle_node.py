"""Bundle node on real sockets (``bentpipe-rt dtn``) and its messages."""

from __future__ import annotations

import json
import os
import select
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bentpipe.lab.executable import executable
from bentpipe.lab.process import forward_signals, plan_descriptor
from bentpipe.runners.runner import RunnerError
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bentpipe.lab.process_plans import BundleNodePlan, IssuePlan

__all__ = ["RunningNode", "issue_certificate", "run_node"]

POLL_S = 0.1
"""Maximum time without a value from :meth:`RunningNode.messages`, s."""

BAD_INPUT = 2
"""Exit status for a plan that cannot run."""


class RunningNode:
    """Process of a bundle node."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """Create the node of ``process``, which has pipes."""
        self._process = process
        self._ending = False

    def end(self) -> None:
        """Request the end of the node; its last messages still arrive."""
        if not self._ending and self._process.poll() is None:
            self._ending = True  # A second signal would end the node at once.
            self._process.terminate()

    def messages(self) -> Iterator[dict[str, Any] | None]:
        """Yield the messages of the node until it has ended; None if it is silent for a moment.

        Raises:
            ScenarioError: the plan cannot run.
            RunnerError: the node failed.
        """
        stdout = self._process.stdout
        if stdout is None:
            raise TypeError("a process without a pipe")
        incomplete = b""
        while True:
            if not select.select([stdout], [], [], POLL_S)[0]:
                yield None
                continue
            data = os.read(stdout.fileno(), 1 << 16)
            if not data:
                break
            *lines, incomplete = (incomplete + data).split(b"\n")
            yield from map(json.loads, lines)
        error = b"" if self._process.stderr is None else self._process.stderr.read()
        status = self._process.wait()
        text = error.decode(errors="replace").strip().removeprefix("error: ")
        if status == BAD_INPUT:
            raise ScenarioError([("", text)])
        if status:
            raise RunnerError(text or f"bentpipe-rt ended with status {status}")


def issue_certificate(plan: IssuePlan) -> dict[str, Any]:
    """Issue the certificate of ``plan`` and return its description.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built, or the certificate cannot be issued.
        RunnerError: ``bentpipe-rt`` failed.
    """
    executable_path = executable()
    with plan_descriptor(plan) as descriptor:
        command = [str(executable_path), "issue", f"/proc/self/fd/{descriptor}"]
        process = subprocess.run(command, pass_fds=[descriptor], capture_output=True, check=False)
    text = process.stderr.decode(errors="replace").strip().removeprefix("error: ")
    if process.returncode == BAD_INPUT:
        raise ScenarioError([("", text)])
    if process.returncode:
        raise RunnerError(text or f"bentpipe-rt ended with status {process.returncode}")
    certificate: dict[str, Any] = json.loads(process.stdout)
    return certificate


@contextmanager
def run_node(plan: BundleNodePlan) -> Iterator[RunningNode]:
    """Run the node of ``plan``; it ends with the block at the latest.

    Ctrl-C, SIGTERM and SIGHUP request its end.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
    """
    executable_path = executable()
    with plan_descriptor(plan) as descriptor:
        command = [str(executable_path), "dtn", f"/proc/self/fd/{descriptor}"]
        # A new process group, so that Ctrl-C at a terminal reaches the node only once, from this process.
        process = subprocess.Popen(
            command, pass_fds=[descriptor], stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
        with process:
            node = RunningNode(process)
            try:
                with forward_signals(node.end):
                    yield node
            finally:
                process.kill()
