"""How pages begin: sentences that say what the data support, and no more."""

from __future__ import annotations

import html
import itertools
import math
import re
from dataclasses import replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import polars as pl
import pytest

import synthetic_pages
from bentpipe.break_even.access import access
from bentpipe.break_even.config import parse_config
from bentpipe.break_even.ratios import LoadTimes, Map, build_map
from bentpipe.break_even.recommendation import supporting_text
from bentpipe.engine_validation.compare import Row as Compared
from bentpipe.engine_validation.headline import opening as of_agreement
from bentpipe.figures.context import FigureContext
from bentpipe.figures.page_load_samples import PageLoads
from bentpipe.figures.sweep_dimensions import Dimension
from bentpipe.metrics.change_table import format_ratio
from bentpipe.metrics.compare import Criteria, Equivalence, MetricChange
from bentpipe.metrics.intervals import ConfidenceInterval
from bentpipe.metrics.registry import METRICS
from bentpipe.metrics.store_comparison import compare_stores
from bentpipe.metrics.verdicts import Claim, Fact, Quantity, Verdict
from bentpipe.report import store_page
from bentpipe.report.findings import findings, variant_pairs
from bentpipe.report.html_table import add_tooltips, tabular
from bentpipe.report.page_load_tables import tables
from bentpipe.store.reader import open_store
from bentpipe_studies.headline import build_headline as of_study
from bentpipe_studies.headline import term_definitions
from bentpipe_studies.study import Findings, MainResult, Row
from store_edit import put

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import ModuleType

# --- a store --------------------------------------------------------------------------------------------------


def _arms(
    synthetic: ModuleType, path: Path, rates: dict[str, Sequence[float]], losses: Sequence[str] = ("1 %",)
) -> str:
    """Return the sentences on flows with these goodputs in Mbit/s, one value for each seed."""
    runs = [
        ({"flow.main.congestion": arm, "path.satellite.up.loss": loss}, seed,
         [synthetic.Flow("main", arm, rate * 1e6)], {"duration_s": 4.0})
        for loss in losses for arm, of in rates.items() for seed, rate in enumerate(of, start=1)
    ]  # fmt: skip
    return findings(FigureContext(open_store(synthetic.write_store(path, runs))))


def _finishing(synthetic: ModuleType, path: Path, finished: dict[str, int]) -> str:
    """Return the headline of flows of ten transfers of 10 s (cubic) or 1 s (bbr), of which so many finish."""
    runs = [
        ({"flow.main.congestion": arm}, seed, [synthetic.Flow("main", arm, 5e6)], {"duration_s": 60.0, "sizes": [1000] * 10})
        for arm in finished for seed in (1, 2, 3)
    ]  # fmt: skip
    store = synthetic.write_store(path, runs)
    for cell, seed, _, _ in runs:
        arm = cell["flow.main.congestion"]
        file = store / "runs" / synthetic.run_id(cell, seed) / "streams.parquet"
        took = {"cubic": 10.0, "bbr": 1.0}[arm] * (1 + seed / 100)
        fin = pl.when(pl.int_range(pl.len()) < finished[arm]).then(pl.col("start_s") + took)
        pl.read_parquet(file).with_columns(up_fin_s=fin, down_fin_s=fin).pipe(put, file)
    return findings(FigureContext(open_store(store)))


def test_transfers_that_do_not_finish_put_nobody_ahead(synthetic: ModuleType, tmp_path: Path) -> None:
    """The median of those that finish is a tenth; of all transfers, most of bbr's have none."""
    whole = _finishing(synthetic, tmp_path / "a", {"cubic": 10, "bbr": 10})
    assert whole.startswith(
        "bbr has the best median completion: 1.02 s against 10.2 for cubic (10 times as long); "
    )
    collapsed = _finishing(synthetic, tmp_path / "b", {"cubic": 10, "bbr": 3})
    assert collapsed.startswith("cubic has the best restricted mean completion time: 10.2 s against "), (
        collapsed
    )
    assert collapsed.endswith("; an unfinished transfer counts as 55.5 s."), collapsed
    some = _finishing(synthetic, tmp_path / "c", {"cubic": 8, "bbr": 8})
    assert some.startswith("bbr has the best median completion: 1.02 s"), "the median is known of both"


