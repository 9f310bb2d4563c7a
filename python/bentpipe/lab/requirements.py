"""Requirements of a lab on this host: programs, TUN devices, namespaces. Each check tries the requirement."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bentpipe.runners.runner import RunnerError

__all__ = [
    "OUTSIDE_PROGRAMS",
    "PROGRAMS",
    "Requirement",
    "check_lab",
    "check_namespaces",
    "check_program",
    "check_tun",
    "first_missing",
    "is_doubtful",
]


@dataclass(frozen=True)
class Requirement:
    """Result of the check of one requirement."""

    what: str
    """Name of the requirement."""
    good: bool
    """The requirement is met."""
    needed: bool
    """The requirement is mandatory."""
    found: str
    """Result of the check, and the remedy if the requirement is not met."""


def first_missing(*, proxies: bool) -> list[str]:
    """Return the requirements that prevent any lab on this host, each with its remedy.

    Args:
        proxies: the lab splits TCP connections.
    """
    names = ("ip", "nft") if proxies else ("ip",)
    checks = [
        *(check_program(*requirement) for requirement in PROGRAMS if requirement[0] in names),
        check_tun(),
        check_namespaces(),
    ]
    return [f"{check.what}: {check.found}" for check in checks if not check.good]


def check_lab(*, proxies: bool) -> None:
    """Check that this host can run a lab.

    A check takes longer than the start of a lab. It therefore runs only if a setting may prevent labs.

    Args:
        proxies: the lab splits TCP connections.

    Raises:
        RunnerError: a requirement is missing; the message names it.
    """
    if is_doubtful() and (missing := first_missing(proxies=proxies)):
        raise RunnerError("; ".join(missing))


def is_doubtful() -> bool:
    """Return whether a kernel setting, or a missing capability, device or program, may prevent labs."""
    if not (check_tun().good and check_program(*PROGRAMS[0]).good):
        return True
    if any(_read_setting(file) == "0" for file in LIMITS):
        return True
    if os.geteuid() != 0:
        return any(_read_setting(file) == forbidden for file, forbidden, _ in USER_NAMESPACES)
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    capabilities = next((int(line[7:], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    return any(not capabilities >> number & 1 for number in (CAP_NET_ADMIN, CAP_SYS_ADMIN))


CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21
"""Numbers of the capabilities (linux/capability.h)."""

LIMITS = tuple(f"/proc/sys/user/max_{kind}_namespaces" for kind in ("net", "mnt", "pid"))
"""Files with the maximum number of namespaces of a kind for each user (namespaces(7))."""


def _read_setting(file: str) -> str:
    """Return the text of a kernel setting; empty if the kernel has no such setting."""
    try:
        return Path(file).read_text(encoding="ascii").strip()
    except OSError:
        return ""


PROGRAMS = (
    ("ip", "iproute2", "network configuration of a lab"),
    ("nft", "nftables", "uplink and localhost of `shell`, PEPs"),
    ("pasta|slirp4netns", "passt, or slirp4netns", "uplink of `shell` without root"),
)
"""Names of programs, their Debian packages and their use. The first installed program of several names is
used."""

OUTSIDE_PROGRAMS = PROGRAMS[1:]
"""Programs that an unprivileged user needs to reach the network of the host from a lab."""


def check_program(names: str, package: str, use: str) -> Requirement:
    """Check that one of the programs ``names`` is installed.

    Args:
        names: names of the program, separated by ``|``.
        package: its Debian package.
        use: its purpose.
    """
    paths = (shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin") for name in names.split("|"))
    path = next(filter(None, paths), None)
    return Requirement(
        f"{names.replace('|', ' or ')} ({use})",
        path is not None,
        False,
        path or f"none; Debian: apt install {package}",
    )


def check_tun() -> Requirement:
    """Check that ``/dev/net/tun`` can be opened."""
    name = "TUN devices"
    try:
        with Path("/dev/net/tun").open("r+b", buffering=0):
            return Requirement(name, True, False, "/dev/net/tun opens")
    except FileNotFoundError:
        remedy = "modprobe tun; in a container: --device /dev/net/tun"
        return Requirement(name, False, False, f"no /dev/net/tun; {remedy}")
    except OSError as error:
        remedy = "as root: chmod 0666 /dev/net/tun"
        return Requirement(name, False, False, f"/dev/net/tun: {error.strerror}; {remedy}")


USER_NAMESPACES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
     "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
)  # fmt: skip
"""Settings that forbid user namespaces to unprivileged users: file, forbidding value, command that allows
them."""


def check_namespaces() -> Requirement:
    """Check that a process can create namespaces and configure a device in them.

    The check creates them, because many settings can forbid them.
    """
    root = os.geteuid() == 0
    name = "network namespaces, as root" if root else "network namespaces, rootless"
    unshare = shutil.which("unshare")
    if unshare is None:
        return Requirement(
            name, False, False, "unshare not found, so not tested; Debian: apt install util-linux"
        )
    flags = ["--net", "--mount", "--pid", "--fork"]
    ip = check_program(*PROGRAMS[0])
    inside = [ip.found, "link", "set", "lo", "up"] if ip.good else ["true"]
    command = [unshare, *([] if root else ["--user", "--map-root-user"]), *flags, *inside]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return Requirement(name, True, False, "allowed")
    for file in LIMITS:
        if _read_setting(file) == "0":
            setting = file.removeprefix("/proc/sys/").replace("/", ".")
            return Requirement(name, False, False, f"not allowed; as root: sysctl {setting}=10000")
    if root:
        return Requirement(
            name, False, False, "not allowed; in a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN"
        )
    for file, forbidden, remedy in USER_NAMESPACES:
        if _read_setting(file) == forbidden:
            return Requirement(name, False, False, f"not allowed; as root: {remedy}")
    return Requirement(name, False, False, f"not allowed: {result.stderr.strip()}")
