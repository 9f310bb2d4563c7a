"""Runs on this host: worker processes on all cores, or this process.

Workers are spawned, never forked, as ``python -m bentpipe.runners.worker_process``: a script that calls bentpipe needs
no guard, and notebooks work. A failed run fails alone. When a worker dies (killed, out of memory), its run gets one
more attempt in a new worker, and then fails alone too.
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
from pathlib import Path
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
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


class InProcess:
    """Execution in this process, one run after the other: for controllers that do not pass to other processes."""

    def __init__(self, controllers: Mapping[str, type]) -> None:
        """Create a runner; ``controllers`` are classes by their name in the scenario."""
        self.controllers = dict(controllers)

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Yield outcomes in order."""
        for run in runs:
            start = time.perf_counter()
            status, answer = serve(run.spec_json(), self.controllers, run.limits)
            seconds = time.perf_counter() - start
            if status == b"+":
                yield RunOutcome(run, RunFiles.from_bytes(answer), seconds=seconds)
            else:
                yield RunOutcome(run, None, answer.decode(errors="replace"), seconds)


class _Process(subprocess.Popen[bytes]):
    """Process of a worker; its standard error is copied without control characters."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        super().__init__(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        self.copier = threading.Thread(target=_copy_stderr, args=(self.stderr,), daemon=True)
        self.copier.start()


def _copy_stderr(source: IO[bytes]) -> None:
    """Copy ``source`` to standard error until it ends, with escaped control characters."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    decoder = codecs.getincrementaldecoder(encoding)("backslashreplace")
    with source:
        is_open = True
        while is_open:
            data = os.read(source.fileno(), 1 << 16)
            is_open = bool(data)
            pending = plain(decoder.decode(data, final=not is_open)).encode(encoding, "backslashreplace")
            with suppress(OSError):  # standard error is closed; the worker must not block on a full pipe
                while pending:
                    pending = pending[os.write(2, pending) :]


