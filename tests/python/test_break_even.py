"""The break-even map: its scenario, its ratios, its recommendation, and small ones end to end."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bentpipe.break_even import resolve_access
from bentpipe.break_even.access import access, numbers, with_loss
from bentpipe.break_even.config import BreakEvenConfig, duration_ns, parse_config, scenario
from bentpipe.break_even.execution import compute, plan_map
from bentpipe.break_even.gains import gains
from bentpipe.break_even.page import interactive_figure
from bentpipe.break_even.ratios import Cell, Load, LoadTimes, Map, break_even_size, build_map, read_map
from bentpipe.break_even.recommendation import headline_text, judgements, kinds_text, supporting_text
from bentpipe.break_even.summary import load_time_rows, size_rows
from bentpipe.cli import app
from bentpipe.metrics.intervals import ConfidenceInterval, mean_ci
from bentpipe.plan.access import split_rtt
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.scenario.errors import ScenarioError


def _ask(**words: object) -> BreakEvenConfig:
    usual: dict[str, object] = {
        "controllers": ("cubic",), "windows": ("10",), "tcp": "cubic", "pep": ("pooled",),
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
    question = parse_config(found, sizes=("1 MB",))
    assert question.proxies == ("plain", "pooled"), "no proxy knows a random rate"
    plan = planned(question)
    assert len(plan.runs) == 4 * 5 * len(question.rtts)
    kinds = {stage["kind"] for link in plan.runs[0].spec["graph"]["links"] for stage in link["down"]}
    assert "reconfiguration_delay" not in kinds
    assert not access("satcom-2018").slotted


def test_an_access_with_a_rate_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "rate.csv").write_text("time_s,rate_Mbit_s\n0,5\n9,8\n")
    segment = '[[path.segment]]\nname = "sky"\nboth = { rate = { trace = "rate.csv" } }\n'
    (tmp_path / "s.toml").write_text(segment)
    with pytest.raises(ScenarioError, match="in both directions; expected another access, or its mean rates"):
        access(str(tmp_path / "s.toml"))
    constant = [("path.sky.rate", "5 Mbit/s")]
    assert access(str(tmp_path / "s.toml"), constant).down_rate.bit_s == 5_000_000


@pytest.mark.parametrize("kind", ["plain", "pooled", "line-rate"])
def test_every_cell_is_planned(kind: str) -> None:
    """QUIC with two windows, TCP, and split TCP: two sizes and two round-trip times; only split TCP has proxies."""
    plan = build_plan(load_scenario(scenario(_ask(pep=(kind,), windows=("10", "32")))), "test")
    assert len(plan.runs) == (2 + 1 + 1) * 2 * 2
    proxies = {run.cell["variant"]: run.spec.get("proxies", ()) for run in plan.runs}
    assert {name: len(found) for name, found in proxies.items()} == {
        "QUIC (10)": 0, "QUIC (32)": 0, "TCP": 0, f"{kind} PEP": 2,
    }  # fmt: skip
    controllers = [
        proxy[side]["congestion"]
        for proxy in proxies[f"{kind} PEP"]
        for side in ("client_side", "server_side")
    ]
    assert controllers.count("fixed") == (2 if kind == "line-rate" else 0), (
        "both ends of the satellite segment"
    )


def test_the_own_row_is_computed_first() -> None:
    config = parse_config(numbers("50 Mbit/s", "6 Mbit/s", "620 ms"), sizes=("1 MB", "1 kB"))
    assert config.rtts == ("620 ms", "20 ms", "40 ms", "80 ms", "150 ms", "300 ms", "800 ms")
    runs = build_plan(load_scenario(scenario(config)), "test").runs
    own = [run.cell["rtt"] == "620 ms" for run in runs]
    assert own == sorted(own, reverse=True)
    assert sum(own) == 4 * 2


@pytest.mark.parametrize(
    ("loss", "words", "seeds"),
    [(None, {}, 1), ("1 %", {}, 5), (None, {"controllers": ("bbr",)}, 1), ("1 %", {"seeds": 2}, 2)],
)
def test_seeds_are_those_of_a_verdict_if_packets_are_lost(
    loss: str | None, words: dict[str, object], seeds: int
) -> None:
    config = parse_config(
        with_loss(numbers("5 Mbit/s", "5 Mbit/s", "100 ms"), loss), sizes=("1 kB",), rtts=("100 ms",), **words
    )  # type: ignore[arg-type]
    plan = planned(config)
    assert {run.seed for run in plan.runs} == set(range(1, seeds + 1))
    quic = {run.cell["flow.web.congestion"] for run in plan.runs}
    assert quic == ({"cubic", "bbr"} if loss else {*config.controllers})


def planned(config: BreakEvenConfig) -> Plan:
    """Plan a map as the command does."""
    return plan_map(config, ())


def test_a_loss_is_that_of_both_directions() -> None:
    lossy = with_loss(access("satcom-2018"), "1%")
    assert (lossy.down["loss"], lossy.up["loss"]) == ("1 %", "1 %")
    assert (lossy.name, lossy.lossy) == ("satcom-2018-loss-1", True)
    assert with_loss(access("satcom-2018"), None) == access("satcom-2018")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"pep": ("pool",)}, "pooled"),
        ({"pep": ()}, "^pep: found nothing"),
        ({"windows": ("ten",)}, "^windows: "),
        ({"windows": ("0",)}, "^windows: "),
        ({"sizes": ("10",)}, "^sizes: "),
        ({"rtts": ("40",)}, "^rtts: "),
        ({"rtts": ("0 ms",)}, '^rtts: found "0 ms", expected a value above 0 such as "600 ms"'),
        ({"controllers": ()}, "^controllers: "),
        ({"rtts": ("40 ms", "40 ms")}, "duplicate value"),
    ],
)
def test_wrong_words_are_named(words: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        _ask(**words)


NUMBERS = ("break-even", "--down", "50Mbit/s", "--up", "6Mbit/s", "--rtt", "620ms")


@pytest.mark.parametrize(
    ("words", "message"),
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
        (
            [*NUMBERS, "--loss", "2"],
            '--loss: found "2" without a unit, expected a percentage from 0 % to 100 %',
        ),
        (
            [*NUMBERS, "--loss", "1"],
            '--loss: found "1" without a unit, expected a percentage from 0 % to 100 %',
        ),
        ([*NUMBERS, "--loss", "abc"], '--loss: found "abc", expected a percentage from 0 % to 100 %'),
        ([*NUMBERS, "--loss", "101%"], '--loss: found "101%", expected a percentage from 0 % to 100 %'),
        ([*NUMBERS, "--loss", "100%"], '--loss: found "100%", which loses every packet; expected less'),
        (
            [*NUMBERS, "--pep", "line"],
            '--pep: no kind of PEP "line", expected one of: plain, pooled, ',
        ),
        (["study", "etosaat"], "NAME: "),
        (["study", "etosat", "--part", "quik"], "--part: "),
        (["study", "etosat", "--engine", "emu"], "--engine: found"),
    ],
)
def test_the_command_says_its_option(words: list[str], message: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path)])
    assert isinstance(done.exception, ScenarioError)
    assert str(done.exception).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_break_even_is_where_the_logarithms_cross() -> None:
    cells = [
        Cell("QUIC", "plain", size, "600 ms", ConfidenceInterval(ratio, None, None, 1))
        for size, ratio in (("1 kB", 0.5), ("100 kB", 2.0), ("10 MB", 2.0), ("100 MB", 0.5))
    ]
    sizes = [break_even_size(one, other) for one, other in itertools.pairwise(cells)]
    assert sizes == [pytest.approx(10e3), None, pytest.approx(math.sqrt(10e6 * 100e6))]
    assert break_even_size(cells[0], Cell("QUIC", "plain", "10 kB", "600 ms", None)) is None


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
    """Keys below path belong to the named access.

    All others, and all beside an access given as numbers, belong to the map.
    """
    (tmp_path / "village.toml").write_text(OWN)
    settings = ["path.satellite.down.rate=30 Mbit/s", "quic.ack_frequency=10"]
    found, rest = resolve_access(str(tmp_path / "village.toml"), None, None, None, settings)
    assert (found.down["rate"], rest) == ("30 Mbit/s", ("quic.ack_frequency=10",))
    found, rest = resolve_access(None, "50Mbit/s", "6Mbit/s", "620ms", settings)
    assert (found.down["rate"], rest) == ("50 Mbit/s", tuple(settings))


@pytest.mark.parametrize(
    ("setting", "message"),
    [("path.satelite.delay=3 ms", 'no segment "satelite"'), ("quic.ack_frequensy=10", "ack_frequensy")],
)
def test_a_wrong_setting_of_a_map_is_named(tmp_path: Path, setting: str, message: str) -> None:
    (tmp_path / "village.toml").write_text(OWN)
    words = ["break-even", str(tmp_path / "village.toml"), "--set", setting, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ScenarioError)
    assert message in str(done.exception)
    assert not (tmp_path / "out/map.html").exists()


def test_the_own_round_trip_is_on_the_axis() -> None:
    one = numbers("50Mbit/s", "6Mbit/s", "0.62 s")
    assert (one.name, one.down["rate"], one.up["rate"]) == ("50Mbit-6Mbit-620ms", "50 Mbit/s", "6 Mbit/s")
    assert "620 ms" in parse_config(one).rtts
    assert "550 ms" not in parse_config(one).rtts
    assert parse_config(one, rtts=["1 s"]).rtts == ("1 s",)


SIZES = ("1 kB", "10 kB", "100 kB", "1 MB", "10 MB")


def _finished(seconds: float) -> LoadTimes:
    return LoadTimes({1: seconds}, 1e3, int(seconds >= 1e3))


def _map(
    tcp: tuple[float, ...], *quics: tuple[float, ...], line_rate: tuple[float, ...] = (), scale: float = 1.0
) -> Map:
    """A map whose ratios at 600 ms are these by size: of TCP and each QUIC to a plain PEP, which takes a second.

    With ``line_rate`` another PEP takes that share of the time of the plain one. Times are in units of ``scale``, and a
    run ends after 1,000 s.
    """
    names = ("cubic", "bbr")[: len(quics)]
    config = parse_config(
        numbers("50 Mbit/s", "6 Mbit/s", "600 ms"), controllers=names, sizes=SIZES, rtts=("40 ms", "600 ms"),
        pep=("plain", "line-rate") if line_rate else ("plain",),
    )  # fmt: skip
    columns = dict(zip([one.name for one in config.alternatives], [*quics, tcp], strict=True))
    columns |= {"plain PEP": (1.0,) * len(SIZES), "line-rate PEP": line_rate}
    times = {
        (one.name, size, rtt): _finished(columns[one.name][place] * scale if rtt == "600 ms" else 9.0)
        for one in config.variants
        for place, size in enumerate(SIZES)
        for rtt in config.rtts
    }
    return build_map(config, times, "test")


@pytest.mark.parametrize(
    ("found", "texts"),
    [
        # 0.5 at 10 kB and 2 at 100 kB: the ratio is 1 at 10 kB * 10^(1 / 2).
        (_map((0.5, 0.5, 2.0, 3.0, 2.0), (0.5, 0.5, 2.0, 3.14, 2.0)),
         ("At 600 ms, keep a plain PEP. Plain PEP: keep it. For objects from 32 kB to 10 MB, QUIC takes up to 3.1 times",
          "3.1 times as long and TCP up to 3.0 times without it.",
          "It takes up to 2.0 times as long as QUIC for objects below 32 kB. The difference is largest at 1 kB.")),
        (_map((2.0,) * 5, (0.5, 0.5, 2.0, 2.0, 0.5)), ("For objects from 32 kB to 3.2 MB, QUIC takes",)),
        (_map((2.0,) * 5, (1.5, 1.2, 0.5, 0.4, 0.4)), ("For objects below 16 kB, QUIC takes up to 50 % longer",)),
        (_map((2.0,) * 5, (1.2, 1.2, 1.3, 1.2, 1.2)),
         ("For objects below 10 MB, QUIC takes up to 30 % longer and TCP up to 2.0 times as long without it.",)),
        (_map((0.95, 0.95, 1.004, 0.95, 0.95), (0.95, 0.95, 1.004, 0.95, 0.95)),
         ("At 600 ms, drop a plain PEP. Plain PEP: drop it. It has no gain over QUIC and TCP.",)),
        (_map((1.0, 1.03, 1.0, 1.0, 1.0), (0.68,) * 5),
         ("drop it. Without it, TCP takes at most 3 % longer. It has no gain over QUIC. It takes",
          "It takes up to 47 % longer than QUIC for objects below 10 MB.",)),
        (_map((2.0, 2.0, 2.0, 3.0, 2.0), (0.5, 2.0, 2.0, 3.0, 2.0), (0.5,) * 5),
         ("At 600 ms, keep a plain PEP for TCP only. ", "It has no gain over QUIC (bbr).",
          "It takes up to 2.0 times as long as QUIC (bbr) for objects below 10 MB.")),
        (_map((1.0, 1.0, 1.0, 1.03, 1.0), (0.6, 0.7, 1.0, 1.02, 1.0), line_rate=(1.0, 0.5, 0.25, 0.25, 0.5)),
         ("At 600 ms, keep a PEP that knows the link rate and drop a plain PEP. Line-rate PEP: keep it. ",
          "QUIC takes up to 4.1 times as long and TCP up to 4.1 times without it.",
          "Plain PEP: drop it. Without it, QUIC takes at most 2 % and TCP at most 3 % longer.",
          "Ask the vendor. A line-rate PEP sends at the configured rate from the first byte. A plain PEP starts each")),
    ],
)  # fmt: skip
def test_the_answer_is_a_sentence_and_one_paragraph_for_each_kind(found: Map, texts: tuple[str, ...]) -> None:
    paragraphs = kinds_text(found)
    reported = " ".join([headline_text(found), *paragraphs])
    assert [text for text in texts if text not in reported] == [], reported
    assert len(paragraphs) == len(found.config.proxies) + (len(found.config.proxies) > 1)
    assert max(len(sentence.split()) for sentence in reported.split(". ")) <= 25


def test_an_unfinished_load_bounds_the_gain() -> None:
    """The duration of a run is a bound of the load time: the text says so, and names the object."""
    found = _map((2.0,) * 5, (2.0, 2.0, 3.0, 1000.0, 1000.0))
    text = kinds_text(found)[0]
    assert "QUIC takes up to at least 1000 times as long and TCP up to 2.0 times without it" in text
    assert "QUIC does not finish 1 MB in 1000 s; the PEP needs 1 s." in text
    quic = next(one for one in gains(found) if one.alternative == "QUIC").as_row()
    assert (quic["largest_ratio"], quic["largest_ratio_bound"]) == (pytest.approx(1000.0), "≥")
    assert quic["unfinished_bytes"] == 1_000_000
    # The PEP itself may be the one that does not finish.
    slow = _map((1.0,) * 5, (1e-3, 1e-3, 1e-3, 1.0, 1.0), scale=1000.0)
    assert judgements(slow)[0].verdict == "drop"
    text = kinds_text(slow)[0]
    assert "It takes up to at least 1000 times as long as QUIC for objects below 100 kB." in text
    assert "It does not finish 1 kB in 1000 s; QUIC needs 1 s." in text


def test_long_objects_have_one_statement() -> None:
    """A gain of 3 % over part of the sizes is no reason to call the PEP faster there."""
    config = parse_config(
        numbers("50 Mbit/s", "6 Mbit/s", "600 ms"),
        sizes=("100 MB", "300 MB"),
        rtts=("600 ms",),
        pep=("plain",),
    )
    times = {
        (name, size, "600 ms"): LoadTimes({1: seconds}, 1e3)
        for name, pair in (("QUIC", (1.03, 0.98)), ("TCP", (1.3, 1.3)), ("plain PEP", (1.0, 1.0)))
        for size, seconds in zip(config.sizes, pair, strict=True)
    }
    found = build_map(config, times, "test")
    assert headline_text(found) == "At 600 ms, keep a plain PEP for TCP only."
    (text,) = kinds_text(found)
    assert text == (
        "Plain PEP: keep it for TCP. For objects above 100 MB, TCP takes up to 30 % longer without it. "
        "Without it, QUIC takes at most 3 % longer."
    )


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ({}, ("QUIC",)),
        ({"controllers": ("bbr3",)}, ("QUIC (bbr3)",)),
        ({"windows": ("32",)}, ("QUIC (32)",)),
        ({"controllers": ("cubic", "bbr"), "windows": ("10", "32")}, ("QUIC (cubic, 10)", "QUIC (cubic, 32)", "QUIC (bbr, 10)", "QUIC (bbr, 32)")),
    ],
)  # fmt: skip
def test_quic_is_named_by_what_is_not_the_default(words: dict[str, object], names: tuple[str, ...]) -> None:
    assert tuple(one.name for one in _ask(**words).alternatives) == (*names, "TCP")


def test_the_answer_names_what_it_assumes_of_the_proxy() -> None:
    reported = supporting_text(_map((2.0,) * 5, (2.0,) * 5, line_rate=(0.5,) * 5))
    assert "starts with cubic and an initial window of 10 packets." in reported
    assert "sends at the link rate (50 Mbit/s down) from the first byte" in reported


def test_a_map_without_finished_loads_says_so() -> None:
    config = parse_config(numbers("50 Mbit/s", "6 Mbit/s", "600 ms"), sizes=SIZES)
    assert headline_text(build_map(config, {}, "test")).startswith("No page loads over split TCP and over a")


def test_the_answer_as_data() -> None:
    quic, tcp = [one.as_row() for one in gains(_map((2.0,) * 5, (0.5, 0.5, 2.0, 3.14, 2.0)))]
    assert quic == {
        "variant": "QUIC", "proxy": "plain", "rtt_s": 0.6, "faster_from_to_bytes": [[31623, None]],
        "largest_ratio": pytest.approx(3.14), "largest_ratio_bound": "", "largest_ratio_low": None, "largest_ratio_high": None,
        "largest_ratio_bytes": 1_000_000, "slower_from_to_bytes": [[None, 31623]], "smallest_ratio": pytest.approx(0.5),
        "smallest_ratio_bound": "", "smallest_ratio_low": None, "smallest_ratio_high": None, "smallest_ratio_bytes": 1_000,
        "unfinished_bytes": None, "split_unfinished_bytes": None,
    }  # fmt: skip
    assert (tcp["variant"], tcp["faster_from_to_bytes"]) == ("TCP", [[None, None]])


def test_tables_begin_with_the_own_row() -> None:
    found = _map((2.0,) * 5, (0.5, 0.5, 2.0, 2.0, 0.5))
    rows = size_rows(found)
    assert [row["RTT"] for row in rows] == ["600 ms (yours)"] * 2 + ["40 ms"] * 2
    assert rows[0] == {"RTT": "600 ms (yours)", "faster than": "QUIC", "plain PEP": "32 kB–3.2 MB"}
    assert [row["plain PEP"] for row in rows[1:]] == ["every size", "none", "none"]
    assert load_time_rows(found)[2] == {"object": "100 kB", "QUIC": "2", "TCP": "2", "plain PEP": "1"}


def test_ratios_of_several_seeds_have_intervals() -> None:
    """The geometric mean of paired ratios with Student's interval of their logarithms, worked out by hand."""
    config = parse_config(
        numbers("50 Mbit/s", "6 Mbit/s", "600 ms"), sizes=("1 MB",), rtts=("600 ms",), pep=("plain",)
    )
    quic = {seed: 2.0 + seed / 10 for seed in range(1, 6)}
    split = {seed: 1.0 + seed / 100 for seed in range(1, 6)}
    times = {
        ("QUIC", "1 MB", "600 ms"): LoadTimes(quic, 50.0),
        ("plain PEP", "1 MB", "600 ms"): LoadTimes(split, 50.0),
    }
    cell = build_map(config, times, "test", {"QUIC", "plain PEP"}).cells[0]
    logs = mean_ci([math.log(quic[seed] / split[seed]) for seed in quic])
    assert cell.ratio is not None
    assert (cell.ratio.n, cell.verdict) == (5, "PEP faster")
    for ours, theirs in (
        (cell.ratio.estimate, logs.estimate),
        (cell.ratio.low, logs.low),
        (cell.ratio.high, logs.high),
    ):
        assert ours == pytest.approx(math.exp(theirs or 0.0))
    # The one run of a variant that draws nothing stands for every seed.
    times["plain PEP", "1 MB", "600 ms"] = LoadTimes({1: 1.0}, 50.0)
    alone = build_map(config, times, "test", {"QUIC"}).cells[0]
    assert alone.ratio is not None
    assert alone.ratio.n == 5


