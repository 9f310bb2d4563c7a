"""Several accesses in one study: a sweep over presets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import bentpipe
from bentpipe.api.plan import plan_scenario
from bentpipe.plan.spec.run_id import canonical
from bentpipe.report.store_page import write_report
from commands import bentpipe as command

if TYPE_CHECKING:
    from pathlib import Path

FLOW = {"name": "bulk", "congestion": "bbr", "direction": "down", "load": {"bytes": "300 kB"}}
SCENARIO: dict[str, Any] = {"title": "paths", "duration": "6 s", "seeds": 2, "flow": [FLOW]}
PRESETS = ["lte-4g", "satcom-2018", "starlink"]

MINE = """
title = "mine"
source = "none"
[[path.segment]]
name = "radio"
delay = "7 ms"
both = { rate = "3 Mbit/s" }
"""


def _specs(table: dict[str, Any]) -> dict[str, list[str]]:
    """Resolved runs by the preset of their cell."""
    found: dict[str, list[str]] = {}
    for run in plan_scenario(table).runs:
        found.setdefault(run.cell.get("path.preset", ""), []).append(canonical(run.spec))
    return found


def test_each_cell_is_the_run_of_its_preset_alone() -> None:
    swept = _specs({**SCENARIO, "sweep": {"path.preset": PRESETS}})
    assert list(swept) == PRESETS
    for name in PRESETS:
        assert swept[name] == _specs({**SCENARIO, "path": {"preset": name}})[""]
    assert len({run.id for run in plan_scenario({**SCENARIO, "sweep": {"path.preset": PRESETS}}).runs}) == 6


def test_equal_packets_and_ids_on_every_repeat() -> None:
    both = {**SCENARIO, "sweep": {"path.preset": PRESETS[::2]}}
    first, second = bentpipe.run(both, jobs=1), bentpipe.run(both, jobs=2)
    assert first.flow_summary.equals(second.flow_summary)
    alone = bentpipe.run({**SCENARIO, "path": {"preset": "starlink"}}, jobs=1)
    of_cell = first.flow_summary.filter(first.flow_summary["path.preset"] == "starlink")
    assert of_cell.drop("run", "path.preset").equals(alone.flow_summary.drop("run"))
    assert set(first.cells()["path.preset"]) == {"lte-4g", "starlink"}


def test_own_segments_follow_and_tied_keys_set_members(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "s.toml").write_text("""
duration = "2 s"
[path]
preset = "lte-4g"
[[path.segment]]
name = "backbone"
delay = "10 ms"
[[flow]]
name = "bulk"
congestion = "cubic"
[sweep]
access = [
  { label = "lossy", "path.radio.loss" = "1 %", "path.preset" = "mine.toml", "path.backbone.delay" = "20 ms" },
  { label = "clean", "path.preset" = "mine.toml" },
  { label = "base", "flow.bulk.direction" = "down" },
]
""")
    cells = {cell.values["access"]: cell for cell in plan_scenario(tmp_path / "s.toml").cells}
    links = {
        name: [link["name"] for link in cell.resolved.spec["graph"]["links"]] for name, cell in cells.items()
    }
    assert links == {
        "lossy": ["radio", "backbone"],
        "clean": ["radio", "backbone"],
        "base": ["lte", "backbone"],
    }
    stages = {name: cell.resolved.spec["graph"]["links"] for name, cell in cells.items()}
    assert any(stage["kind"] == "loss" for stage in stages["lossy"][0]["up"])
    assert not any(stage["kind"] == "loss" for stage in stages["clean"][0]["up"])
    done = command(tmp_path, "check", "s.toml", "--set", "path.backbone.delay=30 ms", "--json")
    assert done.returncode == 0, done.stderr


def _write(place: Path, sweep: str = "") -> None:
    (place / "s.toml").write_text(
        f'duration = "2 s"\n[[flow]]\nname = "bulk"\ncongestion = "cubic"\n[sweep]\n{sweep}\n'
    )


def test_the_command_line_sweeps_presets(tmp_path: Path) -> None:
    _write(tmp_path)
    words = ["run", "s.toml", "--sweep", "path.preset=lte-4g,adsl", "--jobs", "1", "--out", "store"]
    done = command(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    rows = json.loads(command(tmp_path, "show", "store", "--json").stdout)
    assert {row["path.preset"] for row in rows} == {"lte-4g", "adsl"}
    assert "preset lte-4g, adsl" in write_report(tmp_path / "store").read_text()
    _write(tmp_path, '"path.preset" = ["lte-4g", "adsl"]')
    found = json.loads(command(tmp_path, "check", "s.toml", "--set", "path.preset=ftth", "--json").stdout)
    assert found["cells"] == 1
    assert found["bounds"][0]["cell"] == {"path.preset": "ftth"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--sweep", "path.preset=lte-4g,adls"],
            's.toml: path.preset: no preset "adls", expected one of: adsl, ',
        ),
        (
            ["--sweep", "path.preset=lte-4g,adls"],
            '; did you mean "adsl"? (in the sweep, with path.preset = adls)',
        ),
        (["--sweep", "path.preset=mine.toml"], 'no file "mine.toml" beside the scenario'),
        (["--sweep", "path.preset=lte-4g,lte-4g"], 'sweep.path.preset: duplicate value "lte-4g"'),
        (["--sweep", "path.preset=3,4"], 's.toml: path.preset: no preset "3"'),
        (
            ["--sweep", "path.preset=lte-4g,adsl", "--set", "path.lte.loss=1 %"],
            (
                'no segment "lte", none is defined here (in --set); the sweep sets path.preset; set it beside the preset, '
                'as { "path.preset" = ..., "path.lte.loss" = ... }'
            ),
        ),
        (
            ["--sweep", "path.preset=lte-4g,adsl", "--sweep", "path.lte.loss=0 %,1 %"],
            'path.lte.loss: no segment "lte", expected one of: adsl (in the sweep, with path.preset = adsl, ',
        ),
    ],
)
def test_a_wrong_preset_of_a_sweep_is_one_message(tmp_path: Path, words: list[str], message: str) -> None:
    _write(tmp_path)
    done = command(tmp_path, "run", "s.toml", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
