"""Chromium for a session: its path, flags, profile and process group."""

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
"""Versions of HTTP, as in ``http`` of a scenario."""

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
    "--disable-auto-reload",  # an error page reloads after a second
    "--password-store=basic",
    "--use-mock-keychain",
    "--remote-debugging-pipe",
)

PREDICTION_OFF = 2
"""Value "never" of the preference net.network_prediction_options. A preconnect would hide the handshake."""

END_S = 20.0
"""Time in s for a browser to end by itself on a busy machine; only then it saves Alt-Svc to its profile."""

MAX_HOME_BYTES = 60
"""Maximum length of the path of the directory for temporary files.

Chromium creates a socket in a subdirectory. 45 of the 108 bytes of the name of a socket (unix(7)) are its own.
"""


class ChromiumError(RuntimeError):
    """Missing, hanging or ended browser, with a message for the user."""


def find() -> Path:
    """Return the path of Chromium from ``$BENTPIPE_CHROMIUM`` or ``$PATH``.

    Raises:
        ChromiumError: Chromium is not installed; the message tells how to install it.
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
    """Return the output of ``chromium --version``. Raises ChromiumError if it does not run."""
    try:
        process = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ChromiumError(f"{program} does not run: {error}") from None
    return process.stdout.strip().splitlines()[-1].strip() if process.stdout.strip() else "unknown"


@dataclass(frozen=True)
class Site:
    """Location of a page: host names with addresses, one port, and the key that the browser trusts."""

    hosts: Mapping[str, str]
    port: int
    spki: str | None = None
    """Base64 of the SHA-256 of the public key of the server; None if a certificate authority signed it."""
    plain: frozenset[str] = frozenset()
    """Names of hosts without TLS."""

    def origin(self, host: str) -> str:
        """Return the origin of a host (RFC 6454)."""
        return f"{'http' if host in self.plain else 'https'}://{host}:{self.port}"


def flags(mode: str, site: Site, profile: Path, *, sandbox: bool, netlog: Path | None = None) -> list[str]:
    """Return the command line flags for one mode of :data:`MODES`."""
    tls_hosts = [host for host in site.hosts if host not in site.plain]
    origins = ",".join(f"{host}:{site.port}" for host in tls_hosts)
    # A browser uses QUIC after Alt-Svc with an unknown root certificate only if the flag names the host, with any port.
    # An unused port does not force QUIC.
    unforced = ",".join(f"{host}:{2 if site.port == 1 else 1}" for host in tls_hosts)
    by_mode = {
        "3": ["--enable-quic", f"--origin-to-force-quic-on={origins}"],
        "2": ["--disable-quic"],
        "1.1": ["--disable-quic", "--disable-http2"],
        "alt-svc": ["--enable-quic", f"--origin-to-force-quic-on={unforced}"],
    }[mode]
    # Other names do not resolve, so that the browser reaches no other host by TCP or QUIC.
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
        # A page over https may request objects over http, as in its recording.
        found += ["--allow-running-insecure-content", "--disable-features=AutoupgradeMixedContent"]
    if netlog is not None:
        found += [f"--log-net-log={netlog}", "--net-log-capture-mode=Default"]
    return [*found, "about:blank"]


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def meaning(error: str) -> str:
    """Return the meaning of an error of Chromium, followed by the error."""
    for start, words in (
        (
            "net::ERR_CERT_AUTHORITY_INVALID",
            "the certificate is not trusted (set its key with --spki)",
        ),
        ("net::ERR_CERT_COMMON_NAME_INVALID", "the certificate is for another host name"),
        ("net::ERR_CERT", "the certificate is not valid"),
        ("net::ERR_CONNECTION_REFUSED", "connection refused"),
        ("net::ERR_CONNECTION_TIMED_OUT", "no answer from the server"),
        ("net::ERR_TIMED_OUT", "no answer from the server"),
        ("net::ERR_ADDRESS_UNREACHABLE", "no route to the server"),
        ("net::ERR_NAME_NOT_RESOLVED", "the page refers to a host that is unknown or not allowed"),
        ("net::ERR_UNSAFE_PORT", "Chromium does not allow this port"),
        ("net::ERR_TOO_MANY_REDIRECTS", "too many redirects"),
        (
            "net::ERR_QUIC",
            "no QUIC connection (UDP blocked, no HTTP/3 on the server, or an untrusted certificate)",
        ),
    ):
        if error.startswith(start):
            return f"{words}: {error}"
    return error


def may_stay(home: str | Path) -> bool:
    """Return True if the path of a directory is short enough for temporary files of a browser."""
    return len(os.fsencode(home)) <= MAX_HOME_BYTES


def stay(home: str) -> None:
    """Set ``TMPDIR`` to ``home``, so that its removal includes temporary files of killed browsers."""
    if may_stay(home):
        os.environ["TMPDIR"] = home


def new_profile(folder: Path) -> Path:
    """Create an empty profile in ``folder`` with network prediction off."""
    profile = folder / "profile"
    (profile / "Default").mkdir(parents=True)
    preferences = {
        "net": {"network_prediction_options": PREDICTION_OFF},
        "alternate_error_pages": {"enabled": False},
    }
    (profile / "Default" / "Preferences").write_text(json.dumps(preferences), encoding="utf-8")
    return profile


class Chromium:
    """Process of a browser in its own session and process group, with its debugging pipe."""

    def __init__(
        self, program: Path, words: Sequence[str], home: Path, log: Path, *, prefix: Sequence[str] = ()
    ) -> None:
        """Start the browser.

        Args:
            program: path of Chromium.
            words: command line flags.
            home: home directory.
            log: file for its output.
            prefix: arguments before the command (:func:`bentpipe.lab.browser.privileges.command_prefix`).

        Raises:
            ChromiumError: the browser cannot be started.
        """
        to_browser, self.writing = os.pipe()
        self.reading, from_browser = os.pipe()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DBUS_")}
        # Above 3 and 4, the descriptors of the pipe in the browser.
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
        """Close the pipe, which ends the browser."""
        for name in ("writing", "reading"):
            handle = getattr(self, name)
            if handle >= 0:
                os.close(handle)
                setattr(self, name, -1)

    def end(self, seconds: float = END_S) -> bool:
        """Wait for the end of the browser, and kill its process group after ``seconds``.

        Returns:
            True if the browser ended by itself.
        """
        ended = self._wait(seconds)
        self.kill()
        return ended

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
        """Kill every process of the process group."""
        self.close_pipe()
        if not self.ended:
            # The process id cannot be reused before waitpid.
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
    """Reap processes of a group that this process has adopted."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def children() -> list[int]:
    """Return the ids of the child processes of this process."""
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            found += [int(word) for word in task.read_text(encoding="ascii").split()]
        except OSError:
            continue
    return found
