"""Chromium as a unit needs it: where it is, its flags, its profile, and its process group."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "MODES",
    "Chromium",
    "ChromiumError",
    "children",
    "find",
    "flags",
    "may_stay",
    "meaning",
    "new_profile",
    "stay",
    "version",
]

MODES = ("3", "2", "1.1", "alt-svc")
"""How a page is fetched; the words of a scenario's ``http``."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

ALWAYS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # /dev/shm is 64 MB in containers
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-extensions",
    "--disable-breakpad",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--mute-audio",
    "--disable-auto-reload",  # an error page asks again after a second
    "--password-store=basic",
    "--use-mock-keychain",
    "--remote-debugging-pipe",
)

PREDICTION_OFF = 2
"""Of the preference net.network_prediction_options: never. A preconnect would hide the handshake."""

END_S = 20.0
"""For a browser to end by itself, on a busy machine: it writes what its profile remembers (Alt-Svc) only then."""


LONGEST_HOME = 60
"""Chromium puts a socket into a folder of its own among the temporary files: of the 108 bytes that a socket's name may
have (unix(7)), 45 are its own."""


class ChromiumError(RuntimeError):
    """The browser cannot be had, does not answer, or ended; the message is for people."""


def find() -> Path:
    """Where Chromium is: ``$BENTPIPE_CHROMIUM``, or on the path.

    Raises:
        ChromiumError: nowhere; with how to get it.
    """
    named = os.environ.get("BENTPIPE_CHROMIUM")
    if named:
        if not Path(named).is_file():
            raise ChromiumError(f"BENTPIPE_CHROMIUM is {named}: no such file")
        return Path(named)
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise ChromiumError(
            "Chromium is not installed; on Debian: apt-get install chromium (or make system, as root)"
        )
    return Path(found)


def version(program: Path) -> str:
    """What ``chromium --version`` prints. Raises ChromiumError when it does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ChromiumError(f"{program} does not run: {error}") from None
    return done.stdout.strip().splitlines()[-1].strip() if done.stdout.strip() else "unknown"


@dataclass(frozen=True)
class Site:
    """Where the page is: names with their address, one port, and the key that the browser shall trust."""

    hosts: Mapping[str, str]
    port: int
    spki: str | None = None
    """Base64 of the SHA-256 of the server's public key; None: an authority vouches for it."""
    plain: frozenset[str] = frozenset()
    """Names of hosts without TLS."""

    def origin(self, host: str) -> str:
        """Return the origin of a host (RFC 6454)."""
        return f"{'http' if host in self.plain else 'https'}://{host}:{self.port}"


def flags(mode: str, site: Site, profile: Path, *, sandbox: bool, netlog: Path | None = None) -> list[str]:
    """The command line's flags for one mode of :data:`MODES`."""
    covered = [host for host in site.hosts if host not in site.plain]
    origins = ",".join(f"{host}:{site.port}" for host in covered)
    # A browser takes QUIC after Alt-Svc from a server with an unknown root only where the host is named here, with
    # whatever port: with one that is not used, QUIC is not forced.
    unforced = ",".join(f"{host}:{2 if site.port == 1 else 1}" for host in covered)
    by_mode = {
        "3": ["--enable-quic", f"--origin-to-force-quic-on={origins}"],
        "2": ["--disable-quic"],
        "1.1": ["--disable-quic", "--disable-http2"],
        "alt-svc": ["--enable-quic", f"--origin-to-force-quic-on={unforced}"],
    }[mode]
    # All other names do not resolve: nothing else can be reached, neither by TCP nor by QUIC.
    rules = ", ".join(
        [f"MAP {host} {_bracketed(address)}" for host, address in site.hosts.items()]
        + ["MAP * ~NOTFOUND", "EXCLUDE localhost", "EXCLUDE 127.0.0.1"]
        + [f"EXCLUDE {_bracketed(address)}" for address in dict.fromkeys(site.hosts.values())]
    )
    found = [*ALWAYS, *by_mode, f"--user-data-dir={profile}", f"--host-resolver-rules={rules}"]
    if not sandbox:
        found.append("--no-sandbox")
    if site.spki is not None:
        found.append(f"--ignore-certificate-errors-spki-list={site.spki}")
    if site.plain:
        # A page over https may ask for objects over http, as it did where it was recorded.
        found += ["--allow-running-insecure-content", "--disable-features=AutoupgradeMixedContent"]
    if netlog is not None:
        found += [f"--log-net-log={netlog}", "--net-log-capture-mode=Default"]
    return [*found, "about:blank"]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def meaning(error: str) -> str:
    """What Chromium's word for a failure means, in front of the word."""
    for start, words in (
        (
            "net::ERR_CERT_AUTHORITY_INVALID",
            "nobody vouches for the certificate (give its key with --spki)",
        ),
        ("net::ERR_CERT_COMMON_NAME_INVALID", "the certificate is another name's"),
        ("net::ERR_CERT", "the certificate is not valid"),
        ("net::ERR_CONNECTION_REFUSED", "nothing listens there"),
        ("net::ERR_CONNECTION_TIMED_OUT", "no answer from the server"),
        ("net::ERR_TIMED_OUT", "no answer from the server"),
        ("net::ERR_ADDRESS_UNREACHABLE", "no way to the server"),
        ("net::ERR_NAME_NOT_RESOLVED", "the page wants a host that it may not reach, or that is not there"),
        ("net::ERR_UNSAFE_PORT", "Chromium asks for nothing at this port"),
        ("net::ERR_TOO_MANY_REDIRECTS", "it redirects without end"),
        (
            "net::ERR_QUIC",
            "no QUIC with the server (UDP blocked, no HTTP/3 there, or a certificate it does not trust)",
        ),
    ):
        if error.startswith(start):
            return f"{words}: {error}"
    return error


