"""SQL has bounds, ends at once with Ctrl-C, and leaves no temporary files, however it ends."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bentpipe
import commands
from bentpipe.store.query_limits import Guard, QueryLimitError, Relation, SpillFolder
from bentpipe.store.reader import Store
from nightly import keep

ROOT = Path(__file__).parents[2]
SMALL = {
    "title": "Small",
    "duration": "1 s",
    "path": {"segment": [{"name": "link", "delay": "5 ms", "both": {"rate": "10 Mbit/s"}}]},
    "flow": [{"name": "any", "congestion": "cubic"}],
}
ROWS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"
"""A query of minutes in blocks of rows; DuckDB checks for an interruption between blocks."""
ONE_VALUE = "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))"
"""For a minute, in one call, which DuckDB does not interrupt."""
SPILLING = "CREATE TABLE t AS SELECT range, hash(range)::VARCHAR || 'xxxxxxxxxxxx' AS x FROM range(30000000) ORDER BY x"
ANSWER = "SELECT * FROM range(2000000)"
"""Its rows fit into 64 MB and the slack beside them, and what is printed of them does not."""
ENDS_S = 20
"""A busy machine may take so long to end what ends at once; the queries take longer."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("limits") / "store"
    bentpipe.run(SMALL, jobs=1, out=path)
    return path


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "python"), "TMPDIR": str(folder), "POLARS_MAX_THREADS": "1"}


