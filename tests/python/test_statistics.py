"""Statistics against closed forms, published figures and tables."""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bentpipe
from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.figures.sweep_dimensions import dimensions, grid, magnitude, natural_order
from bentpipe.metrics import compute as stats
from bentpipe.metrics import fairness, intervals, windows
from bentpipe.metrics.format import format_mean, short_labels
from bentpipe.metrics.intervals import STUDENT_T, ConfidenceInterval
from bentpipe.store.files import StoreError
from bentpipe.store.reader import open_store

if TYPE_CHECKING:
    import random
    from pathlib import Path
    from types import ModuleType


@pytest.mark.parametrize(
    ("shares", "index"),
    [
        # Andreotti 2025, sections 4.3 and 4.4; the printed indices are truncated, not rounded
        ([5.7253, 2.9755], 0.9091),
        ([4.2783, 5.1139], 0.9921),
        ([8.7872, 0.1838], 0.5209),
        ([8.1155, 0.9513], 0.6156),
        ([4.085, 4.1036], 0.9999),
        ([6.6948, 1.8847], 0.7608),
        ([4.6566, 3.8636], 0.9914),
    ],
)
def test_jain_as_published(shares: list[float], index: float) -> None:
    assert stats.jain_index(shares) == pytest.approx(index, abs=1e-4)


SHARES = st.floats(1e-3, 1e9)


@given(st.lists(SHARES, min_size=1, max_size=30), SHARES, st.randoms(use_true_random=False))
def test_jain_is_a_share_whatever_the_unit_and_the_order(
    shares: list[float], unit: float, chance: random.Random
) -> None:
    index = stats.jain_index(shares)
    assert index is not None
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9
    assert stats.jain_index([unit * share for share in shares]) == pytest.approx(index)
    assert stats.jain_index(chance.sample(shares, len(shares))) == pytest.approx(index)


@given(st.integers(1, 100), st.integers(0, 100), SHARES)
def test_jain_of_equal_shares_is_the_part_that_has_one(some: int, none: int, share: float) -> None:
    assert stats.jain_index([share] * some + [0.0] * none) == pytest.approx(some / (some + none))


def test_jain_of_nothing_is_none() -> None:
    assert stats.jain_index([]) is None
    assert stats.jain_index([0.0, 0.0]) is None


@pytest.mark.parametrize(
    ("n", "ranks"),
    [(1, None), (5, None), (6, (1, 6)), (7, (1, 7)), (9, (2, 8)), (10, (2, 9)), (12, (3, 10)), (20, (6, 15)),
     (30, (10, 21)), (100, (40, 61))],
)  # fmt: skip
def test_ranks_of_the_median_are_those_of_the_table(n: int, ranks: tuple[int, int] | None) -> None:
    """Le Boudec (2010), table A.1, where its interval is symmetric; 40 and 61 are the textbook's 100 values."""
    assert intervals.median_ranks(n) == ranks


