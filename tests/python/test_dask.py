"""A Dask cluster gives the same bytes as local workers, also when one of its workers is killed on the way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import bentpipe
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Run, build_plan
from bentpipe.runners import dask, engine
from bentpipe.runners.dask import AHEAD, DaskRunner
from bentpipe.runners.runner import RunnerError
from bentpipe.store.codec import RunFiles
from bentpipe.store.writer import Writer
from nightly import keep

pytest.importorskip("distributed")
ROOT = Path(__file__).parents[2]
GEO: str = tomllib.loads(Path(__file__).with_name("wrong.toml").read_text())["scenario"]
SCENARIO = GEO.replace("2s", "60s").replace("2 s", "60 s").replace("[[path", "seeds = 6\n[[path", 1)


class Cluster:
    """A scheduler and two workers, as processes of their own."""

    def __init__(
        self, folder: Path, python: str = sys.executable, environment: Mapping[str, str] | None = None
    ) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self.python, self.environment = python, environment
        self.folder = folder
        self.address = ""

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self.python, "-m", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def up(self) -> None:
        scheduler = self.start(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )
        assert scheduler.stderr is not None
        for line in scheduler.stderr:
            if (found := re.search(r"Scheduler at:\s+tcp://(\S+)", line)) is not None:
                self.address = found[1]
                break
        threading.Thread(target=scheduler.stderr.read, daemon=True).start()
        for _ in range(2):
            self.join()

    def join(self, *words: str) -> subprocess.Popen[str]:
        """One more worker."""
        worker = self.start(
            "distributed.cli.dask_worker", f"tcp://{self.address}", "--nthreads", "1", "--no-dashboard", "--no-nanny",
            "--local-directory", str(self.folder), *words,
        )  # fmt: skip
        assert worker.stderr is not None
        threading.Thread(target=worker.stderr.read, daemon=True).start()
        return worker

    def join_of_another_engine(self) -> subprocess.Popen[str]:
        """One more worker, which has four threads and another engine."""
        module = self.folder / "other_engine.py"
        module.write_text('from bentpipe.runners import engine\nengine.version = lambda: "another"\n')
        return self.join("--nthreads", "4", "--preload", str(module))

    @contextmanager
    def asked(self, workers: int = 2) -> Iterator[Any]:
        """A client of the cluster, once all ``workers`` are there."""
        from distributed import Client

        with Client(f"tcp://{self.address}", set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
            yield client

    def down(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        made.up()
        yield made
    finally:
        made.down()


def test_a_cluster_that_loses_a_worker_gives_the_bytes_of_local_workers(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "test.toml"
    path.write_text(SCENARIO)
    bentpipe.run(path, jobs=2, out=tmp_path / "local")
    out = tmp_path / "cluster"

    def kill() -> None:
        runs = out / "runs"
        while not (runs.is_dir() and any(runs.iterdir())):
            time.sleep(0.01)
        os.killpg(cluster.processes[1].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    bentpipe.run(path, cluster=f"dask://{cluster.address}", out=out)
    killer.join(timeout=5)
    assert cluster.processes[1].poll() is not None
    files = sorted(file.relative_to(out) for file in (out / "runs").rglob("*") if file.is_file())
    assert len(files) >= 6 * 5
    for file in files:
        assert (out / file).read_bytes() == (tmp_path / "local" / file).read_bytes(), file


def test_workers_of_another_engine_and_a_missing_cluster_are_refused(cluster: Cluster) -> None:
    plan = build_plan(load_scenario(tomllib.loads(GEO)), engine.version())
    runner = DaskRunner(f"dask://{cluster.address}", "another")
    deadline = time.monotonic() + 20
    while True:
        with pytest.raises(RunnerError) as error:
            next(runner.run(plan.runs))
        if "no workers" not in str(error.value) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert "this is another: results would differ" in str(error.value)


def wait_for_workers(cluster: Cluster) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            DaskRunner(f"dask://{cluster.address}", engine.version()).check()
        except RunnerError:
            assert time.monotonic() < end
        else:
            return


def test_a_scheduler_that_dies_is_one_line_and_the_same_command_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "test.toml").write_text(SCENARIO)
    out = tmp_path / "store"

    def run(where: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bentpipe.cli", "run", "test.toml", "--out", str(out), *where], cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip

    def kill() -> None:
        while not ((out / "runs").is_dir() and any((out / "runs").iterdir())):
            time.sleep(0.01)
        os.killpg(cluster.processes[0].pid, signal.SIGKILL)

    wait_for_workers(cluster)
    threading.Thread(target=kill, daemon=True).start()
    done = run(["--cluster", f"dask://{cluster.address}"])
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("planning: ")]
    output = f"the connection to the Dask scheduler at tcp://{cluster.address} was lost; finished runs are in the store"
    assert lines == [f"error: {output}; rerun the command to resume"]
    saved = len(list((out / "runs").iterdir()))
    assert 1 <= saved < 6
    done = run(["--jobs", "1"])
    assert done.returncode == 0, done.stderr
    assert f"6 of 6 runs in {out} ({saved} from earlier runs)" in done.stdout


def test_a_worker_of_another_engine_that_joins_late_is_left_out(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "test.toml").write_text(SCENARIO)
    out = tmp_path / "store"

    def join() -> None:
        while not ((out / "runs").is_dir() and any((out / "runs").iterdir())):
            time.sleep(0.01)
        cluster.join_of_another_engine()

    wait_for_workers(cluster)
    threading.Thread(target=join, daemon=True).start()
    scenario = SCENARIO.replace("seeds = 6", "seeds = 60")
    with pytest.warns(UserWarning, match=r"worker tcp://\S+ has engine another, this is .*: it is left out"):
        results = bentpipe.run(tomllib.loads(scenario), cluster=f"dask://{cluster.address}", out=out)
    assert len(results.finished()) == 60


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def begun(function: Callable[[], Any]) -> Future[Any]:
    """Return the result of ``function``, called in a daemon thread: a test that fails does not wait for it."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - what breaks here is the test's to see
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def kill(worker: subprocess.Popen[str]) -> None:
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def warned(output: pytest.WarningsRecorder) -> list[str]:
    return [str(one.message) for one in output]


