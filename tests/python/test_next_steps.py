"""Messages and lines that name the next step: of runs that fail alike, of queries, of ``check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import commands
from bentpipe.lab.command_timing import _server_hint

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
title = "one"
duration = "2 s"
seeds = 5
[path]
preset = "starlink"
[[flow]]
name = "main"
congestion = "cubic"
direction = "down"
"""

BROKEN = """
class Broken:
    def __init__(self, config):
        pass

    def on_event(self, now, event):
        raise KeyError("no")
"""


def test_runs_that_fail_alike_are_one_message(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO.replace("cubic", "cc.py:Broken"))
    (tmp_path / "cc.py").write_text(BROKEN)
    done = commands.process(tmp_path, "run", "s.toml", "--jobs", "1")
    assert done.returncode == 1
    assert done.stderr.count("KeyError") == 1
    assert " and 4 more runs: controller cc.py:Broken: KeyError: 'no'" in done.stderr
    assert done.stderr.count("again: bentpipe run") == 1


def test_a_query_names_the_table_of_a_metric(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    words = ["run", "s.toml", "--seeds", "1", "--jobs", "1", "--out", "store"]
    assert commands.bentpipe(tmp_path, *words).returncode == 0
    done = commands.bentpipe(tmp_path, "query", "store", "select goodput_bit_s from flow_summary")
    assert done.returncode == 2
    assert done.stderr.endswith('; the table "metrics" has it\n')


def test_check_states_what_a_scenario_leaves_open(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    done = commands.bentpipe(tmp_path, "check", "s.toml")
    assert "load of main: by default, data until the end of the run\n" in done.stdout
    rate = (
        "rate of starlink.down: random from 34 to 71 Mbit/s; the bounds have the largest rate and the least"
    )
    assert rate in done.stdout
    assert "runs: " not in done.stdout, "every cell has every seed"
    sweep = ["--set", "flow.main.transport=tcp", "--sweep", "path.preset=starlink,lte-4g"]
    done = commands.bentpipe(tmp_path, "check", "s.toml", *sweep)
    assert "2 cells, 6 runs" in done.stdout
    assert (
        "\nruns: 1 cell × 5 seeds + 1 cell × 1: without random inputs all seeds give the same run\n"
        in done.stdout
    )


def test_a_plural_of_the_preset_is_the_preset(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    done = commands.bentpipe(tmp_path, "check", "s.toml", "--sweep", "path.presets=starlink,lte-4g")
    assert done.returncode == 2
    assert 'path.presets: no segment "presets"; did you mean "path.preset"?' in done.stderr


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        (
            ": curl: (7) Failed to connect to localhost port 8001 after 0 ms",
            "; is a server listening on 8001?",
        ),
        (": wget: can't connect to 10.0.0.1:8001: Connection refused", "; is a server listening on 8001?"),
        (": Connection refused", "; is its server listening?"),
        (": curl: (22) The requested URL returned error: 404", ""),
        ("", ""),
    ],
)
def test_a_refused_connection_asks_for_its_server(message: str, hint: str) -> None:
    assert _server_hint(message) == hint
