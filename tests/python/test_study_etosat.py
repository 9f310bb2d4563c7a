"""The study etosat: times of transfers, objectives with verdicts, and a short form end to end."""

from __future__ import annotations

import pytest

from bentpipe.studies.etosat import fact
from bentpipe.studies.etosat.transfers import crossing_s
from bentpipe.studies.verdicts import Verdict


def test_when_a_counter_reaches_a_value() -> None:
    times, counts = [0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 100.0, 400.0]
    assert crossing_s(times, counts, 100) == pytest.approx(2.0)
    assert crossing_s(times, counts, 50) == pytest.approx(1.5)
    assert crossing_s(times, counts, 250) == pytest.approx(2.5)
    assert crossing_s(times, counts, 401) is None


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((2.9, 2.88, 2.89), Verdict.AGREES),
        ((3.2, 3.21, 3.2), Verdict.DIFFERS),
        ((2.9,), Verdict.AGREES),
        ((1.0, None, 1.0), Verdict.DIFFERS),
        ((2.8, 3.3, 2.7), Verdict.UNDECIDED),
    ],
)
def test_an_objective_is_met_or_missed(values: tuple[float | None, ...], verdict: Verdict) -> None:
    assert fact("2 MB", values, 3.0).verdict is verdict
