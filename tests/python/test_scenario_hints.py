"""Messages about mistakes that new users make: each names the key, the expected value and the nearest right word."""

from __future__ import annotations

from pathlib import Path

import pytest

from bentpipe import ScenarioError, check
from bentpipe.scenario.expected_value import describe_expected, describe_table
from bentpipe.scenario.link.direction import Jitter, NormalJitter
from bentpipe.scenario.model import Scenario

SCENARIO = """
duration = "20 s"
[[path.segment]]
name = "satellite"
delay = "250 ms"
down = { rate = "10 Mbit/s", queue = "1 BDP" }
up = { rate = "2 Mbit/s", queue = "1 BDP" }
[[flow]]
name = "a"
transport = "quic"
congestion = "cubic"
load = { bytes = "1 MB" }
"""


def _message(tmp_path: Path, old: str, new: str) -> str:
    assert old in SCENARIO
    file = tmp_path / "x.toml"
    file.write_text(SCENARIO.replace(old, new, 1))
    with pytest.raises(ScenarioError) as error:
        check(file)
    return str(error.value)


LOAD, DELAY, UP = (
    'load = { bytes = "1 MB" }',
    'delay = "250 ms"',
    'up = { rate = "2 Mbit/s", queue = "1 BDP" }',
)


@pytest.mark.parametrize(
    ("old", "new", "key", "hint"),
    [
        (LOAD, 'load = "1 MB"', "flow.a.load", 'did you mean { bytes = "1 MB" }?'),
        (LOAD, 'load = "30 s"', "flow.a.load", 'did you mean { time = "30 s" }?'),
        (LOAD, "load = 5", "flow.a.load", 'found 5, expected a table such as { bytes = "5.3 MB" }'),
        (LOAD, 'load = "D:*1:0:-:10 MB:0"', "flow.a.load", 'did you mean "10000000"?'),
        (LOAD, 'load = "T:*1:0:-:60 s"', "flow.a.load", 'did you mean "60s"?'),
        (LOAD, 'load = { bytes = "3kb" }', "flow.a.load.bytes", 'did you mean "3 kB" or "375 B"?'),
        (LOAD, 'load = { size = "3 kB" }', "flow.a.load.size", 'did you mean "bytes"?'),
        (LOAD, 'load = { poisson = "1 s" }', "flow.a.load.poisson", "a table with interval and size"),
        ('duration = "20 s"', "duration = 5", "duration", 'did you mean "5 ms" or "5 s"?'),
        ('duration = "20 s"', "", "duration", 'missing, expected a duration above 0 such as "10 s"'),
        (
            DELAY,
            'rtt = "500 ms"',
            "path.satellite.rtt",
            'did you mean "delay", with half of the round-trip time?',
        ),
        (DELAY, 'latency = "500 ms"', "path.satellite.latency", 'did you mean "delay"?'),
        (
            DELAY,
            'bandwidth = "5 Mbit/s"',
            "path.satellite.bandwidth",
            'did you mean "both = { rate = ... }"?',
        ),
        (
            UP,
            UP[:-1] + ', jitter = "5 ms" }',
            "path.satellite.up.jitter",
            f"a table such as {Jitter.example}",
        ),
        (
            UP,
            UP[:-1] + ', reorder = "1 %" }',
            "path.satellite.up.reorder",
            "a table with probability and delay",
        ),
        (UP, UP.replace("1 BDP", "codel"), "path.satellite.up.queue", 'a discipline is the key "aqm"'),
        ("congestion", "cc", "flow.a.cc", 'did you mean "congestion"?'),
        ('name = "a"', "", "flow[1].name", "missing, expected a name"),
    ],
)
def test_message_names_key_and_expected_value(
    tmp_path: Path, old: str, new: str, key: str, hint: str
) -> None:
    message = _message(tmp_path, old, new)
    assert message.startswith(f"{tmp_path / 'x.toml'}: {key}: ")
    assert hint in message


def test_preset_suggestions_have_the_word(tmp_path: Path) -> None:
    segment = SCENARIO[SCENARIO.index("[[path.segment]]") : SCENARIO.index("[[flow]]")]
    message = _message(tmp_path, segment, '[path]\npreset = "geo"\n')
    assert message.endswith('did you mean "geo-hughesnet", "geo-konnect" or "geo-viasat"?')
    message = _message(tmp_path, segment, '[path]\npreset = "starlnk"\n')
    assert message.endswith('did you mean "starlink"?')


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "cc.py",
            "import os\nclass Mine:\n    pass\n",
            'is Python, expected a scenario in TOML; a flow of it names a controller as congestion = "',
        ),
        ("x.html", "<!DOCTYPE html>", "is HTML or XML, expected a scenario in TOML"),
        ("x.json", '{"log": {}}', "is JSON, expected a scenario in TOML"),
        ("x.har", '{"log": {}}', "`bentpipe import-har"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, name: str, text: str, expected: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ScenarioError, match=expected):
        check(tmp_path / name)


def test_expected_values_come_from_the_types() -> None:
    assert describe_table(Jitter) == f"a table such as {Jitter.example}"
    assert describe_table(NormalJitter) == "a table with mean and deviation"
    jitter = ["path", "segment", 0, "up", "jitter", "normal", "mean"]
    assert describe_expected(Scenario, jitter) == 'a duration such as "250 ms"'
    assert describe_expected(Scenario, ["path", "no such key"]) is None
    # every example of a message is itself valid
    assert Jitter.model_validate({"uniform": "5 ms", "reorder": False}).uniform is not None
