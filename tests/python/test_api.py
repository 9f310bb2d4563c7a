"""bentpipe from Python: results, runs as they finish, checks; and that importing it is light."""

from __future__ import annotations

import builtins
import inspect
import io
import os
import re
import subprocess
import sys
import threading
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import duckdb
import polars as pl
import pytest

import bentpipe
import bentpipe_studies
from bentpipe.api import run as api_run
from bentpipe.plan.plan import Run
from bentpipe.runners.runner import RunOutcome
from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.codec import TABLES
from bentpipe.store.sql import OutOfBoundsError

SCENARIO = {
    "title": "Two controllers at two delays",
    "duration": "3 s",
    "seeds": 2,
    "path": {
        "segment": [
            {
                "name": "satellite",
                "delay": "20 ms",
                "both": {"rate": "5 Mbit/s", "queue": "1 BDP"},
                "up": {"loss": "0.5 %"},
            }
        ]
    },
    "flow": [{"name": "bulk", "congestion": "cubic"}],
    "sweep": {"flow.bulk.congestion": ["cubic", "newreno"], "path.satellite.delay": ["20 ms", "60 ms"]},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> bentpipe.Results:
    return bentpipe.run(SCENARIO, jobs=2, out=tmp_path_factory.mktemp("api") / "store")


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, bentpipe, bentpipe.scenario; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"polars", "pydantic", "duckdb", "numpy", "scipy", "altair", "typer", "rich", "bentpipe._engine"}
    assert not heavy & set(loaded)
    assert [name for name in loaded if name.startswith("bentpipe.")] == ["bentpipe.scenario"]


def test_every_public_name_is_there() -> None:
    assert Path(bentpipe.__file__).with_name("py.typed").exists()  # type checkers read the types
    for name in bentpipe.__all__:
        assert getattr(bentpipe, name) is not None
    assert dir(bentpipe) == sorted(bentpipe.__all__)
    with pytest.raises(AttributeError, match=r"no attribute 'runs'"):
        bentpipe.runs  # noqa: B018


def test_every_table_is_a_property(results: bentpipe.Results) -> None:
    for name in TABLES:
        assert isinstance(getattr(bentpipe.Store, name), property)
    assert results.flow_summary.equals(results.table("flow_summary"))
    assert results.flows.height == results.table("flows").height > 0
    assert results.packets.is_empty()
    with pytest.raises(AttributeError):
        results.sumary  # type: ignore[attr-defined]  # noqa: B018


def test_a_scan_is_lazy_and_gives_the_table(results: bentpipe.Results) -> None:
    for name in ("runs", "flow_summary", "flows", "links"):
        found = results.scan(name)
        assert isinstance(found, pl.LazyFrame)
        assert found.collect().equals(results.table(name))
    last = (
        results.scan("flows")
        .filter(pl.col("path.satellite.delay_s") > 0.05)
        .select("run", "time_s")
        .collect()
    )
    assert last["run"].n_unique() == 4
    assert last.columns == ["run", "time_s"]
    with pytest.raises(bentpipe.StoreError, match=r"no table 'flow', expected one of: runs, flow_summary"):
        results.scan("flow")


def test_metrics_and_cells(results: bentpipe.Results) -> None:
    metrics = results.metrics()
    keys = ["flow.bulk.congestion", "path.satellite.delay", "path.satellite.delay_s"]
    assert metrics.columns[:7] == ["run", "seed", *keys, "flow", "direction"]
    assert metrics.height == 8
    assert metrics["goodput_bit_s"].max() < 5e6
    cells = results.cells().filter(metric="goodput_bit_s")
    assert cells["n"].to_list() == [2] * 4
    assert cells.columns[:3] == keys
    by_hand = metrics.group_by(keys, maintain_order=True).agg(pl.col("goodput_bit_s").mean())
    assert cells["mean"].to_list() == pytest.approx(by_hand["goodput_bit_s"].to_list())
    assert (cells["mean_low"] < cells["mean"]).all()


