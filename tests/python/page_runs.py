"""Runs the commands of a page in order in one folder, as its reader does."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import commands
import test_tutorial
from documented_commands import HELP, PLACEHOLDERS, SHORTER, Command, File, classify, collect, command_words
from namespaces import Namespace
from readers_files import OWN, list_needed, provide

__all__ = ["PageRun", "classify_page", "run_page"]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("scenarios", "examples", "studies", "docs")
"""Folders of the checkout, copied for a page that names them."""
SERVERS = ("dtn node", "perf call-server", "perf server", "python3 -m http.server", "serve")
"""Commands that run until the next server of the page, or its end. Ctrl-C ends them with exit status 0."""
FAR_ENDS: Mapping[str, str] = {
    "bentpipe perf client": "bentpipe perf server",
    "bentpipe perf call-client": "bentpipe perf call-server",
    "bentpipe dtn perf": "bentpipe dtn node two.toml",
    "./client {server}": "python3 -m http.server 8000",
    "http://localhost:8000": "python3 -m http.server 8000",
}
"""Servers that a page leaves to its reader, by a part of the command that needs one."""
JUDGES = ("compare-engines",)
"""Commands whose exit status 1 may be their verdict on measured values, such as "undecided" of a few seeds."""
INSIDE = ("change", "watch")
"""Commands inside a shell of an access."""
RUN_ID = "3d88ab2c7a4e5f01"
"""The id of a run in the documents; that of the reader's store differs."""
LONGEST_S = 1800


def classify_page(page: str) -> list[tuple[str, Command]]:
    """Return the commands of a page with their classes."""
    steps = (step for step in collect(page) if isinstance(step, Command))
    return [(classify(step, OWN) or "none", step) for step in steps]


