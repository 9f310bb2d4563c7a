"""Studies: verdicts with known answers, criteria that can fail, and a short form of the study end to end."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import bentpipe_studies
from bentpipe.cli.console import answer
from bentpipe.metrics.compute import jain_index
from bentpipe.metrics.format import TextTable
from bentpipe.metrics.verdicts import FLOOR, Check, Quantity, Verdict, combine_verdicts, expected_range
from bentpipe.scenario.errors import ScenarioError
from bentpipe_studies import measures
from bentpipe_studies.andreotti_2025 import JAIN_TOLERANCE, STUDY
from bentpipe_studies.andreotti_2025.cells import CONTROLLERS, GEO, LOSSES
from bentpipe_studies.andreotti_2025.claims import CRITERIA
from bentpipe_studies.page import write_page
from bentpipe_studies.parts import Measurements
from bentpipe_studies.study import Findings, Part, Row, match_cells, select_parts

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "studies/andreotti-2025"


class Known(Measurements):
    """Measurements by hand: goodput of single flows, by part, delay, loss and controller."""

    def __init__(self, goodput: dict[tuple[str, str, str], float]) -> None:
        self.known = goodput

    def rows(self, part, cell, flow=None):  # noqa: ANN001, ANN201
        return pl.DataFrame()

    def goodput(self, part, cell, flow=None):  # noqa: ANN001, ANN201
        key = (cell["path.satellite.delay"], cell["path.satellite.up.loss"], cell["flow.bulk.congestion"])
        value = self.known.get(key)
        return () if value is None else (value, value * 1.001, value * 0.999)


# --- verdicts -------------------------------------------------------------------------------------------------


def test_one_more_run_lies_in_the_prediction_interval() -> None:
    # mean 10, deviation 1, n = 4: t(0.975, 3) = 3.18245 and sqrt(1 + 1/4) = 1.11803
    found = expected_range((10 - 1.5**0.5, 10 + 1.5**0.5, 10.0, 10.0))
    assert found is not None
    assert found == pytest.approx((10 - 3.18245 * 1.11803, 10 + 3.18245 * 1.11803), rel=1e-4)


def test_equal_runs_leave_the_floor() -> None:
    assert expected_range((5.0, 5.0)) == pytest.approx((5 * (1 - FLOOR), 5 * (1 + FLOOR)))
    assert expected_range((1.0, 1.0), upper_bound=1.0) == pytest.approx((1 - FLOOR, 1.0))
    assert expected_range((5.0,)) is None


@pytest.mark.parametrize(
    ("published", "values", "verdict"),
    [
        (5.0, (4.9, 5.1, 5.0), Verdict.AGREES),
        (5.04, (5.0, 5.0, 5.0), Verdict.AGREES),
        (5.06, (5.0, 5.0, 5.0), Verdict.DIFFERS),
        (6.0, (4.9, 5.1, 5.0), Verdict.DIFFERS),
        (5.0, (5.0,), Verdict.UNDECIDED),
        (5.0, (), Verdict.NOT_RUN),
    ],
)
def test_a_published_number(published: float, values: tuple[float, ...], verdict: Verdict) -> None:
    assert Quantity("goodput", published, values).verdict is verdict


@pytest.mark.parametrize(
    ("values", "at_least", "verdict"),
    [
        ((9.2, 9.3, 9.25), True, Verdict.AGREES),
        ((8.2, 8.3, 8.25), True, Verdict.DIFFERS),
        ((8.0, 9.9, 9.2), True, Verdict.UNDECIDED),
        ((8.2, 8.3, 8.25), False, Verdict.AGREES),
        ((9.2, 9.3, 9.25), False, Verdict.DIFFERS),
        ((9.1,), True, Verdict.AGREES),
        ((8.9,), True, Verdict.DIFFERS),
        ((), True, Verdict.NOT_RUN),
    ],
)
def test_a_check(values: tuple[float, ...], at_least: bool, verdict: Verdict) -> None:
    assert Check("at 9", values, 9.0, at_least).verdict is verdict


def test_a_whole_is_as_good_as_its_parts() -> None:
    agrees, differs, undecided = Verdict.AGREES, Verdict.DIFFERS, Verdict.UNDECIDED
    assert combine_verdicts([agrees, agrees]) is agrees
    assert combine_verdicts([agrees, differs, undecided]) is differs
    assert combine_verdicts([agrees, undecided]) is undecided
    assert combine_verdicts([agrees, Verdict.NOT_RUN]) is Verdict.NOT_RUN
    assert combine_verdicts([]) is Verdict.NOT_RUN


# --- criteria -------------------------------------------------------------------------------------------------


def _ideal() -> dict[tuple[str, str, str], float]:
    """The thesis's statements as numbers: c3 at 10 Mb/s holds with them."""
    return {
        (GEO, loss, name): 2.0 if name == "newreno" else 9.4 for loss in LOSSES[GEO] for name in CONTROLLERS
    }


