"""Plans: cells, seeds, ids, overrides, and bounds."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bentpipe.plan.analysis.bounds import bounds
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.plan.spec.run_id import SCHEMA, canonical
from bentpipe.runners import engine
from bentpipe.runners.engine import catalogue
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.sweep import parse_override

GEO: str = tomllib.loads(Path(__file__).with_name("wrong.toml").read_text())["scenario"]
ROOT = Path(__file__).parents[2]


def plan(text: str, *settings: str, seeds: tuple[int, ...] | None = None, engine: str = "test") -> Plan:
    document = load_scenario(tomllib.loads(text), [parse_override(setting) for setting in settings], settings)
    return build_plan(document, engine, seeds=seeds, catalogue=catalogue())


SWEEP = '[sweep]\n"flow.rival.congestion" = ["newreno", "bbr"]\n"path.satellite.rate" = ["2 Mbit/s", "10 Mbit/s"]\n'


def test_every_cell_runs_every_seed_with_the_last_key_fastest() -> None:
    found = plan(GEO.replace("[[path", "seeds = [3, 5]\n[[path", 1) + SWEEP)
    cells = [tuple(run.cell.values()) for run in found.runs]
    assert cells[::2] == [
        ("newreno", "2 Mbit/s"),
        ("newreno", "10 Mbit/s"),
        ("bbr", "2 Mbit/s"),
        ("bbr", "10 Mbit/s"),
    ]
    assert [run.seed for run in found.runs[:4]] == [3, 5, 3, 5]
    assert found.runs[1].spec["seed"] == 5
    assert len({run.id for run in found.runs}) == 8


def test_a_key_right_after_a_segment_is_both_directions() -> None:
    link = plan(GEO + SWEEP).runs[0].spec["graph"]["links"][0]
    assert [link[side][0]["service"]["rate_bit_s"] for side in ("up", "down")] == [2_000_000, 2_000_000]


def test_tied_keys_change_together() -> None:
    tied = """
