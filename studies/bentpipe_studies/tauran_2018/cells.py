"""Keys of the study's sweeps, and its cells."""

from __future__ import annotations

__all__ = [
    "ACKS",
    "BUFFERS",
    "BY_LINK",
    "BY_TCP",
    "FITTED_DB",
    "REORDERING",
    "SEGMENT",
    "SNR",
    "SNRS",
    "TIMERS",
    "VARIANT",
    "VARIANTS",
    "case",
]

SNR, ACKS = "path.mobile.down.channel.snr", "tcp.delayed_ack.off"
VARIANT, REORDERING = "variant", "reordering"

SNRS = (7, 8, 9, 10, 11, 12, 13)
"""Reference SNR of the thesis's tables, dB."""

FITTED_DB = (7, 10, 13)
"""SNRs in dB of the figures from which unstated parameters were fitted."""

VARIANTS = {"newreno": "NewReno", "cubic": "CUBIC", "hybla": "Hybla"}
"""Variants of TCP by their keys in the published file."""

TIMERS = (10, 20, 30, 40, 50, 60, 80, 100)
"""Tested timers of delayed ACKs, ms."""

SEGMENT = 960
"""Payload of a TCP segment in a frame of 1115 B, bytes."""


BY_TCP, BY_LINK = "by TCP", "by link"
BUFFERS = (BY_TCP, BY_LINK)
"""Numbering of the reordering buffer: that of TCP, as in figure 4.6, or of the link layer. The first is the
thesis's.
"""


def case(
    snr: int, variant: str, *, reordering: bool, delayed: bool = False, buffer: str = BY_TCP
) -> dict[str, str]:
    """Return a cell of the tables."""
    return {
        SNR: f"{snr} dB", VARIANT: variant, REORDERING: buffer if reordering else "without",
        ACKS: "false" if delayed else "true",
    }  # fmt: skip
