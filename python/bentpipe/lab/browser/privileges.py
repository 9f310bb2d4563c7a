"""Rights of a browser: whatever the lab is, its browser is an ordinary user, inside Chromium's own sandbox.

A lab's processes are root: of the machine, or of a user namespace that an ordinary user has made. As root of the
machine the browser becomes the user nobody; in a namespace of one user it has another number in one more namespace,
with none of the first one's capabilities. Chromium's sandbox is made of user namespaces, which it refuses as root.
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
"""The user without rights, by its number: Debian's nobody and nogroup, and the kernel's overflow user."""

WITHOUT = "--without-sandbox"
"""The option that lets the content of a foreign site run outside Chromium's sandbox."""

TEMPORARY = "tmp"
"""Folder for temporary files in a browser's folder."""

WAIT_S = 20.0


def command_prefix() -> list[str]:
    """Return the words before a command that take the rights of root from it; none where there are none to take.

    Raises:
        ChromiumError: the tool for it is not installed.
    """
    if os.geteuid() != 0:
        return []
    if _is_mapped(NOBODY):
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    else:
        words = ["unshare", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "setpriv", "--no-new-privs"]
    for tool in ("setpriv", words[0]):
        if shutil.which(tool) is None:
            raise ChromiumError(
                f"{tool} is not installed, without which a browser would be root; on Debian: util-linux"
            )
    return [str(shutil.which(words[0])), *words[1:]]


def _is_mapped(user: int) -> bool:
    """Whether ``user`` exists in this process's user namespace (user_namespaces(7))."""
    try:
        lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    except OSError:
        return True
    ranges = [[int(word) for word in line.split()] for line in lines]
    return any(first <= user < first + count for first, _, count in ranges)


def prepare(home: Path) -> Path:
    """Make a browser's folder ready, and return the one in it for temporary files, which the browser may write to.

    ``home`` itself is not the browser's, so that nothing in it changes under the hands of root.
    """
    home.chmod(0o711)
    temporary = home / TEMPORARY
    temporary.mkdir(mode=0o700)
    give(temporary)
    return temporary


def give(folder: Path) -> None:
    """Make ``folder`` and all in it the browser's, where that is another user; no browser may have had it before."""
    if os.geteuid() != 0 or not _is_mapped(NOBODY):
        return
    # From the inside out: what the browser has got already holds nothing that is still to be given.
    for place, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            os.chown(Path(place, name), NOBODY, NOBODY, follow_symlinks=False)
    os.chown(folder, NOBODY, NOBODY, follow_symlinks=False)


def take_file(source: Path, target: Path) -> bool:
    """Copy a regular file that a browser has written; whether there is one. Links are not followed."""
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
    """Return a name that nobody has for a browser's folder, in a folder for temporary files that its user may enter and
    that is short enough for the browser to stay in it.

    Raises:
        ChromiumError: there is none.
    """
    own, name = Path(tempfile.gettempdir()), folder_name(prefix).name
    is_root = os.geteuid() == 0
    for place in dict.fromkeys([own, Path("/tmp"), Path("/var/tmp")]):  # noqa: S108
        if not may_stay(place / name / TEMPORARY):
            continue
        if _is_open(place) if is_root else os.access(place, os.W_OK | os.X_OK):
            return place / name
    if not is_root:
        return own / name  # the browser's user is this one, who may write to both
    why = "whose name is too long for a socket in it"
    if may_stay(own / name / TEMPORARY):
        why = "which the user nobody may not enter"
    raise ChromiumError(f"TMPDIR is {own}, {why}; expected one such as /tmp")


def _is_open(place: Path) -> bool:
    """Whether everybody may enter ``place``."""
    try:
        whole = place.resolve(strict=True)
        return all(one.stat().st_mode & stat.S_IXOTH for one in (whole, *whole.parents))
    except OSError:
        return False


def has_sandbox() -> bool:
    """Whether Chromium's sandbox works for a browser of this process: the namespaces that it is made of can be had.

    Raises:
        ChromiumError: as :func:`command_prefix`.
    """
    words = [*command_prefix(), "unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "true"]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=WAIT_S
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def require_sandbox(*, without: bool, foreign: bool = True) -> bool:
    """Whether a browser gets its sandbox: where it can be had, and is not left out by ``without``.

    Chromium may fail to make its own where the namespaces can be had.

    Raises:
        ChromiumError: it cannot be had for a ``foreign`` site, and is not left out; or as :func:`has_sandbox`.
    """
    found = has_sandbox()
    if foreign and not found and not without:
        raise ChromiumError(
            f"Chromium's sandbox needs user namespaces, which this machine refuses; {WITHOUT} loads the site without it"
        )
    return found and not without
