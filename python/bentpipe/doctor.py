"""``bentpipe doctor``: what of this machine bentpipe can use."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.lab.requirements import PROGRAMS, Requirement, check_namespaces, check_program, check_tun

if TYPE_CHECKING:
    from bentpipe.lab.process_plans import LabPlan

__all__ = ["examine"]


def examine() -> list[Requirement]:
    """Everything bentpipe needs or can use, in order of importance."""
    version = platform.python_version()
    checks = [Requirement("Python 3.11 or newer", sys.version_info >= (3, 11), True, version), _engine()]
    checks += [_package(name, needed=True) for name in ("polars", "duckdb", "pydantic", "altair", "scipy")]
    cores = len(os.sched_getaffinity(0))
    checks.append(Requirement("processors", True, False, f"{cores}"))
    checks.append(_memory())
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    checks.append(Requirement("disk, 1 GB free here", free >= 1, False, f"{free:.1f} GB"))
    checks.append(_package("distributed", needed=False, use="--on dask://"))
    checks.append(_package("odfpy", needed=False, use="export --format ods"))
    checks.append(_browser())
    return checks + _real_time()


def _browser() -> Requirement:
    from bentpipe.lab.browser.chromium import ChromiumError, find

    what = "Chromium (screenshots of reports, page loads)"
    try:
        return Requirement(what, True, False, str(find()))
    except ChromiumError as error:
        return Requirement(what, False, False, str(error))


def _real_time() -> list[Requirement]:
    """What shell, browse and the real-time engine need: Linux, programs, namespaces, TUN."""
    found = [
        _executable(),
        *(check_program(*words) for words in PROGRAMS),
        check_tun(),
        check_namespaces(),
        _fifo(),
        _tcp(),
    ]
    if found[0].good:
        found.append(_lab())
    return found


def _executable() -> Requirement:
    from bentpipe.lab.executable import executable
    from bentpipe.scenario.errors import ScenarioError

    try:
        return Requirement("bentpipe-rt (shell, perf, browse)", True, False, str(executable()))
    except ScenarioError:
        return Requirement(
            "bentpipe-rt (shell, perf, browse)", False, False, "not built; in a checkout: make rt"
        )


LAB_S = 30.0
"""Longest that a lab of one command may take."""


def _lab() -> Requirement:
    """A lab with a proxy, for a command that ends at once: what one needs is tried."""
    from bentpipe.lab.access import resolve_path
    from bentpipe.lab.executable import executable
    from bentpipe.lab.process import start_lab

    what = "a lab in real time"
    path, proxies = resolve_path("lte-4g", pep="early")
    nft = check_program(*PROGRAMS[1]).good
    plan: LabPlan = {
        "lab": path, "proxies": proxies if nft else [], "outside": False,
        "near": [{"name": "true", "command": ["true"]}],
    }  # fmt: skip
    with os.fdopen(os.memfd_create("bentpipe-doctor"), "r+b") as log:
        how = {
            "stdin": subprocess.DEVNULL,
            "stdout": log,
            "stderr": subprocess.STDOUT,
            "start_new_session": True,
        }
        with start_lab(executable(), [], **how) as lab:
            lab.send(plan)
            try:
                status = lab.process.wait(LAB_S)
            except subprocess.TimeoutExpired:
                return Requirement(what, False, False, f"did not end within {LAB_S:.0f} s")
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()
    if status == 0:
        return Requirement(
            what, True, False, "stood, and ended" if nft else "stood, and ended; without proxies"
        )
    return Requirement(
        what, False, False, said[-1].removeprefix("bentpipe: ") if said else f"exit status {status}"
    )


def _fifo() -> Requirement:
    """Whether a thread gets the real-time scheduler."""
    what = "real-time scheduling (steadier on a busy machine)"
    tool = shutil.which("chrt")
    if tool is None:
        return Requirement(what, False, False, "no chrt; Debian: apt install util-linux")
    tried = subprocess.run([tool, "--fifo", "10", "true"], capture_output=True, check=False)
    help_ = "not allowed; as root: rtprio in /etc/security/limits.conf"
    return Requirement(what, tried.returncode == 0, False, "allowed" if tried.returncode == 0 else help_)


def _tcp() -> Requirement:
    what = "kernel TCP controllers"
    try:
        place = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
        names = place.read_text(encoding="ascii").split()
    except OSError:
        return Requirement(what, False, False, "unknown")
    more = "" if "bbr" in names else "; as root: modprobe tcp_bbr"
    return Requirement(what, True, False, ", ".join(names) + more)


def _engine() -> Requirement:
    try:
        from bentpipe.runners import engine

        said = [engine.version(), f"{len(engine.catalogue())} controllers", engine.slowness()]
        return Requirement("engine", True, True, ", ".join(filter(None, said)))
    except ImportError as error:
        return Requirement("engine", False, True, f"{error}; `make engine` builds it")


def _package(name: str, *, needed: bool, use: str = "") -> Requirement:
    what = f"{name} ({use})" if use else name
    try:
        return Requirement(what, True, needed, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Requirement(what, False, needed, "not installed")


def _memory() -> Requirement:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return Requirement("memory", True, False, "unknown")
    values = {
        line.split(":")[0]: int(line.split()[1]) for line in text.splitlines() if line.split()[1].isdecimal()
    }
    free = values.get("MemAvailable", 0) / 1e6
    return Requirement(
        "memory, 100 MB a worker", free >= 0.1 * len(os.sched_getaffinity(0)), False, f"{free:.1f} GB free"
    )
