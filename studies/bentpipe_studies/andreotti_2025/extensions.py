"""Tables of measurements without published counterpart."""

from __future__ import annotations

from bentpipe.metrics.format import TextTable, format_mean
from bentpipe.metrics.intervals import mean_ci
from bentpipe_studies import measures
from bentpipe_studies.andreotti_2025.cells import (
    ALONE,
    CONTROLLERS,
    DELAY,
    HYBLA,
    INTERPRETATIONS,
    LEO,
    LOSS,
    LOSSES,
    RIVAL,
    TCP,
    alone,
    late,
    pair,
    queue,
)
from bentpipe_studies.andreotti_2025.claims import SETTLED_S
from bentpipe_studies.parts import Measurements


def format_values(values: tuple[float, ...]) -> str | None:
    """Return a mean with its interval as text; ``None`` without values."""
    if not values:
        return None
    found = mean_ci(values)
    return format_mean(found, digits=3)


def alone_table(measurements: Measurements, interpretation: str, part: str) -> TextTable:
    """Return goodput of one flow by path, rate, loss and controller (section 4.2)."""
    rows = []
    for delay, losses in LOSSES.items():
        for rate in (10, 25, 50, 100):
            for loss in losses:
                got = {
                    name: measurements.goodput(part, alone(delay, loss, name, rate)) for name in CONTROLLERS
                }
                if rate > 10 and part != INTERPRETATIONS["netem"]:
                    continue
                if any(got.values()):
                    head = {"path": "LEO" if delay == LEO else "GEO", "rate": rate, "loss": loss}
                    rows.append({**head, **{name: format_values(values) for name, values in got.items()}})
    return TextTable(f"One flow, {interpretation} interpretation: goodput, Mb/s (section 4.2)", tuple(rows))


def grid_table(measurements: Measurements, interpretation: str) -> TextTable:
    """Return goodput of Hybla and a rival by path, loss and rival (section 4.3)."""
    rows = []
    for delay, losses in LOSSES.items():
        for loss in losses:
            for rival in CONTROLLERS:
                cell = pair(interpretation, delay, loss, rival)
                hybla, other = (
                    measurements.goodput("friendliness", cell, flow) for flow in ("hybla", "rival")
                )
                if hybla and other:
                    jain = tuple(measurements.rows("friendliness", cell, "rival")["jain"].to_list())
                    head = {"path": "LEO" if delay == LEO else "GEO", "loss": loss, "rival": rival}
                    rows.append(
                        {
                            **head,
                            "hybla": format_values(hybla),
                            "the rival": format_values(other),
                            "Jain": format_values(jain),
                        }
                    )
    return TextTable(
        f"Hybla and a rival at 10 Mb/s, {interpretation} interpretation: goodput, Mb/s (section 4.3)",
        tuple(rows),
    )


def late_table(measurements: Measurements) -> TextTable:
    """Return goodput over LEO when the second flow starts 5 s later (section 4.3.1)."""
    rows = []
    for interpretation in INTERPRETATIONS:
        for first, second in (("hybla", "cubic"), ("cubic", "hybla")):
            cell = late(interpretation, first, second)
            one, two = (measurements.goodput("late-start", cell, flow) for flow in ("first", "second"))
            if one and two:
                soon = measures.jain_between(measurements, "late-start", cell, 10.0, 30.0)
                rows.append(
                    {
                        "queue": interpretation, "first": first, "5 s later": second, "first, Mb/s": format_values(one),
                        "second, Mb/s": format_values(two), "Jain, 10 to 30 s": format_values(soon),
                    }
                )  # fmt: skip
    return TextTable("LEO, the second flow 5 s later (section 4.3.1)", tuple(rows))