def _verdict(claim: str, goodput: dict[tuple[str, str, str], float]) -> Verdict:
    checks = CRITERIA[claim][1](Known(goodput), "single-flow", "netem")
    return combine_verdicts([check.verdict for check in checks])


def test_c3_can_hold_and_can_fail() -> None:
    assert _verdict("c3", _ideal()) is Verdict.AGREES
    assert _verdict("c3", _ideal() | {(GEO, "1 %", "cubic"): 0.5}) is Verdict.DIFFERS
    assert _verdict("c3", _ideal() | {(GEO, "1 %", "newreno"): 9.9}) is Verdict.DIFFERS
    assert _verdict("c3", {}) is Verdict.NOT_RUN


def test_c5_can_hold_and_can_fail() -> None:
    good = {
        (GEO, loss, name): value * 10
        for (loss, hybla) in (("0.01 %", 6.0), ("0.1 %", 2.0), ("1 %", 0.5))
        for name, value in (("newreno", 0.3), ("cubic", 0.4), ("bbr", 9.5), ("hybla", hybla))
    }
    assert _verdict("c5", good) is Verdict.AGREES
    assert _verdict("c5", good | {(GEO, "1 %", "bbr"): 70.0}) is Verdict.DIFFERS
    assert _verdict("c5", good | {(GEO, "0.01 %", "hybla"): 40.0}) is Verdict.DIFFERS
    steady = {(GEO, loss, "cubic"): 95.0 for loss in LOSSES[GEO]}
    assert _verdict("c5", good | steady) is Verdict.DIFFERS


# --- the study's own data -------------------------------------------------------------------------------------


def test_printed_indices_follow_from_printed_goodputs() -> None:
    rows = STUDY.published["friendliness"]
    assert len(rows) == 7
    for row in rows:
        assert jain_index(row["goodput"]) == pytest.approx(row["jain"], abs=JAIN_TOLERANCE), row["id"]


def test_every_row_and_claim_has_a_sentence_and_a_criterion() -> None:
    printed = {row["id"] for row in STUDY.published["friendliness"]}
    assert set(STUDY.notes["rows"]) == printed
    assert set(STUDY.notes["claims"]) <= set(STUDY.published["claims"]) == set(CRITERIA)


def test_the_matrix_is_the_thesis_s() -> None:
    from bentpipe.plan.document import load_scenario
    from bentpipe.plan.plan import build_plan

    plan = build_plan(load_scenario(FOLDER / "single-flow.toml"), "test")
    assert len(plan.cells) == 112
    limits = {
        (cell.values["path.satellite.rate"], cell.values["path.satellite.delay"]): stage["limit_packets"]
        for cell in plan.cells
        for stage in cell.resolved.spec["graph"]["links"][0]["up"]
        if stage["kind"] == "netem"
    }
    assert limits["10 Mbit/s", "250 ms"] == 417
    assert limits["10 Mbit/s", "15 ms"] == 25
    assert len(limits) == 8


