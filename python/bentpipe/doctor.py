"""Requirements of bentpipe on this machine: ``bentpipe doctor``."""

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
    """Check all requirements of bentpipe, in order of importance."""
    version = platform.python_version()
    checks = [Requirement("Python 3.11 or newer", sys.version_info >= (3, 11), True, version), _engine()]
    checks += [_package(name, needed=True) for name in ("polars", "duckdb", "pydantic", "altair", "scipy")]
    cores = len(os.sched_getaffinity(0))
    checks.append(Requirement("processors", True, False, f"{cores}"))
    checks.append(_memory())
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    checks.append(Requirement("disk, 1 GB free here", free >= 1, False, f"{free:.1f} GB"))
    checks.append(_package("distributed", needed=False, use="--cluster dask://"))
    checks.append(_package("odfpy", needed=False, use="export --format ods"))
    checks.append(_browser())
    return checks + _real_time()


def _browser() -> Requirement:
    from bentpipe.lab.browser.chromium import ChromiumError, find

    title = "Chromium (screenshots of reports, page loads)"
    try:
        return Requirement(title, True, False, str(find()))
    except ChromiumError as error:
        return Requirement(title, False, False, str(error))


def _real_time() -> list[Requirement]:
    """Check the requirements of shell, browse and emulation: Linux, programs, namespaces, TUN."""
    requirements = [
        _executable(),
        *(check_program(*words) for words in PROGRAMS),
        check_tun(),
        check_namespaces(),
        _fifo(),
        _tcp(),
    ]
    if requirements[0].good:
        requirements.append(_lab())
    return requirements


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
"""Maximum duration of a lab with one command, in s."""


def _lab() -> Requirement:
    """Run a lab with a proxy and a command that ends at once."""
    from bentpipe.lab.access import resolve_path
    from bentpipe.lab.executable import executable
    from bentpipe.lab.process import start_lab

    title = "test lab (emulation)"
    path, proxies = resolve_path("lte-4g", pep="early")
    nft = check_program(*PROGRAMS[1]).good
    plan: LabPlan = {
        "lab": path, "proxies": proxies if nft else [], "has_uplink": False,
        "commands": [{"name": "true", "command": ["true"]}],
    }  # fmt: skip
    with os.fdopen(os.memfd_create("bentpipe-doctor"), "r+b") as log:
        process_options = {
            "stdin": subprocess.DEVNULL,
            "stdout": log,
            "stderr": subprocess.STDOUT,
            "start_new_session": True,
        }
        with start_lab(executable(), [], **process_options) as lab:
            lab.send(plan)
            try:
                status = lab.process.wait(LAB_S)
            except subprocess.TimeoutExpired:
                return Requirement(title, False, False, f"not finished within {LAB_S:.0f} s")
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
    if status == 0:
        return Requirement(
            title, True, False, "started and stopped" if nft else "started and stopped; proxies not available"
        )
    return Requirement(
        title, False, False, lines[-1].removeprefix("bentpipe: ") if lines else f"exit status {status}"
    )


def _fifo() -> Requirement:
    """Check for permission to use the real-time scheduler."""
    title = "real-time scheduling (fewer missed deadlines)"
    tool = shutil.which("chrt")
    if tool is None:
        return Requirement(title, False, False, "no chrt; Debian: apt install util-linux")
    process = subprocess.run([tool, "--fifo", "10", "true"], capture_output=True, check=False)
    allowed = process.returncode == 0
    hint = "not allowed; as root: rtprio in /etc/security/limits.conf"
    return Requirement(title, allowed, False, "allowed" if allowed else hint)


def _tcp() -> Requirement:
    title = "kernel TCP controllers"
    try:
        place = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
        names = place.read_text(encoding="ascii").split()
    except OSError:
        return Requirement(title, False, False, "unknown")
    more = "" if "bbr" in names else "; as root: modprobe tcp_bbr"
    return Requirement(title, True, False, ", ".join(names) + more)


def _engine() -> Requirement:
    try:
        from bentpipe.runners import engine

        lines = [engine.version(), f"{len(engine.catalogue())} controllers", engine.slowness()]
        return Requirement("engine", True, True, ", ".join(filter(None, lines)))
    except ImportError as error:
        return Requirement("engine", False, True, f"{error}; run `make engine`")


def _package(name: str, *, needed: bool, use: str = "") -> Requirement:
    title = f"{name} ({use})" if use else name
    try:
        return Requirement(title, True, needed, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Requirement(title, False, needed, "not installed")


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
        "memory, 100 MB per worker", free >= 0.1 * len(os.sched_getaffinity(0)), False, f"{free:.1f} GB free"
    )
