"""`[orbit]` in a scenario: its hops as delays, handovers at its instants, gaps, and errors."""

from __future__ import annotations

import copy
import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import bentpipe
from bentpipe.api.plan import plan_document
from bentpipe.figures import time_series
from bentpipe.figures.context import FigureContext
from bentpipe.plan.document import load_scenario
from bentpipe.plan.network.constellation_routes import find_routes
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.runners import engine
from bentpipe.scenario import Constellation, Orbit, Place, Scenario
from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.reader import open_store
from traced_runs import judged, made

SCENARIO: dict[str, Any] = {
    "duration": "60 s",
    "orbit": {"constellation": "starlink-shell-1", "from": "Paris", "to": "New York"},
    "path": {
        "segment": [
            {"name": "space", "delay": {"orbit": "before-last-hop"}, "both": {"rate": "50 Mbit/s"}},
            {"name": "mobile", "delay": {"orbit": "last-hop"}, "both": {"rate": "10 Mbit/s"}},
        ]
    },
    "flow": [{"name": "bulk", "transport": "tcp", "congestion": "cubic", "direction": "down"}],
}


def scenario(**changed: Any) -> dict[str, Any]:
    data = copy.deepcopy(SCENARIO)
    for key, value in changed.items():
        data[key] = {**data[key], **value} if isinstance(value, dict) and key in data else value
    return data


def plan(data: dict[str, Any], folder: Path | None = None) -> Plan:
    document = load_scenario(data)
    if folder is not None:
        document = replace(document, folder=folder)
    return build_plan(document, "test", catalogue=engine.catalogue(), orbits=engine.orbit)


def delays(found: Plan, link: int, side: str = "up") -> list[list[int]]:
    stages = found.runs[0].spec["graph"]["links"][link][side]
    trace = next(stage for stage in stages if stage["kind"] == "delay_trace")
    assert trace["interpolation"] == "linear"
    points: list[list[int]] = trace["points"]
    return points


def at(points: list[list[int]], when: int) -> float:
    after = next(index for index, point in enumerate(points) if point[0] >= when)
    (a, low), (b, high) = points[max(after - 1, 0)], points[after]
    return high if a == b else low + (high - low) * (when - a) / (b - a)


def test_two_hops_are_the_path() -> None:
    found = plan(SCENARIO)
    orbit = found.cells[0].scenario.orbit
    assert orbit is not None
    whole = find_routes(orbit, 60 * 10**9, Path(), engine.orbit)
    first, last = delays(found, 0), delays(found, 1)
    assert delays(found, 0, "down") == first
    assert delays(found, 1, "down") == last
    for step in range(0, 601, 7):
        when = step * whole.step_ns
        delay, leg = whole.delay_ns[step], whole.last_ns[step]
        assert delay is not None
        assert leg is not None
        assert at(last, when) == pytest.approx(leg, abs=1001)
        assert at(first, when) + at(last, when) == pytest.approx(delay, abs=2002)
    # a handover is a step, not a ramp
    jumps = [b[0] for a, b in pairwise(first) if b[0] - a[0] == 1]
    assert jumps == [one.at_ns for one in whole.handovers]
    assert jumps


def test_a_run_over_an_orbit_is_within_its_bounds_and_verifies(tmp_path: Path) -> None:
    found = plan(scenario(duration="20 s", trace={"packet_steps": True}))
    spec = json.loads(found.runs[0].spec_json())
    tables = made(spec)
    assert judged(tmp_path, spec, tables) == []
    least = min(one for _, one in delays(found, 0)) + min(one for _, one in delays(found, 1))
    samples = tables["packets"].filter(pl.col("received_s").is_not_null())
    assert samples.height > 1000
    taken = (samples["received_s"] - samples["sent_s"]).min()
    assert isinstance(taken, float)
    assert taken >= least / 1e9 - 1e-9