class PageRun:
    """A folder with the files of a page, in which its commands run."""

    def __init__(self, page: str, folder: Path, saved: Path, inside: Namespace | None = None) -> None:
        """Commands run in the namespace ``inside``, as processes of their own; without it in this process."""
        self._page, self._folder, self._saved, self._inside = page, folder, saved, inside
        self._provided: set[str] = set()
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self._files = [step for step in collect(page) if isinstance(step, File)]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        sources = os.pathsep.join(str(ROOT / name) for name in ("python", "studies", ""))
        self._environment = {
            **os.environ, "PATH": path, "PYTHONPATH": sources, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb",
            "XDG_CACHE_HOME": str(saved / "cache"), "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": test_tutorial.plugin(),
            "HOME": str(folder), "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        (folder / "index.html").write_text(
            "<!doctype html><title>Mine</title><h1>Mine</h1>", encoding="utf-8"
        )
        (folder / "200kB").write_bytes(bytes(200_000))
        for file in reversed(self._files):
            self.write(file)

    def write(self, file: File) -> None:
        """Write a file that the page shows."""
        target = self._folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.text, encoding="utf-8")

    def run(self, command: Command) -> str:
        """Run a command and return the reason of a failure; empty if it ended as the page states."""
        text = self._written(command.text)
        self._prepare(text)
        if text.startswith(("bentpipe new ", "bentpipe examples ")):
            name = shlex.split(text)[2].removesuffix(".toml") + ".toml"
            if name in self._provided or self._page.startswith(HELP):  # examples of the help stand alone
                (self._folder / name).unlink(missing_ok=True)
        words = command_words(text)
        if self._inside is not None and words in SERVERS:
            return self.stop() + self._serve(text)
        if self._inside is not None:
            self._have_far_end(text)
        done = self._done(text)
        judged = words in JUDGES and done.returncode == 1 and "\nerror:" not in f"\n{done.stderr}"
        if done.returncode == command.status or judged:
            return ""
        last = "\n".join((done.stdout + done.stderr).splitlines()[-12:])
        return f"$ {text}\n{last}\n[exit status {done.returncode}, expected {command.status}]"

    def _written(self, text: str) -> str:
        """Return a command with a reader's own words."""
        for name, own in PLACEHOLDERS.items():
            text = re.sub(rf"(?<![\w-]){name}(?![\w-])", own, text)
        if RUN_ID in text:
            self._prepare(text)
            text = text.replace(RUN_ID, min((self._folder / "out/geo/runs").iterdir()).name)
        more = SHORTER.get(text)
        return " ".join(filter(None, (text, more)))

    def _prepare(self, text: str) -> None:
        for name in SOURCES:
            if re.search(rf"(?<![\w./-]){name}(?![\w.-])", text) and not (self._folder / name).exists():
                shutil.copytree(
                    ROOT / name, self._folder / name, ignore=shutil.ignore_patterns("__pycache__")
                )
        for name in list_needed(text, self._folder):
            self._provided.add(name)
            provide(name, self._page, self._folder, self._saved)

    def _done(self, text: str) -> subprocess.CompletedProcess[str]:
        if self._inside is not None:
            return self._spawned(self._in_shell(text))
        simple, _, file = text.partition(" > ")
        if not simple.startswith("bentpipe ") or set(simple) & set("|&;<>$*{}"):
            return self._spawned(text)
        done = commands.bentpipe(self._folder, *shlex.split(simple)[1:], environment=self._environment)
        if file:
            (self._folder / file).write_text(done.stdout, encoding="utf-8")
        return done

    def _in_shell(self, text: str) -> str:
        if command_words(text) not in INSIDE:
            return text
        access = "my.toml" if "satellite" in text else "geo-konnect"
        self._prepare(access)
        text = re.sub(r"(?<=--control )\S+", "$BENTPIPE_CONTROL", text)
        if command_words(text) == "watch":
            text = f"timeout --preserve-status -s INT 3 {text}; test $? = 130"
        return f"bentpipe shell {access} --no-path-check -- sh -c {shlex.quote(text)}"

    def _spawned(self, text: str) -> subprocess.CompletedProcess[str]:
        words = [*self._enter(), "env", "--default-signal=INT", "timeout", str(LONGEST_S), "bash", "-c", text]
        return subprocess.run(
            words, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )  # fmt: skip

    def _enter(self) -> list[str]:
        return ["nsenter", "-t", str(self._inside.pid), "-n"] if self._inside else []

    def _serve(self, text: str) -> str:
        """Start a server and wait until it prints a line, its first, or listens."""
        output = self._folder / "server-output"
        with output.open("wb") as file:
            server = subprocess.Popen(
                [*self._enter(), "env", "--default-signal=INT", "bash", "-c", f"exec {text.removesuffix('&')}"], cwd=self._folder,
                env=self._environment, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self._servers[command_words(text)] = server
        over = time.monotonic() + 30
        while not output.stat().st_size and server.poll() is None and time.monotonic() < over:
            time.sleep(0.05)
        if server.poll() is not None or not output.stat().st_size:
            return f"$ {text}\n{output.read_text()}[not started]"
        return ""

    def _have_far_end(self, text: str) -> None:
        for part, server in FAR_ENDS.items():
            if part not in text or "--server" in text or command_words(server) in self._servers:
                continue
            self._prepare(server)
            wrong = self._serve(server)
            assert not wrong, wrong

    def stop(self) -> str:
        """End the servers of the page; return the reason of a failure."""
        wrong = ""
        while self._servers:
            _, server = self._servers.popitem()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGINT)  # as Ctrl-C at a terminal
            try:
                status = server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                status = server.wait()
            if status not in (0, 130):
                wrong += f"a server ended with {status}\n"
        return wrong


@contextlib.contextmanager
def _page(page: str, folder: Path, saved: Path, inside: Namespace | None) -> Iterator[PageRun]:
    run = PageRun(page, folder, saved, inside)
    try:
        yield run
    finally:
        run.stop()


def run_page(
    page: str, classes: Collection[str], folder: Path, saved: Path, inside: Namespace | None = None
) -> list[str]:
    """Run the commands of these classes; return the failures, each with its command and the end of its output."""
    wrong = []
    with _page(page, folder, saved, inside) as run:
        for step in collect(page):
            if isinstance(step, File):
                run.write(step)
            elif (classify(step, OWN) or "none") in classes:
                wrong.append(run.run(step))
        wrong.append(run.stop())
    return [one for one in wrong if one]