def test_a_leader_is_level_with_whom_the_seeds_do_not_separate(synthetic: ModuleType, tmp_path: Path) -> None:
    """bbr gains 5.0 % on cubic for sure, and 8 % on hybla by chance."""
    noise = {
        "bbr": (8.40, 8.40, 8.41, 8.40, 8.40),
        "cubic": (8.0, 8.01, 7.99, 8.0, 8.0),
        "hybla": (7.0, 8.4, 8.3, 7.5, 8.4),
    }
    message = _arms(synthetic, tmp_path / "a", noise)
    assert re.fullmatch(
        r"bbr leads: goodput 8\.4 Mbit/s against 8 for cubic \(×1\.05 \[1\.048, 1\.052\]\), level with hybla\.",
        message,
    ), message


def test_arms_that_cannot_be_compared_are_not_averaged(synthetic: ModuleType, tmp_path: Path) -> None:
    message = _arms(synthetic, tmp_path / "a", {"cubic": (5.0, 5.1, 4.9), "bbr": (0, 0, 0)})
    assert message == "cubic leads: goodput 5 Mbit/s against 0 for bbr."


def test_flows_that_load_pages_are_compared_at_each_amount(synthetic: ModuleType, tmp_path: Path) -> None:
    """Two browsers and a swept amount: the headline's numbers are those of the table."""
    cells = [{"flow.other.count": count} for count in ("10", "100")]
    runs = [
        (cell, seed, [synthetic.Flow("chrome", "bbr", 4e6)], {"interval_s": 1.0})
        for cell in cells
        for seed in (1, 2, 3)
    ]
    store = synthetic.write_store(tmp_path / "a", runs)
    for cell, seed, _, _ in runs:
        run = store / "runs" / synthetic.run_id(cell, seed)
        synthetic_pages.write_tables(run, 5_300_000, "2", seed, False)
        loads = pl.read_parquet(run / "pages.parquet")
        rival = loads.with_columns(flow=pl.lit("rival", loads.schema["flow"]), plt_s=pl.col("plt_s") * 3)
        pl.concat([loads, rival]).pipe(put, run / "pages.parquet")
        for name in ("flow_summary", "flows"):
            table = pl.read_parquet(run / f"{name}.parquet")
            rival = table.with_columns(flow=pl.lit("rival", table.schema["flow"]))
            pl.concat([table, rival]).pipe(put, run / f"{name}.parquet")
    context = FigureContext(open_store(store))
    assert findings(context).startswith("chrome leads in all 6 cells, most at ")
    _, table = tables(context)
    assert table is not None
    at = [[head.title for head in table.heads].index(title) for title in ("of", "faster")]
    faster = [row.cells[at[1]].text for row in table.rows if row.cells[at[0]] == METRICS["plt_s"].title]
    assert faster == ["chrome"] * 6


def test_the_leader_has_an_interval(synthetic: ModuleType, tmp_path: Path) -> None:
    """Ratios of 1.50 to 1.54: the geometric mean is 1.52; the interval is that of the paired logarithms."""
    ratios = (1.5, 1.51, 1.52, 1.53, 1.54)
    message = _arms(synthetic, tmp_path / "a", {"cubic": (4,) * 5, "bbr": [4 * one for one in ratios]})
    logs = [math.log(one) for one in ratios]
    half = 2.7764451 * stdev(logs) / math.sqrt(5)
    low, high = (math.exp(fmean(logs) + side * half) for side in (-1, 1))
    assert message == f"bbr leads: goodput 6.08 Mbit/s against 4 for cubic (×1.52 [{low:.3g}, {high:.3g}])."


