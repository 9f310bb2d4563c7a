"""Satellites and ways against others: PyPI's sgp4, Skyfield, scipy's shortest paths. And with the processor's FMA masked."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from sgp4.api import WGS72, Satrec, jday
from sgp4.propagation import gstime
from skyfield.api import EarthSatellite, load, wgs84
from skyfield.framelib import itrs

from bentpipe.runners import engine

LIGHT_KM_S = 299_792.458
UNIX = datetime(1970, 1, 1, tzinfo=UTC)

# A low and a geostationary orbit of the verification set of Vallado et al., Revisiting Spacetrack Report #3 (AIAA
# 2006-6753). The ISS is the third; the sgp4 crate documents its lines.
ISS = """\
ISS (ZARYA)
1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992
2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008
"""
VERIFICATION = """\
1 06251U 62025E   06176.82412014  .00008885  00000-0  12808-3 0  3985
2 06251  58.0579  54.0425 0030035 139.1568 221.1854 15.56387291  6774
1 28626U 05008A   06176.46683397 -.00000205  00000-0  10000-3 0  2190
2 28626   0.0019 286.9433 0000335  13.7918  55.6504  1.00270176  4891
"""
FLYING = [(ISS, datetime(2020, 7, 13, 12, tzinfo=UTC)), (VERIFICATION, datetime(2006, 6, 26, 6, tzinfo=UTC))]
SITE = {"name": "Toulouse", "latitude_deg": 43.60426, "longitude_deg": 1.44367}
OTHER = {"name": "Lima", "latitude_deg": -12.04318, "longitude_deg": -77.02824}


def elements(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line[:2] in ("1 ", "2 ")]
    return list(zip(lines[::2], lines[1::2], strict=True))


def question(constellation: dict[str, Any], start: datetime, **changed: Any) -> dict[str, Any]:
    orbit = {
        "constellation": constellation,
        "start_unix_ns": (start - UNIX) // timedelta(microseconds=1) * 1000,
        "duration_ns": 3600 * 10**9,
        "step_ns": 60 * 10**9,
        "from": SITE,
        "to": [OTHER],
        "visibility": {"elevation_deg": 10.0},
        "links": {"kind": "bent_pipe"},
        "handover_policy": {"kind": "shortest_path"},
        **changed,
    }
    return {"orbit": orbit, "tolerance_ns": 0, "frames": 61}


def positions(answer: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """By frame, satellite and axis: km, turning with the Earth."""
    return np.array([frame["satellites_km"] for frame in answer["frames"]])


@pytest.mark.parametrize(("text", "start"), FLYING)
@pytest.mark.parametrize("seconds", [0.0, 3.7])
def test_satellites_are_where_sgp4_has_them(text: str, start: datetime, seconds: float) -> None:
    """Within 1 cm, at the knots of the interpolation and between them."""
    start += timedelta(seconds=seconds)
    ours = positions(engine.orbit(question({"kind": "tle", "text": text}, start)))
    for number, lines in enumerate(elements(text)):
        satellite = Satrec.twoline2rv(*lines, WGS72)
        for frame in range(61):
            at = start + timedelta(minutes=frame)
            day, part = jday(at.year, at.month, at.day, at.hour, at.minute, at.second + at.microsecond / 1e6)
            # sgp4's own counts the day in one number, which is good to 40 us
            assert abs(math.remainder(sidereal(at) - gstime(day + part), math.tau)) < 1e-8
            turned = turning(satellite, at)
            apart_cm = np.linalg.norm(ours[frame, number] - turned) * 1e5
            assert apart_cm < 1, f"{satellite.satnum} after {frame} min"


def sidereal(at: datetime) -> float:
    """IAU 1982, written once more: seconds of the term of 876,600 h by whole microseconds."""
    since = at - datetime(2000, 1, 1, 12, tzinfo=UTC)
    t = since / timedelta(days=36525)
    within = (since % timedelta(days=1)) / timedelta(seconds=1)
    seconds = 67310.54841 + within + 8640184.812866 * t + 0.093104 * t**2 - 6.2e-6 * t**3
    return math.radians(seconds / 240) % math.tau


@pytest.mark.parametrize(("text", "start"), FLYING)
def test_stations_and_satellites_are_at_the_positions_of_skyfield(text: str, start: datetime) -> None:
    """Within 500 m and 0.02 degrees, with UT1 taken as UTC in both: 33 or 37 leap seconds and 32.184 s from TT."""
    leap = 37 if start.year > 2016 else 33
    times = load.timescale(delta_t=32.184 + leap, builtin=True)
    ours = positions(engine.orbit(question({"kind": "tle", "text": text}, start)))
    site = wgs84.latlon(SITE["latitude_deg"], SITE["longitude_deg"])
    for number, lines in enumerate(elements(text)):
        satellite = EarthSatellite(*lines, ts=times)
        for frame in range(0, 61, 10):
            now = times.from_datetime(start + timedelta(minutes=frame))
            theirs = satellite.at(now).frame_xyz(itrs).km
            assert np.linalg.norm(ours[frame, number] - theirs) < 0.5
            up, _, away = (satellite - site).at(now).altaz()
            ground = _ground(SITE["latitude_deg"], SITE["longitude_deg"])
            way = ours[frame, number] - ground[0]
            elevation = math.degrees(math.asin(way @ ground[1] / np.linalg.norm(way)))
            assert elevation == pytest.approx(up.degrees, abs=0.02)
            assert np.linalg.norm(way) == pytest.approx(away.km, abs=0.5)


@pytest.mark.parametrize(
    ("revolutions", "inclination"), [(15.05, 53.0), (14.34, 86.4), (13.15, 87.9), (14.80, 120.0)]
)
def test_a_circle_with_j2_stays_with_sgp4(revolutions: float, inclination: float) -> None:
    """A day long, within what SGP4 moves around its own mean (some 10 km): without J2 it is hundreds of kilometres."""
    start = datetime(2026, 11, 22, tzinfo=UTC)
    satellite = Satrec()
    day, part = jday(2026, 11, 22, 0, 0, 0)
    per_minute = math.tau / 1440
    satellite.sgp4init(
        WGS72, "i", 1, day + part - 2433281.5, 0.0, 0.0, 0.0, 1e-7, 0.0, math.radians(inclination), 0.0,
        revolutions * per_minute, 0.0,
    )  # fmt: skip
    axis = satellite.a * 6378.135  # SGP4's mean one, of its own Earth
    apart = {}
    for propagation in ("j2", "kepler"):
        flies = {
            "kind": "walker", "planes": 1, "per_plane": 1, "inclination_deg": inclination,
            "height": {"altitude_km": axis - 6378.137}, "spread_deg": 360.0, "phasing": {"factor": 0.0},
            "propagation": propagation, "epoch_unix_ns": (start - UNIX) // timedelta(microseconds=1) * 1000,
        }  # fmt: skip
        ours = positions(engine.orbit(question(flies, start, duration_ns=86_400 * 10**9)))[:, 0]
        apart[propagation] = max(
            float(np.linalg.norm(our - turning(satellite, start + timedelta(minutes=24 * frame))))
            for frame, our in enumerate(ours)
        )
    assert apart["j2"] < 25
    assert apart["kepler"] > 300


def turning(satellite: Satrec, at: datetime) -> Any:
    """Return the position of a satellite by PyPI's sgp4, km, in the rotating frame of the Earth."""
    day, part = jday(at.year, at.month, at.day, at.hour, at.minute, at.second + at.microsecond / 1e6)
    error, (x, y, z), _ = satellite.sgp4(day, part)
    assert error == 0
    angle = sidereal(at)
    return np.array([math.cos(angle) * x + math.sin(angle) * y, math.cos(angle) * y - math.sin(angle) * x, z])


