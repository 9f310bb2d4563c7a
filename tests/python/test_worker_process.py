"""The result of a worker process, for any runner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Run, build_plan
from bentpipe.runners import dask, engine
from bentpipe.runners.local import Idle, InProcess, LocalRunner, _start_process
from bentpipe.runners.worker_process import READY, exactly, receive, send
from bentpipe.store.codec import RunFiles, decode, encode, encoder
from bentpipe.store.files import checksum

PACKAGE = Path(dask.__file__).parents[2]


def run() -> Run:
    """One of a second."""
    segment = {"name": "satellite", "delay": "20 ms", "both": {"rate": "10 Mbit/s", "loss": "0.1 %"}}
    flow = {"name": "bulk", "congestion": "cubic", "direction": "up"}
    scenario = {"duration": "1 s", "seeds": [1], "path": {"segment": [segment]}, "flow": [flow]}
    return build_plan(load_scenario(scenario), engine.version()).runs[0]


def test_every_runner_gives_the_same_files_with_their_checksums() -> None:
    one = run()
    wanted = encode(decode(engine.run(one.spec_json())))
    assert wanted.sums == {name: checksum(content) for name, content in wanted.files.items()}
    for runner in (LocalRunner(1), InProcess({})):
        (outcome,) = runner.run([one])
        assert outcome.data == wanted
    what, answer, _ = dask.execute(one.spec_json(), {}, engine.version(), encoder())
    assert (what, RunFiles.from_bytes(answer)) == (dask.FILES, wanted)


def test_runners_one_after_the_other_have_the_same_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has died meanwhile has a successor, and none is left."""
    made: list[subprocess.Popen[bytes]] = []

    def started(threads: int) -> subprocess.Popen[bytes]:
        made.append(_start_process(threads))
        return made[-1]

    monkeypatch.setattr("bentpipe.runners.local._start_process", started)
    one = run()
    wanted = encode(decode(engine.run(one.spec_json())))
    with Idle() as idle:
        for ended in (False, False, True):
            if ended:
                made[0].kill()
                made[0].wait()
            (outcome,) = LocalRunner(1, idle=idle).run([one])
            assert outcome.data == wanted
            assert not outcome.retried
            assert len(made) == 1 + ended
        assert made[1].poll() is None
    assert made[1].poll() is not None


def test_a_worker_of_a_cluster_that_would_encode_otherwise_sends_what_was_measured() -> None:
    one = run()
    what, answer, _ = dask.execute(one.spec_json(), {}, engine.version(), "another Polars")
    assert (what, answer) == (dask.MEASURED, engine.run(one.spec_json()))


def test_a_worker_of_another_engine_makes_nothing() -> None:
    what, answer, _ = dask.execute(run().spec_json(), {}, "another", encoder())
    assert what == dask.FAILED
    assert answer.decode() == f"{dask.WRONG}{engine.version()}"


def test_ctrl_c_at_a_terminal_is_not_a_workers_to_handle() -> None:
    """Polars has a handler, which would end its work."""
    with subprocess.Popen(
        [sys.executable, "-m", "bentpipe.runners.worker_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        send(worker.stdin, json.dumps({"controllers": {}, "search": [], "coordinator": os.getpid()}).encode())
        assert exactly(worker.stdout, 1) == READY
        for _ in range(5):
            send(worker.stdin, b"null\n" + run().spec_json().encode())
            assert exactly(worker.stdout, 1) == b"+"
            RunFiles.from_bytes(receive(worker.stdout))
            worker.send_signal(signal.SIGINT)
        worker.stdin.close()
        assert worker.wait(10) == 0


_LARGE = """
import polars as pl
from bentpipe.store import codec
from bentpipe.store.files import checksum
rows = 400_000
frame = pl.DataFrame({"time_s": pl.arange(rows, eager=True) * 0.37, "flow": ["a", "bb", "c", "d"] * (rows // 4)})
print(pl.thread_pool_size(), checksum(codec.parquet(frame)))
"""


def test_a_large_table_is_the_same_file_with_any_number_of_threads() -> None:
    """A worker's Polars has as many as there are processors for it, so that --jobs decides."""
    answers = []
    for threads in ("1", "3"):
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "POLARS_MAX_THREADS": threads}
        message = subprocess.run(
            [sys.executable, "-c", _LARGE], env=environment, capture_output=True, text=True, check=True
        )
        used, checksum = message.stdout.split()
        assert used == threads
        answers.append(checksum)
    assert answers[0] == answers[1]


def test_a_worker_imports_nothing_from_where_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's own random.py in the current folder is not the standard library's."""
    (tmp_path / "random.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    (outcome,) = LocalRunner(1).run([run()])
    assert outcome.data is not None, outcome.error