@contextmanager
def query(folder: Path, store: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """``bentpipe query`` whose SQL has begun: it has its temporary folder."""
    # nohup leaves SIGHUP ignored.
    reset = ["env", "--default-signal=HUP"]
    command = [*reset, sys.executable, "-m", "bentpipe.cli", "query", str(store), *words]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            until = time.monotonic() + 60
            while not list(folder.glob("bentpipe-query-*")) and time.monotonic() < until:
                time.sleep(0.02)
            assert list(folder.glob("bentpipe-query-*"))
            time.sleep(1)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("sql", [ROWS, ONE_VALUE])
def test_ctrl_c_ends_a_query_at_once(store: Path, tmp_path: Path, sql: str) -> None:
    with query(tmp_path, store, sql) as process:
        process.send_signal(signal.SIGINT)
        printed, message = process.communicate(timeout=ENDS_S)
    assert (process.returncode, printed, message) == (130, "", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_temporary_files_go_with_a_signal(store: Path, tmp_path: Path, number: signal.Signals) -> None:
    words = ("--memory", "64 MB", "--spill", "300 MB", "--threads", "1")
    with query(tmp_path, store, SPILLING, *words) as process:
        until = time.monotonic() + 30
        while not list(tmp_path.glob("bentpipe-query-*/*")) and time.monotonic() < until:
            time.sleep(0.02)
        assert list(tmp_path.glob("bentpipe-query-*/*"))
        process.send_signal(number)
        process.communicate(timeout=ENDS_S)
    assert process.returncode == -number
    assert not list(tmp_path.iterdir())


def test_the_files_of_a_killed_query_are_removed_by_the_next(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("old", "young", "used", "target"):
        (tmp_path / f"bentpipe-query-{name}").mkdir()
        (tmp_path / f"bentpipe-query-{name}" / "duckdb_temp_storage.tmp").write_bytes(b"rows")
    (tmp_path / "bentpipe-query-link").symlink_to(tmp_path / "bentpipe-query-target")
    used = os.open(tmp_path / "bentpipe-query-used", os.O_RDONLY)
    target = os.open(tmp_path / "bentpipe-query-target", os.O_RDONLY)
    fcntl.flock(used, fcntl.LOCK_EX)
    fcntl.flock(target, fcntl.LOCK_EX)
    for name in ("old", "used", "target"):
        os.utime(tmp_path / f"bentpipe-query-{name}", (0, 0))
    assert Store(store).connect().sql("SELECT count(*) FROM runs").fetchall() == [(1,)]
    names = {folder.name.removeprefix("bentpipe-query-") for folder in tmp_path.iterdir()}
    assert {"young", "used", "link", "target"} <= names
    assert "old" not in names
    assert (tmp_path / "bentpipe-query-target" / "duckdb_temp_storage.tmp").exists()
    os.close(used)
    os.close(target)


def test_a_folder_in_use_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = SpillFolder()
    os.utime(first.path, (0, 0))
    second = SpillFolder()
    assert first.path.is_dir()
    first.remove()
    second.remove()
    second.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM range(50000000)", "the query needs more than 64 MB of memory; --memory SIZE"),
        (
            "SELECT length(repeat('a', 1500000000))",
            "the query needs more than 64 MB of memory; --memory SIZE",
        ),
        (SPILLING, "the query needs more than 20 MB of temporary space; --spill SIZE"),
        (ANSWER, "the query needs more than 64 MB of memory; --memory SIZE"),
    ],
)
@pytest.mark.parametrize("form", keep([[]], [[], ["--json"]]))
def test_the_resources_of_a_query_are_bounded(
    store: Path, tmp_path: Path, sql: str, message: str, form: list[str]
) -> None:
    """Rows that Python holds, one value that DuckDB makes, temporary files, and the table that is printed."""
    words = ["query", str(store), sql, "--memory", "64 MB", "--spill", "20 MB", "--threads", "1", *form]
    done = subprocess.run(
        [sys.executable, "-m", "bentpipe.cli", *words], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


def test_limits_are_duckdbs_and_final(store: Path) -> None:
    asked = (
        "SELECT name, value FROM duckdb_settings() WHERE name IN "
        "('memory_limit', 'threads', 'max_temp_directory_size') ORDER BY name"
    )
    found = dict(Store(store).connect().execute(asked).fetchall())
    assert found == {
        "memory_limit": "1.8 GiB", "max_temp_directory_size": "3.7 GiB",
        "threads": str(len(os.sched_getaffinity(0))),
    }  # fmt: skip
    for unrestricted in (False, True):
        connection = Store(store).connect(unrestricted=unrestricted, memory="1 GiB", threads=3, spill="1 GiB")
        assert dict(connection.execute(asked).fetchall()) == {
            "memory_limit": "1.0 GiB", "max_temp_directory_size": "1.0 GiB", "threads": "3"
        }  # fmt: skip
    for setting in ("memory_limit = '100GB'", "threads = 64", "max_temp_directory_size = '1TB'"):
        with pytest.raises(bentpipe.StoreError, match="is not allowed"):
            Store(store).connect().execute(f"SET {setting}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--memory", "much"], "--memory: "),
        (["--memory", "1 kB"], '--memory: found "1 kB", expected at least "32 MB"'),
        (["--spill", "-1 GB"], "--spill: "),
        (
            ["--threads", "99999999999999999999"],
            "--threads: found 99999999999999999999, expected at most 1024",
        ),
        (["--threads", "1025"], "--threads: found 1025, expected at most 1024"),
        (["--memory", f"1{'0' * 30} B"], f'--memory: found "1{"0" * 30} B", which is too large'),
        (["--spill", f"1{'0' * 30} B"], f'--spill: found "1{"0" * 30} B", which is too large'),
    ],
)
def test_a_limit_that_is_none_is_named(store: Path, words: list[str], message: str) -> None:
    done = commands.bentpipe(store.parent, "query", "store", "FROM runs", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1


def test_the_largest_limits_are_duckdbs(store: Path) -> None:
    most = f"{2**63 - 1} B"
    words = ("--memory", most, "--spill", most, "--threads", "1024")
    done = commands.bentpipe(store.parent, "query", "store", "SELECT 7 AS seven", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["seven", "7"]


@pytest.mark.parametrize("begun", [True, False])
def test_ctrl_c_while_the_thread_of_a_query_starts_ends_it(
    store: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    connection, real = Store(store).connect(), threading.Thread.start
    threads: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        threads.append(thread)
        if begun:
            real(thread)
            time.sleep(1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(KeyboardInterrupt):
            connection.execute(ROWS)
    if begun:
        threads[0].join(ENDS_S)
        assert not threads[0].is_alive()
    else:
        threads[0].start()  # as one does that begins late
        threads[0].join(ENDS_S)
        assert not threads[0].is_alive()
    assert not connection.abandoned
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_call_within_a_call_has_its_bounds(store: Path) -> None:
    connection = Store(store).connect(memory="64 MB")

    def answer() -> list[str]:
        found = connection.execute("SELECT * FROM range(1000000)").fetchall()
        return [f"{number:0500}" for (number,) in found]

    with pytest.raises(QueryLimitError):
        connection.guard(answer)


NOTEBOOK = """
import os, signal, sys, threading
import bentpipe
results = bentpipe.open_results(sys.argv[1])
connection = results.connect()
asks = {
    "results.sql": lambda sql: results.sql(sql),
    "execute": connection.execute,
    "relation": lambda sql: connection.sql(sql).fetchall(),
    "shown": lambda sql: repr(connection.sql(sql)),
}
for name, ask in asks.items():
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        ask(sys.argv[2])
    except KeyboardInterrupt:
        print(name, "ended", flush=True)
    assert connection.execute("SELECT count(*) FROM runs").fetchall() == [(1,)]
assert results.sql("SELECT count(*) AS n FROM runs")["n"].to_list() == [1]
"""


def test_ctrl_c_ends_the_sql_of_a_notebook_and_the_connection_stays(store: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, str(store), ROWS], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.stdout.split("\n") == [
        "results.sql ended",
        "execute ended",
        "relation ended",
        "shown ended",
        "",
    ], done.stderr
    assert not list(tmp_path.iterdir())


def test_a_connection_with_a_query_that_does_not_end_says_so(store: Path) -> None:
    connection = Store(store).connect()
    guard = connection._guard
    assert isinstance(guard, Guard)
    guard.abandoned = True
    with pytest.raises(bentpipe.StoreError, match="an interrupted query is still running; connect again"):
        connection.execute("FROM runs")
    connection.close()
    assert not connection._spill.path.exists()


def test_a_relation_is_duckdbs(store: Path) -> None:
    relation = Store(store).connect().sql("SELECT run, seed FROM runs")
    assert isinstance(relation, Relation)
    assert relation.columns == ["run", "seed"]
    assert "seed" in relation
    assert relation.filter("seed = 1").select("seed").fetchall() == [(1,)]
    assert relation.union(relation).fetchall() == 2 * relation.fetchall()
    assert relation.seed.fetchall() == [(1,)]
    assert len(relation) == 1
    assert relation["seed"].fetchall() == [(1,)]
    assert "seed" in repr(relation)


def test_an_error_in_python_is_raised_where_it_was_asked(store: Path) -> None:
    connection = Store(store).connect(memory="64 MB")
    with pytest.raises(QueryLimitError, match=r'memory="SIZE"'):
        connection.execute("SELECT * FROM range(50000000)").fetchall()
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