def _ground(latitude: float, longitude: float) -> tuple[Any, Any]:
    """A place on WGS 84 and its vertical, written once more."""
    phi, lam = math.radians(latitude), math.radians(longitude)
    e2 = (1 / 298.257223563) * (2 - 1 / 298.257223563)
    n = 6378.137 / math.sqrt(1 - e2 * math.sin(phi) ** 2)
    up = np.array([math.cos(phi) * math.cos(lam), math.cos(phi) * math.sin(lam), math.sin(phi)])
    return np.array([n * up[0], n * up[1], n * (1 - e2) * up[2]]), up


WALKER = {
    "kind": "walker", "planes": 18, "per_plane": 24, "inclination_deg": 53.0, "height": {"altitude_km": 900.0},
    "spread_deg": 360.0, "phasing": {"factor": 5.0}, "propagation": "j2", "epoch_unix_ns": 946_684_800 * 10**9,
}  # fmt: skip


STAR = {
    **WALKER, "planes": 6, "per_plane": 11, "inclination_deg": 86.4, "height": {"altitude_km": 780.0},
    "spread_deg": 189.6, "phasing": {"factor": 3.0},
}  # fmt: skip


@pytest.mark.parametrize(("flies", "closed"), [(WALKER, True), (STAR, False)])
def test_ways_are_those_of_scipy(flies: dict[str, Any], closed: bool) -> None:
    """The same graph from the positions alone: delays to the nanosecond at every frame."""
    start = datetime(2026, 11, 22, 12, tzinfo=UTC)
    grid = {"kind": "grid", "nearest": True, "closed": closed}
    answer = engine.orbit(question(flies, start, links=grid))
    satellites = positions(answer)
    found = answer["delay_ns"]
    ends = [_ground(site["latitude_deg"], site["longitude_deg"]) for site in (SITE, OTHER)]
    planes, count = flies["planes"], flies["per_plane"]
    slots = np.arange(planes) * flies["phasing"]["factor"] / planes  # how far each plane is ahead, in slots
    links = []
    for plane in range(planes):
        following = (plane + 1) % planes
        for number in range(count):
            links.append((plane * count + number, plane * count + (number + 1) % count))
            if following == 0 and not closed:
                continue  # the seam of a star
            shift = -math.ceil(slots[following] - slots[plane] - 0.5 - 1e-9)
            links.append((plane * count + number, following * count + (number + shift) % count))
    reached = 0
    for frame, at in enumerate(satellites):
        rows, columns, km = [], [], []
        for a, b in links:
            rows.append(a), columns.append(b), km.append(np.linalg.norm(at[a] - at[b]))
        for end, (ground, up) in enumerate(ends):
            way = at - ground
            far = np.linalg.norm(way, axis=1)
            for satellite in np.nonzero(way @ up / far >= math.sin(math.radians(10)))[0]:
                rows.append(len(at) + end), columns.append(satellite), km.append(far[satellite])
        size = len(at) + 2
        graph = csr_array((km, (rows, columns)), shape=(size, size))
        shortest = dijkstra(graph, directed=False, indices=len(at))[len(at) + 1]
        if math.isinf(shortest):
            assert found[frame] is None, f"frame {frame}"
            continue
        assert found[frame] == pytest.approx(shortest / LIGHT_KM_S * 1e9, abs=2), f"frame {frame}"
        reached += 1
    assert reached > 50


