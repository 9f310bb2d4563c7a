"""Runs by part, and comparisons within a seed: ratios, and their geometric means over SNRs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bentpipe.metrics.verdicts import Check, Fact
from bentpipe_studies.tauran_2018.cells import BY_TCP, SNRS, case
from bentpipe_studies.tauran_2018.orbits import Orbits
from bentpipe_studies.tauran_2018.runs import Runs

__all__ = ["Checks", "StudyRuns", "Values", "best", "over_snrs", "ratios", "sums"]

Checks = tuple[Check | Fact, ...]
Values = tuple[float, ...]


@dataclass(frozen=True)
class StudyRuns:
    """Runs by part."""

    tables: Runs
    timers: Runs
    dsack: Runs
    lossless: Runs
    users: Runs
    others: Runs
    equation: Runs
    orbits: Orbits
    buffer: str = BY_TCP
    """Numbering of the reordering buffer."""

    def values(
        self, measure: str, snr: int, variant: str, *, reordering: bool, delayed: bool = False
    ) -> Values:
        """Return a measure of a cell of the tables."""
        cell = case(snr, variant, reordering=reordering, delayed=delayed, buffer=self.buffer)
        return self.tables.values(cell, measure)

    def by_acks(self, measure: str, snr: int, variant: str, *, reordering: bool) -> Values:
        """Return the ratio of delayed ACKs over none, by seed."""
        on = self.values(measure, snr, variant, reordering=reordering, delayed=True)
        return ratios(on, self.values(measure, snr, variant, reordering=reordering))

    def by_buffer(self, measure: str, snr: int, variant: str, *, delayed: bool = False) -> Values:
        """Return the ratio with over without the reordering buffer, by seed."""
        on = self.values(measure, snr, variant, reordering=True, delayed=delayed)
        return ratios(on, self.values(measure, snr, variant, reordering=False, delayed=delayed))


def ratios(numerators: Values, denominators: Values) -> Values:
    """Return the ratio of paired values by seed; empty when a value is missing or a denominator is 0."""
    if len(numerators) != len(denominators) or not all(denominators):
        return ()
    return tuple(one / other for one, other in zip(numerators, denominators, strict=True))


def over_snrs(find: Callable[[int], Values], snrs: Sequence[int] = SNRS) -> Values:
    """Return the geometric mean over SNRs, by seed; empty unless every SNR has run."""
    found = [find(snr) for snr in snrs]
    if not all(found) or len({len(values) for values in found}) > 1:
        return ()
    seeds = zip(*found, strict=True)
    return tuple(math.exp(sum(math.log(max(v, 1e-9)) for v in values) / len(values)) for values in seeds)


def sums(find: Callable[[int], Values], snrs: Sequence[int] = SNRS) -> Values:
    """Return the sum over SNRs, by seed, of counts and shares that may be 0."""
    found = [find(snr) for snr in snrs]
    if not all(found) or len({len(values) for values in found}) > 1:
        return ()
    return tuple(map(sum, zip(*found, strict=True)))


def best(find: Callable[[int], Values], sign: int = 1) -> Values:
    """Return the values of the SNR with the largest mean (``sign`` -1: smallest), by seed."""
    found = [values for values in map(find, SNRS) if values]
    return max(found, key=lambda values: sign * sum(values) / len(values), default=())