[sweep]
orbit = [
  { label = "leo", "path.satellite.delay" = "15 ms", "path.satellite.up.loss" = "1 %" },
  { label = "geo", "path.satellite.delay" = "250 ms", "path.satellite.up.loss" = "0.01 %" },
]
"flow.rival.congestion" = ["cubic", "hybla"]
"""
    runs = plan(GEO + tied).runs
    assert [run.cell["orbit"] for run in runs] == ["leo", "leo", "geo", "geo"]
    assert runs[2].cell["path.satellite.delay"] == "250 ms"
    assert runs[0].spec["graph"]["links"][0]["up"][-1]["delay_ns"] == 15_000_000


def test_an_id_depends_on_all_that_decides_the_bytes_and_on_nothing_else() -> None:
    first = plan(GEO).runs[0].id
    assert plan(GEO.replace('title = "test"', 'title = "other"')).runs[0].id == first
    assert plan(GEO, engine="other").runs[0].id != first
    assert plan(GEO, "sample_interval=50 ms").runs[0].id != first
    assert plan(GEO, seeds=(2,)).runs[0].id != first
    changed = build_plan(load_scenario(tomllib.loads(GEO)), "test", user_code={"hybla": "print"}).runs[0].id
    assert changed != first


def test_an_id_is_the_hash_of_the_whole_run_in_canonical_form() -> None:
    """Also where flows of groups share tables, which are encoded once."""
    groups = [
        {"name": name, "count": count, "transport": transport, "congestion": "cubic"}
        for name, count, transport in (("a", 3, "tcp"), ("b", 2, "quic"), ("c", 1, "tcp"))
    ]
    page = {"name": "p", "congestion": "bbr", "load": {"page": "almanac-2019-light"}}
    path = {"segment": [{"name": "s", "delay": "10 ms", "both": {"rate": "10 Mbit/s"}}]}
    sweep = {"flow.a.count": [3, 1], "path.s.delay": ["10 ms", "1 s"]}
    data = {"duration": "9 s", "seeds": 2, "path": path, "flow": [*groups, page], "sweep": sweep}
    runs = build_plan(
        load_scenario(data), "an engine", catalogue=catalogue(), user_code={"cubic": "print"}
    ).runs
    for run in runs:
        rests_on = {
            "schema": SCHEMA, "engine": "an engine", "cell": run.cell, "spec": run.spec,
            "controllers": {"cubic": "print"},
        }  # fmt: skip
        assert run.id == hashlib.sha256(canonical(rests_on).encode()).hexdigest()[:16]
    assert len({run.id for run in runs}) == 8


def test_without_chance_one_seed_runs() -> None:
    alone = GEO[: GEO.index('[[flow]]\nname = "rival"')]
    assert len(plan(alone, "seeds=4").runs) == 4
    lossless = ("seeds=4", "path.satellite.up.loss=0")
    assert len(plan(alone, *lossless).runs) == 4, "QUIC skips packet numbers at random"
    for name, seeds in (("bbr", 4), ("bbr1", 4), ("cubic", 1), ("westwood+", 1)):
        changed = plan(alone, *lossless, "flow.hybla.transport=tcp", f"flow.hybla.congestion={name}")
        assert len(changed.runs) == seeds, name
    # two flows start at slightly different times, which seeds decide
    assert len(plan(GEO, "seeds=4", "path.satellite.up.loss=0").runs) == 4


def test_an_override_may_be_text_toml_or_go_into_a_bare_value() -> None:
    assert plan(GEO, "duration=3 s").runs[0].spec["duration_ns"] == 3 * 10**9
    assert plan(GEO, "trace.qlog=true").runs[0].spec["trace"]["qlog"] is True
    options = plan(GEO, "flow.hybla.congestion.growth_cap=2").runs[0].spec["flows"][0]["client_congestion"]
    assert options == {"name": "hybla", "options": {"growth_cap": 2}}


def test_an_override_of_a_swept_key_replaces_its_values() -> None:
    assert len(plan(GEO + SWEEP, "flow.rival.congestion=hybla").runs) == 2
    assert len(plan(GEO + SWEEP, 'flow.rival.congestion=["cubic", "hybla", "bbr"]').runs) == 6


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("pth.satellite.delay=1 ms", 'no key "pth"'),
        ("path.satelite.delay=1 ms", 'did you mean "satellite"'),
        ("flow.rivel.start=1 s", 'did you mean "rival"'),
        ("flow.rival=1", "expected a key"),
        ("duration", "expected KEY=VALUE"),
        ("duration=1", "without a unit"),
        ("path.preset=starlonk", "preset"),
    ],
)
def test_a_wrong_override_is_refused(setting: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        plan(GEO, setting)


def test_bounds_follow_from_the_path() -> None:
    (hybla, _) = bounds(plan(GEO))
    assert hybla.bdp_bytes == 625_000
    assert hybla.queue_bytes == 625_000
    assert hybla.queue_packets == 625_000 // 1480
    assert hybla.min_rtt_ms == pytest.approx(500 + 1.184)
    assert hybla.goodput_bit_s is not None
    assert 9.5e6 < hybla.goodput_bit_s < 1e7 * 1452 / 1480
    assert hybla.slow_start_s == pytest.approx(2.71, abs=0.01)  # log2(625000 / 14520) x 0.5 s


def test_a_preset_stands_for_its_segments() -> None:
    text = 'duration = "1 s"\n[path]\npreset = "geo-konnect"\n[[flow]]\nname = "a"\ncongestion = "cubic"\n'
    assert plan(text, "path.konnect.up.loss=1 %").runs[0].spec["graph"]["links"][0]["name"] == "konnect"


@pytest.mark.parametrize("file", sorted([*ROOT.glob("scenarios/*.toml")]), ids=lambda path: path.stem)
def test_the_scenarios_that_come_along_are_right(file: Path) -> None:
    found = build_plan(load_scenario(file), "test", orbits=engine.orbit)
    assert found.runs
    assert json.loads(found.runs[0].spec_json()) == found.runs[0].spec


def test_every_preset_makes_a_plan() -> None:
    from bentpipe.scenario.presets import presets

    assert len(presets()) >= 5
    for preset in presets():
        data = {
            "duration": "1 s",
            "path": {"segment": preset.segments},
            "flow": [{"name": "a", "congestion": "cubic"}],
        }
        assert build_plan(load_scenario(data), "test").runs
        assert preset.source


def test_keys_outside_the_sweep_are_read_once_with_the_same_result() -> None:
    """A cell after the first is what its scenario alone is, and shares what is set in none."""
    data: dict[str, Any] = {
        "title": "t",
        "duration": "5 s",
        "quic": {"ecn": True},
        "path": {
            "segment": [
                {"name": "access", "delay": "5 ms", "both": {"rate": "50 Mbit/s"}},
                {"name": "satellite", "delay": "250 ms", "both": {"rate": "10 Mbit/s", "queue": "1 BDP"}},
            ],
            "proxy": [{"name": "gateway", "between": ["access", "satellite"]}],
            "handover": [{"name": "later", "segment": "satellite", "at": "2 s", "down": {"loss": "1 %"}}],
        },
        "flow": [
            {"name": "bulk", "congestion": "cubic", "transport": "tcp", "load": "D:*1:0:-:50000:0"},
            {"name": "other", "congestion": "cubic", "start": "1 s"},
        ],
    }
    sweep = {
        "path.satellite.delay": ["100 ms", "250 ms"],
        "flow.other.congestion": ["newreno", {"name": "cubic", "beta": 0.5}],
        "path.gateway.handshake": ["early", "none"],
    }
    cells = build_plan(load_scenario({**data, "sweep": sweep}), "e").cells
    assert len(cells) == 8
    for cell in cells:
        alone = build_plan(load_scenario(data, list(cell.values.items())), "e")
        assert cell.resolved.spec == alone.cells[0].resolved.spec
        assert cell.scenario.flow[0] is cells[0].scenario.flow[0]
        assert cell.scenario.path is not None
        assert cells[0].scenario.path is not None
        assert cell.scenario.path.segment[0] is cells[0].scenario.path.segment[0]
        assert cell.scenario.path.segment[1].both is cells[0].scenario.path.segment[1].both
    directions = {"path.satellite.loss": ["0 %", "1 %"], "path.access.both.rate": ["50 Mbit/s", "60 Mbit/s"]}
    for cell in build_plan(load_scenario({**data, "sweep": directions}), "e").cells:
        alone = build_plan(load_scenario(data, list(cell.values.items())), "e")
        assert cell.resolved.spec == alone.cells[0].resolved.spec
    wrong = {**data, "sweep": {"path.gateway.buffer": ["1 MB", "1 potato"]}}
    with pytest.raises(ScenarioError, match=r"path\.gateway\.buffer.*potato.*in the sweep"):
        build_plan(load_scenario(wrong), "e")
