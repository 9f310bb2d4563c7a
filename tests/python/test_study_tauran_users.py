"""The study tauran-2018, chapter 6: cells, statements that can fail, readings, and a short form end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import bentpipe_studies
from bentpipe.metrics.verdicts import Verdict
from bentpipe.plan.document import load_scenario
from bentpipe.plan.spec.result_columns import column_owners
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.sweep import cells as swept
from bentpipe.store.reader import open_store
from bentpipe_studies.parts import CellFilter, Measurements, plan_part
from bentpipe_studies.study import Row, sweep_text
from bentpipe_studies.tauran_2018 import STUDY
from bentpipe_studies.tauran_2018.cells import BUFFERS
from bentpipe_studies.tauran_2018.chapter_6 import CLAIMS, interpretations
from bentpipe_studies.tauran_2018.chapter_6 import cells as sweeps
from bentpipe_studies.tauran_2018.chapter_6.cells import (
    CALLERS,
    COUNT,
    INTERPRETATIONS,
    NEAREST,
    TERMINALS,
    WITHOUT,
    Interpretation,
)
from bentpipe_studies.tauran_2018.chapter_6.figures import figures
from bentpipe_studies.tauran_2018.chapter_6.measures import Callers, Terminals
from bentpipe_studies.tauran_2018.chapter_6.queries import InterpretationRuns
from bentpipe_studies.tauran_2018.chapter_6.saved_runs import load_saved_runs, spreads
from bentpipe_studies.tauran_2018.chapter_6.tables import (
    Chapter6Runs,
    PublishedNumbers,
    carried,
    limit_of_users,
    rows,
    spread,
)
from bentpipe_studies.tauran_2018.runs import Runs

WORLDS = 400
README = (STUDY.directory / "README.md").read_text(encoding="utf-8")
DRAWN = {"6.2", "6.3", *(f"6.{number}" for number in range(6, 35))}
"""Figures of chapter 6 that are not a diagram: 6.1, 6.4 and 6.5 are."""

MOST_BYTES = 5_000_000
"""Columns of a page."""


KEYS = ("point", "policy", COUNT, "variant", "reordering")


@cache
def planned(name: str) -> list[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Cells of a part; test_studies plans their runs."""
    part = next(part for part in STUDY.parts() if part.name == name)
    found = swept(load_scenario(part.scenario).data["sweep"], column_owners())
    return [(values, tuple(sweep_text(values[key]) for key in KEYS if key in values)) for values in found]


def cells(name: str) -> list[tuple[str, ...]]:
    return [cell for _, cell in planned(name)]


def test_every_printed_number_has_its_cell() -> None:
    tcp, calls = cells("schedulers"), cells("calls")
    assert len(set(tcp)) == len(tcp)
    assert len(set(calls)) == len(calls)
    for reading in INTERPRETATIONS:
        for name in ("PF", "DT_S", "RR", "DT_H", "CoDeS"):
            wanted = {
                tuple(reading.tcp(name, users, "NewReno", how)[key] for key in KEYS)
                for users in TERMINALS
                for how in (WITHOUT, *BUFFERS)
            }
            assert wanted <= set(tcp)
            if "ACKs" not in reading.point:
                assert {
                    tuple(reading.call(name, users)[key] for key in KEYS[:3]) for users in CALLERS
                } <= set(calls)


def select_parts(name: str, *wanted: CellFilter) -> set[tuple[str, ...]]:
    """Cells of a part that one of ``wanted`` takes."""
    return {cell for values, cell in planned(name) if any(one(values) for one in wanted)}


def test_saved_results_of_600_s_have_every_interpretation_and_the_main_point() -> None:
    """``full.csv``, written by ``full.sql`` from the stores, has the columns of README and no others."""
    saved = pl.read_csv(STUDY.directory / "full.csv")
    found = [
        tuple(map(str, row))
        for row in saved.select("point", "policy", "users", "variant", "reordering").rows()
    ]
    assert len(set(found)) == len(found)
    assert set(found) == select_parts("schedulers", sweeps.tcp(), sweeps.interpretations_of_tcp())
    assert {point for point, *_ in found} == set(sweeps.POINTS)
    assert saved["seed"].unique().to_list() == [1]
    assert f"{len(found)} runs of TCP users" in README
    assert saved.filter(~pl.col("mean").is_between("least", "most")).is_empty()
    # of n numbers between two bounds
    users = pl.col("users")
    assert saved.filter(
        pl.col("sd") > (pl.col("most") - pl.col("least")) / 2 * (users / (users - 1)).sqrt()
    ).is_empty()


