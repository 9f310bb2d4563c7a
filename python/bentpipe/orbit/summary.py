"""Summary of a pair over a constellation: delays, hops, handovers by size, gaps."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import CommandOutput, TextTable
from bentpipe.metrics.intervals import format_significant
from bentpipe.report.headline import Headline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.orbit.query import RouteQuery
    from bentpipe.plan.network.constellation_routes import Handover, RouteTimeline

__all__ = ["build_headline", "coverage", "instant", "summarise"]

MAX_ROWS = 20
"""Maximum rows of handovers and of gaps in the output."""

SIZES = {
    "small": "small (one node)",
    "partial": "partial",
    "large": "large (all nodes)",
}


def summarise(query: RouteQuery, timeline: RouteTimeline) -> CommandOutput:
    """Return the summary as data and text."""
    orbit, flies = query.orbit, query.orbit.constellation
    pair = f"{orbit.from_} to {' or '.join(map(str, orbit.to))}"
    when = f"{query.duration} from {instant(timeline.start_unix_ns)}, time step {orbit.step}"
    head = f"{pair} over {flies.title}: {when}"
    hops = [route.hops for route in timeline.routes if route.hops is not None]
    data: dict[str, Any] = {
        "from": str(orbit.from_),
        "to": [str(place) for place in orbit.to],
        "constellation": flies.title,
        "satellites": len(timeline.names),
        "start": instant(timeline.start_unix_ns),
        "duration_s": timeline.duration_ns / 1e9,
        "step_s": timeline.step_ns / 1e9,
        "coverage": coverage(timeline),
        "ends": _ends(query, timeline),
        "in_reach": _reach(query, timeline),
        "one_way_delay_ms": _spread(_ms(timeline.delay_ns)),
        "last_leg_ms": _spread(_ms(timeline.last_ns)),
        "hops": {"least": min(hops, default=None), "most": max(hops, default=None)},
        "handovers": [_handover(one) for one in timeline.handovers],
        "gaps_s": [[a / 1e9, b / 1e9] for a, b in timeline.gaps],
        "routes": [
            {
                "at_s": route.at_ns / 1e9,
                "satellites": [_node(timeline, query, node) for node in route.nodes],
                "to": str(orbit.to[route.end]) if route.nodes else None,
            }
            for route in timeline.routes
        ],
    }
    shown: list[str | TextTable] = [head]
    if flies.note:
        shown.append(f"Note: {flies.note}.")
    if old := _warn_of_old_elements(query, timeline):
        shown.append(old)
    delays = _delays(timeline)
    if not delays:
        shown.append(
            "\nNo route at any time: an endpoint has no visible satellite, or the visible satellites "
            "are not connected.\n"
        )
        shown.append(TextTable("Visible satellites", _in_reach(query, timeline)))
        return CommandOutput(data, tuple(shown))
    shown += ["", TextTable("Delay", delays)]
    shown.append(
        f"\nHops: {min(hops)}{f' to {max(hops)}' if max(hops) > min(hops) else ''}. "
        f"Coverage: {100 * coverage(timeline):.4g} % of the time, {_counted(len(timeline.gaps), 'gap')}."
    )
    if len(orbit.to) > 1:
        ends = ", ".join(f"{place} {100 * share:.4g} %" for place, share in data["ends"].items())
        shown.append(f"Destination, share of time: {ends}.")
    shown += ["", TextTable("Visible satellites", _in_reach(query, timeline))]
    if timeline.gaps:
        gaps = [
            {"from, s": a / 1e9, "to, s": b / 1e9, "duration, s": (b - a) / 1e9} for a, b in timeline.gaps
        ]
        shown += ["", TextTable("Gaps" + _first(gaps), gaps[:MAX_ROWS])]
    if timeline.handovers:
        shown += ["", TextTable("Handovers by size", _by_size(timeline.handovers))]
        rows = [_row(one) for one in timeline.handovers]
        shown += ["", TextTable("Handovers" + _first(rows), rows[:MAX_ROWS])]
    return CommandOutput(data, tuple(shown))


def build_headline(query: RouteQuery, timeline: RouteTimeline) -> Headline:
    """Return the headline: delay and availability of the route, and the basis of both."""
    orbit = query.orbit
    pair = f"{orbit.from_} to {' or '.join(map(str, orbit.to))}"
    looks = (
        f"{query.duration} from {instant(timeline.start_unix_ns)}, {len(timeline.delay_ns):,} time steps: "
    )
    looks += f"{_counted(len(timeline.names), 'satellite')}"
    delays = _spread(_ms(timeline.delay_ns))
    if delays is None:
        return Headline(f"{pair}: no route at any time.", f"{looks}.")
    least, median, most = (format_significant(delays[name], 3) for name in ("least", "median", "most"))
    takes = f"{least} ms"
    if least != most:
        takes = f"{least} to {most} ms (median {median} ms)"
    when = "all the time"
    if timeline.gaps:
        longest = max(b - a for a, b in timeline.gaps) / 1e9
        share = format_significant(100 * coverage(timeline), 5)
        when = f"{share} % of the time (longest gap {format_significant(longest, 3)} s)"
    hops = [route.hops for route in timeline.routes if route.hops is not None]
    sizes = [f"{sum(one.size == size for one in timeline.handovers):,} {size}" for size in SIZES]
    turns = _counted(len(timeline.handovers), "handover") + (
        f" ({', '.join(sizes)})" if timeline.handovers else ""
    )
    span = f"{min(hops)}" if min(hops) == max(hops) else f"{min(hops)} to {max(hops)}"
    return Headline(
        f"{pair}: one-way delay {takes}; a route exists {when}.",
        f"{looks}, {span} hops, {turns}, {_counted(len(timeline.gaps), 'gap')}.",
    )


def coverage(timeline: RouteTimeline) -> float:
    """Return the ratio of time with a route."""
    return 1 - sum(b - a for a, b in timeline.gaps) / timeline.duration_ns


def _ends(query: RouteQuery, timeline: RouteTimeline) -> dict[str, float]:
    """Return the ratio of time in which the route ends at each place."""
    shares = dict.fromkeys(map(str, query.orbit.to), 0.0)
    until = [route.at_ns for route in timeline.routes[1:]] + [timeline.duration_ns]
    for route, end in zip(timeline.routes, until, strict=True):
        if route.nodes:
            shares[str(query.orbit.to[route.end])] += (end - route.at_ns) / timeline.duration_ns
    return shares


def instant(unix_ns: int) -> str:
    """Return a time as ``2000-01-01T00:00:00Z``."""
    when = datetime.fromtimestamp(unix_ns // 10**9, tz=UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


_DAY_NS = 86_400 * 10**9

FRESH_DAYS = 7
"""Age of elements without a warning, days."""


def _warn_of_old_elements(query: RouteQuery, timeline: RouteTimeline) -> str | None:
    """Return the warning about elements of another time; ``None`` for recent ones."""
    flies = query.orbit.constellation
    if flies.tle is None and flies.omm is None:
        return None
    earliest, latest = timeline.epochs_unix_ns
    end = timeline.start_unix_ns + timeline.duration_ns
    days = max(end - earliest, latest - timeline.start_unix_ns) / _DAY_NS
    if days <= FRESH_DAYS:
        return None
    epochs = instant(earliest) if earliest == latest else f"{instant(earliest)} to {instant(latest)}"
    return (
        f"Note: the elements are from {epochs}, {days:,.0f} days from the simulated time; the error of "
        "SGP4 grows by kilometres per day."
    )


def _ms(delays: Iterable[int | None]) -> list[float]:
    return [delay / 1e6 for delay in delays if delay is not None]


def _reach(query: RouteQuery, timeline: RouteTimeline) -> dict[str, dict[str, Any]]:
    """Return by end the satellites in reach, the ratio of time with any, and the elevations of the route."""
    orbit = query.orbit
    names = {"from": str(orbit.from_), "to": " or ".join(map(str, orbit.to))}
    ends: dict[str, dict[str, Any]] = {}
    for number, (key, name) in enumerate(names.items()):
        counts = timeline.seen[number]
        risen = [one for one in timeline.elevations_deg[number] if one is not None]
        ends[key] = {
            "place": name,
            "least": min(counts),
            "mean": statistics.fmean(counts),
            "most": max(counts),
            "share": sum(count > 0 for count in counts) / len(counts),
            "least_elevation_deg": min(risen, default=None),
            "most_elevation_deg": max(risen, default=None),
        }
    return ends


def _in_reach(query: RouteQuery, timeline: RouteTimeline) -> list[dict[str, Any]]:
    return [
        {"place": one["place"], "min": one["least"], "mean": one["mean"], "max": one["most"],
         "≥ 1 satellite, % of time": 100 * one["share"], "min elevation, degrees": one["least_elevation_deg"],
         "max elevation, degrees": one["most_elevation_deg"]}
        for one in _reach(query, timeline).values()
    ]  # fmt: skip


def _spread(delays: list[float]) -> dict[str, float] | None:
    if not delays:
        return None
    return {
        "first": delays[0],
        "least": min(delays),
        "median": statistics.median(delays),
        "most": max(delays),
    }


def _delays(timeline: RouteTimeline) -> list[dict[str, Any]]:
    """Return rows of the one-way delay, the round trip and the last hop."""
    whole, last = _ms(timeline.delay_ns), _ms(timeline.last_ns)
    if not whole:
        return []
    trips = [2 * delay for delay in whole]
    return [
        {"": name, "at start, ms": spread["first"], "min, ms": spread["least"],
         "median, ms": spread["median"], "max, ms": spread["most"]}
        for name, values in (("one way", whole), ("round trip", trips), ("last hop, one way", last))
        if (spread := _spread(values)) is not None
    ]  # fmt: skip


def _handover(one: Handover) -> dict[str, Any]:
    return {
        "at_s": one.at_ns / 1e9,
        "size": one.size,
        "new": one.new,
        "left": one.left,
        "unchanged": one.unchanged,
        "before_ms": one.before_ns / 1e6,
        "after_ms": one.after_ns / 1e6,
    }


def _by_size(handovers: list[Handover]) -> list[dict[str, Any]]:
    rows = []
    for size, name in SIZES.items():
        steps = [abs(one.after_ns - one.before_ns) / 1e6 for one in handovers if one.size == size]
        rows.append(
            {"size": name, "handovers": len(steps),
             "median step, ms": statistics.median(steps) if steps else None,
             "max step, ms": max(steps, default=None)}
        )  # fmt: skip
    return rows


def _row(one: Handover) -> dict[str, Any]:
    return {
        "time, s": one.at_ns / 1e9,
        "size": one.size,
        "new": one.new,
        "left": one.left,
        "unchanged": one.unchanged,
        "one-way delay before, ms": one.before_ns / 1e6,
        "after, ms": one.after_ns / 1e6,
    }


def _first(rows: list[Any]) -> str:
    return f" (the first {MAX_ROWS} of {len(rows)})" if len(rows) > MAX_ROWS else ""


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _node(timeline: RouteTimeline, query: RouteQuery, node: int) -> str:
    if node < len(timeline.names):
        return timeline.names[node]
    return str(query.orbit.relays[node - len(timeline.names)])
