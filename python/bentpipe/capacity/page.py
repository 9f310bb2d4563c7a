"""Output files of a capacity: ``capacity.html``, ``.svg``, ``.pdf``, ``.json`` and ``scenario.toml``."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bentpipe.capacity.binding import find_binding
from bentpipe.capacity.figures import figure
from bentpipe.capacity.headline import advice_text, headline_text, share_text, supporting_text
from bentpipe.metrics.format import format_mean
from bentpipe.metrics.intervals import mean_ci, round_significant
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import BRIEF, Page
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.capacity.advice import Advice
    from bentpipe.capacity.search import Capacity

__all__ = ["evaluation_rows", "table_title", "to_data", "write"]

MAX_DIGITS = 4
"""Significant digits of a mean in a table."""


def write(result: Capacity, scenario: str, out: Path) -> Path:
    """Write all files of a result into ``out`` and return the path of the page.

    Args:
        result: the result.
        scenario: scenario of its runs, as TOML.
        out: output directory.
    """
    drawn = figure(result)
    drawn.write_all([out / "capacity.svg", out / "capacity.pdf"])
    write_atomic(out / "scenario.toml", scenario.encode())
    write_atomic(out / "capacity.json", (json.dumps(to_data(result), indent=1) + "\n").encode())
    _write_brief(result, out)
    page = Page(f"Users of {result.config.access.title}")
    return page.write(
        out / "capacity.html", "capacity/page.html", Headline(headline_text(result), supporting_text(result)),
        figure=page.drawing(drawn), rows=tabular(evaluation_rows(result)), rows_title=table_title(result),
        scenario=scenario, engine=result.engine, seeds=len(result.limits),
        advice_lines=[] if result.advice is None else advice_text(result.advice),
    )  # fmt: skip


def _write_brief(result: Capacity, out: Path) -> None:
    """Write the brief page: the capacity, and quality over the number of users."""
    page = Page(f"Users of {result.config.access.title}")
    page.write(
        out / BRIEF, "capacity/brief.html", Headline(headline_text(result), supporting_text(result)),
        figure=page.drawing(figure(result)), engine=result.engine, seeds=len(result.limits),
        advice_lines=[] if result.advice is None else advice_text(result.advice),
    )  # fmt: skip


def to_data(result: Capacity) -> dict[str, Any]:
    """Return the result as plain data."""
    config, interval, binding = result.config, result.interval, find_binding(result)
    criterion, share = config.criterion, config.criterion.share
    return {
        "answer": headline_text(result),
        "engine": result.engine,
        "access": config.access.name,
        "mix": {kind: config.mix[kind] for kind in config.kinds},
        "mos": criterion.mos,
        "page_s": None if criterion.page is None else criterion.page.ns / 1e9,
        "share": share,
        "users": result.users,
        "users_low": None if interval.low is None else int(interval.low),
        "users_high": None if interval.high is None else int(interval.high),
        "users_in_all_seeds": result.all_seeds,
        "first_failing_users": result.first_failing,
        "at_least": result.is_bounded_by_search,
        "users_by_seed": {str(seed): limit for seed, limit in result.limits.items()},
        "estimate": {
            "users": result.estimate.users,
            "rates_bit_s": result.estimate.rates,
            "load_of_user_bit_s": result.estimate.loads,
        },
        "binding": None if binding is None else {
            "resources": binding.resources,
            "criterion": binding.part,
            "users": binding.users,
            "utilisation": {side: round_significant(used) for side, used in binding.utilisation.items()},
            "mos": {side: round_significant(score) for side, score in binding.mos.items()},
        },
        "page": result.page or None,
        "advice": None if result.advice is None else _advice_data(result.advice),
        "runs": [one.as_row(share) for one in result.evaluations],
    }  # fmt: skip


def _advice_data(advice: Advice) -> dict[str, Any]:
    return {
        "single_users": [
            {"kind": one.kind, "value": round_significant(one.value), "holds": one.holds} for one in advice.single_users
        ],
        "changes": [
            {
                "options": one.options, "command": one.command, "mos": round_significant(one.mos),
                "page_s": round_significant(one.page_s), "holding_seeds": one.holding_seeds, "seeds": one.seeds,
            }
            for one in advice.changes
        ],
    }  # fmt: skip


def table_title(result: Capacity) -> str:
    """Return the title of the table: statistics over users and seeds."""
    share = result.config.criterion.share
    seeds = len(result.limits)
    over = (
        ""
        if seeds == 1
        else f"; mean over the seeds in the last column, of all {seeds} with half of its 95 % interval"
    )
    return f"Worst value of the best {share_text(share)} of each kind of user{over}"


def evaluation_rows(result: Capacity) -> list[dict[str, Any]]:
    """Return the quality by number of users: means over the seeds that ran, with their intervals."""
    share = result.config.criterion.share
    rows = []
    for users, group in itertools.groupby(result.evaluations, key=lambda one: one.users):
        runs = list(group)
        row: dict[str, Any] = {"users": users, **runs[0].counts}
        scores = [value for one in runs if (value := one.quality.mos_of(share)) is not None]
        times = [value for one in runs if (value := one.quality.page_of(share)) is not None]
        seeds = len(result.limits)
        if "call" in runs[0].counts:
            row[f"MOS, p{100 - 100 * share:.3g}"] = _mean_text(scores, seeds)
        if "page" in runs[0].counts:
            row[f"page load time, p{100 * share:.3g}, s"] = _mean_text(times, seeds)
        row["criterion met"] = f"{sum(not one.failed for one in runs)} of {len(runs)} seeds"
        rows.append(row)
    return rows


def _mean_text(values: list[float], seeds: int) -> str | None:
    """Return a mean; with its interval only if all seeds ran, because other rows have other seeds."""
    if not values:
        return None
    mean = mean_ci(values)
    return format_mean(
        mean if len(values) == seeds else replace(mean, low=None, high=None), max_digits=MAX_DIGITS
    )