def test_a_difference_within_the_variation_of_seeds_is_no_lead(synthetic: ModuleType, tmp_path: Path) -> None:
    message = _arms(synthetic, tmp_path / "a", {"cubic": (4, 5, 4, 5, 4), "bbr": (5, 4, 5, 4, 5)})
    assert message.startswith(
        "No variant leads: the largest difference of goodput is bbr with 4.6 Mbit/s against 4.4 for cubic (×1.0"
    )
    assert message.endswith("]), which is not significant with 5 seeds.")


def test_few_seeds_have_no_verdict(synthetic: ModuleType, tmp_path: Path) -> None:
    message = _arms(synthetic, tmp_path / "a", {"cubic": (4, 4.1, 4), "bbr": (6.0, 6.08, 6.16)})
    assert message.startswith("bbr has the best goodput: 6.08 Mbit/s against 4.03 for cubic (×1.51 [")
    assert message.endswith("]); 3 seeds are too few for a verdict, 5 are enough.")


def test_pairs_of_a_case_are_one_family(synthetic: ModuleType, tmp_path: Path) -> None:
    """One pair alone is significant; of six arms it is one of 15 pairs, by Holm's procedure."""
    best = {"bbr": (4.1, 4.5, 4.3, 4.6, 4.15)}
    others = dict.fromkeys(("cubic", "newreno", "hybla", "westwood", "copa"), (4.0, 4.05, 3.95, 4.0, 4.1))
    one = dict(itertools.islice(others.items(), 1))
    assert "bbr leads" in _arms(synthetic, tmp_path / "one", best | one)
    noisy = {
        name: [value + 0.1 * ((seed + at) % 3) for seed, value in enumerate(of)]
        for at, (name, of) in enumerate(others.items())
    }
    assert "No variant leads" in _arms(synthetic, tmp_path / "five", best | noisy)


def test_an_interval_beside_a_corrected_p_value_has_a_note(synthetic: ModuleType, tmp_path: Path) -> None:
    """Logarithms of mean 0.1 and t = 3.3 with four degrees of freedom: p is 0.03, and 0.09 as one of three pairs."""
    gains = [0.1 + 0.0429 * step for step in (-2, -1, 0, 1, 2)]
    arms = {
        "cubic": (4.0,) * 5,
        "bbr": [4 * math.exp(gain) for gain in gains],
        "hybla": [4 * math.exp(gain) for gain in (0.001, -0.001, 0.002, -0.002, 0)],
    }
    corrected = "Holm's procedure corrects the p-values, not the 95 % intervals."
    reason = " Hence an interval here excludes 1 although p is above 0.05."
    for names, note in (("cubic", "bbr"), corrected), (tuple(arms), corrected + reason):
        path = tmp_path / str(len(names))
        _arms(synthetic, path, {name: arms[name] for name in names})
        table = variant_pairs(FigureContext(open_store(path)))
        assert table is not None
        assert table.notes[-1] == note


def test_one_seed_has_no_interval(synthetic: ModuleType, tmp_path: Path) -> None:
    message = _arms(synthetic, tmp_path / "a", {"cubic": (4,), "bbr": (6,)})
    assert message == (
        "bbr has the best goodput: 6 Mbit/s against 4 for cubic (×1.5); one seed gives no confidence interval."
    )
    several = _arms(synthetic, tmp_path / "b", {"cubic": (4,), "bbr": (6,)}, ("1 %", "2 %"))
    assert several == (
        "bbr has the best goodput in all 2 cells, most at loss 1 %: 6 Mbit/s against 4 for cubic (×1.5); "
        "one seed gives no confidence interval."
    )


def test_equal_arms_are_equal(synthetic: ModuleType, tmp_path: Path) -> None:
    message = _arms(synthetic, tmp_path / "a", {"cubic": (4, 4), "bbr": (4, 4)})
    assert message == "cubic and bbr have the same goodput, 4 Mbit/s."


PRESETS = {
    "starlink": {"cubic": (30, 29, 31, 30, 28), "bbr": (41, 40, 42, 40, 39)},
    "geo-konnect": {"cubic": (17, 17.1, 16.9, 17, 17), "bbr": (15, 15, 14.9, 15, 15.1)},
    "lte-4g": {"cubic": (4.7, 4.71, 4.7, 4.72, 4.7), "bbr": (4.71, 4.7, 4.72, 4.7, 4.71)},
}


