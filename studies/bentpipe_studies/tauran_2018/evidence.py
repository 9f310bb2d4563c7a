"""Evidence for the origin of differences: one changed setting at a time. Never a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bentpipe.metrics.format import TextTable, format_mean
from bentpipe.metrics.intervals import mean_ci
from bentpipe_studies.tauran_2018.cells import ACKS, BUFFERS, FITTED_DB, REORDERING, SNR, VARIANT
from bentpipe_studies.tauran_2018.comparison import ratios
from bentpipe_studies.tauran_2018.runs import Runs

if TYPE_CHECKING:
    from bentpipe_studies.parts import Measurements

__all__ = ["evidence"]

PRINTED = {"goodput_kbps": ("380", "1051", "521", "1955"), "rto": ("0.01", "0.1", "0", "0.05"),
           "dupack": ("2.08", "0.17", "1.5", "0.25"), "spurious": ("2.63", "1.02", "1.32", "3.92")}  # fmt: skip
"""Values at 13 dB in tables 4.1 and 4.2: NewReno without and with reordering, CUBIC without and with."""

MEASURES = {
    "goodput_kbps": "goodput, kb/s",
    "dupack": "DUPACK, % of packets",
    "rto": "RTO, % of packets",
    "spurious": "spurious, % of packets",
}
COLUMNS = [(variant, how) for variant in ("NewReno", "CUBIC") for how in ("without", *BUFFERS)]


def evidence(measurements: Measurements) -> tuple[TextTable, ...]:
    """Return the tables at 13 dB by setting, and forms of CUBIC by SNR."""
    runs = Runs(measurements, "why")
    tables = []
    for measure, title in MEASURES.items():
        one, other, third, fourth = PRINTED[measure]
        first = dict(zip(map(_name, COLUMNS), (one, other, other, third, fourth, fourth), strict=True))
        rows = _by_setting(runs, lambda cell, measure=measure: runs.values({**cell, ACKS: "true"}, measure))  # type: ignore[misc]
        if rows:
            tables.append(
                TextTable(
                    f"Evidence: single changes at 13 dB, {title}",
                    ({"setting": "thesis", **first}, *rows),
                )
            )

    def by_acks(cell: Mapping[str, str]) -> Sequence[float]:
        on, off = (runs.values({**cell, ACKS: acks}, "goodput_kbps") for acks in ("false", "true"))
        return ratios(on, off)

    if rows := _by_setting(runs, by_acks):
        tables.append(TextTable("Evidence: goodput ratio with to without delayed ACKs at 13 dB", rows))
    moving, constant = Runs(measurements, "moving"), Runs(measurements, "tables")
    return (*tables, *_cubic(Runs(measurements, "why-cubic")), *_moving(moving, constant))


def _name(column: tuple[str, str]) -> str:
    variant, how = column
    return f"{variant}, {how}"


def _settings(runs: Runs) -> list[str]:
    if not runs.frame.height:
        return []
    column = next(name for name in ("sweep.setting", "setting") if name in runs.frame.columns)
    found: list[str] = runs.frame[column].unique(maintain_order=True).to_list()
    return found


def _by_setting(
    runs: Runs, find: Callable[[Mapping[str, str]], Sequence[float]]
) -> tuple[dict[str, str], ...]:
    rows = []
    for setting in _settings(runs):
        row = {"setting": setting}
        for column in COLUMNS:
            values = find({"setting": setting, VARIANT: column[0], REORDERING: column[1]})
            row[_name(column)] = _format_mean(values)
        rows.append(row)
    return tuple(rows)


def _cubic(runs: Runs) -> tuple[TextTable, ...]:
    printed = zip(FITTED_DB, ((219, 256), (307, 458), (380, 521)), strict=True)
    rows = [
        {
            "controller": "thesis: NewReno, CUBIC",
            **{f"{snr} dB": f"{one}, {other}" for snr, (one, other) in printed},
        }
    ]
    for setting in _settings(runs):
        by_snr = {
            snr: runs.values({"setting": setting, SNR: f"{snr} dB"}, "goodput_kbps") for snr in FITTED_DB
        }
        rows.append(
            {"controller": setting, **{f"{snr} dB": _format_mean(values) for snr, values in by_snr.items()}}
        )
    return (
        (TextTable("Evidence: CUBIC variants without reordering buffer, goodput, kb/s", tuple(rows)),)
        if rows[1:]
        else ()
    )


def _moving(moving: Runs, constant: Runs) -> tuple[TextTable, ...]:
    rows = []
    for variant, how in COLUMNS:
        row = {"variant, reordering": f"{variant}, {how}"}
        for snr in FITTED_DB:
            cell = {VARIANT: variant, REORDERING: how, SNR: f"{snr} dB"}
            row[f"{snr} dB, moving"] = _format_mean(moving.values(cell, "goodput_kbps"))
            row[f"{snr} dB, constant"] = _format_mean(constant.values({**cell, ACKS: "true"}, "goodput_kbps"))
        rows.append(row)
    title = (
        "Evidence: delays from Sydney to Paris over 66 satellites (figure 3.3) instead of 85 ms, "
        "goodput, kb/s"
    )
    return (TextTable(title, tuple(rows)),) if moving.frame.height else ()


def _format_mean(values: Sequence[float]) -> str:
    return format_mean(mean_ci(values), digits=3) if values else "–"
