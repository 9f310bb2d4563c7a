"""Swept quantities as numbers beside their texts, in frames and in SQL."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bentpipe.store.numeric_columns import Axis, add_numeric_columns, axes
from bentpipe.store.reader import open_store


@pytest.mark.parametrize(
    ("values", "units"),
    [
        (["15 ms", "250 ms"], {"_s": {"15 ms": 0.015, "250 ms": 0.25}}),
        (["500 kbit/s", "1 Gbit/s"], {"_bit_s": {"500 kbit/s": 5e5, "1 Gbit/s": 1e9}}),
        (["64 kB", "1 MiB"], {"_bytes": {"64 kB": 64e3, "1 MiB": 2.0**20}}),
        (["0.1 %", "20 ppm"], {"_probability": {"0.1 %": 0.001, "20 ppm": 2e-5}}),
        ([0, "1 %"], {"_probability": {"0": 0.0, "1 %": 0.01}}),
        (["0", "5 s"], {"_s": {"0": 0.0, "5 s": 5.0}}),
        ([1, 2.5, 0], {"_number": {"1": 1.0, "2.5": 2.5, "0": 0.0}}),
        ([0], {"_number": {"0": 0.0}}),
        # several sorts: a column of each; a bare 0 is then none of them
        (["7 dB", "-3 dB"], {"_db": {"7 dB": 7.0, "-3 dB": -3.0}}),
        (["2 GHz"], {"_hz": {"2 GHz": 2e9}}),
        (["10 Mbaud"], {"_baud": {"10 Mbaud": 1e7}}),
        (["36 km/h", "10 m/s"], {"_m_s": {"36 km/h": 10.0, "10 m/s": 10.0}}),
        (["550 km"], {"_km": {"550 km": 550.0}}),
        (["25 deg"], {"_deg": {"25 deg": 25.0}}),
        (["1 BDP", "10 packets", "none", 0], {"_bdp": {"1 BDP": 1.0}, "_packets": {"10 packets": 10.0}}),
        (["cubic", "3", "1.1", True, {"name": "bbr"}, ["1 s"]], {}),
    ],
)
def test_an_axis_of_each_unit(values: list[object], units: dict[str, dict[str, float]]) -> None:
    found = axes({"flow.a.key": value} for value in values)
    assert {axis.unit: dict(axis.values) for axis in found} == units
    assert {axis.key for axis in found} <= {"flow.a.key"}


def test_labels_of_tied_axes_are_words() -> None:
    found = axes([{"access": "10 Mbit/s", "path.a.rate": "10 Mbit/s"}])
    assert [axis.key for axis in found] == ["path.a.rate"]


def test_numbers_stand_behind_their_texts_and_take_no_other_column() -> None:
    frame = pl.LazyFrame({"run": ["a", "b"], "duration": ["1 s", None], "duration_s": [7.0, 8.0]})
    found = add_numeric_columns(frame, [Axis("duration", "_s", {"1 s": 1.0})]).collect()
    assert found.columns == ["run", "duration", "sweep.duration_s", "duration_s"]
    assert found["sweep.duration_s"].to_list() == [1.0, None]
    assert found["duration_s"].to_list() == [7.0, 8.0]


def test_a_store_has_numbers_where_they_are_asked_for(tmp_path: Path) -> None:
    bentpipe = pytest.importorskip("bentpipe")
    results = bentpipe.run(
        {
            "duration": "1 s",
            "path": {"segment": [{"name": "satellite", "delay": "20 ms", "both": {"rate": "1 Mbit/s"}}]},
            "flow": [{"name": "bulk", "congestion": "cubic"}],
            "sweep": {"path.satellite.delay": ["20 ms", "40 ms"], "duration": ["1 s", "500 ms"]},
        },
        jobs=1,
        out=tmp_path / "store",
    )
    keys = ["path.satellite.delay", "path.satellite.delay_s", "duration", "duration_s"]
    assert results.runs.columns == ["run", "seed", *keys]
    assert results.flows.columns[:6] == ["run", "seed", *keys]
    assert results.runs["path.satellite.delay_s"].to_list() == [0.02, 0.02, 0.04, 0.04]
    # the metric duration_s keeps its name
    assert results.metrics()["sweep.duration_s"].to_list() == [1.0, 0.5, 1.0, 0.5]
    assert results.metrics()["duration_s"].max() < 1.0
    found = results.sql('SELECT run, "path.satellite.delay_s" AS d FROM runs WHERE duration_s = ?', [0.5])
    assert found.rows() == results.runs.filter(duration_s=0.5).select("run", "path.satellite.delay_s").rows()
    # what others read of a store has the columns it had
    plain = bentpipe.Store(results.path)
    assert plain.runs.columns == ["run", "seed", "path.satellite.delay", "duration"]
    assert "path.satellite.delay_s" not in plain.flow_summary.columns
    assert open_store(results).index.columns == ["run", "seed", "path.satellite.delay", "sweep.duration"]
