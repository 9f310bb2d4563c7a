"""The store: whole runs or none, equal bytes, resuming, refusing; and the workers that fill it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import struct
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bentpipe
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, Run, build_plan
from bentpipe.runners.execute import execute_plan
from bentpipe.runners.runner import RunOutcome
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.sweep import format_override, parse_override
from bentpipe.scenario.toml_writer import dumps, inline
from bentpipe.store import files as stores
from bentpipe.store.codec import DecodeError, decode
from bentpipe.store.export import traces
from bentpipe.store.files import DiskError, StoreError
from bentpipe.store.reader import Store
from bentpipe.store.writer import Writer

GEO: str = tomllib.loads(Path(__file__).with_name("wrong.toml").read_text())["scenario"]
SWEPT = (
    GEO.replace("[[path", "seeds = 2\n[[path", 1)
    + '[sweep]\n"flow.rival.congestion" = ["newreno", "cubic"]\n'
)


def measured(seed: int) -> bytes:
    """Return the output of an engine for a run of ``seed``."""
    columns = [
        {"name": "time_s", "type": "f64", "offset": 0, "bytes": 16},
        {"name": "flow", "type": "cat", "categories": ["hybla", "rival"], "offset": 16, "bytes": 8},
        {"name": "ptos", "type": "i64", "offset": 24, "bytes": 16},
    ]
    body = struct.pack("<2d2I2q", 1.0, float("nan"), 1, 0, seed, -seed)
    tables = [{"name": name, "rows": 2, "columns": columns} for name in ("flows", "flow_summary")]
    head = {"engine": "test", "tables": tables, "packets": 10, "events": 20}
    head["files"] = [{"name": "hybla.client.qlog", "offset": len(body), "bytes": 4}]
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + body + b"qlog"


class Fake:
    """A runner without an engine: the runs of ``fails`` fail, and runs end in an order of ``chance``."""

    def __init__(self, fails: Sequence[str] = (), chance: random.Random | None = None) -> None:
        self.fails = fails
        self.made: list[str] = []
        self.chance = chance

    def run(self, runs: Sequence[Run]) -> Iterator[RunOutcome]:
        for run in reversed(runs) if self.chance is None else self.chance.sample(runs, len(runs)):
            self.made.append(run.id)
            if run.id in self.fails:
                yield RunOutcome(run, None, "PanicException: it broke")
            else:
                yield RunOutcome(run, measured(run.seed))


def planned(folder: Path, text: str = SWEPT, engine: str = "test") -> Plan:
    path = folder / "test.toml"
    path.write_text(text)
    return build_plan(load_scenario(path), engine)


def digest(folder: Path) -> dict[str, str]:
    """Every file that is inside the promise of equal bytes."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "journal.jsonl"
    }


def test_bytes_become_frames_with_nulls_and_words() -> None:
    found = decode(measured(7))
    frame = found.tables["flows"]
    assert frame.to_dicts() == [
        {"time_s": 1.0, "flow": "rival", "ptos": 7},
        {"time_s": None, "flow": "hybla", "ptos": -7},
    ]
    assert found.files == {"hybla.client.qlog": b"qlog"}


@pytest.mark.parametrize("cut", [0, 5, 40, 300])
def test_bytes_that_are_cut_short_are_refused(cut: int) -> None:
    with pytest.raises(DecodeError):
        decode(measured(1)[:cut] if cut < 300 else measured(1)[:-6])


