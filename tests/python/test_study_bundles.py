"""Chapter 5 of the study andreotti-2025: measures with known answers, its data, and one run end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from bentpipe import studies
from bentpipe.plan.document import open_document
from bentpipe.plan.runs import make
from bentpipe.studies.andreotti_2025 import STUDY
from bentpipe.studies.andreotti_2025.dtn import (
    CRITERIA,
    WINDOW,
    Bundles,
    burst_spread,
    d1,
    d10,
    relayed,
    void,
    ways,
)
from bentpipe.studies.parts import Measured
from bentpipe.studies.study import as_text, chosen
from bentpipe.studies.verdicts import Verdict, together

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def events(generated: list[float], took: float, *, spread: float = 0.0, relay: int = 0) -> pl.DataFrame:
    """A client's bundles: each takes ``took``, the n-th ``n spread`` more; the first ``relay`` go by the relay."""
    rows = []
    for number, time in enumerate(generated):
        end = time + took + number * spread
        rows.append(("generated", "vm1", time, number))
        rows += [("received", "vm3", end - took / 2, number)] if number < relay else []
        rows += [("delivered", "vm6", end, number), ("acknowledged", "vm1", end + 0.01, number)]
    frame = pl.DataFrame(rows, schema=["event", "node", "time_s", "sequence"], orient="row")
    return frame.with_columns(created_ms=pl.lit(0))


class Known(Bundles):
    """Runs by hand: by disruption."""

    def __init__(self, runs: dict[str, pl.DataFrame]) -> None:
        self.known = runs

    def runs(self, part: str, cell: Mapping[str, str]) -> list[pl.DataFrame]:
        return [self.known[cell["disruption"]]] if cell["disruption"] in self.known else []


def test_measures_of_known_runs() -> None:
    run = events([0.0, 1.0, 4.0, 5.0], 0.5, relay=1)
    assert void(run, 0.0, 6.0) == (1.0, 4.0)
    assert ways(run)["took"].to_list() == pytest.approx([0.5] * 4)
    assert relayed(run) == [0.25]
    assert burst_spread(events([0.0] * WINDOW, 0.1, spread=0.1)) == pytest.approx(3.1 / 3.2)
    assert burst_spread(events([0.0] * WINDOW, 3.0)) == 0.0


def test_a_void_at_the_disruption_is_needed_and_the_same_rate_after_it() -> None:
    def verdict(generated: list[float]) -> Verdict:
        return together([one.verdict for one in d1(Known({"1 s": events(generated, 0.1)}), "cubic")])

    every = [n / 10 for n in range(300)]
    assert verdict([t for t in every if not 14.5 < t < 15.8]) is Verdict.AGREES
    assert verdict(every) is Verdict.DIFFERS
    assert verdict([t for t in every if t <= 14.5]) is Verdict.DIFFERS


def test_a_bundle_by_the_relay_is_one_too_many() -> None:
    calm = events([0.0, 1.0, 2.0], 0.1)
    runs = dict.fromkeys(("none", "10 ms", "50 ms", "100 ms", "1 s"), calm)
    assert together([one.verdict for one in d10(Known(runs), "bbr")]) is Verdict.AGREES
    busy = runs | {"1 s": events([0.0, 1.0, 2.0], 0.1, relay=1)}
    assert together([one.verdict for one in d10(Known(busy), "bbr")]) is Verdict.DIFFERS


def test_every_statement_has_a_criterion_and_every_word_has_cells() -> None:
    published = STUDY.published["dtn"] | STUDY.published["dtn_more"]
    assert {key for key in published if key[0] == "d" and key[1:].isdigit()} == set(CRITERIA)
    assert set(STUDY.notes["dtn"]) <= set(CRITERIA)
    scenarios = {part.name: part.scenario for part in STUDY.parts()}
    # figures, and the relay in the plan; every combination; the test's
    sizes = {"dtn": (22, 4), "dtn-grid": (240, 36), "dtn-short": (1, 0)}
    for word, (short, long) in sizes.items():
        _, wanted = chosen(STUDY, word)
        for part, count in (("dtn", short), ("dtn-long", long)):
            if not count:
                continue
            plan = make(open_document(scenarios[part]), "test")
            cells = [{key: as_text(value) for key, value in cell.values.items()} for cell in plan.cells]
            assert sum(wanted[part](cell) for cell in cells) == count, (word, part)


def test_the_short_form(tmp_path: Path) -> None:
    """One run of 30 s with a disruption of 1 s: the client stops, and goes on."""
    said = studies.run(
        STUDY.name, only="dtn-short", seeds=1, jobs=1, out=tmp_path, settings={"duration": "34 s"}
    )
    assert said.good
    verdicts = {claim["id"]: claim["verdict"] for claim in said.data["claims"]}
    assert verdicts == {"d1": "agrees"}
    assert any("Bundles, runs of 30 s" in str(one) for one in said.shown)
    assert "figure-5-2" in (tmp_path / "study.html").read_text(encoding="utf-8")
    measured = Bundles(Measured(tmp_path, STUDY.parts()))
    (run,) = measured.runs("dtn", {"disruption": "1 s"})
    counts = dict(run.group_by("event").len().iter_rows())
    # every bundle is delivered once, by the direct way
    assert counts["delivered"] == counts["generated"] == counts["acknowledged"]
    assert relayed(run) == []