def _presets(synthetic: ModuleType, path: Path, names: Sequence[str] = tuple(PRESETS)) -> FigureContext:
    runs = [
        ({"path.preset": preset, "flow.main.congestion": arm}, seed,
         [synthetic.Flow("main", arm, rate * 1e6)], {"duration_s": 4.0})
        for preset in names for arm, of in PRESETS[preset].items() for seed, rate in enumerate(of, start=1)
    ]  # fmt: skip
    return FigureContext(open_store(synthetic.write_store(path, runs)))


def test_each_of_few_cells_has_a_clause(synthetic: ModuleType, tmp_path: Path) -> None:
    message = findings(_presets(synthetic, tmp_path / "a"))
    assert re.fullmatch(
        r"bbr leads on starlink: goodput 40\.4 Mbit/s against 29\.6 for cubic \(×1\.37 \[1\.3\d?, 1\.\d+\]\); "
        r"on geo-konnect it is 12 % behind cubic; on lte-4g it is level with cubic\.",
        message,
    ), message


def _effects(*sides: Sequence[MetricChange]) -> Iterator[list[ConfidenceInterval]]:
    return ([one.effect for one in pair if one.effect is not None] for pair in zip(*sides, strict=True))


def test_the_table_has_every_pair_with_its_verdict(synthetic: ModuleType, tmp_path: Path) -> None:
    """The verdicts are those of ``diff`` of two stores, each with the runs of one controller."""
    table = variant_pairs(_presets(synthetic, tmp_path / "a"))
    assert table is not None
    rows = table.text_rows()
    assert [(row["preset"], row["ahead"]) for row in rows] == [
        ("starlink", "bbr"), ("geo-konnect", "cubic"), ("lte-4g", "–"),
    ]  # fmt: skip
    assert [row["first Mbit/s"] for row in rows] == ["40.4", "17", "4.708"]
    stores = [
        synthetic.write_store(
            tmp_path / arm,
            [
                ({"path.preset": preset}, seed, [synthetic.Flow("main", arm, rate * 1e6)], {"duration_s": 4.0})
                for preset, of in PRESETS.items() for seed, rate in enumerate(of[arm], start=1)
            ],
        )
        for arm in ("bbr", "cubic")
    ]  # fmt: skip
    changes = compare_stores(*stores, criteria=Criteria(metrics=("goodput_bit_s",))).changes
    assert [change.verdict for change in changes] == ["regression", "improvement", "none"]
    other_way = compare_stores(*reversed(stores), criteria=Criteria(metrics=("goodput_bit_s",))).changes
    effects = [max(*pair, key=lambda one: one.estimate) for pair in _effects(changes, other_way)]
    assert list(map(format_ratio, effects)) == [row["ratio first / second"] for row in rows]


def test_pairs_with_a_user_supplied_class_are_first(synthetic: ModuleType, tmp_path: Path) -> None:
    arms = {"cubic": (4, 4.1, 4.2, 4, 4), "bbr": (6, 6.1, 6, 6, 6.2), "cc.py:Mine": (5, 5.1, 5, 5, 5.2)}
    _arms(synthetic, tmp_path / "a", arms)
    table = variant_pairs(FigureContext(open_store(tmp_path / "a")))
    assert table is not None
    pairs = [(row["first"], row["second"], row["ahead"]) for row in table.text_rows()]
    assert pairs == [
        ("cc.py:Mine", "cubic", "cc.py:Mine"), ("bbr", "cc.py:Mine", "bbr"), ("bbr", "cubic", "bbr"),
    ]  # fmt: skip


