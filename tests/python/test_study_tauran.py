"""The study tauran-2018: tolerances, what is calibrated, and a short form end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from bentpipe import studies
from bentpipe.plan.document import open_document
from bentpipe.plan.runs import make
from bentpipe.studies.study import as_text
from bentpipe.studies.tauran_2018 import STUDY
from bentpipe.studies.tauran_2018.cells import SNRS, VARIANTS, case
from bentpipe.studies.verdicts import Quantity, Tolerance, Verdict, together

POINT, DOUBLE = Tolerance("within 1 point", points=1.0), Tolerance("within a factor of 2", factor=2.0)


@pytest.mark.parametrize(
    ("tolerance", "values", "verdict"),
    [
        (POINT, (96.0,), Verdict.AGREES),
        (POINT, (96.5,), Verdict.DIFFERS),
        (POINT, (95.9, 96.0, 96.1), Verdict.AGREES),
        (POINT, (95.0, 96.0, 97.0), Verdict.UNDECIDED),
        (POINT, (94.3,), Verdict.DIFFERS),
        (POINT, (), Verdict.NOT_RUN),
        (DOUBLE, (50.0,), Verdict.AGREES),
        (DOUBLE, (47.0,), Verdict.DIFFERS),
        (DOUBLE, (191.0,), Verdict.DIFFERS),
    ],
)
def test_a_tolerance(tolerance: Tolerance, values: tuple[float, ...], verdict: Verdict) -> None:
    published = 95.4
    assert Quantity("share", published, values, tolerance=tolerance).verdict is verdict
    fitted = Quantity("share", published, values, tolerance=tolerance, fitted=True).verdict
    assert fitted is (Verdict.CALIBRATED if verdict is Verdict.AGREES else verdict)


def test_what_was_fitted_never_agrees() -> None:
    assert together([Verdict.AGREES, Verdict.CALIBRATED]) is Verdict.CALIBRATED
    assert together([Verdict.CALIBRATED, Verdict.UNDECIDED]) is Verdict.UNDECIDED
    assert together([Verdict.CALIBRATED, Verdict.DIFFERS]) is Verdict.DIFFERS


def test_every_printed_number_has_its_cell() -> None:
    part = next(part for part in STUDY.parts() if part.name == "tables")
    cells = [
        {key: as_text(value) for key, value in cell.values.items()}
        for cell in make(open_document(part.scenario), "test").cells
    ]
    for snr in SNRS:
        for variant in VARIANTS.values():
            for reordering in (False, True):
                for delayed in (False, True):
                    wanted = case(snr, variant, reordering=reordering, delayed=delayed)
                    assert sum(wanted.items() <= cell.items() for cell in cells) == 1


def test_the_short_form(tmp_path: Path) -> None:
    """A seed and a minute at 7 and 13 dB: shares decoded as in table 4.1, which was fitted, and more goodput by reordering."""
    said = studies.run(STUDY.name, only="short", seeds=1, jobs=1, out=tmp_path, settings={"duration": "60 s"})
    assert said.good
    rows = {(row["id"], row["row"], row["reordering"]): row for row in said.data["rows"]}
    good = rows["probe success", "decoded, % at 13 dB", "even intervals"]
    assert good["verdict"] == "calibrated"
    bits = rows["probe bits", "mean coded bits of a packet at 13 dB", "even intervals"]
    assert 15_000 < bits["quantities"][0]["measured"] < 19_000
    without = rows["4.1 goodput_kbps", "goodput, kb/s at 13 dB", "without"]["quantities"]
    buffered = rows["4.2 goodput_kbps", "goodput, kb/s at 13 dB", "with"]["quantities"]
    assert all(b["measured"] > a["measured"] for a, b in zip(without, buffered, strict=True))
    fitted = [
        row
        for row in said.data["rows"]
        if row["row"].endswith("dB") and row["id"].endswith(("success", "kbps"))
    ]
    assert len(fitted) == 10
    assert {quantity["verdict"] for row in fitted for quantity in row["quantities"]} <= {
        "calibrated",
        "differs",
    }
