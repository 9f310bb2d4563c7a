"""One command behind an access, once: how long it took there, what it said, what crossed the path."""

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
    from bentpipe.plan.spec.run_spec import ProxySpec

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
"""Around the command, within the lab: what the lab itself takes is none of its time."""


@dataclass(frozen=True)
class CommandResult:
    """What became of a command behind an access, and of its server at the far end."""

    seconds: float
    """What it took."""
    status: int | None
    """Its exit status; None: it had no time left, or never ended."""
    valid: bool
    """Whether the machine kept the path's time."""
    reasons: tuple[str, ...]
    """Why not."""
    up_bytes: int
    """Bytes of IP that crossed the path towards the far end: of its segments, the most."""
    down_bytes: int
    """The same back."""
    folder: Path
    """What both said, as long as this is open: ``output``, ``errors``, ``server-output``, ``server-errors``."""

    def said(self, name: str = "errors") -> str:
        """The last line of what the command said of its failure, after a colon; empty where it said nothing."""
        file = self.folder / name
        lines = file.read_text(errors="replace").split("\n") if file.exists() else []
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f": {last.strip()}" if last else ""


@contextmanager
def run_command(
    path: tuple[LabSpec, Sequence[ProxySpec]],
    command: Sequence[str],
    *,
    server: Sequence[str] = (),
    listens: int | None = None,
    timeout_s: float = 0,
) -> Iterator[CommandResult]:
    """Runs ``command`` in a lab of its own.

    Args:
        path: as :func:`bentpipe.lab.access.resolve_path` gives it.
        command: its words, of which ``{far}`` is the address of the far end.
        server: words of a service at the far end, which is a namespace of its own then; without, it is this machine.
        listens: port of the service, which is waited for.
        timeout_s: longest that the command may take; 0: as long as it likes.

    Raises:
        bentpipe.lab.shell.LabError: there could be no lab.
        bentpipe.lab.shell.InterruptedLab: Ctrl-C.
        bentpipe.scenario.errors.ScenarioError: ``bentpipe-rt`` is not built.
    """
    folder = folder_name("bentpipe-once-")
    folder.mkdir(mode=0o700)
    try:
        words = [sys.executable, "-S", "-c", _TIMER, str(folder / "took"), str(timeout_s), *command]
        near = _process("command", words, folder, "")
        far = [_process("server", server, folder, "server-")] if server else []
        if far and listens is not None:
            far[0]["listens"] = listens
        plan: LabPlan = {
            "lab": path[0], "proxies": path[1], "near": [near], "far": far,
            "private": bool(far), "outside": not far,
        }  # fmt: skip
        found = run_lab(plan)
        took = (folder / "took").read_text() if (folder / "took").exists() else "nan "
        seconds, status = took.split(" ")
        crossed = {
            way: max((one[way]["bytes_out"] for one in found["segments"]), default=0)
            for way in ("up", "down")
        }
        yield CommandResult(
            float(seconds), int(status) if status else None, bool(found["valid"]), tuple(found["reasons"]),
            crossed["up"], crossed["down"], folder,
        )  # fmt: skip
    finally:
        remove(folder)


def _process(name: str, words: Sequence[str], folder: Path, prefix: str) -> Process:
    return {
        "name": name,
        "command": list(words),
        "output": str(folder / f"{prefix}output"),
        "errors": str(folder / f"{prefix}errors"),
    }
