"""``check`` and ``schema``: a scenario without a run."""

from __future__ import annotations

from typing import Any

from bentpipe.cli.common import AsJson, ScenarioFile, Seeds, Settings, count, read_plan

__all__ = ["check", "schema"]


def check(
    file: ScenarioFile, settings: Settings = None, seeds: Seeds = None, as_json: AsJson = False
) -> None:
    """Say what is wrong with a scenario, or what follows from it. Nothing runs."""
    from dataclasses import asdict

    from bentpipe.bounds import bounds, estimate_seconds
    from bentpipe.runners.local import cores
    from bentpipe.sweep import describe
    from bentpipe.terminal import emit, print_table

    plan = read_plan(file, settings, seeds)
    found = bounds(plan)
    estimate = estimate_seconds(plan, cores())
    if as_json:
        emit(
            {
                "title": plan.title,
                "engine": plan.engine,
                "cells": len(plan.cells),
                "runs": len(plan.runs),
                "link_seconds": plan.link_seconds,
                "estimated_seconds": round(estimate, 1),
                "bounds": [asdict(bound) for bound in found],
            }
        )
        return
    print(
        f"{plan.title}: {count(plan.cells, 'cell')}, {count(plan.runs, 'run')}, "
        f"{plan.link_seconds:,.0f} s of link time,"
    )
    print(f"about {max(estimate, 1):,.0f} s on {cores()} processors")
    by_bound: dict[tuple[Any, ...], list[str]] = {}
    for bound in found:
        row = {key: value for key, value in asdict(bound).items() if key != "cell"}
        by_bound.setdefault(tuple(row.items()), []).append(describe(bound.cell))
    rows = []
    for items, cells in by_bound.items():
        row = dict(items)
        rows.append(
            {
                "flow": row["flow"],
                "rate": None if row["rate_bit_s"] is None else row["rate_bit_s"] / 1e6,
                "least RTT": row["min_rtt_ms"],
                "BDP": row["bdp_bytes"],
                "queue": row["queue_bytes"],
                "packets": row["queue_packets"],
                "slow start": row["slow_start_s"],
                "goodput": None if row["goodput_bit_s"] is None else row["goodput_bit_s"] / 1e6,
                "cells": cells[0] if len(cells) == 1 else len(cells),
            }
        )
    print_table(
        rows,
        "What no run of it can beat",
        {
            "rate": "rate Mbit/s",
            "least RTT": "least RTT ms",
            "BDP": "BDP bytes",
            "queue": "queue bytes",
            "packets": "queue packets",
            "slow start": "slow start s",
            "goodput": "goodput ≤ Mbit/s",
        },
    )


def schema() -> None:
    """Print the JSON schema of scenarios, for editors."""