def test_figures_are_altair_charts(results: bentpipe.Results) -> None:
    there = results.figures()
    assert {"goodput-by-parameter", "cwnd", "rtt", "queue-length"} <= set(there)
    assert "packet-sequence" not in there
    for key in there:
        chart = results.figure(key)
        assert isinstance(chart, alt.TopLevelMixin)
        drawn = io.StringIO()
        chart.save(drawn, format="svg")
        assert drawn.getvalue().startswith("<svg")
    assert results.figure("cwnd").to_dict()["title"]["text"] == "Congestion window"
    short = results.figure("cwnd", time_range="1 s")
    assert len(str(short.to_dict())) < len(str(results.figure("cwnd").to_dict()))
    with pytest.raises(ValueError, match=r'no figure "cwmd".*did you mean "cwnd"'):
        results.figure("cwmd")
    with pytest.raises(ValueError, match='has nothing for "packet-sequence"'):
        results.figure("packet-sequence")
    with pytest.raises(ValueError, match=r"time range"):
        results.figure("cwnd", time_range="soon")


def test_a_report_and_a_difference(results: bentpipe.Results, tmp_path: Path) -> None:
    page = results.report(tmp_path / "page.html", time_range="2 s")
    assert page == tmp_path / "page.html"
    assert "Time series, 0 to 2 s" in page.read_text()
    same = results.diff(results)
    assert not same.regressed
    assert set(same.frame()["verdict"]) == {"none"}
    few = bentpipe.run(SCENARIO, jobs=2, settings={"path.satellite.up.loss": "5 %"})
    assert not results.diff(few).regressed, "two seeds"
    assert results.diff(few).notes == (
        "The scenarios differ in path.satellite.up.loss (0.5 % before, 5 % after).",
    )
    first = bentpipe.run(SCENARIO, jobs=2, seeds=5)
    slower = bentpipe.run(SCENARIO, jobs=2, seeds=5, settings={"path.satellite.up.loss": "5 %"})
    assert first.diff(slower).regressed
    changes = slower.diff(first.path).changes
    assert "improvement" in {change.verdict for change in changes if change.metric == "goodput_bit_s"}


def test_sql_gives_frames(results: bentpipe.Results) -> None:
    found = results.sql(
        'SELECT "path.satellite.delay_s" AS delay_s, sum(sent_bytes) AS sent, count(*) AS n, 0.5 AS half '
        "FROM flow_summary WHERE side = 'client' GROUP BY ALL ORDER BY ALL"
    )
    assert dict(found.schema) == {"delay_s": pl.Float64, "sent": pl.Int64, "n": pl.Int64, "half": pl.Float64}
    frame = (
        results.flow_summary.filter(side="client")
        .group_by("path.satellite.delay_s")
        .agg(pl.col("sent_bytes").sum())
    )
    assert found.select("delay_s", "sent").rows() == sorted(frame.rows())
    empty = results.sql("SELECT run, time_s FROM flows WHERE false")
    assert dict(empty.schema) == {"run": pl.String, "time_s": pl.Float64}
    assert results.sql("SELECT sum(9223372036854775807::BIGINT) * 4 AS large").item() == 4 * (2**63 - 1)
    with pytest.raises(
        bentpipe.QueryError, match=r'no table "flow", expected one of: runs, .*did you mean "flows"'
    ):
        results.sql("SELECT * FROM flow")
    with pytest.raises(
        bentpipe.QueryError, match=r'the table "calls" is empty in this store; give a flow load'
    ):
        results.sql("SELECT * FROM calls")
    with pytest.raises(bentpipe.QueryError, match=r'no column "cwnd".*did you mean "cwnd_') as refused:
        results.sql("SELECT cwnd FROM flows")
    assert isinstance(refused.value.__cause__, duckdb.Error)
    with pytest.raises(bentpipe.QueryError, match=r'^invalid query: syntax error at or near "selec"'):
        results.sql("selec 1")
    with pytest.raises(OutOfBoundsError):
        results.sql("SELECT * FROM read_csv('/etc/passwd')")


def test_types_of_sql_pass_as_arrow_data(results: bentpipe.Results) -> None:
    found = results.sql(
        "SELECT 1 AS a, 2 AS a, sum(1) AS sum, interval 1 hour AS span, 'x'::enum('x', 'y') AS word, [1, 2] AS list, "
        "{'a': 1} AS struct, date '2020-01-01' AS day, [0.5::DECIMAL(3, 1)] AS decimals, NULL AS nothing"
    )
    assert dict(found.schema) == {
        "a": pl.Int32, "a_2": pl.Int32, "sum": pl.Int64, "span": pl.Duration("us"), "word": pl.String,
        "list": pl.List(pl.Int32), "struct": pl.Struct({"a": pl.Int32}), "day": pl.Date, "decimals": pl.String,
        "nothing": pl.Null,
    }  # fmt: skip
    assert found.select("a", "a_2", "sum", "list").row(0) == (1, 2, 1, [1, 2])
    with results.connect() as connection:
        assert connection.sql("SELECT interval 1 hour AS span FROM runs").pl().height == 8
        assert repr(connection).startswith("<bentpipe SQL connection: runs, flow_summary,")


