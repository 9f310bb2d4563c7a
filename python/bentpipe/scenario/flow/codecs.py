"""Speech codecs: bit rates, frames, and their parameters in the E-model.

Rates, frames and payload types are from RFC 3551 (sections 4.5 and 6). Look-ahead is from Annex A of ITU-T G.114.
Equipment impairment (Ie) and robustness against loss (Bpl) are from Appendix I of ITU-T G.113. It has no Bpl of G.729.
The value of G.729A is used instead: that codec decodes the same stream and conceals losses in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CODECS", "RTP_BYTES", "Codec"]

RTP_BYTES = 12
"""RTP header without contributing sources (RFC 3550 section 5.1)."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Speech codec."""

    name: str
    bit_s: int
    frame_ms: float
    """Frame in ms; for G.711, which has no frames, a sample."""
    lookahead_ms: float
    rtp_type: int
    ie: float
    bpl: float
    """Bpl with packet loss concealment (PLC)."""
    bpl_plain: float | None
    """Bpl without PLC; None if PLC is always on."""
    vad: bool
    """Default of voice activity detection: silence is not sent."""


CODECS = {
    codec.name: codec
    for codec in (
        Codec("g711", 64_000, 0.125, 0.0, 0, 0.0, 25.1, 4.3, vad=False),
        Codec("g729", 8_000, 10.0, 5.0, 18, 10.0, 19.0, None, vad=False),
        Codec("g729a-vad", 8_000, 10.0, 5.0, 18, 11.0, 19.0, None, vad=True),
    )
}
"""Codecs by name."""
