"""Checks of the loss stage: each model has a checker, which knows its equations without the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bentpipe.trace_check.handovers import Spec, step_function
from bentpipe.trace_check.trace import Direction, Finding, Visit

__all__ = ["CHECKERS", "check_count", "check_losses"]

SIGMAS = 6.0
"""Standard deviations of a count that are accepted: a correct run fails once in 5e8."""

_RULE = "loss model"


def check_losses(direction: Direction, stage: Spec, visits: Sequence[Visit], _end: int) -> Iterator[Finding]:
    """Check the losses of a stage: its model, and after its first change the new probabilities."""
    changes = [(change["at_ns"], change["probability"]) for change in stage.get("changes", [])]
    first_change = changes[0][0] if changes else None
    for visit in visits:
        yield from _check_exit(direction, visit)
    before = [change for change in visits if first_change is None or change.arrival < first_change]
    model = stage["model"]
    yield from CHECKERS[model["kind"]](direction, model, before, complete=first_change is None)
    yield from _check_probability(direction, step_function(0.0, changes), visits[len(before) :])


def _check_exit(direction: Direction, visit: Visit) -> Iterator[Finding]:
    """Check that a packet leaves or is lost at the instant of its arrival."""
    if visit.dropped is not None:
        if visit.cause != "loss" or visit.dropped != visit.arrival:
            text = f"was dropped at {visit.dropped} ns ({visit.cause}), expected at {visit.arrival} ns (loss)"
            yield _finding(direction, visit, "drop cause", text)
    elif visit.departure is None:
        yield _finding(direction, visit, "byte conservation", f"arrived at {visit.arrival} ns and never left")
    elif visit.departure != visit.arrival:
        text = f"left at {visit.departure}, expected at once, at {visit.arrival} ns"
        yield _finding(direction, visit, "minimum delay", text)


def _check_probability(
    direction: Direction, value: Callable[[int], float], visits: Sequence[Visit]
) -> Iterator[Finding]:
    """Check independent losses whose probability may change."""
    draws: dict[float, int] = {}
    for visit in visits:
        probability = value(visit.arrival)
        draws[probability] = draws.get(probability, 0) + 1
    lost = sum(visit.dropped is not None for visit in visits)
    yield from check_count(direction, "lost", lost, list(draws.items()))


def _check_bernoulli(
    direction: Direction, model: Spec, visits: Sequence[Visit], *, complete: bool
) -> Iterator[Finding]:
    """Check independent losses."""
    del complete
    yield from _check_probability(direction, lambda _: float(model["probability"]), visits)


def _check_burst(
    direction: Direction, model: Spec, visits: Sequence[Visit], *, complete: bool
) -> Iterator[Finding]:
    """Check losses at known times."""
    del complete
    for visit in visits:
        since = visit.arrival - model["offset_ns"]
        expected = since >= 0 and since % model["interval_ns"] < model["duration_ns"]
        yield from _check_one(direction, visit, expected=expected)


def _check_trace(
    direction: Direction, model: Spec, visits: Sequence[Visit], *, complete: bool
) -> Iterator[Finding]:
    """Check losses of listed packets."""
    del complete
    listed = set(model["packets"])
    for number, visit in enumerate(visits):
        yield from _check_one(direction, visit, expected=number in listed)


def _check_one(direction: Direction, visit: Visit, *, expected: bool) -> Iterator[Finding]:
    if expected != (visit.dropped is not None):
        text = f"{'passed' if expected else 'was lost'} at {visit.arrival} ns, unlike the model"
        yield _finding(direction, visit, _RULE, text)


def _check_slots(
    direction: Direction, model: Spec, visits: Sequence[Visit], *, complete: bool
) -> Iterator[Finding]:
    """Check the loss ratio of reconfiguration intervals, away from instants where a burst is possible."""
    del complete
    slots, longest = model["reconfiguration"], max(model["burst_ns"] or [0])
    jitter, every = slots["jitter_ns"], slots["interval_ns"]

    def is_quiet(at: int) -> bool:
        return bool((at - slots["phase_ns"] + jitter) % every > 2 * jitter + longest)

    quiet = [visit for visit in visits if is_quiet(visit.arrival)]
    lost, count = sum(visit.dropped is not None for visit in quiet), len(quiet)
    least, most = model["probability"][0], model["probability"][-1]
    for bound, is_exceeded in ((least, lost < count * least), (most, lost > count * most)):
        spread = (count * bound * (1 - bound)) ** 0.5
        if is_exceeded and abs(lost - count * bound) > SIGMAS * spread + (1 if spread else 0):
            text = f"{lost} packets of {count} were lost between handovers, expected {least:.3g} to {most:.3g} of them"
            yield Finding(_RULE, direction.name, text)


def _check_gilbert_elliott(
    direction: Direction, model: Spec, visits: Sequence[Visit], *, complete: bool
) -> Iterator[Finding]:
    """Check losses of two states in their stationary distribution: successive packets are correlated."""
    if not complete:
        return
    lost, count = sum(visit.dropped is not None for visit in visits), len(visits)
    leave, back = model["good_to_bad"], model["bad_to_good"]
    bad = leave / (leave + back) if leave + back else 0.0
    probability = bad * model["loss_bad"] + (1 - bad) * model["loss_good"]
    correlation = max(0.0, 1 - leave - back)
    spread = (
        (count * probability * (1 - probability) * (1 + correlation) / (1 - correlation)) ** 0.5
        if correlation < 1
        else float(count)
    )
    if abs(lost - count * probability) > SIGMAS * spread + 1:
        text = f"{lost} packets of {count} were lost, expected {count * probability:.1f} +- {spread:.1f}"
        yield Finding(_RULE, direction.name, text)


def check_count(
    direction: Direction, event: str, count: int, draws: Sequence[tuple[float, int]]
) -> Iterator[Finding]:
    """Check a count of independent draws against its mean and variance.

    Args:
        direction: direction of the link.
        event: name of the event, as a participle.
        count: count of the event.
        draws: probabilities, each with the number of its draws.
    """
    mean = sum(p * n for p, n in draws)
    spread = sum(p * (1 - p) * n for p, n in draws) ** 0.5
    if abs(count - mean) > SIGMAS * spread + (1 if spread else 0):
        text = (
            f"{count} packets of {sum(n for _, n in draws)} were {event}, expected {mean:.1f} +- {spread:.1f}"
        )
        yield Finding(_RULE, direction.name, text)


def _finding(direction: Direction, visit: Visit, rule: str, text: str) -> Finding:
    return Finding(rule, direction.name, f"packet {visit.packet} {text}")


CHECKERS: Mapping[str, Callable[..., Iterator[Finding]]] = {
    "bernoulli": _check_bernoulli,
    "gilbert_elliott": _check_gilbert_elliott,
    "burst": _check_burst,
    "trace": _check_trace,
    "reconfiguration": _check_slots,
}
"""The checker of each loss model, by its kind. ``complete``: the visits are those of the whole run."""