SEEDS = 90
"""Runs that take longer together than workers take to come and go."""


def begin_and_lose_this_engine(
    cluster: Cluster, out: Path, output: pytest.WarningsRecorder, *, replaced: bool = False
) -> Future[Any]:
    """A session loses its only worker of this engine after another worker has reported another engine."""
    with cluster.asked():
        kill(cluster.processes[2])
    scenario = tomllib.loads(SCENARIO.replace("seeds = 6", f"seeds = {SEEDS}"))
    session = begun(lambda: bentpipe.run(scenario, cluster=f"dask://{cluster.address}", out=out))
    until(lambda: (out / "runs").is_dir() and any((out / "runs").iterdir()))
    cluster.join_of_another_engine()
    until(lambda: len(output) > 0)
    finished = len(list((out / "runs").iterdir()))
    # Those that the worker had before go first; then it has those alone that may go nowhere else.
    until(lambda: len(list((out / "runs").iterdir())) >= finished + 5)
    if replaced:
        cluster.join()
        with cluster.asked(3):
            pass
    kill(cluster.processes[1])
    assert not session.done()
    assert [one.split(" has ")[1] for one in warned(output)] == [
        f"engine another, this is {engine.version()}: it is left out"
    ]
    return session


@pytest.mark.parametrize("before", keep([False], [True, False]))
def test_runs_move_to_the_replacement_of_the_last_worker_of_this_engine(
    cluster: Cluster, tmp_path: Path, recwarn: pytest.WarningsRecorder, before: bool
) -> None:
    session = begin_and_lose_this_engine(cluster, tmp_path / "store", recwarn, replaced=before)
    if not before:
        cluster.join()
    assert len(session.result(timeout=180).finished()) == SEEDS


def test_a_cluster_that_is_left_with_another_engine_ends_the_session(
    cluster: Cluster, tmp_path: Path, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "PATIENCE_S", 1.0)
    session = begin_and_lose_this_engine(cluster, tmp_path / "store", recwarn)
    error = session.exception(timeout=60)
    assert isinstance(error, RunnerError)
    assert re.fullmatch(
        rf"the cluster at tcp://{cluster.address} has no worker with engine {re.escape(engine.version())} any more; worker "
        r"tcp://\S+ has another; finished runs are in the store; rerun the command to resume",
        str(error),
    )
    assert any((tmp_path / "store" / "runs").iterdir())


