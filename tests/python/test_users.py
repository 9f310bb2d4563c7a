"""Users that share a link: what each had, over all of them and over seeds; as a table, a figure and in a report."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import bentpipe
from bentpipe.figures.registry import FIGURES, FigureContext
from bentpipe.metrics.store_comparison import compare_stores as compare
from bentpipe.metrics.summary_table import user_numbers, user_tables
from bentpipe.metrics.users import SHARED, aggregate_cells, aggregate_users, user_metrics
from bentpipe.store.reader import Store, open_store
from commands import bentpipe as command
from test_schedulers import radio

SCHEDULERS = ["drop-tail", "round-robin", "proportional-fair", "codes"]


def scenario(**flow: Any) -> dict[str, Any]:
    data = radio("round-robin", queue="20 packets")
    data["flow"][0] |= {"count": 5, "congestion": "cubic", **flow}
    data["flow"].append(
        {
            "name": "gold",
            "user": "gold",
            "direction": "down",
            "congestion": "newreno",
            "load": {"time": "3 s"},
        }
    )
    return data | {"seeds": 2, "sweep": {"path.s.down.scheduler": SCHEDULERS}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    out = tmp_path_factory.mktemp("users") / "store"
    bentpipe.run(scenario(), out=out)
    return open_store(out)


def test_each_user_is_a_row_with_the_counters_of_its_link(store: Store) -> None:
    users = user_metrics(store)
    assert users.height == 2 * len(SCHEDULERS) * 6
    assert users["user"].unique().sort().to_list() == [1, 2, 3, 4, 5, 6]
    assert dict(users.group_by("flow").len().sort("flow").iter_rows()) == {"gold": 8, "web": 40}
    by_run = users.group_by("run").agg(
        pl.col("goodput_bit_s").sum(), pl.col("airtime_s").sum(), pl.col("end_s").first()
    )
    assert (by_run["goodput_bit_s"] < 20e6).all()
    assert (by_run["airtime_s"] <= by_run["end_s"]).all()
    queued = users.filter(pl.col("path.s.down.scheduler") != "drop-tail")
    assert queued["arrived_packets"].min() > 0  # type: ignore[operator]
    assert users.filter(pl.col("path.s.down.scheduler") == "drop-tail")["arrived_packets"].is_null().all()
    assert set(users["link"]) == {"s.down"}
    # No flow is user 0 here.
    assert store.rows("radio_users")["user"].unique().sort().to_list() == [1, 2, 3, 4, 5, 6]


def test_users_are_compared_by_the_least_and_the_mean_of_them(store: Store) -> None:
    changes = [c for c in compare(store, store).changes if c.flow == "web"]
    runs = aggregate_users(user_metrics(store), list(store.columns)).filter(pl.col("flow") == "web")
    for name in ("user_goodput_min_bit_s", "user_goodput_mean_bit_s", "user_jain"):
        own = [c for c in changes if c.metric == name]
        assert sum(c.seeds for c in own) == runs.height
        assert {c.verdict for c in own} == {"none"}
        for c in own:
            ((key, value),) = c.cell.items()
            assert c.before == pytest.approx(runs.filter(pl.col(key) == value)[name].mean())
    waits = [c for c in changes if c.metric == "user_queueing_mean_ms"]
    assert sum(c.seeds for c in waits) == 6, "without drop-tail, which knows no user"


def test_statistics_are_over_the_users_of_a_run(store: Store) -> None:
    users = user_metrics(store)
    runs = aggregate_users(users, list(store.columns))
    for row in runs.iter_rows(named=True):
        own = users.filter(run=row["run"], flow=row["flow"])
        goodput = own["goodput_bit_s"].to_list()
        assert row["users"] == len(goodput) == (5 if row["flow"] == "web" else 1)
        assert row["user_goodput_min_bit_s"] == min(goodput)
        assert row["user_goodput_max_bit_s"] == max(goodput)
        assert row["user_goodput_mean_bit_s"] == pytest.approx(statistics.mean(goodput))
        assert row["user_goodput_sum_bit_s"] == pytest.approx(sum(goodput))
        if len(goodput) > 1:
            assert row["user_goodput_sd_bit_s"] == pytest.approx(statistics.stdev(goodput))
        squares = sum(one**2 for one in goodput)
        assert row["user_jain"] == pytest.approx(sum(goodput) ** 2 / (len(goodput) * squares))
        done = own["decoded_packets"].sum() + own["dropped_retry_limit_packets"].sum()
        assert row["user_first_attempt_ratio"] == pytest.approx(own["decoded_after_0_packets"].sum() / done)
        if row["path.s.down.scheduler"] == "drop-tail":
            assert row["user_queueing_mean_ms"] is None
        else:
            assert row["user_queueing_mean_ms"] == pytest.approx(
                1000 * own["queueing_sum_s"].sum() / own["sent_packets"].sum()
            )
            assert row["user_queueing_mean_ms"] <= row["user_queueing_max_ms"]
            late = own["dropped_deadline_packets"].sum() / own["arrived_packets"].sum()
            assert row["user_deadline_ratio"] == pytest.approx(late)
        assert (row["user_best_channel_ms"] is None) == (
            row["path.s.down.scheduler"] in ("drop-tail", "round-robin")
        )
    cells = aggregate_cells(runs, list(store.columns))
    assert cells.height == 2 * len(SCHEDULERS)
    assert (cells["seeds"] == 2).all()
    first = runs.filter(pl.col("path.s.down.scheduler") == "codes", flow="web")["user_jain"].mean()
    assert cells.filter(pl.col("path.s.down.scheduler") == "codes", flow="web")["user_jain"][
        0
    ] == pytest.approx(first)
    assert set(SHARED) <= set(cells.columns)


def test_the_commands_print_them(store: Store) -> None:
    shown = command(store.path, "users", ".")
    assert shown.returncode == 0
    assert "Per-user statistics" in shown.stdout
    assert "Per-user statistics" in command(store.path, "show", ".").stdout
    each = json.loads(command(store.path, "users", ".", "--json").stdout)
    assert len(each) == 2 * len(SCHEDULERS) * 6
    had, became = user_tables(store)
    assert len(had.rows) == len(became.rows) == 2 * len(SCHEDULERS)
    assert had.rows[0].keys() & became.rows[0].keys() == {"scheduler", "flow", "users", "seeds"}
    # A page has 200 columns without a terminal.
    assert max(map(len, shown.stdout.splitlines())) <= 200
    assert len(user_numbers(store)) == len(each)


def test_a_store_without_users_says_so(tmp_path: Path) -> None:
    data = scenario()
    data["flow"] = [{"name": "one", "direction": "down", "congestion": "cubic", "load": {"time": "1 s"}}]
    del data["sweep"], data["path"]["segment"][0]["down"]["scheduler"]
    bentpipe.run(data | {"seeds": 1, "duration": "1 s"}, out=tmp_path / "store")
    refused = command(tmp_path, "users", "store")
    assert refused.returncode == 2
    assert "no per-user data in this store" in refused.stderr
    assert FIGURES["user-goodput"](FigureContext(open_store(tmp_path / "store"))) is None


def test_the_figure_is_the_distribution_over_users(store: Store) -> None:
    figure = FIGURES["user-goodput"](FigureContext(store))
    assert figure is not None
    assert figure.rows <= 2_000
    assert "over 2 seeds" in figure.caption
    rows = bentpipe.open_results(store.path).user_metrics()
    assert rows.height == 2 * len(SCHEDULERS) * 6


def test_a_figure_of_two_hundred_users_stays_small(tmp_path: Path) -> None:
    data = radio("round-robin", count=200, queue="2 packets")
    data["flow"][0]["load"] = {"time": "1 s"}
    data |= {"duration": "1 s", "sample_interval": "1 s", "seeds": 1}
    bentpipe.run(data | {"sweep": {"path.s.down.scheduler": SCHEDULERS[:2]}}, out=tmp_path / "store")
    material = FigureContext(open_store(tmp_path / "store"))
    figure = FIGURES["user-goodput"](material)
    assert figure is not None
    assert figure.rows <= 2 * 202
    page = bentpipe.open_results(tmp_path / "store").report()
    assert page.stat().st_size < 5_000_000
    assert "Per-user statistics" in page.read_text(encoding="utf-8")
