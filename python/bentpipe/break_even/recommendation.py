"""Headline of a map: for each kind of PEP whether to keep it, where it is faster or slower, and how to recognise it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bentpipe.break_even.config import TCP_HTTP
from bentpipe.break_even.gains import MANY_SEEDS, WORTH, Extreme, Gain, gains, is_gain, is_loss
from bentpipe.break_even.ratios import size_text
from bentpipe.metrics.intervals import ConfidenceInterval, format_significant
from bentpipe.report.headline import NO_INTERVAL, join_names
from bentpipe.scenario.quantities import Probability, Size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.break_even.config import BreakEvenConfig
    from bentpipe.break_even.gains import Range, Unfinished
    from bentpipe.break_even.ratios import Map

__all__ = [
    "Judgement",
    "format_ranges",
    "headline_text",
    "judgements",
    "kinds_text",
    "supporting_text",
]

NOUNS = {"plain": "plain PEP", "pooled": "PEP with a pool", "line-rate": "PEP that knows the link rate"}
"""Nouns of the kinds of proxies."""

MARKS = {
    "plain": "A plain PEP starts each connection with a window of 10 packets.",
    "pooled": "A pooled PEP keeps connections to the gateway open.",
    "line-rate": "A line-rate PEP sends at the configured rate from the first byte.",
}
"""Behaviour by which an operator recognises a kind."""

KEEP, KEEP_FOR_TCP, DROP = "keep", "keep for TCP", "drop"
"""Verdicts of a kind: faster than every variant, faster than TCP alone, or not worth its upkeep."""


@dataclass(frozen=True)
class Judgement:
    """Whether to keep the PEPs of a kind."""

    proxy: str
    verdict: str
    gains: tuple[Gain, ...]
    """Gain over each variant without a proxy."""


def judgements(result: Map) -> list[Judgement]:
    """Return the verdict of each kind of proxy at the round-trip time of the access, the kinds to keep first."""
    found = []
    for kind in result.config.proxies:
        ones = tuple(one for one in gains(result) if one.proxy == kind)
        if ones:
            found.append(Judgement(kind, _verdict(ones), ones))
    return sorted(found, key=lambda one: (KEEP, KEEP_FOR_TCP, DROP).index(one.verdict))


def _verdict(ones: Sequence[Gain]) -> str:
    if all(one.is_worth for one in ones):
        return KEEP
    return KEEP_FOR_TCP if any(one.is_worth for one in ones if one.alternative == "TCP") else DROP


def headline_text(result: Map) -> str:
    """Return the recommendation in one sentence: the kinds of PEPs to keep and to drop."""
    found, rtt = judgements(result), result.config.own_rtt
    if not found:
        return f"No page loads over split TCP and over a variant without a proxy at {rtt}."
    nouns = {
        verdict: " or ".join(f"a {NOUNS[one.proxy]}" for one in found if one.verdict == verdict)
        for verdict in (KEEP, KEEP_FOR_TCP, DROP)
    }
    if len({one.verdict for one in found}) == 1:
        noun = "your PEP" if len(found) > 1 else nouns[found[0].verdict]
        nouns = {verdict: noun if text else "" for verdict, text in nouns.items()}
    parts = [
        words.format(nouns[verdict])
        for verdict, words in ((KEEP, "keep {}"), (KEEP_FOR_TCP, "keep {} for TCP only"), (DROP, "drop {}"))
        if nouns[verdict]
    ]
    return f"At {rtt}, {join_names(parts)}."


def kinds_text(result: Map) -> list[str]:
    """Return one paragraph for each kind of PEP with its gains and losses, then how to recognise the own kind."""
    found = judgements(result)
    paragraphs = [_kind_text(one, result.config) for one in found]
    if len(found) > 1:
        marks = " ".join(MARKS[one.proxy] for one in found)
        paragraphs.append(f"Which kind is yours? Ask the vendor. {marks}")
    return paragraphs


def _kind_text(one: Judgement, config: BreakEvenConfig) -> str:
    name = f"{one.proxy} PEP"
    verdict = {KEEP: "keep it", KEEP_FOR_TCP: "keep it for TCP", DROP: "drop it"}[one.verdict]
    sentences = [*_gain_sentences(one.gains, config), *_loss_sentences(one.gains, config)]
    return f"{name[0].upper()}{name[1:]}: {verdict}. {' '.join(sentences)}"


def _gain_sentences(ones: Sequence[Gain], config: BreakEvenConfig) -> list[str]:
    """Return how much longer each variant takes without the PEP, and which objects it does not finish."""
    worth = [one for one in ones if one.is_worth]
    small = [one for one in ones if not one.is_worth and one.faster]
    others = [one for one in ones if one not in worth and one not in small]
    sentences = _worth_sentences(worth, config)
    names: dict[Unfinished, list[str]] = {}
    for one in worth:
        if one.unfinished is not None:
            names.setdefault(one.unfinished, []).append(one.alternative)
    sentences += [_unfinished_text(subjects, unfinished, "the PEP") for unfinished, subjects in names.items()]
    texts = [f"{one.alternative} at most {_percent(one.largest)}" for one in small if _is_small(one.largest)]
    if texts:
        sentences.append(f"Without it, {join_names(texts)} longer.".replace(" at most", " takes at most", 1))
    sentences += [
        f"Without it, {one.alternative} takes up to {_longer(one.largest)}."
        for one in small
        if not _is_small(one.largest)
    ]
    if others:
        # Without an interval every ratio is at most 1.00; with one, no ratio is above 1 by more than chance.
        known = any(one.largest.ratio.known for one in others)
        joined = join_names([one.alternative for one in others])
        sentences.append(f"It has {'no significant gain' if known else 'no gain'} over {joined}.")
    return sentences


AS_LONG = " as long"
"""Last words of a ratio, which a second ratio of a sentence omits."""


def _worth_sentences(ones: Sequence[Gain], config: BreakEvenConfig) -> list[str]:
    """Return the largest gains, in one sentence if there are objects for which split TCP is faster than all."""
    if not ones:
        return []
    common = _intersection(ones)
    groups = [(ones, common)] if common else [([one], one.worth) for one in ones]
    sentences = []
    for group, ranges in groups:
        texts = [
            f"{one.alternative}{' takes' if place == 0 else ''} up to {_longer(extreme)}"
            for place, one in enumerate(group)
            if (extreme := one.largest_in(ranges)) is not None
        ]
        # A sentence has at most two variants; the names of more begin sentences of their own.
        if len(texts) > 1 and texts[0].endswith(AS_LONG):
            texts[1] = texts[1].removesuffix(AS_LONG)
        sentences.append(f"For {_objects(ranges, config)}, {join_names(texts[:2])} without it.")
        sentences += [f"{text.replace(' up to', ' takes up to', 1)}." for text in texts[2:]]
    return sentences


def _loss_sentences(ones: Sequence[Gain], config: BreakEvenConfig) -> list[str]:
    """Return how much longer split TCP takes than variants without it, and which objects it does not finish."""
    sentences = []
    harmful = [one for one in ones if one.is_harmful]
    for one in harmful:
        smallest = one.smallest_in(one.harm)
        if smallest is not None:
            longer = _longer(_inverse(smallest))
            than = "as" if longer.endswith(AS_LONG) else "than"
            where = _objects(one.harm, config)
            sentences.append(f"It takes up to {longer} {than} {one.alternative} for {where}.")
            if not smallest.is_only:
                sentences.append(f"The difference is largest at {smallest.size}.")
        if one.split_unfinished is not None:
            sentences.append(_unfinished_text(["It"], one.split_unfinished, one.alternative))
    return sentences


def _unfinished_text(subjects: Sequence[str], unfinished: Unfinished, other: str) -> str:
    always = "" if unfinished.is_always else " always"
    verb = "does" if len(subjects) == 1 else "do"
    needs = (
        "" if unfinished.other_s is None else f"; {other} needs {format_significant(unfinished.other_s, 2)} s"
    )
    limit = f"{unfinished.limit_s:.0f} s"
    return f"{join_names(subjects)} {verb} not{always} finish {unfinished.size} in {limit}{needs}."


def _longer(extreme: Extreme) -> str:
    """Return a ratio above 1 as text: ``47 % longer``, ``6.5 (3.1 to 14) times as long``, ``at least 5.3 times...``.

    An interval whose limits are equal to the displayed digits is omitted, and so is that of a bound.
    """
    ratio = extreme.ratio
    is_multiple = ratio.estimate >= 2
    number, unit = (_number, f" times{AS_LONG}") if is_multiple else (_excess, " % longer")
    least = "at least " if extreme.bound == "≥" else ""
    between = ""
    if ratio.low is not None and ratio.high is not None and not extreme.bound:
        low, high = number(ratio.low), number(ratio.high)
        between = "" if low == high else f" ({low} to {high})"
    return f"{least}{number(ratio.estimate)}{between}{unit}"


def _is_small(extreme: Extreme) -> bool:
    """Return whether a gain is below the least one that is worth a proxy, without regard to chance."""
    return not extreme.bound and extreme.ratio.estimate < WORTH


def _percent(extreme: Extreme) -> str:
    return f"{100 * (extreme.ratio.estimate - 1):.1g} %"


def _excess(ratio: float) -> str:
    return f"{100 * (ratio - 1):.0f}"


BOUNDS = {"≤": "≥", "≥": "≤", "": ""}
"""Bound of the inverse of a ratio, by the bound of the ratio."""


def _inverse(extreme: Extreme) -> Extreme:
    ratio = extreme.ratio
    low, high = (None if limit is None else 1 / limit for limit in (ratio.high, ratio.low))
    inverse = ConfidenceInterval(1 / ratio.estimate, low, high, ratio.n)
    return replace(extreme, ratio=inverse, bound=BOUNDS[extreme.bound])


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _intersection(found: Sequence[Gain]) -> list[Range]:
    """Return the ranges of size with objects for which split TCP is worth it over every variant of ``found``."""
    ranges: list[tuple[float, float]] = [(0.0, math.inf)]
    for one in found:
        other = [(low or 0.0, high or math.inf) for low, high in one.worth]
        ranges = [(max(a, c), min(b, d)) for a, b in ranges for c, d in other if max(a, c) <= min(b, d)]
    common: list[Range] = [(low or None, None if math.isinf(high) else high) for low, high in ranges]
    common = [limits for limits in common if found[0].largest_in([limits]) is not None]
    extremes = [one.largest_in(common) for one in found]
    if any(extreme is None or extreme.ratio.estimate < WORTH for extreme in extremes):
        return []
    return common


def supporting_text(result: Map) -> str:
    """Return the assumptions of the map and about each proxy, and the number of comparisons with each result."""
    config = result.config
    cells = [cell for cell in result.cells if cell.ratio is not None]
    split, other = sum(map(is_gain, cells)), sum(map(is_loss, cells))
    text = (
        f"In {len(cells):,} comparisons (one for each variant, object size and RTT), split TCP is faster in "
        f"{split:,} and slower in {other:,}"
    )
    missing = [cell for cell in result.cells if cell.ratio is None]
    if missing:
        unfinished = all(None not in cell.times_s for cell in missing)
        reason = "neither load finished" if unfinished else "runs are missing, or neither load finished"
        text += f"; {len(missing):,} more have no result (–), because {reason}"
    if result.confident:
        text += f"; intervals of 95 % from {result.seeds} seeds"
    elif any(cell.verdict == MANY_SEEDS for cell in cells):
        text += f"; {NO_INTERVAL}" if result.seeds == 1 else f"; {result.seeds} seeds give no verdict"
    sentences = [f"{text}."]
    if rest := len(cells) - split - other:
        chance = "not significant or " if result.confident else ""
        sentences.append(f"In {rest:,}, the difference is {chance}at most 1 %.")
    if equal := sum(cell.is_equal for cell in cells):
        sentences.append(
            f"In {equal:,}, all seeds have the same ratio: no random event, such as a loss, changed these load times."
        )
    return " ".join(
        [conditions_text(result), *(assumption(kind, config) for kind in config.proxies), *sentences]
    )


def conditions_text(result: Map) -> str:
    """Return a sentence about loss, seeds and protocols of the map."""
    access = result.config.access
    random = [_losses_text(access.down, access.up)]
    if access.slotted:
        random.append("random values of reconfiguration intervals")
    seeds = "one seed" if result.seeds == 1 else f"{result.seeds} seeds"
    return (
        f"Assumptions: {', '.join(filter(None, random)) or 'no random loss'}; {seeds}; one object in each load, "
        f"over HTTP/3 or HTTP/{TCP_HTTP}, with TLS 1.3 without resumption."
    )


def _losses_text(down: Mapping[str, Any], up: Mapping[str, Any]) -> str:
    """Return the losses of both directions as text; empty without loss."""
    names = {way: _loss_name(side.get("loss")) for way, side in (("down", down), ("up", up))}
    losses = [f"{name} {way}" for way, name in names.items() if name]
    if not losses:
        return ""
    law = ", independent by packet" if any("%" in one for one in losses) else ""
    return f"random loss ({', '.join(losses)}{law})"


def _loss_name(loss: object) -> str:
    """Return the probability of a loss, or the name of its model; empty without loss."""
    if isinstance(loss, Mapping):
        probability = loss.get("probability")
        return next(iter(loss)) if probability is None else _loss_name(probability)
    return "" if loss is None or Probability.parse(str(loss)).value == 0 else str(loss)


def assumption(kind: str, config: BreakEvenConfig) -> str:
    """Return a sentence about the proxies of a kind: connections, start and buffers."""
    plain = f"starts with {config.tcp} and an initial window of 10 packets"
    rates = f"sends at the link rate ({config.access.down_rate} down) from the first byte"
    return {
        "plain": f"The plain PEP opens a connection for each client and {plain}.",
        "pooled": f"The PEP with a pool has open connections to the gateway and {plain}.",
        "line-rate": f"The PEP that knows the link rate has open connections to the gateway and {rates}.",
    }[kind]


def _objects(ranges: Iterable[Range], config: BreakEvenConfig) -> str:
    """Return ranges as text. They end at the sizes of the map, unless it has both very small and large ones."""
    sizes = [Size.parse(size).bytes for size in config.sizes]
    first = None if sizes[0] <= SMALL_BYTES else float(sizes[0])
    last = None if sizes[-1] >= LARGE_BYTES else float(sizes[-1])
    texts = [_range_words(low or first, high or last) for low, high in _joined(ranges)]
    return f"objects {join_names(texts)}"


SMALL_BYTES, LARGE_BYTES = 10_000, 100_000_000
"""Sizes beyond which a range of the headline is open: an initial window, and the largest object of the default map."""


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Join neighbouring ranges."""
    found: list[Range] = []
    for low, high in ranges:
        if found and found[-1][1] == low:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


def _range_words(low: float | None, high: float | None) -> str:
    if low is None:
        return "of every size" if high is None else f"below {size_text(high)}"
    if high is None:
        return f"above {size_text(low)}"
    return f"of {size_text(low)}" if low == high else f"from {size_text(low)} to {size_text(high)}"


def format_ranges(ranges: Sequence[Range]) -> str:
    """Return ranges of object size as the text of a table's cell."""
    if not ranges:
        return "none"
    if list(ranges) == [(None, None)]:
        return "every size"
    return ", ".join(itertools.starmap(_range_text, ranges))


def _range_text(low: float | None, high: float | None) -> str:
    if low is None:
        return f"< {size_text(high or 0.0)}"
    if high is None:
        return f"> {size_text(low)}"
    return f"{size_text(low)}–{size_text(high)}"
