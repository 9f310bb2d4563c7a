"""Delivery bound of a plan (docs/explanation/contacts.md), for given bundles and for those of a run.

It is an upper bound of the bytes delivered by each instant, and so a lower bound of each delivery time.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bentpipe.dtn.route_query import instant, pair, quantity
from bentpipe.dtn.summary import warning_lines
from bentpipe.metrics.format import CommandOutput, TextTable
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.quantities import Duration, Size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.dtn.contact_plan import CheckedPlan

__all__ = ["BundleSeries", "Curve", "bound_deliveries", "curve"]

MAX_CORNERS = 12
"""Maximum number of printed corners of a curve."""


@dataclass(frozen=True)
class BundleSeries:
    """Bundles that arrive at a node one after the other; texts as in the options."""

    source: str
    destination: str
    at: str = "0 s"
    size: str = "1 MB"
    count: int = 1
    every: str = "0 s"
    store: Sequence[str] = ()
    """``NODE=SIZE``: capacity of a node; unlimited without an entry."""


@dataclass(frozen=True)
class Curve:
    """Upper bound of the bytes at a destination over time: linear between corners (s, bytes), never decreasing."""

    corners: Sequence[tuple[float, float]]
    above_bytes: float | None
    """Maximum excess over the optimum in bytes; None: unknown."""
    arrivals_s: Sequence[float | None]
    """Earliest arrival of each supply in s, if they are sent in the order of their instants."""

    def arrival(self, bytes_: float) -> float | None:
        """Return the earliest instant in s for a number of bytes; None: never."""
        index = bisect_left(self.corners, bytes_, key=lambda corner: corner[1])
        if index == len(self.corners):
            return None
        time, upper = self.corners[index]
        if index == 0:
            return time
        previous_time, lower = self.corners[index - 1]
        return previous_time + (time - previous_time) * (bytes_ - lower) / (upper - lower)

    def delivered(self, time: float) -> float:
        """Return the maximum bytes at an instant in s."""
        index = bisect_left(self.corners, time, key=lambda corner: corner[0])
        if index == len(self.corners):
            return self.corners[-1][1] if self.corners else 0.0
        end, upper = self.corners[index]
        if index == 0:
            return upper if time >= end else 0.0
        previous_time, lower = self.corners[index - 1]
        return lower + (upper - lower) * (time - previous_time) / (end - previous_time)


def curve(
    plan: Mapping[str, Any], supplies: Sequence[tuple[str, int, int]], to: str, stores: Mapping[str, int]
) -> Curve:
    """Return the upper bound of the bytes at ``to``.

    Args:
        plan: plan as the engine reads it.
        supplies: node, ns since the zero of the plan, bytes.
        to: destination node.
        stores: capacities of nodes in bytes; unlimited without an entry.

    Raises:
        ScenarioError: a node that the plan does not have.
    """
    try:
        query = {"plan": dict(plan), "supplies": list(supplies), "to": to, "stores": dict(stores)}
        bound = _compute(json.dumps(query))
    except ValueError as error:
        field, _, text = str(error).partition(": ")
        raise ScenarioError([({"supplies": "FROM", "to": "TO"}.get(field, ""), text or str(error))]) from None
    return Curve(
        [(time / 1e9, bytes_) for time, bytes_ in bound["breakpoints"]],
        bound["max_excess_bytes"],
        [None if time is None else time / 1e9 for time in bound["arrivals_ns"]],
    )


@lru_cache(maxsize=4)
def _compute(question: str) -> Mapping[str, Any]:
    """Compute the bound, cached: large plans take seconds, and runs often differ in other settings only."""
    return engine.best_delivery(json.loads(question))


def bound_deliveries(plan: CheckedPlan, series: BundleSeries) -> CommandOutput:
    """Return the earliest arrivals of bundles.

    Args:
        plan: contact plan.
        series: bundles.

    Raises:
        ScenarioError: invalid query.
    """
    size = quantity(Size, "--size", series.size).bytes
    first, every = instant(plan, series.at), quantity(Duration, "--interval", series.every).ns
    stores = {}
    named = {one[end] for one in plan.spec["contacts"] for end in ("from", "to")}
    for text in series.store:
        node, most = pair("--store", text, "NODE=SIZE, such as 3=2 MB")
        if node not in named:
            raise ScenarioError([("--store", unknown_name(node, sorted(named), "node"))])
        stores[node] = quantity(Size, "--store", most).bytes
    supplies = [(series.source, first + number * every, size) for number in range(series.count)]
    bound = curve(plan.spec, supplies, series.destination, stores)
    arrivals = [at for at in bound.arrivals_s if at is not None]
    rows = [
        {"bundle": number, "created_s": supply[1] / 1e9, "earliest_s": at}
        for number, (supply, at) in enumerate(zip(supplies, bound.arrivals_s, strict=True), 1)
    ]
    data = {
        "plan": plan.name, "from": series.source, "to": series.destination, "bytes": size, "count": series.count,
        "delivered_bundles": len(arrivals),
        "first_s": min(arrivals, default=None), "last_s": max(arrivals, default=None),
        "above_bytes": bound.above_bytes, "corners": [{"time_s": at, "bytes": held} for at, held in bound.corners],
        "bundles": rows,
        "warnings": [{"at": list(warning.at), "text": warning.text} for warning in plan.warnings],
    }  # fmt: skip
    subject = series.size if series.count == 1 else f"{series.count:,} bundles of {series.size}"
    journey = f"from {series.source} to {series.destination}"
    if not arrivals:
        highest = max((held for _, held in bound.corners), default=0.0)
        head = f"No protocol delivers {subject} {journey} by this plan: at most {highest / 1e6:.4g} MB can arrive."
    elif series.count == 1:
        head = f"No protocol delivers {subject} {journey} before {_instant(arrivals[0])} s."
    elif len(arrivals) == series.count:
        head = (
            f"No protocol delivers {subject} {journey} before {_instant(max(arrivals))} s, "
            f"or the first of them before {_instant(min(arrivals))} s."
        )
    else:
        head = (
            f"No protocol delivers more than {len(arrivals):,} of {subject} {journey} by this plan, "
            f"or the first before {_instant(min(arrivals))} s and the last before {_instant(max(arrivals))} s."
        )
    output: list[str | TextTable] = [head]
    if bound.above_bytes is None:
        output.append(
            "The plan has too many instants for an exact result: no delivery can be earlier, but "
            "not all of these are possible."
        )
    step = max(1, -(-len(bound.corners) // MAX_CORNERS))
    corners = [*bound.corners[::step], *(bound.corners[-1:] if (len(bound.corners) - 1) % step else [])]
    note = f" ({len(corners)} of {len(bound.corners):,} corners; --json has all)" if step > 1 else ""
    if corners:
        title = f"Upper bound of the bytes at {series.destination} over time{note}"
        output += [
            "",
            TextTable(title, [{"time, s": _instant(at), "bytes": round(held)} for at, held in corners]),
        ]
    return CommandOutput(data, (*output, *warning_lines(plan)))


def _instant(seconds: float) -> str:
    """Format seconds to the millisecond, without trailing zeros."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