def test_saved_calls_of_600_s_have_every_interpretation_and_the_main_point() -> None:
    """``full-calls.csv``, which ``full-calls.sql`` wrote of the stores."""
    saved = pl.read_csv(STUDY.directory / "full-calls.csv")
    found = {tuple(map(str, row)) for row in saved.select("point", "policy", "users").rows()}
    assert len(found) == saved.height
    assert found == select_parts("calls", sweeps.calls(), sweeps.interpretations_of_calls())
    assert saved["seed"].unique().to_list() == [1]
    assert f"{len(found)} of calls" in README
    for least, quantity, most in (
        ("lost_min", "lost", "lost_max"),
        ("delay_min_ms", "delay_ms", "delay_max_ms"),
    ):
        assert saved.filter(~pl.col(quantity).is_between(least, most)).is_empty()
    assert saved["delay_min_ms"].min() > 85  # type: ignore[operator]  # one way, of which the air takes more


def archived_rows() -> list[Row]:
    found = rows(PublishedNumbers(STUDY.published, {}), load_saved_runs(STUDY.directory))
    return [row for row in found if any(one.values for one in row.quantities)]


def test_spreads_of_600_s_have_verdicts() -> None:
    """One seed decides: what is kept of 600 s agrees or differs, by how far two samples of n users lie apart."""
    judged = [row for row in archived_rows() if row.id in ("6.4 sd", "6.5 sd")]
    assert len(judged) == len(INTERPRETATIONS) * len(TERMINALS) * 3
    verdicts = [one.verdict for row in judged for one in row.quantities]
    assert set(verdicts) == {Verdict.AGREES, Verdict.DIFFERS}
    # sqrt of the F distribution's quantile at 97.5 %, which tables have: 4.026 for 9 and 9 degrees, 1.486 for 99 and 99
    for users, exact in ((10, 2.006), (100, 1.219)):
        assert spread(users).scale == pytest.approx(exact, rel=0.05)
    # several seeds say themselves how far one more run lies
    for row in rows(PublishedNumbers(STUDY.published, {}), ran(World(1))):
        if row.id.endswith(" sd"):
            assert all(one.tolerance is None and len(one.values) == 3 for one in row.quantities)


def test_statements_on_spread_are_of_runs_of_600_s() -> None:
    """They are judged on what is kept, and not at all in runs of a minute."""
    names = [f"tcp_users_more.u{number}" for number in (12, 13, 14)]
    nearest = InterpretationRuns(load_saved_runs(STUDY.directory), NEAREST)
    found = {name: CLAIMS[name][2](nearest) for name in names}
    for name in names:
        assert found[name]
        assert all(one.verdict in (Verdict.AGREES, Verdict.DIFFERS) for one in found[name])
        assert CLAIMS[name][2](InterpretationRuns(ran(World(1), full=False), NEAREST)) == ()
    assert {one.verdict for one in found["tcp_users_more.u12"]} == {Verdict.AGREES}


def lines_of(heading: str) -> list[list[str]]:
    """Cells of README's first table whose text comes after ``heading``."""
    after = README[README.index(heading) :].split("\n")
    first = next(number for number, line in enumerate(after) if line.startswith("|"))
    table = list(takewhile(lambda line: line.startswith("|"), after[first + 2 :]))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def reading_of(text: str) -> Interpretation:
    point, _, size = text.partition(", `B = ")
    return Interpretation(point.replace(" + ", " and the "), "RTT C" if size == "RTT C`" else "")


