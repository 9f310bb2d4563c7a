"""Runs a program with the qdiscs of the kernel: of this one, or of a user-mode kernel (Debian's user-mode-linux)."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["run"]

SCHEDULERS = ("sch_netem", "sch_tbf", "act_mirred", "cls_matchall", "sch_ingress")
MODULES = ("drivers/net/veth", "drivers/net/ifb", *(f"net/sched/{name}" for name in SCHEDULERS))
PROBE = "tc qdisc add dev lo root netem && tc qdisc add dev lo ingress && tc filter add dev lo parent ffff: matchall"

INIT = """#!/bin/sh
exec > {output} 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmpfs /run
for module in {modules}; do
    {python} -c 'import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(libc.syscall(313, os.open(sys.argv[1], os.O_RDONLY), b"", 0) != 0)' "{folder}/$module.ko" || echo "no $module"
done
{command} > {result}; echo $? > {status}
{python} -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'
"""
"""First process of the user-mode kernel: it has the files of this machine, and its own network."""


@functools.cache
def _has_qdiscs() -> bool:
    probe = ["unshare", "--net", "sh", "-c", f"{PROBE} action mirred egress redirect dev lo"]
    return os.geteuid() == 0 and subprocess.run(probe, capture_output=True, check=False).returncode == 0


def run(command: list[str], folder: Path, seconds: float = 300) -> str:
    """The output of a command that needs netem; skips without such a kernel."""
    if _has_qdiscs():
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds).stdout
    kernel = shutil.which("linux.uml")
    modules = sorted(Path("/usr/lib/uml/modules").glob("*/kernel"))
    if os.geteuid() != 0 or kernel is None or not modules:
        pytest.skip("no netem: requires root and sch_netem, or the package user-mode-linux")
    names = {name: folder / f"kernel-{name}" for name in ("init", "output", "result", "status")}
    text = INIT.format(
        **{name: shlex.quote(str(path)) for name, path in names.items()},
        modules=" ".join(MODULES),
        folder=modules[-1],
        python=shlex.quote(command[0]),
        command=shlex.join(command),
    )
    for one in names.values():
        one.unlink(missing_ok=True)
    names["init"].write_text(text)
    names["init"].chmod(0o755)
    words = [kernel, "rootfstype=hostfs", "rootflags=/", "rw", "mem=384M", f"init={names['init']}"]
    booted = subprocess.run(
        [*words, "con=null", "con0=null,fd:2"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
    )
    log = names["output"].read_text() if names["output"].exists() else booted.stderr
    status = names["status"].read_text().strip() if names["status"].exists() else "none"
    assert status == "0", log
    return names["result"].read_text()
