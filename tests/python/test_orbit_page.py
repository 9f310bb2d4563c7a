"""Outputs of ``bentpipe orbit --out``: an offline page, figures, and traces for other commands."""

from __future__ import annotations

import array
import base64
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bentpipe.cli import app
from bentpipe.orbit.figures import _bin
from bentpipe.orbit.maps import _unwrapped, below, coastlines, footprint
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from bentpipe.scenario.traces import read_csv, read_mahimahi


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("orbit")
    words = ["orbit", "Rio de Janeiro", "Saint Petersburg", "-c", "hypatia-kuiper-k1", "--duration", "200 s"]
    done = CliRunner().invoke(
        app, [*words, "--out", str(out), "--rate", "12 Mbit/s", "--json"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    message: dict[str, Any] = json.loads(done.stdout)
    return out, message


def test_the_page_needs_no_network_and_holds_what_moves(written: tuple[Path, dict[str, Any]]) -> None:
    out, message = written
    page = (out / "orbit.html").read_text(encoding="utf-8")
    assert len(page) < 5_000_000
    assert not re.search(r'(src|href)\s*=\s*"https?:', page)
    assert "default-src 'none'" in page
    for part in (
        "Route animation",
        "Delay over time",
        "Hops over time",
        "Route map",
        "Natural Earth",
    ):
        assert part in page, part
    found = re.search(r'id="orbit-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert data["satellites"] == message["satellites"] == 1156
    places = array.array("h", base64.b64decode(data["positions"]))
    assert len(places) == 3 * 1156 * len(data["frames"])
    heights = [math.hypot(*places[at : at + 3]) * data["scale"] for at in range(0, len(places), 3)]
    assert min(heights) > 6378 + 600
    assert max(heights) < 6378 + 660
    assert [route[0] for route in data["routes"]] == [route["at_s"] for route in message["routes"]]
    assert data["delays"][0] == pytest.approx(113.230 / 2, abs=0.001)
    assert data["delays"][1600] is None


def test_the_page_begins_with_the_delay_and_with_what_was_counted(
    written: tuple[Path, dict[str, Any]],
) -> None:
    """As the other rows of the answer say: gaps whose lengths leave the coverage, handovers by size."""
    out, message = written
    page = (out / "orbit.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    verdict, lead = re.findall(r'<p class="(?:verdict|lead)">(.*?)</p>', page)
    numbers = list(map(float, re.findall(r"(?<![\w.-])\d+(?:\.\d+)?", verdict)))
    delays, gaps = message["one_way_delay_ms"], [end - begin for begin, end in message["gaps_s"]]
    expected = [delays["least"], delays["most"], delays["median"], 100 * (1 - sum(gaps) / 200), max(gaps)]
    assert numbers == pytest.approx(expected, rel=5e-3)
    sizes = Counter(one["size"] for one in message["handovers"])
    counted = ", ".join(f"{sizes[size]} {size}" for size in ("small", "partial", "large"))
    assert (
        f"2,001 time steps: 1156 satellites, {message['hops']['least']} to {message['hops']['most']} hops, "
        in lead
    )
    assert f"{len(message['handovers'])} handovers ({counted}), {len(gaps)} gap" in lead


def test_figures_are_vectors(written: tuple[Path, dict[str, Any]]) -> None:
    out, _ = written
    for key in ("delay", "hops", "handovers", "map"):
        assert (out / f"{key}.svg").read_text(encoding="utf-8").startswith("<svg")
        assert (out / f"{key}.pdf").read_bytes().startswith(b"%PDF")


def test_a_sparse_constellation_shows_links_and_coverage(tmp_path: Path) -> None:
    """Iridium's: 66 along its planes and 55 across, none over the seam; a circle for each satellite."""
    words = ["orbit", "Toulouse", "Lima", "-c", "iridium", "--duration", "10 min", "--step", "10 s"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "orbit.html").read_text(encoding="utf-8")
    found = re.search(r'id="orbit-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    planes = [(one // 11, other // 11) for one, other in data["links"]]
    assert sum(one == other for one, other in planes) == 66
    assert sum(one != other for one, other in planes) == 55
    assert (0, 5) not in planes
    assert (5, 0) not in planes
    for part in ("links between satellites", "coverage of every satellite", "Satellite coverage"):
        assert part in page, part
    assert (tmp_path / "coverage.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_hundred_thousand_satellites_are_a_page_that_opens(tmp_path: Path) -> None:
    words = [
        "orbit",
        "Paris",
        "Lima",
        "--set",
        "constellation.planes=100",
        "--set",
        "constellation.per_plane=1000",
    ]
    few = ["--duration", "1 s", "--step", "1 s"]
    done = CliRunner().invoke(app, [*words, *few, "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "orbit.html").read_text(encoding="utf-8")
    assert "1 of 13 satellites (green)" in page
    assert '"links":[]' in page
    assert len(page) < 5_000_000
    assert (tmp_path / "map.pdf").stat().st_size < 8_000_000


def test_a_circle_on_the_ground_is_one() -> None:
    """Every point is as far from below the satellite, at the pole and over the date line too."""
    for at in [(7000.0, 0.0, 0.0), (-7000.0, -1.0, 500.0), (10.0, 0.0, 7000.0), (0.0, 0.0, -7000.0)]:
        east, north = (math.radians(angle) for angle in below(at))
        for longitude, latitude in footprint(at, 0.3):
            a, b = math.radians(latitude), math.radians(longitude)
            cosine = math.sin(a) * math.sin(north) + math.cos(a) * math.cos(north) * math.cos(b - east)
            assert math.acos(cosine) == pytest.approx(0.3, abs=1e-6)
            assert abs(longitude) <= 180


@pytest.mark.parametrize("steps", [[0.0], [5.0, 5.0], [-4.4, 4.8], [0.001, 3000.0]])
def test_bars_of_hand_overs_are_at_most_forty(steps: list[float]) -> None:
    width = _bin(steps)
    assert len({math.floor(step / width) for step in steps}) <= (max(steps) - min(steps)) / width + 2 <= 40


def test_traces_are_read_again(written: tuple[Path, dict[str, Any]]) -> None:
    out, message = written
    first, last = (read_csv(out, name, "delay") for name in ("first.csv", "last.csv"))
    assert [at for at, _ in first] == [at for at, _ in last]
    whole = float(first[0][1] + last[0][1])
    assert whole == pytest.approx(message["one_way_delay_ms"]["first"] * 1e6, abs=1)
    trips = [line.split(",") for line in (out / "networkx_rtt.txt").read_text().splitlines()]
    assert trips[0][0] == "0"
    assert float(trips[0][1]) == pytest.approx(113.230e6, abs=1e3)
    assert {float(trip) for at, trip in trips if 155.4e9 <= int(at) < 165.1e9} == {0.0}
    paths = (out / "networkx_path.txt").read_text().splitlines()
    assert paths[0] == "0,1156-236-237-204-205-206-207-208-209-210-211-212-178-144-1157"
    assert "155400000000,Unreachable" in paths
    opportunities = read_mahimahi(out, "mahimahi.trace")
    assert opportunities.bit_s == pytest.approx(12e6 * message["coverage"], rel=1e-3)
    assert not [at for at in opportunities.slots_ns if 155.5e9 < at < 165e9]


def test_a_scenario_follows_the_written_hops(written: tuple[Path, dict[str, Any]]) -> None:
    """The trace of a hop equals the hop: both plans have the same points."""
    out, _ = written
    data: dict[str, Any] = {
        "duration": "200 s",
        "orbit": {
            "constellation": "hypatia-kuiper-k1", "from": "Rio de Janeiro", "to": "Saint Petersburg", "coverage_gaps": "outage",
        },
        "path": {"segment": [
            {"name": "own", "delay": {"orbit": "last-hop"}, "both": {"rate": "10 Mbit/s"}},
            {"name": "read", "delay": {"trace": str(out / "last.csv"), "interpolation": "linear"}},
        ]},
        "flow": [{"name": "f", "congestion": "cubic"}],
    }  # fmt: skip
    plan = build_plan(load_scenario(data), "test", orbits=engine.orbit)
    own, read = (
        next(stage for stage in link["up"] if stage["kind"] == "delay_trace")
        for link in plan.runs[0].spec["graph"]["links"]
    )
    assert own["points"] == read["points"]


def test_coastlines_are_on_the_globe() -> None:
    points = [point for line in coastlines() for point in line]
    assert len(points) > 3000
    assert all(-180 <= east <= 180 and -90 <= north <= 90.1 for east, north in points)


def test_a_line_over_the_date_line_is_broken_there() -> None:
    pieces = list(_unwrapped([(170.0, 0.0), (-170.0, 10.0), (-160.0, 12.0)]))
    assert [(piece, at) for piece, _, at in pieces] == [
        (0, (170.0, 0.0)), (0, (180.0, 5.0)), (1, (-180.0, 5.0)), (1, (-170.0, 10.0)), (1, (-160.0, 12.0)),
    ]  # fmt: skip


def test_a_rate_goes_with_a_folder() -> None:
    done = CliRunner().invoke(app, ["orbit", "Paris", "Lima", "--rate", "12 Mbit/s"])
    assert done.exit_code == 2
    assert "--rate: requires --out" in done.output
