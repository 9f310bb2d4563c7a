"""Chapter 5 of the study andreotti-2025: measures with known answers, its data, and one run end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import bentpipe_studies
from bentpipe.metrics.verdicts import Verdict, combine_verdicts
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe_studies.andreotti_2025 import STUDY
from bentpipe_studies.andreotti_2025.dtn import interpretations
from bentpipe_studies.andreotti_2025.dtn.cells import LONG, SHORT, WINDOW
from bentpipe_studies.andreotti_2025.dtn.claims import CRITERIA, InterpretationRuns, checks_of, d1, d10
from bentpipe_studies.andreotti_2025.dtn.measures import Bundles, burst_spread, relayed, void, ways
from bentpipe_studies.parts import Measurements, plan_part
from bentpipe_studies.study import select_parts, sweep_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bentpipe.plan.spec.run_spec import RunSpec


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


def asked(runs: dict[str, pl.DataFrame]) -> InterpretationRuns:
    """Runs by hand, by disruption."""
    return InterpretationRuns(Known(runs), "cubic")


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
        return combine_verdicts([one.verdict for one in d1(asked({"1 s": events(generated, 0.1)}))])

    every = [n / 10 for n in range(300)]
    assert verdict([t for t in every if not 14.5 < t < 15.8]) is Verdict.AGREES
    assert verdict(every) is Verdict.DIFFERS
    assert verdict([t for t in every if t <= 14.5]) is Verdict.DIFFERS


def test_a_bundle_by_the_relay_is_one_too_many() -> None:
    calm = events([0.0, 1.0, 2.0], 0.1)
    runs = dict.fromkeys(("none", "10 ms", "50 ms", "100 ms", "1 s"), calm)
    assert combine_verdicts([one.verdict for one in d10(asked(runs))]) is Verdict.AGREES
    busy = runs | {"1 s": events([0.0, 1.0, 2.0], 0.1, relay=1)}
    assert combine_verdicts([one.verdict for one in d10(asked(busy))]) is Verdict.DIFFERS


def test_every_statement_has_a_criterion_and_every_word_has_cells() -> None:
    published = STUDY.published["dtn"] | STUDY.published["dtn_more"]
    assert {key for key in published if key[0] == "d" and key[1:].isdigit()} == set(CRITERIA)
    assert set(STUDY.notes["dtn"]) <= set(CRITERIA)
    scenarios = {part.name: part.scenario for part in STUDY.parts()}
    # figures, and the relay in the plan; every combination; the test's
    sizes = {"dtn": (22, 4), "dtn-grid": (240, 288), "dtn-short": (1, 0)}
    for part, place in (("dtn", 0), ("dtn-long", 1)):
        plan = build_plan(load_scenario(scenarios[part]), "test")
        cells = [{key: sweep_text(value) for key, value in cell.values.items()} for cell in plan.cells]
        for word, counts in sizes.items():
            _, wanted = select_parts(STUDY, word)
            if counts[place]:
                assert sum(wanted[part](cell) for cell in cells) == counts[place], (word, part)


def specs(reading: str, part: str) -> list[RunSpec]:
    """Return the runs of an interpretation, one for each cell."""
    key = next(one for one in interpretations.INTERPRETATIONS if one.key == reading).store(part)
    part_of = {one.name: one for one in STUDY.parts()}[key]
    _, wanted = select_parts(STUDY, "dtn-readings")
    planned = plan_part(part_of, wanted[key], seeds=1)
    return [run.spec for run in planned.plan.runs if run.id in planned.ids]


def test_a_reading_changes_one_thing() -> None:
    """Spot checks of the resolved runs, by the changes of the interpretation."""
    assert {one.key: one.claims for one in interpretations.INTERPRETATIONS}["blind"] == ("d2", "d6", "d10")
    (blind,) = specs("blind", LONG)
    assert blind["dtn"]["backlog_ignored"]
    assert blind["duration_ns"] == 70 * 10**9
    rates = {
        (one["from"], one["to"]): one["rate_bit_s"]
        for one in specs("plan-slow", LONG)[0]["dtn"]["plan"]["contacts"]
    }
    assert (rates["vm1", "vm6"], rates["vm1", "vm3"], rates["vm6", "vm3"]) == (
        100_000_000,
        5_000_000,
        5_000_000,
    )
    (dark, calm) = sorted(specs("client", SHORT), key=lambda spec: "outage" not in str(spec["graph"]))
    for spec in (dark, calm):
        assert [one["client"] for one in spec["dtn"]["perf"]] == ["vm1", "vm3"]
        assert spec["dtn"]["perf"][1]["amount"]["duration_ns"] == 30 * 10**9
    assert len(specs("own-way", LONG)[0]["dtn"]["links"]) == 6
    assert {one["dtn"]["perf"][0]["lifetime_ns"] for one in specs("lifetime", LONG)} == {60 * 10**9}
    assert all(one["dtn"]["perf"][0]["start_ns"] == 20 * 10**9 for one in specs("open", SHORT))


def test_later_streams_of_a_client_are_counted_from_their_start() -> None:
    """The client at satellite 1 of two is measured, by its clock."""

    class Held(Measurements):
        def table(self, part: str, name: str) -> pl.DataFrame:
            assert (part, name) == ("dtn-open", "bundles")
            own = events([20.0, 21.0], 3.0).with_columns(source=pl.lit("ipn:1.3000"))
            other = events([0.0], 1.0).with_columns(source=pl.lit("ipn:2.3001"), node=pl.lit("vm3"))
            found = pl.concat([own, other.select(own.columns)])
            return found.with_columns(kind=pl.lit("data"), seed=1, controller=pl.lit("cubic"))

    bundles = Bundles(Held.__new__(Held), {SHORT: "dtn-open"}, start_s=20.0)
    checks = checks_of("d3", InterpretationRuns(bundles, "cubic"))
    assert checks is not None
    assert checks[0].values == (pytest.approx(3.01),)


@pytest.mark.nightly
def test_the_short_form(tmp_path: Path) -> None:
    """One run of 30 s with a disruption of 1 s: the client stops, and continues."""
    message = bentpipe_studies.run(
        STUDY.name, part="dtn-short", seeds=1, jobs=1, out=tmp_path, settings={"duration": "34 s"}
    )
    assert message.good
    verdicts = {claim["id"]: claim["verdict"] for claim in message.data["claims"]}
    assert verdicts == {"d1": "agrees"}
    assert any("Bundles, runs of 30 s" in str(one) for one in message.shown)
    assert "figure-5-2" in (tmp_path / "study.html").read_text(encoding="utf-8")
    measured = Bundles(Measurements(tmp_path, STUDY.parts()))
    (run,) = measured.runs("dtn", {"disruption": "1 s"})
    counts = dict(run.group_by("event").len().iter_rows())
    # every bundle is delivered once, by the direct way
    assert counts["delivered"] == counts["generated"] == counts["acknowledged"]
    assert relayed(run) == []
