"""Statements d1 to d10 as criteria that can fail: thresholds with their reasons, and checks of measured bundles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from bentpipe.metrics.verdicts import Check, Claim, Quantity, Tolerance
from bentpipe_studies.andreotti_2025.dtn.cells import (
    BURST_S,
    CONTROLLERS,
    LONG,
    SHORT,
    STARTS,
    STREAM,
    WINDOW,
    long,
    short,
)
from bentpipe_studies.andreotti_2025.dtn.measures import (
    ID,
    Bundles,
    acknowledged_first,
    acknowledged_last,
    burst_spread,
    generated_rate,
    longest_way,
    mean_way,
    relayed,
    share_relayed,
    times,
    void,
    ways,
)
from bentpipe_studies.parts import Measurements
from bentpipe_studies.study import Row

__all__ = ["CRITERIA", "InterpretationRuns", "checks_of", "claims", "rows"]

READ_S = 0.5
"""Precision with which the thesis reads instants from figures over 30 s.

It says "from 14 seconds to 16 seconds" of a disruption from 14.5 to 15.5 s.
"""

SAME = 0.9
"""Ratio of rates that counts as the same. A window of 32 bundles more or less at either end of 30 s is 0.09 of 350."""

DISRUPTIONS = ("10 ms", "50 ms", "100 ms", "1 s")


@dataclass(frozen=True)
class InterpretationRuns:
    """Runs under one interpretation of what the thesis leaves open."""

    bundles: Bundles
    controller: str
    relay: str = "in the plan"
    end_s: float = 300.0
    """Duration of the long runs, s."""

    def near(self, rtt: str = "10 ms", **other: str) -> dict[str, str]:
        """Return a cell of the runs of 30 s."""
        return short(self.controller, rtt, **other)

    def far(self, relay: str = "with relay") -> dict[str, str]:
        """Return a cell of the long runs."""
        return long(self.controller, "10 ms", "100 s", relay)

    def short(self, cell: Mapping[str, str], measure: Callable[[pl.DataFrame], float]) -> tuple[float, ...]:
        """Return a measure of the short runs, one value for each seed."""
        return self.bundles.values(SHORT, cell, measure)

    def long(self, cell: Mapping[str, str], measure: Callable[[pl.DataFrame], float]) -> tuple[float, ...]:
        """Return a measure of the long runs, one value for each seed."""
        return self.bundles.values(LONG, cell, measure)

    def pairs(
        self,
        one: Mapping[str, str],
        two: Mapping[str, str],
        measure: Callable[[pl.DataFrame, pl.DataFrame], float],
    ) -> tuple[float, ...]:
        """Return a measure of two cells of the short runs, one value for each seed."""
        runs = (self.bundles.runs(SHORT, cell) for cell in (one, two))
        return tuple(measure(first, second) for first, second in zip(*runs, strict=False))


def _length(found: tuple[float, float]) -> float:
    return found[1] - found[0]


def d1(runs: InterpretationRuns) -> list[Check]:
    """Check that no bundle starts from 14.5 to 15.5 s."""
    begins, cell = STARTS[SHORT], runs.near()
    after = runs.short(cell, lambda run: generated_rate(run, 18, 30) / generated_rate(run, 4, 14))
    return [
        Check("start of the longest gap without a new bundle, s", runs.short(cell, lambda run: void(run, 5, 30)[0]),
              begins - READ_S),
        Check("its end, s", runs.short(cell, lambda run: void(run, 5, 30)[1]), 16.0 + READ_S, at_least=False),
        Check("its duration, s", runs.short(cell, lambda run: _length(void(run, 5, 30))), 1.0),
        Check("bundle rate afterwards over that before", after, SAME),
    ]  # fmt: skip


def d2(runs: InterpretationRuns) -> list[Check]:
    """Check the switch to the relay: the contact ends at 30 s; figure 5.3 shows 60 s."""
    cell = runs.far()
    first = runs.long(cell, lambda run: min(relayed(run), default=runs.end_s))
    returned = runs.long(cell, lambda run: float(len(times(run, "returned"))))
    dark = runs.long(cell, lambda run: _length(void(run, 29, 60)))
    return [
        Check("first bundle at the relay, s", first, STARTS[LONG], at_least=False),
        Check("longest gap without a new bundle from 29 to 60 s, s", dark, BURST_S, at_least=False),
        Check("bundles retransmitted on another route", returned, 0.0, at_least=False),
    ]


def d3(runs: InterpretationRuns) -> list[Check]:
    """Check "almost 8 s". A second is half of the round trip: other values would be 6 or 10."""
    first = runs.short(runs.near("2 s"), acknowledged_first)
    return [
        Check("first acknowledgement, s", first, 7.0),
        Check("first acknowledgement, s", first, 8.0, at_least=False),
    ]


def d4(runs: InterpretationRuns) -> list[Check]:
    """Check "almost 30 s", read off an axis with a tick every 10 s: not more, and not nearer to 20."""
    few, many = (runs.near("125 ms", loss=loss) for loss in ("0.01 %", "1 %"))
    later = runs.pairs(few, many, lambda one, two: acknowledged_last(two) - acknowledged_last(one))
    share = runs.pairs(
        few, many, lambda one, two: len(times(two, "generated")) / len(times(one, "generated"))
    )
    return [
        Check("additional delay of the last acknowledgement, s", later, 25.0),
        Check("additional delay of the last acknowledgement, s", later, 30.0, at_least=False),
        Check("bundles at 1 % over those at 0.01 %", share, 0.5, at_least=False),
    ]


def d5(runs: InterpretationRuns) -> list[Check]:
    """Check the order of delivery in the first burst.

    On one stream the first of n arrives at 1/n of the time, 0.03, and start-up may take twice as much again.
    Streams with
    equal shares end together, except for the round trips that start-up leaves between them.
    """
    one, each = (
        runs.short(runs.near(disruption="none", streams=streams), burst_spread)
        for streams in STREAM
    )  # fmt: skip
    text = "spread of the deliveries of the first burst, share of its duration"
    return [
        Check(f"{text}: one stream", one, 1 - 3 / WINDOW),
        Check(f"{text}: one stream per bundle", each, 0.2, at_least=False),
    ]


def d6(runs: InterpretationRuns) -> list[Check]:
    """Check the switch to the relay.

    Two empty hops take 0.17 s, a fifteenth of the time of a window. More than half of a window's time would
    not be "almost
    immediately".
    """

    def share(run: pl.DataFrame) -> float:
        sent = (pl.col("node") == "vm1") & (pl.col("event") == "sent")
        direct = run.filter(sent & (pl.col("peer") == "vm6") & (pl.col("time_s") < STARTS[LONG]))
        switch = max(direct["time_s"].to_list(), default=STARTS[LONG])
        via = run.filter(sent & (pl.col("peer") == "vm3") & (pl.col("time_s") > switch)).select(ID)
        took = ways(run).join(via, on=ID, how="semi").sort("generated").head(5)["took"].to_list()
        return sum(took) / len(took) / mean_way(run, switch - 10, switch) if took else float("nan")

    text = (
        "delay ratio of the first five bundles over the relay after the last direct one to those of "
        "the 10 s before"
    )
    return [Check(text, runs.long(runs.far(), share), 0.5, at_least=False)]


def d7(runs: InterpretationRuns) -> list[Check]:
    """Check the gap without relay: QUIC retries after at most a back-off, and 5 s are a twentieth of the gap."""
    cell, end = runs.far("without relay"), runs.end_s - 5
    dark = runs.long(cell, lambda run: _length(void(run, 5, end)))
    after = runs.long(cell, lambda run: generated_rate(run, 135, end) / generated_rate(run, 4, 26))
    text = "longest gap without a new bundle, s"
    return [
        Check(text, dark, 95.0),
        Check(text, dark, 105.0, at_least=False),
        Check("bundle rate afterwards over that before", after, SAME),
    ]


def d8(runs: InterpretationRuns) -> list[Check]:
    """Check that the gap is as at 10 ms: within reading precision, after the disruption starts and before it ends."""
    near, far = (runs.near(rtt) for rtt in ("10 ms", "125 ms"))
    fewer = runs.pairs(
        near, far, lambda one, two: len(times(two, "generated")) / len(times(one, "generated"))
    )
    begins = runs.short(far, lambda run: void(run, 8, 30)[0])
    return [
        Check("bundles at 125 ms over those at 10 ms", fewer, 1.0, at_least=False),
        Check("at 125 ms start of the longest gap without a new bundle, s", begins, STARTS[SHORT] - READ_S),
        Check(
            "at 125 ms start of the longest gap without a new bundle, s",
            begins,
            15.5 + READ_S,
            at_least=False,
        ),
    ]


def d9(runs: InterpretationRuns) -> list[Check]:
    """Check delivery times and gaps without disruption.

    A bundle behind a whole window takes the time of a window. Half of it more is for start-up and losses. Six
    bundles fit
    into half a second.
    """
    cell = runs.near(disruption="none")
    took = runs.short(cell, longest_way)
    dark = runs.short(cell, lambda run: _length(void(run, 5, 30)))
    return [
        Check("maximum time from generation to delivery, s", took, 1.5 * BURST_S, at_least=False),
        Check("longest gap without a new bundle after 5 s, s", dark, 0.5, at_least=False),
    ]


def d10(runs: InterpretationRuns) -> list[Check]:
    """Check that none is relayed. A window of 350 bundles is 0.09; the threshold is half of it."""
    calm = runs.near(disruption="none", relay=runs.relay)
    text = "relayed bundles without a disruption, relay in the plan, share"
    checks = [Check(text, runs.short(calm, share_relayed), 0.0, at_least=False)]
    for disruption in DISRUPTIONS:
        dark = runs.near(disruption=disruption, relay=runs.relay)
        more = runs.pairs(calm, dark, lambda one, two: share_relayed(two) - share_relayed(one))
        if more:
            checks.append(Check(f"increase with a disruption of {disruption}", more, 0.05, at_least=False))
    return checks


CRITERIA: dict[str, tuple[str, Callable[[InterpretationRuns], list[Check]]]] = {
    "d1": (
        (
            "no bundle from 14.5 s (± 0.5 s, the resolution of the figure) to at most 16.5 s; "
            "then 9/10 of the previous rate, since a window of 32 is 0.09 of the bundles of 30 s"
        ),
        d1,
    ),
    "d2": (
        (
            "relayed before the contact ends at 30 s; in the 60 s of figure 5.3 no gap longer "
            "than the transmission of a window at the link rate; no retransmission"
        ),
        d2,
    ),
    "d3": ('"almost 8 s": from 7 to 8 s, half of an RTT', d3),
    "d4": (
        (
            '"almost 30 s later": 25 to 30 s, the resolution of an axis with a tick every 10 s; '
            '"incredibly low": at most half of the bundles'
        ),
        d4,
    ),
    "d5": (
        (
            "first burst of 32: in sequence it spreads over 31/32 of its duration (required: "
            f"{1 - 3 / WINDOW:.2f}); on separate streams all end together (allowed: 0.2 for "
            "start-up)"
        ),
        d5,
    ),
    "d6": (
        (
            "two empty hops take 1/15 of the time of a window; the first five over the relay take "
            "at most half of the time of those before"
        ),
        d6,
    ),
    "d7": (
        ("no bundle for 100 s, within the 5 s of a backed-off timer; then 9/10 of the previous rate"),
        d7,
    ),
    "d8": ("fewer than at 10 ms, and the gap starts within 0.5 s of the disruption", d8),
    "d9": (
        (
            "each within 1.5 times the transmission of a window at 100 Mb/s (half of it for "
            "start-up and losses); no gap of 0.5 s, six bundles, without a new one"
        ),
        d9,
    ),
    "d10": (
        "none over the relay, and no increase with a disruption, within half a window of 350 bundles",
        d10,
    ),
}


def checks_of(name: str, runs: InterpretationRuns) -> tuple[Check, ...] | None:
    """Return the checks of a statement; ``None`` when one of its cells has not run."""
    found = tuple(CRITERIA[name][1](runs))
    return found if all(one.values for one in found) else None


def claims(
    measurements: Measurements, published: Mapping[str, Any], notes: Mapping[str, str]
) -> tuple[Claim, ...]:  # fmt: skip
    """Return statements d1 to d10 by controller, as far as their cells have run."""
    bundles = Bundles(measurements)
    texts = {**published["dtn"], **published["dtn_more"]}
    return tuple(
        Claim(name, texts[name], criterion, controller, checks, notes.get(name, ""))
        for name, (criterion, _) in CRITERIA.items()
        for controller in CONTROLLERS
        if (checks := checks_of(name, InterpretationRuns(bundles, controller)))
    )


def rows(
    measurements: Measurements, published: Mapping[str, Any], notes: Mapping[str, str]
) -> tuple[Row, ...]:
    """Return the two numbers of the text."""
    bundles, found = Bundles(measurements), []
    for row in published["dtn_printed"]:
        for controller in CONTROLLERS:
            checks = checks_of(row["id"], InterpretationRuns(bundles, controller))
            if checks is None:
                continue
            quantity = Quantity(
                "", row["seconds"], checks[0].values, tolerance=Tolerance(row["within"], points=row["points"])
            )
            found.append(
                Row(row["id"], row["what"], row["where"], controller, (quantity,), notes.get(row["id"], ""))
            )
    return tuple(found)
