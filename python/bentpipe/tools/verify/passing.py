"""Stages that take each packet by itself: delays, losses, outages.

Each rule says when a packet has to leave that came at an instant, worked out from the scenario alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

from bentpipe.tools.verify.changing import Fates, Spec, stepped
from bentpipe.tools.verify.trace import Finding, Line, Rule, Visit

__all__ = ["RULES"]

SIGMAS = 6.0
"""Chance is believed within so many standard deviations: a sound run is accused once in 5e8."""


def _delay(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    changes = stage.get("changes", [])
    value: Callable[[int], int] = stepped(
        stage["delay_ns"], [(one["at_ns"], one["delay_ns"]) for one in changes]
    )
    yield from _leave(line, visits, end, value, Fates(stage), in_order=True)


def _delay_trace(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    points, repeat = stage["points"], stage["repeat_ns"]
    at = [point[0] for point in points]

    def value(came: int) -> int:
        phase = came % repeat if repeat else came
        last = max(bisect_right(at, phase) - 1, 0)
        (t0, d0), (t1, d1) = points[last], points[min(last + 1, len(points) - 1)]
        if stage["interpolation"] == "step" or phase <= t0 or t1 == t0:
            return int(d0)
        return int(d0 + (d1 - d0) * (phase - t0) / (t1 - t0))

    yield from _leave(line, visits, end, value, Fates(stage), in_order=not stage["reorder"])


def _leave(
    line: Line,
    visits: Sequence[Visit],
    end: int,
    value: Callable[[int], int],
    fates: Fates,
    *,
    in_order: bool,
) -> Iterator[Finding]:
    """Each leaves after its delay, in order no earlier than the one before it."""
    for visit in visits:
        due = visit.came + value(visit.came)
        if in_order:
            due = fates.after(visit.came, due)
        yield from _expect(line, visit, due, end, "no sooner than the delay", fates.lost(visit.came, due))


def _expect(
    line: Line, visit: Visit, due: int, end: int, rule: str, lost: int | None = None
) -> Iterator[Finding]:
    """``visit`` leaves at ``due``, unless it is lost before."""
    if lost is not None and lost < end:
        yield from _expect_lost(line, visit, lost)
    elif visit.dropped is not None:
        yield _finding(
            line, visit, "a cause for every drop", f"was dropped ({visit.cause}) where nothing drops"
        )
    elif visit.left is None:
        if due + 1 < end:
            yield _finding(line, visit, "bytes are conserved", f"was to leave at {due} ns, and did not")
    elif abs(visit.left - due) > 1:
        yield _finding(line, visit, rule, f"left at {visit.left} ns, expected {due} ns")


def _expect_lost(line: Line, visit: Visit, at: int) -> Iterator[Finding]:
    if visit.dropped != at or visit.cause != "outage":
        text = f"was inside at {at} ns, when what was in flight was lost, and was not dropped"
        yield _finding(line, visit, "a hand-over is one event", text)


def _slot_delay(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    """What a slot's delay is is drawn: it is one of its distribution, the same for all of a slot but for the jitter,
    and nobody overtakes."""
    slots, delays, jitter = stage["slots"], stage["delay_ns"], stage["jitter_ns"] or [0]
    low, high = delays[0] + jitter[0], delays[-1] + jitter[-1]
    before, fates = 0, Fates(stage)
    known: dict[int, tuple[int, int]] = {}
    for visit in visits:
        gone = fates.lost(visit.came, end if visit.left is None else visit.left)
        if gone is not None and gone < end and (visit.left is not None or visit.dropped is not None):
            yield from _expect_lost(line, visit, gone)
            continue
        if visit.dropped is not None or visit.left is None:
            if visit.dropped is not None or max(visit.came + high, before) + 1 < end:
                yield _finding(line, visit, "bytes are conserved", "never left a stage that drops nothing")
            continue
        before = fates.after(visit.came, 0)
        late, held = visit.left - visit.came, visit.left <= before
        if late < low - 1 or visit.left < before or visit.left > max(visit.came + high, before) + 1:
            text = f"was on its way for {late} ns, expected {low} to {high} ns, or until {before} ns"
            yield _finding(line, visit, "no sooner than the delay", text)
        elif not held and slots["jitter_ns"] == 0:
            slot = (visit.came - slots["phase_ns"]) // slots["every_ns"]
            least, most = known.get(slot, (low - jitter[0], high - jitter[0]))
            least, most = max(least, late - jitter[-1] - 1), min(most, late - jitter[0] + 1)
            known[slot] = least, most
            if least > most:
                text = f"was on its way for {late} ns, more apart from others of its slot than jitter is"
                yield _finding(line, visit, "a slot has one delay", text)
        before = fates.after(visit.came, visit.left)


def _jitter(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    most = stage["model"].get("most_ns") if stage["model"]["kind"] == "uniform" else None
    before, fates = 0, Fates(stage)
    for visit in visits:
        gone = fates.lost(visit.came, end if visit.left is None else visit.left)
        if gone is not None and gone < end and (visit.left is not None or visit.dropped is not None):
            yield from _expect_lost(line, visit, gone)
            continue
        if visit.dropped is not None or visit.left is None:
            if visit.dropped is not None or (most is not None and max(visit.came + most, before) + 1 < end):
                yield _finding(line, visit, "bytes are conserved", "never left a stage that drops nothing")
            continue
        late = visit.left - visit.came
        if late < 0 or (most is not None and visit.left > max(visit.came + most, before) + 1):
            text = f"was held for {late} ns, expected 0 to {'any time' if most is None else f'{most} ns'}"
            yield _finding(line, visit, "no sooner than the delay", text)
        if not stage["reorder"]:
            before = fates.after(visit.came, 0)
            if visit.left < before:
                yield _finding(
                    line, visit, "the order is kept", f"left at {visit.left} ns, before {before} ns"
                )
            before = fates.after(visit.came, visit.left)


def _reorder(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    hold, held, known = stage["hold_ns"], 0, 0
    fates = Fates(stage)
    for visit in visits:
        lost = fates.lost(visit.came, visit.came + hold)
        if visit.dropped is not None and lost is not None:
            # Who is held back is drawn: no other is lost.
            held, known = held + 1, known + 1
            yield from _expect_lost(line, visit, lost)
            continue
        if visit.left is None and visit.dropped is None and visit.came + hold >= end:
            continue
        known += 1
        late = None if visit.left is None else visit.left - visit.came
        held += late == hold
        if late not in (0, hold):
            yield _finding(
                line, visit, "no sooner than the delay", f"was held for {late} ns, expected 0 or {hold} ns"
            )
    if hold:
        yield from _chance(line, "held back", held, [(stage["probability"], known)])


def _loss(line: Line, stage: Spec, visits: Sequence[Visit], _end: int) -> Iterator[Finding]:
    model = stage["model"]
    kind = model["kind"]
    changes = [(one["at_ns"], one["probability"]) for one in stage.get("changes", [])]
    first_change = changes[0][0] if changes else None
    if kind == "slots":
        own = [visit for visit in visits if first_change is None or visit.came < first_change]
        yield from _slot_loss(line, model, own)
    listed = set(model["packets"]) if kind == "trace" else set()
    value = stepped(model.get("probability", 0.0), changes)
    drawn: dict[float, int] = {}
    lost = 0
    for number, visit in enumerate(visits):
        is_lost = visit.dropped is not None
        if is_lost and (visit.cause != "loss" or visit.dropped != visit.came):
            text = f"was dropped at {visit.dropped} ns ({visit.cause}), expected at {visit.came} ns (loss)"
            yield _finding(line, visit, "a cause for every drop", text)
        elif not is_lost and visit.left is None:
            yield _finding(line, visit, "bytes are conserved", f"came at {visit.came} ns and never left")
        elif not is_lost and visit.left != visit.came:
            text = f"left at {visit.left}, expected at once, at {visit.came} ns"
            yield _finding(line, visit, "no sooner than the delay", text)
        if kind == "bernoulli" or (first_change is not None and visit.came >= first_change):
            probability = value(visit.came)
            drawn[probability] = drawn.get(probability, 0) + 1
            lost += is_lost
            continue
        wanted = None
        if kind == "trace":
            wanted = number in listed
        elif kind == "burst":
            since = visit.came - model["offset_ns"]
            wanted = since >= 0 and since % model["period_ns"] < model["length_ns"]
        if wanted is not None and wanted != is_lost:
            text = f"{'passed' if wanted else 'was lost'} at {visit.came} ns, where the model says otherwise"
            yield _finding(line, visit, "losses are the model's", text)
    if kind == "gilbert_elliott" and first_change is None:
        yield from _chains(line, model, sum(visit.dropped is not None for visit in visits), len(visits))
    yield from _chance(line, "lost", lost, list(drawn.items()))


def _slot_loss(line: Line, model: Spec, visits: Sequence[Visit]) -> Iterator[Finding]:
    """Away from where a burst may be, packets are lost with the probability of a slot."""
    slots, longest = model["slots"], max(model["burst_ns"] or [0])
    jitter, every = slots["jitter_ns"], slots["every_ns"]

    def quiet(at: int) -> bool:
        return bool((at - slots["phase_ns"] + jitter) % every > 2 * jitter + longest)

    away = [visit for visit in visits if quiet(visit.came)]
    lost, seen = sum(visit.dropped is not None for visit in away), len(away)
    least, most = model["probability"][0], model["probability"][-1]
    for bound, is_out in ((least, lost < seen * least), (most, lost > seen * most)):
        spread = (seen * bound * (1 - bound)) ** 0.5
        if is_out and abs(lost - seen * bound) > SIGMAS * spread + (1 if spread else 0):
            text = f"{lost} packets of {seen} were lost between hand-overs, expected {least:.3g} to {most:.3g} of them"
            yield Finding("losses are the model's", line.name, text)


def _chains(line: Line, model: Spec, lost: int, seen: int) -> Iterator[Finding]:
    """Two states in their stationary distribution; what one packet meets is correlated with what the next does."""
    leave, back = model["good_to_bad"], model["bad_to_good"]
    bad = leave / (leave + back) if leave + back else 0.0
    p = bad * model["loss_bad"] + (1 - bad) * model["loss_good"]
    memory = max(0.0, 1 - leave - back)
    spread = (seen * p * (1 - p) * (1 + memory) / (1 - memory)) ** 0.5 if memory < 1 else float(seen)
    if abs(lost - seen * p) > SIGMAS * spread + 1:
        text = f"{lost} packets of {seen} were lost, expected {seen * p:.1f} +- {spread:.1f}"
        yield Finding("losses are the model's", line.name, text)


def _chance(line: Line, what: str, found: int, drawn: Sequence[tuple[float, int]]) -> Iterator[Finding]:
    """Independent draws: their number has a mean and a variance."""
    mean = sum(p * n for p, n in drawn)
    spread = sum(p * (1 - p) * n for p, n in drawn) ** 0.5
    if abs(found - mean) > SIGMAS * spread + (1 if spread else 0):
        text = (
            f"{found} packets of {sum(n for _, n in drawn)} were {what}, expected {mean:.1f} +- {spread:.1f}"
        )
        yield Finding("losses are the model's", line.name, text)


def _outage(line: Line, stage: Spec, visits: Sequence[Visit], end: int) -> Iterator[Finding]:
    windows, repeat = stage["windows"], stage["repeat_ns"]

    def down(at: int) -> int | None:
        """The end of the window at ``at``; None: the link is up."""
        phase = at % repeat if repeat else at
        return next((at + to - phase for begin, to in windows if begin <= phase < to), None)

    before, fates = 0, Fates(stage)
    for visit in visits:
        until, chained = visit.came, 0
        while chained <= len(windows) and (later := down(until)) is not None:
            until, chained = later, chained + 1
        if chained > len(windows):
            until = end + 2  # for ever
        if until > visit.came and not stage["hold"]:
            if visit.dropped != visit.came or visit.cause != "outage":
                text = f"came at {visit.came} ns, when the link was down, and was not dropped"
                yield _finding(line, visit, "nothing crosses a link that is down", text)
            continue
        if visit.left is not None and down(visit.left) is not None:
            text = f"left at {visit.left} ns, when the link was down"
            yield _finding(line, visit, "nothing crosses a link that is down", text)
            continue
        before = max(before, until)
        lost = fates.lost(visit.came, before) if before > visit.came else None
        yield from _expect(line, visit, before, end, "no sooner than the delay", lost)


def _finding(line: Line, visit: Visit, rule: str, text: str) -> Finding:
    return Finding(rule, line.name, f"packet {visit.packet} {text}")


RULES: Mapping[str, Rule] = {
    "delay": _delay,
    "delay_trace": _delay_trace,
    "slot_delay": _slot_delay,
    "jitter": _jitter,
    "reorder": _reorder,
    "loss": _loss,
    "outage": _outage,
}
"""By the kind of the stage."""
