"""Commands ``check`` and ``schema``: validation of a scenario without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.cli.common import (
    AsJson,
    Controllers,
    ScenarioFile,
    Seeds,
    Settings,
    Sweeps,
    count,
    read_plan,
    repetition_text,
)

if TYPE_CHECKING:
    from bentpipe.plan.analysis.bounds import Bound, SegmentStart
    from bentpipe.plan.plan import Plan

__all__ = ["check", "schema"]


def check(
    file: ScenarioFile,
    settings: Settings = None,
    sweeps: Sweeps = None,
    controllers: Controllers = None,
    seeds: Seeds = None,
    as_json: AsJson = False,
) -> None:
    """Validate a scenario and print its plan and performance bounds."""
    from dataclasses import asdict

    from bentpipe.api.check import list_coded_bits, list_nr_links
    from bentpipe.cli.console import emit, print_table
    from bentpipe.metrics.registry import METRICS
    from bentpipe.plan.analysis.bounds import bounds
    from bentpipe.plan.analysis.lint import lint_plan
    from bentpipe.plan.cost import estimate_plan
    from bentpipe.runners.local import cores
    from bentpipe.scenario.sweep import describe_cell

    plan, _ = read_plan(file, settings, seeds, sweeps=sweeps, controllers=controllers)
    flow_bounds, coded, nr_rows_of_plan = bounds(plan), list_coded_bits(plan), list_nr_links(plan)
    estimate = estimate_plan(plan, cores())
    if as_json:
        emit(
            {
                "title": plan.title,
                "engine": plan.engine,
                "cells": len(plan.cells),
                "runs": len(plan.runs),
                "link_seconds": plan.link_seconds,
                "estimated_seconds": round(estimate.seconds, 1),
                "run_events": round(estimate.run_events),
                "run_memory_bytes": round(estimate.run_memory_bytes),
                "bounds": [asdict(bound) for bound in flow_bounds],
                "warnings": [asdict(message) for message in lint_plan(plan)],
            }
            | ({"coded_bits": [asdict(one) for one in coded]} if coded else {})
            | ({"nr_links": [asdict(one) for one in nr_rows_of_plan]} if nr_rows_of_plan else {})
        )
        return
    print(
        f"{plan.title}: {count(plan.cells, 'cell')}, {count(plan.runs, 'run')}, "
        f"{plan.link_seconds:,.0f} s of link time,"
    )
    print(f"about {max(estimate.seconds, 1):,.0f} s on {cores()} processors")
    print(
        f"largest run: about {_rounded(estimate.run_events)} events and "
        f"{_rounded(estimate.run_memory_bytes / 1e6)} MB of memory"
    )
    for line in _plan_notes(plan):
        print(line)
    cells_by_bound: dict[tuple[Any, ...], list[str]] = {}
    for bound in flow_bounds:
        row = {key: value for key, value in asdict(bound).items() if key not in ("cell", "segments")}
        cells_by_bound.setdefault(tuple(row.items()), []).append(describe_cell(bound.cell))
    rows = []
    for items, cells in cells_by_bound.items():
        row = dict(items)
        rows.append(
            {
                "flow": row["flow"],
                "rate": None if row["rate_bit_s"] is None else row["rate_bit_s"] / 1e6,
                "least RTT": row["min_rtt_ms"],
                "BDP": row["bdp_bytes"],
                "queue": row["queue_bytes"],
                "packets": row["queue_packets"],
                "one-way": row["slow_start_one_way_s"],
                "two-way": row["slow_start_s"],
                "first byte": row["first_byte_s"],
                "goodput": None if row["goodput_bit_s"] is None else row["goodput_bit_s"] / 1e6,
                "cells": cells[0] if len(cells) == 1 else len(cells),
            }
        )
    if not any(row["first byte"] is not None for row in rows):
        rows = [{key: value for key, value in row.items() if key != "first byte"} for row in rows]
    print_table(
        rows,
        "Performance bounds",
        {
            "rate": METRICS["rate_bit_s"].heading,
            "least RTT": METRICS["rtt_min_ms"].heading,
            "BDP": "BDP bytes",
            "queue": "queue bytes",
            "packets": "queue packets",
            "one-way": "slow start s, one-way BDP",
            "two-way": "slow start s, two-way BDP",
            "first byte": "first byte s",
            "goodput": "goodput ≤ Mbit/s",
        },
    )
    if coded:
        rows = [
            {
                "radio link": one.link,
                "information bits": one.information_bits,
                "coded bits by attempt": " + ".join(f"{bits:,}" for bits in one.coded_bits),
                "cell": describe_cell(one.cell),
            }
            for one in coded
        ]
        print_table(rows, "Coded bits per frame")
    if nr_rows_of_plan:
        rows = [
            {
                "5G link": one.link,
                "HARQ processes": one.processes,
                "without feedback": one.without_feedback,
                "cycle, slots": one.cycle_slots,
                "slots used ≤ %": round(100 * one.utilisation, 2),
                "blocks ≤ Mbit/s": one.rate_bit_s / 1e6,
                "cell": describe_cell(one.cell),
            }
            for one in nr_rows_of_plan
        ]
        print_table(rows, "Slot utilisation by HARQ")
    segments = _segment_rows(flow_bounds)
    if segments:
        print_table(segments, "Slow start of split TCP by segment")


def _plan_notes(plan: Plan) -> list[str]:
    """Return the number of runs by cells and seeds, loads by default, and links whose rate varies."""
    notes = []
    if text := repetition_text(plan):
        notes.append(f"runs: {text}")
    flows = {
        flow.name: flow
        for cell in plan.cells
        for flow in cell.scenario.flow
        if flow.load is None and flow.transport != "udp"
    }
    notes += [f"load of {name}: by default, data until the end of the run" for name in flows]
    rates: dict[str, tuple[int, int]] = {}
    for cell in plan.cells:
        for link in cell.resolved.spec["graph"]["links"]:
            for direction in ("up", "down"):
                for stage in link["up"] if direction == "up" else link["down"]:
                    service = stage["service"] if stage["kind"] == "transmit" else None
                    if service is not None and service["kind"] == "reconfiguration":
                        values = service["rate_bit_s"]
                        rates[f"{link['name']}.{direction}"] = (min(values), max(values))
    notes += [
        f"rate of {name}: random from {low / 1e6:g} to {high / 1e6:g} Mbit/s; "
        "the bounds have the largest rate and the least delay"
        for name, (low, high) in rates.items()
    ]
    return notes


def _rounded(value: float) -> str:
    """Return a number with two significant digits."""
    return f"{float(f'{value:.2g}'):,.0f}"


def _segment_rows(flow_bounds: list[Bound]) -> list[dict[str, Any]]:
    """Return the rows of the segments of split TCP; the longest segment is marked.

    Cells with equal values share a row.
    """
    from bentpipe.scenario.sweep import describe_cell

    cells_by_segments: dict[tuple[str, tuple[SegmentStart, ...]], list[str]] = {}
    for bound in flow_bounds:
        if bound.segments:
            cells_by_segments.setdefault((bound.flow, bound.segments), []).append(describe_cell(bound.cell))
    return [
        {
            "flow": flow,
            "segment": one.segment,
            "RTT ms": one.rtt_ms,
            "slow start s, one-way BDP": one.one_way_s,
            "slow start s, two-way BDP": one.two_way_s,
            "": "longest" if one.longest else "",
            "cells": cells[0] if len(cells) == 1 else len(cells),
        }
        for (flow, segments), cells in cells_by_segments.items()
        for one in segments
    ]


def schema() -> None:
    """Print the JSON schema of scenarios, for editors."""
    from bentpipe.cli.console import emit
    from bentpipe.scenario.model import Scenario

    emit({"$schema": "https://json-schema.org/draft/2020-12/schema", **Scenario.model_json_schema()})
