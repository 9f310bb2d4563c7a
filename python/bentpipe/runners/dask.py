"""Runs on a dask.distributed cluster whose workers have the same engine.

The cluster returns the files of a run, or the bytes of the engine from a worker with another encoder (another Polars).
Only the coordinator writes, so the store is equal to one from local workers. The scheduler moves the runs of a killed
worker to others. A thread submits a few runs for each thread of the cluster and fetches finished ones, so the cluster
never holds more than these.
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
"""Moves of a run whose workers have all ended: the run itself may end them."""

AHEAD = 3
"""Runs for each thread of the cluster: one executes, one waits for the thread, one is fetched."""

LOOK_AT_WORKERS_S = 1.0
"""Interval between two queries of the workers."""

PATIENCE_S = 30.0
"""Maximum time with workers of other engines only: a restart by a nanny takes some seconds."""

RESUME = "finished runs are in the store; rerun the command to resume"


def worker_version() -> str:
    """Return the version of the engine of a worker; called on the worker."""
    from bentpipe.runners import engine

    return engine.version()


def execute(
    spec: str,
    controllers: Mapping[str, str],
    version: str,
    coordinator_encoder: str,
    limits: tuple[int, int] | None = None,
) -> tuple[str, bytes, float]:
    """Execute one run on a worker.

    Args:
        spec: specification of the run as JSON.
        controllers: user-supplied classes as ``module:Class``, by name.
        version: version of the coordinator's engine.
        coordinator_encoder: encoder of the coordinator.
        limits: numbers of events and of bytes of memory at which the run ends; None: no limits.

    Returns:
        Kind of the result (FILES, MEASURED or FAILED), the result or the text of the error, and the wall time in s.
    """
    from bentpipe.runners import engine
    from bentpipe.runners.worker_process import serve
    from bentpipe.store.codec import encoder

    if engine.version() != version:
        return FAILED, f"{WRONG}{engine.version()}".encode(), 0.0
    start = time.perf_counter()
    is_encoded = encoder() == coordinator_encoder
    status, answer = serve(spec, engine.load_controllers(controllers), limits, encoded=is_encoded)
    kind = FAILED if status != b"+" else FILES if is_encoded else MEASURED
    return kind, answer, time.perf_counter() - start


FILES, MEASURED, FAILED = "files", "measured", "failed"
WRONG = "another engine on this worker: "


class DaskRunner:
    """Cluster at the address of its scheduler."""

    def __init__(self, address: str, version: str, controllers: Mapping[str, str] | None = None) -> None:
        """Create a runner; ``address`` is ``dask://HOST:PORT`` or an address of ``distributed.Client``."""
        self.address = (
            "tcp://" + address.removeprefix("dask://") if address.startswith("dask://") else address
        )
        self.version = version
        self.controllers = dict(controllers or {})

    def check(self) -> None:
        """Raise RunnerError if there is no cluster, or a worker has another engine."""
        client = _connect(self.address)
        try:
            _check_workers(client, self.address, self.version)
        finally:
            client.close()

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        """Yield outcomes as runs finish.

        Raises:
            RunnerError: no cluster, a worker with another engine at the start, no worker with this engine later, or a
                lost
                scheduler. The iterator raises it.
        """
        tasks = _Tasks(self.address, self.version, self.controllers)
        return Outcomes([tasks], dispatch(runs), tasks.connected)


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise RunnerError(
            "--cluster dask:// requires dask.distributed, which is not installed: pip install 'bentpipe[dask]'"
        ) from None
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise RunnerError(f"no Dask scheduler at {address}: {error}") from None


