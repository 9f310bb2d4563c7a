"""Break-even maps with random loss: stages, interruption, and means over seeds."""

from __future__ import annotations

import json
import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bentpipe.break_even.access import numbers, with_loss
from bentpipe.break_even.config import parse_config
from bentpipe.break_even.execution import compute
from bentpipe.break_even.gains import gains
from bentpipe.break_even.ratios import LoadTimes, Map, build_map
from bentpipe.break_even.recommendation import kinds_text, supporting_text
from bentpipe.break_even.summary import data, size_rows
from bentpipe.runners.execute import Observer

SIZES = ("10 kB", "30 kB", "100 kB", "300 kB", "1 MB", "100 MB")
LIMIT_S = 1e3


def _map(ratios: dict[str, list[float]], kind: str = "plain") -> Map:
    """A map whose ratios of QUIC to a PEP are these by size and seed; a load of ``LIMIT_S`` does not finish.

    The PEP takes a second, or the inverse of a ratio if that is longer than a second and QUIC's time is then one.
    """
    access = with_loss(numbers("50 Mbit/s", "6 Mbit/s", "600 ms"), "0.1 %")
    config = parse_config(access, controllers=("cubic",), sizes=SIZES, rtts=("600 ms",), pep=(kind,))
    times = {}
    for size in SIZES:
        by_seed = dict(enumerate(ratios[size], 1))
        for name, seconds in (
            ("QUIC", {seed: max(ratio, 1.0) for seed, ratio in by_seed.items()}),
            (f"{kind} PEP", {seed: max(1 / ratio, 1.0) for seed, ratio in by_seed.items()}),
        ):
            unfinished = sum(second >= LIMIT_S for second in seconds.values())
            times[name, size, "600 ms"] = LoadTimes(seconds, LIMIT_S, unfinished)
    return build_map(config, times, "test", {"QUIC", f"{kind} PEP"})


SLOWER = {
    "10 kB": [0.5] * 5,
    "30 kB": [0.6] * 5,
    "100 kB": [0.8, 0.801, 0.802, 0.803, 0.804],
    "300 kB": [0.5, 1.4, 0.6, 1.3, 0.7],
    "1 MB": [1.0] * 5,
    "100 MB": [1 / LIMIT_S, 1 / LIMIT_S, 1 / LIMIT_S, 1 / LIMIT_S, 1.5 / LIMIT_S],
}
"""Small objects meet no loss. The ratio of 300 kB is uncertain, and the PEP does not finish most loads of 100 MB."""


def test_seeds_without_a_loss_decide() -> None:
    """Equal differences of five seeds are a result about loads without loss, and the note says how many there are."""
    found = _map(SLOWER)
    assert [cell.verdict for cell in found.cells if cell.alternative == "QUIC"] == [
        "PEP slower", "PEP slower", "PEP slower", "none", "none", "PEP slower",
    ]  # fmt: skip
    text = supporting_text(found)
    assert "In 6 comparisons" in text
    assert "split TCP is faster in 0 and slower in 4; " in text
    assert "In 2, the difference is not significant or at most 1 %." in text
    assert (
        "In 3, all seeds have the same ratio: no random event, such as a loss, changed these load times."
        in text
    )
    few = _map({size: ratios[:4] for size, ratios in SLOWER.items()})
    assert few.cells[0].verdict == "too few seeds"
    assert "same ratio" not in supporting_text(few)


@pytest.mark.parametrize(
    ("down", "up", "text"),
    [
        ({}, {"loss": "0 %"}, "no random loss"),
        (
            {"loss": "1 %"},
            {"loss": {"probability": "0.1 %"}},
            "random loss (1 % down, 0.1 % up, independent by packet)",
        ),
        (
            {"loss": {"gilbert_elliott": {"good_to_bad": "1 %", "bad_to_good": "9 %"}}},
            {},
            "random loss (gilbert_elliott down)",
        ),
        ({"reconfiguration": {"loss": ["1 %"]}}, {}, "random values of reconfiguration intervals"),
    ],
)
def test_the_assumptions_begin_with_loss_seeds_and_protocols(
    down: dict[str, Any], up: dict[str, Any], text: str
) -> None:
    found = _map(SLOWER)
    access = replace(found.config.access, down=down | {"rate": "50 Mbit/s"}, up=up)
    found = replace(found, config=replace(found.config, access=access))
    conditions = (
        f"Assumptions: {text}; 5 seeds; one object in each load, over HTTP/3 or HTTP/1.1, "
        "with TLS 1.3 without resumption. "
    )
    assert supporting_text(found).startswith(conditions)


