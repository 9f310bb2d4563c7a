"""Rules across keys of the tables in ``generated``: one function per class, with its name in lower case.

The name of a class and ``_HINTS`` is the table of its messages for wrong keys.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from bentpipe.scenario.base import require_one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.scenario.link.generated import BurstLoss, Channel, SchedulerOptions

__all__ = ["CHANNEL_HINTS", "burstloss", "channel", "scheduleroptions"]

CHANNEL_HINTS: Mapping[str, str] = {
    "band": 'no key "band": the frequency determines it; did you mean "frequency"?',
}


def channel(table: Channel) -> None:
    """Check ``snr_range`` against the elevation, and the points of an attenuation. Raises ValueError."""
    if table.snr_range is not None and table.elevation != "orbit":
        raise ValueError('found snr_range, which requires elevation = "orbit"')
    if table.snr_range is not None and table.snr_range.m == 0:
        raise ValueError("snr_range: found 0 m, expected a distance above 0")
    if table.model == "attenuation":
        require_one(table, ("trace", "schedule"), "an attenuation")
    for before, after in pairwise(table.schedule or []):
        if after.at <= before.at:
            raise ValueError(f"schedule: found {after.at} after {before.at}, expected increasing times")


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