def test_windows_are_of_the_longest_delay() -> None:
    """Flow control never limits: it assumes the longest delay of a hop, not the first."""
    found = plan(scenario())
    hops = found.cells[0].resolved.up["bulk"]
    for hop, link in zip(hops, (0, 1), strict=True):
        points = delays(found, link)
        assert hop.delay_max_ns == max(delay for _, delay in points)
        assert hop.delay_min_ns == min(delay for _, delay in points)
        assert hop.delay_ns == points[0][1]


def test_hand_overs_at_the_instants_of_the_orbit() -> None:
    data = scenario()
    data["path"]["handover"] = [{"segment": "mobile", "at": "orbit", "in_flight": "drop"}]
    found = plan(data)
    events = [event["at_ns"] for event in found.runs[0].spec["graph"]["changes"]]
    last = delays(found, 1)
    jumps = [b[0] for a, b in pairwise(last) if b[0] - a[0] == 1 and abs(b[1] - a[1]) > 10_000]
    assert events
    assert set(jumps) <= set(events)
    data["path"]["handover"][0]["segment"] = "space"
    more = [event["at_ns"] for event in plan(data).runs[0].spec["graph"]["changes"]]
    assert set(events) <= set(more)


def test_constellations_are_swept() -> None:
    names = ["starlink-shell-1", "iridium", "tauran-66"]
    found = plan(scenario(sweep={"orbit.constellation": names}))
    assert len(found.runs) == 3
    assert len({run.id for run in found.runs}) == 3


def test_a_scenario_composed_in_python_is_the_same() -> None:
    composed = Scenario.model_validate(scenario())
    assert Scenario.model_validate(composed.to_dict()) == composed


