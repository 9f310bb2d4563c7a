"""Labs at once, side by side on one machine: all are to stand, each with networks of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import killing
import realtime

COMMAND = """
touch "$BENTPIPE_RENDEZVOUS_DIR/here-$0"
for i in $(seq 600); do
  [ "$(ls "$BENTPIPE_RENDEZVOUS_DIR" | grep -c ^here-)" -ge "$1" ] && break
  sleep 0.1
done
ip -o -4 addr show dev bentpipe | grep -o '10[.]78[.][0-9]*[.]2'
"""
"""Waits until all the others stand too, and says its own address."""

PATIENCE_S = 120.0


def shells(count: int, program: Path, place: Path, *, user: str = "root") -> list[str]:
    """Starts ``count`` shells at once, as ``root`` on a machine of their own with the way outside, or as ``nobody``; returns
    what went wrong. ``place`` is an empty folder."""
    (place / "path.toml").write_text(killing.PATH)
    place.chmod(0o755)
    with contextlib.ExitStack() as stack:
        environment = {**os.environ, "BENTPIPE_RT": str(program), "PYTHONPATH": str(killing.ROOT / "python")}
        if user == "nobody":
            folder, words = stack.enter_context(realtime.nobody(program))
            os.chown(place, killing.NOBODY, killing.NOBODY)
            words = [*words, "env", f"BENTPIPE_RT={folder}/rt"]
        else:
            holder = stack.enter_context(killing.network_of_its_own())
            words = ["nsenter", "-t", str(holder), "-n", "env"]
        words += [
            f"TMPDIR={place}",
            f"BENTPIPE_RENDEZVOUS_DIR={place}",
            *killing.CLI,
            "shell",
            str(place / "path.toml"),
            "--no-path-check",
        ]
        started = [
            stack.enter_context(subprocess.Popen(
                [*words, "--", "sh", "-c", COMMAND, str(number), str(count)], env=environment,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            ))
            for number in range(count)
        ]  # fmt: skip
        wrong, addresses = [], []
        for number, process in enumerate(started):
            try:
                said, errors = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                said, errors = process.communicate()
                errors += "did not end"
            addresses += said.split()
            if process.returncode != 0:
                wrong.append(f"{number}: status {process.returncode}: {errors.strip()}")
        if user == "root" and not wrong and len(set(addresses)) != count:
            wrong.append(f"networks of {count} labs: {addresses}")
    return wrong


if __name__ == "__main__":
    print(*shells(int(sys.argv[1]), realtime.program(), Path(sys.argv[2])), sep="\n")
