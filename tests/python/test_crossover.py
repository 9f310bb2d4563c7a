"""The crossover map: its scenario, its ratios, and a small one end to end."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bentpipe.break_even import resolve_access
from bentpipe.break_even.access import access, numbers
from bentpipe.break_even.config import BreakEvenConfig, parse_config, scenario
from bentpipe.break_even.page import interactive_figure
from bentpipe.break_even.ratios import Cell, Map, break_even, read_map
from bentpipe.break_even.recommendation import gains, headline_text, own_rtt
from bentpipe.cli import app
from bentpipe.plan.access import split_rtt
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.errors import ScenarioError


def _ask(**words: object) -> BreakEvenConfig:
    usual: dict[str, object] = {
        "controllers": ("cubic",), "windows": ("10",), "tcp": "cubic", "proxy": "pooled",
        "sizes": ("10 kB", "1 MB"), "rtts": ("40 ms", "600 ms"), "seeds": 1,
    }  # fmt: skip
    return parse_config(access("satcom-2018"), **(usual | words))  # type: ignore[arg-type]


def test_the_round_trip_is_split_into_three() -> None:
    for rtt, whole in (("20 ms", 20), ("40 ms", 40), ("800 ms", 800)):
        lan, middle, internet = split_rtt(rtt)
        assert 2 * (lan + middle + internet) == whole * 1_000_000
        assert middle > 0
    assert split_rtt("800 ms") == (500_000, 384_500_000, 15_000_000)


def test_the_bottleneck_of_a_preset_is_its_access() -> None:
    found = access("satcom-2018")
    assert (found.down["rate"], found.up["rate"]) == ("25 Mbit/s", "5 Mbit/s")


def test_an_access_with_slots_is_drawn_but_for_its_delay() -> None:
    """The preset's rates and losses; round trips are the map's, and the answer is read in the middle of the slots'."""
    found = access("starlink")
    assert found.slotted
    assert found.down_rate.bit_s == 34_000_000
    assert str(found.rtt) == "38 ms", "10.5 + 0.5 down, 18 + 9 up"
    slots = found.down["reconfiguration"]
    assert {"rate", "loss", "loss_bursts"} < slots.keys()
    assert not [key for key in slots if key.startswith("delay")]
    question = parse_config(
        found, controllers=("cubic",), windows=("10",), tcp="cubic", proxy="plain", sizes=("1 MB",)
    )
    assert question.seeds == 3
    plan = build_plan(load_scenario(scenario(question)), "test")
    assert len(plan.runs) == 2 * 3 * len(question.rtts)
    kinds = {stage["kind"] for link in plan.runs[0].spec["graph"]["links"] for stage in link["down"]}
    assert "reconfiguration_delay" not in kinds
    assert not access("satcom-2018").slotted


def test_an_access_whose_rate_follows_a_file(tmp_path: Path) -> None:
    (tmp_path / "rate.csv").write_text("time_s,rate_Mbit_s\n0,5\n9,8\n")
    segment = '[[path.segment]]\nname = "sky"\nboth = { rate = { trace = "rate.csv" } }\n'
    (tmp_path / "s.toml").write_text(segment)
    with pytest.raises(ScenarioError, match="in both directions; expected another access, or its mean rates"):
        access(str(tmp_path / "s.toml"))
    constant = [("path.sky.rate", "5 Mbit/s")]
    assert access(str(tmp_path / "s.toml"), constant).down_rate.bit_s == 5_000_000


