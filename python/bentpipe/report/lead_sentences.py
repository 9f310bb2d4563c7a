"""Sentences on the variants of a store: the leader, its lead, and the cases in which it is behind.

A variant leads another one in a case if the comparison of the pair is significant
(:mod:`bentpipe.metrics.variant_comparison`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.change_table import format_ratio
from bentpipe.metrics.compare import MIN_SEEDS, Scale
from bentpipe.metrics.format import format_interval
from bentpipe.metrics.intervals import format_significant
from bentpipe.report.headline import NO_INTERVAL, join_names

if TYPE_CHECKING:
    from bentpipe.metrics.intervals import ConfidenceInterval
    from bentpipe.metrics.registry import Metric
    from bentpipe.metrics.variant_comparison import VariantCase, VariantPair

__all__ = ["Contest", "format_advantage", "lead_sentence"]

MAX_LISTED_CASES = 3
"""Largest number of cases with a clause each."""


@dataclass(frozen=True)
class Contest:
    """Variants of a store with their cases."""

    metric: Metric
    metric_text: str
    """Name of the metric in a sentence, with its flow."""
    labels: Mapping[str, str]
    """Label of each variant."""
    cases: Sequence[VariantCase]
    place: Callable[[Mapping[str, Any]], str]
    """Function that returns the place of a case, such as ``at loss 1 %``; empty for a single case."""
    limit: Callable[[Mapping[str, Any]], float | None] = lambda _: None
    """Function that returns the largest possible value of a case, if it is known."""


def lead_sentence(contest: Contest) -> str:
    """Return one sentence, without its full stop."""
    proven = [case for case in contest.cases if _behind(contest, case)]
    if not proven:
        return _sentence_without_lead(contest)
    main = _main_leader(contest, proven)
    strongest = max(
        (case for case in proven if _best(contest, case) == main),
        key=lambda case: _size(_behind(contest, case)[-1][1]),
    )
    rest = [case for case in contest.cases if case is not strongest]
    count = sum(_best(contest, case) == main for case in proven)
    if len(contest.cases) <= MAX_LISTED_CASES and count < len(contest.cases):
        clauses = [
            clause
            for case in rest
            if (clause := _lead_again(contest, case, main) or _behind_clause(contest, case, main))
        ]
        return "; ".join([_lead_clause(contest, strongest), *clauses])
    behind = _farthest_behind(rest, main)
    clause = _behind_clause(contest, behind, main) if behind is not None else ""
    return "; ".join(filter(None, [_lead_clause(contest, strongest, count), clause]))


def _main_leader(contest: Contest, proven: Sequence[VariantCase]) -> str:
    """Return the variant with the largest sum of leads over the farthest other variant."""
    sums: Counter[str] = Counter()
    for case in proven:
        sums[_best(contest, case)] += min(_size(_behind(contest, case)[-1][1]), MAX_SIZE)  # type: ignore[assignment]
    return sums.most_common(1)[0][0]


MAX_SIZE = 1e6
"""Size of an infinite lead, over a variant that delivers nothing."""


def _best(contest: Contest, case: VariantCase) -> str:
    return case.best(contest.metric.better)


def _behind(contest: Contest, case: VariantCase) -> list[tuple[str, VariantPair]]:
    """Return the variants that are significantly behind the best one, the nearest first."""
    best = _best(contest, case)
    found = [(other, pair) for other, pair in case.pairs_of(best).items() if pair.ahead == best]
    return sorted(found, key=lambda item: _size(item[1]))


def _size(pair: VariantPair) -> float:
    """Return the size of an effect, comparable within a metric."""
    if pair.effect is None:
        return 0.0
    if pair.scale is Scale.DIFFERENCE:
        return abs(pair.effect.estimate)
    return abs(math.log(pair.effect.estimate)) if 0 < pair.effect.estimate < math.inf else math.inf


def _lead_clause(contest: Contest, case: VariantCase, count: int = 0) -> str:
    """Return the lead of the best variant in a case; with ``count``, the number of cases in which it leads."""
    best, behind = _best(contest, case), _behind(contest, case)
    names = {name for name, _ in behind}
    level = [contest.labels[other] for other in case.values if other != best and other not in names]
    place = contest.place(case.row)
    if count > 1:
        share = f"all {count:,}" if count == len(contest.cases) else f"{count:,} of {len(contest.cases):,}"
        place = f"in {share} cells, most {place}"
    text = f"{contest.labels[best]} leads{f' {place}' if place else ''}: {contest.metric_text} "
    text += f"{_value(contest, case, best)} {_advantages(contest, case, best, behind)}"
    return f"{text}, level with {join_names(level)}" if level else text


def _lead_again(contest: Contest, case: VariantCase, main: str) -> str:
    """Return the lead of ``main`` in a further case; empty if another variant leads there."""
    behind = _behind(contest, case)
    if _best(contest, case) != main or not behind:
        return ""
    value = _value(contest, case, main)
    return f"{contest.place(case.row)} it has {value} {_advantages(contest, case, main, behind)}"


def _behind_clause(contest: Contest, case: VariantCase, main: str) -> str:
    """Return how far ``main`` is behind the best variant of a case that is ahead of it."""
    ahead = [(other, pair) for other, pair in case.pairs_of(main).items() if pair.ahead == other]
    place = contest.place(case.row)
    if not ahead:
        level = [contest.labels[other] for other in case.values if other != main]
        few = _few_seeds(case)
        return f"{place} {few}" if few else f"{place} it is level with {join_names(level)}"
    other, pair = max(ahead, key=lambda item: _size(item[1]))
    return f"{place} it {_behind_text(contest, pair, main)} {contest.labels[other]}"


def _farthest_behind(cases: Sequence[VariantCase], main: str) -> VariantCase | None:
    """Return the case with the largest significant lead of another variant over ``main``; None without one."""
    sizes = [
        (
            max(
                (_size(pair) for other, pair in case.pairs_of(main).items() if pair.ahead == other),
                default=0.0,
            ),
            place,
        )
        for place, case in enumerate(cases)
        if main in case.values
    ]
    size, place = max(sizes, default=(0.0, 0))
    return cases[place] if size > 0 else None


def _advantages(
    contest: Contest, case: VariantCase, best: str, behind: Sequence[tuple[str, VariantPair]]
) -> str:
    """Return the values of the nearest and the farthest other variant, and the advantage over them."""
    shown = [behind[0], behind[-1]] if len(behind) > 1 else behind
    return f"against {join_names([_advantage(contest, case, best, other, pair) for other, pair in shown])}"


def _advantage(contest: Contest, case: VariantCase, best: str, other: str, pair: VariantPair) -> str:
    value = format_significant(case.values[other].estimate * contest.metric.scale, 3)
    text = f"{value} for {contest.labels[other]}"
    if case.values[other].estimate == 0 and not contest.metric.is_difference:
        return text
    if pair.scale is Scale.RATIO and contest.metric.better < 0:
        return f"{text} ({_times_as_long(format_advantage(contest.metric, pair, other))})"
    return f"{text} ({format_advantage(contest.metric, pair, best)})"


def _times_as_long(ratio: str) -> str:
    """Format a ratio of times: ``×7.65 [6.98, 8.38]`` is ``7.65 times as long [6.98, 8.38]``."""
    estimate, mark, bounds = ratio.removeprefix("×").partition(" [")
    return f"{estimate} times as long{mark}{bounds}"


def format_advantage(metric: Metric, pair: VariantPair, variant: str) -> str:
    """Format the ratio or difference of ``variant`` to the other one: ``×1.35 [1.26, 1.44]``, ``+0.9 [0.7, 1.1]``.

    A ratio of times is the other way round in sentences, so that it is above 1, too.
    """
    effect = pair.advantage(variant)
    if effect is None:
        return "–"
    if pair.scale is Scale.RATIO:
        return f"×{format_ratio(effect)}"
    return f"{'+' if effect.estimate > 0 else ''}{format_interval(effect, metric.scale, digits=3)}"


def _value(contest: Contest, case: VariantCase, variant: str) -> str:
    scale = contest.metric.scale
    value = format_significant(case.values[variant].estimate * scale, 3)
    limit = contest.limit(case.row)
    of = f" of {format_significant(limit * scale, 3)}" if limit is not None else ""
    return f"{value}{of} {contest.metric.unit}".rstrip()


def _few_seeds(case: VariantCase) -> str:
    """Return why the pairs of a case have no verdict; empty if they have one."""
    undecided = [pair for pair in case.pairs if not pair.is_decided]
    if not undecided:
        return ""
    seeds = min(pair.effect.n if pair.effect else 0 for pair in undecided)
    return NO_INTERVAL if seeds <= 1 else f"{seeds} seeds are too few for a verdict, {MIN_SEEDS} are enough"


def _behind_text(contest: Contest, pair: VariantPair, variant: str) -> str:
    effect = pair.advantage(variant)
    if effect is None:
        return "is behind"
    if pair.scale is Scale.RATIO and contest.metric.better < 0:
        return f"takes {format_significant(effect.estimate, 3)} times as long as"
    if pair.scale is Scale.RATIO:
        return f"is {format_significant(100 * (1 - effect.estimate), 2)} % behind"
    return f"is {format_significant(abs(effect.estimate) * contest.metric.scale, 3)} behind"


def _sentence_without_lead(contest: Contest) -> str:
    """Return the largest difference, and why it is no lead."""
    pairs = [
        (case, best, other, pair)
        for case in contest.cases
        for best in [_best(contest, case)]
        for other, pair in case.pairs_of(best).items()
    ]
    case, best, other, pair = max(pairs, key=lambda item: _size(item[3]))
    labels, place = contest.labels, contest.place(case.row)
    where = f" {place}" if place else ""
    value = _value(contest, case, best)
    if all(_size(pair) == 0 for *_, pair in pairs):
        names = join_names([labels[name] for name in case.values])
        return f"{names} have the same {contest.metric_text}{f', {value}' if len(contest.cases) == 1 else ''}"
    few = _few_seeds(case)
    advantage = _advantage(contest, case, best, other, pair)
    if few:
        same = all(_best(contest, one) == best for one in contest.cases)
        if len(contest.cases) > 1:
            where = (
                f" in all {len(contest.cases):,} cells, most {place}" if same else f", most clearly {place}"
            )
        return f"{labels[best]} has the best {contest.metric_text}{where}: {value} against {advantage}; {few}"
    why = f"which is not significant with {_seeds(pair.effect)} seeds"
    if pair.is_unfinished:
        why = "but fewer of its loads finished"
    return (
        f"No variant leads: the largest difference of {contest.metric_text} is {labels[best]}{where} with {value} "
        f"against {advantage}, {why}"
    )


def _seeds(effect: ConfidenceInterval | None) -> int:
    return effect.n if effect is not None else 0