@pytest.mark.parametrize("confidence", [0.5, 0.75, 0.9, 0.9375, 0.95, 0.99, 0.999])
def test_ranks_of_the_median_are_the_innermost_by_binomial_coefficients(confidence: float) -> None:
    """The sum of coefficients from the outside, as the theorem has it; 0.75 and 0.9375 are met exactly by some n."""

    def summed(n: int) -> tuple[int, int] | None:
        best, tail = None, 0
        for rank in range(1, n // 2 + 1):
            tail += math.comb(n, rank - 1)
            if 1 - 2 * tail / 2**n < confidence:
                break
            best = (rank, n + 1 - rank)
        return best

    for n in range(300):
        assert intervals.median_ranks(n, confidence) == summed(n)


@given(st.integers(6, 20_000) | st.integers(6, 10_000_000))
@example(9_999)
@example(10_000)
def test_ranks_of_the_median_of_many_values_are_scipys(n: int) -> None:
    from scipy.stats import binom

    ranks = intervals.median_ranks(n)
    assert ranks is not None
    low, high = ranks
    assert high == n + 1 - low
    inside = [binom.cdf(n - rank, n, 0.5) - binom.cdf(rank - 1, n, 0.5) for rank in (low, low + 1)]
    assert inside[0] >= 0.95 > inside[1]


def test_a_summary_of_many_seeds_does_not_grow_with_their_cube() -> None:
    """For 10^5 seeds, binomial coefficients computed separately took hours."""
    count = 100_000
    values = [float(seed * 7919 % count) for seed in range(count)]
    frame = pl.DataFrame({"run": [str(seed) for seed in range(count)], "flow": "f", "direction": "up",
                          "congestion": "cubic", "goodput_bit_s": values})  # fmt: skip
    (row,) = stats.aggregate_seeds(frame, [], ["goodput_bit_s"]).to_dicts()
    assert (row["n"], row["mean"], row["median"]) == (count, 49_999.5, 49_999.5)
    assert (row["median_low"], row["median_high"]) == (49_689.0, 50_310.0)


def test_median_interval() -> None:
    got = intervals.median_ci([9.0, 1.0, 3.0, 4.0, 2.0, 5.0, 6.0, 7.0, 8.0, 10.0])
    assert (got.estimate, got.low, got.high, got.n) == (5.5, 2.0, 9.0, 10)
    assert not intervals.median_ci([1.0, 2.0]).known


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40), st.randoms(use_true_random=False))
def test_mean_interval_is_student_t(values: list[float], chance: random.Random) -> None:
    from scipy.stats import t

    got = intervals.mean_ci(values)
    assert got.low is not None
    assert got.high is not None
    half = t.ppf(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    assert got.estimate == pytest.approx(fmean(values), rel=1e-9, abs=1e-6)
    assert (got.high - got.low) / 2 == pytest.approx(half, rel=1e-6, abs=1e-6)
    other = intervals.mean_ci(chance.sample(values, len(values)))
    assert [other.estimate, other.low, other.high] == pytest.approx(
        [got.estimate, got.low, got.high], abs=1e-6
    )


def test_mean_interval_of_equal_values() -> None:
    assert intervals.mean_ci([7.0]).low is None
    same = intervals.mean_ci([7.0, 7.0])
    assert (same.low, same.high) == (7.0, 7.0)


def test_quantiles_of_student_t_are_scipys() -> None:
    """Every entry of the table equals SciPy's. Another processor's SciPy may round otherwise."""
    from scipy.special import stdtrit

    assert len(STUDENT_T) == 200
    for degrees, quantile in enumerate(STUDENT_T, start=1):
        assert abs(quantile - float(stdtrit(degrees, 0.5 + 0.95 / 2))) <= math.ulp(quantile)
        assert intervals.t_quantile(0.95, degrees) == quantile
    assert intervals.t_quantile(0.95, 201) == float(stdtrit(201, 0.975)) < STUDENT_T[-1]
    assert intervals.t_quantile(0.9, 2) == pytest.approx(2.919986, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12345.6, "12346"), (9.8765, "9.877"), (0.000123456, "0.0001235"), (None, "–"), (float("nan"), "–"),
     (1.0, "1"), (1e-9, "1.000e-09")],
)  # fmt: skip
def test_significant(value: float | None, text: str) -> None:
    assert intervals.format_significant(value) == text


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (5.7253, 0.1137, "5.73 ± 0.11"),
        (0.5, 0.096, "0.500 ± 0.096"),
        (0.5, 0.0996, "0.50 ± 0.10"),  # as it is rounded, not as it was
        (1234.56, 9.96, "1235 ± 10"),
        (325.4, 180.2, "325 ± 180"),  # whole numbers are whole
        (18.9939, 0.00045, "18.99390 ± 0.00045"),
        (-0.001, 0.25, "0.00 ± 0.25"),
        (0.0, 0.25, "0.00 ± 0.25"),
        (8.54321, 0.0, "8.543"),
        (8.54321, 1e-9, "8.543"),
        (8.54321, None, "8.543"),
        (math.inf, math.nan, "∞"),
    ],
)
def test_a_mean_ends_where_two_digits_of_its_half_do(mean: float, half: float | None, text: str) -> None:
    low, high = (None, None) if half is None else (mean - half, mean + half)
    assert format_mean(ConfidenceInterval(mean, low, high, 3)) == text
    low, high = (None if one is None else one * 1e3 for one in (low, high))
    thousand = ConfidenceInterval(mean * 1e3, low, high, 3)
    assert format_mean(thousand, 1e-3) == text


def test_tables_of_a_sweep_have_short_names_that_tell_them_apart() -> None:
    linux = '{"name": "cubic", "slow_start_exit": "classic", "avoidance": "linux"}'
    assert short_labels(
        ["hybla", '{"name": "newreno"}', linux, '{"name": "hybla", "growth_cap": 1e9, "fast": true}']
    ) == {
        '{"name": "newreno"}': "newreno",
        linux: "cubic (classic, linux)",
        '{"name": "hybla", "growth_cap": 1e9, "fast": true}': "hybla (growth cap 1e+09, fast)",
    }
    alike = ['{"client": "classic"}', '{"server": "classic"}']
    assert list(short_labels(alike).values()) == ["client classic", "server classic"]
    assert short_labels(["cubic", '{"name": "cubic", "beta": {"up": 0.5}}']) == {
        '{"name": "cubic", "beta": {"up": 0.5}}': "cubic (beta up 0.5)"
    }
    # Values that differ only in hidden digits remain different.
    assert short_labels(["cubic", '{"name": "cubic"}']) == {'{"name": "cubic"}': '{"name": "cubic"}'}


