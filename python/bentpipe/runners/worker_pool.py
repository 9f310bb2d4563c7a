"""Threads that have runs made, and one that processes what comes of them: what most runners have in common."""

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
"""Ctrl-C is seen at least this often: the handler of SIGINT that Polars installs restarts a system call that waits, so
that Python's own runs only between two waits."""


class Maker(ABC):
    """Makers of runs, one a thread."""

    @abstractmethod
    def work(self, take: Take, stopping: threading.Event) -> Iterator[RunOutcome]:
        """Gives outcomes of the runs that ``take`` gives, as they come, until ``stopping`` is set."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what is under way, from another thread; none is begun after it. It may be called again."""

    def leave(self) -> None:
        """Lets go what is kept from run to run: the last thing that its thread does."""
        return


class Worker(Maker):
    """The maker of runs of one thread, for one run at a time."""

    @abstractmethod
    def make(self, run: Run) -> RunOutcome:
        """Makes a run, to its end or until it is stopped."""

    def work(self, take: Take, stopping: threading.Event) -> Iterator[RunOutcome]:
        """Makes the runs that ``take`` gives, one after the other."""
        while not stopping.is_set() and (run := take(stopping)) is not None:
            yield self.make(run)


def dispatch(runs: Sequence[Run]) -> Take:
    """Gives ``runs`` in their order, each to the hand that asks first."""
    waiting: queue.SimpleQueue[Run] = queue.SimpleQueue()
    for run in runs:
        waiting.put(run)

    def take(_stopping: threading.Event) -> Run | None:
        try:
            return waiting.get_nowait()
        except queue.Empty:
            return None

    return take


class Outcomes:
    """Iterator of what ``hands`` make of the runs that ``take`` gives them, as it comes. Closing it stops them.

    ``take`` is asked in each hand's thread and says None when there are no more, or when the event it is given is set.
    An exception of a hand is raised. Nothing begins before the first outcome is asked for; from then on hands go on
    whether another one is asked for or not, and wait only where outcomes are processed more slowly than they come.
    ``around`` is entered before the threads begin and left when all have ended, in the thread that iterates.
    """

    def __init__(
        self,
        hands: Sequence[Maker],
        take: Take,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._hands = hands
        self._take = take
        self._around = around
        self._process: Process = lambda outcome: outcome
        self._outcomes: Generator[RunOutcome] | None = None

    def process_with(self, function: Process) -> None:
        """Have a thread call ``function`` with each outcome when it comes; its answers are what is iterated.

        Its exception is raised by the iterator, and it is not called again: the hands stop at once, whether another
        outcome is asked for or not. Outcomes that come after the iterator is closed are processed if their runs have
        finished.
        """
        self._process = function

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RunOutcome:
        if self._outcomes is None:
            self._outcomes = self._surrounded()
        return next(self._outcomes)

    def close(self) -> None:
        """Stop what is under way."""
        if self._outcomes is not None:
            self._outcomes.close()

    def _surrounded(self) -> Generator[RunOutcome]:
        with self._around():
            yield from self._run()

    def _run(self) -> Generator[RunOutcome]:
        # Waiting outcomes hold their data, so that they are bounded; processed ones need no bound.
        done: queue.Queue[RunOutcome | BaseException | None] = queue.Queue(max(len(self._hands), 1))
        processed: queue.SimpleQueue[RunOutcome | BaseException | None] = queue.SimpleQueue()
        stopping = threading.Event()
        threads = [
            threading.Thread(target=_work, args=(hand, self._take, stopping, done), daemon=True)
            for hand in self._hands
        ]
        processor = threading.Thread(
            target=_process, args=(done, processed, self._hands, self._process, stopping), daemon=True
        )
        try:
            for thread in (processor, *threads):
                thread.start()
            while True:
                try:
                    found = processed.get(timeout=LOOK_S)
                except queue.Empty:
                    continue
                if found is None:
                    return
                if isinstance(found, BaseException):
                    raise found
                yield found
        finally:
            _stop(self._hands, stopping)
            for thread in threads:
                if thread.ident is None:  # there was no room for another thread
                    done.put(None)
                else:
                    thread.join()
            processor.join()


def collect(hands: Sequence[Maker], take: Take) -> Outcomes:
    """Return an iterator of what ``hands`` make of the runs that ``take`` gives them."""
    return Outcomes(hands, take)


def _process(
    done: queue.Queue[RunOutcome | BaseException | None],
    processed: queue.SimpleQueue[RunOutcome | BaseException | None],
    hands: Sequence[Maker],
    function: Process,
    stopping: threading.Event,
) -> None:
    """Process outcomes until the last of ``hands`` has ended; None is the last that is handed on."""
    broken = False
    left = len(hands)
    while left:
        found = done.get()
        if found is None:
            left -= 1
        elif isinstance(found, BaseException):
            processed.put(found)
        elif not broken and (found.data is not None or not stopping.is_set()):
            try:
                processed.put(function(found))
            except BaseException as error:  # noqa: BLE001 - what breaks here is the caller's to see
                broken = True
                processed.put(error)
                _stop(hands, stopping)  # what they make from now on would be thrown away
    processed.put(None)


def _stop(hands: Sequence[Maker], stopping: threading.Event) -> None:
    stopping.set()
    for hand in hands:
        hand.stop()


def _work(
    hand: Maker,
    take: Take,
    stopping: threading.Event,
    done: queue.Queue[RunOutcome | BaseException | None],
) -> None:
    """The life of a thread; None is its last word."""
    try:
        try:
            for outcome in hand.work(take, stopping):
                done.put(outcome)
        finally:
            hand.leave()
    except BaseException as error:  # noqa: BLE001 - what breaks here is the caller's to see
        done.put(error)
    done.put(None)
