"""Checks of the loss stage: each model has a checker, which knows its equations without the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bentpipe.trace_check.handovers import Spec, stepped
from bentpipe.trace_check.trace import Finding, Line, Visit

__all__ = ["CHECKERS", "check_count", "check_losses"]

SIGMAS = 6.0
"""Standard deviations of a count that are accepted: a correct run fails once in 5e8."""

_RULE = "losses are the model's"


def check_losses(line: Line, stage: Spec, visits: Sequence[Visit], _end: int) -> Iterator[Finding]:
    """Check the losses of a stage against its model, and after its first change against the probabilities."""
    changes = [(one["at_ns"], one["probability"]) for one in stage.get("changes", [])]
    first_change = changes[0][0] if changes else None
    for visit in visits:
        yield from _check_exit(line, visit)
    before = [one for one in visits if first_change is None or one.came < first_change]
    model = stage["model"]
    yield from CHECKERS[model["kind"]](line, model, before, complete=first_change is None)
    yield from _check_probability(line, stepped(0.0, changes), visits[len(before) :])


def _check_exit(line: Line, visit: Visit) -> Iterator[Finding]:
    """A packet leaves or is lost at the instant of its arrival."""
    if visit.dropped is not None:
        if visit.cause != "loss" or visit.dropped != visit.came:
            text = f"was dropped at {visit.dropped} ns ({visit.cause}), expected at {visit.came} ns (loss)"
            yield _finding(line, visit, "a cause for every drop", text)
    elif visit.left is None:
        yield _finding(line, visit, "bytes are conserved", f"came at {visit.came} ns and never left")
    elif visit.left != visit.came:
        text = f"left at {visit.left}, expected at once, at {visit.came} ns"
        yield _finding(line, visit, "no sooner than the delay", text)


def _check_probability(
    line: Line, value: Callable[[int], float], visits: Sequence[Visit]
) -> Iterator[Finding]:
    """Independent losses with a probability that may change."""
    drawn: dict[float, int] = {}
    for visit in visits:
        probability = value(visit.came)
        drawn[probability] = drawn.get(probability, 0) + 1
    lost = sum(visit.dropped is not None for visit in visits)
    yield from check_count(line, "lost", lost, list(drawn.items()))


def _check_bernoulli(
    line: Line, model: Spec, visits: Sequence[Visit], *, complete: bool
) -> Iterator[Finding]:
    """Independent losses."""
    del complete
    yield from _check_probability(line, lambda _: float(model["probability"]), visits)


def _check_burst(line: Line, model: Spec, visits: Sequence[Visit], *, complete: bool) -> Iterator[Finding]:
    """Losses at known times."""
    del complete
    for visit in visits:
        since = visit.came - model["offset_ns"]
        expected = since >= 0 and since % model["period_ns"] < model["length_ns"]
        yield from _check_one(line, visit, expected=expected)


def _check_trace(line: Line, model: Spec, visits: Sequence[Visit], *, complete: bool) -> Iterator[Finding]:
    """Losses of listed packets."""
    del complete
    listed = set(model["packets"])
    for number, visit in enumerate(visits):
        yield from _check_one(line, visit, expected=number in listed)


def _check_one(line: Line, visit: Visit, *, expected: bool) -> Iterator[Finding]:
    if expected != (visit.dropped is not None):
        text = f"{'passed' if expected else 'was lost'} at {visit.came} ns, where the model says otherwise"
        yield _finding(line, visit, _RULE, text)


def _check_slots(line: Line, model: Spec, visits: Sequence[Visit], *, complete: bool) -> Iterator[Finding]:
    """Losses with a slot's probability, away from the times where a burst may be."""
    del complete
    slots, longest = model["slots"], max(model["burst_ns"] or [0])
    jitter, every = slots["jitter_ns"], slots["every_ns"]

    def is_quiet(at: int) -> bool:
        return bool((at - slots["phase_ns"] + jitter) % every > 2 * jitter + longest)

    away = [visit for visit in visits if is_quiet(visit.came)]
    lost, seen = sum(visit.dropped is not None for visit in away), len(away)
    least, most = model["probability"][0], model["probability"][-1]
    for bound, is_out in ((least, lost < seen * least), (most, lost > seen * most)):
        spread = (seen * bound * (1 - bound)) ** 0.5
        if is_out and abs(lost - seen * bound) > SIGMAS * spread + (1 if spread else 0):
            text = f"{lost} packets of {seen} were lost between hand-overs, expected {least:.3g} to {most:.3g} of them"
            yield Finding(_RULE, line.name, text)


def _check_gilbert_elliott(
    line: Line, model: Spec, visits: Sequence[Visit], *, complete: bool
) -> Iterator[Finding]:
    """Losses of two states in their stationary distribution: successive packets are correlated."""
    if not complete:
        return
    lost, seen = sum(visit.dropped is not None for visit in visits), len(visits)
    leave, back = model["good_to_bad"], model["bad_to_good"]
    bad = leave / (leave + back) if leave + back else 0.0
    p = bad * model["loss_bad"] + (1 - bad) * model["loss_good"]
    memory = max(0.0, 1 - leave - back)
    spread = (seen * p * (1 - p) * (1 + memory) / (1 - memory)) ** 0.5 if memory < 1 else float(seen)
    if abs(lost - seen * p) > SIGMAS * spread + 1:
        text = f"{lost} packets of {seen} were lost, expected {seen * p:.1f} +- {spread:.1f}"
        yield Finding(_RULE, line.name, text)


def check_count(line: Line, what: str, found: int, drawn: Sequence[tuple[float, int]]) -> Iterator[Finding]:
    """Check a count of independent draws against its mean and variance. ``drawn`` has probabilities and numbers."""
    mean = sum(p * n for p, n in drawn)
    spread = sum(p * (1 - p) * n for p, n in drawn) ** 0.5
    if abs(found - mean) > SIGMAS * spread + (1 if spread else 0):
        text = (
            f"{found} packets of {sum(n for _, n in drawn)} were {what}, expected {mean:.1f} +- {spread:.1f}"
        )
        yield Finding(_RULE, line.name, text)


def _finding(line: Line, visit: Visit, rule: str, text: str) -> Finding:
    return Finding(rule, line.name, f"packet {visit.packet} {text}")


CHECKERS: Mapping[str, Callable[..., Iterator[Finding]]] = {
    "bernoulli": _check_bernoulli,
    "gilbert_elliott": _check_gilbert_elliott,
    "burst": _check_burst,
    "trace": _check_trace,
    "slots": _check_slots,
}
"""The checker of each loss model, by its kind. ``complete``: the visits are those of the whole run."""
