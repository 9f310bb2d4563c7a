"""Rules across keys of the generated tables: one function per class, with its name in lower case.

The name of a class and ``_HINTS`` is the table of its messages for wrong keys.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from bentpipe.scenario.base import require_one
from bentpipe.scenario.link.arq import INCREMENTAL, link_layer_attempts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.scenario.link.generated import BurstLoss, Channel, SchedulerOptions
    from bentpipe.scenario.link.generated_services import LinkLayer, Nr

__all__ = ["CHANNEL_HINTS", "burstloss", "channel", "linklayer", "nr", "scheduleroptions"]

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


def linklayer(table: LinkLayer) -> None:
    """Check the codes, the decoder and the timeout of a link layer. Raises ValueError."""
    given = table.model_fields_set
    if table.coded_bits is not None and "target_decoded_ratio" in given:
        raise ValueError("found target_decoded_ratio and coded_bits, expected one of them")
    if table.block_error_rate is not None and "margin" in given:
        raise ValueError("found margin, which cannot be combined with block_error_rate")
    if table.timeout is not None and table.timeout.ns < table.feedback_delay.ns:
        least = table.feedback_delay
        raise ValueError(f"timeout: found {table.timeout}, expected at least feedback_delay = {least}")
    _check_bits(table)


def _check_bits(table: LinkLayer) -> None:
    """Check the coded bits against the scheme. Raises ValueError."""
    bits, information = table.coded_bits or [], table.frame.bytes * 8
    if table.code_rate is not None and bits:
        raise ValueError("found code_rate and coded_bits, expected one of them")
    if table.scheme == "harq-chase" and len(bits) > 1:
        raise ValueError("coded_bits: found several, expected one: Chase combining sends the same bits again")
    if table.scheme == "harq-3" and any(count < information for count in bits):
        raise ValueError(
            f"coded_bits: found {min(bits)}, expected at least the frame's {information}: each attempt of type III "
            "can be decoded alone"
        )
    _check_mother_code(table)
    for before, after in pairwise(table.target_decoded_ratio):
        if after.value < before.value:
            raise ValueError(
                f"target_decoded_ratio: found {after} after {before}, expected no less: each is of all attempts so "
                "far"
            )
    retransmissions = table.retransmissions
    if (
        table.scheme == "adaptive-harq"
        and not bits
        and retransmissions is not None
        and retransmissions != len(table.target_decoded_ratio)
    ):
        raise ValueError(
            f"retransmissions: found {retransmissions}, expected {len(table.target_decoded_ratio)}: "
            "target_decoded_ratio has as many values"
        )


def _check_mother_code(table: LinkLayer) -> None:
    """Check that the mother code has enough bits for all attempts. Raises ValueError."""
    is_adaptive = table.scheme == "adaptive-harq" and table.coded_bits is None
    has_bits = table.coded_bits is not None or "mother_rate" in table.model_fields_set
    if table.scheme not in INCREMENTAL or is_adaptive or not has_bits or table.block_error_rate is not None:
        return
    information, attempts = table.frame.bytes * 8, link_layer_attempts(table) or 1
    bits = table.coded_bits or [math.ceil(round(information / (table.code_rate or 1), 6))]
    sent = sum(bits[:attempts]) + max(0, attempts - len(bits)) * bits[-1]
    available = math.floor(information / table.mother_rate + 1e-6)
    if sent > available:
        key = "coded_bits" if table.coded_bits is not None else "code_rate"
        raise ValueError(
            f"{key}: found {sent} coded bits in {attempts} attempts, expected at most the {available} of the "
            f"mother code ({information} information bits at mother_rate = {table.mother_rate:.4g})"
        )


def nr(table: Nr) -> None:
    """Check the processes, the decoder and the order of a bearer. Raises ValueError."""
    given = table.model_fields_set
    if table.feedback_disabled_processes > table.processes:
        raise ValueError(
            f"feedback_disabled_processes: found {table.feedback_disabled_processes}, expected at most "
            f"processes = {table.processes}"
        )
    if (
        table.feedback_disabled_processes == table.processes
        and "retransmissions" in given
        and table.retransmissions
    ):
        raise ValueError(
            f"retransmissions: found {table.retransmissions} where no process has feedback "
            f"(feedback_disabled_processes = {table.feedback_disabled_processes}), expected none: blocks are sent "
            "once"
        )
    if table.block_error_rate is not None:
        foreign = sorted(given & {"margin", "combining"})
        if foreign:
            raise ValueError(f"found {foreign[0]}, which cannot be combined with block_error_rate")
    if not table.in_order and table.reordering is not None:
        raise ValueError("found reordering, which requires in_order = true")
