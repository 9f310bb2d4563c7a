"""What has run, by part, and how cells of a seed are compared: ratios, and their geometric means over SNRs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bentpipe_studies.tauran_2018.cells import BY_TCP, SNRS, case
from bentpipe_studies.tauran_2018.orbits import Orbits
from bentpipe_studies.tauran_2018.runs import Runs
from bentpipe_studies.verdicts import Check, Fact

__all__ = ["Checks", "Material", "Values", "best", "over_snrs", "ratios", "sums"]

Checks = tuple[Check | Fact, ...]
Values = tuple[float, ...]


@dataclass(frozen=True)
class Material:
    """What has run, by part."""

    tables: Runs
    timers: Runs
    dsack: Runs
    lossless: Runs
    users: Runs
    others: Runs
    equation: Runs
    orbits: Orbits
    buffer: str = BY_TCP
    """What the reordering buffer's numbers are."""

    def values(
        self, measure: str, snr: int, variant: str, *, reordering: bool, delayed: bool = False
    ) -> Values:
        """One measure of a cell of the tables."""
        cell = case(snr, variant, reordering=reordering, delayed=delayed, buffer=self.buffer)
        return self.tables.values(cell, measure)

    def by_acks(self, measure: str, snr: int, variant: str, *, reordering: bool) -> Values:
        """Delayed ACKs over none, by seed."""
        on = self.values(measure, snr, variant, reordering=reordering, delayed=True)
        return ratios(on, self.values(measure, snr, variant, reordering=reordering))

    def by_buffer(self, measure: str, snr: int, variant: str, *, delayed: bool = False) -> Values:
        """With the reordering buffer over without, by seed."""
        on = self.values(measure, snr, variant, reordering=True, delayed=delayed)
        return ratios(on, self.values(measure, snr, variant, reordering=False, delayed=delayed))


def ratios(ones: Values, others: Values) -> Values:
    """One over the other by seed; empty where something is missing or nothing happened."""
    if len(ones) != len(others) or not all(others):
        return ()
    return tuple(one / other for one, other in zip(ones, others, strict=True))


def over_snrs(find: Callable[[int], Values], snrs: Sequence[int] = SNRS) -> Values:
    """Geometric mean over SNRs, by seed; empty unless there is something at every SNR."""
    found = [find(snr) for snr in snrs]
    if not all(found) or len({len(values) for values in found}) > 1:
        return ()
    seeds = zip(*found, strict=True)
    return tuple(math.exp(sum(math.log(max(v, 1e-9)) for v in values) / len(values)) for values in seeds)


def sums(find: Callable[[int], Values], snrs: Sequence[int] = SNRS) -> Values:
    """Sum over SNRs, by seed: of counts and shares that may be 0."""
    found = [find(snr) for snr in snrs]
    if not all(found) or len({len(values) for values in found}) > 1:
        return ()
    return tuple(map(sum, zip(*found, strict=True)))


def best(find: Callable[[int], Values], sign: int = 1) -> Values:
    """Of the SNRs the one with the largest mean (``sign`` -1: least), by seed."""
    found = [values for values in map(find, SNRS) if values]
    return max(found, key=lambda values: sign * sum(values) / len(values), default=())
