"""Pairs of places over constellations: the command, names of places and presets, and published figures.

The published ones are in leo-reference form: Hypatia (IMC 2020) by its own conventions, and closed forms.
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bentpipe.cli import app
from bentpipe.orbit.query import RouteQuery, parse_query, run_query
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.network.constellations import constellation_names, preset
from bentpipe.scenario.network.orbit import Orbit
from bentpipe.scenario.network.places import Place, place_names
from bentpipe.scenario.quantities import Duration

C_KM_S = 299_792.458
R_KM = 6378.137


def orbit(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["orbit", *words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    message: dict[str, Any] = json.loads(done.stdout)
    return message


def test_the_published_pair_over_kuiper() -> None:
    message = orbit(
        "Rio de Janeiro", "Saint Petersburg", "--constellation", "hypatia-kuiper-k1", "--duration", "200 s"
    )
    delay = message["one_way_delay_ms"]
    assert 2 * delay["first"] == pytest.approx(113.230, abs=0.001)
    assert (2 * delay["least"], 2 * delay["most"]) == pytest.approx((95.74, 136.62), abs=0.005)
    assert message["gaps_s"] == [[155.4, 165.1]]
    reach = message["in_reach"]
    assert reach["from"]["least"] > 0
    assert reach["to"]["least"] == 0, "the gap is Saint Petersburg's"
    assert reach["to"]["share"] == pytest.approx(1 - 97 / 2001)
    # 30 degrees on a flat Earth are less on this one
    assert 20 < reach["to"]["least_elevation_deg"] < 30
    assert message["coverage"] == pytest.approx(1 - 9.7 / 200)
    jumps = {one["at_s"]: (2 * one["before_ms"], 2 * one["after_ms"]) for one in message["handovers"]}
    assert jumps[3.2] == pytest.approx((113.19, 96.02), abs=0.01)
    assert jumps[32.9] == pytest.approx((95.74, 110.90), abs=0.01)
    sizes = {one["at_s"]: one["size"] for one in message["handovers"]}
    assert sizes[125.8] == "small"


def test_the_same_pair_by_the_true_horizon_stays_within_bounds() -> None:
    """20 degrees over the true horizon lets the path take what is lower; no path beats light over the ground."""
    message = orbit(
        "Rio de Janeiro", "Saint Petersburg", "--constellation", "kuiper-k1", "--duration", "200 s"
    )
    rio, petersburg = Place.parse("Rio de Janeiro"), Place.parse("Saint Petersburg")
    a, b = math.radians(rio.latitude), math.radians(petersburg.latitude)
    across = math.radians(petersburg.longitude - rio.longitude)
    angle = math.acos(math.sin(a) * math.sin(b) + math.cos(a) * math.cos(b) * math.cos(across))
    delay = message["one_way_delay_ms"]
    assert delay["least"] > R_KM * angle / C_KM_S * 1e3
    assert delay["most"] < 1.5 * (R_KM + 630) * angle / C_KM_S * 1e3
    assert message["gaps_s"] == []
    assert message["hops"]["least"] >= 3


def test_printed_output() -> None:
    words = ["orbit", "Rio de Janeiro", "Saint Petersburg", "-c", "hypatia-kuiper-k1", "--duration", "200 s"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    for part in (
        "round trip",
        "113.2",
        "Hops: 12 to 17",
        "1 gap",
        "155.4  165.1",
        "small (one node)",
        "Note: ",
    ):
        assert part in done.output, part


@pytest.mark.parametrize("altitude", [550, 780, 1200])
def test_a_geostationary_and_a_low_bent_pipe_are_within_their_closed_forms(altitude: int) -> None:
    """A satellite over the pair: between straight up and down, and the slant range at the least elevation."""
    table = {
        "constellation": {
            "planes": 24, "per_plane": 24, "inclination": "53 deg", "altitude": f"{altitude} km", "elevation": "25 deg",
        },
        "from": "Toulouse", "to": "Toulouse", "step": "1 s",
    }  # fmt: skip
    found = run_query(ask_table(table, "100 min"))
    orbit_km = R_KM + altitude
    far = math.sqrt(orbit_km**2 - (R_KM * math.cos(math.radians(25))) ** 2) - R_KM * math.sin(
        math.radians(25)
    )
    seen = [delay for delay in found.delay_ns if delay is not None]
    # the ellipsoid is up to 21 km below the equatorial radius that altitudes are over
    assert min(seen) >= 2 * altitude / C_KM_S * 1e9
    assert max(seen) <= 2 * (far + 60) / C_KM_S * 1e9
    assert all(route.hops in (None, 2) for route in found.routes)


def slant_km(orbit_km: float, elevation: float, ground_km: float = R_KM) -> float:
    """To a satellite on a circle of that radius, seen at an elevation in degrees from a round Earth."""
    angle = math.radians(elevation)
    return math.sqrt(orbit_km**2 - (ground_km * math.cos(angle)) ** 2) - ground_km * math.sin(angle)


@pytest.mark.parametrize(
    ("altitude", "inclination", "least", "zenith_ms", "low_ms"),
    [
        (780, 86.4, 25, 10.41, 20.37), (550, 53.0, 25, 7.34, 14.99), (1200, 87.9, 25, 16.01, 29.42),
        (630, 51.9, 25, 8.41, 16.90),
        # 3GPP TR 38.821, over a sphere of 6371 km: a hundredth of a millisecond less than over the equator
        (600, 53.0, 10, 4 * 600 / C_KM_S * 1e3, 25.77), (1200, 53.0, 10, 16.01, 41.77),
    ],
)  # fmt: skip
def test_a_bent_pipe_has_the_published_round_trips(
    altitude: int, inclination: float, least: int, zenith_ms: float, low_ms: float
) -> None:
    """On the equator the ellipsoid is a circle there: what is seen at an elevation is as far as over a sphere."""
    table = {
        "constellation": {
            "planes": 20, "per_plane": 20, "inclination": f"{inclination} deg", "altitude": f"{altitude} km",
            "elevation": f"{least} deg",
        },
        "from": "0,0", "to": "0,0", "step": "1 s", "handover": "keep-until-lost",
    }  # fmt: skip
    found = run_query(ask_table(table, "100 min"))
    trips = [
        (elevation, 2 * delay / 1e6)
        for elevation, delay in zip(found.elevations_deg[0], found.delay_ns, strict=True)
        if elevation is not None and delay is not None
    ]
    assert len(trips) > 3000
    for elevation, trip in trips:
        assert trip == pytest.approx(4 * slant_km(R_KM + altitude, elevation) / C_KM_S * 1e3, abs=1e-5)
    lowest, longest = min(trips)
    assert lowest == pytest.approx(least, abs=0.1)
    assert longest == pytest.approx(low_ms, abs=0.06)
    assert 4 * slant_km(R_KM + altitude, 90) / C_KM_S * 1e3 == pytest.approx(zenith_ms, abs=0.006)


def ask_table(table: dict[str, Any], duration: str) -> RouteQuery:
    return RouteQuery(Orbit.model_validate(table), Duration.parse(duration), Path())


def test_geostationary_round_trip() -> None:
    message = orbit("0,13", "0,13", "--constellation", "geo-13e", "--duration", "1 min", "--step", "1 s")
    assert 4 * message["last_leg_ms"]["first"] == pytest.approx(477.0, abs=1)
    assert message["handovers"] == []


def test_the_longest_geostationary_round_trip_of_tr_38_821() -> None:
    """541.46 ms at 10 degrees on both links, over a sphere of 6371 km: half a millisecond more than over the ellipsoid."""
    at = 13 + 71.43  # where a geostationary satellite is 10 degrees high
    message = orbit(f"0,{at}", f"0,{at}", "-c", "geo-13e", "--duration", "1 s", "--elevation", "9 deg")
    assert 4 * message["last_leg_ms"]["first"] == pytest.approx(541.46, abs=0.5)
    assert message["in_reach"]["to"]["least_elevation_deg"] == pytest.approx(10, abs=0.05)


def test_every_preset_flies_and_says_where_its_numbers_are_from() -> None:
    for name in constellation_names():
        flies = preset(name)
        assert flies.title, name
        assert flies.source, name
        found = run_query(parse_query({"constellation": name, "from": "Paris", "to": ["Rome"]}, "5 s"))
        count = (flies.planes or 1) * (flies.per_plane or 1)
        assert len(found.names) == count, name
    assert "850" in preset("iridium").note  # what the thesis prints


def test_places_are_found_however_they_are_written() -> None:
    petersburg = Place.parse("Saint Petersburg")
    for words in ("saint petersburg", "St Petersburg", "SAINT-PETERSBURG"):
        assert Place.parse(words) == petersburg
    assert Place.parse("sao paulo") == Place.parse("São Paulo")
    assert Place.parse("48.85, 2.35") == Place("48.85,2.35", 48.85, 2.35)
    assert len(place_names()) == len(set(place_names())) == 114


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["Rio de Janiero", "Paris"], 'from: no place "Rio de Janiero" in the list of 114'),
        (["Rio de Janiero", "Paris"], 'did you mean "Rio de Janeiro"?'),
        (["95,0", "Paris"], "expected a latitude within 90"),
        (["Paris", "Lima", "-c", "kuiper"], 'no constellation "kuiper"'),
        (["Paris", "Lima", "-c", "kuiper"], 'did you mean "kuiper-k1"?'),
        (["Paris", "Lima", "--elevation", "25"], 'did you mean "25 deg"?'),
        (["Paris", "Lima", "--elevation", "90 deg"], "expected 0 to less than 90"),
        (["Paris", "Lima", "--handover", "shortest"], 'found "shortest", expected one of'),
        (["Paris", "Lima", "--start", "yesterday"], "expected an instant of UTC"),
        (["Paris", "Lima", "-c", "none.tle"], 'no file "none.tle"'),
        (["Paris", "Lima", "-c", "geo-13e", "--links", "grid"], "without planes"),
        (["Paris"], "expected two places"),
        (["Paris", "Lima", "--duration", "0"], '--duration: found "0"'),
        (["Paris", "Lima", "--step", "1 us", "--duration", "1 h"], "step: found 3600 s in steps of 0.000001 s, expected "),
        (["Paris", "Lima", "--set", "constellation.inclination=200 deg"], "orbit: constellation.inclination: found 200"),
        (["Paris", "Lima", "--set", "constellation.altitude=9 km"], "orbit: constellation.altitude: found 9.0 km"),
        (["Paris", "Lima", "--set", "constellation.phasing=99"], "orbit: constellation.phasing: found 99"),
        (["Paris", "Lima", "--set", "constellation.planes=1000", "--set", "constellation.per_plane=1000"],
         "orbit: constellation.planes: found 1000000 satellites, expected 1 to 100,000"),
        (["Paris", "Lima", "--handover", "periodic", "--set", "handover.interval=1 ns"], "orbit: handover: found an interval of"),
        (["Paris", "Lima", "--out", __file__], "is a file, expected a folder"),
        (["Paris", "Lima", "--out", "none", "--rate", "100 Gbit/s"], "--rate: found 100 Gbit/s for 600 s, 4,986,702,127 lines"),
        (["-95,0", "Lima"], "expected a latitude within 90"),
        (["Paris", "Lima", "-9"], "no option"),
    ],
)  # fmt: skip
def test_bad_input_is_one_message(words: list[str], expected: str) -> None:
    done = CliRunner().invoke(app, ["orbit", *words])
    assert done.exit_code != 0
    assert isinstance(done.exception, (ScenarioError, SystemExit))
    assert expected in f"{done.exception} {done.output}"


def test_any_key_is_set_and_a_preset_may_have_other_numbers() -> None:
    words = ["Paris", "New York", "-c", "iridium", "--duration", "10 s", "--step", "1 s"]
    high = orbit(*words, "--set", "constellation.altitude=1500 km", "--set", "constellation.elevation=20 deg")
    usual = orbit(*words)
    assert high["last_leg_ms"]["least"] > 1500 / C_KM_S * 1e3 - 0.1
    assert usual["last_leg_ms"]["least"] < high["last_leg_ms"]["least"]
    slots = ["--handover", "periodic", "--set", "handover.interval=5 s", "--set", "handover.phase=2 s"]
    message = orbit("Paris", "Paris", "-c", "starlink-shell-1", "--links", "bent-pipe", "--duration", "2 min",
                 "--step", "1 s", *slots)  # fmt: skip
    changed = [one["at_s"] for one in message["handovers"]]
    assert changed
    assert all(at % 5 == 2 for at in changed), (
        "a satellite within 25 degrees at the boundary stays so for 5 s"
    )
    wrong = CliRunner().invoke(app, ["orbit", *words, "--set", "handover.phas=2 s", "--handover", "periodic"])
    assert wrong.exit_code != 0
    assert 'did you mean "phase"?' in f"{wrong.exception} {wrong.output}"


def test_named_items_are_listed_with_their_source() -> None:
    done = CliRunner().invoke(app, ["orbit", "--list"], catch_exceptions=False)
    for part in (*constellation_names(), "Toulouse", "Source of the places: Hypatia", "NAECON 1998"):
        assert part in done.output, part


def test_a_place_in_the_south_is_no_option() -> None:
    message = orbit(
        "-33.87,151.21", "-36.85, 174.76", "-c", "iridium", "--duration", "1 s", "--relay", "-90,0"
    )
    assert (message["from"], message["to"]) == ("-33.87,151.21", ["-36.85,174.76"])
    assert message["coverage"] == 1


def test_the_shares_of_several_ends_are_reported() -> None:
    """A bent pipe and its gateways: of the time, where the way comes down."""
    words = [
        "orbit",
        "Toulouse",
        "Madrid",
        "London",
        "-c",
        "starlink-shell-1",
        "--links",
        "bent-pipe",
        "--duration",
        "3 min",
    ]
    message = orbit(*words[1:])
    assert set(message["ends"]) == {"Madrid", "London"}
    assert sum(message["ends"].values()) == pytest.approx(1)
    done = CliRunner().invoke(app, words)
    assert "Destination, share of time: Madrid " in done.output
    assert "Hops: 2. " in done.output


def test_an_instant_is_written_with_or_without_quotes() -> None:
    words = ["Paris", "Lima", "-c", "iridium", "--duration", "1 s", "--set"]
    for text in (
        "start=2026-01-01T00:00:00Z",
        "start='2026-01-01T00:00:00Z'",
        "start=2026-01-01T01:00:00+01:00",
    ):
        assert orbit(*words, text)["start"] == "2026-01-01T00:00:00Z"


def test_a_changed_preset_says_so() -> None:
    words = ["Paris", "Lima", "-c", "iridium", "--duration", "1 s"]
    changed = orbit(*words, "--set", "constellation.per_plane=5", "--set", "constellation.altitude=780 km")
    assert changed["constellation"] == f"{preset('iridium').title}; here per_plane = 5"
    assert orbit(*words)["constellation"] == preset("iridium").title


ISS = """\
1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992
2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.tle", ISS.replace("9992", "9993"), 'orbit: constellation.tle: "a.tle": line 1: found 3 as its checksum, expected 2'),
        ("a.tle", "", 'orbit: constellation.tle: "a.tle": found none'),
        ("a.json", "[]", 'orbit: constellation.omm: "a.json": found none'),
        ("a.json", "{}", 'orbit: constellation.omm: "a.json": cannot be read: missing field `NORAD_CAT_ID`'),
    ],
)  # fmt: skip
def test_errors_of_elements_name_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    done = CliRunner().invoke(app, ["orbit", "Paris", "Lima", "-c", name])
    assert expected in f"{done.exception} {done.output}"


