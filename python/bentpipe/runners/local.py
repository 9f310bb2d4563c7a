"""Runs on this machine: worker processes on all cores, or this process.

Workers are spawned, never forked, as ``python -m bentpipe.runners.worker_process``: a script that calls bentpipe needs
no guard, and a notebook works. A run that fails fails alone; when a worker dies (killed, out of memory) its run is
tried once more in a fresh one, and then fails alone too.
"""

from __future__ import annotations

import codecs
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Self

from bentpipe.runners.runner import RunnerError, RunOutcome
from bentpipe.runners.worker_pool import Worker, collect, dispatch
from bentpipe.runners.worker_process import READY, exactly, receive, send, serve
from bentpipe.scenario.address_space import lack_of_address_space
from bentpipe.scenario.plain_text import plain
from bentpipe.store.codec import RunFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.plan.plan import Run

__all__ = ["Idle", "InProcess", "LocalRunner", "cores"]


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0))


class InProcess:
    """Runs one after the other in this process: for controllers that cannot be imported elsewhere."""

    def __init__(self, controllers: Mapping[str, type]) -> None:
        """``controllers`` are classes by the name the scenario gives them."""
        self.controllers = dict(controllers)

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Outcomes in order."""
        for run in runs:
            began = time.perf_counter()
            status, answer = serve(run.spec_json(), self.controllers)
            seconds = time.perf_counter() - began
            if status == b"+":
                yield RunOutcome(run, RunFiles.from_bytes(answer), seconds=seconds)
            else:
                yield RunOutcome(run, None, answer.decode(errors="replace"), seconds)


class _Process(subprocess.Popen[bytes]):
    """A worker's process. What it writes to standard error reaches this process' without control characters."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        super().__init__(words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        self.passing = threading.Thread(target=_pass_on, args=(self.stderr,), daemon=True)
        self.passing.start()


def _pass_on(source: IO[bytes]) -> None:
    """Write what comes from ``source`` to standard error, control characters written out, until it ends."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    decoder = codecs.getincrementaldecoder(encoding)("backslashreplace")
    with source:
        more = True
        while more:
            data = os.read(source.fileno(), 1 << 16)
            more = bool(data)
            rest = plain(decoder.decode(data, final=not more)).encode(encoding, "backslashreplace")
            with suppress(OSError):  # nobody to tell; the worker must not wait for a full pipe
                while rest:
                    rest = rest[os.write(2, rest) :]


class Idle:
    """Worker processes that wait for the next runner of the same kind: starting one takes as long as many a short run.

    They end with the ``with`` that it stands in; those that have waited longest before, if there are too many. A
    worker ends with the thread that starts it (prctl(2)), so that one thread starts all of them.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[str, _Process]] = []
        self._lock = threading.Lock()
        self._starter = ThreadPoolExecutor(1, "starter")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._keep(0)
        self._starter.shutdown()

    def start(self, threads: int) -> _Process:
        """A fresh one."""
        return self._starter.submit(_started, threads).result()

    def take(self, kind: str) -> _Process | None:
        """One that waits; None: there is none of this kind."""
        with self._lock:
            for place, (other, worker) in enumerate(self._waiting):
                if other == kind and worker.poll() is None:
                    del self._waiting[place]
                    return worker
        return None

    def leave(self, kind: str, worker: _Process) -> None:
        """Has ``worker`` wait."""
        with self._lock:
            self._waiting.append((kind, worker))
        self._keep(MOST_IDLE * cores())

    def _keep(self, most: int) -> None:
        """Ends those that have waited longest, up to ``most``."""
        with self._lock:
            surplus = self._waiting[: max(len(self._waiting) - most, 0)]
            del self._waiting[: len(surplus)]
        for _kind, worker in surplus:
            _ended(worker)


LAST_WORDS_S = 1.0
"""So long the last output of a worker is waited for: a process of its controller's may hold the pipe for ever."""

MOST_IDLE = 2
"""Workers that wait, a processor: each holds some 100 MB."""