ASK = """
import hashlib, json, sys
from bentpipe.runners import engine
for question in json.load(sys.stdin):
    print(hashlib.sha256(json.dumps(engine.orbit(question), sort_keys=True).encode()).hexdigest())
"""


def test_masked_fma_gives_the_same_bytes() -> None:
    """SGP4 too: its functions are libm's, whatever other crates ask of num-traits."""
    start = datetime(2020, 7, 13, 12, tzinfo=UTC)
    asked = [
        question({"kind": "tle", "text": ISS}, start),
        question(WALKER, start, links={"kind": "grid", "nearest": True, "closed": True}),
        question(
            {**WALKER, "propagation": "sgp4"}, start, links={"kind": "grid", "nearest": True, "closed": True}
        ),
    ]

    def hashes(tunables: str | None) -> list[str]:
        environment = {key: value for key, value in os.environ.items() if key != "GLIBC_TUNABLES"}
        if tunables:
            environment["GLIBC_TUNABLES"] = tunables
        done = subprocess.run(
            [sys.executable, "-c", ASK], input=json.dumps(asked), env=environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return done.stdout.split()

    plain = hashes(None)
    assert len(set(plain)) == 3
    assert plain == hashes("glibc.cpu.hwcaps=-FMA,-AVX2")


def test_omm_and_tle_are_the_same_orbit(tmp_path: Path) -> None:
    one, two = elements(ISS)[0]
    message = {
        "OBJECT_NAME": "ISS (ZARYA)", "OBJECT_ID": "1998-067A", "EPOCH": "2020-07-12T21:16:01.000416",
        "MEAN_MOTION": 15.49507896, "ECCENTRICITY": 0.0001413, "INCLINATION": 51.6461, "RA_OF_ASC_NODE": 221.2784,
        "ARG_OF_PERICENTER": 89.1723, "MEAN_ANOMALY": 280.4612, "EPHEMERIS_TYPE": 0, "CLASSIFICATION_TYPE": "U",
        "NORAD_CAT_ID": 25544, "ELEMENT_SET_NO": 999, "REV_AT_EPOCH": 23600, "BSTAR": -0.31515e-4,
        "MEAN_MOTION_DOT": -0.00002218, "MEAN_MOTION_DDOT": 0,
    }  # fmt: skip
    start = datetime(2020, 7, 13, 12, tzinfo=UTC)
    of_tle = positions(engine.orbit(question({"kind": "tle", "text": f"{one}\n{two}\n"}, start)))
    for text in (json.dumps([message]), json.dumps({key: str(value) for key, value in message.items()})):
        of_omm = positions(engine.orbit(question({"kind": "omm", "text": text}, start)))
        assert np.abs(of_tle - of_omm).max() < 0.001


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ISS.replace("9992", "9993"), "line 2: "),
        (ISS.replace("  9992", " 9992"), "line 2: "),
        ("ISS\n", 'line 1: found "ISS", expected line 1 and line 2'),
        ("", "found none"),
    ],
)
def test_wrong_elements_are_refused_with_their_line(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=r"line|found") as wrong:
        engine.orbit(question({"kind": "tle", "text": text}, datetime(2020, 7, 13, tzinfo=UTC)))
    assert expected in str(wrong.value)