def test_a_deterministic_run_counts_for_every_seed(synthetic: ModuleType, tmp_path: Path) -> None:
    """A plan has one run of a controller without random numbers, and five of another one."""
    message = _arms(synthetic, tmp_path / "a", {"cubic": (4,), "bbr": (6, 6.1, 6.05, 6.08, 6.1)})
    assert re.fullmatch(
        r"bbr leads: goodput 6\.07 Mbit/s against 4 for cubic \(×1\.5\d* \[1\.5\d?, 1\.5\d?\]\)\.", message
    ), message


def test_many_cells_have_the_largest_lead(synthetic: ModuleType, tmp_path: Path) -> None:
    message = findings(
        FigureContext(open_store(synthetic.matrix_store(tmp_path / "m", rates=(10, 25), duration_s=4.0)))
    )
    assert re.match(
        r"bbr has the best goodput in all 14 cells, most at .*: [\d.]+ Mbit/s against ", message
    ), message
    rates = {"cubic": (4, 4.1, 4, 4.1, 4), "bbr": (6, 6.1, 6, 6, 6.2)}
    message = _arms(synthetic, tmp_path / "a", rates, ("0 %", "1 %", "2 %", "3 %"))
    assert message.startswith(
        "bbr leads in all 4 cells, most at loss 0 %: goodput 6.06 Mbit/s against 4.04 for cubic"
    )


def test_less_time_is_ahead(synthetic: ModuleType, tmp_path: Path) -> None:
    store = synthetic.sizes_store(tmp_path / "sizes")
    message = findings(FigureContext(open_store(store)))
    assert re.fullmatch(
        r"bbr has the best median completion: [\d.]+ s against .* for cubic .*; \d seeds are too few .*\.",
        message,
    ), message
    page = html.unescape(store_page.write_report(store).read_text(encoding="utf-8")).replace("\u00a0", " ")
    assert f'</h1>\n<p class="verdict">{message}</p>\n<p class="lead">One flow (pages) on a path' in page


def test_flows_that_share(synthetic: ModuleType, tmp_path: Path) -> None:
    """Shares of 40 and 60 %: 50 ± t(0.975, 1) * 14.14 / sqrt(2) = 127."""
    message = findings(FigureContext(open_store(synthetic.pair_store(tmp_path / "pair", [(4, 6), (6, 4)]))))
    assert message.startswith("Jain's index: 0.96")
    assert message.endswith("first's share of the goodput: 50 ± 127 %.")
    one = findings(FigureContext(open_store(synthetic.pair_store(tmp_path / "one", [(4, 6)]))))
    assert one.endswith("first's share of the goodput: 40 %; one seed gives no confidence interval.")


# --- a store of page loads ------------------------------------------------------------------------------------

SKEWED = {
    http: (*[usual] * place, 30 * usual, *[usual] * (9 - place))
    for http, usual, place in (("1.1", 1.6, 2), ("2", 1.5, 5), ("3", 1.0, 8))
}
"""Page load times by HTTP, a value a seed: of each one load took long, another one each time."""

SMALL = {"1.1": (2.0, 2.1, 2.2), "2": (1.9, 2.1, 2.0), "3": (1.0, 1.2, 1.1)}
EVEN = {"1.1": (2.0, 2.3, 2.2), "2": (2.1, 2.0, 2.4), "3": (2.2, 2.1, 2.0)}


def _loads(
    synthetic: ModuleType,
    path: Path,
    times: dict[str, Sequence[float]],
    unfinished: str = "",
) -> FigureContext:
    """A store of one load a seed that takes so long; with ``unfinished`` the last seed of that HTTP has none."""
    seeds = len(next(iter(times.values())))
    place = synthetic_pages.page_store(path, synthetic, seeds=seeds, arms=list(times), packets=False)
    material = FigureContext(open_store(place))
    rows = [(http, seed, one) for http, of in times.items() for seed, one in enumerate(of, start=1)]
    taken = pl.DataFrame(rows, schema={"flow.chrome.load.http": pl.String, "seed": pl.Int64, "plt_s": pl.Float64},
                         orient="row")  # fmt: skip
    pages = material.pages.filter(pl.col("load") == 1).drop("plt_s")
    pages = pages.join(taken, on=["flow.chrome.load.http", "seed"], how="left", maintain_order="left")
    cut = (pl.col("flow.chrome.load.http") == unfinished) & (pl.col("seed") == seeds)
    material.__dict__["pages"] = pages.with_columns(plt_s=pl.when(~cut).then("plt_s"))
    return material


