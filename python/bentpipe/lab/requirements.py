"""What a lab needs of this machine: programs, TUN devices, namespaces; each tried, not guessed."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bentpipe.runners.runner import RunnerError

__all__ = [
    "PROGRAMS",
    "WAY_OUTSIDE",
    "Requirement",
    "check_lab",
    "first_missing",
    "is_doubtful",
    "namespaces",
    "program",
    "tun",
]


@dataclass(frozen=True)
class Requirement:
    """One thing: whether it is well, whether it must be, and what was found."""

    what: str
    good: bool
    needed: bool
    found: str


def first_missing(*, proxies: bool) -> list[str]:
    """What keeps every lab of this machine from being, with the step that helps; nothing where there can be one.

    Args:
        proxies: whether TCP is split on the way.
    """
    names = ("ip", "nft") if proxies else ("ip",)
    checks = [*(program(*words) for words in PROGRAMS if words[0] in names), tun(), namespaces()]
    return [f"{check.what}: {check.found}" for check in checks if not check.good]


def check_lab(*, proxies: bool) -> None:
    """Raise RunnerError, which says what is missing, where this machine can have no lab.

    To try it takes longer than a lab takes to begin, so that it is tried only where something forbids it.
    """
    if is_doubtful() and (missing := first_missing(proxies=proxies)):
        raise RunnerError("; ".join(missing))


def is_doubtful() -> bool:
    """Return whether a setting of the kernel, or a missing right, device or program, may forbid labs."""
    if not (tun().good and program(*PROGRAMS[0]).good):
        return True
    if any(_setting(place) == "0" for place in LIMITS):
        return True
    if os.geteuid() != 0:
        return any(_setting(place) == forbids for place, forbids, _ in USER_NAMESPACES)
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    rights = next((int(line[7:], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    return any(not rights >> number & 1 for number in (CAP_NET_ADMIN, CAP_SYS_ADMIN))


CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21
"""linux/capability.h"""

LIMITS = tuple(f"/proc/sys/user/max_{kind}_namespaces" for kind in ("net", "mnt", "pid"))
"""How many namespaces of a kind a user may have (namespaces(7))."""


def _setting(place: str) -> str:
    """Return the text of a setting of the kernel; empty where it has none of this name."""
    try:
        return Path(place).read_text(encoding="ascii").strip()
    except OSError:
        return ""


PROGRAMS = (
    ("ip", "iproute2", "the path of a session"),
    ("nft", "nftables", "the way outside of `shell`, splitting proxies"),
    ("pasta|slirp4netns", "passt, or slirp4netns", "an ordinary user's way outside of `shell`"),
)
"""Names, the Debian packages that have them, and what for; of several names the first that is there is used."""

WAY_OUTSIDE = PROGRAMS[1:]
"""What has to be there for an ordinary user to reach what the machine reaches."""


def program(names: str, package: str, use: str) -> Requirement:
    """Whether one of ``names`` of the Debian ``package`` is there."""
    places = (shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin") for name in names.split("|"))
    found = next(filter(None, places), None)
    return Requirement(
        f"{names.replace('|', ' or ')} ({use})",
        found is not None,
        False,
        found or f"none; Debian: apt install {package}",
    )


def tun() -> Requirement:
    """Whether ``/dev/net/tun`` opens."""
    what = "TUN devices"
    try:
        with Path("/dev/net/tun").open("r+b", buffering=0):
            return Requirement(what, True, False, "/dev/net/tun opens")
    except FileNotFoundError:
        help_ = "modprobe tun; in a container: --device /dev/net/tun"
        return Requirement(what, False, False, f"no /dev/net/tun; {help_}")
    except OSError as error:
        help_ = "as root: chmod 0666 /dev/net/tun"
        return Requirement(what, False, False, f"/dev/net/tun: {error.strerror}; {help_}")


USER_NAMESPACES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
     "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
)  # fmt: skip
"""Settings that forbid an ordinary user's namespaces, the value that does, and what allows them."""


def namespaces() -> Requirement:
    """Whether a process gets namespaces of its own, and may set up a device there: tried, because what forbids it has
    many names."""
    root = os.geteuid() == 0
    what = "network namespaces, as root" if root else "network namespaces, rootless"
    tool = shutil.which("unshare")
    if tool is None:
        return Requirement(what, False, False, "no unshare to try it with; Debian: apt install util-linux")
    flags = ["--net", "--mount", "--pid", "--fork"]
    ip = program(*PROGRAMS[0])
    inside = [ip.found, "link", "set", "lo", "up"] if ip.good else ["true"]
    words = [tool, *([] if root else ["--user", "--map-root-user"]), *flags, *inside]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return Requirement(what, True, False, "allowed")
    for place in LIMITS:
        if _setting(place) == "0":
            setting = place.removeprefix("/proc/sys/").replace("/", ".")
            return Requirement(what, False, False, f"not allowed; as root: sysctl {setting}=10000")
    if root:
        return Requirement(
            what, False, False, "not allowed; in a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN"
        )
    for place, forbids, help_ in USER_NAMESPACES:
        if _setting(place) == forbids:
            return Requirement(what, False, False, f"not allowed; as root: {help_}")
    return Requirement(what, False, False, f"not allowed: {tried.stderr.strip()}")
