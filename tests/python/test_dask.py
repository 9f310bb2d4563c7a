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
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bentpipe import api
from bentpipe.plan.document import open_document
from bentpipe.plan.runs import make
from bentpipe.runners import engine
from bentpipe.runners.dask import DaskRunner
from bentpipe.runners.outcome import RunnerError

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
            worker = self.start(
                "distributed.cli.dask_worker",
                f"tcp://{self.address}",
                "--nthreads",
                "1",
                "--no-dashboard",
                "--no-nanny",
                "--local-directory",
                str(self.folder),
            )
            assert worker.stderr is not None
            threading.Thread(target=worker.stderr.read, daemon=True).start()

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
    api.run(path, jobs=2, out=tmp_path / "local")
    out = tmp_path / "cluster"

    def kill() -> None:
        runs = out / "runs"
        while not (runs.is_dir() and any(runs.iterdir())):
            time.sleep(0.01)
        os.killpg(cluster.processes[1].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    api.run(path, on=f"dask://{cluster.address}", out=out)
    killer.join(timeout=5)
    assert cluster.processes[1].poll() is not None
    files = sorted(file.relative_to(out) for file in (out / "runs").rglob("*") if file.is_file())
    assert len(files) >= 6 * 5
    for file in files:
        assert (out / file).read_bytes() == (tmp_path / "local" / file).read_bytes(), file


def test_workers_of_another_engine_and_a_missing_cluster_are_refused(cluster: Cluster) -> None:
    plan = make(open_document(tomllib.loads(GEO)), engine.version())
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
    done = run(["--on", f"dask://{cluster.address}"])
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("planning: ")]
    said = f"the connection to the Dask scheduler at tcp://{cluster.address} was lost; what is finished is in the store"
    assert lines == [f"error: {said}, and the same command goes on where it stopped"]
    kept = len(list((out / "runs").iterdir()))
    assert 1 <= kept < 6
    done = run(["--jobs", "1"])
    assert done.returncode == 0, done.stderr
    assert f"6 of 6 runs in {out} ({kept} were there already)" in done.stdout


def test_a_worker_of_another_engine_that_joins_late_is_left_out(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "test.toml").write_text(SCENARIO)
    (tmp_path / "other_engine.py").write_text(
        'from bentpipe.runners import engine\nengine.version = lambda: "another"\n'
    )
    out = tmp_path / "store"

    def join() -> None:
        while not ((out / "runs").is_dir() and any((out / "runs").iterdir())):
            time.sleep(0.01)
        cluster.start(
            "distributed.cli.dask_worker", f"tcp://{cluster.address}", "--nthreads", "4", "--no-dashboard", "--no-nanny",
            "--local-directory", str(tmp_path), "--preload", str(tmp_path / "other_engine.py"),
        )  # fmt: skip

    wait_for_workers(cluster)
    threading.Thread(target=join, daemon=True).start()
    scenario = SCENARIO.replace("seeds = 6", "seeds = 60")
    with pytest.warns(UserWarning, match=r"worker tcp://\S+ has engine another, this is .*: it is left out"):
        results = api.run(tomllib.loads(scenario), on=f"dask://{cluster.address}", out=out)
    assert len(results.finished()) == 60


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    plan = make(open_document(tomllib.loads(GEO)), "any")
    with pytest.raises(RunnerError, match=r"needs dask\.distributed.*: pip install 'bentpipe\[dask\]'"):
        next(DaskRunner("dask://127.0.0.1:1", "any").run(plan.runs))
