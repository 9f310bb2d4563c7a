"""Figures 6.3, 6.6 to 6.23 and 6.25 to 6.34 with the thesis's axes; both queue sizes and the nearest interpretation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, VIOLET, WIDTH, inline_csv
from bentpipe.metrics.samples import ecdf
from bentpipe_studies.tauran_2018.cells import BY_LINK, BY_TCP, SNR
from bentpipe_studies.tauran_2018.chapter_6.cells import (
    BOUND_USERS,
    CALLERS,
    MAIN,
    NEAREST,
    POLICIES,
    SIZES,
    TERMINALS,
    WITHOUT,
    Interpretation,
)
from bentpipe_studies.tauran_2018.chapter_6.figure_parts import sketches
from bentpipe_studies.tauran_2018.comparison import Values, ratios

if TYPE_CHECKING:
    from bentpipe_studies.tauran_2018.chapter_6.tables import Chapter6Runs

__all__ = ["figures"]

COLOURS = {
    "PF": BLUE, "CoDeS": GREEN, "RR": ORANGE, "DT_H": RED, "DT_S": PURPLE, "CoDeS, 50 ms": VIOLET, "CoDeS, 25 ms": GREY,
}  # fmt: skip
"""Colours of policies, the same in every figure."""

DASHED = [6, 3]
BESIDE = (", thesis", ", from the RTT")
"""Suffixes of series drawn dashed in the colour of their counterpart."""

HEIGHT = 215
Lines = Mapping[str, Sequence[tuple[float, float]]]
"""Points by series."""

USERS = "number of users"
TIMED = ("PF", "CoDeS", "CoDeS, 50 ms", "CoDeS, 25 ms", "DT_S")


def figures(ran: Chapter6Runs, published: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return all non-empty figures: the main ones of the chapter, then the others in the thesis's order."""
    made = [*sketches(ran), _bound(ran), *_calls(ran), *_tcp(ran, published)]
    return tuple(sorted((one for one in made if one is not None), key=_order))


LEADING_FIGURES = ("6-20", "6-12", "6-3")
"""Main figures, all users by scheduler: downloads, calls, and a channel that is best for some user."""


def _order(figure: Figure) -> tuple[int, ...]:
    number = figure.key.removeprefix("figure-")
    first = LEADING_FIGURES.index(number) if number in LEADING_FIGURES else len(LEADING_FIGURES)
    return first, *(int(part) for part in number.split("-"))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _over(find: Callable[[int], Values], users: Sequence[int]) -> list[tuple[float, float]]:
    return [(n, _mean(values)) for n in users if (values := find(n))]


