"""Regression tests of draft-kuhn-quic-4-sat: transfers against the objectives of the draft.

The transfers run over six satellite accesses.

Accesses and objectives are in ``studies/etosat/published.toml``. Every objective gets a verdict for QUIC with
each
controller and for split TCP. A missed objective is a result. It says nothing against the draft, whose numbers
are first
thoughts.

- ``transfers``: transfer times from the series of a flow
- ``figures``: download times beside the objectives
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.intervals import format_significant
from bentpipe.metrics.verdicts import Check, Claim, Fact, Verdict
from bentpipe_studies.etosat.figures import downloads
from bentpipe_studies.etosat.transfers import transfer_times
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import Findings, MainResult, PublishedStudy, match_cells, sweep_text

__all__ = ["STUDY", "Etosat"]

DOWN, UP, SEND = "path.satellite.down.rate", "path.satellite.up.rate", "flow.data.direction"
LOSS, CHANGES = "path.satellite.down.loss", "path.satellite.down.changes"
CONTROLLER = "flow.data.congestion"
KNOWING = "path.gateway.client_side.line_rate"
VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "QUIC newreno": ("quic", {CONTROLLER: "newreno"}),
    "QUIC cubic": ("quic", {CONTROLLER: "cubic"}),
    "QUIC bbr": ("quic", {CONTROLLER: "bbr"}),
    "QUIC hybla": ("quic", {CONTROLLER: "hybla"}),
    "TCP split, hybla between PEPs": ("tcp-split", {KNOWING: "false"}),
    "TCP split, line rate": ("tcp-split", {KNOWING: "true"}),
}
"""Variants that run on every access: part and cell of each."""

TOLERANCE = (
    "The time is from the start of the connection to the last in-order byte. An objective is met "
    "(agrees) if its mean over seeds is at most that of the draft. With several seeds, the whole 95 % "
    "interval must be. An unfinished transfer misses the objective (differs). The draft calls its "
    "numbers first thoughts."
)


@dataclass(frozen=True)
class Access:
    """Access of the draft with its objectives: seconds by direction and bytes, ``None`` without an objective."""

    id: str
    title: str
    cell: Mapping[str, str]
    objectives: Mapping[str, Mapping[int, float | None]]


def access(entry: Mapping[str, Any], sizes: Sequence[int]) -> Access:
    """Return an entry of ``published.toml`` as an access.

    Both directions are reported; a direction with an objective gets a verdict.
    """
    later = entry.get("down_later")
    changes = [{"at": f"{later['at_s']} s", "rate": _rate(later["mbps"])}] if later else []
    cell = {
        DOWN: _rate(entry["down_mbps"]), UP: _rate(entry["up_mbps"]), LOSS: f"{entry['loss'] * 100:g} %",
        CHANGES: sweep_text(changes),
    }  # fmt: skip
    objectives: dict[str, dict[int, float | None]] = {
        "down": dict.fromkeys(sizes),
        "up": dict.fromkeys(() if later else sizes),
    }
    for one in entry["objective"]:
        objectives[one["send"]][one["bytes"]] = one["seconds"]
    return Access(entry["id"], entry["title"], cell, objectives)


def _rate(mbps: float) -> str:
    return f"{mbps:g} Mbit/s" if mbps >= 1 else f"{mbps * 1e3:g} kbit/s"


def fact(text: str, values: Sequence[float | None], limit_s: float) -> Check | Fact:
    """Return a check of the mean time, or the fact that a transfer did not finish."""
    finished = tuple(value for value in values if value is not None)
    if len(finished) == len(values):
        return Check(text, finished, limit_s, at_least=False)
    needed = f"≤ {format_significant(limit_s)}"
    return Fact(text, f"{len(values) - len(finished)} of {len(values)} unfinished", needed, Verdict.DIFFERS)


@dataclass(frozen=True)
class Etosat(PublishedStudy):
    """Study of the draft's regression tests."""

    name: str = "etosat"
    title: str = "ETOSAT: the regression tests of draft-kuhn-quic-4-sat"

    def accesses(self) -> list[Access]:
        """Return all accesses, in the order of the draft."""
        sizes = self.published["setup"]["report_after_bytes"]
        return [access(entry, sizes) for entry in self.published["access"]]

    def parts(self) -> Sequence[Part]:
        """Return the parts: QUIC and split TCP."""
        return [Part(name, self.directory / f"{name}.toml") for name in ("quic", "tcp-split")]

    def selections(self) -> Mapping[str, Mapping[str, CellFilter]]:
        """Return the selections: transports and accesses."""
        parts = ("quic", "tcp-split")
        accesses = {
            one.id: dict.fromkeys(parts, match_cells({key: [value] for key, value in one.cell.items()}))
            for one in self.accesses()
        }
        return {**{part: {part: match_cells()} for part in parts}, **accesses}

    def findings(self, measurements: Measurements, only: Sequence[str]) -> Findings:
        """Return a claim for each access, direction and variant, and a table of times for each direction."""
        accesses = [access_ for access_ in self.accesses() if access_.id in only] or self.accesses()
        claims: list[Claim] = []
        tables: dict[str, list[dict[str, Any]]] = {"down": [], "up": []}
        points: list[dict[str, Any]] = []
        for access_ in accesses:
            for send, objectives in access_.objectives.items():
                for variant, (part, settings) in VARIANTS.items():
                    cell = {**access_.cell, SEND: send, **settings}
                    times = transfer_times(measurements, part, cell, send, list(objectives))
                    if not any(times.values()):
                        continue
                    if any(objectives.values()):
                        claims.append(self._claim(access_, send, variant, times, objectives))
                    head = {"access": access_.id, "transport": variant}
                    if send == "down":
                        points += _points(head, times, objectives)
                    tables[send].append({**head, **{_mb(size): _time(times[size]) for size in objectives}})
        titles = {"down": "Downloads", "up": "Uploads"}
        return Findings(
            (),
            tuple(claims),
            tuple(
                TextTable(f"{titles[send]}: time to receive each amount, s", tuple(rows))
                for send, rows in tables.items()
                if rows
            ),
            TOLERANCE,
            charts=tuple(figure for figure in [downloads(points)] if figure is not None),
            interpretation_title="transport",
            main_result=main_result(claims),
        )

    def _claim(
        self, access_: Access, send: str, variant: str, times: Mapping[int, tuple[float | None, ...]],
        objectives: Mapping[int, float | None],
    ) -> Claim:  # fmt: skip
        limits = {size: seconds for size, seconds in objectives.items() if seconds is not None}
        checks = tuple(fact(f"{_mb(size)}, s", times[size], seconds) for size, seconds in limits.items())
        name = f"{access_.id} {send}"
        text = f"{access_.title}, {send}: " + ", ".join(
            f"{_mb(size)} in {value:g} s" for size, value in limits.items()
        )
        explanation = self.notes["objectives"].get(name, "")
        return Claim(name, text, "each time ≤ objective", variant, checks, explanation)


