"""Channels: their keys, published tables, and what is refused."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bentpipe.plan.analysis.lint import lint_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.input_files import Files
from bentpipe.plan.link import channel as link_channel
from bentpipe.plan.link.channel_parameters import FONTAN
from bentpipe.plan.link.channel_parameters import P681 as TWO_STATES
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError, from_pydantic
from bentpipe.scenario.link.generated import Channel
from bentpipe.scenario.quantities import UnitError
from bentpipe.scenario.radio_quantities import Decibel, Frequency, Speed

TREES = {
    "model": "perez-fontan",
    "environment": "intermediate-tree-shadowed",
    "elevation": "40 deg",
    "speed": "60 km/h",
    "snr": "7 dB",
}


P681 = TREES | {"model": "p681", "environment": "urban", "elevation": "45 deg"}


def resolved(**changes: Any) -> Any:
    table = {key: value for key, value in (TREES | changes).items() if value is not None}
    return link_channel.channel(Channel.model_validate(table), Files(Path()), "path.satellite.down.channel")


def refused(**changes: Any) -> str:
    try:
        resolved(**changes)
    except ScenarioError as error:
        return str(error)
    except ValidationError as error:
        return str(from_pydantic(error, {}, "scenario"))
    raise AssertionError("not refused")


def test_a_cell_is_the_published_one() -> None:
    found = resolved()
    assert found["kind"] == "three_state"
    assert found["reference"] == {"snr_db": 7.0, "error_db": 0.0}
    assert found["states"][1] == {"mean_db": -8.2, "deviation_db": 3.9, "multipath_db": -12.7}
    assert found["frames_m"] == [6.3, 6.3, 4.5]
    assert (found["transition_m"], found["correlation_m"]) == (2.6, 1.5)
    # 1/16 wavelength at 2.2 GHz and 60 km/h.
    assert found["motion"]["step_ns"] == 511_009
    assert found["motion"]["carrier_hz"] == 2_200_000_000


def test_a_step_is_never_longer_than_a_millisecond() -> None:
    assert resolved(speed="3 km/h")["motion"]["step_ns"] == 1_000_000
    assert resolved(step="0.1 ms")["motion"]["step_ns"] == 100_000


def test_all_states_may_have_the_length_of_the_first() -> None:
    assert resolved(state_lengths="one")["frames_m"] == [6.3, 6.3, 6.3]


@pytest.mark.parametrize(
    ("environment", "vector"),
    [
        ("open", (0.5, 0.375, 0.125)),
        ("suburban", (0.4545, 0.4545, 0.0910)),
        ("intermediate-tree-shadowed", (0.3929, 0.3571, 0.25)),
        ("heavy-tree-shadowed", (0.5, 0.5)),
    ],
)
def test_the_matrices_have_the_published_vectors(environment: str, vector: tuple[float, ...]) -> None:
    for cell in FONTAN[environment].values():
        assert all(sum(row) == pytest.approx(1, abs=1e-9) for row in cell.transitions)
        found = [1 / len(vector)] * len(vector)
        for _ in range(1000):
            found = [
                sum(share * row[state] for share, row in zip(found, cell.transitions, strict=True))
                for state in range(len(vector))
            ]
        assert found == pytest.approx(vector, abs=5e-4)


def test_a_cell_that_was_never_published_is_refused_by_name() -> None:
    assert refused(environment="village") == (
        "scenario: path.satellite.down.channel.environment: no published table at 2.2 GHz for the environment "
        '"village", expected one of: open, suburban, intermediate-tree-shadowed, heavy-tree-shadowed'
    )
    assert refused(**P681 | {"environment": "village"}).endswith(
        "expected one of: urban, suburban, rural-wooded"
    )
    assert "whose table is not complete" in refused(environment="urban")
    assert 'did you mean "suburban"' in refused(environment="suburbian")


def test_below_the_lowest_table_is_an_error_and_above_the_highest_a_warning() -> None:
    assert refused(elevation="30 deg").endswith(
        'elevation: found 30 deg, below the lowest table of "intermediate-tree-shadowed", expected at least 40 deg'
    )
    high = Channel.model_validate(TREES | {"elevation": "70 deg"})
    message = link_channel.elevation_note(high, "down.channel")
    assert message == "there is no table for 70 deg; that of 40 deg, the highest below, is used"
    assert resolved(elevation="70 deg")["look_angle"] == {"elevation_deg": 70.0, "azimuth_deg": 0.0}
    assert link_channel.elevation_note(Channel.model_validate(TREES), "down.channel") is None


def test_check_says_which_table_is_used() -> None:
    down = {
        "rate": "5 Mbit/s",
        "channel": TREES | {"elevation": "70 deg"},
        "link_layer": {"scheme": "code", "frame": "1 kB"},
    }
    segment = {"name": "mobile", "delay": "80 ms", "up": {"rate": "5 Mbit/s"}, "down": down}
    flow = {"name": "f", "congestion": "cubic", "direction": "down"}
    document = load_scenario({"duration": "1 s", "path": {"segment": [segment]}, "flow": [flow]})
    (message,) = lint_plan(build_plan(document, "test", catalogue=engine.catalogue()))
    assert message.key == "path.mobile.down.channel.elevation"
    assert message.text == "there is no table for 70 deg; that of 40 deg, the highest below, is used"


def test_other_bands_are_refused() -> None:
    assert "found 1.5 GHz, expected 2 GHz to 4 GHz" in refused(frequency="1.5 GHz")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"step": "0.6 ms"},
            "found 600 us, expected at most 511.009 us, the shorter of 1 ms and 1/16 wavelength",
        ),
        ({"step": "999 ns"}, "found 999 ns, expected at least 1 us"),
        ({"speed": "1e6 km/h"}, "takes 1 us or more"),
        ({"speed": None}, 'found no speed, which model = "perez-fontan" needs'),
        ({"speed": "60"}, 'found "60" without a unit'),
        ({"speed": "0 km/h"}, "a speed above 0"),
        ({"snr": "7"}, 'did you mean "7 dB"?'),
        ({"snr": "7 db"}, 'did you mean "7 dB"?'),
        ({"snr": None}, "missing"),
        ({"elevation": "100 deg"}, "expected at most 90 deg"),
        ({"model": "perez-fontain"}, 'did you mean "perez-fontan"?'),
        (
            {"model": "white-noise"},
            'found environment beside "white-noise", expected it with perez-fontan or p681',
        ),
        ({"band": "S"}, 'did you mean "frequency"?'),
        ({"state_lengths": "all"}, "each, one"),
    ],
)
def test_bad_keys_give_one_message(changes: dict[str, Any], words: str) -> None:
    assert words in refused(**changes)


@pytest.mark.parametrize("snr_db", [*range(-12, 15), 0.187])
def test_information_is_gauss_hermites(snr_db: float) -> None:
    """The closed form against ``1 - E[log2(1 + exp(-L))]``, L normal with mean ``s^2 / 2`` and deviation ``s``."""
    sigma = 2 * 10 ** (snr_db / 20)
    nodes, weights = np.polynomial.hermite.hermgauss(120)
    ratio = sigma**2 / 2 + sigma * math.sqrt(2) * nodes
    exact = 1 - float(weights @ np.logaddexp2(0, -ratio / math.log(2))) / math.sqrt(math.pi)
    found = engine.channel_information({"kind": "fixed", "snr_db": float(snr_db)}, 1, 1)
    assert found == pytest.approx(exact, abs=6.5e-4)


def test_mean_information_is_that_of_the_attenuation() -> None:
    """Rayleigh's: the information of an exponential Es/N0, by Gauss and Laguerre."""
    nodes, weights = np.polynomial.laguerre.laggauss(60)
    inner, densities = np.polynomial.hermite.hermgauss(80)
    sigma = 2 * np.sqrt(10 * nodes)[:, None]
    ratio = sigma**2 / 2 + sigma * math.sqrt(2) * inner
    each = 1 - np.logaddexp2(0, -ratio / math.log(2)) @ densities / math.sqrt(math.pi)
    rayleigh = resolved(model="rayleigh", environment=None, elevation=None, snr="10 dB")
    found = engine.channel_information(rayleigh, 20 * rayleigh["motion"]["step_ns"], 200_000)
    assert found == pytest.approx(float(weights @ each), abs=4e-3)


