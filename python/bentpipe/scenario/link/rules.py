"""Rules across keys of the tables in ``generated``: one function per class, with its name in lower case."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.scenario.link.generated import BurstLoss, SchedulerOptions

__all__ = ["burstloss", "scheduleroptions"]


def burstloss(table: BurstLoss) -> None:
    """Check that a burst is shorter than its interval. Raises ValueError."""
    if table.duration >= table.interval:
        raise ValueError(
            f"found a burst of {table.duration} with interval = {table.interval}, expected a shorter burst"
        )


def scheduleroptions(table: SchedulerOptions) -> None:
    """Check that the share of packets beyond the bound is above 0 and below 1. Raises ValueError."""
    if not 0 < table.violation_ratio.value < 1:
        raise ValueError(
            f'violation_ratio: found {table.violation_ratio}, expected a share between 0 and 1 such as "3 %"'
        )
