"""Adaptive coding and modulation: DVB-S2's modes, the keys, and a fade through the engine."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.link.acm import MODES, select_modes
from bentpipe.plan.plan import build_plan
from bentpipe.plan.randomness import RandomInput, random_inputs
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.link.generated_services import AdaptiveCoding
from bentpipe.store.codec import decode

FADE = [
    {"at": 0, "attenuation": 0},
    {"at": "20 s", "attenuation": 0},
    {"at": "30 s", "attenuation": "9 dB"},
    {"at": "40 s", "attenuation": "9 dB"},
    {"at": "50 s", "attenuation": 0},
]
CHANNEL = {"model": "attenuation", "snr": "13.5 dB", "schedule": FADE}
ACM: dict[str, Any] = {
    "symbol_rate": "10 Mbaud",
    "report_delay": "300 ms",
    "margin": "1 dB",
    "hysteresis": "0.5 dB",
}


def scenario(**down: Any) -> dict[str, Any]:
    given = {
        key: value for key, value in ({"channel": CHANNEL, "acm": ACM} | down).items() if value is not None
    }
    segment = {"name": "ka", "delay": "250 ms", "up": {"rate": "5 Mbit/s"}, "down": given}
    flow = {
        "name": "f",
        "transport": "quic",
        "congestion": {"name": "fixed", "rate_bit_s": 60_000_000},
        "direction": "down",
        "load": {"time": "60 s"},
    }
    return {"duration": "60 s", "seeds": 1, "path": {"segment": [segment]}, "flow": [flow]}


def spec(**down: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        build_plan(load_scenario(scenario(**down)), "test").runs[0].spec_json()
    )
    return found


def test_efficiencies_are_those_of_table_13() -> None:
    """As printed there, by modulation."""
    published = [
        "0.490243",
        "0.656448",
        "0.789412",
        "0.988858",
        "1.188304",
        "1.322253",
        "1.487473",
        "1.587196",
        "1.654663",
        "1.766451",
        "1.788612",
        "1.779991",
        "1.980636",
        "2.228124",
        "2.478562",
        "2.646012",
        "2.679207",
        "2.637201",
        "2.966728",
        "3.165623",
        "3.300184",
        "3.523143",
        "3.567342",
        "3.703295",
        "3.951571",
        "4.119540",
        "4.397854",
        "4.453027",
    ]
    assert [f"{mode.efficiency:.6f}" for mode in MODES] == published
    quarter = MODES[0]
    assert (quarter.name, quarter.data_bits, quarter.symbols) == ("QPSK 1/4", 15_928, 32_490)


def test_modes_in_use_rise_in_speed_and_need() -> None:
    modes = select_modes(AdaptiveCoding.model_validate(ACM), "acm")
    for slow, fast in pairwise(modes):
        assert slow.efficiency < fast.efficiency
        assert slow.es_n0_db < fast.es_n0_db
    left_out = {mode.name for mode in MODES} - {mode.name for mode in modes}
    assert left_out == {"QPSK 8/9", "8PSK 5/6", "8PSK 8/9", "8PSK 9/10", "16APSK 8/9", "16APSK 9/10"}
    named = select_modes(AdaptiveCoding.model_validate(ACM | {"modes": ["8PSK 3/4", "QPSK 1/2"]}), "acm")
    assert [mode.name for mode in named] == ["QPSK 1/2", "8PSK 3/4"]


def test_the_stage_is_the_engine_s() -> None:
    found = spec(acm=ACM | {"modes": ["QPSK 1/4"]})["graph"]["links"][0]["down"][0]
    assert found["kind"] == "acm"
    assert found["modes"] == [
        {"es_n0_db": -2.35, "data_bits": 15_928, "coded_bits": 64_800, "symbols": 32_490}
    ]
    numbers = ("symbols_s", "margin_db", "hysteresis_db", "report_interval_ns", "report_delay_ns")
    assert [found[key] for key in numbers] == [10_000_000, 1.0, 0.5, 100_000_000, 300_000_000]
    assert RandomInput.PATH not in random_inputs(spec()), "a fade that is given is no chance"


def test_the_rate_follows_a_fade() -> None:
    """13.5 dB less the margin are enough for 16APSK 5/6 before the fade, 4.5 dB in it for QPSK 2/3. On the slope of 0.9
    dB a second a report is at most 0.4 s old. The margin is enough for that, and nothing is lost."""
    tables = decode(engine.run(json.dumps(spec()))).tables
    links = tables["links"].filter(pl.col("link") == "ka.down").sort("time_s")
    assert links["dropped_retry_limit_packets"][-1] == 0

    def rate(start: float, end: float) -> float:
        first, last = (links.filter(pl.col("time_s") <= at + 1e-9)["sent_bytes"][-1] for at in (start, end))
        return float((last - first) * 8 / (end - start))

    assert rate(10, 20) == pytest.approx(10e6 * 3.300184, rel=1e-3)
    assert rate(31, 40) == pytest.approx(10e6 * 1.322253, rel=1e-3)
    users = tables["radio_users"].filter(pl.col("link") == "ka.down")
    assert (users["coded_bits"] >= users["useful_bits"]).all()


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"channel": None}, "acm", "requires a channel"),
    ({"rate": "5 Mbit/s"}, "rate", "cannot be combined with acm"),
    ({"netem": True}, "netem", "cannot be combined with acm"),
    ({"link_layer": {"scheme": "code", "frame": "1 kB"}}, "link_layer", "cannot be combined with acm"),
    ({"changes": [{"at": "1 s", "rate": "5 Mbit/s"}]}, "changes", "whose rate follows the channel"),
    ({"acm": ACM | {"modes": ["QPSK 1/5"]}}, "acm.modes", 'did you mean "QPSK'),
    ({"acm": ACM | {"report_delay": "2 s"}}, "acm", "expected at most 1 s"),
    ({"acm": ACM | {"margin": "-1 dB"}}, "acm", "margin: found -1 dB"),
    ({"acm": ACM | {"symbol_rate": "10 Mbit/s"}}, "acm.symbol_rate", 'such as "27.5 Mbaud"'),
    ({"acm": ACM | {"symbol_rate": "1 baud", "modes": ["QPSK 1/4"]}}, "acm.symbol_rate", "below 1 bit/s"),
    ({"acm": {"symbol_rate": "1 Mbaud"}}, "acm.report_delay", "missing"),
]


@pytest.mark.parametrize(("down", "key", "text"), WRONG)
def test_errors_name_their_key(down: dict[str, Any], key: str, text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        spec(**down)
    assert [found for found, _ in caught.value.problems] == [f"path.ka.down.{key}"]
    assert text in caught.value.problems[0][1]
