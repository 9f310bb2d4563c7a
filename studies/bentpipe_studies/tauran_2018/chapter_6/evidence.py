"""Evidence for unexplained results: round robin's lead with few users, and CoDeS with TCP. Never a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from bentpipe.metrics.format import TextTable, format_mean
from bentpipe.metrics.intervals import mean_ci
from bentpipe_studies.tauran_2018.cells import BY_TCP
from bentpipe_studies.tauran_2018.chapter_6.cells import COUNT, INTERPRETATIONS, TERMINALS, WITHOUT
from bentpipe_studies.tauran_2018.chapter_6.measures import Terminals
from bentpipe_studies.tauran_2018.chapter_6.tables import Chapter6Runs
from bentpipe_studies.tauran_2018.comparison import ratios

__all__ = ["evidence"]

USERS = (10, 20, 80)
TITLES = {
    (
        "RR",
        WITHOUT,
    ): "Evidence: RR's goodput over PF's without reordering buffer (published 1.02, 1.24, 0.79)",
    ("CoDeS", WITHOUT): "Evidence: CoDeS's goodput over PF's without reordering buffer (published: below 1)",
    ("CoDeS", BY_TCP): "Evidence: CoDeS's goodput over PF's with reordering buffer (published: below 1)",
}


def evidence(ran: Chapter6Runs) -> tuple[TextTable, ...]:
    """Return tables of spacing, of settings (lead and utilisation), and of other forms of PF."""
    return (*_spacing(ran.tcp), *_by_setting(ran.whys))


def _spacing(runs: Terminals) -> tuple[TextTable, ...]:
    """Return DUPACK events by policy and users with the utilisation (equation 6.8)."""
    lines = []
    for interpretation in INTERPRETATIONS:
        for policy in ("RR", "PF"):
            line = {"interpretation": str(interpretation), "policy": policy}
            for users in TERMINALS:
                cell = interpretation.tcp(policy, users)
                events, air = (runs.values(cell, measure) for measure in ("dupack", "air"))
                if events:
                    line[f"{users} users"] = f"{sum(events) / len(events):.2f} ({_percent(air)} %)"
            if len(line) == 2 + len(TERMINALS):
                lines.append(line)
    title = "Evidence: spacing: DUPACK events without buffer, % of packets (link utilisation in brackets)"
    return (TextTable(title, tuple(lines)),) if lines else ()


def _by_setting(runs: Terminals) -> tuple[TextTable, ...]:
    settings = _settings(runs)
    if not settings:
        return ()
    tables = []
    for (name, how), title in TITLES.items():
        lines = []
        for setting in settings:
            line = {"setting": setting}
            for users in USERS:
                ones, others = (_values(runs, setting, policy, users, how, "mean") for policy in (name, "PF"))
                line[f"{users} users"] = _shown(ratios(ones, others))
                line[f"{users} users, PF, Mb/s"] = _shown(others)
                line[f"{users} users, airtime of PF, %"] = _percent(
                    _values(runs, setting, "PF", users, how, "air")
                )
            lines.append(line)
        tables.append(TextTable(title, tuple(lines)))
    return (*tables, *_times(runs, settings), *_forms(runs))


def _times(runs: Terminals, settings: Sequence[str]) -> tuple[TextTable, ...]:
    """Return the delivery time of packets under CoDeS and PF by setting."""
    lines = []
    for setting in settings:
        line = {"setting": setting}
        for policy in ("CoDeS", "PF"):
            found = _values(runs, setting, policy, USERS[-1], BY_TCP, "delivery_ms")
            line[policy] = _shown(found)
        lines.append(line)
    title = (
        f"Evidence: delay of a packet until in-order delivery, with reordering buffer, {USERS[-1]} users, ms"
    )
    return (TextTable(title, tuple(lines)),)


def _forms(runs: Terminals) -> tuple[TextTable, ...]:
    """Return forms of PF and CoDeS in the setting of the tables."""
    lines = []
    for policy in ("PF", "PF, window 0.3 s", "PF, served bits", "CoDeS", "CoDeS, 500 ms"):
        line = {"policy": policy}
        for how in (WITHOUT, BY_TCP):
            for users in USERS:
                values = _values(runs, "as in the tables", policy, users, how, "mean")
                line[f"{users} users, {how}"] = _shown(values)
        lines.append(line)
    return (TextTable("Evidence: variants of PF and CoDeS, mean goodput per user, Mb/s", tuple(lines)),)


def _settings(runs: Terminals) -> list[str]:
    if not runs.frame.height:
        return []
    column = next(name for name in ("sweep.setting", "setting") if name in runs.frame.columns)
    found: list[str] = runs.frame[column].unique(maintain_order=True).to_list()
    return found


def _values(
    runs: Terminals, setting: str, policy: str, users: int, how: str, measure: str
) -> tuple[float, ...]:
    cell = {"setting": setting, "policy": policy, COUNT: str(users), "reordering": how}
    return runs.values(cell, measure)


def _shown(values: Sequence[float]) -> str:
    return format_mean(mean_ci(values)) if values else "–"


def _percent(values: Sequence[float]) -> str:
    return f"{100 * sum(values) / len(values):.0f}" if values else "–"
