"""``bentpipe doctor``: what of this machine bentpipe can use."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Check", "examine", "lacking"]


@dataclass(frozen=True)
class Check:
    """One thing: whether it is well, whether it must be, and what was found."""

    what: str
    good: bool
    needed: bool
    found: str


def examine() -> list[Check]:
    """Everything bentpipe needs or can use, in order of importance."""
    version = platform.python_version()
    checks = [Check("Python 3.11 or newer", sys.version_info >= (3, 11), True, version), _engine()]
    checks += [_package(name, needed=True) for name in ("polars", "duckdb", "pydantic", "altair", "scipy")]
    cores = len(os.sched_getaffinity(0))
    checks.append(Check("processors", True, False, f"{cores}"))
    checks.append(_memory())
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    checks.append(Check("disk, 1 GB free here", free >= 1, False, f"{free:.1f} GB"))
    checks.append(_package("distributed", needed=False, use="--on dask://"))
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    checks.append(
        Check("Chromium (screenshots of reports, page loads)", browser is not None, False, browser or "none")
    )
    return checks + _real_time()


def _real_time() -> list[Check]:
    """What shell, browse and the real-time engine need: Linux, programs, namespaces, TUN."""
    found = [_executable(), *(_program(*words) for words in PROGRAMS), _tun(), _namespaces(), _fifo(), _tcp()]
    if found[0].good:
        found.append(_lab())
    return found


def lacking(*, proxies: bool) -> list[str]:
    """What keeps every lab of this machine from being, with the step that helps; nothing where there can be one.

    Args:
        proxies: whether TCP is split on the way.
    """
    names = ("ip", "nft") if proxies else ("ip",)
    checks = [*(_program(*words) for words in PROGRAMS if words[0] in names), _tun(), _namespaces()]
    return [f"{check.what}: {check.found}" for check in checks if not check.good]


PROGRAMS = (
    ("ip", "iproute2", "the path of a session"),
    ("nft", "nftables", "the way outside of `shell`, splitting proxies"),
)


def _executable() -> Check:
    from bentpipe.lab.executable import executable
    from bentpipe.scenario.problems import ScenarioError

    try:
        return Check("bentpipe-rt (shell, perf, browse)", True, False, str(executable()))
    except ScenarioError:
        return Check("bentpipe-rt (shell, perf, browse)", False, False, "not built; in a checkout: make rt")


LAB_S = 30.0
"""Longest that a lab of one command may take."""


def _lab() -> Check:
    """A lab with a proxy, for a command that ends at once: what one needs is tried."""
    from bentpipe.lab.access import path_of
    from bentpipe.lab.executable import executable
    from bentpipe.lab.process import started

    what = "a lab in real time"
    path, proxies = path_of("lte-4g", pep="early")
    nft = _program(*PROGRAMS[1]).good
    plan = {
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
        with started(executable(), [], **how) as lab:
            lab.send(plan)
            try:
                status = lab.process.wait(LAB_S)
            except subprocess.TimeoutExpired:
                return Check(what, False, False, f"did not end within {LAB_S:.0f} s")
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()
    if status == 0:
        return Check(what, True, False, "stood, and ended" if nft else "stood, and ended; without proxies")
    return Check(what, False, False, said[-1].removeprefix("bentpipe: ") if said else f"exit status {status}")


def _program(name: str, package: str, use: str) -> Check:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    return Check(f"{name} ({use})", found is not None, False, found or f"none; Debian: apt install {package}")


def _tun() -> Check:
    what = "TUN devices"
    try:
        with Path("/dev/net/tun").open("r+b", buffering=0):
            return Check(what, True, False, "/dev/net/tun opens")
    except FileNotFoundError:
        help_ = "modprobe tun; in a container: --device /dev/net/tun"
        return Check(what, False, False, f"no /dev/net/tun; {help_}")
    except OSError as error:
        help_ = "as root: chmod 0666 /dev/net/tun"
        return Check(what, False, False, f"/dev/net/tun: {error.strerror}; {help_}")


USER_NAMESPACES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
     "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
)  # fmt: skip
"""Settings that forbid an ordinary user's namespaces, the value that does, and what allows them."""


def _namespaces() -> Check:
    """Tried, not guessed: what forbids it has many names."""
    root = os.geteuid() == 0
    what = "network namespaces, as root" if root else "network namespaces, rootless"
    tool = shutil.which("unshare")
    if tool is None:
        return Check(what, False, False, "no unshare to try it with; Debian: apt install util-linux")
    flags = ["--net", "--mount", "--pid", "--fork"]
    words = [tool, *([] if root else ["--user", "--map-root-user"]), *flags, "true"]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        outside = "" if root else "; the command has no way outside"
        return Check(what, True, False, f"allowed{outside}")
    if root:
        return Check(
            what, False, False, "not allowed; in a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN"
        )
    for place, forbids, help_ in USER_NAMESPACES:
        file = Path(place)
        if file.is_file() and file.read_text(encoding="ascii").strip() == forbids:
            return Check(what, False, False, f"not allowed; as root: {help_}")
    return Check(what, False, False, f"not allowed: {tried.stderr.strip()}")


def _fifo() -> Check:
    """Whether a thread gets the real-time scheduler."""
    what = "real-time scheduling (steadier on a busy machine)"
    tool = shutil.which("chrt")
    if tool is None:
        return Check(what, False, False, "no chrt; Debian: apt install util-linux")
    tried = subprocess.run([tool, "--fifo", "10", "true"], capture_output=True, check=False)
    help_ = "not allowed; as root: rtprio in /etc/security/limits.conf"
    return Check(what, tried.returncode == 0, False, "allowed" if tried.returncode == 0 else help_)


def _tcp() -> Check:
    what = "kernel TCP controllers"
    try:
        place = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
        names = place.read_text(encoding="ascii").split()
    except OSError:
        return Check(what, False, False, "unknown")
    more = "" if "bbr" in names else "; as root: modprobe tcp_bbr"
    return Check(what, True, False, ", ".join(names) + more)


def _engine() -> Check:
    try:
        from bentpipe.runners import engine

        return Check("engine", True, True, f"{engine.version()}, {len(engine.catalogue())} controllers")
    except ImportError as error:
        return Check("engine", False, True, f"{error}; `make engine` builds it")


def _package(name: str, *, needed: bool, use: str = "") -> Check:
    what = f"{name} ({use})" if use else name
    try:
        return Check(what, True, needed, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(what, False, needed, "not installed")


def _memory() -> Check:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return Check("memory", True, False, "unknown")
    values = {
        line.split(":")[0]: int(line.split()[1]) for line in text.splitlines() if line.split()[1].isdecimal()
    }
    free = values.get("MemAvailable", 0) / 1e6
    return Check(
        "memory, 100 MB a worker", free >= 0.1 * len(os.sched_getaffinity(0)), False, f"{free:.1f} GB free"
    )
