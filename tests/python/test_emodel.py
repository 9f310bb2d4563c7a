"""The E-model (ITU-T G.107) against printed examples, other authors' fits and its limits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.metrics.call_quality import EModel, idd, ie_eff, mos
from bentpipe.metrics.call_quality.playout import mouth_to_ear_ms
from bentpipe.scenario.flow.codecs import CODECS


def test_the_printed_examples_of_the_recommendation() -> None:
    """G.107 clause 7.7: all defaults give R = 93.2, which is MOS 4.41 (annex B)."""
    default = EModel().rating()
    assert round(default, 1) == 93.2
    assert round(mos(default), 2) == round(mos(93.2), 2) == 4.41


RATINGS = st.floats(-50, 150)


@pytest.mark.parametrize(("rating", "opinion"), [(90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58)])
def test_the_table_of_annex_b(rating: float, opinion: float) -> None:
    assert mos(rating) == pytest.approx(opinion, abs=0.007)  # 80 is 4.024, and printed as 4.03


def test_opinions_end_where_the_scale_does() -> None:
    assert (mos(-3), mos(0), mos(100), mos(120)) == (1.0, 1.0, 4.5, 4.5)


@given(RATINGS, RATINGS)
def test_a_better_rating_is_no_worse_opinion(one: float, other: float) -> None:
    worse, better = sorted((one, other))
    assert 1.0 <= mos(worse) <= mos(better) <= 4.5


@given(st.sampled_from(sorted(CODECS)), *[st.floats(0, 1)] * 2, *[st.floats(0, 400)] * 2)
def test_more_loss_or_delay_is_no_better(
    name: str, lost: float, more: float, delay: float, later: float
) -> None:
    codec = CODECS[name]
    (lost, more), (delay, later) = sorted((lost, more)), sorted((delay, later))
    assert codec.ie <= ie_eff(codec.ie, codec.bpl, lost) <= ie_eff(codec.ie, codec.bpl, more) + 1e-9
    assert 0 <= idd(delay) <= idd(later) + 1e-9


def test_delay_against_the_formula_of_cole_and_rosenbluth() -> None:
    """Voice over IP performance monitoring (CCR 31(2), 2001): R = 94.2 - 0.024 d - 0.11 (d - 177.3) above 177.3 ms. It
    is a fit to the E-model of its day with the echo of the defaults."""
    for delay in range(20, 401, 20):
        fit = 94.2 - 0.024 * delay - 0.11 * max(0.0, delay - 177.3)
        assert EModel().rating(delay, echo_ms=delay) == pytest.approx(fit, abs=2.5), delay
    assert idd(100) == 0
    # At twice the least delay X is 1: 25 (2^(1/6) - 3 (1 + 3^-6)^(1/6) + 2).
    assert idd(200) == pytest.approx(25 * (2 ** (1 / 6) - 3 * (1 + 3**-6) ** (1 / 6) + 2), rel=1e-12)
    assert idd(300, 0.4, 150) < idd(300, 0.55, 120) < idd(300)


@pytest.mark.parametrize(
    ("name", "first", "second", "third"), [("g711", 0, 30, 15), ("g729a-vad", 11, 40, 10)]
)
def test_loss_against_the_fits_of_cole_and_rosenbluth(
    name: str, first: float, second: float, third: float
) -> None:
    codec = CODECS[name]
    for percent in range(11):
        fit = first + second * math.log(1 + third * percent / 100)
        assert ie_eff(codec.ie, codec.bpl, percent / 100) == pytest.approx(fit, abs=3.5), percent


def test_loss_in_bursts_hurts_more_and_concealment_helps() -> None:
    codec = CODECS["g711"]
    assert codec.bpl_plain is not None
    assert ie_eff(0, codec.bpl, 0.02) < ie_eff(0, codec.bpl, 0.02, 2.0) < ie_eff(0, codec.bpl_plain, 0.02)
    assert ie_eff(10, 19, 0.0) == 10
    assert ie_eff(0, 10, 1.0, 1e12) == pytest.approx(95 * 100 / 10)


def test_from_mouth_to_ear() -> None:
    # G.114 annex A: of G.729 with 2 frames in a packet, 3 frames and 5 ms.
    codec = CODECS["g729"]
    assert mouth_to_ear_ms(20, codec.frame_ms, codec.lookahead_ms, 0) == 35
