"""E-model (ITU-T G.107, 06/2015): rating R of a connection and mean opinion score (MOS).

Clauses refer to that recommendation; parameters have its defaults (clause 7.7). Without a delay of echo
(``echo_ms = 0``), echo counts as perfectly cancelled. A delay adds the talker's and the listener's echo.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EModel", "idd", "ie_eff", "mos"]


def mos(rating: float) -> float:
    """Estimate the conversational mean opinion score of a rating (annex B)."""
    if rating <= 0:
        return 1.0
    if rating >= 100:
        return 4.5
    return max(1.0, 1 + 0.035 * rating + rating * (rating - 60) * (100 - rating) * 7e-6)


def _norm(x: float, power: float) -> float:
    """Return (1 + x^power)^(1/power), a term of several formulas."""
    return math.pow(1 + math.pow(x, power), 1 / power)


def _ratio(level_db: float) -> float:
    return math.pow(10, level_db / 10)


def idd(delay_ms: float, sensitivity: float = 1.0, least_ms: float = 100.0) -> float:
    """Return the impairment Idd by absolute mouth-to-ear delay (clause 7.4).

    Args:
        delay_ms: mouth-to-ear delay, ms.
        sensitivity: sT; 1 by default, 0.55 and 0.4 for less delay-sensitive listeners (clause 7.4).
        least_ms: mT, ms; 100 by default, 120 and 150 for these listeners.
    """
    if delay_ms <= least_ms:
        return 0.0
    x = math.log2(delay_ms / least_ms)
    power = 6 * sensitivity
    return 25 * (_norm(x, power) - 3 * _norm(x / 3, power) + 2)


def ie_eff(ie: float, bpl: float, loss: float, burst_ratio: float = 1.0) -> float:
    """Return the impairment Ie,eff by the codec and the ratio ``loss`` of lost or late packets (clause 7.5).

    Args:
        ie: equipment impairment factor Ie of the codec.
        bpl: packet-loss robustness factor Bpl of the codec.
        loss: ratio of lost or late packets, 0 to 1.
        burst_ratio: BurstR.
    """
    percent = 100 * loss
    return ie + (95 - ie) * percent / (percent / burst_ratio + bpl)


@dataclass(frozen=True, slots=True)
class EModel:
    """Parameters of a connection with the defaults of clause 7.7, in dB, dBm and quantisation units (``qdu``)."""

    slr: float = 8.0
    rlr: float = 2.0
    stmr: float = 15.0
    ds: float = 3.0
    dr: float = 3.0
    telr: float = 65.0
    wepl: float = 110.0
    qdu: float = 1.0
    nc: float = -70.0
    nfor: float = -64.0
    ps: float = 35.0
    pr: float = 35.0

    @property
    def olr(self) -> float:
        """Overall loudness rating."""
        return self.slr + self.rlr

    @property
    def no(self) -> float:
        """Total noise of all sources, dBm0p (clause 7.2)."""
        nos = self.ps - self.slr - self.ds - 100 + 0.004 * (self.ps - self.olr - self.ds - 14) ** 2
        pre = self.pr + 10 * math.log10(1 + _ratio(10 - self.stmr - self.dr))
        nor = self.rlr - 121 + pre + 0.008 * (pre - 35) ** 2
        nfo = self.nfor + self.rlr
        return 10 * math.log10(sum(_ratio(level) for level in (self.nc, nos, nor, nfo)))

    @property
    def ro(self) -> float:
        """Basic signal-to-noise ratio (clause 7.2)."""
        return 15 - 1.5 * (self.slr + self.no)

    def impairment_at_once(self, echo_ms: float = 0.0) -> float:
        """Return Is, the simultaneous impairment factor (clause 7.3)."""
        x = self.olr + 0.2 * (64 + self.no - self.rlr)
        iolr = 20 * (_norm(x / 8, 8) - x / 8)
        side = -10 * math.log10(_ratio(-self.stmr) + math.exp(-echo_ms / 4) * _ratio(-self.telr))
        ist = (
            29
            + 12 * _norm((side - 13) / 6, 8)
            - 28 * _norm((side + 1) / 19.4, 35)
            - 13 * _norm((side - 3) / 33, 13)
        )
        q = 37 - 15 * math.log10(self.qdu)
        g = 1.07 + 0.258 * q + 0.0602 * q**2
        y, z = (self.ro - 100) / 15 + 46 / 8.4 - g / 9, 46 / 30 - g / 40
        return iolr + ist + 15 * math.log10(1 + math.pow(10, y) + math.pow(10, z))

    def impairment_by_echo(self, echo_ms: float) -> float:
        """Return Idte + Idle, the impairment by talker and listener echo; ``echo_ms`` is one-way (clause 7.4)."""
        terv = (
            self.telr
            - 40 * math.log10((1 + echo_ms / 10) / (1 + echo_ms / 150))
            + 6 * math.exp(-0.3 * echo_ms**2)
        )
        roe, re = -1.5 * (self.no - self.rlr), 80 + 2.5 * (terv - 14)
        half = (roe - re) / 2
        talker = (half + math.hypot(half, 10) - 1) * (1 - math.exp(-echo_ms))
        rle = 10.5 * (self.wepl + 7) * math.pow(2 * echo_ms + 1, -0.25)
        half = (self.ro - rle) / 2
        return talker + half + math.hypot(half, 13)

    def rating(
        self, delay_ms: float = 0.0, equipment: float = 0.0, advantage: float = 0.0, echo_ms: float = 0.0
    ) -> float:
        """Return R of a connection (clause 7.1).

        Args:
            delay_ms: mouth-to-ear delay Ta, ms.
            equipment: Ie,eff (:func:`ie_eff`).
            advantage: advantage factor A for hard-to-reach places.
            echo_ms: one-way delay T of echo, ms; that of the listener's echo (Tr) is twice as long. 0: no echo.
        """
        delayed = self.impairment_by_echo(echo_ms) + idd(delay_ms)
        return self.ro - self.impairment_at_once(echo_ms) - delayed - equipment + advantage
