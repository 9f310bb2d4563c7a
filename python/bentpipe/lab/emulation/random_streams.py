"""The engine's named random streams, for values that are drawn before an emulated run: starts and arrivals.

The numbers equal those of ``crates/units/src/rng.rs``. The flows of emulation thus start at the same times as
those of the simulation, and both runs are a pair.
"""

from __future__ import annotations

import math

__all__ = ["Random"]

_MASK = (1 << 64) - 1


class Random:
    """xoshiro256++ (Blackman and Vigna, 2021), keyed by (seed, entity, purpose)."""

    def __init__(self, seed: int, name: str, purpose: str) -> None:
        """Create the stream of ``purpose`` of the entity ``name`` in run ``seed``."""
        key = 0xCBF2_9CE4_8422_2325  # FNV-1a, 64 bits
        for byte in seed.to_bytes(8, "little") + name.encode() + b"\xff" + purpose.encode():
            key = ((key ^ byte) * 0x0000_0100_0000_01B3) & _MASK
        self._state = []
        for _ in range(4):  # SplitMix64 initialises the state, as the authors of xoshiro recommend.
            key = (key + 0x9E37_79B9_7F4A_7C15) & _MASK
            z = ((key ^ (key >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
            z = ((z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
            self._state.append(z ^ (z >> 31))

    def bits(self) -> int:
        """Return the next 64 random bits."""
        s = self._state
        result = (_rotate_left((s[0] + s[3]) & _MASK, 23) + s[0]) & _MASK
        t = (s[1] << 17) & _MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = _rotate_left(s[3], 45)
        return result

    def below(self, n: int) -> int:
        """Return a uniform integer of 0 to ``n`` - 1; 0 if ``n`` is 0."""
        return (self.bits() * n) >> 64

    def uniform(self) -> float:
        """Return a uniform number in [0, 1), with 53 random bits."""
        return (self.bits() >> 11) * 2.0**-53

    def exponential(self, mean: float) -> float:
        """Return an exponential number with the given mean."""
        return -mean * math.log(1.0 - self.uniform())

    def pareto(self, shape: float, least: float) -> float:
        """Return a Pareto number with the given shape and minimum."""
        return float(least / (1.0 - self.uniform()) ** (1.0 / shape))


def _rotate_left(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK
