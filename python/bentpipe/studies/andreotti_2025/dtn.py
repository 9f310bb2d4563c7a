"""Chapter 5: bundles over QUIC under delay, loss and disruption. Cells, measures, statements as criteria, figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import WIDTH, colour, inline
from bentpipe.stats.intervals import mean_interval
from bentpipe.stats.wording import Table, plus_minus
from bentpipe.studies.parts import Measured, Wanted
from bentpipe.studies.study import Row, either, matching
from bentpipe.studies.verdicts import Check, Claim, Quantity, Tolerance

__all__ = ["LONG", "SHORT", "WORDS", "Bundles", "dtn_claims", "dtn_figures", "dtn_rows", "dtn_tables"]

SHORT, LONG = "dtn", "dtn-long"
CONTROLLER, STREAMS, RTT, DISRUPTION, RELAY = "controller", "streams", "rtt", "disruption", "relay"
LOSS = "graph.direct.up.loss"
CONTROLLERS, STREAM = ("cubic", "bbr"), ("one stream", "a stream a bundle")
STARTS = {SHORT: 14.5, LONG: 30.0}
"""When disruptions begin, s."""

WINDOW, BUNDLE_BITS, RATE = 32, 8e6, 100e6
BURST_S = WINDOW * BUNDLE_BITS / RATE
"""A window of bundles at the rate of the link."""


def short(
    controller: str, rtt: str, *, loss: str = "0.01 %", disruption: str = "1 s", streams: str = STREAM[0],
    relay: str = "without",
) -> dict[str, str]:  # fmt: skip
    """A cell of the runs of 30 s."""
    return {
        CONTROLLER: controller,
        STREAMS: streams,
        RTT: rtt,
        LOSS: loss,
        DISRUPTION: disruption,
        RELAY: relay,
    }


def long(controller: str, rtt: str, disruption: str, relay: str = "with relay") -> dict[str, str]:
    """A cell of the runs of 300 s."""
    return {CONTROLLER: controller, RTT: rtt, DISRUPTION: f"{disruption}, {relay}"}


def _cells(*cells: Mapping[str, str]) -> Wanted:
    return either([matching({key: [value] for key, value in cell.items()}) for cell in cells])


def _each(make: Callable[[str], Sequence[Mapping[str, str]]]) -> Wanted:
    return _cells(*(cell for controller in CONTROLLERS for cell in make(controller)))


_RELAYED = _each(
    lambda c: [
        short(c, "10 ms", disruption=d, relay="in the plan")
        for d in ("none", "10 ms", "50 ms", "100 ms", "1 s")
    ]
)
_FIGURES = _each(
    lambda c: [
        short(c, "10 ms", disruption="none"), short(c, "10 ms"), short(c, "125 ms"), short(c, "125 ms", loss="1 %"),
        short(c, "2 s"), short(c, "10 ms", disruption="none", streams=STREAM[1]),
    ]
)  # fmt: skip
_LONG = _each(lambda c: [long(c, "10 ms", "100 s"), long(c, "10 ms", "100 s", "without relay")])

WORDS: dict[str, dict[str, Wanted]] = {
    "dtn": {SHORT: either([_FIGURES, _RELAYED]), LONG: _LONG},
    "dtn-grid": {SHORT: matching({RELAY: ["without"]}), LONG: matching()},
    "dtn-short": {SHORT: _cells(short("cubic", "10 ms"))},
}
"""What chapter 5 draws and says; every cell of its grid; one run for a test."""


class Bundles:
    """Events of the client's bundles in a cell, one frame a seed."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self._known: dict[str, pl.DataFrame] = {}

    def runs(self, part: str, cell: Mapping[str, str]) -> list[pl.DataFrame]:
        """By seed; none where it has not run."""
        frame = self.data(part)
        if not frame.height:
            return []
        for key, value in cell.items():
            frame = frame.filter(pl.col(key) == value)
        return [
            one for _, one in sorted(frame.group_by("seed", maintain_order=True), key=lambda pair: pair[0])
        ]

    def values(
        self, part: str, cell: Mapping[str, str], measure: Callable[[pl.DataFrame], float]
    ) -> tuple[float, ...]:
        """One a seed."""
        return tuple(measure(run) for run in self.runs(part, cell))

    def data(self, part: str) -> pl.DataFrame:
        """All cells of a part."""
        if part not in self._known:
            frame = self.measured.table(part, "bundles")
            if frame.height:
                frame = frame.filter(pl.col("kind") == "data")
            self._known[part] = frame
        return self._known[part]


def times(run: pl.DataFrame, event: str) -> list[float]:
    """When it happened, s, in order."""
    found: list[float] = run.filter(pl.col("event") == event)["time_s"].sort().to_list()
    return found


def void(run: pl.DataFrame, start: float, end: float) -> tuple[float, float]:
    """The longest time between two bundles generated from ``start`` to ``end``."""
    found = [time for time in times(run, "generated") if start <= time <= end]
    return max(pairwise([start, *found, end]), key=lambda pair: pair[1] - pair[0])


def generated_rate(run: pl.DataFrame, start: float, end: float) -> float:
    """Bundles a second."""
    return sum(start <= time < end for time in times(run, "generated")) / (end - start)


def ways(run: pl.DataFrame) -> pl.DataFrame:
    """Each delivered bundle's times."""
    key = ["created_ms", "sequence"]
    parts = [
        run.filter(pl.col("event") == event).select(*key, pl.col("time_s").alias(event))
        for event in ("generated", "delivered")
    ]
    both = parts[0].join(parts[1], on=key, how="inner")
    return both.with_columns(took=pl.col("delivered") - pl.col("generated")).sort("generated")


def relayed(run: pl.DataFrame) -> list[float]:
    """When bundles came to the relay."""
    return times(run.filter(pl.col("node") == "vm3"), "received")


def longest_way(run: pl.DataFrame) -> float:
    """From a bundle's generation to its delivery, at most."""
    return float(ways(run)["took"].to_numpy().max())


def mean_way(run: pl.DataFrame, start: float, end: float) -> float:
    """Mean time on the way of bundles generated from ``start`` to ``end``."""
    found = ways(run).filter(pl.col("generated").is_between(start, end))["took"]
    return float(found.to_numpy().mean()) if found.len() else float("nan")


def burst_spread(run: pl.DataFrame) -> float:
    """Of the first window: time between its first and last delivery, as a part of that to the last."""
    found = ways(run).head(WINDOW)["delivered"].sort().to_list()
    return float((found[-1] - found[0]) / found[-1])


def _last(run: pl.DataFrame) -> float:
    return times(run, "acknowledged")[-1]


def d1(bundles: Bundles, c: str) -> list[Check]:
    def seen(measure: Callable[[pl.DataFrame], float]) -> tuple[float, ...]:
        return bundles.values(SHORT, short(c, "10 ms"), measure)

    after = seen(lambda run: generated_rate(run, 18, 30) / generated_rate(run, 4, 14))
    return [
        Check("the longest time without a new bundle begins, s", seen(lambda run: void(run, 5, 30)[0]), 14.0),
        Check("it ends, s", seen(lambda run: void(run, 5, 30)[1]), 16.5, at_least=False),
        Check("it lasts, s", seen(lambda run: void(run, 5, 30)[1] - void(run, 5, 30)[0]), 1.0),
        Check("bundles a second afterwards over those before", after, 0.9),
    ]


def d2(bundles: Bundles, c: str) -> list[Check]:
    cell = long(c, "10 ms", "100 s")
    first = bundles.values(LONG, cell, lambda run: min(relayed(run), default=300.0))
    returned = bundles.values(LONG, cell, lambda run: float(len(times(run, "returned"))))
    dark = bundles.values(LONG, cell, lambda run: void(run, 29, 130)[1] - void(run, 29, 130)[0])
    return [
        Check("the first bundle is at the relay, s", first, 30.0, at_least=False),
        Check("the longest time without a new bundle from 29 to 130 s, s", dark, BURST_S, at_least=False),
        Check("bundles that had to be sent again on another way", returned, 0.0, at_least=False),
    ]


def d3(bundles: Bundles, c: str) -> list[Check]:
    first = bundles.values(SHORT, short(c, "2 s"), lambda run: times(run, "acknowledged")[0])
    return [
        Check("first acknowledgement, s", first, 7.0),
        Check("first acknowledgement, s", first, 8.0, at_least=False),
    ]


def d4(bundles: Bundles, c: str) -> list[Check]:
    few, many = (bundles.runs(SHORT, short(c, "125 ms", loss=loss)) for loss in ("0.01 %", "1 %"))
    later = tuple(_last(two) - _last(one) for one, two in zip(few, many, strict=False))
    share = tuple(
        len(times(two, "generated")) / len(times(one, "generated"))
        for one, two in zip(few, many, strict=False)
    )
    return [
        Check("the last acknowledgement comes later by, s", later, 25.0),
        Check("the last acknowledgement comes later by, s", later, 30.0, at_least=False),
        Check("bundles at 1 % over those at 0.01 %", share, 0.5, at_least=False),
    ]


def d5(bundles: Bundles, c: str) -> list[Check]:
    one, each = (
        bundles.values(SHORT, short(c, "10 ms", disruption="none", streams=streams), burst_spread)
        for streams in STREAM
    )
    text = "first to last delivery of the first burst, as a part of its time"
    return [
        Check(f"{text}: one stream", one, 0.9),
        Check(f"{text}: a stream a bundle", each, 0.2, at_least=False),
    ]


def d6(bundles: Bundles, c: str) -> list[Check]:
    def share(run: pl.DataFrame) -> float:
        key, sent = ["created_ms", "sequence"], (pl.col("node") == "vm1") & (pl.col("event") == "sent")
        direct = run.filter(sent & (pl.col("peer") == "vm6") & (pl.col("time_s") < STARTS[LONG]))
        switch = max(direct["time_s"].to_list())
        via = run.filter(sent & (pl.col("peer") == "vm3") & (pl.col("time_s") > switch)).select(key)
        took = ways(run).join(via, on=key, how="semi").sort("generated").head(5)["took"].to_list()
        return sum(took) / len(took) / mean_way(run, switch - 10, switch) if took else float("nan")

    text = "time on the way of the first five bundles by the relay after the last direct one, over that of 10 s before"
    return [Check(text, bundles.values(LONG, long(c, "10 ms", "100 s"), share), 0.5, at_least=False)]


def d7(bundles: Bundles, c: str) -> list[Check]:
    cell = long(c, "10 ms", "100 s", "without relay")
    dark = bundles.values(LONG, cell, lambda run: void(run, 5, 300)[1] - void(run, 5, 300)[0])
    after = bundles.values(LONG, cell, lambda run: generated_rate(run, 135, 295) / generated_rate(run, 4, 26))
    text = "the longest time without a new bundle, s"
    return [
        Check(text, dark, 95.0),
        Check(text, dark, 105.0, at_least=False),
        Check("bundles a second afterwards over those before", after, 0.9),
    ]


def d8(bundles: Bundles, c: str) -> list[Check]:
    near, far = (bundles.runs(SHORT, short(c, rtt)) for rtt in ("10 ms", "125 ms"))
    fewer = tuple(
        len(times(two, "generated")) / len(times(one, "generated"))
        for one, two in zip(near, far, strict=False)
    )
    begins = bundles.values(SHORT, short(c, "125 ms"), lambda run: void(run, 8, 30)[0])
    return [
        Check("bundles at 125 ms over those at 10 ms", fewer, 1.0, at_least=False),
        Check("at 125 ms the longest time without a new bundle begins, s", begins, 14.0),
        Check("at 125 ms the longest time without a new bundle begins, s", begins, 16.0, at_least=False),
    ]


def d9(bundles: Bundles, c: str) -> list[Check]:
    cell = short(c, "10 ms", disruption="none")
    took = bundles.values(SHORT, cell, longest_way)
    dark = bundles.values(SHORT, cell, lambda run: void(run, 5, 30)[1] - void(run, 5, 30)[0])
    return [
        Check("longest time from generation to delivery, s", took, 1.5 * BURST_S, at_least=False),
        Check("longest time without a new bundle after 5 s, s", dark, 0.5, at_least=False),
    ]  # fmt: skip


def d10(bundles: Bundles, c: str) -> list[Check]:
    def more(disruption: str) -> tuple[float, ...]:
        calm, dark = (
            bundles.runs(SHORT, short(c, "10 ms", disruption=one, relay="in the plan"))
            for one in ("none", disruption)
        )
        return tuple(_share(two) - _share(one) for one, two in zip(calm, dark, strict=False))

    calm = bundles.values(SHORT, short(c, "10 ms", disruption="none", relay="in the plan"), _share)
    checks = [
        Check(
            "relayed without a disruption, the relay in the plan, part of bundles", calm, 0.0, at_least=False
        )
    ]
    for disruption in ("10 ms", "50 ms", "100 ms", "1 s"):
        text = f"more of them with a disruption of {disruption}"
        checks.append(Check(text, more(disruption), 0.05, at_least=False))
    return checks


def _share(run: pl.DataFrame) -> float:
    return len(relayed(run)) / len(times(run, "generated"))


CRITERIA: dict[str, tuple[str, Callable[[Bundles, str], list[Check]]]] = {
    "d1": ("disrupted from 14.5 s on: no bundle from about then until a second after the end; then the same rate", d1),
    "d2": ("relayed before 30 s; never longer without a new bundle than a window takes; nothing sent twice", d2),
    "d3": ('"almost 8 s": from 7 to 8 s', d3),
    "d4": ('"almost 30 s later": 25 to 30 s; at most half of the bundles', d4),
    "d5": ("first burst of 32: spread over ≥ 0.9 of its time on one stream, ≤ 0.2 on streams of their own", d5),
    "d6": ("the first five by the relay take at most half of the time of those before", d6),
    "d7": ("no bundle for 100 s, within 5; then the same rate", d7),
    "d8": ("fewer than at 10 ms, and the void at the same place", d8),
    "d9": ("each within 1.5 times what a window takes at 100 Mb/s; never half a second without a new one", d9),
    "d10": ("none by the relay, and none more with a disruption (within 5 points)", d10),
}  # fmt: skip


def dtn_claims(
    measured: Measured, published: Mapping[str, Any], notes: Mapping[str, str]
) -> tuple[Claim, ...]:
    """Statements d1 to d10 by controller, as far as their cells have run."""
    bundles = Bundles(measured)
    texts = {**published["dtn"], **published["dtn_more"]}
    found = []
    for name, (criterion, check) in CRITERIA.items():
        for controller in CONTROLLERS:
            checks = tuple(check(bundles, controller))
            if all(one.values for one in checks):
                found.append(Claim(name, texts[name], criterion, controller, checks, notes.get(name, "")))
    return tuple(found)


def dtn_rows(measured: Measured, published: Mapping[str, Any], notes: Mapping[str, str]) -> tuple[Row, ...]:
    """The two numbers of the text."""
    bundles, found = Bundles(measured), []
    for row in published["dtn_printed"]:
        for controller in CONTROLLERS:
            checks = (d3 if row["id"] == "d3" else d4)(bundles, controller)
            if not checks[0].values:
                continue
            quantity = Quantity(
                "", row["seconds"], checks[0].values, tolerance=Tolerance(row["within"], points=row["points"])
            )
            found.append(
                Row(row["id"], row["what"], row["where"], controller, (quantity,), notes.get(row["id"], ""))
            )
    return tuple(found)


def dtn_tables(measured: Measured) -> Iterator[Table]:
    """Every cell that has run: bundles, goodput both ways, first and last acknowledgement."""
    bundles = Bundles(measured)
    for part, name, client_s in ((SHORT, "runs of 30 s", 30.0), (LONG, "runs of 300 s", 300.0)):
        frame = bundles.data(part)
        if not frame.height:
            continue
        keys = [key for key in (CONTROLLER, STREAMS, RTT, LOSS, DISRUPTION, RELAY) if key in frame.columns]
        rows = []
        for cell in frame.select(keys).unique(maintain_order=True).iter_rows(named=True):
            runs = bundles.runs(part, cell)
            rows.append({
                **{key.rsplit(".", 1)[-1]: value for key, value in cell.items()},
                **{
                    event: plus_minus(mean_interval([float(len(times(run, event))) for run in runs]), digits=4)
                    for event in ("generated", "delivered", "acknowledged")
                },
                "by relay": plus_minus(mean_interval([_share(run) for run in runs]), digits=2),
                "Mb/s as the thesis counts": plus_minus(
                    mean_interval([_thesis(run, client_s) for run in runs]), digits=3),
                "first acknowledged, s": _end(runs, 0),
                "last acknowledged, s": _end(runs, -1),
            })  # fmt: skip
        yield Table(f"Bundles, {name} (chapter 5)", tuple(rows))


def _thesis(run: pl.DataFrame, client_s: float) -> float:
    """Goodput as the thesis counts it: what was generated, over the time of the client, Mb/s."""
    return len(times(run, "generated")) * BUNDLE_BITS / client_s / 1e6


def _end(runs: Sequence[pl.DataFrame], index: int) -> str | None:
    found = [times(run, "acknowledged") for run in runs]
    return plus_minus(mean_interval([one[index] for one in found]), digits=3) if all(found) else None


DRAWN: tuple[tuple[str, str, str, dict[str, str], float], ...] = (
    ("5.1", SHORT, "10 ms, no disruption", {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "none"}, 30.0),
    ("5.2", SHORT, "10 ms, 1 s of disruption", {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "1 s"}, 30.0),
    ("5.3", LONG, "10 ms, 100 s of disruption in the plan", {RTT: "10 ms", DISRUPTION: "100 s, with relay"}, 60.0),
    ("5.4", SHORT, "125 ms, 1 s of disruption", {RTT: "125 ms", LOSS: "0.01 %", DISRUPTION: "1 s"}, 35.0),
    ("5.5", SHORT, "125 ms, 1 % of loss, 1 s of disruption", {RTT: "125 ms", LOSS: "1 %", DISRUPTION: "1 s"}, 65.0),
    ("5.6", SHORT, "2 s, 1 s of disruption", {RTT: "2 s", LOSS: "0.01 %", DISRUPTION: "1 s"}, 40.0),
    ("5.7", SHORT, "10 ms, a stream a bundle", {RTT: "10 ms", LOSS: "0.01 %", DISRUPTION: "none"}, 10.0),
)  # fmt: skip


def dtn_figures(measured: Measured) -> Iterator[Figure]:
    """Figures 5.1 to 5.7, the least seed: each bundle by its number, generated, delivered and acknowledged."""
    bundles = Bundles(measured)
    for number, part, what, some, last in DRAWN:
        own = {STREAMS: STREAM[number == "5.7"], RELAY: "without"} if part == SHORT else {}
        cell = {**some, **own}
        drawn = []
        for controller in CONTROLLERS:
            runs = bundles.runs(part, {**cell, CONTROLLER: controller})[:1]
            for run in runs:
                events = ("generated", "delivered", "acknowledged")
                shown = run.filter(pl.col("event").is_in(events) & (pl.col("time_s") <= last))
                order = (
                    run.filter(pl.col("event") == "generated")
                    .select("created_ms", "sequence")
                    .with_row_index("y", 1)
                )
                joined = shown.join(order, on=["created_ms", "sequence"], how="inner")
                drawn.append(joined.select(
                    "time_s", pl.col("y").cast(pl.Float64), pl.col("event").cast(pl.String).alias("series"),
                    pl.lit(controller).alias("controller"),
                ))  # fmt: skip
        if not drawn:
            continue
        rows = pl.concat(drawn)
        dots = alt.Chart(inline(rows)).mark_point(filled=True, size=10, clip=True).encode(
            x=alt.X("time_s:Q", title="time, s", scale=alt.Scale(domain=[0, last], nice=False)),
            y=alt.Y("y:Q", title="bundle"),
            color=colour(["generated", "delivered", "acknowledged"], title="event"),
        ).properties(width=WIDTH // 2 - 40, height=220)  # fmt: skip
        chart = dots.facet(column=alt.Column("controller:N", title=None))
        caption = f"Figure {number} of the thesis: {what}. One dot an event of a bundle; the first seed."
        yield Figure(f"figure-{number.replace('.', '-')}", f"Bundles, {what}", caption, chart, rows.height)
