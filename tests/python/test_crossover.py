"""The crossover map: its scenario, its ratios, and a small one end to end."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bentpipe.cli import app
from bentpipe.crossover.question import Question, access, ask, scenario, split_rtt
from bentpipe.crossover.ratios import Cell, break_even
from bentpipe.plan.document import open_document
from bentpipe.plan.runs import make
from bentpipe.scenario.problems import ScenarioError


def _ask(**words: object) -> Question:
    usual: dict[str, object] = {
        "controllers": ("cubic",), "windows": ("10",), "tcp": "cubic", "proxy": "pooled",
        "sizes": ("10 kB", "1 MB"), "rtts": ("40 ms", "600 ms"), "seeds": 1,
    }  # fmt: skip
    return ask("satcom-2018", **(usual | words))  # type: ignore[arg-type]


def test_the_round_trip_is_split_into_three() -> None:
    for rtt, whole in (("20 ms", 20), ("40 ms", 40), ("800 ms", 800)):
        lan, middle, internet = split_rtt(rtt)
        assert 2 * (lan + middle + internet) == whole * 1_000_000
        assert middle > 0
    assert split_rtt("800 ms") == (500_000, 384_500_000, 15_000_000)


def test_the_bottleneck_of_a_preset_is_its_access() -> None:
    found = access("satcom-2018")
    assert (found.down["rate"], found.up["rate"]) == ("25 Mbit/s", "5 Mbit/s")


@pytest.mark.parametrize("proxy", ["plain", "pooled", "rate-knowing"])
def test_every_cell_is_planned(proxy: str) -> None:
    plan = make(open_document(scenario(_ask(proxy=proxy, windows=("10", "32")))), "test")
    assert len(plan.runs) == (1 + 2) * 2 * 2
    assert all(len(run.spec["proxies"]) == 2 for run in plan.runs)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"proxy": "pool"}, "pooled"),
        ({"windows": ("ten",)}, "^windows: "),
        ({"windows": ("0",)}, "^windows: "),
        ({"sizes": ("10",)}, "^sizes: "),
        ({"rtts": ("40",)}, "^rtts: "),
        ({"controllers": ()}, "^controllers: "),
        ({"rtts": ("40 ms", "40 ms")}, "twice"),
    ],
)
def test_wrong_words_are_named(words: dict[str, object], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        _ask(**words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["map", "satcom-2018", "--windows", "0"], "--windows: found"),
        (["map", "satcom-2018", "--controllers", "cubik"], "--controllers: "),
        (["map", "satcom-2017"], "ACCESS: "),
        (["study", "etosaat"], "NAME: "),
        (["study", "etosat", "--only", "quik"], "--only: "),
        (["study", "etosat", "--engine", "emu"], "--engine: found"),
    ],
)
def test_the_command_says_its_option(words: list[str], said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path)])
    assert isinstance(done.exception, ScenarioError)
    assert str(done.exception).startswith(said)


def test_break_even_is_where_the_logarithms_cross() -> None:
    cells = [
        Cell("cubic", "10 packets", size, "600 ms", 1.0, 1.0, ratio)
        for size, ratio in (("1 kB", 0.5), ("100 kB", 2.0), ("10 MB", 2.0), ("100 MB", 0.5))
    ]
    first, second = break_even(cells, "600 ms")
    assert first == pytest.approx(10e3)
    assert second == pytest.approx(math.sqrt(10e6 * 100e6))
    assert break_even(cells, "40 ms") == []


def test_a_small_map(tmp_path: Path) -> None:
    """One command; the ratios have reasons that can be worked out by hand."""
    words = ["map", "satcom-2018", "--out", str(tmp_path), "--sizes", "1 kB,1 MB", "--rtts", "600 ms",
             "--controllers", "cubic", "--windows", "10", "--jobs", "1"]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "600 ms" in done.output
    for name in ("map.html", "map.svg", "map.pdf", "map.json"):
        assert (tmp_path / name).stat().st_size > 0
    small, large = json.loads((tmp_path / "map.json").read_text())["cells"]
    # 1 kB: two round trips for QUIC; the gateway's handshake with the server is TCP's alone.
    assert small["quic_plt_s"] == pytest.approx(1.2, abs=0.02)
    assert small["tcp_plt_s"] - small["quic_plt_s"] == pytest.approx(0.03, abs=0.01)
    # 1 MB: no faster than the link; QUIC doubles from ten packets, which takes six round trips more.
    least = 1e6 * 8 / 25e6
    assert large["tcp_plt_s"] > 1.2 + least
    assert large["tcp_plt_s"] < 1.2 + least + 0.2
    assert large["quic_plt_s"] == pytest.approx(1.2 + 6 * 0.6, abs=0.6)
