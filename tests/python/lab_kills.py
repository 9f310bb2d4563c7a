"""Kills at drawn moments: a lab is started as a user would, one of its processes is killed, and what is left is listed.

A kill counts only if the drawn stage was seen and a process was left to be killed. A trial that ended before is
repeated with an earlier kill; one that never began is a failure. Every trial has a network namespace in the place of
the machine's, a folder for temporary files, and a mark that all its processes inherit. Trials may therefore run side by
side, and beside other labs. The same seed draws the same trial.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import realtime

ROOT = Path(__file__).parents[2]

PATH = """
duration = "2 s"
[[path.segment]]
name = "satellite"
delay = "40 ms"
both = { rate = "10 Mbit/s" }
[[path.segment]]
name = "internet"
delay = "5 ms"
[[path.proxy]]
name = "gateway"
between = ["satellite", "internet"]
handshake = "early"
client_side = { congestion = "newreno" }
[[flow]]
name = "any"
transport = "tcp"
congestion = "newreno"
load = { bytes = "300 kB" }
direction = "down"
"""
PAGE = PATH.replace('transport = "tcp"\n', "").replace("newreno", "cubic").replace('"2 s"', '"30 s"')
PAGE = PAGE[: PAGE.index("load =")] + 'load = { page = "target-b" }\n'

MARK = "BENTPIPE_TRIAL"
"""Environment variable that marks the processes of a trial."""

COMMAND = 'touch "$BENTPIPE_TRIAL_STARTED_FILE"; (sleep 60 &) ; trap "" HUP; sleep $BENTPIPE_TRIAL_DURATION_S; touch "$BENTPIPE_TRIAL_FINISHED_FILE"'
"""Command in a lab: it leaves a child behind, and ignores SIGHUP."""

LONG_S, SHORT_S = 40.0, 0.5
"""Durations: longer than any wait here, and short enough for the lab to end."""

CLI = [sys.executable, "-m", "bentpipe.cli"]
FORMS: dict[str, list[str]] = {
    "shell": [*CLI, "shell", "path.toml", "--", "sh", "-c", COMMAND],
    "emu": [*CLI, "run", "path.toml", "--engine", "emu", "--out", "store"],
    "browse": [*CLI, "browse", "page.toml", "--sessions", "1", "--loads", "1", "--http", "3", "--keep-invalid",
               "--out", "store"],
}  # fmt: skip
"""Commands that start a lab."""

STAGES = ("start", "setup", "check", "running", "ending")
WITHIN_S = {"start": 0.6, "setup": 0.6, "check": 2.0, "running": 0.6, "ending": 0.4}
"""From the first sight of a stage, a kill comes within this."""

STAGE_WAIT_S = 120.0
"""Longest wait for a stage or a process; without it the trial fails."""

DEADLINE_S = 20.0
"""So long after a kill that ends everything, or after the starter's own end, everything is over. Commands and services
have 3 s, and stuck processes are killed after 10 s."""

PATIENCE_S = 120.0
"""Maximum life of a starter that continues without the killed process: a run on a busy machine has three attempts."""

TRIES = 6
"""Most trials of one draw; each next one kills in half the time from the first sight of the stage."""

STARTER, EARLY, LATE = "starter", ("lab", "keep", "init", "warden"), ("enter", "pep")
"""Targets of a kill: the starter, forms of ``bentpipe-rt`` from the set-up on, and those of a running lab."""

NOBODY = 65534


@dataclass(frozen=True)
class Draw:
    """One kill."""

    seed: int
    form: str
    stage: str
    target: str
    how: signal.Signals
    after_s: float
    """From the first sight of the stage."""
    user: str = "root"
    """``root`` or ``nobody``."""


@dataclass
class Found:
    """Result of a trial."""

    draw: Draw
    began: bool = False
    """A lab existed."""
    seen: bool = False
    """The drawn stage was seen."""
    target: str = ""
    """Target of the kill; empty: none existed at that time."""
    killed: str = ""
    """Its command line."""
    left: list[str] = field(default_factory=list)
    message: str = ""

    @property
    def wrong(self) -> str:
        """Return the fault: something is left, or nothing was killed."""
        if not self.left and self.target:
            return ""
        missed = "nobody was there to be killed" if self.seen else "the stage was never seen"
        missed = missed if self.began else "no lab ever began"
        return f"{self.draw}: {'; '.join(self.left) or missed}; its output: {self.message[-500:].strip()!r}"

    def counts(self) -> dict[str, int]:
        """One of each sort that this trial is of."""
        if not self.target:
            return {}
        one = self.draw
        return dict.fromkeys((one.form, f"of {one.user}", f"at {one.stage}", f"{self.target} killed"), 1)


def targets(form: str, stage: str, user: str) -> tuple[str, ...]:
    """Return the processes of a stage, without the starter."""
    if stage == "start":
        return ()
    if stage not in ("running", "ending"):
        # The process of the external network of an ordinary user's lab has its form until then.
        return (*EARLY, "outside") if (form, user) == ("shell", "nobody") else EARLY
    # The machine's settings are changed, and guarded, for the way outside of root's.
    guarded = ("guard",) if (form, user) == ("shell", "root") else ()
    return (*EARLY, *LATE, *guarded) if stage == "running" else (*EARLY, *guarded)


def draw(seed: int, forms: Sequence[str] = ("shell", "emu"), user: str = "root") -> Draw:
    """The trial of ``seed``."""
    chance = random.Random(seed)  # noqa: S311 - chance of a test
    form, stage = chance.choice(forms), chance.choice(STAGES)
    others = targets(form, stage, user)
    target = STARTER if not others or chance.random() < 0.3 else chance.choice(others)
    soft = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
    how = chance.choice(soft) if target in (STARTER, "lab") else signal.SIGKILL
    return Draw(seed, form, stage, target, how, chance.uniform(0.0, WITHIN_S[stage]), user)


def trial(one: Draw, program: Path) -> Found:
    """Run one kill in a lab of root or of nobody, from a process of root."""
    for _ in range(TRIES):
        with _machine(program, one.user) as machine:
            found = machine.run(one)
        if found.left or found.target or not found.began:
            break
        one = replace(one, after_s=one.after_s / 2)
    return found


def network(process: int | str) -> str:
    """The network namespace of a process."""
    return str(Path(f"/proc/{process}/ns/net").readlink())


def settings_files(process: int) -> list[Path]:
    """List the files that name changed settings of the network namespace of ``process``."""
    number = network(process).strip("net:[]")
    return list(Path("/run/bentpipe").glob(f"*-{number}"))


def settings(process: int | str = "self") -> str:
    """Forwarding as the network namespace of a process has it."""
    words = ["cat", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"]
    inside = [] if process == "self" else ["nsenter", "-t", str(process), "-n"]
    return subprocess.run([*inside, *words], capture_output=True, text=True, check=True).stdout


@dataclass
class _Machine:
    place: Path
    holder: int
    """A process that holds the network namespace."""
    mark: str
    words: list[str]
    environment: dict[str, str]
    spaces: dict[str, int] = field(default_factory=dict)
    """Namespaces of networks and processes in which processes of the trial were seen, and a descriptor of each. As long
    as it is open, the kernel gives no other namespace that number."""
    forms: frozenset[str] = frozenset()
    """Forms of ``bentpipe-rt`` with processes at the last look."""
    began: bool = False
    """A lab was seen."""
    others: set[int] = field(default_factory=lambda: set(_numbers()))
    """Older processes that still run: none belongs to the trial, and reading each took most of its processor time."""

    def run(self, one: Draw) -> Found:
        found = Found(one)
        before = self._things()
        command = [*self.words, *FORMS[one.form]]
        log = (self.place / "said").open("wb")
        ends = one.stage != "ending" and one.target in (STARTER, "lab", "keep", "init")
        # Once it runs, Ctrl-C is the command's.
        ends = ends and one.how != signal.SIGINT
        environment = {**self.environment, f"{MARK}_DURATION_S": str(LONG_S if ends else SHORT_S)}
        with log, subprocess.Popen(
            # The parent of the tests may ignore SIGHUP or SIGINT; the starter must not inherit that.
            ["env", "--default-signal=HUP,INT", *command], cwd=self.place, env=environment, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        ) as starter:  # fmt: skip
            found.seen = self._reach(one, starter)
            found.began = self.began
            if found.seen:
                time.sleep(one.after_s)
                found.target, found.killed = self._kill(one, starter)
            # The trial reads the processes from here on, for a living and for an ended starter.
            now = time.monotonic()
            lives_on = found.target and found.target != STARTER and not (ends and one.form == "shell")
            until, last = now + DEADLINE_S, now + PATIENCE_S
            while True:
                ended = starter.poll() is not None
                if lives_on and not ended:
                    until = min(last, time.monotonic()) + DEADLINE_S
                found.left = [] if ended else [f"process {starter.pid}: the starter"]
                found.left += self._left(before)
                if not found.left or time.monotonic() > until:
                    break
                time.sleep(0.05)
            self._clear()
        found.message = (self.place / "said").read_text(errors="replace")
        return found

    def _reach(self, one: Draw, starter: subprocess.Popen[bytes]) -> bool:
        """Wait for a stage and return whether it was seen."""
        begun, done = (self.place / name for name in ("begun", "done"))
        ran = False

        def ending() -> bool:
            """A command has finished. A run had processes of its hosts, and they are gone."""
            nonlocal ran
            if one.form == "shell":
                return done.exists()
            runs = "enter" in self.forms
            ran = ran or runs
            return ran and not runs

        seen: dict[str, Callable[[], bool]] = {
            "start": lambda: starter.poll() is None,
            "setup": lambda: "lab" in self.forms,
            "check": lambda: "init" in self.forms,
            "running": lambda: begun.exists() if one.form == "shell" else "enter" in self.forms,
            "ending": ending,
        }
        until = time.monotonic() + STAGE_WAIT_S
        while time.monotonic() < until:
            self._note()
            if seen[one.stage]():
                return True
            if starter.poll() is not None:
                break
            time.sleep(0.01)
        return False

    def _kill(self, one: Draw, starter: subprocess.Popen[bytes]) -> tuple[str, str]:
        """Kill the drawn target and return it with its command line, empty if all processes have ended."""
        chance = random.Random(one.seed + 1)  # noqa: S311 - chance of a test
        until = time.monotonic() + STAGE_WAIT_S
        there = self._there(one, starter)
        while (
            one.target not in there
            and STARTER in there
            and one.stage != "ending"
            and time.monotonic() < until
        ):
            time.sleep(0.005)
            there = self._there(one, starter)
        if one.target not in there and one.stage != "ending":
            return "", ""
        # As all ends, processes go one by one: who is there still?
        target = one.target if one.target in there else chance.choice(sorted(there)) if there else ""
        number = chance.choice(there[target]) if there else 0
        line = " ".join(_line(number)[:4])
        if not line:
            return "", ""
        try:
            os.kill(number, one.how)
        except ProcessLookupError:
            return "", ""
        return target, line

    def _there(self, one: Draw, starter: subprocess.Popen[bytes]) -> dict[str, list[int]]:
        """Processes of each sort that may be killed."""
        self._note()
        found: dict[str, list[int]] = {} if starter.poll() is not None else {STARTER: [starter.pid]}
        for number in self._processes():
            form = (_line(number)[1:2] or [""])[0]
            if form in targets(one.form, one.stage, one.user):
                found.setdefault(form, []).append(number)
        return found

    def _left(self, before: list[str]) -> list[str]:
        found = [f"process {number}: {' '.join(_line(number))[:100]}" for number in self._processes()]
        if found:
            return found  # all else is theirs to take away
        for number in _numbers():
            spaces = _spaces(number) & self.spaces.keys()
            if spaces:
                found.append(f"process {number} in {spaces}: {' '.join(_line(number))[:100]}")
        found += sorted(set(self._things()) ^ set(before))
        found += [f"file {file}" for file in (self.place / "tmp").iterdir()]
        found += [f"file {file}" for file in self.place.glob("store/.part-unit-*")]
        return found + [f"file {file}" for file in settings_files(self.holder)]

    def _things(self) -> list[str]:
        """Devices, routes, rules and settings of the machine."""
        inside = ["nsenter", "-t", str(self.holder), "-n"]
        listed = []
        for words in (["ip", "-o", "link"], ["ip", "route"], ["ip", "rule"], ["nft", "list", "ruleset"]):
            done = subprocess.run([*inside, *words], capture_output=True, text=True, check=True)
            listed += [f"{words[0]} {words[1]}: {line}" for line in done.stdout.splitlines()]
        return [*listed, f"forwarding {settings(self.holder).split()}"]

    def _processes(self) -> list[int]:
        there = set(_numbers())
        self.others &= there  # the number of one that has ended may be given again
        return [number for number in sorted(there - self.others - {self.holder}) if self._is_ours(number)]

    def _is_ours(self, number: int) -> bool:
        try:
            return self.mark.encode() in Path(f"/proc/{number}/environ").read_bytes()
        except OSError:
            return False

    def _note(self) -> None:
        """Read the processes of this trial, and remember the namespaces that only they are in."""
        known = _spaces("self") | _spaces(self.holder)
        there = self._processes()
        self.forms = frozenset(form for number in there for form in _line(number)[1:2])
        self.began = self.began or "lab" in self.forms
        for number in there:
            if _spaces(number) - known - self.spaces.keys():
                with contextlib.suppress(OSError):
                    self._hold(number, known)

    def _hold(self, number: int, known: set[str]) -> None:
        for kind in _KINDS:
            held = os.open(f"/proc/{number}/ns/{kind}", os.O_RDONLY)
            name = str(Path(f"/proc/self/fd/{held}").readlink())
            # By now it may be another process's number.
            if name in known or name in self.spaces or not self._is_ours(number):
                os.close(held)
            else:
                self.spaces[name] = held

    def close(self) -> None:
        """Lets go of the trial's namespaces."""
        for held in self.spaces.values():
            os.close(held)

    def _clear(self) -> None:
        for number in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


