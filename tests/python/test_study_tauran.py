"""The study tauran-2018: tolerances, what is calibrated, and a short form end to end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest

from bentpipe import studies
from bentpipe.plan.document import open_document
from bentpipe.plan.runs import make
from bentpipe.runners import engine
from bentpipe.store.codec import decode
from bentpipe.studies.study import as_text
from bentpipe.studies.tauran_2018 import STUDY
from bentpipe.studies.tauran_2018.cells import ACKS, REORDERING, SNR, SNRS, VARIANT, VARIANTS, case
from bentpipe.studies.tauran_2018.criteria import CRITERIA, Material
from bentpipe.studies.tauran_2018.runs import Runs
from bentpipe.studies.verdicts import Quantity, Tolerance, Verdict, together

RATE = {"rate": "4 Mbit/s"}
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


# --- what is asked of TCP -------------------------------------------------------------------------------------


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
                "send": "down",
                "load": {"time": "20 s"},
            }
        ],
        "tcp": tcp,
        "trace": {"tcp": True},
    }
    run = make(open_document(scenario), "test").runs[0]
    frame = decode(engine.run(run.spec_json())).tables["tcp"]
    last = frame.filter(pl.col("time_s") == frame["time_s"].max())
    return {row["side"]: row for row in last.to_dicts()}


def test_what_only_tcp_counts() -> None:
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
                "send": "down",
                "load": {"time": "1 s"},
            }
        ],
        "tcp": {"rto_estimate": "linux"},
    }
    spec = make(open_document(scenario), "test").runs[0].spec_json()
    assert "rto_estimate" not in spec
    assert '"tcp":' not in json.dumps(json.loads(spec)["trace"])
    assert "tcp" not in decode(engine.run(spec)).tables


# --- statements -----------------------------------------------------------------------------------------------


class Known(Runs):
    """Runs by hand: a value for each cell and measure."""

    def __init__(self, find: Callable[[Mapping[str, str], str], float]) -> None:
        self.find = find

    def values(self, cell: Mapping[str, str], measure: str) -> tuple[float, ...]:
        value = self.find(cell, measure)
        return (value, value * 1.0001, value * 0.9999)


def test_every_statement_can_fail_and_can_hold() -> None:
    """Each criterion has worlds in which it holds and in which it fails."""
    holds, fails = set(), set()
    for power in (-1.0, 1.0):
        for acks in (0.7, 1.0, 1.3):
            for strength in (-1, 0, 1):
                material = Material(*(Known(world(power, acks, strength)) for _ in range(4)))
                for name, (_, _, check) in CRITERIA.items():
                    for one in check(material):
                        (holds if one.verdict is Verdict.AGREES else fails).add((name, one.text))
    for name, (_, _, check) in CRITERIA.items():
        texts = {one.text for one in check(Material(*(Known(lambda *_: 1.0) for _ in range(4))))}
        assert {(name, text) for text in texts} <= fails, name
        assert any((name, text) in holds for text in texts), name


def world(power: float, acks: float, strength: int) -> Callable[[Mapping[str, str], str], float]:
    """Buffer, delayed ACKs, timer and variant move every measure by a factor each."""

    def find(cell: Mapping[str, str], measure: str) -> float:
        snr = int(cell.get(SNR, "10 dB").split()[0])
        value = 20.0 if measure == "peak_mbps" else 0.9 if measure.startswith("pairs") else 1.0
        if measure in ("overflow", "dropped"):
            return 3.0 if (measure == "overflow") == (power > 0) else 1.0
        if cell.get(REORDERING) == "with":
            value *= (3.0 * snr / 7) ** (power * (1 + 0.5 * strength * (cell[VARIANT] == "CUBIC")))
        if cell.get(ACKS) == "false":
            value *= acks ** (1 + strength * {"NewReno": 0, "CUBIC": 1, "Hybla": 2}[cell[VARIANT]])
            value *= acks**strength if measure == "timeouts" else 1.0
        if ACKS not in cell:  # D-SACK
            value *= acks
        value *= {"NewReno": 1.0, "CUBIC": 2.0**strength, "Hybla": 4.0**strength}[cell[VARIANT]]
        timer = int(cell.get("tcp.delayed_ack.timeout", "40 ms").split()[0])
        return value * (1 - power * abs(timer - 35) / 200)

    return find