def test_wide_and_long_forms_have_the_same_numbers(results: bentpipe.Results) -> None:
    wide, long = results.metrics(), results.metrics(form="long")
    assert long.columns[-2:] == ["metric", "value"]
    assert long.height == sum(wide[name].count() for name in long["metric"].unique())
    by_metric = long.filter(metric="goodput_bit_s")
    assert by_metric["value"].to_list() == wide["goodput_bit_s"].to_list()
    assert by_metric["run"].to_list() == wide["run"].to_list()
    long, wide = results.cells(), results.cells(form="wide")
    assert wide.height == 4
    assert wide["goodput_bit_s"].to_list() == long.filter(metric="goodput_bit_s")["mean"].to_list()
    for method in (results.metrics, results.cells):
        with pytest.raises(ValueError, match=r'form: no form "wid".*did you mean "wide"'):
            method("wid")  # type: ignore[arg-type]


def test_exports_have_the_forms_of_the_api(results: bentpipe.Results, tmp_path: Path) -> None:
    from bentpipe.report.export import export
    from bentpipe.report.ods import sheets
    from bentpipe.store.reader import open_store

    written = {path.name for path in export(bentpipe.Store(results.path), "parquet", tmp_path)}
    assert {"runs.parquet", "flows.parquet", "metrics.parquet", "cells.parquet"} <= written
    store = bentpipe.Store(results.path)
    for name, frame in (("metrics", results.metrics()), ("cells", results.cells())):
        exported = pl.read_parquet(tmp_path / f"{name}.parquet")
        assert exported.equals(frame.select(exported.columns))
        assert sheets(open_store(store))[name].columns == exported.columns


def test_pandas_and_pyarrow_are_optional(results: bentpipe.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=r"^pandas is not installed; install it with: pip install pandas pyarrow"
    ):
        results.to_pandas("flows")
    with pytest.raises(ImportError, match=r"^pyarrow is not installed; install it with: pip install pyarrow"):
        results.to_arrow("metrics")
    with results.connect() as connection:
        with pytest.raises(ImportError, match=r"^pandas is not installed"):
            connection.sql("FROM runs").df()
        with pytest.raises(ImportError, match=r"^pyarrow is not installed"):
            connection.execute("FROM runs").to_arrow_table()
    monkeypatch.undo()
    monkeypatch.setattr("bentpipe.store.query_frame.require", lambda *_: None)
    monkeypatch.setattr(pl.DataFrame, "to_pandas", lambda frame: frame)
    assert results.to_pandas("cells", "wide").equals(results.cells("wide"))
    assert results.to_pandas("flows").equals(results.flows)
    with pytest.raises(
        ValueError, match=r'form: found "long" for "flows", expected it for metrics or cells only'
    ):
        results.to_pandas("flows", "long")


def test_a_temporary_store_closes_without_warnings(tmp_path: Path) -> None:
    script = f"""
import bentpipe
scenario = {SCENARIO!r} | {{"duration": "1 s", "seeds": 1, "sweep": {{}}}}
with bentpipe.run(scenario) as closed:
    assert closed.flows.height
assert not closed.path.exists()
print(closed)
for read in (lambda: closed.flows, closed.metrics, lambda: closed.sql("FROM runs")):
    try:
        read()
    except bentpipe.StoreError as error:
        print(error)
closed.close()
dropped = bentpipe.run(scenario).path
assert not dropped.exists()
print(bentpipe.run(scenario).connect().sql("SELECT count(*) FROM runs").fetchall())
print(bentpipe.run(scenario).connect().sql("FROM runs").pl().height)
next(bentpipe.iter_runs(scenario))
left = bentpipe.run(scenario)
"""  # noqa: S608 - the query is a constant
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script],
        capture_output=True, text=True, check=False, env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    closed = "the temporary store is closed; run with out=DIR to keep the results\n"
    title = "<bentpipe results: Two controllers at two delays, closed>\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{title}{closed * 3}[(1,)]\n1\n", "")
    assert not list(tmp_path.iterdir())


