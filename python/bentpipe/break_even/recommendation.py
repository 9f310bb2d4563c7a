"""Headline of a map: whether to keep the PEP, for which objects, and the gain of each kind."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.break_even.ratios import break_even, size_text
from bentpipe.report.headline import NO_INTERVAL, join_names
from bentpipe.scenario.quantities import Duration, Size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.break_even.config import BreakEvenConfig
    from bentpipe.break_even.ratios import Cell, Map
    from bentpipe.metrics.intervals import ConfidenceInterval

__all__ = ["Gain", "format_ranges", "gain", "gains", "headline_text", "supporting_text"]

EVEN = 1.005
"""Lowest ratio that counts as a gain; the map displays lower ratios as 1.00."""

WORTH = 1.1
"""Lowest largest gain for which a proxy is worth its upkeep."""

MANY_SEEDS = "too few seeds"
"""Verdict of a ratio of a stochastic cell with fewer seeds than a verdict needs."""

NAMES = {"plain": "plain PEP", "pooled": "PEP with a pool", "line-rate": "PEP that knows the link rate"}
"""Nouns of the kinds of proxies."""

CONDITIONS = {
    "plain": "if it is a plain one",
    "pooled": "if it keeps a pool of connections",
    "line-rate": "if it knows the link rate",
}
"""Conditions of the recommendation, if only some of the kinds are worth it."""


@dataclass(frozen=True)
class Gain:
    """Gain of split TCP over one variant without a proxy at one round-trip time."""

    alternative: str
    """Name of the variant without a proxy."""
    proxy: str
    rtt: str
    ranges: tuple[tuple[float | None, float | None], ...]
    """Ranges of object size in bytes in which split TCP is faster; None stands for a limit beyond the map."""
    max_ratio: ConfidenceInterval
    """Largest ratio of page load times, the alternative to split TCP."""
    bound: str
    """``≥`` or ``≤`` if the largest ratio is a bound."""
    max_ratio_size: str
    """Object size with the largest ratio."""

    @property
    def is_worth(self) -> bool:
        """Whether the largest gain is worth a proxy."""
        return bool(self.ranges) and self.max_ratio.estimate >= WORTH

    @property
    def times(self) -> str:
        """Text of the largest ratio: ``up to 3.4 (3.1 to 3.7) times``, ``more than 12 times``, ``at most 3 %``."""
        ratio = self.max_ratio
        text = _number(ratio.estimate)
        if not self.is_worth and not self.bound:
            return f"at most {100 * (ratio.estimate - 1):.1g} %"
        if self.bound:
            return f"{'more' if self.bound == '≥' else 'less'} than {text} times"
        if ratio.low is not None and ratio.high is not None and ratio.low != ratio.high:
            text += f" ({_number(ratio.low)} to {_number(ratio.high)})"
        return f"up to {text} times"

    def as_row(self) -> dict[str, Any]:
        """Return the gain as plain data, sizes in bytes and times in seconds."""
        return {
            "variant": self.alternative, "proxy": self.proxy, "rtt_s": Duration.parse(self.rtt).ns / 1e9,
            "faster_from_to_bytes": [[_round_size(limit) for limit in limits] for limits in self.ranges],
            "largest_ratio": self.max_ratio.estimate, "largest_ratio_low": self.max_ratio.low,
            "largest_ratio_high": self.max_ratio.high, "bound": self.bound,
            "largest_ratio_bytes": Size.parse(self.max_ratio_size).bytes,
        }  # fmt: skip


def gains(result: Map, rtt: str | None = None) -> list[Gain]:
    """Return the gain of each kind of proxy over each variant without one, if a pair of loads exists.

    Args:
        result: the map.
        rtt: round-trip time (default: that of the access).
    """
    config = result.config
    found = (
        gain(result.of(alternative.name, proxy), rtt or config.own_rtt)
        for proxy in config.proxies
        for alternative in config.alternatives
    )
    return [one for one in found if one is not None]


def gain(cells: Sequence[Cell], rtt: str) -> Gain | None:
    """Return the gain over the variant of ``cells`` at ``rtt``; None without a ratio.

    With seeds enough for a verdict, a range of sizes counts only if a ratio in it is above 1 by more than chance.
    """
    points = [
        (Size.parse(cell.size).bytes, cell.ratio, cell) for cell in cells if cell.rtt == rtt and cell.ratio
    ]
    if not points:
        return None
    points.sort(key=lambda point: point[0])
    limits = [None, *break_even(cells, rtt), None]
    ranges = [
        (low, high)
        for low, high in itertools.pairwise(limits)
        if any(_is_gain(cell) for size, _, cell in points if (low or 0) <= size <= (high or math.inf))
    ]
    _, ratio, cell = max(points, key=lambda point: (_is_gain(point[2]), point[1].estimate))
    return Gain(cell.alternative, cell.proxy, rtt, tuple(ranges), ratio, cell.bound, cell.size)


def _is_gain(cell: Cell) -> bool:
    if cell.ratio is None or cell.ratio.estimate < EVEN:
        return False
    return cell.verdict in ("regression", MANY_SEEDS)


def headline_text(result: Map) -> str:
    """Return the recommendation: keep the PEP or not, for which objects, and its gain."""
    found = gains(result)
    config, rtt = result.config, result.config.own_rtt
    if not found:
        return f"No page loads over split TCP and over a variant without a proxy at {rtt}."
    by_kind = {kind: [one for one in found if one.proxy == kind] for kind in config.proxies}
    by_kind = {kind: ones for kind, ones in by_kind.items() if ones}
    worth = [kind for kind, ones in by_kind.items() if all(one.is_worth for one in ones)]
    for_tcp = [
        kind
        for kind, ones in by_kind.items()
        if any(one.is_worth for one in ones if one.alternative == "TCP")
    ]
    if worth:
        condition = "" if len(worth) == len(by_kind) else f" {_conditions(worth)}"
        sentences = [f"Keep your PEP{condition}."]
    elif for_tcp:
        condition = "" if len(for_tcp) == len(by_kind) else f" {_conditions(for_tcp)}"
        equals = [one.alternative for one in by_kind[for_tcp[-1]] if not one.is_worth]
        verb = "does" if len(equals) == 1 else "do"
        sentences = [f"Keep your PEP for TCP{condition}; {join_names(equals)} {verb} as well without it."]
    else:
        sentences = [f"You can do without a PEP at {rtt}."]
    order = sorted(by_kind, key=lambda kind: (kind in worth, kind in for_tcp), reverse=True)
    for position, kind in enumerate(order):
        sentences += _kind_sentences(by_kind[kind], rtt, leads=position == 0)
    return " ".join(sentences)


def _conditions(kinds: Sequence[str]) -> str:
    return " or ".join(CONDITIONS[kind] for kind in kinds)


def _kind_sentences(ones: Sequence[Gain], rtt: str, *, leads: bool) -> list[str]:
    """Return the sizes at which a kind is faster than all variants, and its gain over each."""
    noun = NAMES[ones[0].proxy]
    gaining, others = [one for one in ones if one.ranges], [one for one in ones if not one.ranges]
    subject = f"A {noun}"
    sentences = []
    if leads and gaining:
        common = _intersection(gaining)
        if common:
            sentences.append(
                f"At {rtt}, a {noun} is faster than {_alternatives(gaining)} for {_objects(common)}."
            )
            subject = "It"
    if gaining:
        texts = [f"{one.times} over {one.alternative}" for one in gaining]
        sentences.append(f"{subject} gains {join_names(texts)}.")
        subject = "It"
    if others:
        # Without an interval every ratio is at most 1.00; with one, no ratio is above 1 by more than chance.
        missing = "no significant gain" if any(one.max_ratio.known for one in others) else "no gain"
        sentences.append(f"{subject} has {missing} over {join_names([one.alternative for one in others])}.")
    return sentences


def _alternatives(found: Sequence[Gain]) -> str:
    return join_names([one.alternative for one in found]).replace("TCP", "TCP without a PEP")


def _intersection(found: Sequence[Gain]) -> list[tuple[float | None, float | None]]:
    """Return the ranges of size in which split TCP is faster than every variant of ``found``."""
    ranges: list[tuple[float, float]] = [(0.0, math.inf)]
    for one in found:
        other = [(low or 0.0, high or math.inf) for low, high in one.ranges]
        ranges = [(max(a, c), min(b, d)) for a, b in ranges for c, d in other if max(a, c) < min(b, d)]
    return [(low or None, None if math.isinf(high) else high) for low, high in ranges]


def supporting_text(result: Map) -> str:
    """Return the assumptions about each proxy, and the number of points at which each side is faster."""
    config = result.config
    cells = [cell for cell in result.cells if cell.ratio is not None]
    split = sum(cell.verdict == "regression" or _is_gain(cell) for cell in cells)
    other = sum(
        cell.verdict == "improvement" or (cell.verdict == MANY_SEEDS and (cell.estimate or 1) < 1 / EVEN)
        for cell in cells
    )
    text = f"Over all RTTs, split TCP is faster at {split:,} and slower at {other:,} of {len(cells):,} points"
    missing = len(result.cells) - len(cells)
    text += f"; {missing:,} have no result" if missing else ""
    if result.confident:
        text += f"; intervals of 95 % from {result.seeds} seeds"
    elif any(cell.verdict == MANY_SEEDS for cell in cells):
        text += f"; {NO_INTERVAL}" if result.seeds == 1 else f"; {result.seeds} seeds give no verdict"
    return " ".join([*(assumption(kind, config) for kind in config.proxies), f"{text}."])


def assumption(kind: str, config: BreakEvenConfig) -> str:
    """Return a sentence about the proxies of a kind: connections, start and buffers."""
    plain = f"starts with {config.tcp} and an initial window of 10 packets"
    rates = f"sends at the link rate ({config.access.down_rate} down) from the first byte"
    buffers = "its buffers hold four times what the path holds"
    return {
        "plain": f"The plain PEP opens a connection for each client and {plain}; {buffers}.",
        "pooled": f"The PEP with a pool has open connections to the gateway and {plain}; {buffers}.",
        "line-rate": f"The PEP that knows the link rate has open connections to the gateway and {rates}.",
    }[kind]


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _objects(ranges: Sequence[tuple[float | None, float | None]]) -> str:
    if list(ranges) == [(None, None)]:
        return "objects of every size"
    return f"objects {' and '.join(_range_words(low, high) for low, high in ranges)}"


def _range_words(low: float | None, high: float | None) -> str:
    if low is None:
        return f"below {size_text(high or 0.0)}"
    if high is None:
        return f"above {size_text(low)}"
    return f"from {size_text(low)} to {size_text(high)}"


def format_ranges(ranges: Sequence[tuple[float | None, float | None]]) -> str:
    """Return ranges of object size as the text of a table's cell."""
    if not ranges:
        return "none"
    if list(ranges) == [(None, None)]:
        return "every size"
    return ", ".join(_range_text(low, high) for low, high in ranges)


def _range_text(low: float | None, high: float | None) -> str:
    if low is None:
        return f"< {size_text(high or 0.0)}"
    if high is None:
        return f"> {size_text(low)}"
    return f"{size_text(low)}–{size_text(high)}"


def _round_size(size: float | None) -> int | None:
    return None if size is None else round(size)
