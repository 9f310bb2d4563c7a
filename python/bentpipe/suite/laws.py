"""Closed forms of controllers: the expected value of a measure in a cell of a suite scenario.

A law is a row of :data:`LAWS`. It has a value for each controller that it covers, and none for others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from bentpipe.scenario.quantities import Duration, Probability, Rate, Size

__all__ = ["LAWS", "Law"]

Law = Callable[[str, Mapping[str, Any]], float | None]
"""Function of a controller and the cell (swept keys and their texts); None: no value there."""

PAYLOAD_BITS = 8 * 1420
"""Stream bits of a full QUIC packet of 1440 bytes: a short header, its tag and a frame header take 20 bytes."""

LINK_BIT_S = 1e8
"""Rate of the link of ``loss-law``. A window beyond half of it is no matter of losses alone."""

R0_S = 0.025
"""Reference RTT of Hybla (Caini and Firrincieli 2004)."""

INDEPENDENT = 1.31
"""Reno's window times the root of the loss, for independent losses (Ott, Kemperman and Mathis 1996)."""


def _renewal(loss: float, width: float) -> float:
    """Return the mean window with the round of recovery: ``1/p`` packets over ``width`` rounds and one more."""
    return (1 / loss + width) / (width + 1) - 0.5


def _reno_window(loss: float, _rtt: float) -> float:
    return _renewal(loss, math.sqrt(1 / loss) / INDEPENDENT)


def _cubic_window(loss: float, rtt: float) -> float:
    """Return 1.2 times the window of RFC 9438 for periodic losses, or Reno's if that is larger.

    The factor of independent losses is that of a recurrence over packets (docs/explanation/congestion.md).
    """
    return max(1.2 * 1.054 * math.pow(rtt / loss, 0.75), _reno_window(loss, rtt))


def _hybla_window(loss: float, rtt: float) -> float:
    return max(rtt / R0_S, 1.0) * INDEPENDENT / math.sqrt(loss)


def _westwood_window(loss: float, _rtt: float) -> float:
    """Return ``1 / (2 p)``: growth against the shortfall of the estimate (docs/explanation/congestion.md)."""
    return 1 / (2 * loss)


_WINDOWS: Mapping[str, Callable[[float, float], float]] = {
    "newreno": _reno_window,
    "cubic": _cubic_window,
    "hybla": _hybla_window,
    "westwood": _westwood_window,
}
"""Mean window in packets under independent losses, of a loss probability and a round-trip time in s."""


def window_goodput(controller: str, cell: Mapping[str, Any]) -> float | None:
    """Return the goodput of a controller under independent losses on an unlimited link, bit/s.

    Args:
        controller: name of a built-in controller.
        cell: values of ``path.link.down.loss`` and ``path.link.delay``.
    """
    if controller not in _WINDOWS:
        return None
    loss = Probability.parse(cell["path.link.down.loss"]).value
    rtt = 2 * Duration.parse(cell["path.link.delay"]).ns / 1e9
    goodput = _WINDOWS[controller](loss, rtt) * PAYLOAD_BITS / rtt
    return goodput if goodput < LINK_BIT_S / 2 else None


PACKET_BYTES, PAYLOAD_BYTES = 1440, 1420
"""Full QUIC packet with its headers of UDP and IP left out, and its stream bytes."""

INITIAL_WINDOW = 10
"""Packets (RFC 9002 section 7.2)."""

PACING_GAIN = 1.25
"""Factor of the pacing rate over the window a round trip (RFC 9002 section 7.7)."""


def ideal_slow_start(controller: str, cell: Mapping[str, Any]) -> float | None:
    """Return the time to the last byte by slow start on a link without losses, s; for NewReno, which has no exit.

    The first request leaves after a round trip for the handshake. Each round sends its window at 1.25 windows a round
    trip. As soon as a window fills the path, data leaves at the rate of the link.

    Args:
        controller: name of a built-in controller.
        cell: values of ``flow.main.load.bytes`` and ``path.link.down.rate``; the round trip is 650 ms.
    """
    if controller != "newreno":
        return None
    rtt = 0.65
    rate = Rate.parse(cell["path.link.down.rate"]).bit_s / (8 * PACKET_BYTES)
    packets = math.ceil(Size.parse(cell["flow.main.load.bytes"]).bytes / PAYLOAD_BYTES)
    time, window = (
        2 * rtt - rtt / 2,
        INITIAL_WINDOW,
    )  # the request arrives after a handshake and half a round trip
    while packets > window and window < rate * rtt:
        packets -= window
        window *= 2
        time += rtt
    speed = min(rate, PACING_GAIN * window / rtt)
    return time + packets / speed + rtt / 2


LAWS: Mapping[str, Law] = {"window-goodput": window_goodput, "ideal-slow-start": ideal_slow_start}
"""Laws by name."""