def _figure(
    number: str, title: str, caption: str, panels: Sequence[tuple[str, Lines]], across: str, upright: str,
    zero: bool = True,
) -> Figure | None:  # fmt: skip
    """Panels side by side that share their axes."""
    there = [(name, {k: v for k, v in lines.items() if v}) for name, lines in panels]
    there = [(name, lines) for name, lines in there if lines]
    if not there:
        return None
    names = list(dict.fromkeys(series for _, lines in there for series in lines))
    rows = [
        {"panel": name, "series": series, "x": x, "y": y}
        for name, lines in there
        for series, points in lines.items()
        for x, y in points
    ]
    bases = list(dict.fromkeys(_base(name) for name in names))
    free = iter([shade for name, shade in COLOURS.items() if name not in bases])
    shade = {base: COLOURS.get(base) or next(free) for base in bases}
    shades = [shade[_base(name)] for name in names]
    colour = alt.Color(
        "series:N", title=None, legend=alt.Legend(columns=5), scale=alt.Scale(domain=names, range=shades)
    )
    dash = alt.StrokeDash(
        "series:N", legend=None, title=None,
        scale=alt.Scale(domain=names, range=[[1, 0] if name == _base(name) else DASHED for name in names]),
    )  # fmt: skip
    columns = [name for name, _ in there]
    chart = (
        alt.Chart()
        .mark_line(point=alt.OverlayMarkDef(size=22))
        .encode(
            x=alt.X("x:Q", title=across), y=alt.Y("y:Q", title=upright, scale=alt.Scale(zero=zero)),
            color=colour, strokeDash=dash, tooltip=["series:N", "x:Q", alt.Tooltip("y:Q", format=".4~g")],
        )
        .properties(width=(WIDTH - 90) // max(2, len(columns)) - 30, height=HEIGHT)
        .facet(data=inline_csv(pl.DataFrame(rows)), column=alt.Column("panel:N", title=None, sort=columns))
    )  # fmt: skip
    return Figure(_key(number), f"{number} {title}", caption, chart, len(rows))


def _base(name: str) -> str:
    for suffix in BESIDE:
        name = name.removesuffix(suffix)
    return name


def _key(number: str) -> str:
    first = number.split(",", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    return f"figure-{first.replace('.', '-')}"


def _sizes(lines: Callable[[Interpretation], Lines]) -> list[tuple[str, Lines]]:
    names = {"": "B = RTT C / √n (equation 6.5)", "RTT C": "B = RTT C"}
    panels = [(names[size], lines(Interpretation(size=size))) for size in SIZES]
    return [*panels, ("with the packet in service, B = RTT C", lines(NEAREST))]


def _bound(ran: Chapter6Runs) -> Figure | None:
    title = "Gain of selecting the best channel"

    def lines(snr: str) -> Lines:
        def of(policy: str, users: int | None = None) -> list[tuple[float, float]]:
            def find(n: int) -> Values:
                cell = {SNR: snr, "policy": policy, "users": str(users or n)}
                return ran.bound.values(cell, "packets_s")

            return _over(find, BOUND_USERS)

        return {
            "one user": of("best first", 1), "n users, random order": of("at random"),
            "n users, best channel first": of("best first"), "PF": of("PF"),
        }  # fmt: skip

    def over_time(snr: str) -> Lines:
        names = {
            "one user": ("best first", 1), "n users, random order": ("at random", SOME),
            "n users, best channel first": ("best first", SOME), "PF": ("PF", SOME),
        }  # fmt: skip
        return {
            name: ran.bound.over_time({SNR: snr, "policy": policy, "users": str(users)})
            for name, (policy, users) in names.items()
        }

    caption = (
        f"Decoded packets per second with backlogged users. Top: one run over time with {SOME} "
        "users, as figure 6.3 of the thesis. Bottom: means over time and seeds by number of "
        "users. A single user sends most packets while its channel is good. In random order, n "
        "users send as many while their channels are bad."
    )
    timed = _figure(
        "6.3", title, caption, [(f"{MAIN}, {SOME} users", over_time(MAIN))], "time, s", "packets/s"
    )
    panels = [(snr, lines(snr)) for snr in ("7 dB", MAIN, "13 dB")]
    by_users = _figure("6.3", title, caption, panels, USERS, "packets/s")
    return _stacked([timed, by_users])


SOME = 10
"""Users of the panel over time: the thesis does not state their number."""


def _stacked(figures: Sequence[Figure | None]) -> Figure | None:
    """Return parts of a figure with axes of their own, one above the other."""
    there = [one for one in figures if one is not None]
    if len(there) < 2:
        return there[0] if there else None
    chart: Any = alt.vconcat(*(one.chart for one in there), spacing=25)
    return replace(there[0], chart=chart, rows=sum(one.rows for one in there))


CALLS = (
    ("6.6", "Throughput of calls", "throughput, Mb/s", "useful_mbps", POLICIES[:4]),
    (
        "6.7",
        "Packets of calls decoded at first attempt",
        "decoded at first attempt, %",
        "decoded_0",
        POLICIES[:4],
    ),
    ("6.8", "Packet loss of calls", "lost, %", "loss", POLICIES[:4]),
    ("6.10", "Latency of calls", "mean delay, ms", "delay_ms", POLICIES[:4]),
    ("6.11", "Jitter of calls", "jitter (RFC 3550), ms", "jitter_ms", POLICIES[:4]),
    ("6.12", "Mean opinion score", "MOS", "mos", POLICIES[:4]),
    ("6.15", "Jitter by CoDeS limit", "jitter (RFC 3550), ms", "jitter_ms", TIMED),
    ("6.16", "Packet loss by CoDeS limit", "lost, %", "loss", TIMED),
    ("6.17", "Mean opinion score by CoDeS limit", "MOS", "mos", TIMED),
)


def _calls(ran: Chapter6Runs) -> list[Figure | None]:
    def lines(store: Interpretation, measure: str, policies: Sequence[str]) -> Lines:
        return {
            name: _over(lambda n, name=name: ran.calls.values(store.call(name, n), measure), CALLERS)  # type: ignore[misc]
            for name in policies
        }

    made = []
    for number, title, upright, measure, policies in CALLS:
        panels = _sizes(lambda store, m=measure, p=policies: lines(store, m, p))  # type: ignore[misc]
        caption = f"Figure {number} of the thesis. {MAIN}, means over calls and seeds."
        made.append(_figure(number, title, caption, panels, USERS, upright, measure != "decoded_0"))
    return [*made, _spectral(ran), _against_pf(ran), _causes(ran)]


def _spectral(ran: Chapter6Runs) -> Figure | None:
    def lines(store: Interpretation) -> Lines:
        found = {}
        for name in POLICIES[:4]:
            pairs = [
                tuple(ran.calls.values(store.call(name, n), m) for m in ("useful_mbps", "load_mbps"))
                for n in CALLERS
            ]
            found[name] = [(_mean(x), _mean(y)) for x, y in pairs if x and y]
        return found

    caption = (
        "Figure 6.9 of the thesis. Both loads exclude padding; the link can carry 9.4 Mb/s (50 Mb/s x "
        "210 B / 1115 B)."
    )
    return _figure(
        "6.9", "Spectral efficiency", caption, _sizes(lines), "useful load, Mb/s", "coded load, Mb/s"
    )


def _against_pf(ran: Chapter6Runs) -> Figure | None:
    def lines(store: Interpretation) -> Lines:
        measures = {
            "delay": "delay_ms",
            "jitter": "jitter_ms",
            "lost": "loss",
            "throughput": "useful_mbps",
            "MOS": "mos",
        }
        return {
            name: _over(
                lambda n, m=measure: ratios(
                    *(ran.calls.values(store.call(p, n), m) for p in ("CoDeS", "PF"))
                ),  # type: ignore[misc]
                CALLERS,
            )
            for name, measure in measures.items()
        }

    caption = "Figure 6.13 of the thesis: CoDeS (100 ms) over PF."
    return _figure("6.13", "CoDeS over PF", caption, _sizes(lines), USERS, "CoDeS over PF")


def _causes(ran: Chapter6Runs) -> Figure | None:
    causes = {"queue overflow": "no_room", "deadline": "timed_out", "retry limit": "not_decoded"}

    def lines(store: Interpretation, policy: str) -> Lines:
        return {
            name: _over(lambda n, c=cause: ran.calls.values(store.call(policy, n), c), CALLERS)  # type: ignore[misc]
            for name, cause in causes.items()
        }

    panels = [
        ("PF, B = RTT C / √n", lines(Interpretation(), "PF")),
        ("PF, B = RTT C", lines(Interpretation(size="RTT C"), "PF")),
        ("CoDeS", lines(Interpretation(), "CoDeS")),
    ]
    caption = "Figure 6.14 of the thesis: drops by cause, % of all packets."
    return _figure("6.14", "Causes of drops", caption, panels, USERS, "dropped, %")


TCP = (
    (
        "6.18",
        "Goodput relative to DT_H, NewReno",
        "goodput relative to DT_H",
        "mean",
        WITHOUT,
        "NewReno",
        True,
    ),
    ("6.19", "Goodput relative to DT_H, CUBIC", "goodput relative to DT_H", "mean", WITHOUT, "CUBIC", True),
    ("6.20", "Total goodput, CUBIC", "goodput, Mb/s", "total", WITHOUT, "CUBIC", False),
    ("6.21", "Packet delay, CUBIC", "sender to receiver, ms", "delivery_ms", WITHOUT, "CUBIC", False),
    ("6.22", "Retransmitted, CUBIC", "retransmitted, %", "again", WITHOUT, "CUBIC", False),
    (
        "6.23",
        "Decoded at first attempt, CUBIC",
        "decoded at first attempt, %",
        "decoded_0",
        WITHOUT,
        "CUBIC",
        False,
    ),
    (
        "6.26",
        "With reordering: goodput relative to DT_H, NewReno",
        "goodput relative to DT_H",
        "mean",
        BY_TCP,
        "NewReno",
        True,
    ),
    (
        "6.27",
        "With reordering: goodput relative to DT_H, CUBIC",
        "goodput relative to DT_H",
        "mean",
        BY_TCP,
        "CUBIC",
        True,
    ),
    ("6.28", "With reordering: total goodput, CUBIC", "goodput, Mb/s", "total", BY_TCP, "CUBIC", False),
    (
        "6.29",
        "With reordering: packet delay, CUBIC",
        "sender to receiver, ms",
        "delivery_ms",
        BY_TCP,
        "CUBIC",
        False,
    ),
    ("6.30", "With reordering: retransmitted, CUBIC", "retransmitted, %", "again", BY_TCP, "CUBIC", False),
)


def _tcp(ran: Chapter6Runs, published: Mapping[str, Any]) -> list[Figure | None]:
    def lines(store: Interpretation, measure: str, how: str, variant: str, gain: bool) -> Lines:
        def find(n: int, name: str) -> Values:
            values = ran.tcp.values(store.tcp(name, n, variant, how), measure)
            return (
                ratios(values, ran.tcp.values(store.tcp("DT_H", n, variant, how), measure))
                if gain
                else values
            )

        names = [name for name in POLICIES if not (gain and name == "DT_H")]
        found: dict[str, Sequence[tuple[float, float]]] = {
            name: _over(lambda n, name=name: find(n, name), TERMINALS)  # type: ignore[misc]
            for name in names
        }
        if measure == "delivery_ms":
            beside = lines(store, "way_ms", how, variant, gain)
            found |= {f"{name}{BESIDE[1]}": points for name, points in beside.items()}
        return {**found, **(_printed(published, how) if measure == "total" and any(found.values()) else {})}

    made = []
    for number, title, upright, measure, how, variant, gain in TCP:
        panels = _sizes(lambda r, m=measure, h=how, v=variant, g=gain: lines(r, m, h, v, g))  # type: ignore[misc]
        caption = f"Figure {number} of the thesis. {MAIN}, means over users and seeds."
        if measure == "total":
            caption += " Dashed: number of users times the means of the thesis's tables."
        if measure == "delivery_ms":
            caption += (
                " Delay until in-order delivery of a byte, with retransmissions (Little's law). "
                "Dashed: SRTT minus the 85 ms of the return path; SRTT has no samples of "
                "retransmissions."
            )
        made.append(_figure(number, title, caption, panels, USERS, upright, measure != "decoded_0"))
    return [
        *made,
        _reordering(ran, published),
        _timeouts(ran),
        _variants(ran),
        _distribution(ran, "6.33", WITHOUT),
        _distribution(ran, "6.34", BY_TCP),
    ]


def _table(published: Mapping[str, Any], how: str) -> Mapping[str, Sequence[float]]:
    """Return the printed means by policy."""
    name = "table_6_4" if how == WITHOUT else "table_6_5"
    means: Mapping[str, Sequence[float]] = published["tcp_users"][name]["mean"]
    return means


def _printed(published: Mapping[str, Any], how: str) -> Lines:
    table = _table(published, how)
    return {
        f"{name}, thesis": [(n, n * table[name.lower()][i]) for i, n in enumerate(TERMINALS)]
        for name in ("PF", "RR", "DT_S")
    }


def _reordering(ran: Chapter6Runs, published: Mapping[str, Any]) -> Figure | None:
    def lines(store: Interpretation) -> Lines:
        names = {
            "RR without reordering": WITHOUT,
            "RR, by TCP sequence number": BY_TCP,
            "RR, by link sequence number": BY_LINK,
        }
        found = {
            name: _over(
                lambda n, h=how: ran.tcp.values(store.tcp("RR", n, reordering=h), "mean"), TERMINALS  # type: ignore[misc]
            )
            for name, how in names.items()
        }  # fmt: skip
        if any(found.values()):
            for name, how in list(names.items())[:2]:
                found[f"{name}{BESIDE[0]}"] = list(zip(TERMINALS, _table(published, how)["rr"], strict=True))
        return found

    caption = "Figure 6.25 of the thesis: CUBIC. Dashed: means of tables 6.4 and 6.5."
    return _figure(
        "6.25", "RR with and without reordering", caption, _sizes(lines), USERS, "goodput per user, Mb/s"
    )


def _timeouts(ran: Chapter6Runs) -> Figure | None:
    def lines(store: Interpretation) -> Lines:
        names = {
            "without reordering": WITHOUT,
            "by TCP sequence number": BY_TCP,
            "by link sequence number": BY_LINK,
        }
        return {
            name: _over(
                lambda n, h=how: ran.tcp.values(store.tcp("PF", n, reordering=h), "rto"), TERMINALS  # type: ignore[misc]
            )
            for name, how in names.items()
        }  # fmt: skip

    caption = "Figure 6.31 of the thesis: CUBIC under PF."
    return _figure("6.31", "Timeouts", caption, _sizes(lines), USERS, "RTO, % of packets")


def _variants(ran: Chapter6Runs) -> Figure | None:
    def lines(store: Interpretation) -> Lines:
        return {
            f"{variant}, {'reordering' if how == BY_TCP else 'without'}": _over(
                lambda n, h=how, v=variant: ran.tcp.values(store.tcp("PF", n, v, h), "mean"),  # type: ignore[misc]
                TERMINALS,
            )
            for variant in ("NewReno", "CUBIC")
            for how in (WITHOUT, BY_TCP)
        }

    caption = "Figure 6.32 of the thesis: PF. The buffer uses TCP sequence numbers."
    return _figure(
        "6.32", "Variant and reordering, PF", caption, _sizes(lines), USERS, "goodput per user, Mb/s"
    )


def _distribution(ran: Chapter6Runs, number: str, how: str) -> Figure | None:
    def lines(store: Interpretation) -> Lines:
        found: dict[str, list[tuple[float, float]]] = {}
        for name in POLICIES:
            values = ran.tcp.goodputs(store.tcp(name, 40, reordering=how))
            if values:
                steps = ecdf(values)
                found[name] = [
                    (x, 100 * count / len(values))
                    for x, count in zip(steps.values, steps.counts, strict=True)
                ]
        return found

    caption = f"Figure {number} of the thesis: CUBIC, 40 users, over all seeds."
    title = f"Per-user goodput, {'no reordering' if how == WITHOUT else 'reordering'}"
    return _figure(number, title, caption, _sizes(lines), "goodput, Mb/s", "users, %")