def tcp_table(measurements: Measurements) -> TextTable:
    """Return goodput of Hybla beside TCP, and of split TCP alone (section 4.4)."""
    paths = ("LEO, TCP CUBIC", "GEO, split TCP", "GEO, split TCP alone")
    rows = []
    for part, path in zip(TCP, paths, strict=True):
        for interpretation in INTERPRETATIONS:
            cell = queue(interpretation)
            hybla, other = (measurements.goodput(part, cell, flow) for flow in ("hybla", "rival"))
            if not other:
                continue
            jain = tuple(measurements.rows(part, cell, "rival")["jain"].drop_nulls().to_list())
            head = {"path": path, "queue": interpretation, "QUIC Hybla": format_values(hybla) or "–"}
            rows.append({**head, "TCP": format_values(other), "Jain": format_values(jain) or "–"})
    return TextTable("QUIC Hybla and one TCP connection: goodput, Mb/s (section 4.4)", tuple(rows))


def why_table(measurements: Measurements) -> TextTable:
    """Return the printed pairs with controllers nearer to picoquic's."""
    store = measurements.store("why")
    if store is None:
        return TextTable("", ())
    cells = store.index.select(DELAY, HYBLA, RIVAL).unique(maintain_order=True)
    rows = []
    for cell in cells.iter_rows(named=True):
        hybla, other = (measurements.goodput("why", cell, flow) for flow in ("hybla", "rival"))
        jain = tuple(measurements.rows("why", cell, "rival")["jain"].to_list())
        rows.append(
            {
                "path": "LEO" if cell[DELAY] == LEO else "GEO", "hybla as": cell[HYBLA],
                "rival as": cell[RIVAL], "hybla": format_values(hybla),
                "the rival": format_values(other), "Jain": format_values(jain),
            }
        )  # fmt: skip
    return TextTable(
        "Evidence: the published pairs with controllers closer to those of picoquic, netem "
        "interpretation: goodput, Mb/s",
        tuple(rows),
    )


def why_alone_table(measurements: Measurements) -> TextTable:
    """Return goodput of one flow with controllers nearer to picoquic's."""
    store = measurements.store("why-alone")
    if store is None:
        return TextTable("", ())
    rows = []
    for cell in store.index.select(DELAY, LOSS, ALONE).unique(maintain_order=True).iter_rows(named=True):
        path = "LEO" if cell[DELAY] == LEO else "GEO"
        head = {"path": path, "loss": cell[LOSS], "controller": cell[ALONE]}
        goodput = format_values(measurements.goodput("why-alone", cell))
        swing = format_values(measures.variation(measurements, "why-alone", cell, SETTLED_S))
        rows.append({**head, "goodput, Mb/s": goodput, "variation of 1 s goodput": swing})
    return TextTable(
        "Evidence: one flow at 10 Mb/s with controllers closer to those of picoquic, netem interpretation",
        tuple(rows),
    )


def why_tcp_tables(measurements: Measurements) -> list[TextTable]:
    """Return Hybla beside TCP with a controller nearer to picoquic's or Linux's, over LEO and split GEO."""
    titles = {
        "why-tcp": "Evidence: Hybla and TCP over LEO, netem interpretation: goodput, Mb/s",
        "why-tcp-split": "Evidence: Hybla and split TCP over GEO, netem interpretation: goodput, Mb/s",
    }
    tables = []
    for part, title in titles.items():
        store = measurements.store(part)
        if store is None:
            continue
        rows = []
        for cell in store.index.select(store.columns).unique(maintain_order=True).iter_rows(named=True):
            hybla, other = (measurements.goodput(part, cell, flow) for flow in ("hybla", "rival"))
            jain = tuple(measurements.rows(part, cell, "rival")["jain"].to_list())
            head = {COLUMN_TITLES[key]: value for key, value in cell.items()}
            rows.append(
                {
                    **head,
                    "hybla": format_values(hybla),
                    "TCP": format_values(other),
                    "Jain": format_values(jain),
                }
            )
        tables.append(TextTable(title, tuple(rows)))
    return tables


COLUMN_TITLES = {
    HYBLA: "hybla as",
    RIVAL: "TCP as",
    "path.pepsal.server_side.congestion": "between the proxies",
}
"""Column titles of the swept keys of the evidence."""