class Idle:
    """Idle worker processes for the next runner of the same kind: starting one takes as long as many short runs.

    They end with the ``with`` block; above the limit the longest idle ones end. A worker ends with the thread that
    started it (prctl(2)), so one thread starts all of them.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[str, _Process]] = []
        self._lock = threading.Lock()
        self._starter = ThreadPoolExecutor(1, "starter")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._limit_idle(0)
        self._starter.shutdown()

    def start(self, threads: int) -> _Process:
        """Start a new worker."""
        return self._starter.submit(_start_process, threads).result()

    def take(self, kind: str) -> _Process | None:
        """Return an idle worker of this kind; None: there is none."""
        with self._lock:
            for index, (worker_kind, worker) in enumerate(self._waiting):
                if worker_kind == kind and worker.poll() is None:
                    del self._waiting[index]
                    return worker
        return None

    def leave(self, kind: str, worker: _Process) -> None:
        """Add ``worker`` to the idle workers."""
        with self._lock:
            self._waiting.append((kind, worker))
        self._limit_idle(MOST_IDLE * cores())

    def _limit_idle(self, limit: int) -> None:
        """End the longest idle workers above ``most``."""
        with self._lock:
            surplus = self._waiting[: max(len(self._waiting) - limit, 0)]
            del self._waiting[: len(surplus)]
        for _kind, worker in surplus:
            _end_process(worker)


LAST_WORDS_S = 1.0
"""Maximum time to wait for the last output of a worker: a process of its controller may hold the pipe open."""

MOST_IDLE = 2
"""Idle workers for each processor: each takes about 100 MB."""


class LocalRunner:
    """Pool of worker processes."""

    def __init__(
        self,
        jobs: int | None = None,
        controllers: Mapping[str, str] | None = None,
        idle: Idle | None = None,
        *,
        pickled: Mapping[str, str] | None = None,
    ) -> None:
        """Create a pool.

        Args:
            jobs: workers; None: one for each processor.
            controllers: user-supplied classes as ``module:Class``, by name.
            idle: idle workers to use and to add to.
            pickled: further user-supplied classes as texts of cloudpickle, by name.
        """
        self.jobs = jobs or cores()
        self.idle = idle
        self.setup = {
            "controllers": dict(controllers or {}),
            "pickled": dict(pickled or {}),
            "search": [entry or str(Path.cwd()) for entry in sys.path],
            "coordinator": os.getpid(),
        }

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Yield outcomes as runs finish. Closing the iterator kills the workers.

        Raises:
            RunnerError: no worker starts.
        """
        if lack := lack_of_address_space():
            raise RunnerError(f"cannot start a run: {lack}")
        count = min(self.jobs, len(runs))
        threads = max(cores() // max(count, 1), 1)
        workers = [_Worker(self.setup, threads, self.idle) for _ in range(count)]
        return collect(workers, dispatch(runs))


class _Worker(Worker):
    """Worker process, replaced when it dies."""

    def __init__(self, setup: Mapping[str, Any], threads: int, idle: Idle | None) -> None:
        self.setup = json.dumps(setup)
        self.threads = threads
        self.idle = idle
        self.stopping = False
        self.starting = False
        """Whether the worker has not reported its start yet."""
        self.worker: _Process | None = None
        self.lock = threading.Lock()

    def make(self, run: Run) -> RunOutcome:
        """Execute a run in the worker; if it dies, in a new one."""
        start = time.perf_counter()
        reason = ""
        for attempt in (1, 2):
            try:
                status, answer = self._ask(run)
            except (EOFError, OSError):
                starting, self.starting = self.starting, False
                reason = self._end_worker()
                if starting and attempt > 1 and not self.stopping:
                    raise RunnerError(
                        f"cannot start a worker process: {reason}, before its first run"
                    ) from None
                if self.stopping:
                    break
                continue
            seconds = time.perf_counter() - start
            if status == b"+":
                return RunOutcome(run, RunFiles.from_bytes(answer), "", seconds, retried=attempt > 1)
            return RunOutcome(run, None, answer.decode(errors="replace"), seconds, retried=attempt > 1)
        error = f"the worker process died twice in this run: {reason}"
        return RunOutcome(run, None, error, time.perf_counter() - start, retried=True)

    def _ask(self, run: Run) -> tuple[bytes, bytes]:
        source, target = self._pipes()
        send(source, f"{json.dumps(run.limits)}\n{run.spec_json()}".encode())
        return exactly(target, 1), receive(target)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        with self.lock:
            if self.stopping:
                raise EOFError
            if self.worker is None and self.idle is not None:
                self.worker = self.idle.take(self.kind)
            is_new = self.worker is None
            if self.worker is None:
                self.worker = (self.idle.start if self.idle is not None else _start_process)(self.threads)
            worker = self.worker
        if worker.stdin is None or worker.stdout is None:
            raise EOFError
        if is_new:
            self.starting = True
            send(worker.stdin, self.setup.encode())
            if exactly(worker.stdout, 1) != READY:
                raise RunnerError(
                    f"cannot start a worker process: {receive(worker.stdout).decode(errors='replace')}"
                )
            self.starting = False
        return worker.stdin, worker.stdout

    def _end_worker(self) -> str:
        """End the worker and return how it ended."""
        with self.lock:
            worker, self.worker = self.worker, None
        return "it did not start" if worker is None else _end_process(worker)

    @property
    def kind(self) -> str:
        """Key of workers that can replace each other."""
        return f"{self.threads} {self.setup}"

    def leave(self) -> None:
        """End the worker, or add it to the idle ones."""
        if self.idle is not None:
            with self.lock:
                worker, self.worker = (self.worker, None) if not self.stopping else (None, self.worker)
            if worker is not None:
                self.idle.leave(self.kind, worker)
        self._end_worker()

    def stop(self) -> None:
        """Kill the worker, whatever it does."""
        with self.lock:
            self.stopping = True
            if self.worker is not None:
                self.worker.kill()


def _start_process(threads: int) -> _Process:
    """Start a worker, which ends with the calling thread."""
    # A terminal sends SIGINT to the worker too; it stays blocked until the worker ignores it.
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return _Process(
            [sys.executable, "-P", "-m", "bentpipe.runners.worker_process"], _environment(threads)
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def _end_process(worker: _Process) -> str:
    """End a worker and return how it ended."""
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
    worker.copier.join(LAST_WORDS_S)
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


def _environment(threads: int) -> dict[str, str]:
    """Return the environment of the parent, with the module search path of this package.

    ``threads`` is the default of Polars threads: the workers share the host, and small tables are slower on many
    threads.
    """
    paths = [entry for entry in sys.path if entry]
    return {"POLARS_MAX_THREADS": str(threads), **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
