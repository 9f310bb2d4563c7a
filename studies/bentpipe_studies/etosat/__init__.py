"""The regression tests of draft-kuhn-quic-4-sat: transfers over six satellite accesses, with the draft's objectives.

Accesses and objectives are in ``studies/etosat/published.toml``. Every objective gets a verdict for QUIC with each
controller and for split TCP; a missed objective is a result, and says nothing against the draft, whose numbers are
first thoughts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.intervals import format_significant
from bentpipe_studies.etosat.figures import downloads
from bentpipe_studies.etosat.transfers import transfer_times
from bentpipe_studies.parts import CellFilter, Measurements, Part
from bentpipe_studies.study import Findings, PublishedStudy, match_cells, sweep_text
from bentpipe_studies.verdicts import Check, Claim, Fact, Verdict

__all__ = ["STUDY", "Etosat"]

DOWN, UP, SEND = "path.satellite.down.rate", "path.satellite.up.rate", "flow.data.send"
LOSS, CHANGES = "path.satellite.down.loss", "path.satellite.down.changes"
CONTROLLER = "flow.data.congestion"
KNOWING = "path.gateway.client_side.rate_knowing"
ARMS: dict[str, tuple[str, dict[str, str]]] = {
    "QUIC newreno": ("quic", {CONTROLLER: "newreno"}),
    "QUIC cubic": ("quic", {CONTROLLER: "cubic"}),
    "QUIC bbr": ("quic", {CONTROLLER: "bbr"}),
    "QUIC hybla": ("quic", {CONTROLLER: "hybla"}),
    "TCP split, hybla between": ("tcp-split", {KNOWING: "false"}),
    "TCP split, rate known": ("tcp-split", {KNOWING: "true"}),
}
"""What is tried on every access: the part and the cell of each."""

TOLERANCE = (
    "An objective is met (agrees) when the mean time over seeds, from the start of the connection to the last byte in "
    "order, is at most the draft's; with several seeds the whole 95 % interval must be. A transfer that the run's end "
    "cuts off has missed it (differs). The draft calls its numbers first thoughts."
)


@dataclass(frozen=True)
class Access:
    """An access of the draft with its objectives: seconds by direction and bytes, ``None`` where it has
    none."""

    id: str
    title: str
    cell: Mapping[str, str]
    objectives: Mapping[str, Mapping[int, float | None]]


def access(entry: Mapping[str, Any], sizes: Sequence[int]) -> Access:
    """An entry of ``published.toml``; both directions are reported, those of its objectives are judged."""
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


def fact(text: str, values: Sequence[float | None], most_s: float) -> Check | Fact:
    """A check of a mean, or the fact that a transfer did not end."""
    whole = tuple(value for value in values if value is not None)
    if len(whole) == len(values):
        return Check(text, whole, most_s, at_least=False)
    needed = f"≤ {format_significant(most_s)}"
    return Fact(text, f"{len(values) - len(whole)} of {len(values)} not done", needed, Verdict.DIFFERS)


@dataclass(frozen=True)
class Etosat(PublishedStudy):
    """The study."""

    name: str = "etosat"
    title: str = "ETOSAT: the regression tests of draft-kuhn-quic-4-sat"

    def accesses(self) -> list[Access]:
        """All of them, in the draft's order."""
        sizes = self.published["setup"]["report_after_bytes"]
        return [access(entry, sizes) for entry in self.published["access"]]

    def parts(self) -> Sequence[Part]:
        """One store each."""
        return [Part(name, self.place / f"{name}.toml") for name in ("quic", "tcp-split")]

    def words(self) -> Mapping[str, Mapping[str, CellFilter]]:
        """Transports, and accesses."""
        parts = ("quic", "tcp-split")
        accesses = {
            one.id: dict.fromkeys(parts, match_cells({key: [value] for key, value in one.cell.items()}))
            for one in self.accesses()
        }
        return {**{part: {part: match_cells()} for part in parts}, **accesses}

    def findings(self, measurements: Measurements, only: Sequence[str]) -> Findings:
        """A claim an access, direction and arm, and all times in a table a direction."""
        accesses = [one for one in self.accesses() if one.id in only] or self.accesses()
        claims: list[Claim] = []
        tables: dict[str, list[dict[str, Any]]] = {"down": [], "up": []}
        points: list[dict[str, Any]] = []
        for one in accesses:
            for send, wanted in one.objectives.items():
                for arm, (part, own) in ARMS.items():
                    cell = {**one.cell, SEND: send, **own}
                    times = transfer_times(measurements, part, cell, send, list(wanted))
                    if not any(times.values()):
                        continue
                    if any(wanted.values()):
                        claims.append(self._claim(one, send, arm, times, wanted))
                    head = {"access": one.id, "by": arm}
                    if send == "down":
                        points += _points(head, times, wanted)
                    tables[send].append({**head, **{_mb(size): _time(times[size]) for size in wanted}})
        words = {"down": "Downloads", "up": "Uploads"}
        return Findings(
            (),
            tuple(claims),
            tuple(
                TextTable(f"{words[send]}: seconds until so much had come", tuple(rows))
                for send, rows in tables.items()
                if rows
            ),
            TOLERANCE,
            charts=tuple(figure for figure in [downloads(points)] if figure is not None),
            interpretation_title="by",
        )

    def _claim(
        self, one: Access, send: str, arm: str, times: Mapping[int, tuple[float | None, ...]],
        wanted: Mapping[int, float | None],
    ) -> Claim:  # fmt: skip
        most = {size: seconds for size, seconds in wanted.items() if seconds is not None}
        checks = tuple(fact(f"{_mb(size)}, s", times[size], seconds) for size, seconds in most.items())
        name = f"{one.id} {send}"
        text = f"{one.title}, {send}: " + ", ".join(
            f"{_mb(size)} in {value:g} s" for size, value in most.items()
        )
        explanation = self.notes["objectives"].get(name, "")
        return Claim(name, text, "each time at most the objective", arm, checks, explanation)


def _points(
    head: Mapping[str, str], times: Mapping[int, tuple[float | None, ...]], wanted: Mapping[int, float | None]
) -> list[dict[str, Any]]:
    """Of transfers that ended in every seed, the mean time of each size."""
    found = []
    for size, values in times.items():
        whole = [value for value in values if value is not None]
        if whole and len(whole) == len(values):
            point = {"size": size / 1e6, "seconds": sum(whole) / len(whole), "objective": wanted[size]}
            found.append({**head, **point})
    return found


def _mb(size: int) -> str:
    return f"{size / 1e6:g} MB"


def _time(values: Sequence[float | None]) -> str:
    if any(value is None for value in values):
        return "not done"
    whole = [value for value in values if value is not None]
    return format_significant(sum(whole) / len(whole), 3) if whole else "–"


STUDY = Etosat()
"""The study, as the command line finds it."""