class LocalRunner:
    """A pool of worker processes."""

    def __init__(
        self,
        jobs: int | None = None,
        controllers: Mapping[str, str] | None = None,
        idle: Idle | None = None,
    ) -> None:
        """``jobs`` workers (default: one a processor); ``controllers`` as ``module:Class`` by name; ``idle``: who takes
        and gives workers."""
        self.jobs = jobs or cores()
        self.idle = idle
        self.setup = {
            "controllers": dict(controllers or {}),
            "search": [p for p in sys.path if p],
            "coordinator": os.getpid(),
        }

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Outcomes as they come. Closing the iterator kills the workers.

        Raises:
            RunnerError: no worker starts.
        """
        if lack := lack_of_address_space():
            raise RunnerError(f"no run can be made: {lack}")
        count = min(self.jobs, len(runs))
        threads = max(cores() // max(count, 1), 1)
        hands = [_Worker(self.setup, threads, self.idle) for _ in range(count)]
        return collect(hands, dispatch(runs))


class _Worker(Worker):
    """One worker process, and another when it has died."""

    def __init__(self, setup: Mapping[str, Any], threads: int, idle: Idle | None) -> None:
        self.setup = json.dumps(setup)
        self.threads = threads
        self.idle = idle
        self.stopping = False
        self.starting = False
        """Whether the worker has not said yet that it is ready."""
        self.worker: _Process | None = None
        self.lock = threading.Lock()

    def make(self, run: Run) -> RunOutcome:
        """Has the worker make it, or a fresh one if that dies."""
        began = time.perf_counter()
        reason = ""
        for attempt in (1, 2):
            try:
                status, answer = self._ask(run.spec_json())
            except (EOFError, OSError):
                starting, self.starting = self.starting, False
                reason = self._end()
                if starting and attempt > 1 and not self.stopping:
                    raise RunnerError(f"no worker starts: {reason}, before its first run") from None
                if self.stopping:
                    break
                continue
            seconds = time.perf_counter() - began
            if status == b"+":
                return RunOutcome(run, RunFiles.from_bytes(answer), "", seconds, retried=attempt > 1)
            return RunOutcome(run, None, answer.decode(errors="replace"), seconds, retried=attempt > 1)
        error = f"the worker died twice in this run: {reason}"
        return RunOutcome(run, None, error, time.perf_counter() - began, retried=True)

    def _ask(self, spec: str) -> tuple[bytes, bytes]:
        source, target = self._pipes()
        send(source, spec.encode())
        return exactly(target, 1), receive(target)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        with self.lock:
            if self.stopping:
                raise EOFError
            if self.worker is None and self.idle is not None:
                self.worker = self.idle.take(self.kind)
            fresh = self.worker is None
            if self.worker is None:
                self.worker = (self.idle.start if self.idle is not None else _started)(self.threads)
            worker = self.worker
        if worker.stdin is None or worker.stdout is None:
            raise EOFError
        if fresh:
            self.starting = True
            send(worker.stdin, self.setup.encode())
            if exactly(worker.stdout, 1) != READY:
                raise RunnerError(f"no worker starts: {receive(worker.stdout).decode(errors='replace')}")
            self.starting = False
        return worker.stdin, worker.stdout

    def _end(self) -> str:
        """Ends the worker; says how it had ended."""
        with self.lock:
            worker, self.worker = self.worker, None
        return "it did not start" if worker is None else _ended(worker)

    @property
    def kind(self) -> str:
        """What workers have to have in common to do each other's work."""
        return f"{self.threads} {self.setup}"

    def leave(self) -> None:
        """Ends the worker, or has it wait for who comes next."""
        if self.idle is not None:
            with self.lock:
                worker, self.worker = (self.worker, None) if not self.stopping else (None, self.worker)
            if worker is not None:
                self.idle.leave(self.kind, worker)
        self._end()

    def stop(self) -> None:
        """Kills the worker, whatever it is doing."""
        with self.lock:
            self.stopping = True
            if self.worker is not None:
                self.worker.kill()


def _started(threads: int) -> _Process:
    """A worker, which ends with the calling thread."""
    # Ctrl-C at a terminal comes to it too, and waits until the worker ignores it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return _Process(
            [sys.executable, "-P", "-m", "bentpipe.runners.worker_process"], _environment(threads)
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ended(worker: _Process) -> str:
    """Ends a worker; says how it had ended."""
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue
    try:
        code = worker.wait(timeout=5)
    except subprocess.TimeoutExpired:
        worker.kill()
        code = worker.wait()
    worker.passing.join(LAST_WORDS_S)
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


def _environment(threads: int) -> dict[str, str]:
    """The parent's environment, with the place this package was loaded from in the search path.

    Polars takes ``threads`` where nothing else is said: the workers share the machine, and a small table that is handed
    from thread to thread takes longer.
    """
    paths = [p for p in sys.path if p]
    return {"POLARS_MAX_THREADS": str(threads), **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