class Window:
    """A congestion window of ten packets; it reports its process."""

    def __init__(self, config: Any) -> None:
        self.window = config.initial_window

    def on_event(self, now: int, event: object) -> int:
        return int(self.window)

    def trace(self) -> dict[str, float]:
        return {"process": float(os.getpid())}


def notebook_class(**members: object) -> type:
    """A class as a notebook has it: of ``__main__``."""
    return type("Mine", (), {**{name: member for name, member in vars(Window).items() if callable(member)},
                             "__module__": "__main__", **members})  # fmt: skip


OWN = {
    **SCENARIO,
    "duration": "1 s",
    "flow": [{"name": "bulk", "congestion": "mine"}],
    "sweep": {},
    "seeds": 4,
}


def test_a_class_of_a_notebook_runs_in_the_workers() -> None:
    pytest.importorskip("cloudpickle")
    mine = notebook_class()
    many = bentpipe.run(OWN, {"mine": mine}, jobs=2)
    assert float(os.getpid()) not in many.controller_state["value"].to_list()
    one = bentpipe.run(OWN, {"mine": mine}, jobs=1)
    assert set(one.controller_state["value"]) == {float(os.getpid())}
    assert many.flows.equals(one.flows)


def warnings_of_a_run(controller: type) -> tuple[Any, list[warnings.WarningMessage]]:
    """Run OWN with a class and return its results and each warning about the class."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = bentpipe.run(OWN, {"mine": controller}, jobs=2)
    return results, [each for each in caught if issubclass(each.category, bentpipe.UserCodeWarning)]


def test_a_class_that_stays_in_this_process_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cloudpickle")
    _, warned = warnings_of_a_run(notebook_class(lock=threading.Lock()))
    assert len(warned) == 1
    assert "one run at a time, because cloudpickle rejects it" in str(warned[0].message)
    assert warned[0].filename == __file__
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    results, warned = warnings_of_a_run(notebook_class())
    assert len(warned) == 1
    assert "install cloudpickle (pip install cloudpickle), or move" in str(warned[0].message)
    assert set(results.controller_state["value"]) == {float(os.getpid())}


def test_a_fingerprint_has_no_addresses() -> None:
    from bentpipe.api.user_code import fingerprint

    source = (
        "class Mine:\n    def on_event(self, now, event):\n        return [x for x in (lambda: [1])()][0]\n"
    )
    classes: list[dict[str, Any]] = [{"__name__": "__main__"}, {"__name__": "__main__"}]
    for names in classes:
        exec(source, names)  # noqa: S102
        names["Mine"].__module__ = "nowhere"
    assert fingerprint(classes[0]["Mine"]) == fingerprint(classes[1]["Mine"])


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ({"controllers": {"mine": 5}}, "controllers.mine: found 5, expected a class"),
        (
            {"controllers": {"mine": int}},
            "controllers.mine: int has no method on_event, expected a class with it",
        ),
        ({"controllers": Window}, "controllers: found Window, expected names and classes such as"),
        ({"controllers": {"cubic": Window}}, 'controllers.cubic: "cubic" is a built-in name'),
        ({"schedulers": {"mine": Window}}, "schedulers.mine: Window has no method choose"),
        ({"settings": ["a=b"]}, "settings: found ['a=b'], expected keys and values such as"),
        ({"settings": {5: "x"}}, "settings: found the key 5, expected keys and values such as"),
        ({"settings": {"path.satelite.delay": "1 ms"}}, 'did you mean "satellite"? (in settings)'),
        ({"scenario": None}, "scenario: found None, expected a TOML file, a table, or a bentpipe.Scenario"),
        ({"scenario": "geo-konnect"}, '"geo-konnect" is a preset, expected it as path.preset of a scenario'),
    ],
)
def test_a_wrong_argument_fails_at_once_by_its_name(arguments: dict[str, Any], output: str) -> None:
    for function in (bentpipe.run, bentpipe.iter_runs, bentpipe.check):
        with pytest.raises(ScenarioError) as refused:
            function(**{"scenario": SCENARIO, **arguments})
        assert output in str(refused.value)


@pytest.mark.parametrize("jobs", [0, -1, "4", True])
def test_a_wrong_number_of_workers_is_refused(jobs: Any) -> None:
    with pytest.raises(ValueError, match=r"^jobs: found .*, expected a number of workers from 1"):
        bentpipe.run(SCENARIO, jobs=jobs)
    with pytest.raises(TypeError, match=r"^on_progress: found 5, expected a function"):
        bentpipe.run(SCENARIO, on_progress=5)  # type: ignore[arg-type]


def test_objects_are_short_in_a_notebook(results: bentpipe.Results) -> None:
    check = bentpipe.check(SCENARIO)
    assert (
        repr(check)
        == "<bentpipe check: Two controllers at two delays, 4 cells, 8 runs, 0 warnings, 24 s of link time>"
    )
    assert "<table" in check._repr_html_()
    difference = results.diff(results)
    assert repr(difference).startswith("<bentpipe comparison: ")
    assert "<table" in difference._repr_html_()
    with bentpipe.iter_runs(SCENARIO, jobs=1, settings={"duration": "1 s"}) as runs:
        assert repr(runs).startswith("<bentpipe runs: 8 of 8 to execute, ")
        assert re.match(
            r"<bentpipe run 1 of 8: \w+, flow.bulk.congestion = \w+, .*, seed \d: \d+ packets, ",
            repr(next(runs)),
        )
    assert len(repr(bentpipe.presets()[0])) < 100


def test_no_public_name_shadows_a_builtin() -> None:
    kinds = (bentpipe.Results, bentpipe.CheckResult, bentpipe.RunIterator, bentpipe.RunResult, bentpipe.Store)
    functions = [getattr(bentpipe, name) for name in bentpipe.__all__ if name[0].islower()]
    functions += [member for kind in kinds for _, member in inspect.getmembers(kind, inspect.isfunction)]
    parameters = {name for function in functions for name in inspect.signature(function).parameters}
    assert not (parameters | set(bentpipe.__all__)) & set(dir(builtins)) - {"__name__"}
    assert not {name for name in dir(bentpipe.Results) if name[0] != "_"} & set(dir(builtins))


def test_results_offer_the_documented_names(results: bentpipe.Results) -> None:
    offered = {name for name in dir(results) if name[0] != "_"}
    assert all(hasattr(bentpipe.Results, name) or name in vars(results) for name in dir(results))
    assert set(TABLES) <= offered
    page = (Path(__file__).parents[2] / "docs/how-to/python.md").read_text()
    assert not {name for name in offered - set(TABLES) if f"`.{name}" not in page}
    assert not {
        name for name in bentpipe.__all__ if f"bentpipe.{name}" not in page and f"`{name}`" not in page
    }


def test_runs_come_as_they_finish(tmp_path: Path) -> None:
    runs = bentpipe.iter_runs(SCENARIO, jobs=1, out=tmp_path / "store")
    assert len(runs) == 8
    seen = []
    for one in runs:
        seen.append(one)
        assert (one.done, one.total) == (len(seen), 8)
        assert len(runs.results.finished()) == len(seen)
        assert one.packets > 0
        assert not one.error
    assert {one.run.id for one in seen} == set(runs.results.runs["run"])
    assert (runs.summary.done, runs.summary.reused) == (8, 0)
    # the same again has nothing to do
    again = bentpipe.iter_runs(SCENARIO, jobs=1, out=tmp_path / "store")
    assert len(again) == 0
    assert list(again) == []
    assert again.summary.reused == 8


def test_leaving_early_keeps_what_is_finished_and_lets_the_store_go(tmp_path: Path) -> None:
    with bentpipe.iter_runs(SCENARIO, jobs=1, out=tmp_path / "store") as runs:
        next(runs)
        with pytest.raises(bentpipe.StoreError):
            bentpipe.iter_runs(SCENARIO, jobs=1, out=tmp_path / "store")
    assert list(runs) == []
    saved = len(runs.results.finished())
    assert 1 <= saved < 8
    messages = []
    results = bentpipe.run(SCENARIO, jobs=1, out=tmp_path / "store", on_progress=messages.append)
    assert len(messages) == 8 - saved
    assert len(results.finished()) == 8


def test_an_exception_of_a_callback_ends_the_session(tmp_path: Path) -> None:
    def enough(one: bentpipe.RunResult) -> None:
        raise RuntimeError(f"enough after {one.done}")

    with pytest.raises(RuntimeError, match=r"enough after 1"):
        bentpipe.run(SCENARIO, jobs=1, out=tmp_path / "store", on_progress=enough)
    assert 1 <= len(bentpipe.open_results(tmp_path / "store").finished()) < 8


def test_a_run_that_fails_is_given_with_its_error() -> None:
    class Broken:
        def __init__(self, config: object) -> None:
            pass

        def on_event(self, now: int, event: object) -> int:
            raise RuntimeError("no idea")

    data = {**SCENARIO, "sweep": {"flow.bulk.congestion": ["cubic", "mine"]}, "seeds": 1}
    errors = {
        one.run.cell["flow.bulk.congestion"]: one.error for one in bentpipe.iter_runs(data, {"mine": Broken})
    }
    assert errors["cubic"] == ""
    assert "no idea" in errors["mine"]


class Lab:
    """Replaces labs: it records its arguments and fails every run."""

    made: tuple[object, ...] = ()

    def __init__(self, program: Path, version: str, jobs: int | None = None) -> None:
        type(self).made = (program, version, jobs)

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        for run in runs:
            yield RunOutcome(run, None, "the emulator missed its deadlines", invalid=True)


def test_in_real_time_a_run_is_a_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    from bentpipe.lab.emulation import runner

    monkeypatch.setattr(runner, "EmulationRunner", Lab)
    monkeypatch.setattr("bentpipe.lab.executable.executable", lambda: Path("bentpipe-rt"))
    with pytest.raises(bentpipe.RunsFailedError, match="missed its deadlines") as failed:
        bentpipe.run(SCENARIO, engine="emu", jobs=3)
    assert Lab.made == (Path("bentpipe-rt"), bentpipe.__version__, 3)
    # every seed is run: real time is its own chance
    assert failed.value.summary.planned == 8
    assert failed.value.results.engine.endswith("-emu")
    assert "--engine emu" in failed.value.summary.failed[0].replay
    with pytest.raises(ValueError, match=r"found controllers beside"):
        bentpipe.run(SCENARIO, {"mine": Lab}, engine="emu")
    with pytest.raises(ValueError, match=r"engine: no engine"):
        api_run.iter_runs(SCENARIO, engine="emo")  # type: ignore[arg-type]


def test_a_check_is_what_the_command_says() -> None:
    found = bentpipe.check(SCENARIO)
    assert (found.cells, found.runs, found.link_seconds) == (4, 8, 24.0)
    frame = found.frame()
    assert frame.columns[:4] == [
        "flow.bulk.congestion",
        "path.satellite.delay",
        "path.satellite.delay_s",
        "flow",
    ]
    assert frame["rate_bit_s"].to_list() == [5_000_000] * 4
    assert (frame["min_rtt_ms"] > 2e3 * frame["path.satellite.delay_s"]).all()
    assert frame["first_byte_s"].dtype == pl.Float64
    silent = {**SCENARIO, "path": {"segment": [{"name": "satellite", "delay": "20 ms"}]}, "sweep": {}}
    silent["flow"] = [{**SCENARIO["flow"][0], "transport": "tcp"}]
    assert [warning.key for warning in bentpipe.check(silent).warnings] == ["seeds"]
    with pytest.raises(ScenarioError, match=r"flow.bulk.congestion"):
        bentpipe.check(SCENARIO, settings={"flow.bulk.congestion": ["cubik"]})


@pytest.mark.parametrize("seeds", [0, -2, 200_000, "3"])
def test_invalid_seeds_are_reported_with_their_key(seeds: Any, tmp_path: Path) -> None:
    expected = "scenario: seeds: found .*, expected a number of seeds from 1 to 100000"
    with pytest.raises(ScenarioError, match=expected):
        bentpipe.check(SCENARIO, seeds=seeds)
    with pytest.raises(ScenarioError, match=expected):
        bentpipe.run(SCENARIO, seeds=seeds, out=tmp_path / "store")
    with pytest.raises(ScenarioError, match=expected):
        bentpipe_studies.run("etosat", part="small", seeds=seeds)
    assert not (tmp_path / "store").exists()


def test_presets_are_what_scenarios_name() -> None:
    names = [preset.name for preset in bentpipe.presets()]
    data = {key: value for key, value in SCENARIO.items() if key not in ("path", "sweep")}
    assert bentpipe.check({**data, "path": {"preset": names[0]}}).runs >= 1
    assert all(preset.source for preset in bentpipe.presets())


def test_a_scenario_file_is_taken_too(tmp_path: Path) -> None:
    from bentpipe.scenario.toml_writer import dumps

    (tmp_path / "x.toml").write_text(dumps(SCENARIO))
    assert tomllib.loads((tmp_path / "x.toml").read_text()) == SCENARIO
    assert bentpipe.check(tmp_path / "x.toml").runs == 8


def test_a_map_is_a_frame(tmp_path: Path) -> None:
    found = bentpipe.break_even_map(
        "geo-konnect",
        controllers=["cubic"],
        windows=[10],
        sizes=["10 kB"],
        rtts=["300 ms"],
        jobs=1,
        out=tmp_path,
    )
    rows = found.frame().rows(named=True)
    assert [(row["variant"], row["proxy"], row["bytes"], row["rtt_s"]) for row in rows] == [
        (variant, proxy, 10_000, 0.3) for variant in ("QUIC", "TCP") for proxy in ("plain", "line-rate")
    ]
    for row, rounds in zip(rows, (2, 2, 3, 3), strict=True):
        assert row["ratio"] == pytest.approx(row["plt_s"] / row["split_plt_s"])
        assert row["plt_s"] > rounds * 0.3
    assert (tmp_path / "map.html").exists()
    with pytest.raises(ScenarioError, match=r"^access: .*no preset"):
        bentpipe.break_even_map("geo-konect", out=tmp_path)


def test_a_capacity_is_a_frame(tmp_path: Path) -> None:
    """The closed form: 12.5 calls of 80 kbit/s on 1 Mbit/s."""
    words: dict[str, Any] = {"down": "1 Mbit/s", "up": "1 Mbit/s", "rtt": "60 ms", "mix": "call", "seeds": 1}
    found = bentpipe.find_capacity(**words, jobs=1, out=tmp_path)
    assert (found.users, found.all_seeds, found.first_failing) == (12, 12, 13)
    rows = found.frame()
    assert rows["call_users"].to_list() == rows["users"].to_list()
    assert all(row["holds"] == (row["users"] <= 12) for row in rows.iter_rows(named=True))
    assert (tmp_path / "capacity.html").exists()
    with pytest.raises(ScenarioError, match=r"^mix: found shares that add up to 120 %"):
        bentpipe.find_capacity("geo-konnect", mix="call=0.9,page=0.3", out=tmp_path)
    with pytest.raises(bentpipe.RunsFailedError):
        bentpipe.find_capacity(**words, settings={"limits.events": 1000}, jobs=1, out=tmp_path / "failed")


def test_a_link_layer_comparison_is_a_frame(tmp_path: Path) -> None:
    found = bentpipe.compare_link_layer(
        "nr-ntn-leo", only=["RLC AM alone"], duration="2 s", seeds=1, jobs=1, out=tmp_path
    )
    rows = found.frame()
    assert set(rows["setting"]) == {"HARQ 32 + RLC AM", "RLC AM alone"}
    assert set(rows["traffic"]) == {"TCP", "QUIC", "call"}
    goodput = rows.filter(metric="goodput_bit_s")
    assert goodput.height == 4
    assert goodput["mean"].min() > 0
    assert (tmp_path / "link-layer.html").exists()
    with pytest.raises(ScenarioError, match=r'^setting: no setting "RLC"'):
        bentpipe.compare_link_layer(only=["RLC"], out=tmp_path)


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ({"windows": [0]}, 'windows: found "0", expected packets such as 10'),
        ({"rtts": []}, "rtts: found nothing, expected at least one"),
        ({"sizes": ["1 MB", "1 MB"]}, 'sizes: duplicate value "1 MB"'),
        ({"pep": ["poold"]}, "pep: "),
        ({"loss": "abc"}, "loss: "),
        ({"controllers": ["cubik"]}, "controllers: "),
        ({"tcp": "cubik"}, "tcp: "),
    ],
)
def test_errors_of_a_map_name_their_argument(words: dict[str, Any], output: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as refused:
        bentpipe.break_even_map("geo-konnect", out=tmp_path, **words)
    assert str(refused.value).startswith(output)


def test_a_study_is_found_by_its_name_and_says_its_arguments() -> None:
    with pytest.raises(ScenarioError, match=r"^name: .*andreotti-2025"):
        bentpipe_studies.run("andreotti-2024")
    with pytest.raises(ScenarioError, match=r"^part: .*friendliness"):
        bentpipe_studies.run("andreotti-2025", part="friendlines")
    with pytest.raises(ScenarioError, match=r"^engine: found \"emu\""):
        bentpipe_studies.run("etosat", engine="emu")