def test_white_noise_needs_nothing_but_its_snr() -> None:
    table = Channel.model_validate({"model": "white-noise", "snr": "13 dB"})
    assert link_channel.channel(table, Files(Path()), "down.channel") == {"kind": "fixed", "snr_db": 13.0}


def test_a_channel_is_written_as_it_was_read() -> None:
    table = TREES | {"frequency": "2.1 GHz", "snr_error": "-1.5 dB", "seed": 3}
    assert Channel.model_validate(table).to_dict() == table


@pytest.mark.parametrize(
    ("text", "value"),
    [("7 dB", 7.0), ("-0.65 dB", -0.65), (0, 0.0), ("+3dB", 3.0)],
)
def test_levels_have_a_sign(text: object, value: float) -> None:
    assert Decibel.parse(text).db == value
    assert Decibel.parse(str(Decibel.parse(text))) == Decibel.parse(text)


def test_speeds_and_frequencies_are_whole_numbers() -> None:
    assert Speed.parse("60 km/h").m_h == 60_000
    assert Speed.parse("1 m/s").m_h == 3_600
    assert str(Speed.parse("10 m/s")) == "36 km/h"
    assert Frequency.parse("2.2 GHz").hz == 2_200_000_000
    assert str(Frequency.parse("2200 MHz")) == "2.2 GHz"
    for kind, text in ((Speed, "60 mph"), (Frequency, "-1 Hz"), (Decibel, "300 dB"), (Speed, "0.0001 km/h")):
        with pytest.raises(UnitError):
            kind.parse(text)


