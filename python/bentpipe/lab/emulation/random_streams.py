"""The engine's named random streams again, for what is drawn before a run in real time: starts and arrivals.

The numbers are those of ``crates/units/src/rng.rs``, so a run in real time begins its flows at the same instants as
the simulated one, and the two are a pair.
"""

from __future__ import annotations

import math

__all__ = ["Random"]

_MASK = (1 << 64) - 1


class Random:
    """xoshiro256++ (Blackman and Vigna, 2021), keyed by (seed, entity, purpose)."""

    def __init__(self, seed: int, name: str, purpose: str) -> None:
        """The stream of ``purpose`` of the entity ``name`` in run ``seed``."""
        key = 0xCBF2_9CE4_8422_2325  # FNV-1a, 64 bits
        for byte in seed.to_bytes(8, "little") + name.encode() + b"\xff" + purpose.encode():
            key = ((key ^ byte) * 0x0000_0100_0000_01B3) & _MASK
        self._state = []
        for _ in range(4):  # SplitMix64, which xoshiro's authors fill its state with
            key = (key + 0x9E37_79B9_7F4A_7C15) & _MASK
            z = ((key ^ (key >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
            z = ((z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
            self._state.append(z ^ (z >> 31))

    def bits(self) -> int:
        """The next 64 random bits."""
        s = self._state
        result = (_rotated((s[0] + s[3]) & _MASK, 23) + s[0]) & _MASK
        t = (s[1] << 17) & _MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = _rotated(s[3], 45)
        return result

    def below(self, n: int) -> int:
        """Uniform over 0..n; 0 when ``n`` is 0."""
        return (self.bits() * n) >> 64

    def uniform(self) -> float:
        """Uniform in [0, 1), with 53 random bits."""
        return (self.bits() >> 11) * 2.0**-53

    def exponential(self, mean: float) -> float:
        """Exponential with the given mean."""
        return -mean * math.log(1.0 - self.uniform())

    def pareto(self, shape: float, least: float) -> float:
        """Pareto with the given shape and minimum."""
        return float(least / (1.0 - self.uniform()) ** (1.0 / shape))


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK
