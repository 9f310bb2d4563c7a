"""SQL over a store reads only the tables of the store, unless other access is allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import bentpipe
import store_damage
from bentpipe.store.reader import Store
from bentpipe.store.sql import OutOfBoundsError

ROOT = Path(__file__).parents[2]
SMALL = {
    "title": "Small",
    "duration": "1 s",
    "path": {"segment": [{"name": "link", "delay": "5 ms", "both": {"rate": "10 Mbit/s"}}]},
    "flow": [{"name": "any", "congestion": "cubic"}],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("asking") / "it's a store"
    bentpipe.run(SMALL, jobs=1, out=path)
    return path


OUT_OF_BOUNDS = (
    "COPY (SELECT 1) TO 'OUT/x.csv'",
    "COPY flows TO 'OUT/x.parquet'",
    "COPY (SELECT 1) TO 'TABLE' (FORMAT csv, USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO 'TABLE' (FORMAT csv, USE_TMP_FILE false)",
    "PREPARE x AS COPY (SELECT 1) TO 'TABLE' (FORMAT csv)",
    "SELECT 1; COPY (SELECT 1) TO 'TABLE' (FORMAT csv, USE_TMP_FILE false)",
    "CREATE TABLE t (word TEXT); COPY t FROM 'OUT/secret.csv'",
    "EXPORT DATABASE 'OUT/all'",
    "IMPORT DATABASE 'OUT/all'",
    "ATTACH 'OUT/x.db'",
    "ATTACH 'TABLE' AS x",
    "ATTACH 'https://127.0.0.1:9/x.db'",
    "FROM 'OUT/secret.csv'",
    "FROM read_csv('OUT/secret.csv')",
    "FROM read_text('OUT/secret.csv')",
    "FROM read_blob('/proc/self/environ')",
    "FROM glob('OUT/*')",
    "FROM read_text('STORE/plan.json')",
    "FROM 'https://127.0.0.1:9/x.parquet'",
    "FROM read_parquet('s3://bucket/x.parquet')",
    "CREATE VIEW v AS FROM read_csv('OUT/secret.csv')",
    "WITH x AS MATERIALIZED (FROM read_text('OUT/secret.csv')) FROM x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD 'OUT/x.duckdb_extension'",
    "UPDATE EXTENSIONS",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "RESET lock_configuration",
    "PRAGMA enable_profiling",
    "CALL enable_logging(storage = 'file', storage_path = 'OUT/log')",
    "CREATE SECRET (TYPE s3)",
)


def statement(text: str, store: Path, out: Path) -> str:
    table = min(store.glob("runs/*/flows.parquet"))
    words = {"OUT": out, "TABLE": table, "STORE": store}
    for word, path in words.items():
        text = text.replace(word + "/" if word != "TABLE" else "'TABLE'", _place(word, path))
    return text


def _place(word: str, path: Path) -> str:
    quoted = str(path).replace("'", "''")
    return f"'{quoted}'" if word == "TABLE" else f"{quoted}/"


@pytest.mark.parametrize("way", ["execute", "sql", "query"])
def test_queries_beyond_the_store_are_refused_in_one_line(store: Path, tmp_path: Path, way: str) -> None:
    (tmp_path / "secret.csv").write_text("word\nsesame\n")
    before = store_damage.contents(store)
    for text in OUT_OF_BOUNDS:
        ask: Callable[[str], Any] = getattr(Store(store).connect(), way)
        with pytest.raises(
            OutOfBoundsError, match="is not allowed: SQL may read only the tables of this store"
        ) as found:
            ask(statement(text, store, tmp_path))
        assert "\n" not in str(found.value), text
        assert "sesame" not in str(found.value)
    assert store_damage.contents(store) == before
    assert [file.name for file in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT count(DISTINCT side) FROM flows", [(2,)]),
        ("FROM (DESCRIBE runs) SELECT column_name", [("run",), ("seed",)]),
        ("PIVOT (SELECT DISTINCT flow, side FROM flows) ON side USING count(*)", [("any", 1, 1)]),
        ("CREATE TEMP TABLE a AS SELECT DISTINCT flow FROM flows; FROM a", [("any",)]),
        ("SELECT getvariable('nothing')", [(None,)]),
        ("SELECT 'COPY' AS words", [("COPY",)]),
        ("SELECT name FROM (SHOW TABLES) WHERE name = 'links'", [("links",)]),
    ],
)
def test_unsuitable_requests_get_an_answer(store: Path, text: str, rows: list[tuple[object, ...]]) -> None:
    assert Store(store).connect().execute(text).fetchall() == rows
    assert Store(store).connect().sql(text).fetchall() == rows


def test_a_connection_ends_with_its_block(store: Path) -> None:
    for unrestricted in (False, True):
        with Store(store).connect(unrestricted=unrestricted) as answers:
            assert answers.sql("SELECT count(*) FROM runs").fetchall() == [(1,)]
        with pytest.raises(duckdb.ConnectionException):
            answers.execute("FROM runs")


def test_a_mistake_in_sql_is_duckdbs_to_explain(store: Path) -> None:
    with pytest.raises(duckdb.CatalogException, match="Table with name nothing does not exist"):
        Store(store).connect().sql("FROM nothing")
    with pytest.raises(AttributeError, match="read_csv"):
        Store(store).connect().read_csv("x.csv")


def test_a_variable_of_the_callers_is_no_table(store: Path) -> None:
    import polars as pl

    secret = pl.DataFrame({"word": ["sesame"]})
    assert secret.height == 1
    with pytest.raises(duckdb.CatalogException):
        Store(store).connect().sql("FROM secret")


def test_unrestricted_it_may_do_anything(store: Path, tmp_path: Path) -> None:
    answers = Store(store).connect(unrestricted=True)
    answers.execute(f"COPY (SELECT 7 AS x) TO '{tmp_path}/x.csv'")
    assert answers.sql(f"FROM read_csv('{tmp_path}/x.csv')").fetchall() == [(7,)]
    assert answers.sql("SELECT count(*) FROM flow_summary").fetchall() == [(2,)]


def test_from_the_command_line(store: Path, tmp_path: Path) -> None:
    def query(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bentpipe.cli", "query", str(store), *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )

    done = query("COPY flows TO 'x.csv'")
    assert done.returncode == 2
    assert done.stderr == (
        "error: COPY is not allowed: SQL may read only the tables of this store; use "
        "query --unrestricted or connect(unrestricted=True)\n"
    )
    assert not list(tmp_path.iterdir())
    assert query("COPY flows TO 'x.csv'", "--unrestricted").returncode == 0
    assert (tmp_path / "x.csv").read_text().startswith("run,seed,")
    done = query("FROM 'x.csv'")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: x.csv is not allowed")
