"""Pings of a dish, synthesised by mechanisms: satellites that move, gateways, grants of an uplink, handovers.

``bentpipe fit`` is judged by them. No line of its model is in here, nor any of its distributions. The delay of a slot
is the range of a satellite that moves. Within a slot, the wait for a grant varies.
"""

from __future__ import annotations

import random

LIGHT_KM_S = 299_792.458
EVERY_S, PHASE_S = 15, 12
FRAME_S = 0.0213
"""From one grant of the uplink to the next."""


class Dish:
    """A terminal whose satellite and gateway are chosen anew at seconds 12, 27, 42 and 57."""

    def __init__(self, seed: int, loss: float = 0.002) -> None:
        """All values are drawn from ``seed``; ``loss`` is the probability of independent losses."""
        self._random = random.Random(seed)  # noqa: S311
        self._loss = loss
        self._slot: int | None = None
        self._granted_s = 0.0

    def _hand_over(self) -> None:
        draw = self._random
        self._range_km = draw.uniform(560, 1150)
        self._speed_km_s = draw.uniform(-4, 4)
        self._ground_ms = draw.choice([9.0, 9.0, 15.0, 31.0])
        self._busy = draw.betavariate(1.2, 3)
        self._deaf_s = draw.gauss(0.35, 0.08) if draw.random() < 0.6 else 0.0

    def ping(self, at_s: float) -> float | None:
        """The round trip of a packet that is sent then, ms; None: it is lost."""
        slot, within_s = divmod(at_s - PHASE_S, EVERY_S)
        if slot != self._slot:
            self._slot = int(slot)
            self._hand_over()
        draw = self._random
        if within_s < self._deaf_s or draw.random() < self._loss:
            return None  # before the request for a grant
        space_ms = 4000 * (self._range_km + self._speed_km_s * within_s) / LIGHT_KM_S
        grant_s = at_s + FRAME_S - at_s % FRAME_S
        while draw.random() < self._busy:  # another user got it
            grant_s += FRAME_S
        self._granted_s = grant_s = max(grant_s, self._granted_s)  # the order is preserved
        wait_s = grant_s - at_s
        return self._ground_ms + space_ms + 1000 * wait_s


def pings(
    seed: int, seconds: float, begin_s: float = 1_767_225_603.0, step_s: float = 0.05, loss: float = 0.002
) -> str:
    """Return the output of ``ping -D``."""
    dish = Dish(seed, loss)
    lines = ["PING 100.64.0.1 (100.64.0.1) 56(84) bytes of data."]
    for number in range(round(seconds / step_s)):
        at_s = begin_s + number * step_s
        took = dish.ping(at_s)
        if took is None:
            continue
        shown = f"{took:.1f}" if took < 100 else f"{took:.0f}"
        words = f"64 bytes from 100.64.0.1: icmp_seq={(number + 1) % 65536} ttl=63 time={shown} ms"
        lines.append(f"[{at_s + took / 1000:.6f}] {words}")
    lines += ["", "--- 100.64.0.1 ping statistics ---"]
    return "\n".join(lines) + "\n"
