"""Resource that binds: the direction of the path, or its latency, that limits the number of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.capacity.estimate import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.capacity.search import Capacity

__all__ = ["LATENCY", "NAMES", "Binding", "find_binding"]

LATENCY = "latency"
NAMES = {"down": "downlink", "up": "uplink"}

FULL = 0.8
"""Utilisation above which a direction is full: pages start at random times, so that it is idle at others."""

HALF_FULL = 0.5
"""Utilisation below which queues of a link contribute less to a page load than its round trips."""

SIMILAR = 0.05
"""Difference of two utilisations at which both directions bind."""


@dataclass(frozen=True)
class Binding:
    """Resource that binds at the first number of users that fails."""

    users: int
    part: str
    """Part of the criterion that fails: ``mos`` or ``page``."""
    directions: tuple[str, ...]
    """Directions that bind; empty if latency does."""
    utilisation: Mapping[str, float]
    """Mean utilisation of the busiest link by direction, of those with a constant rate."""
    mos: Mapping[str, float]
    """Mean over the seeds of the score that the required share of the calls reaches, by direction."""

    @property
    def resources(self) -> list[str]:
        """``downlink`` and ``uplink``, or ``latency``."""
        return [NAMES[side] for side in self.directions] or [LATENCY]

    @property
    def is_full(self) -> bool:
        """Whether the directions that bind are full."""
        return bool(self.directions) and all(
            self.utilisation.get(side, 0.0) >= FULL for side in self.directions
        )


def find_binding(result: Capacity) -> Binding | None:
    """Return the resource that binds; None at the end of the search, or if it is unknown.

    For a failing MOS it is the direction of the worse score. For a failing page load time it is the direction with the
    higher utilisation, or latency if both are below half of their rates.

    Args:
        result: result of a search.
    """
    users = result.first_failing
    failures = result.failures(users) if users is not None else {}
    if users is None or not failures:
        return None
    part = max(failures, key=lambda name: failures[name])
    failing = [one for one in result.at(users) if part in one.failed]
    utilisation = _mean([one.utilisation for one in failing])
    mos = _mean([one.quality.direction_mos_of(result.config.criterion.share) for one in failing])
    if part == "mos":
        return (
            Binding(users, part, (min(mos, key=lambda side: mos[side]),), utilisation, mos) if mos else None
        )
    if not utilisation:
        return None
    most = max(utilisation.values())
    binding = tuple(side for side, used in utilisation.items() if most >= HALF_FULL and most - used < SIMILAR)
    return Binding(users, part, binding, utilisation, mos)


def _mean(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean by direction over the runs with a value."""
    known = {side: [one[side] for one in values if side in one] for side in DIRECTIONS}
    return {side: sum(found) / len(found) for side, found in known.items() if found}