def main_result(claims: Sequence[Claim]) -> MainResult | None:
    """Return the number of times of the draft that QUIC and split TCP meet; None without one of both."""
    counts: dict[str, tuple[int, int]] = {}
    for claim in claims:
        met = sum(check.verdict is Verdict.AGREES for check in claim.checks)
        before = counts.get(claim.interpretation, (0, 0))
        counts[claim.interpretation] = (before[0] + met, before[1] + len(claim.checks))
    best = {}
    for transport in ("QUIC", "TCP split"):
        variants = [variant for variant in counts if variant.startswith(transport)]
        if not variants:
            return None
        best[transport] = max(variants, key=lambda variant: counts[variant][0])
    texts = {
        transport: f"{counts[variant][0]} of {counts[variant][1]}" for transport, variant in best.items()
    }
    sentence = (
        f"QUIC meets at most {texts['QUIC']} completion times of the draft ({best['QUIC'].split()[-1]}); "
        f"split TCP meets at most {texts['TCP split']} ({best['TCP split'].split(', ')[-1]})."
    )
    return MainResult(sentence, "The controller decides the number, and the draft names none.")


def _points(
    head: Mapping[str, str],
    times: Mapping[int, tuple[float | None, ...]],
    objectives: Mapping[int, float | None],
) -> list[dict[str, Any]]:
    """Return the mean time of each size, for transfers that finished with every seed."""
    found = []
    for size, values in times.items():
        finished = [value for value in values if value is not None]
        if finished and len(finished) == len(values):
            point = {
                "size": size / 1e6,
                "seconds": sum(finished) / len(finished),
                "objective": objectives[size],
            }
            found.append({**head, **point})
    return found


def _mb(size: int) -> str:
    return f"{size / 1e6:g} MB"


def _time(values: Sequence[float | None]) -> str:
    if any(value is None for value in values):
        return "unfinished"
    finished = [value for value in values if value is not None]
    return format_significant(sum(finished) / len(finished), 3) if finished else "–"


STUDY = Etosat()
"""The study, for the command line."""