@pytest.mark.nightly
def test_a_run_fails_if_its_workers_end_repeatedly(
    cluster: Cluster, tmp_path: Path, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "MOVES", 0)
    session = begin_and_lose_this_engine(cluster, tmp_path / "store", recwarn)
    cluster.join()
    error = session.exception(timeout=180)
    assert isinstance(error, bentpipe.RunsFailedError)
    # Those that the cluster had for its five threads when the worker ended; the replacement made the others.
    assert 1 <= len(error.summary.failed) <= 5 * AHEAD
    assert {one.error for one in error.summary.failed} == {"lost on the cluster: its workers ended once"}
    assert len(error.results.finished()) == SEEDS - len(error.summary.failed)


@pytest.mark.nightly
def test_a_cluster_without_workers_is_reported_and_waited_for(
    cluster: Cluster, tmp_path: Path, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "store"
    wait_for_workers(cluster)
    scenario = tomllib.loads(SCENARIO.replace("seeds = 6", "seeds = 60"))
    session = begun(lambda: bentpipe.run(scenario, cluster=f"dask://{cluster.address}", out=out))
    until(lambda: (out / "runs").is_dir() and any((out / "runs").iterdir()))
    monkeypatch.setattr(dask, "CONNECT_SECONDS", 1)
    for worker in cluster.processes[1:]:
        kill(worker)
    until(lambda: len(recwarn) > 0)
    assert not session.done()
    cluster.join()
    assert len(session.result(timeout=180).finished()) == 60
    assert warned(recwarn) == [
        f"the cluster at tcp://{cluster.address} has no workers left: its runs wait for a worker"
    ]


def test_runs_of_a_cluster_are_written_whether_the_next_is_asked_for_or_not(
    cluster: Cluster, tmp_path: Path
) -> None:
    out = tmp_path / "store"
    wait_for_workers(cluster)
    with bentpipe.iter_runs(tomllib.loads(SCENARIO), cluster=f"dask://{cluster.address}", out=out) as runs:
        assert next(runs).done == 1
        until(lambda: len(bentpipe.open_results(out).finished()) == 6)
        assert [one.done for one in runs] == [2, 3, 4, 5, 6]


def test_a_cluster_has_few_runs_at_a_time_and_makes_those_again_that_end_with_a_worker(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let, add = threading.Event(), Writer.add

    def held(self: Writer, run: Run, data: RunFiles) -> dict[str, int]:
        assert let.wait(120)
        return add(self, run, data)

    monkeypatch.setattr(Writer, "add", held)
    scenario = tomllib.loads(GEO.replace("[[path", "seeds = 40\n[[path", 1))
    with cluster.asked() as client:
        on = f"dask://{cluster.address}"
        session = begun(lambda: bentpipe.run(scenario, cluster=on, out=tmp_path / "store"))
        most = 2 * AHEAD  # one of them waits in the coordinator

        def made() -> int:
            return sum(len(keys) for keys in client.has_what().values())

        until(lambda: made() >= most - 1)
        time.sleep(1)
        assert made() <= most
        kill(cluster.processes[1])
        until(lambda: len(client.nthreads()) == 1)
        let.set()
        assert len(session.result(timeout=120).finished()) == 40


def test_leaving_a_cluster_cancels_its_work(cluster: Cluster, tmp_path: Path) -> None:
    scenario = tomllib.loads(SCENARIO.replace("seeds = 6", "seeds = 200"))
    with cluster.asked() as client:
        with bentpipe.iter_runs(
            scenario, cluster=f"dask://{cluster.address}", out=tmp_path / "store"
        ) as runs:
            next(runs)
            assert any(client.processing().values())
        until(lambda: not any([*client.processing().values(), *client.has_what().values()]))
    assert 1 <= len(bentpipe.open_results(tmp_path / "store").finished()) < 200


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    plan = build_plan(load_scenario(tomllib.loads(GEO)), "any")
    with pytest.raises(RunnerError, match=r"requires dask\.distributed.*: pip install 'bentpipe\[dask\]'"):
        next(DaskRunner("dask://127.0.0.1:1", "any").run(plan.runs))
