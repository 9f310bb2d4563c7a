"""Comparisons of runs of chapter 6: within a seed, which has the same channels, and over numbers of users."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bentpipe_studies.tauran_2018.cells import BY_TCP, SNR
from bentpipe_studies.tauran_2018.chapter_6.cells import WITHOUT, Interpretation
from bentpipe_studies.tauran_2018.chapter_6.tables import Chapter6Runs
from bentpipe_studies.tauran_2018.comparison import Values, ratios

__all__ = ["InterpretationRuns", "differences", "each", "geometric", "mean", "ratios"]


@dataclass(frozen=True)
class InterpretationRuns:
    """Runs under one interpretation."""

    ran: Chapter6Runs
    interpretation: Interpretation
    buffer: str = BY_TCP
    """Numbering of the reordering buffer, if there is one."""

    def tcp(
        self, measure: str, policy: str, users: int, *, reordering: bool = False, variant: str = "CUBIC"
    ) -> Values:
        """Return a measure of section 6.4, one value for each seed."""
        how = self.buffer if reordering else WITHOUT
        return self.ran.tcp.values(self.interpretation.tcp(policy, users, variant, how), measure)

    def call(self, measure: str, policy: str, users: int) -> Values:
        """Return a measure of section 6.3, one value for each seed."""
        return self.ran.calls.values(self.interpretation.call(policy, users), measure)

    def bound(self, measure: str, policy: str, users: int) -> Values:
        """Return a measure of figure 6.3, one value for each seed."""
        cell = {SNR: self.interpretation.snr, "policy": policy, "users": str(users)}
        return self.ran.bound.values(cell, measure)


def each(find: Callable[[int], Values], users: Iterable[int]) -> list[Values]:
    """Return the values by number of users; empty unless all have run with as many seeds."""
    found = [find(n) for n in users]
    return found if found and all(found) and len({len(values) for values in found}) == 1 else []


def geometric(find: Callable[[int], Values], users: Iterable[int]) -> Values:
    """Return the geometric mean over numbers of users, by seed."""
    found = each(find, users)
    return tuple(
        math.exp(math.fsum(math.log(max(v, 1e-9)) for v in values) / len(values))
        for values in zip(*found, strict=True)
    )


def mean(find: Callable[[int], Values], users: Iterable[int]) -> Values:
    """Return the mean over numbers of users, by seed, of values that may be 0."""
    found = each(find, users)
    return tuple(math.fsum(values) / len(values) for values in zip(*found, strict=True))


def differences(ones: Values, others: Values) -> Values:
    """Return the difference of paired values by seed."""
    return tuple(a - b for a, b in zip(ones, others, strict=True)) if len(ones) == len(others) else ()
