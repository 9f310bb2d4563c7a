"""Privileges of a browser: in every lab, the browser is an ordinary user inside the sandbox of Chromium.

The processes of a lab are root of the machine, or root of a user namespace of an ordinary user. As root of the machine,
the browser becomes the user nobody. In a user namespace it gets another user id in a nested namespace, without the
capabilities of the first one. The sandbox of Chromium consists of user namespaces, and Chromium refuses it as root.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from bentpipe.lab.browser.chromium import ChromiumError, may_stay
from bentpipe.lab.process import folder_name

__all__ = [
    "NOBODY",
    "WITHOUT",
    "browser_home",
    "command_prefix",
    "give",
    "has_sandbox",
    "prepare",
    "require_sandbox",
    "take_file",
]

NOBODY = 65_534
"""Id of the user without privileges: nobody and nogroup of Debian, and the overflow user of the kernel."""

WITHOUT = "--without-sandbox"
"""Option that runs the content of a foreign site outside the sandbox of Chromium."""

TEMPORARY = "tmp"
"""Directory for temporary files in the directory of a browser."""

WAIT_S = 20.0


def command_prefix() -> list[str]:
    """Return the arguments before a command that drop root privileges; an empty list without root.

    Raises:
        ChromiumError: the tool for it is not installed.
    """
    if os.geteuid() != 0:
        return []
    if _is_mapped(NOBODY):
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    else:
        command = ["unshare", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "setpriv", "--no-new-privs"]
    for tool in ("setpriv", command[0]):
        if shutil.which(tool) is None:
            raise ChromiumError(
                f"{tool} is not installed; root needs it to start a browser as another user; "
                "on Debian: apt install util-linux"
            )
    return [str(shutil.which(command[0])), *command[1:]]


def _is_mapped(user: int) -> bool:
    """Return True if ``user`` exists in the user namespace of this process (user_namespaces(7))."""
    try:
        lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    except OSError:
        return True
    ranges = [[int(word) for word in line.split()] for line in lines]
    return any(first <= user < first + count for first, _, count in ranges)


def prepare(home: Path) -> Path:
    """Prepare the directory of a browser and return its directory for temporary files.

    The browser does not own ``home`` itself, so that it cannot change files that root uses there.
    """
    home.chmod(0o711)
    temporary = home / TEMPORARY
    temporary.mkdir(mode=0o700)
    give(temporary)
    return temporary


def give(folder: Path) -> None:
    """Change the owner of a directory tree to the user of the browser, if that is another user.

    No browser may have owned the tree before.
    """
    if os.geteuid() != 0 or not _is_mapped(NOBODY):
        return
    # Bottom-up: directories that the browser owns already contain nothing with a pending change.
    for place, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            os.chown(Path(place, name), NOBODY, NOBODY, follow_symlinks=False)
    os.chown(folder, NOBODY, NOBODY, follow_symlinks=False)


def take_file(source: Path, target: Path) -> bool:
    """Copy a regular file of a browser and return True if it exists. Symbolic links are not followed."""
    try:
        handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return False
        with target.open("wb") as copy:
            shutil.copyfileobj(file, copy)
    return True


def browser_home(prefix: str) -> Path:
    """Return an unused path for the directory of a browser.

    It is in a directory for temporary files that the user of the browser may enter, and short enough for sockets.

    Raises:
        ChromiumError: no such directory exists.
    """
    default, name = Path(tempfile.gettempdir()), folder_name(prefix).name
    is_root = os.geteuid() == 0
    for place in dict.fromkeys([default, Path("/tmp"), Path("/var/tmp")]):  # noqa: S108
        if not may_stay(place / name / TEMPORARY):
            continue
        if _is_open(place) if is_root else os.access(place, os.W_OK | os.X_OK):
            return place / name
    if not is_root:
        return default / name  # this user is also the user of the browser
    why = "a path too long for a socket"
    if may_stay(default / name / TEMPORARY):
        why = "not accessible to the user nobody"
    raise ChromiumError(f"TMPDIR is {default}, {why}; expected one such as /tmp")


def _is_open(place: Path) -> bool:
    """Return True if every user may enter ``place``."""
    try:
        path = place.resolve(strict=True)
        return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))
    except OSError:
        return False


def has_sandbox() -> bool:
    """Return True if this machine allows the namespaces of the sandbox of Chromium.

    Raises:
        ChromiumError: as :func:`command_prefix`.
    """
    command = [*command_prefix(), "unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "true"]
    try:
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=WAIT_S
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return process.returncode == 0


def require_sandbox(*, without: bool, foreign: bool = True) -> bool:
    """Return True if the browser gets a sandbox: the machine allows it and ``without`` is false.

    Chromium may still fail to create its sandbox.

    Args:
        without: disable the sandbox.
        foreign: the site has content that is not trusted.

    Raises:
        ChromiumError: a ``foreign`` site has no sandbox and ``without`` is false; or as :func:`has_sandbox`.
    """
    found = has_sandbox()
    if foreign and not found and not without:
        raise ChromiumError(
            "Chromium's sandbox requires user namespaces, which this host does not allow; "
            f"use {WITHOUT} to load the site without the sandbox"
        )
    return found and not without
