"""Valid but probably wrong settings give one warning for each key; intended ones give none."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import bentpipe
import commands
from bentpipe.plan.analysis.lint import LintWarning, lint_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.runners import engine

PATH: dict[str, Any] = {
    "duration": "10 s",
    "path": {"segment": [{"name": "link", "delay": "10 ms", "both": {"rate": "8 Mbit/s"}}]},
    "flow": [{"name": "f", "congestion": "cubic"}],
}


def plan(*settings: tuple[str, object], seeds: int | None = None, repeats: bool = False) -> Plan:
    document = load_scenario(copy.deepcopy(PATH), settings)
    chosen = tuple(range(1, seeds + 1)) if seeds is not None else None
    return build_plan(document, "test", catalogue=engine.catalogue(), seeds=chosen, all_seeds=repeats)


def warnings_by_key(
    *settings: tuple[str, object], seeds: int | None = None, repeats: bool = False
) -> dict[str, str]:
    return {one.key: one.text for one in lint_plan(plan(*settings, seeds=seeds, repeats=repeats))}


def test_an_unused_orbit_gives_a_warning() -> None:
    orbit = ("orbit", {"constellation": "iridium", "from": "Paris", "to": "Lima"})

    def keys(*settings: tuple[str, object]) -> list[str]:
        document = load_scenario(copy.deepcopy(PATH), [orbit, *settings])
        return [one.key for one in lint_plan(build_plan(document, "test", orbits=engine.orbit))]

    assert keys() == ["orbit"]
    assert keys(("path.link.delay", {"orbit": "last-hop"})) == []
    assert keys(("path.link.up.delay", {"orbit": "before-last-hop"})) == []
    assert keys(("title", "orbit")) == ["orbit"]


@pytest.mark.parametrize(
    ("settings", "key", "text"),
    [
        (
            (("seeds", 8), ("flow.f.transport", "tcp")),
            "seeds",
            "found 8, but no part of the scenario is random",
        ),
        (
            (("duration", "100000 h"), ("flow.f.load", {"bytes": "1 kB"}), ("sample_interval", "1 h")),
            "duration",
            "found 100,000 h, which is longer than a day",
        ),
        ((("duration", "25 h"),), "duration", "found 25 h, which is longer than a day"),
        (
            (("flow.f.load", {"time": "20 s"}),),
            "flow.f.load",
            "found 20 s, but the run lasts 10 s",
        ),
        (
            (("flow.f.load", "T:*1:0:-:11s"), ("flow.f.start", "2 s")),
            "flow.f.load",
            "found 11 s, but the run lasts 10 s",
        ),
        (
            (("flow.f.load", {"on_off": {"on": "1 s", "off": "1 s", "time": "11 s"}}),),
            "flow.f.load",
            "found 11 s, but the run lasts 10 s",
        ),
        (
            (("flow.f.load", {"poisson": {"interval": "1 s", "size": "1 kB", "time": "1 h"}}),),
            "flow.f.load",
            "found 1 h, but the run lasts 10 s",
        ),
        (
            (("flow.f.load", {"bytes": "20 MB"}), ("flow.f.direction", "down")),
            "flow.f.load",
            "found 20 MB down, which take 20 s or longer at the rate of the path, but the run ends 10 s after its start",
        ),
        (
            (("path.link.delay", "5 s"), ("path.link.queue", "10 packets")),
            "flow.f",
            "a round trip takes 10 s, but the run ends 10 s after its start: no response arrives",
        ),
    ],
)
def test_probably_wrong_settings_give_a_warning(
    settings: tuple[tuple[str, object], ...], key: str, text: str
) -> None:
    found = warnings_by_key(*settings)
    assert list(found) == [key]
    assert found[key].startswith(text)


def test_intended_settings_give_no_warning() -> None:
    assert warnings_by_key() == {}
    assert warnings_by_key(("seeds", 8), ("path.link.up.loss", "1 %")) == {}
    assert warnings_by_key(seeds=1) == {}
    assert warnings_by_key(("seeds", 8), repeats=True) == {}, "real time is its own chance"
    assert warnings_by_key(("duration", "24 h")) == {}
    assert warnings_by_key(("flow.f.load", {"time": "10 s"})) == {}
    assert warnings_by_key(("flow.f.load", {"time": "10 s"}), ("flow.f.start", "2 s")) == {}, (
        "late, and cut off with the run"
    )
    assert warnings_by_key(("flow.f.load", {"bytes": "9 MB"})) == {}
    assert warnings_by_key(("flow.f.load", "D:*1:0:-:1000:9000000")) == {}


def test_chance_in_one_cell_is_chance() -> None:
    assert warnings_by_key(("sweep.path.link.up.loss", [0, "1 %"]), seeds=4) == {}
    assert list(warnings_by_key(("sweep.path.link.delay", ["1 ms", "2 ms"]), seeds=4)) == []
    tcp = ("flow.f.transport", "tcp")
    assert list(warnings_by_key(tcp, ("sweep.path.link.delay", ["1 ms", "2 ms"]), seeds=4)) == ["seeds"]


def test_a_sweep_says_each_key_once() -> None:
    found = lint_plan(plan(("sweep.duration", ["1 s", "2 s", "30 s"]), ("flow.f.load", {"time": "20 s"})))
    assert [(one.key, one.text) for one in found] == [("flow.f.load", "found 20 s, but the run lasts 1 s")]


def test_an_axis_without_an_effect_gives_a_warning() -> None:
    """`tcp.congestion` sets the controller of a flow over TCP; a flow over QUIC ignores it."""
    tcp: tuple[tuple[str, object], ...] = (("flow.f.transport", "tcp"), ("tcp.congestion", "reno"))
    senders, delays = (
        ("sweep.flow.f.congestion", ["reno", "bbr"]),
        ("sweep.path.link.delay", ["1 ms", "2 ms"]),
    )
    text = (
        "found 2 values, and all give the same run: another key overrides this one, or no component uses it"
    )
    for axes in ((senders,), (senders, delays), (delays, senders)):
        assert warnings_by_key(*tcp, *axes) == {"sweep.flow.f.congestion": text}
    assert warnings_by_key(*tcp[:1], senders, delays) == {}
    assert warnings_by_key(senders, delays) == {}
    assert warnings_by_key(("sweep.tcp.congestion", ["reno", "bbr"])) == {"sweep.tcp.congestion": text}
    tied = [{"label": "a", "tcp.sack": True}, {"label": "b", "tcp.sack": False}]
    assert warnings_by_key(("sweep.which", tied), delays) == {"sweep.which": text}
    assert warnings_by_key(("sweep.which", tied[:1]), delays) == {}, "one value is none to compare"


def test_commands_and_python_say_it(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'duration = "1 s"\n[[path.segment]]\nname = "link"\ndelay = "10 ms"\nboth = { rate = "1 Mbit/s" }\n'
        '[[flow]]\nname = "f"\ntransport = "tcp"\ncongestion = "cubic"\n'
    )
    for words in (["check", "--json"], ["run", "--out", "store"]):
        done = commands.bentpipe(tmp_path, words[0], "s.toml", "--seeds", "8", *words[1:])
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith("warning: s.toml: seeds: found 8, but no part of the scenario")
        if words[0] == "check":
            assert [one["key"] for one in json.loads(done.stdout)["warnings"]] == ["seeds"]
    with pytest.warns(LintWarning, match="seeds: found 8"):
        bentpipe.run(file, jobs=1, seeds=8, out=tmp_path / "eight")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bentpipe.run(file, jobs=1, out=tmp_path / "one")


@pytest.mark.parametrize(
    ("keys", "warned"),
    [
        ({"nr": {"block_error_rate": ["10 %"]}}, True),
        ({"nr": {"code_rate": "1/2"}}, False),
        (
            {
                "link_layer": {
                    "frame": "1000 B",
                    "feedback_delay": "20 ms",
                    "scheme": "selective-repeat",
                    "block_error_rate": ["10 %"],
                }
            },
            True,
        ),
        (
            {
                "link_layer": {
                    "frame": "1000 B",
                    "feedback_delay": "20 ms",
                    "scheme": "selective-repeat",
                    "code_rate": "1/2",
                }
            },
            False,
        ),
    ],
)
def test_a_channel_beside_block_error_rates_gives_a_warning(keys: dict[str, Any], warned: bool) -> None:
    """The error rates replace the channel; without them it determines the errors."""
    channel = ("path.link.down.channel", {"model": "white-noise", "snr": "3 dB"})
    settings = [(f"path.link.down.{key}", value) for key, value in keys.items()]
    found = warnings_by_key(channel, *settings)
    assert ("path.link.down.channel" in found) == warned
    if warned:
        (table,) = keys
        assert (
            f"path.link.down.{table}.block_error_rate determines the errors"
            in found["path.link.down.channel"]
        )


@pytest.mark.parametrize(
    ("name", "direction", "warned"),
    [
        ("download", None, True),
        ("download", "up", True),
        ("download", "down", False),
        ("my-Upload", "down", True),
        ("upload", None, False),
        ("f", "down", False),
    ],
)
def test_a_name_that_states_the_other_direction_gives_a_warning(
    name: str, direction: str | None, warned: bool
) -> None:
    """Without a direction the data goes up."""
    given = {"name": name, "congestion": "cubic", "load": {"time": "5 s"}}
    flow = given | ({"direction": direction} if direction else {})
    found = warnings_by_key(("flow", [flow]))
    assert (f"flow.{name}.direction" in found) == warned
    if warned:
        other = "down" if "down" in name else "up"
        assert found[f"flow.{name}.direction"].endswith(f'did you mean direction = "{other}"?')