@pytest.mark.parametrize(
    ("quic", "split", "bound", "ratio"),
    [(50.0, 2.0, "≥", 25.0), (2.0, 50.0, "≤", 0.04), (50.0, 50.0, "", None), (4.0, 2.0, "", 2.0)],
)
def test_a_load_that_does_not_finish_bounds_its_ratio(
    quic: float, split: float, bound: str, ratio: float | None
) -> None:
    config = parse_config(
        numbers("50 Mbit/s", "6 Mbit/s", "600 ms"), sizes=("1 MB",), rtts=("600 ms",), pep=("plain",)
    )
    assert duration_ns("1 MB", config) > 0
    times = {
        (name, "1 MB", "600 ms"): LoadTimes({1: value}, 50.0, int(value == 50.0))
        for name, value in (("QUIC", quic), ("plain PEP", split))
    }
    found = build_map(config, times, "test")
    assert (found.cells[0].bound, found.cells[0].estimate) == (bound, pytest.approx(ratio))
    assert load_time_rows(found)[0]["QUIC"] == ("> 50" if quic == 50.0 else str(int(quic)))


def test_the_waterfall_has_the_load_nearest_to_the_median() -> None:
    loads = {seed: Load(0.1, 0.2, end) for seed, end in ((1, 9.0), (2, 2.0), (4, 3.0))}
    times = LoadTimes({1: 9.0, 2: 2.0, 3: 50.0, 4: 3.0, 5: 2.5}, 50.0, 1, loads)
    assert times.typical == (4, loads[4])
    assert LoadTimes({1: 50.0}, 50.0, 1).typical is None


