"""What a plan allows at best (docs/models/contacts.md): of bundles that are asked for, and of those of a run."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bentpipe.dtn.route_query import instant, pair, quantity
from bentpipe.metrics.format import CommandOutput, TextTable
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.quantities import Duration, Size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.dtn.contact_plan import Found

__all__ = ["BundleSeries", "Curve", "best", "curve"]

SHOWN = 12
"""Corners of a curve that are printed."""


@dataclass(frozen=True)
class BundleSeries:
    """Bundles that come to a node one after the other; texts as the command has them."""

    source: str
    destination: str
    at: str = "0 s"
    size: str = "1 MB"
    count: int = 1
    every: str = "0 s"
    store: Sequence[str] = ()
    """``NODE=SIZE``: what a node can keep; without one, all."""


@dataclass(frozen=True)
class Curve:
    """What a destination can have at best by when: linear between corners (s, bytes), never falling."""

    corners: Sequence[tuple[float, float]]
    above_bytes: float | None
    """How far above the optimum it may be; None where that is not known."""
    arrivals_s: Sequence[float | None]
    """When each supply is there at the earliest if they go in order of their times."""

    def arrival(self, bytes_: float) -> float | None:
        """When so many bytes can be there at the earliest; None: never."""
        place = bisect_left(self.corners, bytes_, key=lambda corner: corner[1])
        if place == len(self.corners):
            return None
        at, most = self.corners[place]
        if place == 0:
            return at
        before, least = self.corners[place - 1]
        return before + (at - before) * (bytes_ - least) / (most - least)

    def delivered(self, at: float) -> float:
        """How many bytes can be there by an instant."""
        place = bisect_left(self.corners, at, key=lambda corner: corner[0])
        if place == len(self.corners):
            return self.corners[-1][1] if self.corners else 0.0
        until, most = self.corners[place]
        if place == 0:
            return most if at >= until else 0.0
        before, least = self.corners[place - 1]
        return least + (most - least) * (at - before) / (until - before)


def curve(
    plan: Mapping[str, Any], supplies: Sequence[tuple[str, int, int]], to: str, stores: Mapping[str, int]
) -> Curve:
    """The most that a plan lets ``to`` have.

    Args:
        plan: in the engine's words.
        supplies: node, nanoseconds since the plan's zero, bytes.
        to: a node.
        stores: bytes that nodes can keep; without an entry, all.

    Raises:
        ScenarioError: a node that the plan does not know.
    """
    try:
        question = {"plan": dict(plan), "supplies": list(supplies), "to": to, "stores": dict(stores)}
        found = _found(json.dumps(question))
    except ValueError as error:
        field, _, text = str(error).partition(": ")
        raise ScenarioError([({"supplies": "FROM", "to": "TO"}.get(field, ""), text or str(error))]) from None
    return Curve(
        [(at / 1e9, held) for at, held in found["corners"]],
        found["above_bytes"],
        [None if at is None else at / 1e9 for at in found["arrivals_ns"]],
    )


@lru_cache(maxsize=4)
def _found(question: str) -> Mapping[str, Any]:
    """Of a plan of many contacts it takes seconds, and runs that differ in something else ask the same."""
    return engine.best_delivery(json.loads(question))


def best(found: Found, asked: BundleSeries) -> CommandOutput:
    """When bundles can be there at the earliest. Raises ScenarioError: what is wrong with the question."""
    size = quantity(Size, "--size", asked.size).bytes
    first, every = instant(found, asked.at), quantity(Duration, "--interval", asked.every).ns
    stores = {}
    named = {one[end] for one in found.spec["contacts"] for end in ("from", "to")}
    for text in asked.store:
        node, most = pair("--store", text, "NODE=SIZE, such as 3=2 MB")
        if node not in named:
            raise ScenarioError([("--store", unknown_name(node, sorted(named), "node"))])
        stores[node] = quantity(Size, "--store", most).bytes
    supplies = [(asked.source, first + number * every, size) for number in range(asked.count)]
    made = curve(found.spec, supplies, asked.destination, stores)
    there = [at for at in made.arrivals_s if at is not None]
    rows = [
        {"bundle": number, "created_s": supply[1] / 1e9, "earliest_s": at}
        for number, (supply, at) in enumerate(zip(supplies, made.arrivals_s, strict=True), 1)
    ]
    data = {
        "plan": found.name, "from": asked.source, "to": asked.destination, "bytes": size, "count": asked.count,
        "delivered_bundles": len(there), "first_s": min(there, default=None), "last_s": max(there, default=None),
        "above_bytes": made.above_bytes, "corners": [{"time_s": at, "bytes": held} for at, held in made.corners],
        "bundles": rows,
    }  # fmt: skip
    what = asked.size if asked.count == 1 else f"{asked.count:,} bundles of {asked.size}"
    head = f"{what} from {asked.source} to {asked.destination} at best: "
    if not there:
        head += "none can be there whole"
    elif asked.count == 1:
        head += f"there at {there[0]:.9g} s"
    else:
        head += f"{len(there):,} there, the first at {min(there):.9g} s, the last at {max(there):.9g} s"
    shown: list[str | TextTable] = [head]
    if made.above_bytes is None:
        shown.append(
            "The plan has too many instants to be exact: nothing is earlier than this, not all of it can be had."
        )
    step = max(1, -(-len(made.corners) // SHOWN))
    kept = [*made.corners[::step], *(made.corners[-1:] if (len(made.corners) - 1) % step else [])]
    some = f" ({len(kept)} of {len(made.corners):,} corners; --json has all)" if step > 1 else ""
    if kept:
        title = f"What {asked.destination} can have by then{some}"
        shown += ["", TextTable(title, [{"by, s": f"{at:.9g}", "bytes": round(held)} for at, held in kept])]
    return CommandOutput(data, tuple(shown))