def test_goodput_of_a_constant_rate(synthetic: ModuleType, tmp_path: Path) -> None:
    path = synthetic.pair_store(tmp_path / "store", [(5.7253, 2.9755)])
    store = open_store(path)
    metrics = stats.run_metrics(store)
    assert metrics["flow"].to_list() == ["first", "second"]
    assert metrics["goodput_bit_s"].to_list() == pytest.approx([5.7253e6, 2.9755e6], rel=1e-6)
    assert metrics["jain"].to_list() == pytest.approx([0.9091, 0.9091], abs=1e-4)
    flows, ways = store.rows("flows"), stats.flow_directions(store.rows("flow_summary"))
    found = windows.goodput_windows(flows, ways)
    assert found.height == 60
    assert found.filter(pl.col("flow") == "first")["goodput_bit_s"].to_list() == pytest.approx(
        [5.7253e6] * 30, rel=1e-4
    )
    since = windows.goodput_since_start(
        flows, ways, metrics.select("run", "flow", "direction", "data_start_s")
    )
    assert since["goodput_bit_s"].max() == pytest.approx(5.7253e6, rel=1e-4)
    assert metrics["utilisation"][0] == pytest.approx((5.7253 + 2.9755) / 10, rel=0.01)


def test_windows_do_not_depend_on_a_sampling_interval_that_does_not_divide_them(
    synthetic: ModuleType, tmp_path: Path
) -> None:
    flow = synthetic.Flow("only", rate_bit_s=8e6)
    path = synthetic.write_store(tmp_path / "store", [({}, 1, [flow], {"interval_s": 0.3})])
    store = open_store(path)
    found = windows.goodput_windows(store.rows("flows"), stats.flow_directions(store.rows("flow_summary")))
    assert found["goodput_bit_s"].to_list() == pytest.approx([8e6] * found.height, rel=1e-4)


def test_convergence_is_counted_from_the_later_start() -> None:
    """Unfair for 10 windows after a start at 5 s, fair from 15 s on: 10 s."""
    times = [float(t) for t in range(6, 41)]
    jain = pl.DataFrame({"run": "r", "direction": "up", "time_s": times, "jain": [0.6] * 10 + [0.99] * 25})
    starts = pl.DataFrame({"run": "r", "flow": ["a", "b"], "direction": "up", "data_start_s": [0.0, 5.0]})
    assert fairness.convergence_times(jain, starts)["convergence_s"].to_list() == [10.0]
    short = jain.head(10 + fairness.HOLD_WINDOWS - 1)
    assert fairness.convergence_times(short, starts)["convergence_s"].to_list() == [None]


def test_harm_needs_the_same_flow_alone(synthetic: ModuleType, tmp_path: Path) -> None:
    hybla, alone = synthetic.Flow("hybla", rate_bit_s=6e6), synthetic.Flow("hybla", rate_bit_s=8e6)
    rival, silent = synthetic.Flow("rival", rate_bit_s=3e6), synthetic.Flow("rival", rate_bit_s=0.0)
    path = synthetic.write_store(
        tmp_path / "store",
        [
            ({"flow.rival.load": "300 s"}, 1, [hybla, rival], {}),
            ({"flow.rival.load": "none"}, 1, [alone, silent], {}),
        ],
    )
    metrics = stats.run_metrics(open_store(path))
    harm = {(r["flow.rival.load"], r["flow"]): r["harm"] for r in metrics.to_dicts()}
    assert harm["300 s", "hybla"] == pytest.approx(0.25, abs=1e-4)
    assert harm["300 s", "rival"] is None
    assert harm["none", "hybla"] is None


def test_completion_times() -> None:
    streams = pl.DataFrame(
        {
            "run": "r", "flow": "f", "mode": ["data", "data", "data", "time"], "start_s": [1.0, 2.0, 3.0, 0.0],
            "up_written_bytes": [100, 8, 100, 9], "down_written_bytes": [0, 500, 0, 0],
            "up_bytes": [100, 8, 50, 9], "up_fin_s": [2.0, 2.1, None, None],
            "down_bytes": [0, 500, 0, 0], "down_fin_s": [2.5, 4.0, None, None],
        }
    )  # fmt: skip
    assert stats.completion_times(streams)["completion_s"].to_list() == [1.5, 2.0, None]