def test_the_two_states_are_the_published_ones() -> None:
    whole = resolved(**P681)
    (found,) = whole["cells"]
    assert (whole["kind"], found["at_ns"]) == ("semi_markov", 0)
    assert found["good"] == {
        "ln_mean": 3.0639,
        "ln_deviation": 1.698,
        "min_length_m": 10.0,
        "mean_db": -1.8225,
        "mean_deviation_db": 1.1317,
        "quantiles": [0.0, 1.0],
        "deviation_per_db": -0.4643,
        "deviation_db": 0.3334,
        "multipath_per_db": -0.0481,
        "multipath_db": -14.745,
    }
    assert found["bad"]["quantiles"] == [0.1, 0.9]
    assert (found["correlation_m"], found["transition_m_per_db"], found["transition_offset_m"]) == (
        1.791,
        0.0744,
        2.1423,
    )
    assert whole["look_angle"] == {"elevation_deg": 45.0, "azimuth_deg": 0.0}


def test_p681_has_a_table_for_a_band_or_refuses() -> None:
    ka = resolved(**P681 | {"environment": "rural-wooded", "frequency": "3 GHz"})
    assert ka["cells"][0]["good"]["ln_mean"] == 3.1803
    assert "found 4 GHz, expected 1.5 GHz to 3 GHz or 10 GHz to 20 GHz" in refused(
        **P681 | {"frequency": "4 GHz"}
    )
    assert "expected one of: suburban, rural" in refused(**P681 | {"frequency": "20 GHz"})
    high = resolved(**P681 | {"environment": "suburban", "elevation": "34 deg", "frequency": "20 GHz"})
    assert high["cells"][0]["bad"]["quantiles"] == [0.1, 0.6]


def test_between_two_tables_the_lower_is_used_and_reported() -> None:
    for asked, used in (("50 deg", 45), ("89 deg", 60), ("20 deg", 20)):
        table = Channel.model_validate(P681 | {"elevation": asked})
        message = link_channel.elevation_note(table, "down.channel")
        assert message is None if asked == f"{used} deg" else f"that of {used} deg" in str(message)
        urban = next(iter(TWO_STATES.values()))["urban"]
        assert resolved(**P681 | {"elevation": asked})["cells"][0]["good"]["ln_mean"] == urban[used].good[0]
    assert "expected at least 20 deg" in refused(**P681 | {"elevation": "10 deg"})


def test_echoes_alone_need_a_speed() -> None:
    found = Channel.model_validate({"model": "rayleigh", "snr": "10 dB", "speed": "3 km/h"})
    assert link_channel.channel(found, Files(Path()), "key") == {
        "kind": "rayleigh",
        "reference": {"snr_db": 10.0, "error_db": 0.0},
        "motion": {"seed": None, "step_ns": 1_000_000, "carrier_hz": 2_200_000_000, "speed_m_s": 3000 / 3600},
    }
    with pytest.raises(ValidationError, match="found no speed"):
        Channel.model_validate({"model": "rayleigh", "snr": "10 dB"})


FADES = {"model": "attenuation", "snr": "12 dB"}