@pytest.mark.parametrize("proxy", ["plain", "pooled", "line-rate"])
def test_every_cell_is_planned(proxy: str) -> None:
    plan = build_plan(load_scenario(scenario(_ask(proxy=proxy, windows=("10", "32")))), "test")
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
        ({"rtts": ("40 ms", "40 ms")}, "duplicate value"),
    ],
)
def test_wrong_words_are_named(words: dict[str, object], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        _ask(**words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["break-even", "satcom-2018", "--windows", "0"], "--windows: found"),
        (["break-even", "satcom-2018", "--controllers", "cubik"], "--controllers: "),
        (["break-even", "satcom-2017"], "ACCESS: no preset"),
        (["break-even"], "ACCESS: missing"),
        (["break-even", "satcom-2018", "--down", "5 Mbit/s"], "--down: cannot be combined with satcom-2018"),
        (["break-even", "--down", "50Mbit/s", "--up", "6Mbit/s"], "--rtt: missing beside --down and --up"),
        (
            ["break-even", "--rtt", "620ms"],
            '--down: missing beside --rtt, expected it too, such as "50 Mbit/s"\n--up: missing',
        ),
        (
            ["break-even", "--down", "50", "--up", "6Mbit/s", "--rtt", "620ms"],
            '--down: found "50" without a unit',
        ),
        (
            ["break-even", "--down", "50Mbit/s", "--up", "6Mbit/s", "--rtt", "0ms"],
            '--rtt: found "0ms", expected a time above 0',
        ),
        (["study", "etosaat"], "NAME: "),
        (["study", "etosat", "--part", "quik"], "--part: "),
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


OWN = """
title = "A village"
[[path.segment]]
name = "home"
delay = "1 ms"
[[path.segment]]
name = "satellite"
down = { rate = "20 Mbit/s", delay = "280 ms", loss = "0.1 %" }
up = { rate = "3 Mbit/s", delay = "300 ms" }
"""


def test_an_access_of_ones_own(tmp_path: Path) -> None:
    """The bottleneck of a file, without its delay; the round trip is all its delays."""
    (tmp_path / "village.toml").write_text(OWN)
    found = access(str(tmp_path / "village.toml"), [("path.satellite.down.rate", "30 Mbit/s")])
    assert (found.name, found.title, str(found.rtt)) == ("village", "A village", "582 ms")
    assert (found.down, found.up) == ({"rate": "30 Mbit/s", "loss": "0.1 %"}, {"rate": "3 Mbit/s"})
    with pytest.raises(ScenarioError, match=r"no segment \"satelite\""):
        access(str(tmp_path / "village.toml"), [("path.satelite.delay", "3 ms")])
    (tmp_path / "graph.toml").write_text('[graph]\nnode = ["a", "b"]\n')
    with pytest.raises(ScenarioError, match=r"path: missing"):
        access(str(tmp_path / "graph.toml"))


def test_settings_of_a_map_are_the_accesss_or_its_own(tmp_path: Path) -> None:
    """What begins with path is of the access that is named; all else, and all beside an access as numbers, of the map."""
    (tmp_path / "village.toml").write_text(OWN)
    settings = ["path.satellite.down.rate=30 Mbit/s", "quic.ack_frequency=10"]
    found, rest = resolve_access(str(tmp_path / "village.toml"), None, None, None, settings)
    assert (found.down["rate"], rest) == ("30 Mbit/s", ("quic.ack_frequency=10",))
    found, rest = resolve_access(None, "50Mbit/s", "6Mbit/s", "620ms", settings)
    assert (found.down["rate"], rest) == ("50 Mbit/s", tuple(settings))


@pytest.mark.parametrize(
    ("setting", "said"),
    [("path.satelite.delay=3 ms", 'no segment "satelite"'), ("quic.ack_frequensy=10", "ack_frequensy")],
)
def test_a_wrong_setting_of_a_map_is_named(tmp_path: Path, setting: str, said: str) -> None:
    (tmp_path / "village.toml").write_text(OWN)
    words = ["break-even", str(tmp_path / "village.toml"), "--set", setting, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ScenarioError)
    assert said in str(done.exception)
    assert not (tmp_path / "out/map.html").exists()


def test_the_own_round_trip_is_on_the_axis() -> None:
    one = numbers("50Mbit/s", "6Mbit/s", "0.62 s")
    assert (one.name, one.down["rate"], one.up["rate"]) == ("50Mbit-6Mbit-620ms", "50 Mbit/s", "6 Mbit/s")
    question = parse_config(one, controllers=("cubic",), windows=("10",), tcp="cubic", proxy="plain")
    assert question.rtts == ("20 ms", "40 ms", "80 ms", "150 ms", "300 ms", "620 ms", "800 ms")
    assert parse_config(
        one, controllers=("cubic",), windows=("10",), tcp="cubic", proxy="plain", rtts=["1 s"]
    ).rtts == ("1 s",)


SIZES = ("1 kB", "10 kB", "100 kB", "1 MB", "10 MB")


def _map(*quics: tuple[float | None, ...]) -> Map:
    """A map with these ratios by size at 600 ms, one QUIC after the other, and others at 40 ms."""
    names = ("cubic", "bbr")[: len(quics)]
    question = parse_config(numbers("50 Mbit/s", "6 Mbit/s", "600 ms"), controllers=names, windows=("10",), tcp="cubic",
                   proxy="plain", sizes=SIZES, rtts=("40 ms", "600 ms"))  # fmt: skip
    cells = [
        Cell(name, "10 packets", size, rtt, 1.0, 1.0, ratio if rtt == "600 ms" else 9.0)
        for name, ratios in zip(names, quics, strict=True)
        for size, ratio in zip(SIZES, ratios, strict=True)
        for rtt in question.rtts
    ]
    return Map(question, tuple(cells), "test")


@pytest.mark.parametrize(
    ("quics", "said"),
    [
        # 0.5 at 10 kB and 2 at 100 kB: even at their geometric mean
        (((0.5, 0.5, 2.0, 3.14, 2.0),), "Keep the proxy for objects above 32 kB at 600 ms; the gain is at most 3.1 times"),
        (((0.5, 0.5, 2.0, 2.0, 0.5),), "for objects from 32 kB to 3.2 MB at 600 ms; the gain is at most 2.0 times"),
        (((1.5, 1.2, 0.5, 0.4, 0.4),), "for objects below 16 kB at 600 ms; the gain is at most 1.50 times"),
        (((1.1, 1.2, 1.3, 1.2, 1.1),), "for objects of every size at 600 ms; the gain is at most 1.30 times"),
        (((0.5, 0.9, 1.004, 0.9, 0.9),), "The proxy has no gain at 600 ms: QUIC with cubic"),
        (((0.5, None, 2.0, 0.5, 1.004),), "for objects from 10 kB to 316 kB at 600 ms"),
        (((None,) * 5,), "No page loads over both QUIC and split TCP at 600 ms"),
        (
            ((0.5, 0.5, 2.0, 3.0, 2.0), (0.5, 0.5, 0.5, 2.0, 1.5)),
            "window of 10 packets. The gain over QUIC with bbr and an initial window of 10 packets is at most 2",
        ),
        (((0.5, 2.0, 2.0, 3.0, 2.0), (0.5, 0.5, 0.5, 0.9, 0.9)), "It has no gain over QUIC with bbr and an initial window of 10 packets"),
    ],
)  # fmt: skip
def test_the_answer_is_a_sentence(quics: tuple[tuple[float | None, ...], ...], said: str) -> None:
    found = _map(*quics)
    assert own_rtt(found) == "600 ms"
    assert said in headline_text(found)


def test_the_answer_as_data() -> None:
    (row,) = [one.as_row() for one in gains(_map((0.5, 0.5, 2.0, 3.14, 2.0)))]
    assert row == {
        "controller": "cubic", "initial_window": "10 packets", "rtt_s": 0.6, "faster_from_to_bytes": [[31623, None]],
        "largest_ratio": 3.14, "largest_ratio_bytes": 1_000_000,
    }  # fmt: skip


def test_a_small_map(tmp_path: Path) -> None:
    """One command; the ratios have reasons that can be worked out by hand."""
    words = ["break-even", "satcom-2018", "--out", str(tmp_path), "--sizes", "1 kB,1 MB", "--rtts", "600 ms",
             "--controllers", "cubic", "--windows", "10", "--jobs", "1"]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("Keep the proxy for objects above ")
    assert "at 600 ms; the gain is at most 3." in done.output.splitlines()[0]
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
    # The page begins with the loads of the proxy's greatest gain, each from its connection to its last byte.
    question = _ask(proxy="line-rate", sizes=("1 kB", "1 MB"), rtts=("600 ms",))
    found = read_map(tmp_path / "store", question)
    picture = interactive_figure(found).write(tmp_path / "answering.svg").read_text(encoding="utf-8")
    assert "cubic, initial window 10 packets: 1 MB at 600 ms" in picture
    for cell, at_least in zip(found.cells, (0.0, least), strict=True):
        assert cell.loads is not None
        for load, whole in zip(cell.loads, (cell.quic_s, cell.tcp_s), strict=True):
            assert load.end == whole
            # A handshake and a request are a round trip each, and the gateway's own handshake 30 ms.
            assert load.sent == pytest.approx(0.6, abs=0.04)
            assert load.first_byte - load.sent == pytest.approx(0.6, abs=0.04)
            assert load.end - load.first_byte >= at_least
    for took in (large["quic_plt_s"], large["tcp_plt_s"]):
        assert f">{took:.2f} s<" in picture