def _named(material: FigureContext) -> set[str]:
    """The arms that the table calls faster than all others by page load time."""
    compared = tables(material)[1]
    assert compared is not None
    heads = [head.title for head in compared.heads]
    wins: list[str] = []
    for row in compared.rows:
        text = [cell if isinstance(cell, str) else cell.text for cell in row.cells]
        if text[heads.index("of")] == "page load time":
            wins.append(text[heads.index("faster")])
    return {arm for arm in wins if arm != "none" and wins.count(arm) == len(PageLoads(material).variants) - 1}


@pytest.mark.parametrize(
    ("times", "message"),
    [
        # one long load makes the paired differences of means say nothing; medians and their intervals are apart
        (
            SKEWED,
            "HTTP/3 leads: page load time (median) 1 s against 1.5 for HTTP/2 (1.5 times as long) and 1.6 for HTTP/1.1 (1.6 times as long).",
        ),
        # two of 2.1 and 1.9: logarithms of the ratios have a mean of log 0.55
        (
            SMALL,
            r"HTTP/3 leads: page load time \(median\) 1.1 s against 2 for HTTP/2 \(1\.82 times as long \[.*\]\) and 2.1 for HTTP/1.1 .*.",
        ),
        (
            EVEN,
            r"No variant leads: the largest difference of page load time \(median\) is .* with .* s against .*not significant .*",
        ),
    ],
    ids=["skewed", "small", "even"],
)
def test_the_headline_names_whom_the_table_names(
    synthetic: ModuleType, tmp_path: Path, times: dict[str, Sequence[float]], message: str
) -> None:
    material = _loads(synthetic, tmp_path / "s", times)
    found = findings(material)
    assert found == message or re.fullmatch(message, found), found
    named = _named(material)
    assert {arm for arm in PageLoads(material).variants if found.startswith(f"{arm} leads")} == named


def test_an_arm_that_finishes_less_is_not_ahead(synthetic: ModuleType, tmp_path: Path) -> None:
    """The loads that take longest are those that do not finish."""
    material = _loads(synthetic, tmp_path / "s", {name: (*of, 3.0) for name, of in SMALL.items()}, "3")
    message = findings(material)
    assert message.startswith("No variant leads: ")
    assert message.endswith(", but fewer of its loads finished.")
    assert not _named(material)


def test_amounts_are_no_arms(synthetic: ModuleType, tmp_path: Path) -> None:
    """A sweep over the number of users was headed "None is ahead: goodput of count 1 is 116 ± 117 % more"."""
    runs = [
        ({"flow.main.count": count}, seed, [synthetic.Flow("main", "cubic", 9e6 / int(count))], {"duration_s": 4.0})
        for count in ("1", "3", "10") for seed in (1, 2)
    ]  # fmt: skip
    message = findings(FigureContext(open_store(synthetic.write_store(tmp_path / "a", runs))))
    assert message == "Goodput: 9 Mbit/s at best (count 1), 0.9 Mbit/s at worst (count 10)."


@pytest.mark.parametrize(
    ("key", "values", "amounts"),
    [
        ("flow.f.count", ("1", "10"), True),
        ("path.s.queue", ("1 BDP", "0.5 BDP"), True),
        ("sweep.users", ("1 user", "10 users"), True),
        ("sweep.light", ("1.3 s (Moon)", "3 min"), True),
        ("path.s.down.channel.snr", ("7 dB", "-10 dB"), True),
        ("flow.f.load.http", ("1.1", "2", "3"), False),
        ("flow.f.congestion", ("bbr1", "bbr3"), False),
        ("quic.handshake", ("1-rtt", "0-rtt"), False),
        ("sweep.start", ("10 at once", "10 paced"), False),
        ("sweep.queue", ("20 ms, no buffer", "20 ms, 125 packets"), False),
        ("tcp.pacing", ("true", "false"), False),
    ],
)
def test_amounts(key: str, values: tuple[str, ...], amounts: bool) -> None:
    assert Dimension("", (key,), values, "other").is_quantity == amounts