def test_attenuation_is_read_from_a_file_or_a_schedule(tmp_path: Path) -> None:
    (tmp_path / "fade.csv").write_text("time_s,attenuation_dB\n0,0\n1.5,-0.5\n60,12.25\n")
    from_file = Channel.model_validate(FADES | {"trace": "fade.csv", "repeat": "2 min"})
    schedule = [
        {"at": 0, "attenuation": 0},
        {"at": "1.5 s", "attenuation": "-0.5 dB"},
        {"at": "1 min", "attenuation": "12.25 dB"},
    ]
    inline = Channel.model_validate(FADES | {"schedule": schedule, "repeat": "2 min"})
    found = link_channel.channel(from_file, Files(tmp_path), "key")
    assert found == link_channel.channel(inline, Files(tmp_path), "key")
    assert found == {
        "kind": "measured",
        "reference": {"snr_db": 12.0, "error_db": 0.0},
        "points": [[0, 0.0], [1_500_000_000, -0.5], [60_000_000_000, 12.25]],
        "interpolation": "linear",
        "repeat_ns": 120_000_000_000,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time_s,attenuation\n0,0\n", 'did you mean "attenuation_dB"?'),
        ("time_s,attenuation_dB\n0,x\n", 'line 2: found "x"'),
        ("time_s,attenuation_dB\n1,0\n0,1\n", "time goes backwards"),
        ("time_s,attenuation_dB\n0,1000\n", "expected at most 200 dB"),
    ],
)
def test_a_file_of_attenuation_that_cannot_be_read(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "fade.csv").write_text(text)
    found = Channel.model_validate(FADES | {"trace": "fade.csv"})
    with pytest.raises(ScenarioError) as error:
        link_channel.channel(found, Files(tmp_path), "down.channel")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "found none, expected exactly one of trace, schedule"),
        ({"schedule": []}, "at least 1"),
        (
            {"trace": "a.csv", "speed": "60 km/h"},
            'found speed beside "attenuation", expected it with perez-fontan or p681 or rayleigh',
        ),
        (
            {"schedule": [{"at": "2 s", "attenuation": 0}, {"at": "1 s", "attenuation": 0}]},
            "expected increasing times",
        ),
    ],
)
def test_a_schedule_that_cannot_be_used(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        Channel.model_validate(FADES | changes)
    assert words in str(from_pydantic(error.value, {}, "scenario"))


def over_an_orbit(**channel: Any) -> dict[str, Any]:
    down = {
        "rate": "10 Mbit/s",
        "channel": P681 | {"environment": "suburban", "elevation": "orbit"} | channel,
        "link_layer": {"scheme": "code", "frame": "1 kB"},
    }
    segments = [
        {"name": "space", "delay": {"orbit": "before-last-hop"}, "both": {"rate": "50 Mbit/s"}},
        {"name": "mobile", "delay": {"orbit": "last-hop"}, "up": {"rate": "10 Mbit/s"}, "down": down},
    ]
    document = load_scenario(
        {
            "duration": "300 s",
            "seeds": 1,
            "orbit": {"constellation": "starlink-shell-1", "from": "Paris", "to": "New York"},
            "path": {"segment": segments},
            "flow": [{"name": "f", "congestion": "cubic", "direction": "down"}],
        }
    )
    return json.loads(
        build_plan(document, "test", catalogue=engine.catalogue(), orbits=engine.orbit).runs[0].spec_json()
    )


def test_the_elevation_follows_the_orbit() -> None:
    """Starlink is reached above 25 degrees: the tables of 20 to 60 degrees take turns."""
    found = over_an_orbit()["graph"]["links"][1]["down"][0]["channel"]
    tables = TWO_STATES[next(iter(TWO_STATES))]["suburban"]
    by_mean = {cell.good[3]: elevation for elevation, cell in tables.items()}
    used = [(cell["at_ns"], by_mean[cell["good"]["mean_db"]]) for cell in found["cells"]]
    assert used[0][0] == 0
    assert len(used) > 3
    assert all(before[0] < after[0] and before[1] != after[1] for before, after in pairwise(used))
    lowest = max(elevation for elevation in tables if elevation <= found["look_angle"]["elevation_deg"])
    assert used[0][1] == lowest


def test_es_n0_follows_the_slant_range() -> None:
    """550 km above the equator's radius are 559 km over New York. The range is 559 km at the zenith and 1,140 km at 25
    degrees, the lowest elevation of Starlink."""
    found = over_an_orbit(snr_range="550 km")["graph"]["links"][1]["down"][0]["channel"]
    assert found["kind"] == "range_loss"
    assert found["channel"] == over_an_orbit()["graph"]["links"][1]["down"][0]["channel"]
    losses = [db for _, db in found["loss"]]
    assert 20 * math.log10(558 / 550) < min(losses) < max(losses) < 20 * math.log10(1_145 / 550)
    assert refused(snr_range="550 km").endswith('found snr_range, which requires elevation = "orbit"')


def test_an_orbit_below_the_tables_is_refused_with_the_instant() -> None:
    with pytest.raises(ScenarioError) as caught:
        over_an_orbit(environment="intermediate-tree-shadowed", model="perez-fontan")
    ((key, text),) = caught.value.problems
    assert key == "path.mobile.down.channel.elevation"
    assert "below the lowest table" in text
    assert " deg at " in text


def test_elevations_of_an_orbit_need_one() -> None:
    with pytest.raises(ScenarioError, match=r"\[orbit\]"):
        resolved(**P681 | {"elevation": "orbit"})
