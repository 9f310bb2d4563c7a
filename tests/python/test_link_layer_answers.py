"""Answers of ``bentpipe link-layer`` on made-up values: open results, a reordering buffer, one setting for all."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from bentpipe.link_layer import find_access, parse_config
from bentpipe.link_layer.config import CALL, TRAFFIC
from bentpipe.link_layer.headline import headline_text
from bentpipe.link_layer.recommendation import buffer_effect, joint_choice
from bentpipe.link_layer.results import Comparison, Measurement, compare_settings
from bentpipe.metrics.intervals import ConfidenceInterval
from bentpipe.metrics.registry import METRICS

pytest.importorskip("bentpipe._engine")

ORDERED, UNORDERED = "HARQ 32 + RLC AM", "HARQ 32 + RLC AM out of order"


def compared(values: Mapping[tuple[str, str], list[float]]) -> Comparison:
    """A comparison of two settings with these values by traffic and setting, one for each seed."""
    seeds = len(next(iter(values.values())))
    config = parse_config(find_access("nr-ntn-leo"), only=[UNORDERED], seeds=seeds)
    by_seed = {
        (traffic, label): {
            "mos" if traffic == CALL else "goodput_bit_s": dict(enumerate(values[traffic, label], 1))
        }
        for traffic in TRAFFIC
        for label in config.labels
    }
    changes = compare_settings(config, by_seed)
    measurements = tuple(
        Measurement(label, traffic, by_seed[traffic, label], changes.get((traffic, label), {}))
        for traffic in TRAFFIC
        for label in config.labels
    )
    return Comparison(config, measurements, "test")


def spread(mean: float, share: float, order: int = 1) -> list[float]:
    """Five values around a mean; ``order`` -1 reverses them."""
    return [mean * (1 + share * offset) for offset in (-1, -0.5, 0, 0.5, 1)][::order]


def test_a_buffer_and_one_setting_for_all() -> None:
    found = compared(
        {
            ("TCP", ORDERED): spread(9e6, 0.02),
            ("TCP", UNORDERED): spread(12e6, 0.02, -1),
            ("QUIC", ORDERED): spread(14e6, 0.02),
            ("QUIC", UNORDERED): spread(1.4e6, 0.02),
            (CALL, ORDERED): spread(4.4, 0.002),
            (CALL, UNORDERED): spread(4.4, 0.002, -1),
        }
    )
    effect = buffer_effect(found)
    assert effect is not None
    assert (effect.ordered, effect.unordered) == (ORDERED, UNORDERED)
    quic = effect.changes["QUIC"].effect
    assert quic is not None
    assert quic.estimate == pytest.approx(10)
    text = headline_text(found)
    assert f"Reordering buffer (in-order delivery, {ORDERED}): TCP ×0.75 [" in text
    assert "QUIC ×10 [10, 10], call no difference." in text
    assert text.endswith(
        f"One setting for all three: {ORDERED}, with 75 % of the best TCP, 100 % of the best QUIC and 100 % of the best "
        "call."
    )


def test_an_open_result_asks_for_more_seeds() -> None:
    """The mean of the other setting is higher by 15 %, but its interval includes the baseline."""
    wide = [4e6, 14e6, 8e6, 11e6, 9e6]
    values = {(traffic, label): spread(9e6, 0.02) for traffic in TRAFFIC for label in (ORDERED, UNORDERED)}
    values |= {(CALL, label): spread(4.0, 0.01) for label in (ORDERED, UNORDERED)}
    found = compared(values | {("TCP", UNORDERED): wide})
    text = headline_text(found)
    assert "whether another setting is better is not resolved with 5 seeds; try --seeds 30. QUIC" in text
    assert "QUIC has a goodput of 9.00 ± 0.18 Mbit/s with HARQ 32 + RLC AM; all settings agree." in text
    assert "no other setting is better" not in text
    assert f"not separated from {UNORDERED}; try --seeds 30." in text


@given(draw.lists(draw.lists(draw.floats(0.1, 10), min_size=5, max_size=5), min_size=6, max_size=6))
def test_the_choice_maximises_the_smallest_share(values: list[list[float]]) -> None:
    keys = [(traffic, label) for traffic in TRAFFIC for label in (ORDERED, UNORDERED)]
    table = {
        key: [1 + 3.5 * value / 10 for value in row] if key[0] == CALL else [1e6 * value for value in row]
        for key, row in zip(keys, values, strict=True)
    }
    choice = joint_choice(compared(table))
    assert choice is not None

    def score(label: str) -> float:
        shares = []
        for traffic in TRAFFIC:
            least = 1.0 if traffic == CALL else 0.0
            means = {one: sum(table[traffic, one]) / 5 - least for one in (ORDERED, UNORDERED)}
            shares.append([(value - least) / max(means.values()) for value in table[traffic, label]])
        return sum(map(min, zip(*shares, strict=True))) / 5

    best = max(score(ORDERED), score(UNORDERED))
    assert score(choice.setting) == pytest.approx(best, rel=1e-9)


@given(
    draw.floats(0, 10),
    draw.floats(0, 20),
    draw.sampled_from(["goodput_bit_s", "delay_p95_ms", "mos", "late_ratio"]),
)
def test_an_interval_ends_at_the_range_of_its_metric(value: float, half: float, name: str) -> None:
    metric = METRICS[name]
    estimate = min(max(value, metric.least), metric.most)
    found = metric.clip(ConfidenceInterval(estimate, estimate - half, estimate + half, 5))
    assert found.low is not None
    assert found.high is not None
    assert metric.least <= found.low <= estimate <= found.high <= metric.most
    assert found.low == max(metric.least, estimate - half)
