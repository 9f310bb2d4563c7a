"""Claims c1 to c6 as criteria that can fail: thresholds with their reasons, and checks of measured values."""

from __future__ import annotations

import math

from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.verdicts import Check
from bentpipe_studies import measures
from bentpipe_studies.andreotti_2025.cells import (
    CONTROLLERS,
    GEO,
    INTERPRETATIONS,
    LEO,
    LOSSES,
    alone,
    late,
    per_seed,
)
from bentpipe_studies.parts import Measurements
from bentpipe_studies.study import MainResult

CLOSE = 0.9
"""Ratio of the link rate that counts as reaching it, or as (very) close to it.

About 1400 of the 1468 bytes of a packet are stream bytes (95 %). With a queue of half a BDP a controller that
halves its
window uses at most 96 % of the link (0.75 (D+Q)² / (D²+DQ+Q²), Q = D/2). Together 0.92; 2 % are for start-up
and random
losses.
"""

LOW = 0.2
"""Ratio of the link rate that counts as extremely low.

It is a little above Reno's law, 1.31 / sqrt(p) packets a round trip (Mathis et al. 1997). That law gives 1.6 of 10 Mb/s
at 10 % loss and 30 ms.
"""

FOLLOWS = 0.5
"""Ratio of mean windows, 10 % over 0.01 % loss, below which a window follows losses. By Reno's law it falls to 1/32."""

FAIR = 0.9
"""Jain's index from which a share is fair: the thesis concludes "shared equally" from 0.9091."""

SETTLED_S = 5.0
"""Start of the span for variation and windows, seconds; in the thesis, enough to fill a LEO link."""


def c1(measurements: Measurements, part: str, _reading: str) -> tuple[Check, ...]:
    """Check that every controller is close to the rate."""
    return tuple(
        Check(f"{name}, Mb/s", measurements.goodput(part, alone(LEO, "0.01 %", name)), CLOSE * 10)
        for name in CONTROLLERS
    )


def c2(measurements: Measurements, part: str, _reading: str) -> tuple[Check, ...]:
    """Check that every controller is low at 10 % loss, and that the window of BBR stays."""
    low = [
        Check(
            f"{name} at 10 %, Mb/s",
            measurements.goodput(part, alone(LEO, "10 %", name)),
            LOW * 10,
            at_least=False,
        )
        for name in CONTROLLERS
    ]
    windows = [
        measures.mean_window(measurements, part, alone(LEO, loss, "bbr"), SETTLED_S)
        for loss in ("10 %", "0.01 %")
    ]
    ratio = tuple(high / calm for high, calm in per_seed(*windows))
    return (*low, Check("BBR's mean window at 10 % over that at 0.01 %", ratio, FOLLOWS))


def c3(measurements: Measurements, part: str, _reading: str) -> tuple[Check, ...]:
    """Check that all but NewReno reach the rate at every loss, and that NewReno is last at every loss."""
    checks = []
    for loss in LOSSES[GEO]:
        got = {name: measurements.goodput(part, alone(GEO, loss, name)) for name in CONTROLLERS}
        checks += [Check(f"{name} at {loss}, Mb/s", got[name], CLOSE * 10) for name in CONTROLLERS[1:]]
        ratio = tuple(reno / min(others) for reno, *others in per_seed(*got.values()))
        checks.append(Check(f"NewReno at {loss} over the minimum of the others", ratio, 1.0, at_least=False))
    return tuple(checks)


def c4(measurements: Measurements, part: str, _reading: str) -> tuple[Check, ...]:
    """Check the coefficient of variation of 1 s goodput: Hybla's over CUBIC's."""
    swing = [
        measures.variation(measurements, part, alone(GEO, "0.01 %", name), SETTLED_S)
        for name in ("hybla", "cubic")
    ]
    ratio = tuple(hybla / cubic for hybla, cubic in per_seed(*swing))
    return (Check("Hybla's coefficient of variation over CUBIC's, same seed", ratio, 1.0, at_least=False),)


