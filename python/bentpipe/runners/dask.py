"""Runs on a dask.distributed cluster whose workers have the same engine.

The cluster returns the files of a run; or the engine's bytes, from a worker that would encode them otherwise (another
Polars). The coordinator alone writes them, so the store is the same as from local workers. A worker that is killed has
its runs moved to others by the scheduler. A thread submits a few runs for each thread of the cluster and fetches what
has finished, so that the cluster holds no more than these.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
import uuid
import warnings
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bentpipe.runners.runner import RunnerError, RunOutcome
from bentpipe.runners.worker_pool import LOOK_S, Maker, Outcomes, dispatch
from bentpipe.store.codec import RunFiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from bentpipe.plan.plan import Run
    from bentpipe.runners.worker_pool import Take

__all__ = ["DaskRunner", "execute", "worker_version"]

CONNECT_SECONDS = 10
RETRIES = 3
MOVES = 3
"""How often a run moves on when every worker that it may go to has ended: it may be the run that ends them."""

AHEAD = 3
"""Runs for each thread of the cluster at a time: one is made, one waits for the thread, one is fetched."""

LOOK_AT_WORKERS_S = 1.0
"""Time between two looks at which workers there are."""

PATIENCE_S = 30.0
"""Longest time with workers of other engines alone: one that a nanny starts again takes some seconds."""

KEPT = "what is finished is in the store, and the same command goes on where it stopped"


def worker_version() -> str:
    """Version of a worker's engine; runs there."""
    from bentpipe.runners import engine

    return engine.version()


def execute(
    spec: str, controllers: Mapping[str, str], version: str, encodes: str
) -> tuple[str, bytes, float]:
    """One run; runs on a worker.

    Returns:
        What came of it (FILES, MEASURED, or an error), that, or the error's text, and the seconds it took.
    """
    from bentpipe.runners import engine
    from bentpipe.runners.worker_process import serve
    from bentpipe.store.codec import encoder

    if engine.version() != version:
        return FAILED, f"{WRONG}{engine.version()}".encode(), 0.0
    began = time.perf_counter()
    encoded = encoder() == encodes
    status, answer = serve(spec, engine.load_controllers(controllers), encoded=encoded)
    what = FAILED if status != b"+" else FILES if encoded else MEASURED
    return what, answer, time.perf_counter() - began


FILES, MEASURED, FAILED = "files", "measured", "failed"
WRONG = "another engine on this worker: "


class DaskRunner:
    """A cluster by the address of its scheduler."""

    def __init__(self, address: str, version: str, controllers: Mapping[str, str] | None = None) -> None:
        """``address`` is ``dask://HOST:PORT`` or what ``distributed.Client`` takes."""
        self.address = (
            "tcp://" + address.removeprefix("dask://") if address.startswith("dask://") else address
        )
        self.version = version
        self.controllers = dict(controllers or {})

    def check(self) -> None:
        """Raises RunnerError without a cluster, or with a worker of another engine."""
        client = _connect(self.address)
        try:
            _check_workers(client, self.address, self.version)
        finally:
            client.close()

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Outcomes as they come.

        Raises:
            RunnerError: no cluster there, a worker with another engine at the beginning, no worker with this one later,
                or the scheduler is lost. The iterator raises it.
        """
        tasks = _Tasks(self.address, self.version, self.controllers)
        return Outcomes([tasks], dispatch(runs), tasks.connected)


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise RunnerError(
            "--cluster dask:// needs dask.distributed, which is not installed: pip install 'bentpipe[dask]'"
        ) from None
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise RunnerError(f"no Dask scheduler at {address}: {error}") from None


def _check_workers(client: Any, address: str, wanted: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise RunnerError(f"the cluster at {address} has no workers") from None
    try:
        versions: dict[str, str] = client.run(worker_version)
    except Exception as error:
        raise RunnerError(f"a worker of {address} cannot load the engine: {error}") from error
    for worker, version in sorted(versions.items()):
        if version != wanted:
            raise RunnerError(f"worker {worker} has engine {version}, this is {wanted}: results would differ")


class _StoppedError(Exception):
    """The session ends while the cluster is asked something."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A run that the cluster has."""

    run: Run
    workers: frozenset[str] | None
    """Where it may go; None: to any worker."""
    moves: int
    """How often all of them have ended."""