def test_elements_of_another_time_give_a_warning(tmp_path: Path) -> None:
    (tmp_path / "iss.tle").write_text(ISS)
    words = ["orbit", "Paris", "Paris", "-c", str(tmp_path / "iss.tle"), "--duration", "1 s"]
    assert "Note:" not in CliRunner().invoke(app, words).output
    old = CliRunner().invoke(app, [*words, "--start", "2020-08-12T00:00:00Z"]).output
    assert "the elements are from 2020-07-12T21:16:01Z, 30 days from" in old


def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    """An interrupted query of a minute ends at once and writes nothing."""
    words = [
        "orbit",
        "Paris",
        "Lima",
        "--duration",
        "24 h",
        "--step",
        "20 ms",
        "--out",
        str(tmp_path / "out"),
    ]
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from bentpipe.cli import main; print(flush=True); main()"
    running = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    running.stdout.readline()
    time.sleep(3)
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 130
    assert not (tmp_path / "out").exists()


def test_no_route_at_any_time_is_reported() -> None:
    done = CliRunner().invoke(app, ["orbit", "Tokyo", "Lima", "-c", "geo-13e", "--duration", "10 s"])
    assert done.exit_code == 0
    assert "No route at any time" in done.output


def test_policies_differ_as_they_say() -> None:
    """Over one constellation: the shortest path is never longer than the others, keeping hands over least often."""
    found = {}
    for rule in ("shortest-path", "best-elevation", "keep-until-lost", "periodic"):
        message = orbit("Paris", "New York", "-c", "starlink-shell-1", "--duration", "10 min", "--step", "1 s",
                     "--handover", rule)  # fmt: skip
        found[rule] = message
        assert message["coverage"] == 1
    medians = {rule: message["one_way_delay_ms"]["median"] for rule, message in found.items()}
    assert medians["shortest-path"] == min(medians.values())
    counts = {rule: len(message["handovers"]) for rule, message in found.items()}
    assert counts["keep-until-lost"] < counts["best-elevation"]
    firsts = [(one["at_s"], one["satellites"][0]) for one in found["periodic"]["routes"]]
    changed = [at for (at, now), (_, before) in zip(firsts[1:], firsts, strict=False) if now != before]
    assert sum(at % 15 == 0 for at in changed) >= 0.8 * len(changed), changed