def c5(measurements: Measurements, part: str, _reading: str) -> tuple[Check, ...]:
    """Check that only BBR is close to 100 Mb/s at every loss, and that Hybla does well at low loss."""
    got = {
        (name, loss): measurements.goodput(part, alone(GEO, loss, name, 100))
        for name in CONTROLLERS
        for loss in LOSSES[GEO]
    }
    checks = [Check(f"bbr at {loss}, Mb/s", got["bbr", loss], CLOSE * 100) for loss in LOSSES[GEO]]
    for name in ("newreno", "cubic", "hybla"):
        least = tuple(min(values) for values in per_seed(*(got[name, loss] for loss in LOSSES[GEO])))
        checks.append(Check(f"{name}, minimum over losses, Mb/s", least, CLOSE * 100, at_least=False))
    checks.append(Check("hybla at 0.01 %, Mb/s (half of the rate)", got["hybla", "0.01 %"], 50.0))
    for loss in LOSSES[GEO][:2]:
        trio = per_seed(*(got[name, loss] for name in ("hybla", "newreno", "cubic")))
        ratio = tuple(hybla / max(reno, cubic) for hybla, reno, cubic in trio)
        checks.append(Check(f"hybla at {loss} over the better of newreno and cubic", ratio, 1.0))
    return tuple(checks)


def main_result(measurements: Measurements) -> MainResult | None:
    """Return the minimum goodput over losses at 100 Mb/s over GEO, of BBR and of the best other controller."""
    minima = {}
    for name in CONTROLLERS:
        goodputs = [
            measurements.goodput(INTERPRETATIONS["netem"], alone(GEO, loss, name, 100))
            for loss in LOSSES[GEO]
        ]
        if not all(goodputs):
            return None
        minima[name] = min(math.fsum(values) / len(values) for values in goodputs)
    bbr = minima.pop("bbr")
    return MainResult(
        f"Over GEO at 100 Mb/s, BBR has at least {format_significant(bbr, 3)} Mb/s at every loss ratio, and each other "
        f"controller at most {format_significant(max(minima.values()), 3)} at some; "
        "Andreotti found that only BBR stays close to the link rate.",
        "The queue decides the goodput: as in the testbed, netem counts the packets in its delay line too.",
    )


def c6(measurements: Measurements, _part: str, interpretation: str) -> tuple[Check, ...]:
    """Check that Hybla and a CUBIC flow 5 s later are fair soon, and over the whole run."""
    cell = late(interpretation, "hybla", "cubic")
    soon = measures.jain_between(measurements, "late-start", cell, 10.0, 30.0)
    whole = measures.jain_between(measurements, "late-start", cell, 5.0, None)
    return (
        Check("Jain's index from 10 to 30 s (5 s after the second flow's start)", soon, FAIR),
        Check("Jain's index from 5 s to the end", whole, FAIR),
    )


_CLOSE, _LOW, _FAIR = f"{CLOSE:g} of the rate", f"{LOW:g} of the rate", f"{FAIR:g}"
_C5 = (
    f"BBR ≥ {_CLOSE} at each loss, every other one below that at some loss; Hybla ≥ half of the rate at 0.01 %, "
    "and ahead of NewReno and CUBIC at 0.01 and 0.1 %"
)
CRITERIA = {
    "c1": (f"goodput of each controller ≥ {_CLOSE}", c1),
    "c2": (f"goodput of each ≤ {_LOW}; BBR's mean window at 10 % ≥ {FOLLOWS:g} of that at 0.01 %", c2),
    "c3": (f"at each loss: CUBIC, BBR and Hybla ≥ {_CLOSE}, NewReno below all of them", c3),
    "c4": (
        "coefficient of variation of goodput (windows of 1 s, from 5 s on, 0.01 %): Hybla's ≤ CUBIC's",
        c4,
    ),
    "c5": (_C5, c5),
    "c6": (f"Jain's index of both flows' goodput ≥ {_FAIR} from 10 to 30 s, and from 5 s to the end", c6),
}
"""Criteria of the claims: text and checks."""
