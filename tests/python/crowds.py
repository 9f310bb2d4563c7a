"""Labs that are started side by side, as eight users of one machine would: drawn by a seed."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import killing

PATIENCE_S = 120.0
"""For eight labs that share two processors, each of which measures its path first."""

SAID = "behind the path"


def crowd(program: Path, count: int, seed: int) -> list[str]:
    """What went wrong in ``count`` labs begun within a drawn part of a second: nothing, if all were set up and have done
    what they were asked. A run that the machine was too late for is no fault of the labs."""
    chance = random.Random(seed)  # noqa: S311 - chance of a test
    faults = []
    with tempfile.TemporaryDirectory(prefix="bp-crowd-") as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "path.toml").write_text(killing.PATH, encoding="utf-8")
        started = []
        for number in range(count):
            form = chance.choice(["shell", "shell", "emu"])
            words = (
                [*killing.CLI, "shell", "path.toml", *chance.choice([[], ["--no-check"]]), "--", "echo", SAID]
                if form == "shell"
                else [*killing.CLI, "run", "path.toml", "--engine", "emu", "--out", f"store-{number}"]
            )
            log = stack.enter_context((folder / f"{number}.log").open("wb"))
            started.append((form, subprocess.Popen(
                words, cwd=folder, env={**os.environ, "BENTPIPE_RT": str(program), "PYTHONPATH": str(killing.ROOT / "python")}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )))  # fmt: skip
            time.sleep(chance.uniform(0.0, 0.1))
        until = time.monotonic() + PATIENCE_S
        for number, (form, process) in enumerate(started):
            try:
                status = process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                faults.append(f"{form} {number} did not end within {PATIENCE_S:.0f} s")
                continue
            said = (folder / f"{number}.log").read_text(errors="replace")
            late = form == "emu" and status == 1 and "too late" in said
            if (status and not late) or (form == "shell" and SAID not in said):
                faults.append(f"{form} {number} ended with {status}: {said.strip()[-300:]}")
    return faults