def test_gaps_are_refused_with_their_times_or_are_outages() -> None:
    kuiper = {"constellation": "hypatia-kuiper-k1", "from": "Rio de Janeiro", "to": "Saint Petersburg"}
    data = scenario(duration="200 s", orbit=kuiper)
    with pytest.raises(ScenarioError) as refused:
        plan(data)
    expected = "orbit: no route from Rio de Janeiro to Saint Petersburg from 155.4 s to 165.1 s"
    assert expected in str(refused.value)
    found = plan(scenario(duration="200 s", orbit={**kuiper, "coverage_gaps": "outage"}))
    stages = found.runs[0].spec["graph"]["links"][0]["up"]
    outage = next(stage for stage in stages if stage["kind"] == "outage")
    assert outage["windows"] == [[155_400_000_000, 165_100_000_000]]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"orbit": {"to": "New Yrk"}}, 'did you mean "New York"?'),
        ({"orbit": {"to": "New Yrk"}}, "orbit.to"),
        ({"orbit": {"constellation": "starlnk-shell-1"}}, "orbit.constellation"),
        ({"orbit": {"constellation": "starlnk-shell-1"}}, 'did you mean "starlink-shell-1"?'),
        ({"orbit": {"elevation": 25}}, "orbit.elevation"),
        ({"orbit": {"handover": {"rule": "keep-until-lost", "interval": "15 s"}}}, "expected it with"),
        ({"orbit": {"constellation": {"tle": "none.tle", "elevation": "10 deg"}}}, "orbit.constellation.tle"),
        ({"orbit": {"constellation": "oneweb", "from": "Toulouse", "to": "Lima"}}, "no route from Toulouse at any time"),
    ],
)  # fmt: skip
def test_errors_are_reported_by_their_key(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(ScenarioError) as wrong:
        plan(scenario(**change))
    assert expected in str(wrong.value)


def test_a_hop_requires_an_orbit() -> None:
    data = scenario()
    del data["orbit"]
    with pytest.raises(ScenarioError, match=r"path\.space\.up\.delay: .*requires \[orbit\]"):
        plan(data)


ISS = """\
ISS (ZARYA)
1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992
2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008
"""


def test_elements_with_a_wrong_checksum(tmp_path: Path) -> None:
    table = {"constellation": {"tle": "iss.tle", "elevation": "10 deg"}, "coverage_gaps": "outage"}
    (tmp_path / "iss.tle").write_text(ISS.replace("9992", "9993"))
    with pytest.raises(ScenarioError, match=r'orbit\.constellation\.tle: "iss\.tle": line 2: .*checksum'):
        plan(scenario(orbit=table), tmp_path)


def test_the_emulator_takes_the_same_delays() -> None:
    kernels = {"name": "cubic", "avoidance": "linux", "slow_start_exit": "classic"}
    document = load_scenario(scenario(flow=[{**SCENARIO["flow"][0], "congestion": kernels}]))
    real, simulated = plan_document(document, engine="emu"), plan_document(document)
    assert real.runs[0].spec["graph"] == simulated.runs[0].spec["graph"]


def test_a_report_shows_the_hops_over_time(tmp_path: Path) -> None:
    """One way, link by link and together, with the steps of handovers; nothing where no delay follows a trace."""
    bentpipe.run(scenario(duration="20 s"), out=tmp_path / "store")
    material = FigureContext(open_store(tmp_path / "store"))
    drawn = time_series.propagation_delay(material)
    assert drawn is not None
    rows = pl.read_csv(io.StringIO(values(drawn.spec())))
    assert rows["series"].unique(maintain_order=True).to_list() == ["space", "mobile", "sum of all links"]
    found = plan(scenario(duration="20 s"))
    first, last = delays(found, 0), delays(found, 1)
    for when, delay in rows.filter(pl.col("series") == "sum of all links").select("time_s", "y").iter_rows():
        jump = min(abs(when * 1e9 - b[0]) if b[0] - a[0] == 1 else 1e9 for a, b in pairwise(first))
        if jump < 2e6:
            continue  # a time of a few digits does not show the side
        expected = at(first, round(when * 1e9)) + at(last, round(when * 1e9))
        assert delay == pytest.approx(expected / 1e6, rel=1e-3)
    assert rows["time_s"].max() == 20
    constant = scenario(duration="2 s")
    del constant["orbit"]
    constant["path"]["segment"] = [{"name": "s", "delay": "10 ms", "both": {"rate": "1 Mbit/s"}}]
    bentpipe.run(constant, out=tmp_path / "constant")
    assert time_series.propagation_delay(FigureContext(open_store(tmp_path / "constant"))) is None


def values(spec: dict[str, Any]) -> str:
    """The CSV of a figure."""
    for part in (spec, *spec.get("layer", [])):
        data = part.get("data", {}).get("values")
        if isinstance(data, str):
            return data
    found = next(iter(spec["datasets"].values()))
    assert isinstance(found, str)
    return found


def test_an_orbit_is_followed_once_for_all_cells_that_share_it() -> None:
    asked: list[object] = []

    def ask(question: Any) -> Any:
        asked.append(question)
        return engine.orbit(question)

    data = scenario(
        sweep={"flow.bulk.congestion": ["cubic", "newreno"], "orbit.constellation": ["iridium", "tauran-66"]}
    )
    assert len(build_plan(load_scenario(data), "test", orbits=ask).runs) == 4
    assert len(asked) == 2


def test_an_orbit_is_composed_in_python() -> None:
    flies = Constellation.model_validate(
        {"planes": 24, "per_plane": 24, "inclination": "53 deg", "altitude": "900 km", "phasing": 5, "links": "grid",
         "elevation": "10 deg"}
    )  # fmt: skip
    orbit = Orbit.model_validate({"constellation": flies, "from": "Paris", "to": Place.parse("New York")})
    composed = Scenario.model_validate({**scenario(), "orbit": orbit})
    written = scenario(orbit=None)
    written["orbit"] = {"constellation": flies.to_dict(), "from": "Paris", "to": ["New York"]}
    assert plan(composed.to_dict()).runs[0].spec == plan(written).runs[0].spec