def test_summary_over_seeds_and_its_order(synthetic: ModuleType, tmp_path: Path) -> None:
    store = open_store(synthetic.rivals_store(tmp_path / "store", duration_s=20.0))
    metrics = stats.run_metrics(store)
    cells = stats.aggregate_seeds(metrics, store.columns)
    goodput = cells.filter(pl.col("metric") == "goodput_bit_s")
    assert goodput.height == 2 * 2 * 4 * 2
    assert goodput["n"].to_list() == [3] * 32
    assert (goodput["mean_low"] <= goodput["mean"]).all()
    assert metrics.equals(stats.run_metrics(open_store(store.path)))
    assert metrics["run"].unique(maintain_order=True).to_list() == store.index["run"].to_list()


def test_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"plan\.json"):
        open_store(tmp_path)


def test_values_of_a_sweep_have_their_natural_order() -> None:
    assert natural_order(["1 %", "0.01 %", "10 %"]) == ("0.01 %", "1 %", "10 %")
    assert natural_order(["1 s", "250 ms", "15 ms"]) == ("15 ms", "250 ms", "1 s")
    assert natural_order(["newreno", "bbr"]) == ("newreno", "bbr")
    assert natural_order(["0.1 %", "10 ppm"]) == ("10 ppm", "0.1 %")
    assert natural_order(["7 dB", "-3 dB"]) == ("-3 dB", "7 dB")
    assert natural_order(["100 km/h", "3 km/h", "10 m/s"]) == ("3 km/h", "10 m/s", "100 km/h")
    assert magnitude("0.5 Gbit/s") == 5e8
    assert magnitude("cubic") is None


def test_labelled_tables_are_one_dimension_whatever_they_hold() -> None:
    runs = pl.DataFrame(
        {
            "flow.f.load.page": ["a", "b"] * 3,
            "sweep.stack": ["none", "none", "early", "early", "pooled", "pooled"],
            "path.p.handshake": ["none", "none", "early", "early", "pooled", "pooled"],
            "path.p.buffer": [None, None, "1 MB", "1 MB", "1 MB", "1 MB"],
        }
    )
    page, stack = dimensions(runs, runs.columns)
    assert page.label("a") == "page a"
    assert (stack.label("early"), stack.values) == ("early", ("none", "early", "pooled"))
    assert stack.keys == ("sweep.stack", "path.p.handshake", "path.p.buffer")
    shown = grid([page, stack], page, None)
    assert shown.select(runs).height == 2


def test_keys_that_change_together_are_one_dimension(synthetic: ModuleType, tmp_path: Path) -> None:
    store = open_store(synthetic.matrix_store(tmp_path / "s", seeds=1, rates=(10, 25), duration_s=3.0))
    dims = dimensions(store.index, store.columns)
    assert [dim.title for dim in dims] == ["one-way delay", "rate", "loss", "controller"]
    assert len(dims[1].keys) == 2
    shown = grid(dims[:3], dims[2], dims[0])
    assert shown.note == "Shown: rate 10 Mbit/s (of 10 Mbit/s, 25 Mbit/s)."


def test_a_direction_that_is_swept_counts_where_it_sends(tmp_path: Path) -> None:
    """The other way such a flow has requests alone: no goodput of 0, and no part in Jain's index."""
    flow = {"congestion": "cubic", "direction": "up", "load": {"time": "1 s"}}
    scenario = {
        "duration": "2 s",
        "path": {"segment": [{"name": "sky", "delay": "5 ms", "both": {"rate": "2 Mbit/s"}}]},
        "flow": [{"name": "one", **flow}, {"name": "two", **flow}],
        "sweep": {"flow.one.direction": ["up", "down"]},
    }
    bentpipe.run(scenario, out=tmp_path / "s", jobs=1)
    store = open_store(tmp_path / "s")
    rows = stats.run_metrics(store)
    assert rows.select(store.columns[0], "flow", "direction").rows() == [
        ("up", "one", "up"),
        ("up", "two", "up"),
        ("down", "one", "down"),
        ("down", "two", "up"),
    ]
    assert rows["jain"].null_count() == 2
    figure = FIGURES["goodput"](FigureContext(store))
    assert figure is not None
    for text in figure.spec()["datasets"].values():
        drawn = pl.read_csv(text.encode())
        assert drawn.group_by("column", "series").agg(pl.col("y").max())["y"].min() > 0.5  # type: ignore[operator]
