"""Resolved runs stay as they were: a digest of the RunSpecs of every scenario, preset, page and study.

``BENTPIPE_UPDATE=1`` records the digests again after a wanted change. A digest covers every cell of a sweep with its
first seed. It does not cover the runs' ids, which hold the engine's version.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.runners import engine
from bentpipe.scenario.presets import pages, presets
from bentpipe_studies import NAMES, find
from bentpipe_studies.parts import plan_part
from nightly import keep

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("run_specs.json")
SCENARIOS = sorted(path for path in ROOT.glob("scenarios/**/*.toml") if "[[flow]]" in path.read_text())


def digest(plan: Plan) -> str:
    """Hash the resolved runs of ``plan``."""
    found = hashlib.sha256()
    for run in plan.runs:
        found.update(run.spec_json().encode() + b"\n")
    return found.hexdigest()[:32]


def planned(scenario: Path | Mapping[str, Any]) -> Plan:
    """Plan every cell of a scenario with its first seed."""
    return build_plan(
        load_scenario(scenario),
        engine.version(),
        seeds=(1,),
        catalogue=engine.catalogue(),
        orbits=engine.orbit,
    )


def preset_scenarios() -> Iterator[tuple[str, dict[str, Any]]]:
    """Name a transfer over each access and a load of each page."""
    for access, load in [
        *((one.name, {"bytes": "1 MB"}) for one in presets()),
        *(("oneweb", {"page": one.name}) for one in pages()),
    ]:
        flow = {"name": "any", "congestion": "cubic", "load": load}
        name = f"page {load['page']}" if "page" in load else f"preset {access}"
        yield name, {"duration": "20 s", "path": {"preset": access}, "flow": [flow]}


def check(found: Mapping[str, str]) -> None:
    """Compare digests with the recorded ones, or record them."""
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if os.environ.get("BENTPIPE_UPDATE"):
        RECORD.write_text(json.dumps(recorded | found, indent=1, sort_keys=True) + "\n")
        return
    assert {name: recorded.get(name) for name in found} == found


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_runs_of_a_scenario_stay(path: Path) -> None:
    check({str(path.relative_to(ROOT)): digest(planned(path))})


def test_the_runs_of_presets_and_pages_stay() -> None:
    check({name: digest(planned(scenario)) for name, scenario in preset_scenarios()})


@pytest.mark.parametrize("name", keep(NAMES.keys() - {"tauran-2018"}, sorted(NAMES)))
def test_the_runs_of_a_study_stay(name: str) -> None:
    parts = find(name).parts()
    check({f"study {name} {part.name}": digest(plan_part(part, lambda _: True, 1).plan) for part in parts})


def test_nothing_else_is_recorded() -> None:
    names = {str(path.relative_to(ROOT)) for path in SCENARIOS} | {name for name, _ in preset_scenarios()}
    names |= {f"study {name} {part.name}" for name in NAMES for part in find(name).parts()}
    assert set(json.loads(RECORD.read_text())) == names