def test_other_scenarios_differ_from_the_matrix_only_where_they_say() -> None:
    whole = tomllib.loads((FOLDER / "single-flow.toml").read_text())
    for file in FOLDER.glob("*.toml"):
        other = tomllib.loads(file.read_text())
        if "path" in other:
            long = "100 s" if file.name.startswith("real-") else "300 s"
            assert (other["quic"], other["duration"], other["seeds"]) == (whole["quic"], long, 3), file.name
            satellite = next(one for one in other["path"]["segment"] if one["name"] == "satellite")
            assert satellite["up"] == {"loss": "0.01 %", "loss_position": "before-queue"}, file.name


@pytest.mark.nightly
def test_the_manual_says_how_many_runs() -> None:
    import importlib

    from bentpipe_studies.parts import plan_part

    table = (ROOT / "docs/how-to/studies.md").read_text()
    for name, module in bentpipe_studies.NAMES.items():
        study = importlib.import_module(module).STUDY
        wanted = select_parts(study, None)[1]
        runs = sum(len(plan_part(part, wanted[part.name]).ids) for part in study.parts())
        message = re.search(rf"^\| \[`{name}`\].*\| (\d+)(.*) \|$", table, re.MULTILINE)
        assert message is not None
        assert runs == int(message[1]) * (3 if "three seeds" in message[2] else 1), name
    real = plan_part(Part("real", ROOT / "studies/thomas-2019/real-satcom.toml"), match_cells())
    assert f"SATCOM has {len(real.plan.cells)} cells" in table


# --- only -----------------------------------------------------------------------------------------------------


def test_only_chooses_cells() -> None:
    words, wanted = select_parts(STUDY, "c5")
    assert words == ["c5"]
    assert set(wanted) == {"single-flow"}
    assert wanted["single-flow"]({"path.satellite.delay": GEO, "path.satellite.rate": "100 Mbit/s"})
    assert not wanted["single-flow"]({"path.satellite.delay": GEO, "path.satellite.rate": "10 Mbit/s"})
    assert len(select_parts(STUDY, None)[1]) == len(STUDY.parts())
    assert match_cells({"a": ["true"]})({"a": True, "b": "x"})


def test_unknown_words_get_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="friendliness"):
        select_parts(STUDY, "friendlines")
    with pytest.raises(ScenarioError, match="andreotti-2025"):
        bentpipe_studies.run("andreotti-2024")


# --- the short form -------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_the_short_form(tmp_path: Path) -> None:
    """Two cells of 20 s, one seed: everything runs, is judged, is kept, and is resumed."""
    short = {
        "duration": "20 s",
        "channel": [{"path.satellite.delay": "15 ms", "path.satellite.queue": "25 packets",
                     "path.satellite.up.loss": "0.01 %"}],
        "path.satellite.netem": [True, False],
        "flow.rival.congestion": ["newreno"],
    }  # fmt: skip
    for again in (False, True):
        message = bentpipe_studies.run(
            STUDY.name, part="friendliness", seeds=1, jobs=1, out=tmp_path, settings=short
        )
        assert message.good
        data = message.data
        (store,) = data["stores"]
        assert (store["runs"], store["done"], store["reused"]) == (2, 0 if again else 2, 2 if again else 0)
    rows = {(row["id"], row["queue"]): row for row in data["rows"]}
    assert len(rows) == 14
    assert rows["geo-cubic", "netem"]["verdict"] == "not run"
    for reading in ("netem", "waiting room"):
        row = rows["leo-newreno", reading]
        assert row["verdict"] == "undecided"  # one seed has no spread
        first, second, jain = row["quantities"]
        assert 2 < first["measured"] < 10
        assert 0.5 < first["measured"] + second["measured"] < 10
        assert 0.5 <= jain["measured"] <= 1
    frame = message.frame()
    assert frame.height == 3 * len(rows) + sum(len(claim["checks"]) for claim in data["claims"])
    assert set(frame["verdict"]) == {"undecided", "not run"}
    first = frame.row(by_predicate=(pl.col("id") == "leo-newreno") & (pl.col("interpretation") == "netem")
                      & (pl.col("part") == "first"), named=True)  # fmt: skip
    assert (first["published"], first["together"], first["low"], first["needed"]) == (
        5.7253,
        "undecided",
        None,
        None,
    )
    assert first["measured"] == pytest.approx(
        rows["leo-newreno", "netem"]["quantities"][0]["measured"], rel=1e-5
    )
    page = (tmp_path / "study.html").read_text()
    assert "GEO: hybla against cubic" in page
    assert 'data-key="friendliness' in page
    assert "default-src 'none'" in page, "nothing is loaded from elsewhere"
    assert json.loads((tmp_path / "study.json").read_text())["study"] == STUDY.name