def may_stay(home: str | Path) -> bool:
    """Whether the name of a folder is short enough for a browser's temporary files."""
    return len(os.fsencode(home)) <= LONGEST_HOME


def stay(home: str) -> None:
    """What browsers of this process leave among the temporary files when they are killed goes with their ``home``."""
    if may_stay(home):
        os.environ["TMPDIR"] = home


def new_profile(folder: Path) -> Path:
    """An empty profile in ``folder`` with prediction off."""
    profile = folder / "profile"
    (profile / "Default").mkdir(parents=True)
    preferences = {
        "net": {"network_prediction_options": PREDICTION_OFF},
        "alternate_error_pages": {"enabled": False},
    }
    (profile / "Default" / "Preferences").write_text(json.dumps(preferences), encoding="utf-8")
    return profile


class Chromium:
    """A browser's process, in a session and group of its own, with the two ends of its debugging pipe."""

    def __init__(
        self, program: Path, words: Sequence[str], home: Path, log: Path, *, prefix: Sequence[str] = ()
    ) -> None:
        """Starts it; what it says goes to ``log``. Raises ChromiumError when it cannot be started.

        ``prefix`` are words before the command (:func:`bentpipe.lab.browser.privileges.command_prefix`).
        """
        to_browser, self.writing = os.pipe()
        self.reading, from_browser = os.pipe()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DBUS_")}
        # Above 3 and 4, which are the pipe's places in the browser.
        ends = [fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 10) for handle in (to_browser, from_browser)]
        os.close(to_browser)
        os.close(from_browser)
        into = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        places = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), into, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *[(os.POSIX_SPAWN_DUP2, end, place) for end, place in zip(ends, (3, 4), strict=True)],
        ]
        command = [*prefix, str(program), *words]
        try:
            self.pid = os.posix_spawn(
                command[0], command, environment | {"HOME": str(home)}, file_actions=places, setsid=True
            )
        except OSError as error:
            self.close_pipe()
            raise ChromiumError(f"{program} cannot be started: {error.strerror}") from None
        finally:
            for end in ends:
                os.close(end)
        self.ended = False

    def close_pipe(self) -> None:
        """Without its pipe a browser ends by itself."""
        for name in ("writing", "reading"):
            handle = getattr(self, name)
            if handle >= 0:
                os.close(handle)
                setattr(self, name, -1)

    def end(self, seconds: float = END_S) -> bool:
        """Waits until it has ended; kills the group when it does not within ``seconds``. Whether it ended by itself."""
        own = self._wait(seconds)
        self.kill()
        return own

    def _wait(self, seconds: float) -> bool:
        if not self.ended:
            handle = os.pidfd_open(self.pid)
            try:
                self.ended = bool(select.select([handle], [], [], seconds)[0])
            finally:
                os.close(handle)
            if self.ended:
                os.waitpid(self.pid, 0)
        return self.ended

    def kill(self) -> None:
        """Ends every process of its group, at once."""
        self.close_pipe()
        if not self.ended:
            # Its number is its own as long as it has not been waited for.
            os.killpg(self.pid, signal.SIGKILL)
            self._wait(10.0)
        for _ in range(100):
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            _reap(self.pid)
            time.sleep(0.005)


def _reap(group: int) -> None:
    """Takes leave of those of a group that this process has adopted."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def children() -> list[int]:
    """Processes whose parent this one is."""
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            found += [int(word) for word in task.read_text(encoding="ascii").split()]
        except OSError:
            continue
    return found
