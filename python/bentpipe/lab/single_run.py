"""One command over an access: its time, its output and its traffic."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.lab.process import folder_name, remove
from bentpipe.lab.shell import run_lab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bentpipe.lab.process_plans import LabPlan, LabSpec, Process
    from bentpipe.plan.spec.run_spec import ProxySpec, RunSpec

__all__ = ["CommandResult", "run_command"]

_TIMER = """import subprocess, sys, time
began = time.perf_counter()
try:
    status = subprocess.call(sys.argv[3:], timeout=float(sys.argv[2]) or None)
except subprocess.TimeoutExpired:
    status = ""
took = time.perf_counter() - began
with open(sys.argv[1], "w") as file:
    file.write(f"{took:.9f} {status}")
"""
"""Wrapper of the command within the lab, so that the time excludes the set-up of the lab."""


@dataclass(frozen=True)
class CommandResult:
    """Result of a command over an access, and of its server."""

    seconds: float
    """Time of the command, s."""
    status: int | None
    """Exit status; None if the command timed out or never ended."""
    valid: bool
    """The lab met its deadlines."""
    reasons: tuple[str, ...]
    """Reasons why the lab missed its deadlines."""
    up_bytes: int
    """Bytes of IP packets towards the server, on the segment with the most."""
    down_bytes: int
    """Bytes of IP packets towards the client, on the segment with the most."""
    folder: Path
    """Directory of the output: ``output``, ``errors``, ``server-output``, ``server-errors``. It exists until
    the block ends."""

    def last_line(self, name: str = "errors") -> str:
        """Return the last line of an output after a colon; empty if there is no output.

        Args:
            name: file of the output.
        """
        file = self.folder / name
        lines = file.read_text(errors="replace").split("\n") if file.exists() else []
        last_line = next((line for line in reversed(lines) if line.strip()), "")
        return f": {last_line.strip()}" if last_line else ""


@contextmanager
def run_command(
    path: tuple[LabSpec, Sequence[ProxySpec]],
    command: Sequence[str],
    *,
    server: Sequence[str] = (),
    listens: int | None = None,
    timeout_s: float = 0,
    background: RunSpec | None = None,
) -> Iterator[CommandResult]:
    """Run ``command`` in a new lab.

    Args:
        path: path and proxies (:func:`bentpipe.lab.access.resolve_path`).
        command: the command and its arguments; ``{server}`` is the address of the server.
        server: command and arguments of a service on the server, which is a namespace then. Without it, the
            server is this host.
        listens: port of the service; the command starts once the service listens.
        timeout_s: maximum time of the command, s; 0: unlimited.
        background: run of simulated users who share the path; None: no users.

    Raises:
        bentpipe.lab.shell.LabError: the lab could not start.
        bentpipe.lab.shell.InterruptedLab: Ctrl-C.
        bentpipe.scenario.errors.ScenarioError: ``bentpipe-rt`` is not built.
    """
    folder = folder_name("bentpipe-once-")
    folder.mkdir(mode=0o700)
    try:
        timer_command = [sys.executable, "-S", "-c", _TIMER, str(folder / "took"), str(timeout_s), *command]
        near = _process_plan("command", timer_command, folder, "")
        far = [_process_plan("server", server, folder, "server-")] if server else []
        if far and listens is not None:
            far[0]["listen_port"] = listens
        plan: LabPlan = {
            "lab": path[0], "proxies": path[1], "commands": [near], "services": far, "background": background,
            "server_namespace": bool(far), "has_uplink": not far, "forwards_localhost": True,
        }  # fmt: skip
        result = run_lab(plan)
        timer_output = (folder / "took").read_text() if (folder / "took").exists() else "nan "
        seconds, status = timer_output.split(" ")
        bytes_by_direction = {
            direction: max((segment[direction]["bytes_out"] for segment in result["links"]), default=0)
            for direction in ("up", "down")
        }
        yield CommandResult(
            float(seconds), int(status) if status else None, bool(result["valid"]), tuple(result["reasons"]),
            bytes_by_direction["up"], bytes_by_direction["down"], folder,
        )  # fmt: skip
    finally:
        remove(folder)


def _process_plan(name: str, command: Sequence[str], folder: Path, prefix: str) -> Process:
    return {
        "name": name,
        "command": list(command),
        "output": str(folder / f"{prefix}output"),
        "errors": str(folder / f"{prefix}errors"),
    }
