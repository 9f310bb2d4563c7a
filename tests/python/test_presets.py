"""Accesses and pages: well formed, sourced, and with the sums that their sources state."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commands
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.presets import Page, Preset, page, pages, presets, proxies, segments
from bentpipe.scenario.quantities import Duration, Rate, Size

ACCESSES = {preset.name: preset for preset in presets()}


def test_a_preset_is_shown_as_the_toml_of_its_keys(tmp_path: Path) -> None:
    for name, known in ACCESSES.items():
        done = commands.bentpipe(tmp_path, "presets", "show", name)
        assert done.returncode == 0, done.stderr
        data = tomllib.loads(done.stdout)
        assert (data["title"], data["path"]["segment"]) == (known.title, known.segments)
    done = commands.bentpipe(tmp_path, "presets", "show", "nr-ntn-le")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith('error: NAME: no preset "nr-ntn-le", expected one of: ')
    assert done.stderr.endswith('did you mean "nr-ntn-leo"?\n')


PAGES = {found.name: found for found in pages()}


def access(name: str) -> tuple[float, float, float]:
    """Least rate down and up, Mbit/s, and round trip, ms, of an access."""
    found = segments(name)
    down, up = (
        min(Rate.parse(part[way]["rate"]).bit_s for part in found if way in part) / 1e6
        for way in ("down", "up")
    )
    return down, up, 2 * sum(Duration.parse(part["delay"]).ns for part in found) / 1e6


# Values of the sources: Thomas et al. 2019, Table 1; Ookla, Q2 2021; draft-kuhn-quic-4-sat-07, sections 4.1 to 4.6.
STATED = {
    "geo-konnect": (25, 5, 750),
    "satcom-2018": (25, 5, 750),
    "lte-4g": (5, 2.5, 80),
    "geo-hughesnet": (19.73, 2.43, 724),
    "geo-viasat": (18.13, 3.38, 630),
    "quic4sat-small": (10, 2, 650),
    "quic4sat-medium": (50, 10, 650),
    "quic4sat-congested": (50, 0.5, 650),
    "quic4sat-variable": (50, 10, 650),
    "quic4sat-large": (250, 3, 650),
    "quic4sat-lossy": (250, 3, 650),
}

# Thomas 2018, Table 2.1.
RANGES = {"adsl": ((5, 20), (2, 5), (10, 100)), "ftth": ((100, 1000), (100, 500), (1, 10))}


@pytest.mark.parametrize("name", STATED)
def test_an_access_has_the_numbers_of_its_source(name: str) -> None:
    assert access(name) == pytest.approx(STATED[name])


@pytest.mark.parametrize("name", RANGES)
def test_an_access_lies_in_the_ranges_of_its_source(name: str) -> None:
    assert all(low <= value <= high for value, (low, high) in zip(access(name), RANGES[name], strict=True))


@pytest.mark.parametrize("preset", ACCESSES.values(), ids=ACCESSES)
def test_an_access_makes_a_plan_and_says_what_is_a_guess(preset: Preset) -> None:
    flow = {"name": "a", "congestion": "cubic"}
    data = {"duration": "1 s", "path": {"segment": preset.segments}, "flow": [flow]}
    assert build_plan(load_scenario(data), "test").runs
    assert preset.source
    assert preset.proxies == proxies(preset.name) == []  # no operator has published its controller


def test_the_segments_of_2018_stand_in_the_order_of_the_path() -> None:
    assert [part["name"] for part in segments("satcom-2018")] == ["lan", "satellite", "internet"]
    outer = [2 * Duration.parse(part["delay"]).ns / 1e6 for part in segments("satcom-2018")]
    assert outer == pytest.approx([1, 719, 30])


def weight(found: Page, prefix: str = "") -> int:
    """Bytes of the objects whose names begin with ``prefix``."""
    return sum(Size.parse(part["size"]).bytes for part in found.objects if part["name"].startswith(prefix))


def depth(found: Page, name: str) -> int:
    """Requests in the longest chain that ends with ``name``."""
    waits = {part["name"]: part.get("after", []) for part in found.objects}
    return 1 + max((depth(found, before) for before in waits[name]), default=0)


@pytest.mark.parametrize("found", PAGES.values(), ids=PAGES)
def test_a_page_is_whole(found: Page) -> None:
    names = [part["name"] for part in found.objects]
    assert len(set(names)) == len(names)
    for number, part in enumerate(found.objects):
        assert set(part) <= {"name", "size", "host", "after", "request", "response_header", "think"}
        assert set(part.get("after", [])) <= set(names[:number])  # hence no cycles
        assert Size.parse(part["size"]).bytes > 0
    assert not found.objects[0].get("after")
    assert set(found.hosts) <= {part.get("host", "origin") for part in found.objects}
    assert found.title
    assert found.source


@pytest.mark.parametrize(
    ("name", "requests", "kib", "hosts", "chain"),
    [
        ("almanac-2024", 71, 2652, 13, 5),
        ("almanac-2019", 74, 1934, 13, 5),
        ("almanac-2019-light", 24, 397, 5, 4),
    ],
)
def test_a_page_of_statistics_has_their_sums(
    name: str, requests: int, kib: int, hosts: int, chain: int
) -> None:
    found = page(name)
    assert len(found.objects) == requests
    assert weight(found) == kib * 1024
    assert len({part["host"] for part in found.objects}) == hosts
    assert max(depth(found, part["name"]) for part in found.objects) == chain


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("almanac-2024", {"style": 78, "script": 613, "font": 131, "image": 1054}),
        ("almanac-2019", {"style": 62, "script": 391, "image": 983}),
        ("almanac-2019-light", {"style": 8, "script": 76, "image": 78}),
    ],
)
def test_types_weigh_what_the_almanac_says(name: str, types: dict[str, int]) -> None:
    assert {kind: weight(page(name), kind) / 1024 for kind in types} == types


def test_the_targets_are_as_published() -> None:
    assert weight(page("target-a")) == 5_300_000
    assert len(page("target-a").objects) == 1
    small = page("target-b")
    assert weight(small) == 11_000
    assert len(small.objects) == 3
    assert [small.hosts.get(part.get("host", ""), {}).get("open", False) for part in small.objects] == [
        False,
        True,
        True,
    ]


def test_an_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(ScenarioError, match="target-a"):
        page("target-aa")
    with pytest.raises(ScenarioError, match="starlink"):
        proxies("starlonk")


def quantiles(side: str, key: str) -> list[float]:
    """The table of ``key`` of the slots of preset starlink, in ns or bit/s."""
    (segment,) = segments("starlink")
    parse = Rate.parse if key == "rate" else Duration.parse
    values = (parse(text) for text in segment[side]["reconfiguration"][key])
    return [float(one.bit_s if isinstance(one, Rate) else one.ns) for one in values]


def ranked(table: list[float], ranks: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Any:
    """Values at ``ranks`` of a table of quantiles."""
    return np.interp(ranks, np.linspace(0, 1, len(table)), table)


def test_starlink_s_slots_have_the_round_trips_and_rates_that_were_measured() -> None:
    """Orders of magnitude of public pings without inter-satellite links, and of a saturating sender."""
    random = np.random.default_rng(1)
    slot = random.random(200_000)
    trip = sum(ranked(quantiles(side, "delay"), slot) for side in ("up", "down"))
    trip += sum(ranked(quantiles(side, "delay_jitter"), random.random(200_000)) for side in ("up", "down"))
    assert np.percentile(trip, [5, 50, 95, 99]) / 1e6 == pytest.approx([23, 42, 86, 118], rel=0.06)
    one_way = ranked(quantiles("down", "delay"), slot) + ranked(
        quantiles("down", "delay_jitter"), random.random(200_000)
    )
    assert np.percentile(one_way, [50, 95, 99]) / 1e6 == pytest.approx([11, 13, 14], rel=0.06)
    rates = ranked(quantiles("down", "rate"), random.random(200_000)) / 1e6
    assert np.percentile(rates, [5, 50, 95]) == pytest.approx([36, 48, 68], rel=0.02)
    (segment,) = segments("starlink")
    for side in ("up", "down"):
        assert (segment[side]["aqm"], segment[side]["reconfiguration"]["phase"]) == ("drop-head", "12 s")


OWN = """
title = "mine"
[[path.segment]]
name = "dish"
delay = "10 ms"
both = { rate = "5 Mbit/s" }
"""


def test_a_preset_of_one_s_own_is_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    scenario = tmp_path / "it.toml"
    scenario.write_text(
        'duration = "1 s"\n[path]\npreset = "mine.toml"\n[[flow]]\nname = "a"\ncongestion = "cubic"\n'
    )
    (run,) = build_plan(load_scenario(scenario), "test").runs
    assert [link["name"] for link in run.spec["graph"]["links"]] == ["dish"]
    given = load_scenario(scenario, [("path.preset", "starlink")])
    assert [part["name"] for part in given.data["path"]["segment"]] == ["starlink"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mne.toml", OWN, r'path\.preset: no file "mne.toml" beside the scenario; did you mean "mine.toml"'),
        ("mine.toml", "title = ", r'path\.preset: "mine.toml" is not TOML: '),
        ("mine.toml", 'title = "x"', r'"mine.toml" is not a preset: found no \[\[path\.segment\]\]'),
        ("mine.toml", OWN.replace("[[path.segment]]", "[path]\nsegment = 1\n[x]"), r"found no \[\[path"),
        ("mine.toml", "proxy = 1\n" + OWN, r"proxy: expected \[\[proxy\]\]"),
        ("x\0.toml", OWN, r'"x\\x00\.toml" cannot be read: no file can have such a name'),
        ("mine", OWN, r'no preset "mine", expected one of: '),
    ],
)
def test_a_bad_preset_of_one_s_own_is_one_message(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    scenario = tmp_path / "it.toml"
    scenario.write_text('duration = "1 s"\n[path]\npreset = "mine.toml"\n')
    with pytest.raises(ScenarioError, match=message):
        load_scenario(scenario, [("path.preset", name)])


def test_a_preset_that_is_no_text_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b'title = "Satellit f\xfcr"')
    (tmp_path / "it.toml").write_text('duration = "1 s"\n[path]\npreset = "mine.toml"\n')
    with pytest.raises(ScenarioError, match=r'path\.preset: "mine\.toml" is not UTF-8: byte 0xfc in line 1'):
        load_scenario(tmp_path / "it.toml")
