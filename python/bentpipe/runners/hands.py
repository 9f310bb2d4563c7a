"""Threads that make runs, each one at a time: what the runners on this machine have in common."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bentpipe.plan.runs import Run
    from bentpipe.runners.outcome import Outcome

    Take = Callable[[threading.Event], Run | None]

__all__ = ["Hand", "in_turn", "outcomes"]

LOOK_S = 0.2
"""Ctrl-C is seen at least this often: the handler of SIGINT that Polars installs restarts a system call that waits, so
that Python's own runs only between two waits."""


class Hand(ABC):
    """What one thread makes runs with."""

    @abstractmethod
    def make(self, run: Run) -> Outcome:
        """Makes a run, to its end or until it is stopped."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the run under way, from another thread; none is begun after it."""

    def leave(self) -> None:
        """Lets go what is kept from run to run: the last thing that its thread does."""
        return


def in_turn(runs: Sequence[Run]) -> Take:
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


def outcomes(hands: Sequence[Hand], take: Take) -> Iterator[Outcome]:
    """What ``hands`` make of the runs that ``take`` gives them, as it comes. Closing the iterator stops them.

    ``take`` is asked in each hand's thread and says None when there are no more, or when the event it is given is set.
    What a hand breaks with is raised.
    """
    done: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
    stopping = threading.Event()
    threads = [
        threading.Thread(target=_work, args=(hand, take, stopping, done), daemon=True) for hand in hands
    ]
    try:
        for thread in threads:
            thread.start()
        at_work = len(threads)
        while at_work:
            try:
                found = done.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            if isinstance(found, BaseException):
                raise found
            if found is None:
                at_work -= 1
            else:
                yield found
    finally:
        stopping.set()
        for hand in hands:
            hand.stop()
        for thread in threads:
            thread.join()


def _work(
    hand: Hand,
    take: Take,
    stopping: threading.Event,
    done: queue.SimpleQueue[Outcome | BaseException | None],
) -> None:
    """The life of a thread; None is its last word."""
    try:
        try:
            while not stopping.is_set() and (run := take(stopping)) is not None:
                done.put(hand.make(run))
        finally:
            hand.leave()
    except BaseException as error:  # noqa: BLE001 - what breaks here is the caller's to see
        done.put(error)
    done.put(None)
