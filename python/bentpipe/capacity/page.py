"""Output files of a capacity: ``capacity.html``, ``.svg``, ``.pdf``, ``.json`` and ``scenario.toml``."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from bentpipe.capacity.figures import figure
from bentpipe.capacity.headline import headline_text, share_text, supporting_text
from bentpipe.metrics.format import format_mean
from bentpipe.metrics.intervals import mean_ci, round_significant
from bentpipe.report.headline import Headline
from bentpipe.report.html_table import tabular
from bentpipe.report.page import Page
from bentpipe.store.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.capacity.search import Capacity, Evaluation

__all__ = ["evaluation_rows", "to_data", "write"]


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
    page = Page(f"Users of {result.config.access.title}")
    return page.write(
        out / "capacity.html", "capacity/page.html", Headline(headline_text(result), supporting_text(result)),
        figure=page.drawing(drawn), rows=tabular(evaluation_rows(result)), scenario=scenario, engine=result.engine,
        seeds=len(result.limits),
    )  # fmt: skip


def to_data(result: Capacity) -> dict[str, Any]:
    """Return the result as plain data."""
    config, interval = result.config, result.interval
    criterion, share = config.criterion, config.criterion.share
    return {
        "answer": headline_text(result),
        "engine": result.engine,
        "access": config.access.name,
        "mix": {kind: config.mix[kind] for kind in config.kinds},
        "mos": criterion.mos,
        "page_s": None if criterion.page is None else criterion.page.ns / 1e9,
        "share": share,
        "users": interval.estimate,
        "users_low": interval.low,
        "users_high": interval.high,
        "at_least": result.is_bounded_by_search,
        "users_by_seed": {str(seed): limit for seed, limit in result.limits.items()},
        "estimate": {
            "users": result.estimate.users,
            "rates_bit_s": result.estimate.rates,
            "load_of_user_bit_s": result.estimate.loads,
        },
        "runs": [_run_data(one, share) for one in result.evaluations],
    }  # fmt: skip


def _run_data(one: Evaluation, share: float) -> dict[str, Any]:
    quality = one.quality
    values = {
        "mos": quality.mos_of(share), "mos_median": quality.mos_of(0.5), "page_s": quality.page_of(share),
        "page_median_s": quality.page_of(0.5),
    }  # fmt: skip
    counts = {f"{kind}_users": number for kind, number in one.counts.items()}
    rounded = {name: round_significant(value) for name, value in values.items()}
    return {"users": one.users, **counts, "seed": one.seed, **rounded, "holds": not one.failed}


def evaluation_rows(result: Capacity) -> list[dict[str, Any]]:
    """Return the quality by number of users: means over the seeds that ran, with their intervals."""
    share = result.config.criterion.share
    rows = []
    for users, group in itertools.groupby(result.evaluations, key=lambda one: one.users):
        runs = list(group)
        row: dict[str, Any] = {"users": users, **runs[0].counts}
        scores = [value for one in runs if (value := one.quality.mos_of(share)) is not None]
        times = [value for one in runs if (value := one.quality.page_of(share)) is not None]
        if "call" in runs[0].counts:
            row[f"MOS, {share_text(share)}"] = format_mean(mean_ci(scores)) if scores else None
        if "page" in runs[0].counts:
            row[f"page load time, {share_text(share)}, s"] = format_mean(mean_ci(times)) if times else None
        row["good enough"] = f"{sum(not one.failed for one in runs)} of {len(runs)} seeds"
        rows.append(row)
    return rows