# --- a study --------------------------------------------------------------------------------------------------


def _row(name: str, published: float, why: str = "", values: tuple[float, ...] = (9.3, 9.5, 9.4)) -> Row:
    return Row(name, name, "table 1", "paper", (Quantity("goodput", published, values),), why)


def _claim(verdict: Verdict, why: str = "") -> Claim:
    return Claim("c", "it holds", "it must", "paper", (Fact("it", "1", "1", verdict),), why)


def _study(rows: Sequence[Row], claims: Sequence[Claim] = ()) -> str:
    message = of_study(Findings(tuple(rows), tuple(claims), (), "95 %"))
    return f"{message.sentence} {message.tally}".strip()


def test_a_study_that_agrees() -> None:
    assert _study([_row("a", 9.4), _row("b", 9.41)], [_claim(Verdict.AGREES)]) == (
        "All 3 agree with the publication. Rated: 2 published rows and 1 claim."
    )


def test_a_study_of_which_nothing_agrees() -> None:
    message = _study([_row("a", 3.0), _row("b", 4.0)])
    assert message.startswith("None of 2 agrees with the publication; 2 differ.")
    assert message.endswith("None of the other items is explained.")


def test_a_study_of_which_some_agrees() -> None:
    why = "The stack sends more. It is newer."
    claims = [_claim(Verdict.CALIBRATED), _claim(Verdict.DIFFERS, "Another reason.")]
    message = _study([_row("a", 9.4), _row("b", 3.0, why), _row("c", 4.0, why), _row("d", 5.0)], claims)
    assert message.startswith("1 of 6 agrees with the publication; 4 differ and 1 calibrated.")
    assert message.endswith(
        "3 of the 4 items that do not agree are explained, 2 of them alike: The stack sends more."
    )


def test_a_study_begins_with_its_main_result() -> None:
    """The assumption follows, then the verdicts of what has run; three interpretations of a claim are one claim."""
    claims = [
        replace(_claim(verdict, "It is old. It is slow."), interpretation=text)
        for verdict, text in ((Verdict.AGREES, "cubic"), (Verdict.DIFFERS, "bbr"), (Verdict.DIFFERS, "hybla"))
    ]
    missing = _row("b", 3.0, values=())
    main = MainResult("QUIC takes twice as long; they found so too.", "The proxy decides it.")
    findings = Findings((_row("a", 9.4), missing), tuple(claims), (), "95 %", main_result=main)
    found = of_study(findings)
    assert found.sentence == main.sentence
    assert found.tally == (
        "The proxy decides it. 2 of 4 agree with the publication; 2 differ. "
        "Rated: 1 published row and 1 claim with 4 verdicts, under 4 interpretations (queue). "
        "1 of 5 verdicts needs runs that are missing. "
        "All of the 2 items that do not agree are explained so: It is old."
    )
    assert findings.decided().rows == findings.rows[:1]
    of_part = of_study(replace(findings, needs_other_parts=True))
    assert " 1 of 5 verdicts needs runs of other parts. " in of_part.tally


def test_a_study_of_one_seed() -> None:
    message = _study([_row("a", 9.4, values=(9.4,))])
    assert message.startswith("None of 1 agrees with the publication; 1 undecided.")
    assert message.endswith("They rest on one seed each; one seed gives no confidence interval.")


def test_a_study_that_has_not_run() -> None:
    assert _study([_row("a", 9.4, values=())]) == "No verdict yet, because runs are missing: 1 published row."
    assert "no published value" in _study([])