def test_the_largest_loss_is_that_of_its_range() -> None:
    """The range ends before an uncertain ratio; text, table and data have the same limits and the same extreme."""
    within = SLOWER | {"100 MB": [1.0] * 5}
    found = _map(within)
    text = kinds_text(found)[0]
    assert (
        "It takes up to 2.0 times as long as QUIC for objects below 100 kB. The difference is largest at 10 kB."
        in text
    )
    (quic,) = (one.as_row() for one in gains(found))
    assert quic["slower_from_to_bytes"] == [[None, 100_000]]
    assert (quic["smallest_ratio"], quic["smallest_ratio_bytes"]) == (pytest.approx(0.5), 10_000)
    assert {
        cell["verdict"] for cell in data(found)["cells"] if cell["bytes"] <= 100_000 and cell["ratio"]
    } == {"PEP slower"}
    # The PEP that does not finish is in the range of large objects, so that the largest loss is a bound.
    text = kinds_text(_map(SLOWER))[0]
    assert (
        "It takes up to at least 922 times as long as QUIC for objects below 100 kB and above 1 MB." in text
    )


def test_the_largest_gain_is_that_of_its_range() -> None:
    gain = {size: [1 / ratio for ratio in ratios] for size, ratios in SLOWER.items()}
    found = _map(gain)
    text = kinds_text(found)[0]
    assert (
        "For objects below 100 kB and above 1 MB, QUIC takes up to at least 922 times as long without it."
        in text
    )
    assert size_rows(found)[0]["plain PEP"] == "< 100 kB, > 1 MB"
    (quic,) = (one.as_row() for one in gains(found))
    assert quic["faster_from_to_bytes"] == [[None, 100_000], [1_000_000, None]]
    assert quic["largest_ratio"] == pytest.approx(math.exp((4 * math.log(1000) + math.log(1000 / 1.5)) / 5))
    # An interval whose limits are the displayed ratio is omitted; a wide one is that of the largest ratio of its range.
    narrow = {size: [1.16, 1.16001, 1.16, 1.16, 1.16] for size in SIZES}
    assert "QUIC takes up to 16 % longer without it." in kinds_text(_map(narrow))[0]
    wide = narrow | {"300 kB": [2.0, 3.0, 4.0, 3.0, 2.5]}
    assert "QUIC takes up to 2.8 (2.1 to 3.9) times as long without it." in kinds_text(_map(wide))[0]


def test_a_map_with_loss_has_a_first_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page exists after the first seed, and after an interruption; the same command completes it."""
    config = parse_config(
        with_loss(numbers("20 Mbit/s", "5 Mbit/s", "100 ms"), "2 %"), sizes=("30 kB", "300 kB"), rtts=("40 ms", "100 ms"),
        controllers=("cubic",),
    )  # fmt: skip
    messages: list[str] = []
    states: list[str] = []

    def interrupt(text: str) -> None:
        messages.append(text)
        if len(messages) == 1:
            return
        states.append((tmp_path / "map.html").read_text(encoding="utf-8"))
        if len(messages) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute(config, tmp_path, 1, watch=Observer(on_message=interrupt))
    assert re.fullmatch(
        r"80 runs with 5 seeds, about \d+ s on 1 processor. .*map.html follows after the first seed.",
        messages[0],
    )
    assert re.fullmatch(
        r"stage 1 of 3: .* is ready, with one seed of every load. More seeds follow in about .*", messages[1]
    )
    assert "1 seed." in states[0]
    assert "Stage 1 of 3: this page has one seed of every load." in states[0]
    assert "one seed gives no confidence interval" in states[0]
    assert "intervals of 95\u00a0% from 5\u00a0seeds" in states[1]
    first = json.loads((tmp_path / "map.json").read_text())
    assert {cell["seeds"] for cell in first["cells"]} == {1, 5}
    result, summary = compute(config, tmp_path, 1)
    assert (summary.reused, summary.done) == (2 * 2 * 4 + 2 * 4 * 4, 2 * 4 * 4)
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "Stage" not in page.partition("<script")[0]
    assert {cell.ratio.n for cell in result.cells if cell.ratio is not None} == {5}
    # The interval of the row that was complete is the same: a stage changes no run.
    own = [cell for cell in first["cells"] if cell["rtt_s"] == 0.1]
    assert [cell.as_row()["ratio_low"] for cell in result.cells if cell.rtt == "100 ms"] == [
        cell["ratio_low"] for cell in own
    ]


@settings(max_examples=2, deadline=None)
@given(loss=st.sampled_from(["0.5 %", "2 %", "5 %"]), rtt=st.sampled_from(["40 ms", "100 ms"]))
@pytest.mark.nightly
def test_loss_makes_no_load_faster_on_average(loss: str, rtt: str) -> None:
    """The mean over seeds of a load that crosses a lossy link is not below that of one without loss.

    A single load may be faster: a lost packet can end slow start before it overflows the queue. Hence means, and a
    queue that holds the object.
    """
    means = []
    for probability in (None, loss):
        config = parse_config(
            with_loss(numbers("20 Mbit/s", "5 Mbit/s", rtt), probability), sizes=("100 kB",), rtts=(rtt,),
            controllers=("cubic",), seeds=5,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            result, _ = compute(config, Path(folder), 1)
        means.append(
            {key[0]: times.mean.estimate for key, times in result.times.items() if times.mean is not None}
        )
    before, after = means
    assert before.keys() == after.keys()
    assert all(after[name] >= before[name] * (1 - 1e-9) for name in before), (before, after)