class _Tasks(Maker):
    """The runs of a session, as tasks of a cluster.

    Runs go to any worker until one of another engine has answered. From then on they go to those of this engine alone,
    and to others when these have ended: the scheduler itself would wait for them for ever.
    """

    def __init__(self, address: str, version: str, controllers: Mapping[str, str]) -> None:
        self.address, self.version, self.controllers = address, version, controllers
        self.client: Any = None
        self.encodes = ""
        self.name = uuid.uuid4().hex
        self.submitted = 0
        self.stopping = threading.Event()
        self.tasks: dict[Any, _Task] = {}
        self.settled: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """Futures in the order in which the cluster was done with them; some are not in ``tasks`` any more."""
        self.lost: set[Any] = set()
        """Futures whose results ended with their workers: the scheduler has them made again."""
        self.window = 1
        """Runs that the cluster may have at a time."""
        self.looked = float("-inf")
        self.here: frozenset[str] = frozenset()
        """Workers at the last look."""
        self.good: frozenset[str] | None = None
        """Workers of this engine; None where no other is known."""
        self.alone_since: float | None = None
        """Since when there are no workers; infinite once this is said."""
        self.warned: set[str] = set()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Connect to the cluster, and close the connection at the end."""
        from bentpipe.store.codec import encoder

        self.encodes = encoder()
        with _quiet():
            self.client = _connect(self.address)
            try:
                with _telling_of_loss(self.client, self.address):
                    _check_workers(self.client, self.address, self.version)
                yield
            finally:
                self.client.close()

    def work(self, take: Take, stopping: threading.Event) -> Iterator[RunOutcome]:
        """Submits the runs that ``take`` gives, as many at a time as the window has, and fetches what they give."""
        self.stopping = stopping
        with _telling_of_loss(self.client, self.address):
            try:
                yield from self._outcomes(take)
            except _StoppedError:
                return

    def stop(self) -> None:
        """Leaves it to the event that ``work`` looks at; the cluster drops the runs when the connection is closed."""
        return

    def _outcomes(self, take: Take) -> Iterator[RunOutcome]:
        more = True
        while not self.stopping.is_set():
            yield from self._look()
            while more and len(self.tasks) < self.window:
                run = take(self.stopping)
                more = run is not None
                if run is not None:
                    self._submit(run)
            if not self.tasks:
                return
            try:
                future = self.settled.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            if (outcome := self._settle(future)) is not None:
                yield outcome

    def _submit(self, run: Run, moves: int = 0) -> None:
        self.submitted += 1
        future = self.client.submit(
            execute,
            run.spec_json(),
            self.controllers,
            self.version,
            self.encodes,
            key=f"bentpipe-{run.id}-{self.name}-{self.submitted}",
            pure=False,
            retries=RETRIES,
            workers=None if self.good is None else sorted(self.good),
        )
        self.tasks[future] = _Task(run, self.good, moves)
        future.add_done_callback(self.settled.put)

    def _settle(self, future: Any) -> RunOutcome | None:
        """Return what came of a run; None where it is made again."""
        task = self.tasks.get(future)
        if task is None:
            return None
        if future.status == "cancelled":
            raise _lost(self.address)
        if future.status == "error":
            error = f"lost on the cluster: {self._ask(future.exception)}"
            self._forget(future)
            return RunOutcome(task.run, None, error)
        found = self._fetch(future)
        if found is None:
            self.lost.add(future)
            return None
        self._forget(future)
        what, answer, seconds = found
        text = answer.decode(errors="replace") if what == FAILED else ""
        if text.startswith(WRONG):
            if self.good is None or task.workers is not None:
                self._find_good()
            self._submit(task.run, task.moves)
            return None
        if what == FILES:
            return RunOutcome(task.run, RunFiles.from_bytes(answer), "", seconds)
        if what == MEASURED:
            return RunOutcome(task.run, answer, "", seconds)
        return RunOutcome(task.run, None, text, seconds)

    def _fetch(self, future: Any) -> tuple[str, bytes, float] | None:
        """Return what a run gave; None where it ended with its worker."""
        try:
            found: tuple[str, bytes, float] | None = self._ask(
                partial(self.client.gather, future), lambda: future.status == "finished"
            )
        except Exception:
            if future.status == "finished":
                raise
            return None
        return found

    def _forget(self, future: Any) -> None:
        del self.tasks[future]
        self.lost.discard(future)
        future.release()

    def _look(self) -> Iterator[RunOutcome]:
        """Once a second, follow the workers that come and go; give runs that have moved too often."""
        now = time.monotonic()
        if now < self.looked + LOOK_AT_WORKERS_S:
            return
        self.looked = now
        threads: dict[str, int] = self._ask(self.client.nthreads)
        here = frozenset(threads)
        if self.good is not None and here != self.here:
            self._find_good()
        self.here = here
        self._warn_without_workers(now)
        usable = here if self.good is None else here & self.good
        self.window = max(AHEAD * sum(threads[worker] for worker in usable), 1)
        for future, task in list(self.tasks.items()):
            if future.status in {"pending", "lost"}:
                if task.workers is not None and here.isdisjoint(task.workers):
                    self._forget(future)
                    if task.moves == MOVES:
                        times = f"{MOVES + 1} times" if MOVES else "once"
                        yield RunOutcome(task.run, None, f"lost on the cluster: its workers ended {times}")
                    else:
                        self._submit(task.run, task.moves + 1)
            elif future in self.lost:
                self.lost.discard(future)
                self.settled.put(future)

    def _find_good(self) -> None:
        """Find the workers of this engine; where there are others alone, wait for one.

        Raises:
            RunnerError: none came.
        """
        end = time.monotonic() + PATIENCE_S
        while True:
            found: dict[str, object] = self._ask(partial(self.client.run, worker_version, on_error="return"))
            good = frozenset(worker for worker, version in found.items() if version == self.version)
            # One that cannot be reached is about to leave.
            wrong = {
                worker: version
                for worker, version in sorted(found.items())
                if worker not in good and not isinstance(version, OSError)
            }
            for worker in sorted(wrong.keys() - self.warned):
                self.warned.add(worker)
                warnings.warn(
                    f"worker {worker} has engine {wrong[worker]}, this is {self.version}: it is left out",
                    stacklevel=2,
                )
            if good or not found:
                self.good = good if wrong else None
                return
            if time.monotonic() > end:
                others = "".join(f"; worker {worker} has {version}" for worker, version in wrong.items())
                raise RunnerError(
                    f"the cluster at {self.address} has no worker with engine {self.version} any more{others}; {KEPT}"
                )
            if self.stopping.wait(LOOK_S):
                raise _StoppedError

    def _warn_without_workers(self, now: float) -> None:
        if self.here:
            self.alone_since = None
        elif self.alone_since is None:
            self.alone_since = now
        elif now > self.alone_since + CONNECT_SECONDS:
            self.alone_since = float("inf")
            warnings.warn(
                f"the cluster at {self.address} has no workers any more: its runs wait for one", stacklevel=2
            )

    def _ask(self, function: Callable[[], Awaitable[Any]], wanted: Callable[[], bool] = lambda: True) -> Any:
        """Return what a ``function`` of the client answers; None once the answer is not ``wanted`` any more.

        Raises:
            _StoppedError: the session ends.
        """
        asked = asyncio.run_coroutine_threadsafe(_called(function), self.client.loop.asyncio_loop)
        while not wait([asked], timeout=LOOK_S).done:
            if self.stopping.is_set():
                asked.cancel()
                raise _StoppedError
            if not wanted():
                asked.cancel()
                return None
        return asked.result()


async def _called(function: Callable[[], Awaitable[Any]]) -> Any:
    return await function()


def _lost(address: str) -> RunnerError:
    return RunnerError(f"the connection to the Dask scheduler at {address} was lost; {KEPT}")


@contextmanager
def _telling_of_loss(client: Any, address: str) -> Iterator[None]:
    """Raise one error for the many of a connection that ends while something is asked."""
    try:
        yield
    except RunnerError:
        raise
    except Exception as error:
        if client.status == "running" and not isinstance(error, (OSError, CancelledError)):
            raise
        raise _lost(address) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep distributed's log silent: it has tracebacks of a lost connection, of which there is an error already."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