def _check_workers(client: Any, address: str, expected: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise RunnerError(f"the cluster at {address} has no workers") from None
    try:
        versions: dict[str, str] = client.run(worker_version)
    except Exception as error:
        raise RunnerError(f"a worker of {address} cannot load the engine: {error}") from error
    for worker, version in sorted(versions.items()):
        if version != expected:
            raise RunnerError(
                f"worker {worker} has engine {version}, this is {expected}: results would differ"
            )


class _StoppedError(Exception):
    """End of the execution during a request to the cluster."""


@dataclass(frozen=True, slots=True)
class _Task:
    """Run on the cluster."""

    run: Run
    workers: frozenset[str] | None
    """Permitted workers; None: any."""
    moves: int
    """Number of moves after the end of all permitted workers."""


class _Tasks(Maker):
    """Runs of an execution, as tasks of a cluster.

    Runs go to any worker until one of another engine answers. From then on they go to workers of this engine only.
    When
    these have ended, the runs move to others, since the scheduler would wait for the first ones forever.
    """

    def __init__(self, address: str, version: str, controllers: Mapping[str, str]) -> None:
        self.address, self.version, self.controllers = address, version, controllers
        self.client: Any = None
        self.encoder = ""
        self.name = uuid.uuid4().hex
        self.submitted = 0
        self.stopping = threading.Event()
        self.tasks: dict[Any, _Task] = {}
        self.settled: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """Futures in the order of completion; some are no longer in ``tasks``."""
        self.lost: set[Any] = set()
        """Futures whose results ended with their workers; the scheduler repeats them."""
        self.window = 1
        """Maximum number of runs on the cluster."""
        self.queried_at = float("-inf")
        self.workers: frozenset[str] = frozenset()
        """Workers at the last query."""
        self.matching: frozenset[str] | None = None
        """Workers of this engine; None: no other engine is known."""
        self.empty_since: float | None = None
        """Instant since which there are no workers; infinite after the warning."""
        self.warned: set[str] = set()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Connect to the cluster, and close the connection at the end."""
        from bentpipe.store.codec import encoder

        self.encoder = encoder()
        with _silence_log():
            self.client = _connect(self.address)
            try:
                with _convert_errors(self.client, self.address):
                    _check_workers(self.client, self.address, self.version)
                yield
            finally:
                self.client.close()

    def work(self, take: Take, stopping: threading.Event) -> Iterator[RunOutcome]:
        """Submit runs from ``take`` up to the window, and yield their outcomes."""
        self.stopping = stopping
        with _convert_errors(self.client, self.address):
            try:
                yield from self._outcomes(take)
            except _StoppedError:
                return

    def stop(self) -> None:
        """Do nothing: ``work`` checks the stop event, and the cluster drops the runs when the connection closes."""
        return

    def _outcomes(self, take: Take) -> Iterator[RunOutcome]:
        has_more = True
        while not self.stopping.is_set():
            yield from self._follow_workers()
            while has_more and len(self.tasks) < self.window:
                run = take(self.stopping)
                has_more = run is not None
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
            self.encoder,
            # A plain tuple, as workers do not load the planner.
            None if run.limits is None else tuple(run.limits),
            key=f"bentpipe-{run.id}-{self.name}-{self.submitted}",
            pure=False,
            retries=RETRIES,
            workers=None if self.matching is None else sorted(self.matching),
        )
        self.tasks[future] = _Task(run, self.matching, moves)
        future.add_done_callback(self.settled.put)

    def _settle(self, future: Any) -> RunOutcome | None:
        """Return the outcome of a run; None: the cluster repeats it."""
        task = self.tasks.get(future)
        if task is None:
            return None
        if future.status == "cancelled":
            raise _connection_error(self.address)
        if future.status == "error":
            error = f"lost on the cluster: {self._request(future.exception)}"
            self._forget(future)
            return RunOutcome(task.run, None, error)
        result = self._fetch(future)
        if result is None:
            self.lost.add(future)
            return None
        self._forget(future)
        kind, answer, seconds = result
        text = answer.decode(errors="replace") if kind == FAILED else ""
        if text.startswith(WRONG):
            if self.matching is None or task.workers is not None:
                self._find_matching()
            self._submit(task.run, task.moves)
            return None
        if kind == FILES:
            return RunOutcome(task.run, RunFiles.from_bytes(answer), "", seconds)
        if kind == MEASURED:
            return RunOutcome(task.run, answer, "", seconds)
        return RunOutcome(task.run, None, text, seconds)

    def _fetch(self, future: Any) -> tuple[str, bytes, float] | None:
        """Return the result of a run; None: it ended with its worker."""
        try:
            result: tuple[str, bytes, float] | None = self._request(
                partial(self.client.gather, future), lambda: future.status == "finished"
            )
        except Exception:
            if future.status == "finished":
                raise
            return None
        return result

    def _forget(self, future: Any) -> None:
        del self.tasks[future]
        self.lost.discard(future)
        future.release()

    def _follow_workers(self) -> Iterator[RunOutcome]:
        """Query the workers once a second; yield runs that have moved too often."""
        now = time.monotonic()
        if now < self.queried_at + LOOK_AT_WORKERS_S:
            return
        self.queried_at = now
        threads: dict[str, int] = self._request(self.client.nthreads)
        workers = frozenset(threads)
        if self.matching is not None and workers != self.workers:
            self._find_matching()
        self.workers = workers
        self._warn_without_workers(now)
        permitted = workers if self.matching is None else workers & self.matching
        self.window = max(AHEAD * sum(threads[worker] for worker in permitted), 1)
        for future, task in list(self.tasks.items()):
            if future.status in {"pending", "lost"}:
                if task.workers is not None and workers.isdisjoint(task.workers):
                    self._forget(future)
                    if task.moves == MOVES:
                        times = f"{MOVES + 1} times" if MOVES else "once"
                        yield RunOutcome(task.run, None, f"lost on the cluster: its workers ended {times}")
                    else:
                        self._submit(task.run, task.moves + 1)
            elif future in self.lost:
                self.lost.discard(future)
                self.settled.put(future)

    def _find_matching(self) -> None:
        """Find the workers of this engine; wait for one if there are only others.

        Raises:
            RunnerError: none appeared.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            versions: dict[str, object] = self._request(
                partial(self.client.run, worker_version, on_error="return")
            )
            matching = frozenset(worker for worker, version in versions.items() if version == self.version)
            # An unreachable worker is about to leave.
            other_workers = {
                worker: version
                for worker, version in sorted(versions.items())
                if worker not in matching and not isinstance(version, OSError)
            }
            for worker in sorted(other_workers.keys() - self.warned):
                self.warned.add(worker)
                warnings.warn(
                    f"worker {worker} has engine {other_workers[worker]}, this is {self.version}: it is left out",
                    stacklevel=2,
                )
            if matching or not versions:
                self.matching = matching if other_workers else None
                return
            if time.monotonic() > deadline:
                others = "".join(
                    f"; worker {worker} has {version}" for worker, version in other_workers.items()
                )
                raise RunnerError(
                    f"the cluster at {self.address} has no worker with engine {self.version} any more{others}; {RESUME}"
                )
            if self.stopping.wait(LOOK_S):
                raise _StoppedError

    def _warn_without_workers(self, now: float) -> None:
        if self.workers:
            self.empty_since = None
        elif self.empty_since is None:
            self.empty_since = now
        elif now > self.empty_since + CONNECT_SECONDS:
            self.empty_since = float("inf")
            warnings.warn(
                f"the cluster at {self.address} has no workers left: its runs wait for a worker", stacklevel=2
            )

    def _request(
        self, function: Callable[[], Awaitable[Any]], is_needed: Callable[[], bool] = lambda: True
    ) -> Any:
        """Return the result of a ``function`` of the client; None once ``wanted`` returns false.

        Raises:
            _StoppedError: the execution ends.
        """
        request = asyncio.run_coroutine_threadsafe(_await(function), self.client.loop.asyncio_loop)
        while not wait([request], timeout=LOOK_S).done:
            if self.stopping.is_set():
                request.cancel()
                raise _StoppedError
            if not is_needed():
                request.cancel()
                return None
        return request.result()


async def _await(function: Callable[[], Awaitable[Any]]) -> Any:
    return await function()


def _connection_error(address: str) -> RunnerError:
    return RunnerError(f"the connection to the Dask scheduler at {address} was lost; {RESUME}")


@contextmanager
def _convert_errors(client: Any, address: str) -> Iterator[None]:
    """Raise one error in place of the many errors of a lost connection."""
    try:
        yield
    except RunnerError:
        raise
    except Exception as error:
        if client.status == "running" and not isinstance(error, (OSError, CancelledError)):
            raise
        raise _connection_error(address) from error


@contextmanager
def _silence_log() -> Iterator[None]:
    """Silence the log of distributed: it has tracebacks of a lost connection beside our own error."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
