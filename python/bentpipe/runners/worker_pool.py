"""Threads that execute runs, and one that processes the outcomes: common code of most runners."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from bentpipe.plan.plan import Run
    from bentpipe.runners.runner import RunOutcome

    Take = Callable[[threading.Event], Run | None]
    Process = Callable[[RunOutcome], RunOutcome]

__all__ = ["LOOK_S", "Maker", "Outcomes", "Worker", "collect", "dispatch"]

LOOK_S = 0.2
"""Maximum interval between checks for Ctrl-C.

The SIGINT handler of Polars restarts blocking system calls, so Python's handler runs only between two waits.
"""


class Maker(ABC):
    """Executor of runs in one thread."""

    @abstractmethod
    def work(self, take: Take, stopping: threading.Event) -> Iterator[RunOutcome]:
        """Yield outcomes of the runs from ``take`` until ``stopping`` is set."""

    @abstractmethod
    def stop(self) -> None:
        """End running work, from another thread, and start none; repeated calls are valid."""

    def leave(self) -> None:
        """Release resources that runs share: the last call of the thread."""
        return


class Worker(Maker):
    """Executor of one run at a time."""

    @abstractmethod
    def make(self, run: Run) -> RunOutcome:
        """Execute a run until its end or a stop."""

    def work(self, take: Take, stopping: threading.Event) -> Iterator[RunOutcome]:
        """Execute the runs from ``take`` one after the other."""
        while not stopping.is_set() and (run := take(stopping)) is not None:
            yield self.make(run)


def dispatch(runs: Sequence[Run]) -> Take:
    """Return a function that gives ``runs`` in order, each to the first caller."""
    pending: queue.SimpleQueue[Run] = queue.SimpleQueue()
    for run in runs:
        pending.put(run)

    def take(_stopping: threading.Event) -> Run | None:
        try:
            return pending.get_nowait()
        except queue.Empty:
            return None

    return take


class Outcomes:
    """Iterator of the outcomes of ``executors``; closing it stops them.

    Each thread calls ``take`` for its next run. The result None means no more runs, or a set stop event. The iterator
    raises exceptions of the threads. Nothing starts before the first ``next``. From then on the threads continue
    without
    further calls, and wait only if outcomes are processed more slowly than they finish. ``around`` is a context
    entered
    before the threads start and left after all have ended, in the iterating thread.
    """

    def __init__(
        self,
        executors: Sequence[Maker],
        take: Take,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._executors = executors
        self._take = take
        self._around = around
        self._process: Process = lambda outcome: outcome
        self._outcomes: Generator[RunOutcome] | None = None

    def process_with(self, function: Process) -> None:
        """Call ``function`` with each outcome in a thread, and iterate its results.

        The iterator raises an exception of the function, which is not called again: the executors stop at once, even
        without
        a further ``next``. After a close, outcomes of finished runs are still processed.
        """
        self._process = function

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RunOutcome:
        if self._outcomes is None:
            self._outcomes = self._iterate_in_context()
        return next(self._outcomes)

    def close(self) -> None:
        """Stop running work."""
        if self._outcomes is not None:
            self._outcomes.close()

    def _iterate_in_context(self) -> Generator[RunOutcome]:
        with self._around():
            yield from self._run()

    def _run(self) -> Generator[RunOutcome]:
        # Waiting outcomes hold their data, so their queue is bounded; processed ones need no bound.
        done: queue.Queue[RunOutcome | BaseException | None] = queue.Queue(max(len(self._executors), 1))
        processed: queue.SimpleQueue[RunOutcome | BaseException | None] = queue.SimpleQueue()
        stopping = threading.Event()
        threads = [
            threading.Thread(target=_work, args=(executor, self._take, stopping, done), daemon=True)
            for executor in self._executors
        ]
        processor = threading.Thread(
            target=_process, args=(done, processed, self._executors, self._process, stopping), daemon=True
        )
        try:
            for thread in (processor, *threads):
                thread.start()
            while True:
                try:
                    item = processed.get(timeout=LOOK_S)
                except queue.Empty:
                    continue
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            _stop(self._executors, stopping)
            for thread in threads:
                if thread.ident is None:  # the system refused another thread
                    done.put(None)
                else:
                    thread.join()
            processor.join()


def collect(executors: Sequence[Maker], take: Take) -> Outcomes:
    """Return an iterator of the outcomes of ``executors``."""
    return Outcomes(executors, take)


def _process(
    done: queue.Queue[RunOutcome | BaseException | None],
    processed: queue.SimpleQueue[RunOutcome | BaseException | None],
    executors: Sequence[Maker],
    function: Process,
    stopping: threading.Event,
) -> None:
    """Process outcomes until the last executor has ended; None marks the end."""
    has_failed = False
    running = len(executors)
    while running:
        item = done.get()
        if item is None:
            running -= 1
        elif isinstance(item, BaseException):
            processed.put(item)
        elif not has_failed and (item.data is not None or not stopping.is_set()):
            try:
                processed.put(function(item))
            except BaseException as error:  # noqa: BLE001 - the caller gets the error
                has_failed = True
                processed.put(error)
                _stop(executors, stopping)  # later outcomes would be discarded
    processed.put(None)


def _stop(executors: Sequence[Maker], stopping: threading.Event) -> None:
    stopping.set()
    for executor in executors:
        executor.stop()


def _work(
    executor: Maker,
    take: Take,
    stopping: threading.Event,
    done: queue.Queue[RunOutcome | BaseException | None],
) -> None:
    """Run one executor; None marks the end of its thread."""
    try:
        try:
            for outcome in executor.work(take, stopping):
                done.put(outcome)
        finally:
            executor.leave()
    except BaseException as error:  # noqa: BLE001 - the caller gets the error
        done.put(error)
    done.put(None)
