"""The study tauran-2018: tolerances, what is calibrated, and a short form end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import bentpipe_studies
from bentpipe.metrics.verdicts import Quantity, Tolerance, Verdict, combine_verdicts
from bentpipe.plan.document import load_scenario
from bentpipe.plan.network.constellation_routes import Handover
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.store.codec import decode
from bentpipe_studies.parts import Measurements
from bentpipe_studies.study import sweep_text
from bentpipe_studies.tauran_2018 import STUDY
from bentpipe_studies.tauran_2018.cells import ACKS, BUFFERS, REORDERING, SNR, SNRS, VARIANT, VARIANTS, case
from bentpipe_studies.tauran_2018.claims import BUFFERED, CRITERIA
from bentpipe_studies.tauran_2018.comparison import StudyRuns
from bentpipe_studies.tauran_2018.extensions import equation_kbps
from bentpipe_studies.tauran_2018.orbits import Orbits
from bentpipe_studies.tauran_2018.packet_sequences import attempts, ladders
from bentpipe_studies.tauran_2018.runs import Runs

RATE = {"rate": "4 Mbit/s"}
POINT, DOUBLE = Tolerance("within 1 point", points=1.0), Tolerance("within a factor of 2", scale=2.0)


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


def test_fitted_values_never_count_as_agreement() -> None:
    assert combine_verdicts([Verdict.AGREES, Verdict.CALIBRATED]) is Verdict.CALIBRATED
    assert combine_verdicts([Verdict.CALIBRATED, Verdict.UNDECIDED]) is Verdict.UNDECIDED
    assert combine_verdicts([Verdict.CALIBRATED, Verdict.DIFFERS]) is Verdict.DIFFERS


def test_every_printed_number_has_its_cell() -> None:
    part = next(part for part in STUDY.parts() if part.name == "tables")
    cells = [
        {key: sweep_text(value) for key, value in cell.values.items()}
        for cell in build_plan(load_scenario(part.scenario), "test").cells
    ]
    for snr in SNRS:
        for variant in VARIANTS.values():
            for reordering in (False, True):
                for delayed in (False, True):
                    for buffer in BUFFERS:
                        wanted = case(snr, variant, reordering=reordering, delayed=delayed, buffer=buffer)
                        assert sum(wanted.items() <= cell.items() for cell in cells) == 1


@pytest.mark.nightly
def test_the_short_form(tmp_path: Path) -> None:
    """A seed and a minute at 7 and 13 dB: shares decoded as in table 4.1, which was fitted, and more goodput by reordering."""
    message = bentpipe_studies.run(
        STUDY.name, part="short", seeds=1, jobs=1, out=tmp_path, settings={"duration": "60 s"}
    )
    assert message.good
    rows = {(row["id"], row["row"], row["interpretation"]): row for row in message.data["rows"]}
    good = rows["probe success", "decoded, % at 13 dB", "even intervals"]
    assert good["verdict"] == "calibrated"
    bits = rows["probe bits", "mean coded bits of a packet at 13 dB", "even intervals"]
    assert 15_000 < bits["quantities"][0]["measured"] < 19_000
    without = rows["4.1 goodput_kbps", "goodput, kb/s at 13 dB", "without"]["quantities"]
    buffered = rows["4.2 goodput_kbps", "goodput, kb/s at 13 dB", "by link"]["quantities"]
    assert all(b["measured"] > a["measured"] for a, b in zip(without, buffered, strict=True))
    fitted = [
        row
        for row in message.data["rows"]
        if row["row"].endswith("dB") and row["id"].endswith(("success", "kbps"))
    ]
    assert len(fitted) == 14
    assert {quantity["verdict"] for row in fitted for quantity in row["quantities"]} <= {
        "calibrated",
        "differs",
    }


# --- options of TCP -----------------------------------------------------------------------------------------


def counted(**tcp: object) -> dict[str, object]:
    """The last row of the table ``tcp`` at each side of a short download over a link that loses a packet in 50."""
    scenario = {
        "duration": "20 s",
        "seeds": 1,
        "path": {"segment": [{"name": "s", "delay": "40 ms", "up": RATE, "down": {**RATE, "loss": "2 %"}}]},
        "flow": [
            {
                "name": "f",
                "transport": "tcp",
                "congestion": "newreno",
                "direction": "down",
                "load": {"time": "20 s"},
            }
        ],
        "tcp": tcp,
        "trace": {"tcp": True},
    }
    run = build_plan(load_scenario(scenario), "test").runs[0]
    frame = decode(engine.run(run.spec_json())).tables["tcp_counters"]
    last = frame.filter(pl.col("time_s") == frame["time_s"].max())
    return {row["side"]: row for row in last.to_dicts()}


def test_counters_of_tcp_only() -> None:
    sides = counted(delayed_ack={"quick": 0})
    sender, receiver = sides["server"], sides["client"]
    assert 0.01 < sender["retransmitted_segments"] / sender["data_segments"] < 0.06
    # Nothing is reordered, so that next to nothing is sent in vain.
    assert receiver["duplicate_segments"] <= 0.1 * sender["retransmitted_segments"]
    samples = sender["rtt_samples"]
    assert 0.08 < sender["smoothed_rtt_s"] / samples < 0.4
    assert sender["rto_s"] / samples >= sender["smoothed_rtt_s"] / samples + 0.2
    pairs = [receiver[f"pairs_within_{wait}_ms"] for wait in (1, 5, 10, 20, 30, 40)]
    assert pairs == sorted(pairs)
    assert 0 < pairs[-1] == receiver["ack_pairs"] <= sender["data_segments"] / 2


def test_the_timer_to_the_letter_is_shorter() -> None:
    def rto(**tcp: object) -> float:
        sender = counted(**tcp)["server"]
        return float(sender["rto_s"] / sender["rtt_samples"])

    assert rto(rto_estimate="rfc6298") < rto() - 0.05


def test_without_acks_to_put_off_there_are_no_pairs() -> None:
    assert counted(delayed_ack="off")["client"]["ack_pairs"] == 0


def test_a_run_that_does_not_ask_has_neither_table_nor_key() -> None:
    scenario = {
        "duration": "1 s",
        "seeds": 1,
        "path": {"segment": [{"name": "s", "delay": "40 ms", "both": RATE}]},
        "flow": [
            {
                "name": "f",
                "transport": "tcp",
                "congestion": "newreno",
                "direction": "down",
                "load": {"time": "1 s"},
            }
        ],
        "tcp": {"rto_estimate": "linux"},
    }
    spec = build_plan(load_scenario(scenario), "test").runs[0].spec_json()
    assert "rto_estimate" not in spec
    assert '"tcp":' not in json.dumps(json.loads(spec)["trace"])
    assert "tcp" not in decode(engine.run(spec)).tables


# --- statements -----------------------------------------------------------------------------------------------


Find = Callable[[Mapping[str, str], str], float]


class Known(Runs):
    """Runs by hand: a value for each cell and measure."""

    def __init__(self, find: Find) -> None:
        self.find = find

    def values(self, cell: Mapping[str, str], measure: str) -> tuple[float, ...]:
        value = self.find(cell, measure)
        return (value, value * 1.0001, value * 0.9999)


class Sky(Orbits):
    """Orbits by hand: straight or not, small handovers that matter or do not, few large ones or many."""

    def __init__(self, good: bool) -> None:
        super().__init__(False)
        self.__dict__["good"] = good
        saved = 2 if good else 0
        drop = 3_000_000 if good else 0
        small = Handover(0, 80_000_000, 80_000_000 - drop, 2, 1, 1)
        rest = Handover(1, 80_000_000, 82_000_000, saved, 3, 3)
        self.__dict__["one"] = [small, small, rest]

    @property
    def found(self) -> Mapping[str, object]:  # type: ignore[override]
        return {"A – B": SimpleNamespace(handovers=self.__dict__["one"])}

    def straightness(self) -> dict[str, float]:
        return {"A – B": 0.95 if self.__dict__["good"] else 0.5}


def material(find: Find, users: Find | None = None, good: bool = True) -> StudyRuns:
    known = [Known(find) for _ in range(7)]
    known[4] = Known(users or find)
    return StudyRuns(*known, Sky(good))  # type: ignore[arg-type, call-arg]


def test_every_statement_can_fail_and_can_hold() -> None:
    """Each criterion has worlds in which it holds and in which it fails."""
    holds, fails = set(), set()
    for power in (-1.0, 1.0):
        for acks in (0.7, 1.0, 1.3):
            for strength in (-1, 0, 1):
                for users in (acks, 1 / acks, 0.7, 1.3):
                    made = material(
                        world(power, acks, strength), world(power, users, strength), users == acks
                    )
                    for name, (_, _, check) in CRITERIA.items():
                        for one in check(made):
                            (holds if one.verdict is Verdict.AGREES else fails).add((name, one.text))
    for name, (_, _, check) in CRITERIA.items():
        texts = {one.text for one in check(material(lambda *_: 1.0))}
        assert texts, name
        assert {(name, text) for text in texts} <= fails, name
        assert any((name, text) in holds for text in texts), name


def test_every_published_statement_has_a_criterion() -> None:
    published = STUDY.published
    tables = ("reordering_claims", "delack", "delack_more", "d_sack", "constellation_claims")
    wanted = {
        f"{table}.{key}" for table in tables for key in published[table] if re.fullmatch(r"[rtg][0-9]+", key)
    }
    wanted |= {"further.delack_pair_wait", "further.other_variants"}
    assert wanted <= set(CRITERIA)
    assert set(BUFFERED) <= set(CRITERIA)


def world(power: float, acks: float, strength: int) -> Find:
    """Buffer, delayed ACKs, timer and variant move every measure by a factor each."""

    def find(cell: Mapping[str, str], measure: str) -> float:
        if "path.constellation.down.loss" in cell:
            loss = float(cell["path.constellation.down.loss"].split()[0]) / 100
            return equation_kbps(loss, 2 if cell[ACKS] == "false" else 1) * 2.0**strength
        snr = int(cell.get(SNR, "10 dB").split()[0])
        value = 20.0 if measure == "peak_mbps" else 0.9 if measure.startswith("pairs") else 1.0
        if measure in ("overflow", "dropped"):
            return 3.0 if (measure == "overflow") == (power > 0) else 1.0
        if cell.get(REORDERING) in BUFFERS:
            value *= (3.0 * snr / 7) ** (power * (1 + 0.5 * strength * (cell[VARIANT] == "CUBIC")))
        if cell.get(ACKS) == "false":
            value *= acks ** (1 + strength * {"NewReno": 0, "CUBIC": 1, "Hybla": 2}[cell[VARIANT]])
            value *= acks**strength if measure == "rtos" else 1.0
        if ACKS not in cell:  # D-SACK
            value *= acks
        value *= {"NewReno": 1.0, "CUBIC": 2.0**strength, "Hybla": 4.0**strength}.get(cell[VARIANT], 1.0)
        timer = int(cell.get("tcp.delayed_ack.timeout", "40 ms").split()[0])
        return value * (1 - power * abs(timer - 35) / 200)

    return find


# --- ladders, orbits, the law -----------------------------------------------------------------------------------


def test_attempts_between_coming_and_leaving() -> None:
    """An attempt of 1 ms, answers after 20: by hand."""
    once, twice = (0.0, 1.0, True), (5.0, 27.0, True)
    assert attempts([once], [1.0], "") == [[(0.0, 1.0, "decoded")]]
    assert attempts([twice], [1.0], "") == [[(5.0, 6.0, "not decoded"), (26.0, 27.0, "decoded")]]
    given_up = attempts([(0.0, 43.0, False)], [1.0], "")[0]
    assert [what for *_, what in given_up] == ["not decoded"] * 3
    # Stop-and-wait: the second waits for the first one's answer. Go-back-N: the packets between are retransmitted.
    assert attempts([once, (2.0, 22.0, True)], [1.0], "stop-and-wait")[1] == [(21.0, 22.0, "decoded")]
    back = attempts([(0.0, 22.0, True), (4.0, 23.0, True), (30.0, 31.0, True)], [1.0], "go-back-n")
    assert back[1] == [(4.0, 5.0, "discarded"), (22.0, 23.0, "decoded")]
    assert back[2] == [(30.0, 31.0, "decoded")]


@pytest.mark.nightly
def test_the_sketches_of_chapter_3(tmp_path: Path) -> None:
    """Three duplicates retransmit late packets and RACK does not; type I needs more attempts than type II."""
    message = bentpipe_studies.run(STUDY.name, part="ladders", jobs=1, out=tmp_path)
    assert message.good
    drawn = {one.key: one.spec() for one in ladders(Measurements(tmp_path, STUDY.parts()))}
    assert set(drawn) == {"table-3-2", "figure-3-4", "figure-3-6", "figure-3-7", "figure-3-8", "figure-3-10"}

    def kinds(key: str) -> list[list[str]]:
        panels = drawn[key].get("hconcat", [drawn[key]])
        names = [panel["layer"][0].get("data", panel.get("data", {}))["name"] for panel in panels]
        texts = [drawn[key]["datasets"][name] for name in names]
        return [pl.read_csv(text.encode())["kind"].to_list() for text in texts]

    duplicates, rack = kinds("figure-3-7")
    assert ("retransmitted" in duplicates, "retransmitted" in rack) == (True, False)
    chase, redundancy = kinds("figure-3-4")
    assert chase.count("not decoded") > redundancy.count("not decoded") > 0
    assert [what.count("discarded") > 0 for what in kinds("table-3-2")] == [False, True, False]
    assert all("lost" in what and "retransmitted" in what for what in kinds("figure-3-10"))


def test_delays_over_the_constellation() -> None:
    """The delays of figure 3.3 change smoothly, and jump."""
    orbits = Orbits(True)
    least, most = (
        f(d for found in orbits.found.values() for d in found.delay_ns if d) / 1e6 for f in (min, max)
    )
    assert 40 < least < 70 < most < 100
    assert all(part > 0.5 for part in orbits.straightness().values())
    assert any(one.size == "small" for one in orbits.handovers())


def test_the_equation_has_40_mbit_s_at_a_loss_in_a_million() -> None:
    """Equation 3.3 has no value without loss; what it confirms 40 Mb/s at is next to none."""
    assert equation_kbps(9.6e-7, 2) == pytest.approx(40_000, rel=0.01)
