"""Helpers of tests in real time: requirements, the executable, and processes that it leaves behind."""

from __future__ import annotations

import contextlib
import csv
import functools
import itertools
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from bentpipe.lab.shell import run_lab
from bentpipe.store.reader import Store

ROOT = Path(__file__).parents[2]

BUSY = "machine too busy"
"""Reason of a skip on a machine that delayed the lab: its measurements mean nothing."""


def give_up(why: str) -> NoReturn:
    """Skip a test with this reason."""
    pytest.skip(f"{BUSY}: {why}")


def valid(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a session that kept the path's time; two more tries on a busy machine, then the test gives up."""
    for _ in range(3):
        found = run_lab(plan)
        if found["valid"]:
            return found
    give_up("; ".join(found["reasons"]))


def ran(folder: Path, scenario: str, out: str, *words: str) -> Store:
    """Run a scenario in ``folder`` by ``bentpipe run`` in a separate process, and return its store."""
    done = subprocess.run(
        [sys.executable, "-m", "bentpipe.cli", "run", scenario, "--out", out, *words],
        cwd=folder, env={**os.environ, "BENTPIPE_RT": str(program())}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    not_too_late(done)
    assert done.returncode == 0, done.stderr
    return Store(folder / out)


def tried(judge: Callable[[int], Sequence[object]]) -> None:
    """Repeat ``judge`` up to three times until it reports no deviation; it gets the number of the try.

    It is for deviations that a wait for a processor can cause; others are asserted in each try.
    """
    seen = []
    for number in range(3):
        seen.append([one for one in judge(number) if one])
        if not seen[-1]:
            return
    pytest.fail(f"off in each of three tries: {seen}")


def promised(plan: Mapping[str, Any], off: Callable[[dict[str, Any]], Sequence[object]]) -> dict[str, Any]:
    """Return the result of a :func:`valid` session without a deviation (:func:`off_promise`), in three tries: a hypervisor can withhold processors for some milliseconds without notice."""
    seen = []
    for _ in range(3):
        found = valid(plan)
        seen.append([one for one in off(found) if one])
        if not seen[-1]:
            return found
    pytest.fail(f"a path is not what it promises: {seen}")


def not_too_late(done: subprocess.CompletedProcess[str]) -> None:
    """Give up if a command reports missed deadlines in all of its three attempts."""
    if "missed its deadlines" in done.stderr:
        give_up(next(line for line in done.stderr.splitlines() if "missed its deadlines" in line))


ECHO = """
import socket
taker = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
taker.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
taker.bind(("::", 9001))
while True:
    data, peer = taker.recvfrom(2000)
    taker.sendto(data, peer)
"""
"""A command of Python that answers every datagram to port 9001 with itself."""


def split(satellite: str) -> str:
    """A path in TOML with a proxy at both ends of ``satellite``, a segment of that name. Beyond them are round trips of
    2 ms to the client and 10 ms to the server."""
    return f"""
[[path.segment]]
name = "lan"
delay = "1 ms"
{satellite}
[[path.segment]]
name = "internet"
delay = "5 ms"
[[path.proxy]]
name = "terminal"
between = ["lan", "satellite"]
handshake = "early"
[[path.proxy]]
name = "gateway"
between = ["satellite", "internet"]
handshake = "early"
"""


TRAIN_MS = 200
"""How long a train of a check lasts at the promised rate (``TRAIN_DURATION`` of crates/emu/src/path_check.rs)."""


def off_promise(
    check: Mapping[str, Any], rtt_ms: float, up_bit_s: float, down_bit_s: float, *, ms: float, error: float
) -> dict[str, float]:
    """Return the deviations of the path check from the configured path, within ``ms`` and the ratio ``error``.

    The bounds grow by the reported delays of threads and emulator. The RTT grows by as much, a rate by their share of
    the 0.2 s of a packet train, or of its rest. The result is empty without a deviation. The test gives up if a quarter
    of a train was late, since its rate then means little."""
    late_ms = (check["waited_ns"] + (check["late_ns"] or 0)) / 1e6
    if late_ms > TRAIN_MS / 4:
        give_up(f"a check was {late_ms:.0f} ms late")
    most_ms, error = rtt_ms + ms + late_ms, error + late_ms / (TRAIN_MS - late_ms)
    saved = (
        rtt_ms <= check["rtt_ns"] / 1e6 < most_ms
        and abs(check["up_bit_s"] - up_bit_s) <= error * up_bit_s
        and abs(check["down_bit_s"] - down_bit_s) <= error * down_bit_s
    )
    if saved:
        return {}
    return {key: check[key] for key in ("late_ns", "waited_ns", "rtt_ns", "up_bit_s", "down_bit_s")}


@contextlib.contextmanager
def resting(most_ms: float = 1.0) -> Iterator[Callable[[], bool]]:
    """Whether ordinary processes get a processor at once. A thread wakes every 5 ms as long as this lasts, and 95 % of
    its wake-ups so far were not later than ``most_ms``."""
    late: list[float] = []
    over = threading.Event()

    def wake() -> None:
        while not over.is_set():
            due = time.monotonic() + 0.005
            time.sleep(0.005)
            late.append((time.monotonic() - due) * 1e3)

    thread = threading.Thread(target=wake)
    thread.start()
    try:
        yield lambda: bool(late) and sorted(late)[int(0.95 * (len(late) - 1))] <= most_ms
    finally:
        over.set()
        thread.join()


def rate_of_busy_link(
    found: Mapping[str, Any],
    directory: Path,
    between: tuple[float, float],
    *,
    way: str = "up",
    error: float = 0.01,
) -> float | None:
    """Mbit/s of IP that left the one link of a path between two instants, s of the series. These have rows of 0.1 s: what
    waits in the queue is to last longer.

    None if the result is not accurate within the ratio ``error``. The link was then idle for too long, since its sender
    waited for a processor, or the emulator was too late. Between two rows a link was never idle if less left than had
    been waiting at the first of them.
    """
    with (directory / "links.csv").open() as file:
        rows = [
            (float(row["time_s"]), int(row["bytes_out"]), int(row["queued_bytes"]))
            for row in csv.DictReader(file)
            if row["direction"] == way and between[0] <= float(row["time_s"]) <= between[1]
        ]
    longest, first = (0.0, 0.0), 0
    for place, (a, b) in enumerate(itertools.pairwise(rows), 1):
        if b[1] - a[1] >= a[2]:
            first = place
        elif b[0] - rows[first][0] > longest[0]:
            longest = (b[0] - rows[first][0], (b[1] - rows[first][1]) * 8e-6)
    seconds, megabits = longest
    late_s = found["links"][0][way]["lateness_max_ms"] / 1e3
    return megabits / seconds if seconds >= 0.5 and late_s <= error * seconds else None


@functools.cache
def program() -> Path:
    """``bentpipe-rt``: ``$BENTPIPE_RT``, or a release build of this checkout."""
    named = os.environ.get("BENTPIPE_RT")
    if named:
        return Path(named)
    need("cargo")
    words = ["cargo", "build", "--release", "--locked", "-q", "-p", "bentpipe-rt"]
    subprocess.run(words, cwd=ROOT, check=True)
    return ROOT / "target" / "release" / "bentpipe-rt"


def need(*commands: str) -> None:
    """Skips, by name, without these commands."""
    for command in commands:
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed")


def need_root(why: str) -> None:
    """Skips an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip(f"{why} needs root")


def need_namespaces(*commands: str) -> None:
    """Skips where there can be no lab: no TUN devices, no namespaces, or one of these further commands is not there."""
    need("ip", "unshare", *commands)
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun cannot be opened")
    if not _namespaces():
        pytest.skip("namespaces are not allowed")


@functools.cache
def _namespaces() -> bool:
    flags = ["--net"] if os.geteuid() == 0 else ["--net", "--user", "--map-root-user"]
    return subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode == 0


def running(word: str) -> bool:
    """Return whether a process has this text in its command line."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in entry.read_text():
                return True
        except OSError:
            continue
    return False


@contextlib.contextmanager
def nobody(program: Path, without: Sequence[str] = ()) -> Iterator[tuple[Path, list[str]]]:
    """Create a folder of ``nobody`` with the executable, and return the command prefix that runs a command as ``nobody``. The TUN node is open to all, and the commands ``without`` seem not installed. Skips by name where ordinary users have no namespaces, or cannot read this checkout."""
    need_root("becoming nobody")
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*become, "unshare", "--user", "--net", "true"], capture_output=True).returncode != 0:
        pytest.skip("ordinary users have no namespaces here")
    place = Path(tempfile.mkdtemp(prefix="bp-nobody-"))  # pytest gives folders that only root enters
    try:
        os.chown(place, 65534, 65534)
        shutil.copy(program, place / "rt")
        (place / "rt").chmod(0o755)
        tun = place / "tun"
        os.mknod(tun, 0o666 | stat.S_IFCHR, os.makedev(10, 200))
        tun.chmod(0o666)
        hidden = "".join(f"mount --bind /dev/null {shutil.which(name)} && " for name in without)
        script = f'mount --bind {tun} /dev/net/tun && {hidden}{_opened(place)} cd {place} && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, "sh", *become, "env", f"HOME={place}", f"TMPDIR={place}",
                 f"BENTPIPE_RT={place}/rt", f"PYTHONPATH={ROOT / 'python'}",
                 "PATH=/usr/local/bin:/usr/bin:/bin"]  # fmt: skip
        reads = [*words, sys.executable, "-c", "import bentpipe, bentpipe.runners.engine"]
        if subprocess.run(reads, capture_output=True).returncode != 0:
            pytest.skip("nobody cannot read this checkout")
        yield place, words
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that everyone enters: pytest gives those that its user alone does."""
    with tempfile.TemporaryDirectory(prefix="bp-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _opened(place: Path) -> str:
    """Shell commands that give all users access to an interpreter in a closed folder, such as that of root."""
    base = Path(sys.base_prefix).resolve()
    closed = [one for one in base.parents if not one.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return ""
    (place / "python").mkdir()
    return (
        f"mount --bind {base} {place}/python && mount -t tmpfs -o mode=755 none {closed[-1]} && "
        f"mkdir -p {base} && mount --bind {place}/python {base} &&"
    )
