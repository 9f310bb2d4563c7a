"""How runs of chapter 6 are compared: within a seed, which sees the same channels, and over numbers of users."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bentpipe_studies.tauran_2018.cells import BY_TCP, SNR
from bentpipe_studies.tauran_2018.chapter_6.cells import WITHOUT, Interpretation
from bentpipe_studies.tauran_2018.chapter_6.tables import Ran
from bentpipe_studies.tauran_2018.comparison import Values, ratios

__all__ = ["Asked", "differences", "each", "geometric", "mean", "ratios"]


@dataclass(frozen=True)
class Asked:
    """A reading of what has run."""

    ran: Ran
    interpretation: Interpretation
    buffer: str = BY_TCP
    """What the reordering buffer's numbers are, where there is one."""

    def tcp(
        self, measure: str, policy: str, users: int, *, reordering: bool = False, variant: str = "CUBIC"
    ) -> Values:
        """A measure of section 6.4, a value a seed."""
        how = self.buffer if reordering else WITHOUT
        return self.ran.tcp.values(self.interpretation.tcp(policy, users, variant, how), measure)

    def call(self, measure: str, policy: str, users: int) -> Values:
        """A measure of section 6.3, a value a seed."""
        return self.ran.calls.values(self.interpretation.call(policy, users), measure)

    def bound(self, measure: str, policy: str, users: int) -> Values:
        """A measure of figure 6.3, a value a seed."""
        cell = {SNR: self.interpretation.snr, "policy": policy, "users": str(users)}
        return self.ran.bound.values(cell, measure)


def each(find: Callable[[int], Values], users: Iterable[int]) -> list[Values]:
    """One a number of users; nothing unless all have run with as many seeds."""
    found = [find(n) for n in users]
    return found if found and all(found) and len({len(values) for values in found}) == 1 else []


def geometric(find: Callable[[int], Values], users: Iterable[int]) -> Values:
    """Geometric mean over numbers of users, by seed."""
    found = each(find, users)
    return tuple(
        math.exp(math.fsum(math.log(max(v, 1e-9)) for v in values) / len(values))
        for values in zip(*found, strict=True)
    )


def mean(find: Callable[[int], Values], users: Iterable[int]) -> Values:
    """Mean over numbers of users, by seed: of what may be 0."""
    found = each(find, users)
    return tuple(math.fsum(values) / len(values) for values in zip(*found, strict=True))


def differences(ones: Values, others: Values) -> Values:
    """One less the other by seed."""
    return tuple(a - b for a, b in zip(ones, others, strict=True)) if len(ones) == len(others) else ()