def test_readme_has_the_saved_spreads() -> None:
    """Its table of standard deviations, to three digits, and the table of verdicts."""
    there = load_saved_runs(STUDY.directory)
    policy, how = "", WITHOUT
    compared = 0
    for name, *numbers in lines_of("Standard deviations over users, Mb/s."):
        if name.endswith(", thesis"):
            how = BUFFERS[0] if name.startswith("with the buffer") else WITHOUT if "without" in name else how
            policy = name.split(", ")[-2]
            table = STUDY.published["tcp_users"]["table_6_4" if how == WITHOUT else "table_6_5"]
            wanted = table["sd"][policy.lower()]
        else:
            reading = reading_of(name)
            cells_ = [reading.tcp(policy, users, reordering=how) for users in TERMINALS]
            wanted = [there.tcp.values(cell, "sd")[0] for cell in cells_]
        assert numbers == [f"{value:.3f}" for value in wanted], (how, policy, name)
        compared += 1
    assert compared == 24
    shown = {
        line["interpretation"]: list(line.values())[1:]
        for line in spreads(STUDY.published, STUDY.directory).rows
    }
    table_of = {
        name: cells_ for name, *cells_ in lines_of("The first table has the number of agreeing values")
    }
    assert table_of == shown


def test_the_nearest_reading_is_what_the_saved_runs_of_tables_6_4_and_6_5_say() -> None:
    scored = interpretations.scores([row for row in archived_rows() if row.id in ("6.4 mean", "6.5 mean")])
    assert set(scored) == set(map(str, INTERPRETATIONS))
    assert interpretations.nearest(scored) == str(NEAREST)


def test_every_published_statement_has_a_criterion() -> None:
    published = STUDY.published
    wanted: set[str] = set()
    for table, pattern in (
        ("voip_more", r"v\d+"),
        ("tcp_users_more", r"u\d+"),
        ("channel_claims", r"q\d+"),
    ):
        wanted |= {f"{table}.{key}" for key in published[table] if re.fullmatch(pattern, key)}
    for table in ("voip", "tcp_users"):
        wanted |= {f"{table}.trends.{key}" for key in published[table]["trends"]}
    assert wanted <= set(CLAIMS)


