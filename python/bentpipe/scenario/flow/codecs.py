"""Codecs of speech: what they send, and what the E-model knows of them.

Rates, frames and payload types are RFC 3551's (sections 4.5 and 6), look-ahead is G.114 Annex A's. Equipment
impairment (Ie) and robustness against loss (Bpl) are those of ITU-T G.113 Appendix I. It has no Bpl for G.729 as such:
that of G.729A, which decodes the same stream and conceals losses the same way, stands in.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CODECS", "RTP_BYTES", "Codec"]

RTP_BYTES = 12
"""RTP's header without contributing sources (RFC 3550 section 5.1)."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec of speech."""

    name: str
    bit_s: int
    frame_ms: float
    """Of G.711, which has none, a sample."""
    lookahead_ms: float
    rtp_type: int
    ie: float
    bpl: float
    """With its own concealment of lost packets (PLC)."""
    bpl_plain: float | None
    """Without, where that can be chosen."""
    vad: bool
    """Silence is not sent, unless the call says otherwise."""


CODECS = {
    codec.name: codec
    for codec in (
        Codec("g711", 64_000, 0.125, 0.0, 0, 0.0, 25.1, 4.3, vad=False),
        Codec("g729", 8_000, 10.0, 5.0, 18, 10.0, 19.0, None, vad=False),
        Codec("g729a-vad", 8_000, 10.0, 5.0, 18, 11.0, 19.0, None, vad=True),
    )
}
"""By name."""
