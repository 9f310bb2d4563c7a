"""The study thomas-2019: results as criteria over stores with known answers, the page, and its own data."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

import bentpipe_studies
from bentpipe.metrics.verdicts import Verdict
from bentpipe_studies.output import claim_rows, to_json
from bentpipe_studies.page import write_page
from bentpipe_studies.parts import Measurements
from bentpipe_studies.study import decidable_selections, select_parts
from bentpipe_studies.thomas_2019 import STUDY
from bentpipe_studies.thomas_2019.claims import CRITERIA
from store_edit import put

UNITS = 12


@pytest.fixture(scope="module")
def pages(synthetic: ModuleType) -> ModuleType:
    """The maker of stores with page loads (synthetic_pages.py)."""
    place = Path(__file__).with_name("synthetic_pages.py")
    spec = importlib.util.spec_from_file_location("synthetic_pages", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["synthetic_pages"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory, pages: ModuleType, synthetic: ModuleType
) -> Measurements:
    """A SATCOM part as the paper has it: QUIC starts slowly, TCP is at the rate at once."""
    place = tmp_path_factory.mktemp("thomas")
    sizes = (("target-a", 5_300_000), ("target-b", 11_000))
    pages.page_store(place / "satcom", synthetic, seeds=UNITS, sizes=sizes, packets=False)
    return Measurements(place, STUDY.parts())


def verdicts(measured: Measurements, *only: str) -> dict[str, Verdict]:
    return {claim.id: claim.verdict for claim in STUDY.findings(measured, only).claims}


def test_every_result_has_a_criterion_and_a_part_to_run() -> None:
    assert (
        set(STUDY.published["results"]) == set(CRITERIA) == set(STUDY.published["criterion"]) | {"r2", "r8"}
    )
    assert set(STUDY.notes["results"]) <= set(CRITERIA)
    for name in CRITERIA:
        words, wanted = select_parts(STUDY, name)
        assert words == [name]
        assert wanted


def test_results_of_the_paper_hold_over_what_it_describes(measured: Measurements) -> None:
    found = verdicts(measured)
    assert found["r1"] is Verdict.AGREES
    assert found["r2"] is Verdict.AGREES
    assert found["r5"] is Verdict.NOT_RUN
    assert found["r10"] is Verdict.NOT_RUN


def test_tables_and_the_page(measured: Measurements, tmp_path: Path) -> None:
    findings = STUDY.findings(measured, ())
    titles = [table.title for table in findings.tables]
    assert titles[0].startswith("SATCOM")
    assert len(findings.tables[0].rows) == 12
    assert {row["protocol"] for row in findings.tables[0].rows} == {"h2", "h3"}
    assert claim_rows(findings)[0]["claim"] == "r1"
    page = write_page(tmp_path, STUDY.title, findings, to_json(findings)).read_text()
    assert "r1 agrees: target A, SATCOM, loads 2 and 3" in page
    assert 'data-key="time-sequence"' in page
    main = findings.main_result
    assert main is not None
    assert re.match(
        r"Page loads over QUIC take (1\.[5-9]|2)[0-9.]* times as long as over split TCP; ", main.sentence
    )
    assert "starts at line rate" in main.assumption
    assert page.index(main.sentence) < page.index('id="claims"') < page.index('id="drawing-1"')
    assert " verdicts need runs that are missing." in page
    rated = {row["claim"] for row in claim_rows(findings.decided())}
    assert "r1" in rated
    assert "r10" not in rated
    assert STUDY.findings(Measurements(tmp_path, STUDY.parts()), ()).main_result is None
    assert "default-src 'none'" in page


def test_a_page_has_what_earlier_parts_decide(measured: Measurements, tmp_path: Path) -> None:
    """A selection without a verdict keeps the results of the stores that exist, and adds no other."""
    found = decidable_selections(STUDY, measured, ["head-of-line"])
    assert {"r1", "r4", "satcom", "head-of-line"} <= set(found)
    assert not {"r5", "r10", "results", "4g"} & set(found)
    assert set(verdicts(measured, *found)) == {"r1", "r2", "r3", "r4", "r6", "r7", "r8"}
    assert decidable_selections(STUDY, Measurements(tmp_path, STUDY.parts()), ["r1"]) == ["r1"]


def changed(place: Path, http: str, column: str, change: pl.Expr) -> Measurements:
    """The store with one column of one browser's loads replaced."""
    for file in (place / "satcom/runs").glob("*/pages.parquet"):
        frame = pl.read_parquet(file)
        if frame["http"][0] == http:
            frame.with_columns(change.alias(column)).pipe(put, file)
    return Measurements(place, STUDY.parts())


def test_results_can_fail(tmp_path: Path, pages: ModuleType, synthetic: ModuleType) -> None:
    pages.page_store(tmp_path / "satcom", synthetic, seeds=UNITS, packets=False)
    fast = changed(tmp_path, "alt-svc", "plt_s", pl.col("plt_s") / 2)
    found = verdicts(fast)
    assert found["r1"] is Verdict.DIFFERS  # by QUIC as fast as by TCP
    assert found["r2"] is Verdict.DIFFERS  # load 1 faster too
    late = changed(tmp_path, "2", "ttr_s", pl.col("ttr_s") + 0.75)
    found = verdicts(late)
    assert found["r4"] is Verdict.DIFFERS  # a whole round trip
    assert found["r8"] is Verdict.DIFFERS  # QUIC ahead of every load
    assert found["r7"] is Verdict.DIFFERS  # one value, spread a little


@pytest.mark.nightly
def test_the_short_form(tmp_path: Path) -> None:
    """Two units of r1 and the page with one lost packet: everything runs, is judged, and is kept."""
    for again in (False, True):
        message = bentpipe_studies.run(STUDY.name, part="r1,head-of-line", seeds=2, jobs=1, out=tmp_path)
        assert message.good
        data = message.data
        assert [store["reused"] for store in data["stores"]] == ([4, 6] if again else [0, 0])
    (claim,) = data["claims"]
    assert claim["id"] == "r1"
    assert claim["verdict"] == "undecided"  # two units have no interval of a median
    assert all(1.8 < check["measured"] < 2.4 for check in claim["checks"] if check["measured"] is not None)
    blocked = next(table for table in data["tables"] if table["title"].startswith("One lost packet"))
    late = {
        http: [float(row[f"HTTP/{http}: delay by the loss, ms"]) for row in blocked["rows"][1:]]
        for http in "23"
    }
    assert min(late["2"]) > 300  # everything waits for the repair
    assert sorted(value > 300 for value in late["3"]) == [False] * 7 + [True]
    assert "Lost packets of the runs with one loss: 1, 1, 1." in data["notes"]
