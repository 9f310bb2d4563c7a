"""The study tauran-2018, chapter 6: cells, statements that can fail, readings, and a short form end to end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bentpipe import studies
from bentpipe.plan.document import open_document
from bentpipe.plan.runs import make
from bentpipe.scenario.problems import ScenarioError
from bentpipe.studies.parts import plan_part
from bentpipe.studies.study import Row, as_text
from bentpipe.studies.tauran_2018 import STUDY
from bentpipe.studies.tauran_2018.cells import BUFFERS
from bentpipe.studies.tauran_2018.chapter_6 import CLAIMS, readings
from bentpipe.studies.tauran_2018.chapter_6.asking import Asked
from bentpipe.studies.tauran_2018.chapter_6.cells import CALLERS, COUNT, READINGS, TERMINALS, WITHOUT, Reading
from bentpipe.studies.tauran_2018.chapter_6.tables import Numbers, Ran, carried, limit_of_users, rows
from bentpipe.studies.tauran_2018.runs import Runs
from bentpipe.studies.verdicts import Verdict

WORLDS = 400


KEYS = ("point", "policy", COUNT, "variant", "reordering")


@cache
def cells(name: str) -> list[tuple[str, ...]]:
    part = next(part for part in STUDY.parts() if part.name == name)
    planned = make(open_document(part.scenario), "test", seeds=(1,)).cells
    return [tuple(as_text(cell.values[key]) for key in KEYS if key in cell.values) for cell in planned]


def test_every_printed_number_has_its_cell() -> None:
    tcp, calls = cells("schedulers"), cells("calls")
    assert len(set(tcp)) == len(tcp)
    assert len(set(calls)) == len(calls)
    for reading in READINGS:
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


def test_what_is_kept_of_600_s_are_cells_of_the_sweep() -> None:
    """``full.csv``, which ``full.sql`` wrote of the stores."""
    kept = pl.read_csv(STUDY.place / "full.csv")
    found = [
        tuple(map(str, row))
        for row in kept.select("point", "policy", "users", "variant", "reordering").rows()
    ]
    assert len(set(found)) == len(found)
    assert set(found) <= set(cells("schedulers"))
    assert kept.filter(~pl.col("mean").is_between("least", "most")).is_empty()
    # of n numbers between two bounds
    users = pl.col("users")
    assert kept.filter(
        pl.col("sd") > (pl.col("most") - pl.col("least")) / 2 * (users / (users - 1)).sqrt()
    ).is_empty()


def test_what_is_kept_of_calls_of_600_s_are_cells_of_the_sweep() -> None:
    """``full-calls.csv``, which ``full-calls.sql`` wrote of the stores: every call of every reading."""
    kept = pl.read_csv(STUDY.place / "full-calls.csv")
    found = {tuple(map(str, row)) for row in kept.select("point", "policy", "users").rows()}
    assert len(found) == kept.height
    assert found <= set(cells("calls"))
    for reading in READINGS:
        if "ACKs" not in reading.point:
            for name in ("PF", "RR", "DT_H"):
                assert {
                    tuple(reading.call(name, users)[key] for key in KEYS[:3]) for users in (75, 100)
                } <= found
    for quantity in ("lost", "delay_ms"):
        assert kept.filter(~pl.col(quantity).is_between(f"least_{quantity}", f"most_{quantity}")).is_empty()
    assert kept["least_delay_ms"].min() > 85  # type: ignore[operator]  # one way, of which the air takes more


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

    def values(self, cell: Mapping[str, str], measure: str) -> tuple[float, ...]:
        users = int(cell.get(COUNT, cell.get("users", "10")))
        load = "one" if users == 1 else "few" if users <= 20 else "some" if users <= 75 else "many"
        kinds = (cell["policy"], cell.get("reordering", ""), cell.get("variant", ""), load, measure)
        drawn = _chance(f"{self.seed} {kinds}")
        value = _drawn(measure, drawn, _chance(f"{self.seed}"))
        return (value, value * 1.0001, value * 0.9999)


def _chance(text: str) -> float:
    return int.from_bytes(sha256(text.encode()).digest()[:6]) / 2**48


def _drawn(measure: str, drawn: float, whole: float) -> float:
    """Within what a measure can be; in a part of all worlds nothing differs much."""
    if whole < 0.3:
        drawn = 0.5 + 0.02 * drawn
    scales = {
        "loss": (0.5, 6), "delay_ms": (100, 600), "useful_mbps": (3, 8), "mos": (2, 4.5), "best_ms": (2, 20),
        "decoded_0": (40, 60), "rto": (0, 1),
    }  # fmt: skip
    low, high = scales.get(measure, (0.5, 2.0))
    return low + (high - low) * drawn


def ran(world: Any) -> Ran:
    return Ran(world, world, world, world, full=True)


def test_every_statement_can_fail_and_can_hold() -> None:
    """Each check of each criterion has worlds in which it holds and in which it fails."""
    holds: set[tuple[str, str]] = set()
    fails: set[tuple[str, str]] = set()
    for seed in range(WORLDS):
        asked = Asked(ran(World(seed)), Reading())
        for name, (_, _, check, _) in CLAIMS.items():
            for one in check(asked):
                if one.verdict is not Verdict.NOT_RUN:
                    (holds if one.verdict is Verdict.AGREES else fails).add((name, one.text))
    assert {name for name, _ in holds | fails} == set(CLAIMS)
    assert holds == fails, holds ^ fails


class Lines(Runs):
    """One measure on a line over users."""

    def __init__(self, found: Mapping[int, float]) -> None:
        self.found = found

    def values(self, cell: Mapping[str, str], _measure: str) -> tuple[float, ...]:
        value = self.found.get(int(cell[COUNT]))
        return () if value is None else (value, value)


def test_calls_that_are_carried_and_users_that_are_spaced() -> None:
    loss = Lines({75: 1.0, 100: 5.0, 125: 9.0})
    assert carried(loss, Reading(), "PF") == pytest.approx((87.5, 87.5))  # type: ignore[arg-type]
    assert carried(Lines({75: 1.0}), Reading(), "PF") == ()  # type: ignore[arg-type]
    assert carried(Lines({25: 4.0}), Reading(), "PF") == (25.0, 25.0)  # type: ignore[arg-type]
    # Equations 6.6 to 6.9 by hand: 20 ms over three times 16,890 bits at 50 Mb/s.
    assert limit_of_users(Lines({20: 16_890.0}), Reading())[0] == pytest.approx(19.74, abs=0.01)  # type: ignore[arg-type]


class Published(Runs):
    """Runs that have a factor of what is printed in tables 6.4 and 6.5, by point."""

    def __init__(self, factors: Mapping[str, float]) -> None:
        self.factors = factors

    def values(self, cell: Mapping[str, str], measure: str) -> tuple[float, ...]:
        policy, _, size = cell["policy"].partition(", ")
        factor = self.factors.get(str(Reading(cell["point"], size)))
        if measure != "mean" or factor is None:
            return ()
        table = "table_6_4" if cell["reordering"] == WITHOUT else "table_6_5"
        printed = STUDY.published["tcp_users"][table]["mean"][policy.lower()]
        return (factor * printed[TERMINALS.index(int(cell[COUNT]))],)


def test_the_nearest_reading_is_counted_and_not_chosen() -> None:
    def found(factors: Mapping[str, float]) -> list[Row]:
        return list(rows(Numbers(STUDY.published, {}), ran(Published(factors))))

    scored = readings.scores(found({"11 dB": 1.5, "13 dB + packet, RTT C": 1.04, "7 dB": 0.5}))
    assert list(scored) == ["11 dB", "13 dB + packet, RTT C", "7 dB"]
    full = {reading: groups["6.4, 40 to 100"] for reading, groups in scored.items()}
    assert [round(one.factor, 6) for one in full.values()] == [1.5, 1.04, 2.0]
    assert [(one.within, one.count) for one in full.values()] == [(0, 12), (12, 12), (0, 12)]
    said = readings.said(scored)
    assert "of all: 13 dB + packet, RTT C (factor 1.04" in said[1]
    assert readings.said({"11 dB": scored["11 dB"]}) == ()


def test_the_short_form(tmp_path: Path) -> None:
    """Ten terminals and 75 calls for some seconds: who has a queue that is longer has more, CoDeS and PF shorter queues."""
    said = studies.run(
        STUDY.name, only="short-6", seeds=1, jobs=1, out=tmp_path, settings={"duration": "5 s"}
    )
    assert said.good
    found = {(row["id"], row["reading"]): row["quantities"] for row in said.data["rows"]}
    short, long = (found["6.5 mean", f"11 dB{size}, by link"] for size in ("", ", RTT C"))
    assert all(0.05 < one["measured"] < 5 for one in (*short, *long))
    assert long[0]["measured"] > short[0]["measured"]
    assert not any(identifier.endswith(" sd") for identifier, _ in found)  # only in 600 s
    lost = {name: found[f"loss {name}", "11 dB"][0]["measured"] for name in ("DT_S", "PF")}
    assert lost["DT_S"] > 10 > lost["PF"]
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"figure-6-2.svg", "figure-6-8.svg", "figure-6-24.svg", "figure-6-34.svg"} <= drawn or len(
        drawn
    ) > 10


def test_runs_of_600_s_have_stores_of_their_own() -> None:
    full = STUDY.at_full_length()
    names = {part.name: dict(part.settings) for part in full.parts()}
    assert names["schedulers-full"] == names["calls-full"] == {"duration": "600 s"}
    assert "schedulers" not in names
    assert set(full.words()) == set(STUDY.words())
    for part in full.parts():
        if (
            part.settings
        ):  # what a run of 600 s may cost, with the most users, is within the scenario's limits
            most = max(TERMINALS if part.name.startswith("schedulers") else CALLERS)
            planned = plan_part(part, lambda _: True, seeds=1, settings={COUNT: most})
            assert len(planned.ids) == len(planned.plan.cells) > 0
    with pytest.raises(ScenarioError, match="no longer form"):
        studies.run("etosat", full=True)