def test_a_store_holds_the_scenario_the_plan_and_whole_runs(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with Writer(tmp_path / "store", plan) as writer:
        report = execute_plan(plan, Fake(), writer)
    assert (report.done, report.failed) == (4, [])
    store = Store(tmp_path / "store")
    assert store.scenario == SWEPT
    assert store.runs["flow.rival.congestion"].to_list() == ["newreno", "newreno", "cubic", "cubic"]
    assert store.flows.filter(pl.col("flow") == "rival")["ptos"].to_list() == [1, 2, 1, 2]
    assert store.keys == ("flow.rival.congestion",)
    assert [file.name for file in store.files(".qlog")] == ["hybla.client.qlog"] * 4
    answer = store.connect().execute(
        "SELECT \"flow.rival.congestion\", sum(ptos) FROM flows WHERE flow = 'rival' GROUP BY 1 ORDER BY 1"
    )
    assert answer.fetchall() == [("cubic", 3), ("newreno", 3)]
    spec = json.loads((store.path / "runs" / plan.runs[0].id / "spec.json").read_text())
    assert spec == plan.runs[0].spec
    copies = traces(store, "qlog", tmp_path / "copies")
    assert [file.name for file in copies] == [f"{run.id}.hybla.hybla.client.qlog" for run in plan.runs]


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), st.sets(st.integers(0, 3)))
def test_runs_in_any_order_have_equal_bytes_and_a_resume_runs_what_is_missing(
    chance: random.Random, lost: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = planned(folder)
        for store in ("one", "two"):
            with Writer(folder / store, plan) as writer:
                execute_plan(plan, Fake(chance=None if store == "one" else chance), writer)
        assert digest(folder / "one") == digest(folder / "two")
        missing = [plan.runs[number].id for number in sorted(lost)]
        for run in missing:
            (folder / "two" / "runs" / run).rename(folder / "two" / f".part-left-by-a-kill-{run}")
        runner = Fake(chance=chance)
        with Writer(folder / "two", plan) as writer:
            report = execute_plan(plan, runner, writer)
        assert sorted(runner.made) == sorted(missing)
        assert (report.reused, report.done) == (4 - len(lost), len(lost))
        assert digest(folder / "one") == digest(folder / "two")


def test_a_run_that_fails_fails_alone_and_says_how_to_make_it_again(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with Writer(tmp_path / "store", plan) as writer:
        report = execute_plan(plan, Fake([plan.runs[1].id]), writer)
    assert report.done == 3
    (failure,) = report.failed
    assert "it broke" in failure.error
    assert f"--run {plan.runs[1].id}" in failure.replay
    assert len(Store(tmp_path / "store").finished()) == 3


def test_another_scenario_another_engine_and_a_foreign_directory_are_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with Writer(tmp_path / "store", plan) as writer:
        execute_plan(plan, Fake(), writer)
    with pytest.raises(StoreError, match="another scenario"):
        Writer(tmp_path / "store", planned(tmp_path, SWEPT.replace("1 %", "2 %")))
    with pytest.raises(StoreError, match="created by engine test, schema 2; this is engine other"):
        Writer(tmp_path / "store", planned(tmp_path, engine="other"))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").touch()
    with pytest.raises(StoreError, match="not empty and not a store"):
        Writer(tmp_path / "foreign", plan)
    with pytest.raises(StoreError, match="not a store"):
        Store(tmp_path / "foreign")


def test_more_seeds_extend_a_store(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with Writer(tmp_path / "store", plan) as writer:
        execute_plan(plan, Fake(), writer)
    more = build_plan(plan.document, "test", seeds=(1, 2, 3))
    with Writer(tmp_path / "store", more) as writer:
        assert execute_plan(more, Fake(), writer).done == 2
    assert sorted(Store(tmp_path / "store").runs["seed"].to_list()) == [1, 1, 2, 2, 3, 3]


def test_runs_with_other_files_are_not_mixed_in(tmp_path: Path) -> None:
    """The scenario's text is the same, what it names is not."""
    text = GEO.replace(
        "[[flow]]", '[[path.segment]]\nname = "dish"\ndelay = { trace = "d.csv" }\n\n[[flow]]', 1
    )
    text = text.replace('delay = { trace = "d.csv" }', 'both = { delay = { trace = "d.csv" } }')
    trace = tmp_path / "d.csv"
    trace.write_text("time_s,delay_ms\n0,5\n1,6\n")
    plan = planned(tmp_path, text)
    with Writer(tmp_path / "store", plan):
        pass
    trace.write_text("time_s,delay_ms\n0,5\n1,7\n")
    changed = planned(tmp_path, text)
    assert [run.id for run in changed.runs] != [run.id for run in plan.runs]
    with Writer(tmp_path / "store", changed) as writer:  # nothing had been run: nothing is mixed
        execute_plan(changed, Fake(), writer)
    assert Store(tmp_path / "store").planned == tuple(writer.store_rows)
    assert len(writer.store_rows) == len(changed.runs)
    with pytest.raises(StoreError, match="with other options or with other contents of a trace"):
        Writer(tmp_path / "store", plan)


def test_two_processes_do_not_write_to_one_store(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with (
        Writer(tmp_path / "store", plan),
        pytest.raises(StoreError, match="another bentpipe"),
        Writer(tmp_path / "store", plan),
    ):
        pass


def test_concurrent_additions_are_saved(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    more = build_plan(plan.document, "test", seeds=(1, 2, 3))
    late = Writer(tmp_path / "store", plan)
    with Writer(tmp_path / "store", more) as writer:
        execute_plan(more, Fake(), writer)
    with late as writer:
        assert not writer.missing(plan.runs)
    assert len(Store(tmp_path / "store").finished()) == 6


def test_a_full_disk_is_one_message_and_loses_nothing_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(tmp_path)
    written = 0

    def full(paths: Sequence[Path]) -> None:
        nonlocal written
        written += 1
        if written > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(stores, "sync_all", full)
    with (
        Writer(tmp_path / "store", plan) as writer,
        pytest.raises(DiskError, match="the disk is full; 2 finished runs are kept"),
    ):
        execute_plan(plan, Fake(), writer)
    assert len(Store(tmp_path / "store").finished()) == 2
    assert not list((tmp_path / "store").glob(".part-*"))
    monkeypatch.undo()
    with Writer(tmp_path / "store", plan) as writer:
        assert execute_plan(plan, Fake(), writer).done == 2


def test_a_scenario_given_as_a_table_is_saved_as_toml(tmp_path: Path) -> None:
    plan = build_plan(load_scenario(tomllib.loads(SWEPT)), "test")
    with Writer(tmp_path / "store", plan) as writer:
        execute_plan(plan, Fake(), writer)
    assert tomllib.loads(Store(tmp_path / "store").scenario) == tomllib.loads(SWEPT)


VALUES = st.recursive(
    st.text()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
@example('\x00\x7f \u2028 \U0001f680 \\ "')
@example([{"a": 1}, {"b": [{"c": {}}]}])
@example({"tied": [{"label": "\U0001f680" * 60}, {"label": "b"}], "later": ["a"]})
def test_any_table_is_written_as_toml(value: object) -> None:
    found = tomllib.loads(dumps({"title": "", "x": value, "y": {"k": value}, "z": [value]}))
    assert found == {"title": "", "x": value, "y": {"k": value}, "z": [value]}
    if isinstance(value, dict):
        assert list(found["x"]) == list(value)  # the order of a sweep's keys determines the fastest one
    assert tomllib.loads(f"v = {inline(value)}")["v"] == value


def test_work_for_a_long_table_grows_with_its_length() -> None:
    def calls(count: int) -> int:
        data = {"seeds": list(range(count)), "path": {"segment": [{"name": f"s{i}"} for i in range(count)]}}
        made = 0

        def one_more(*_: object) -> None:
            nonlocal made
            made += 1

        sys.setprofile(one_more)
        try:
            text = dumps(data)
        finally:
            sys.setprofile(None)
        assert tomllib.loads(text) == data
        return made

    assert calls(2_000) < 12 * calls(200)


@given(VALUES)
@example("15 ms")
@example("true")
@example("1979-05-27")
@example(" a ")
def test_settings_are_recorded_so_that_they_are_read_again(value: object) -> None:
    assert parse_override(format_override("flow.rival.load", value)) == ("flow.rival.load", value)


def test_settings_are_recorded_as_they_are_typed() -> None:
    assert format_override("quic.ecn", True) == "quic.ecn=true"
    assert format_override("path.satellite.delay", "15 ms") == "path.satellite.delay=15 ms"


def test_a_setting_of_true_is_replayed_as_true(tmp_path: Path) -> None:
    results = bentpipe.run(tomllib.loads(GEO), jobs=1, settings={"quic.ecn": True}, out=tmp_path / "store")
    (tmp_path / "again.toml").write_text(results.scenario)
    document = load_scenario(tmp_path / "again.toml", map(parse_override, results.settings), results.settings)
    assert [run.id for run in build_plan(document, results.engine).runs] == [
        run["id"] for run in results.planned
    ]


def test_a_title_with_an_emoji_stays(tmp_path: Path) -> None:
    plan = build_plan(load_scenario({**tomllib.loads(SWEPT), "title": "\U0001f680 \x7f"}), "test")
    with Writer(tmp_path / "store", plan) as writer:
        execute_plan(plan, Fake(), writer)
    assert tomllib.loads(Store(tmp_path / "store").scenario)["title"] == "\U0001f680 \x7f"
    with pytest.raises(
        ScenarioError, match=r"title: found .*ud83d.*, expected text that can be written as UTF-8"
    ):
        load_scenario({**tomllib.loads(SWEPT), "title": "\ud83d"})


# --- with the engine ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_one_job(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "test.toml").write_text(SWEPT)
    bentpipe.run(folder / "test.toml", jobs=1, out=folder / "store")
    found = digest(folder / "store")
    assert len(found) > 4 * 5
    return found


@settings(max_examples=3)
@given(jobs=st.integers(2, 5))
def test_any_number_of_jobs_gives_the_same_bytes(by_one_job: dict[str, str], jobs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test.toml").write_text(SWEPT)
        bentpipe.run(folder / "test.toml", jobs=jobs, out=folder / "store")
        assert digest(folder / "store") == by_one_job


def test_results_without_a_directory_live_as_long_as_their_object() -> None:
    results = bentpipe.run(tomllib.loads(GEO), jobs=1)
    assert results.flow_summary.height == 4
    assert results.flows["time_s"].max() == pytest.approx(2.0)
    assert "2 s" in results.scenario
    folder = results.path
    del results
    assert not folder.exists()


DEADLY = """
import os, signal

class Deadly:
    def __init__(self, config):
        for token in os.environ.get("TOKENS", "").split():
            if os.path.exists(token):
                os.remove(token)
                os.kill(os.getpid(), signal.SIGKILL)
        self.window = 10 * config.mss

    def on_event(self, now, event):
        return self.window

class Broken(Deadly):
    def on_event(self, now, event):
        raise RuntimeError("no idea")
"""


@pytest.mark.parametrize(("deaths", "left"), [(1, 3), (2, 2)])
def test_a_killed_worker_fails_at_most_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int, left: int
) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(str(tmp_path))
    tokens = [tmp_path / f"token{number}" for number in range(deaths)]
    for token in tokens:
        token.touch()
    monkeypatch.setenv("TOKENS", " ".join(str(token) for token in tokens))
    import deadly  # type: ignore[import-not-found]

    data = tomllib.loads(GEO.replace('"hybla"\nload', '"mine"\nload')) | {"seeds": 3}
    out = tmp_path / "store"
    if left == 3:
        bentpipe.run(data, {"mine": deadly.Deadly}, jobs=1, out=out)
    else:
        with pytest.raises(
            bentpipe.RunsFailedError, match="the worker process died twice in this run: killed by signal 9"
        ):
            bentpipe.run(data, {"mine": deadly.Deadly}, jobs=1, out=out)
    assert len(Store(out).finished()) == left
    assert '"retried": true' in (out / "journal.jsonl").read_text()


def test_an_exception_of_a_controller_fails_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deadly2.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(str(tmp_path))
    import deadly2  # type: ignore[import-not-found]

    data = tomllib.loads(GEO.replace('"hybla"\nload', '"mine"\nload'))
    with pytest.raises(bentpipe.RunsFailedError, match="no idea"):
        bentpipe.run(data, {"mine": deadly2.Broken}, jobs=1)


def test_a_class_made_here_runs_in_this_process() -> None:
    class Steady:
        made = 0

        def __init__(self, config: object) -> None:
            type(self).made += 1

        def on_event(self, now: int, event: object) -> int:
            return 20_000

    data = tomllib.loads(GEO.replace('"hybla"\nload', '"mine"\nload'))
    results = bentpipe.run(data, {"mine": Steady})
    assert Steady.made > 0
    assert results.flow_summary.filter(pl.col("flow") == "hybla")["received_in_order_bytes"].max() > 0
