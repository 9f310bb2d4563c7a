"""Labs in parallel on one machine: all must run, each with separate networks."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import lab_kills
import realtime

COMMAND = """
touch "$BENTPIPE_RENDEZVOUS_DIR/here-$0"
for i in $(seq 600); do
  [ "$(ls "$BENTPIPE_RENDEZVOUS_DIR" | grep -c ^here-)" -ge "$1" ] && break
  sleep 0.1
done
ip -o -4 addr show dev bentpipe | grep -o '10[.]78[.][0-9]*[.]2'
"""
"""Wait until all other labs run, and print the address of this one."""

PATIENCE_S = 120.0


def shells(count: int, program: Path, place: Path, *, user: str = "root") -> list[str]:
    """Start ``count`` shells at once, as ``root`` on separate machines with an external network, or as ``nobody``; return the errors. ``place`` is an empty folder."""
    (place / "path.toml").write_text(lab_kills.PATH)
    place.chmod(0o755)
    with contextlib.ExitStack() as stack:
        environment = {
            **os.environ,
            "BENTPIPE_RT": str(program),
            "PYTHONPATH": str(lab_kills.ROOT / "python"),
        }
        if user == "nobody":
            folder, words = stack.enter_context(realtime.nobody(program))
            os.chown(place, lab_kills.NOBODY, lab_kills.NOBODY)
            words = [*words, "env", f"BENTPIPE_RT={folder}/rt"]
        else:
            holder = stack.enter_context(lab_kills.network_of_its_own())
            words = ["nsenter", "-t", str(holder), "-n", "env"]
        words += [
            f"TMPDIR={place}",
            f"BENTPIPE_RENDEZVOUS_DIR={place}",
            *lab_kills.CLI,
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
                message, errors = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                message, errors = process.communicate()
                errors += "did not end"
            addresses += message.split()
            if process.returncode != 0:
                wrong.append(f"{number}: status {process.returncode}: {errors.strip()}")
        if user == "root" and not wrong and len(set(addresses)) != count:
            wrong.append(f"networks of {count} labs: {addresses}")
    return wrong


if __name__ == "__main__":
    print(*shells(int(sys.argv[1]), realtime.program(), Path(sys.argv[2])), sep="\n")