@pytest.mark.nightly
def test_no_window_of_an_application_limits_a_long_object(tmp_path: Path) -> None:
    """From 100 to 300 MB every variant needs the time of 200 MB at the link's rate, so that none is limited by a window."""
    config = parse_config(
        numbers("100 Mbit/s", "20 Mbit/s", "620 ms"), sizes=("100 MB", "300 MB"), rtts=("620 ms",)
    )
    result, _ = compute(config, tmp_path, 2)
    means = {key[:2]: times.mean.estimate for key, times in result.times.items() if times.mean is not None}
    for variant in config.variants:
        took = means[variant.name, "300 MB"] - means[variant.name, "100 MB"]
        assert took == pytest.approx(200 * 8 / 100, rel=0.08), variant.name


def test_a_small_map(tmp_path: Path) -> None:
    """One command; the load times have reasons that can be worked out by hand."""
    words = ["break-even", "satcom-2018", "--out", str(tmp_path), "--sizes", "1 kB,1 MB", "--rtts", "600 ms",
             "--jobs", "1"]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("At 600 ms, keep a PEP that knows the link rate and drop a plain PEP.")
    assert f"for print: {tmp_path / 'map.pdf'}" in done.output
    assert (
        max(map(len, done.output.partition("Page load time")[2].partition("8 runs in")[0].splitlines())) <= 80
    )
    for name in ("map.html", "map.svg", "map.pdf", "map.json"):
        assert (tmp_path / name).stat().st_size > 0
    question = parse_config(access("satcom-2018"), sizes=("1 kB", "1 MB"), rtts=("600 ms",))
    found = read_map(tmp_path / "store", question)
    took = {key[:2]: times.mean.estimate for key, times in found.times.items() if times.mean is not None}
    # 1 kB: two round trips for QUIC, three for TCP. A plain proxy saves that of the TCP handshake between client and
    # terminal only; the line-rate one that over the satellite. The gateway's handshake with the server takes 30 ms.
    assert took["QUIC", "1 kB"] == pytest.approx(1.2, abs=0.02)
    assert took["TCP", "1 kB"] == pytest.approx(1.8, abs=0.02)
    assert took["plain PEP", "1 kB"] == pytest.approx(1.8, abs=0.04)
    assert took["line-rate PEP", "1 kB"] == pytest.approx(1.23, abs=0.02)
    # 1 MB: no faster than the link. Slow start from ten packets doubles once a round trip: 10 (2^n - 1) packets are
    # sent within n of them. With packets of 1,200 to 1,460 bytes 1 MB takes seven, the first of which carries the
    # request. The proxy that knows the rate needs none.
    least = 1e6 * 8 / 25e6
    rounds = math.ceil(math.log2(1e6 / 1460 / 10 + 1))
    assert rounds == 7
    for name, handshakes in (("QUIC", 1), ("TCP", 2), ("plain PEP", 2)):
        assert took[name, "1 MB"] > 0.6 * (handshakes + rounds) - 0.6
        assert took[name, "1 MB"] < 0.6 * (handshakes + rounds) + 0.6 + least
    assert 1.2 + least < took["line-rate PEP", "1 MB"] < 1.2 + least + 0.2
    # The brief page has the own row; report, show and query accept the folder of the command and its store.
    brief = (tmp_path / "brief.html").read_text(encoding="utf-8")
    assert "At 600\u00a0ms, keep a PEP that knows the link rate and drop a plain PEP." in brief
    for folder in (tmp_path, tmp_path / "store"):
        done = CliRunner().invoke(app, ["report", "--brief", str(folder)])
        assert (done.exit_code, done.output.strip()) == (0, str(tmp_path / "brief.html"))
        assert "8 of 8 runs" in CliRunner().invoke(app, ["show", str(folder)]).output
        done = CliRunner().invoke(app, ["query", str(folder), "select count(*) as n from runs", "--json"])
        assert '"n": 8' in done.output
    done = CliRunner().invoke(app, ["report", "--brief", str(tmp_path), "--out", str(tmp_path / "copy.html")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "copy.html").read_text(encoding="utf-8") == brief
    # The page begins with the loads of the proxy's greatest gain, each from its connection to its last byte.
    picture = interactive_figure(found).write(tmp_path / "answering.svg").read_text(encoding="utf-8")
    assert ">1 MB at 600 ms<" in picture
    for (name, size, _), times in found.times.items():
        assert times.typical is not None
        _, load = times.typical
        assert load.end == took[name, size]
        # The request is sent after the handshakes, and its answer comes a round trip later.
        assert load.sent == pytest.approx(0.6 if name in ("QUIC", "line-rate PEP") else 1.2, abs=0.04)
        assert load.first_byte - load.sent == pytest.approx(0.6, abs=0.04)
        assert (f">{load.end:.2f} s<" in picture) == (size == "1 MB")
