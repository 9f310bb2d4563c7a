"""Each run is written when it finishes, and what waits to be written is bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bentpipe
from bentpipe.plan.plan import Run
from bentpipe.runners.runner import RunOutcome
from bentpipe.runners.worker_pool import Outcomes, Worker, dispatch
from bentpipe.store.files import DiskError

SCENARIO = {
    "title": "Small",
    "duration": "1 s",
    "seeds": 8,
    "path": {"segment": [{"name": "link", "delay": "5 ms", "both": {"rate": "10 Mbit/s", "loss": "1 %"}}]},
    "flow": [{"name": "any", "congestion": "cubic"}],
}
RUNS = [Run(str(number), {}, number, {}) for number in range(40)]  # type: ignore[typeddict-item]


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


class Maker(Worker):
    """Makes runs at once, or holds on to one until it is stopped."""

    def __init__(self, made: list[str], holds: str = "") -> None:
        self.made, self.holds = made, holds
        self.stopped = threading.Event()

    def make(self, run: Run) -> RunOutcome:
        if run.id == self.holds:
            self.stopped.wait()
            return RunOutcome(run, None, "stopped")
        self.made.append(run.id)
        return RunOutcome(run, b"data")

    def stop(self) -> None:
        self.stopped.set()


def stripped(outcome: RunOutcome) -> RunOutcome:
    return RunOutcome(outcome.run, None, outcome.error, counts={"packets": 1, "events": 1})


def test_runs_are_written_whether_the_next_is_asked_for_or_not(tmp_path: Path) -> None:
    with bentpipe.iter_runs(SCENARIO, jobs=2, out=tmp_path / "store") as runs:
        first = next(runs)
        assert (first.done, first.total) == (1, 8)
        until(lambda: len(bentpipe.open_results(tmp_path / "store").finished()) == 8)
        assert [one.done for one in runs] == [2, 3, 4, 5, 6, 7, 8]
    assert runs.summary.done == 8
    assert runs.summary.packets > 0


def test_finished_runs_are_saved_at_an_early_exit(tmp_path: Path) -> None:
    with bentpipe.iter_runs(SCENARIO, jobs=1, out=tmp_path / "store") as runs:
        next(runs)
    left = len(bentpipe.open_results(tmp_path / "store").finished())
    assert left >= 1
    again = bentpipe.iter_runs(SCENARIO, jobs=1, out=tmp_path / "store")
    assert len(again) == 8 - left
    assert not any(one.error for one in again)
    assert len(bentpipe.open_results(tmp_path / "store").finished()) == 8


def test_the_queue_of_processing_is_bounded() -> None:
    made: list[str] = []
    let, processed = threading.Semaphore(0), []

    def process(outcome: RunOutcome) -> RunOutcome:
        let.acquire()
        processed.append(outcome.run.id)
        return stripped(outcome)

    outcomes = Outcomes([Maker(made), Maker(made)], dispatch(RUNS))
    outcomes.process_with(process)
    let.release()
    next(outcomes)
    time.sleep(0.3)
    # One is being processed; two wait, and each hand holds one more.
    assert len(made) - len(processed) <= 5
    for _ in RUNS:
        let.release()
    until(lambda: len(processed) == len(RUNS))  # no callback reads it
    rest = list(outcomes)
    assert len(rest) == len(RUNS) - 1
    assert all(one.data is None for one in rest)


def test_closing_processes_what_is_finished_and_nothing_else() -> None:
    made: list[str] = []
    processed: list[str] = []

    def process(outcome: RunOutcome) -> RunOutcome:
        processed.append(outcome.run.id)
        return stripped(outcome)

    outcomes = Outcomes([Maker(made, holds="3")], dispatch(RUNS))
    outcomes.process_with(process)
    next(outcomes)
    until(lambda: len(made) == 3)
    outcomes.close()
    assert processed == ["0", "1", "2"]
    with pytest.raises(StopIteration):
        next(outcomes)


def test_an_exception_of_processing_is_raised_once_and_ends_everything() -> None:
    made: list[str] = []
    asked: list[str] = []

    def process(outcome: RunOutcome) -> RunOutcome:
        asked.append(outcome.run.id)
        raise DiskError("the disk is full")

    outcomes = Outcomes([Maker(made), Maker(made)], dispatch(RUNS))
    outcomes.process_with(process)
    before = threading.active_count()
    with pytest.raises(DiskError, match="the disk is full"):
        next(outcomes)
    assert len(asked) == 1
    assert threading.active_count() == before


def test_an_exception_of_processing_stops_the_runs_without_a_reader() -> None:
    made: list[str] = []
    processed: list[str] = []

    def process(outcome: RunOutcome) -> RunOutcome:
        if len(processed) == 1:
            raise DiskError("the disk is full")
        processed.append(outcome.run.id)
        return stripped(outcome)

    slow = Maker(made, holds="5")
    outcomes = Outcomes([Maker(made), slow], dispatch(RUNS))
    outcomes.process_with(process)
    before = threading.active_count()
    assert next(outcomes).error == ""
    until(lambda: threading.active_count() == before)
    assert slow.stopped.is_set()
    assert len(made) < len(RUNS) // 2
    with pytest.raises(DiskError, match="the disk is full"):
        next(outcomes)


def test_the_context_of_threads_outlives_them() -> None:
    made: list[str] = []
    order: list[str] = []

    class Last(Maker):
        def leave(self) -> None:
            order.append("left")

    @contextmanager
    def around() -> Iterator[None]:
        order.append(f"entered in {threading.current_thread().name}")
        try:
            yield
        finally:
            order.append("closed")

    outcomes = Outcomes([Last(made, holds="3")], dispatch(RUNS), around)
    assert order == []
    next(outcomes)
    outcomes.close()
    assert order == [f"entered in {threading.current_thread().name}", "left", "closed"]


def test_an_iterator_that_nobody_began_has_nothing_to_close() -> None:
    made: list[str] = []
    Outcomes([Maker(made)], dispatch(RUNS)).close()
    assert made == []
