"""Bounds on work that is done once, not for every cell or run, without a measurement of time."""

from __future__ import annotations

import io
import json
import math
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.runners.execute import execute_plan
from bentpipe.runners.local import LocalRunner
from bentpipe.scenario import input_file
from bentpipe.store import codec, files
from bentpipe.store import writer as writing
from bentpipe.store.writer import Writer


def scenario(flow: dict[str, Any], sweep: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A GEO link with one flow."""
    both = {"rate": "10 Mbit/s", "loss": "0.1 %"}
    return {
        "duration": "10 s",
        "path": {"segment": [{"name": "satellite", "delay": "250 ms", "both": both}]},
        "flow": [{"name": "one", "congestion": "cubic", **flow}],
        "sweep": sweep,
        **more,
    }


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files as they are opened, by what Python itself opens them with."""
    seen: list[Path] = []
    real = io.open

    def watched(file: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(Path(file))
        return real(file, *args, **kwargs)

    real_input = input_file.open_input

    def watched_input(path: Path, **options: bool) -> io.FileIO:
        seen.append(path)
        return real_input(path, **options)

    monkeypatch.setattr(io, "open", watched)
    monkeypatch.setattr(input_file, "open_input", watched_input)
    return seen


def test_a_preset_page_is_read_once_a_plan(opened: list[Path]) -> None:
    named = ["almanac-2019", "target-a", "target-b", "almanac-2024"]
    delays = [f"{delay} ms" for delay in range(10, 260, 10)]
    document = load_scenario(
        scenario(
            {"load": {"page": "target-a"}}, {"flow.one.load.page": named, "path.satellite.delay": delays}
        )
    )
    opened.clear()
    plan = build_plan(document, "1")
    assert len(plan.cells) == 100
    assert sorted(file.stem for file in opened) == sorted(named)
    pages = {cell.resolved.spec["flows"][0]["load"]["page"]["name"] for cell in plan.cells}
    assert pages == set(named)


def test_a_har_file_is_read_once_a_plan(opened: list[Path], tmp_path: Path) -> None:
    fetched = {"request": {"url": "https://a.example/"}, "response": {"status": 200, "bodySize": 900}}
    (tmp_path / "page.har").write_text(json.dumps({"log": {"entries": [fetched]}}), encoding="utf-8")
    delays = [f"{delay} ms" for delay in range(10, 110, 10)]
    document = load_scenario(
        scenario({"load": {"page": {"har": str(tmp_path / "page.har")}}}, {"path.satellite.delay": delays})
    )
    opened.clear()
    assert len(build_plan(document, "1").cells) == 10
    assert [file.name for file in opened] == ["page.har"]


def test_the_files_of_a_run_are_made_once_and_where_it_was_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The coordinator decodes and encodes nothing; it hands every file to the disk once."""
    plan = build_plan(
        load_scenario(scenario({"direction": "up"}, {}, duration="1 s", seeds=4)), engine.version()
    )
    assert len(plan.runs) == 4
    synchronised: list[Path] = []
    monkeypatch.setattr(codec, "decode", _never)
    monkeypatch.setattr(writing, "decode", _never)
    monkeypatch.setattr(codec, "_parquet", _never)
    real = files.sync
    monkeypatch.setattr(files, "sync", lambda path: (synchronised.append(path), real(path))[1])
    with Writer(tmp_path / "store", plan) as writer:
        synchronised.clear()
        assert execute_plan(plan, LocalRunner(2), writer).done == 4
    saved = [file for file in (tmp_path / "store" / "runs").rglob("*") if file.is_file()]
    names = sorted(
        path.name for path in synchronised if not path.name.startswith(".part-") and path.name != "runs"
    )
    assert names == sorted(file.name for file in saved)


def _never(*_: object) -> None:
    raise AssertionError("a worker's work")


def test_a_table_without_rows_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = build_plan(
        load_scenario(scenario({"direction": "up"}, {}, duration="1 s", seeds=3)), engine.version()
    )
    encoded: list[pl.DataFrame] = []
    real = codec._parquet
    monkeypatch.setattr(codec, "_parquet", lambda frame: (encoded.append(frame), real(frame))[1])
    monkeypatch.setattr(codec, "_empty", {})
    found = [codec.decode(engine.run(run.spec_json())) for run in plan.runs]
    finished = [codec.encode(one) for one in found]
    filled = sum(frame.height > 0 for one in found for frame in one.tables.values())
    schemas = {
        tuple(frame.schema.items()) for one in found for frame in one.tables.values() if not frame.height
    }
    assert len(schemas) > 3
    assert len(encoded) == filled + len(schemas)
    for one, made in zip(found, finished, strict=True):
        for name, frame in one.tables.items():
            assert pl.read_parquet(io.BytesIO(made.files[f"{name}.parquet"])).equals(frame)


def test_files_arrive_as_they_were_packed() -> None:
    made = {"a.parquet": b"1" * 1000, "b": b"", "c.qlog": b"23"}
    sent = codec.RunFiles(made, {name: files.checksum(data) for name, data in made.items()}, 5, 7)
    packed = sent.to_bytes()
    assert codec.RunFiles.from_bytes(packed) == sent
    for cut in (0, 7, 40, len(packed) - 1):
        with pytest.raises(codec.DecodeError, match="are truncated"):
            codec.RunFiles.from_bytes(packed[:cut])


columns = st.fixed_dictionaries(
    {
        "time_s": st.sampled_from([0.0, 0.5, 1.0, math.nan]),
        "flow": st.sampled_from(["b", "a", "é", "Z"]),
        "packet": st.sampled_from([-1, 0, 3]),
        "value": st.sampled_from([1.5, math.nan, -2.0]),
    }
)


@given(st.lists(columns, max_size=12))
def test_rows_are_sorted_as_polars_sorts_them(rows: list[dict[str, Any]]) -> None:
    """By every key in turn, text by its letters, what is missing last, and what is equal as the engine had it."""
    words = ["é", "b", "Z", "a"]  # the engine's categories are in no order
    kinds = {"time_s": "f64", "flow": "cat", "packet": "i64", "value": "f64"}
    parts = []
    for name, kind in kinds.items():
        values = [words.index(row[name]) if kind == "cat" else row[name] for row in rows]
        code = {"f64": "d", "i64": "q", "cat": "I"}[kind]
        parts.append((name, kind, struct.pack(f"<{len(rows)}{code}", *values)))
    at, listed = 0, []
    for name, kind, data in parts:
        entry = {"name": name, "type": kind, "offset": at, "bytes": len(data)}
        listed.append(entry | ({"categories": words} if kind == "cat" else {}))
        at += len(data)
    table = {"name": "flows", "rows": len(rows), "columns": listed}
    header = json.dumps({"engine": "1", "tables": [table], "files": [], "packets": 0, "events": 0}).encode()
    data = len(header).to_bytes(8, "little") + header + b"".join(data for *_, data in parts)
    types = {"f64": pl.Float64, "i64": pl.Int64, "cat": pl.String}
    schema = {name: types[kind] for name, kind in kinds.items()}
    plain = pl.DataFrame(rows, schema=schema).with_columns(pl.col("time_s", "value").fill_nan(None))
    wanted = plain.sort("packet", "time_s", "flow", nulls_last=True, maintain_order=True)
    found = codec.decode(data).tables["flows"]
    assert found.schema == wanted.schema
    assert found.equals(wanted)
    assert codec.parquet(found) == codec.parquet(wanted)
