"""What each queue discipline and each scheduler promises, for the checks of traced runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["DISCIPLINES", "Discipline", "discipline"]


@dataclass(frozen=True, slots=True)
class Discipline:
    """The promises of a queue discipline.

    Args:
        in_order: packets leave in the order of arrival.
        evicts: where a full queue drops packets: the arrival, at the head, or from the longest queue.
        manages: packets are also dropped because they have waited.
    """

    in_order: bool
    evicts: Literal["arrival", "head", "longest"]
    manages: bool


DISCIPLINES: Mapping[str, Discipline] = {
    "drop_tail": Discipline(in_order=True, evicts="arrival", manages=False),
    "drop_head": Discipline(in_order=True, evicts="head", manages=False),
    "codel": Discipline(in_order=True, evicts="arrival", manages=True),
    "fq_codel": Discipline(in_order=False, evicts="longest", manages=True),
    "per_user": Discipline(in_order=False, evicts="longest", manages=True),
}
"""By the kind in a resolved run."""


def discipline(stage: Mapping[str, Mapping[str, str]]) -> Discipline:
    """Return the promises of a stage's queue."""
    return DISCIPLINES[stage["queue"]["kind"]]
