"""The study etosat: times of transfers, objectives with verdicts, and a short form end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

import bentpipe_studies
from bentpipe.metrics.verdicts import Verdict
from bentpipe_studies.etosat import STUDY, fact
from bentpipe_studies.etosat.transfers import crossing_s


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


def test_every_access_has_cells_in_both_parts_and_sentences_where_it_has_objectives() -> None:
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan
    from bentpipe_studies.study import sweep_text

    for part in STUDY.parts():
        plan = build_plan(load_scenario(part.scenario), "test")
        cells = [{key: sweep_text(value) for key, value in cell.values.items()} for cell in plan.cells]
        for one in STUDY.accesses():
            found = {c["flow.data.direction"] for c in cells if one.cell.items() <= c.items()}
            assert found == {send for send, sizes in one.objectives.items() if sizes}, (part.name, one.id)
    judged = {
        f"{one.id} {send}"
        for one in STUDY.accesses()
        for send, sizes in one.objectives.items()
        if any(sizes.values())
    }
    assert set(STUDY.notes["objectives"]) == judged


@pytest.mark.nightly
def test_the_short_form(tmp_path: Path) -> None:
    """One access, one seed: split TCP that knows the rate meets what QUIC misses."""
    message = bentpipe_studies.run(STUDY.name, part="small", seeds=1, jobs=1, out=tmp_path)
    assert message.good
    data = message.data
    verdicts = {(claim["id"], claim["transport"]): claim["verdict"] for claim in data["claims"]}
    assert verdicts["small down", "TCP split, line rate"] == "agrees"
    assert verdicts["small down", "QUIC newreno"] == "differs"
    for claim in data["claims"]:
        for check in claim["checks"]:  # nothing is faster than the link
            size, rate = float(check["check"].split(" ")[0]), 10 if claim["id"].endswith("down") else 2
            assert check["measured"] > size * 8 / rate