def test_words_are_explained_where_they_stand() -> None:
    meanings = term_definitions(Findings((), (), (), "", interpretation_title="queue"))
    grid = tabular([{"queue": "deep", "verdict": "differs (1 of 2 hold)", "witness: PLT, s": 7.0}])
    assert grid is not None
    found = add_tooltips(grid, meanings)
    assert [bool(head.hint) for head in found.heads] == [True, False, True]
    assert [getattr(cell, "hint", "")[:22] for cell in found.rows[0].cells] == [
        "",
        "the published value is",
        "",
    ]


# --- a comparison of both clocks ------------------------------------------------------------------------------


def compared(*verdicts: Equivalence, seeds: int = 3) -> list[Compared]:
    low, high = (None, None) if seeds == 1 else (0.02, 0.04)
    mean = ConfidenceInterval(5e6, None, None, seeds)
    return [
        Compared({}, f"f{at}", "down", "cubic", METRICS["goodput_bit_s"], mean, mean,
                 ConfidenceInterval(0.03, low, high, seeds), one)
        for at, one in enumerate(verdicts)
    ]  # fmt: skip


def test_agreement_of_all_some_and_none() -> None:
    within, beyond, shown = Equivalence.WITHIN, Equivalence.EXCEEDED, Equivalence.UNBOUNDED
    assert (
        of_agreement(compared(within, within)).sentence == "All 2 metrics of simulation and emulation agree."
    )
    some = of_agreement(compared(within, beyond, within, shown))
    assert some.sentence == "2 of 3 metrics of simulation and emulation agree within their bounds."
    assert some.tally == ("1 outside: goodput of f1 (cubic) by +3.0 ± 1.0 %; 1 metric has no bound.")
    assert of_agreement(compared(beyond, beyond)).sentence == "No metric of 2 is shown to agree."
    assert "no metric has a bound" in of_agreement(compared(shown)).sentence
    assert of_agreement([]).sentence == "No run has finished in both simulation and emulation."


def test_agreement_of_one_seed() -> None:
    message = of_agreement(compared(Equivalence.WITHIN, Equivalence.UNDECIDED, seeds=1))
    assert message.sentence.startswith("1 of 2 metrics of simulation and emulation agree")
    assert message.tally == (
        "1 undecided: goodput of f1 (cubic) by +3 %; one seed gives no confidence interval."
    )


# --- a map ----------------------------------------------------------------------------------------------------


def _map(*seeds: Sequence[float | None], draws: bool = False) -> Map:
    """A map of these load times of QUIC over split TCP, a list a seed; TCP has no runs."""
    question = parse_config(
        access("satcom-2018"), sizes=("1 kB", "10 kB", "100 kB"), rtts=("40 ms", "600 ms"), pep=("plain",)
    )
    times = {}
    for place, (size, rtt) in enumerate(itertools.product(question.sizes, question.rtts)):
        of_quic = {seed: one[place] for seed, one in enumerate(seeds, 1)}
        times["QUIC", size, rtt] = LoadTimes({seed: value for seed, value in of_quic.items() if value}, 50.0)
        times["plain PEP", size, rtt] = LoadTimes(dict.fromkeys(of_quic, 1.0), 50.0)
    return build_map(question, times, "1.2.3", {"QUIC", "plain PEP"} if draws else ())


def test_a_map_counts_its_points() -> None:
    found = supporting_text(_map((0.5, 0.5, 0.5, 2.0, 1.0, 3.0)))
    assert found.endswith(
        "faster in 2 and slower in 3; 6 more have no result (–), because runs are missing, or neither load finished. "
        "In 1, the difference is at most 1 %."
    )
    one = supporting_text(_map((0.5, 0.5, 0.5, 2.0, 1.0, None), draws=True))
    assert one.endswith(
        "faster in 1 and slower in 3; 7 more have no result (–), because runs are missing, or neither load finished; "
        "one seed gives no confidence interval. In 1, the difference is at most 1 %."
    )
    several = [
        tuple(value * (1 + seed / 100) for value in (0.5, 0.5, 0.5, 2.0, 1.0, 3.0)) for seed in range(5)
    ]
    assert supporting_text(_map(*several, draws=True)).endswith("intervals of 95 % from 5 seeds.")