def test_a_long_page_says_what_is_on_it(tmp_path: Path) -> None:
    quantity = Quantity("", 1.0, (1.0, 1.001, 0.999))
    rows = tuple(Row(f"r{n}", f"row {n}", "p. 1", "", (quantity,)) for n in range(3))
    tables = tuple(TextTable(f"Table {n}", ({"a": n},)) for n in range(9))
    findings = Findings(rows, (), tables, "as far as one more run")
    page = write_page(tmp_path, "A study", findings, {}).read_text()
    assert "All 3 agree with the publication." in page
    wanted = re.findall(r'href="#([^"]+)"', page)
    assert wanted == ["rows", *(f"table-{n}" for n in range(1, 10)), "judged"]
    assert all(f'id="{place}"' in page for place in wanted)
    few = write_page(tmp_path, "A study", replace(findings, tables=tables[:2]), {}).read_text()
    assert 'class="contents"' not in few


def test_words_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = {
        "duration": "40 s",
        "order": [{"flow.first.congestion": "hybla", "flow.second.congestion": "cubic"}],
    }
    answer(bentpipe_studies.run(STUDY.name, part="c6", seeds=1, jobs=1, out=tmp_path, settings=short))
    message = capsys.readouterr().out
    assert "Criterion: Jain's index of both flows' goodput ≥ 0.9" in message
    assert "7 of 7 rows within 0.0001" in message
    assert "with the publication" in message.split("bentpipe report")[-1], "the headline is last"


def test_c1_can_hold_and_can_fail() -> None:
    good = {("15 ms", "0.01 %", name): 9.3 for name in CONTROLLERS}
    assert _verdict("c1", good) is Verdict.AGREES
    assert _verdict("c1", good | {("15 ms", "0.01 %", "newreno"): 8.7}) is Verdict.DIFFERS


@pytest.mark.parametrize(("hybla", "verdict"), [(0.1, Verdict.AGREES), (0.5, Verdict.DIFFERS)])
def test_c4_can_hold_and_can_fail(hybla: float, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    def swing(_measured, _part, cell, _since):  # noqa: ANN001, ANN202
        mine = hybla if cell["flow.bulk.congestion"] == "hybla" else 0.2
        return (mine, mine * 1.01, mine * 0.99)

    monkeypatch.setattr(measures, "variation", swing)
    assert _verdict("c4", {}) is verdict


@pytest.mark.parametrize(
    ("share", "window", "jain"), [(True, True, True), (False, True, True), (True, False, False)]
)
def test_c2_and_c6_can_hold_and_can_fail(
    share: bool, window: bool, jain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = {("15 ms", "10 %", name): 1.5 if share else 3.0 for name in CONTROLLERS}

    def mean_window(_measured, _part, cell, _since):  # noqa: ANN001, ANN202
        calm = cell["path.satellite.up.loss"] == "0.01 %"
        return (60e3, 61e3, 62e3) if calm or window else (6e3, 6.1e3, 6.2e3)

    monkeypatch.setattr(measures, "mean_window", mean_window)
    monkeypatch.setattr(
        measures, "jain_between", lambda *_: (0.95, 0.96, 0.955) if jain else (0.7, 0.71, 0.72)
    )
    assert _verdict("c2", low) is (Verdict.AGREES if share and window else Verdict.DIFFERS)
    assert _verdict("c6", {}) is (Verdict.AGREES if jain else Verdict.DIFFERS)
