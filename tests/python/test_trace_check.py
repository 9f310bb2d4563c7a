"""``bentpipe verify``: nothing to find in any kind of run, in no scenario and in no study."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bentpipe.cli import app
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.runners import engine
from every_stage import STAGES
from mutations import brings_controllers
from nightly import keep
from traced_runs import QUIC, SPLIT, TCP, judged, made, scenario, segment, spec_of, with_stages

PATHS: dict[str, dict[str, Any]] = {
    "tcp": scenario(segment(queue="1 BDP"), flows=(TCP,)),
    "three hops": scenario(
        segment("a"), segment("b", queue="20 packets", rate="5 Mbit/s"), segment("c", loss="1 %")
    ),
    "split": scenario(segment("a", rate="50 Mbit/s"), segment("b"), flows=(TCP,), proxy=SPLIT),
    "both transports": scenario(segment(queue="1 BDP"), flows=(QUIC, TCP, {**TCP, "congestion": "bbr"})),
    "a page": scenario(
        segment(), flows=({**QUIC, "load": {"page": "almanac-2019-light", "http": "alt-svc"}},)
    ),
    "arrivals": scenario(
        segment(), flows=({**TCP, "load": {"poisson": {"interval": "50 ms", "size": "20 kB"}}},)
    ),
    "without limits": scenario(segment(queue="none")),
}


@pytest.mark.parametrize("name", keep(PATHS, [*PATHS, *STAGES]))
def test_nothing_is_found_in_a_sound_run(name: str, tmp_path: Path) -> None:
    spec = spec_of(PATHS.get(name) or scenario(segment()))
    if name in STAGES:
        spec = with_stages(spec, *STAGES[name])
    tables = made(spec)
    assert len(tables["packet_steps"]) > 1000
    assert not judged(tmp_path, spec, tables)


SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))


@pytest.mark.parametrize(
    "file", keep([one for one in SCENARIOS if one.stem == "geo"], SCENARIOS), ids=lambda file: file.stem
)
def test_nothing_is_found_in_the_scenarios(file: Path, tmp_path: Path) -> None:
    shorter = [("trace.packet_steps", True), ("duration", "12 s"), ("seeds", 1)]
    runs = build_plan(
        load_scenario(file, shorter), "test", catalogue=engine.catalogue(), orbits=engine.orbit
    ).runs
    for run in (runs[0], runs[-1]):
        spec = json.loads(run.spec_json())
        assert not judged(tmp_path, spec, made(spec)), run.cell


STUDIES = sorted(
    file
    for file in (Path(__file__).parents[2] / "studies").glob("*/*.toml")
    if "[[flow]]" in file.read_text()
    and not file.name.startswith("why")
    and not brings_controllers(file.read_text())
)


def shortened(value: object) -> object:
    """A value of an axis; of a tied one without its duration, which would hold here."""
    if not isinstance(value, dict):
        return value
    return {key: of for key, of in value.items() if key != "duration"}


@pytest.mark.parametrize(
    "file", keep(STUDIES[:1], STUDIES), ids=lambda file: f"{file.parent.name}-{file.stem}"
)
def test_nothing_is_found_in_the_studies(file: Path, tmp_path: Path) -> None:
    later = {
        "late-start": "7 s",
        "congested": "12 s",
        "tcp-split": "1 s",
    }  # the second flow comes; 250 Mbit/s
    shorter = [("trace.packet_steps", True), ("duration", later.get(file.stem, "2 s")), ("seeds", 1)]
    data = tomllib.loads(file.read_text())
    data["sweep"] = {  # its last cell, without planning the thousands before it
        key: [shortened(values[-1])] if isinstance(values, list) else values
        for key, values in data.get("sweep", {}).items()
    }
    document = replace(load_scenario(data, shorter), folder=file.parent)
    run = build_plan(document, "test", catalogue=engine.catalogue(), orbits=engine.orbit).runs[-1]
    spec = json.loads(run.spec_json())
    assert not judged(tmp_path, spec, made(spec)), run.cell


def test_the_command(tmp_path: Path) -> None:
    file, store = tmp_path / "s.toml", tmp_path / "store"
    file.write_text(
        'duration = "1 s"\n[[path.segment]]\nname = "s"\ndelay = "5 ms"\nboth = { rate = "5 Mbit/s" }\n'
        '[[flow]]\nname = "f"\ncongestion = "cubic"\n'
    )
    run = CliRunner()
    assert run.invoke(app, ["run", str(file), "--out", str(store)]).exit_code == 0
    with pytest.raises(Exception, match=r"--set trace\.packet_steps=true"):
        run.invoke(app, ["verify", str(store)], catch_exceptions=False)
    traced = tmp_path / "traced"
    assert (
        run.invoke(
            app, ["run", str(file), "--set", "trace.packet_steps=true", "--out", str(traced)]
        ).exit_code
        == 0
    )
    good = run.invoke(app, ["verify", str(traced)])
    assert good.exit_code == 0
    assert "nothing found" in good.output
    message = json.loads(run.invoke(app, ["verify", str(traced), "--json"]).output)
    assert message[0]["findings"] == []