@contextlib.contextmanager
def network_of_its_own() -> Iterator[int]:
    """A process that holds a network namespace in the place of the machine's."""
    with subprocess.Popen(["unshare", "--net", "sleep", "600"]) as holder:
        try:
            _until(lambda: network(holder.pid) != network("self"))
            up = ["ip", "link", "set", "lo", "up"]
            subprocess.run(["nsenter", "-t", str(holder.pid), "-n", *up], check=True)
            yield holder.pid
        finally:
            holder.kill()


@contextlib.contextmanager
def _machine(program: Path, user: str) -> Iterator[_Machine]:
    place = Path(tempfile.mkdtemp(prefix="bp-kill-"))
    mark = f"{place.name}-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        holder = stack.enter_context(network_of_its_own())
        # A namespace may have the number of one that has gone, whose lab and guard were killed at once.
        for file in settings_files(holder):
            file.unlink()
        (place / "tmp").mkdir()
        (place / "path.toml").write_text(PATH)
        (place / "page.toml").write_text(PAGE)
        place.chmod(0o755)
        words = ["nsenter", "-t", str(holder), "-n", f"--wd={place}"]
        environment = {**os.environ, "BENTPIPE_RT": str(program), "PYTHONPATH": str(ROOT / "python")}
        if user == "nobody":
            folder, become = stack.enter_context(realtime.nobody(program))
            words += [*become, "env", "-C", str(place)]
            environment["BENTPIPE_RT"] = f"{folder}/rt"
            for one in (place, place / "tmp"):
                os.chown(one, NOBODY, NOBODY)
            words += [f"BENTPIPE_RT={folder}/rt"]
        own = {
            "TMPDIR": place / "tmp",
            MARK: mark,
            f"{MARK}_STARTED_FILE": place / "begun",
            f"{MARK}_FINISHED_FILE": place / "done",
        }
        environment |= {name: str(value) for name, value in own.items()}
        # The command that changes the user sets the folder for temporary files again.
        words += ["env", f"TMPDIR={place / 'tmp'}"]
        machine = _Machine(place, holder, f"{MARK}={mark}", words, environment)
        stack.callback(machine.close)
        yield machine


def _until(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 5
    while not what() and time.monotonic() < until:
        time.sleep(0.005)


def _numbers() -> list[int]:
    """Every process there is."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _line(number: int) -> list[str]:
    try:
        return Path(f"/proc/{number}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


_KINDS = ("net", "pid")


def _spaces(process: int | str) -> set[str]:
    """Network and process namespaces of a process."""
    found = set()
    for kind in _KINDS:
        with contextlib.suppress(OSError):
            found.add(str(Path(f"/proc/{process}/ns/{kind}").readlink()))
    return found