class World(Runs):
    """Runs by hand: each policy, buffer, variant and kind of load moves each measure by a factor of its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.frame = pl.DataFrame({"run": ["1"]})
        self.scale = cache(self._factor)

    def values(self, cell: Mapping[str, str], measure: str) -> tuple[float, ...]:
        users = int(cell.get(COUNT, cell.get("users", "10")))
        load = "one" if users == 1 else "few" if users <= 20 else "some" if users <= 75 else "many"
        value = self.scale(cell["policy"], cell.get("reordering", ""), cell.get("variant", ""), load, measure)
        return (value, value * 1.0001, value * 0.9999)

    def _factor(self, *kinds: str) -> float:
        return _drawn(kinds[-1], _chance(f"{self.seed} {kinds}"), _chance(f"{self.seed}"))

    def goodputs(self, cell: Mapping[str, str]) -> list[float]:
        """Values of every user."""
        return [value * (1 + user / 100) for value in self.values(cell, "mean") for user in range(40)]

    def over_time(self, cell: Mapping[str, str]) -> list[tuple[float, float]]:
        """Values of one run of a minute."""
        return [(2.0 * step, self.values(cell, "packets_s")[0] + step) for step in range(2, 31)]


def _chance(text: str) -> float:
    return int.from_bytes(sha256(text.encode()).digest()[:6]) / 2**48


def _drawn(measure: str, drawn: float, whole: float) -> float:
    """Within what a measure can be; in a part of all worlds nothing differs much."""
    if whole < 0.3:
        drawn = 0.5 + 0.02 * drawn
    scales = {
        "loss": (0.5, 6), "delay_ms": (100, 600), "useful_mbps": (3, 8), "mos": (2, 4.5), "best_ms": (2, 20),
        "decoded_0": (40, 60), "rto": (0, 1), "refused": (20, 90),
    }  # fmt: skip
    low, high = scales.get(measure, (0.5, 2.0))
    return low + (high - low) * drawn


def ran(world: Any, *, full: bool = True) -> Chapter6Runs:
    return Chapter6Runs(world, world, world, world, full=full)


def test_every_statement_can_fail_and_can_hold() -> None:
    """Each check of each criterion has worlds in which it holds and in which it fails."""
    holds: set[tuple[str, str]] = set()
    fails: set[tuple[str, str]] = set()
    for seed in range(WORLDS):
        asked = InterpretationRuns(ran(World(seed)), Interpretation())
        for name, (_, _, check, _) in CLAIMS.items():
            for one in check(asked):
                if one.verdict is not Verdict.NOT_RUN:
                    (holds if one.verdict is Verdict.AGREES else fails).add((name, one.text))
    assert {name for name, _ in holds | fails} == set(CLAIMS)
    assert holds == fails, holds ^ fails


def test_every_figure_of_the_chapter_is_drawn() -> None:
    """6.2, 6.3, 6.6 to 6.34, each once; with the second point, and small enough for a page of all chapters."""
    drawn = figures(ran(World(1)), STUDY.published)
    numbers = [figure.title.split(" ")[0] for figure in drawn]
    assert sorted(numbers) == sorted(DRAWN)
    assert [figure.key for figure in drawn] == [f"figure-{number.replace('.', '-')}" for number in numbers]
    texts = {number: json.dumps(figure.whole()) for number, figure in zip(numbers, drawn, strict=True)}
    for number in ("6.18", "6.20", "6.21", "6.26", "6.28", "6.29"):
        assert "with the packet in service, B = RTT C" in texts[number]
    assert "RR without reordering, thesis" in texts["6.25"]
    assert '"time, s"' in texts["6.3"]
    assert sum(map(len, texts.values())) < MOST_BYTES / 2


class Lines(Runs):
    """One measure on a line over users."""

    def __init__(self, found: Mapping[int, float]) -> None:
        self.found = found

    def values(self, cell: Mapping[str, str], _measure: str) -> tuple[float, ...]:
        value = self.found.get(int(cell[COUNT]))
        return () if value is None else (value, value)


def test_calls_that_are_carried_and_users_that_are_spaced() -> None:
    loss = Lines({75: 1.0, 100: 5.0, 125: 9.0})
    assert carried(loss, Interpretation(), "PF") == pytest.approx((87.5, 87.5))  # type: ignore[arg-type]
    assert carried(Lines({75: 1.0}), Interpretation(), "PF") == ()  # type: ignore[arg-type]
    assert carried(Lines({25: 4.0}), Interpretation(), "PF") == (25.0, 25.0)  # type: ignore[arg-type]
    # Equations 6.6 to 6.9 by hand: 20 ms over three times 16,890 bits at 50 Mb/s.
    assert limit_of_users(Lines({20: 16_890.0}), Interpretation())[0] == pytest.approx(19.74, abs=0.01)  # type: ignore[arg-type]


class PublishedStudy(Runs):
    """Runs that have a factor of what is printed in tables 6.4 and 6.5, by point."""

    def __init__(self, factors: Mapping[str, float]) -> None:
        self.factors = factors

    def values(self, cell: Mapping[str, str], measure: str) -> tuple[float, ...]:
        policy, _, size = cell["policy"].partition(", ")
        factor = self.factors.get(str(Interpretation(cell["point"], size)))
        if measure != "mean" or factor is None:
            return ()
        table = "table_6_4" if cell["reordering"] == WITHOUT else "table_6_5"
        printed = STUDY.published["tcp_users"][table]["mean"][policy.lower()]
        return (factor * printed[TERMINALS.index(int(cell[COUNT]))],)


def test_the_nearest_reading_is_counted_and_not_chosen() -> None:
    def found(factors: Mapping[str, float]) -> list[Row]:
        return list(rows(PublishedNumbers(STUDY.published, {}), ran(PublishedStudy(factors))))

    scored = interpretations.scores(found({"11 dB": 1.5, "13 dB + packet, RTT C": 1.04, "7 dB": 0.5}))
    assert list(scored) == ["11 dB", "13 dB + packet, RTT C", "7 dB"]
    full = {reading: groups["6.4, 40 to 100"] for reading, groups in scored.items()}
    assert [round(one.scale, 6) for one in full.values()] == [1.5, 1.04, 2.0]
    assert [(one.within, one.count) for one in full.values()] == [(0, 12), (12, 12), (0, 12)]
    message = interpretations.nearest_text(scored)
    assert "of all: 13 dB + packet, RTT C (factor 1.04" in message[1]
    assert interpretations.nearest_text({"11 dB": scored["11 dB"]}) == ()


@pytest.mark.nightly
def test_the_short_form(tmp_path: Path) -> None:
    """Ten terminals and 75 calls for some seconds: who has a queue that is longer has more, CoDeS and PF shorter queues."""
    message = bentpipe_studies.run(
        STUDY.name,
        part="short-6",
        seeds=1,
        jobs=1,
        out=tmp_path,
        settings={"duration": "5 s", "sample_interval": "1 s"},
    )
    assert message.good
    found = {(row["id"], row["interpretation"]): row["quantities"] for row in message.data["rows"]}
    short, long = (found["6.5 mean", f"11 dB{size}, by link"] for size in ("", ", RTT C"))
    assert all(0.05 < one["measured"] < 5 for one in (*short, *long))
    assert long[0]["measured"] > short[0]["measured"]
    assert not any(identifier.endswith(" sd") for identifier, _ in found)  # only in 600 s
    lost = {name: found[f"loss {name}", "11 dB"][0]["measured"] for name in ("DT_S", "PF")}
    assert lost["DT_S"] > 10 > lost["PF"]
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    # forty users, NewReno and users that always have something are no part of it
    without = {"6.3", "6.18", "6.26", "6.33", "6.34"}
    assert drawn == {f"figure-{number.replace('.', '-')}.svg" for number in DRAWN - without}
    assert (tmp_path / "study.html").stat().st_size < MOST_BYTES
    _same_as_sql(tmp_path)


def _same_as_sql(out: Path) -> None:
    """``full.sql`` and ``full-calls.sql`` give what is judged, for every measure that they have."""
    measured = Measurements(out, STUDY.parts())
    for name, file, own in (("schedulers", "full.sql", Terminals), ("calls", "full-calls.sql", Callers)):
        asked = (STUDY.directory / file).read_text(encoding="utf-8")
        found = open_store(out / name).connect().execute(asked)
        columns = [str(column[0]) for column in found.description]
        answer = pl.DataFrame(found.fetchall(), schema=columns, orient="row", infer_schema_length=None)
        judged: Any = own(measured, name)
        keys = [key for key in KEYS if key in judged.frame.columns]
        ours = judged.frame.with_columns(pl.col(COUNT).cast(pl.Int64))
        theirs = answer.rename({"users": COUNT, "lost": "loss"}, strict=False).with_columns(
            pl.col(COUNT).cast(pl.Int64)
        )
        both = ours.join(theirs, on=keys, suffix=" of sql")
        assert both.height == ours.height == theirs.height > 0
        measures = [name for name in theirs.columns if f"{name} of sql" in both.columns and name != "seed"]
        assert len(measures) > 10
        for measure in measures:
            # of calls these are means over packets there, over calls here
            near = 0.02 if measure in ("delay_ms", "jitter_ms") else 1e-3
            for one, other in zip(both[measure], both[f"{measure} of sql"], strict=True):
                assert (one is None) == (other is None), measure
                assert one is None or other == pytest.approx(one, rel=near, abs=1e-3), measure


def test_runs_of_600_s_have_stores_of_their_own() -> None:
    full = STUDY.to_full_length()
    names = {part.name: dict(part.settings) for part in full.parts()}
    assert names["schedulers-full"] == names["calls-full"] == {"duration": "600 s"}
    assert "schedulers" not in names
    assert set(full.selections()) == set(STUDY.selections())
    for part in full.parts():
        if (
            part.settings
        ):  # what a run of 600 s may cost, with the most users, is within the scenario's limits
            most = max(TERMINALS if part.name.startswith("schedulers") else CALLERS)
            planned = plan_part(part, lambda _: True, seeds=1, settings={COUNT: most})
            assert len(planned.ids) == len(planned.plan.cells) > 0
    with pytest.raises(ScenarioError, match="no longer form"):
        bentpipe_studies.run("etosat", full=True)
