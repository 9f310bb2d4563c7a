"""Controllers nearer to the stack of the testbed: evidence for the origin of a difference, never a verdict.

They follow picoquic's ``cubic.c``, ``hybla.c`` and ``cc_common.c`` (github.com/private-octopus/picoquic) and
share no
code with it. Each is nearer to picoquic only in the one property that it shows.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FilteredCubic", "LeapingCubic", "ScaledHybla", "UnfrozenHybla"]

FACTOR, SCOPE, LIMIT = 1 / 16, 32, 0.15
BETA, C = 7 / 8, 0.4
RTT0_NS = 25_000_000
TRAIN_NS = 1_000_000, 15_000_000


class FilteredCubic:
    """CUBIC that ignores single losses; windows in packets.

    beta is 7/8. A lost packet raises a smoothed loss rate by 1/16 of the distance to 1. Every packet in
    between lowers it by
    1/16 of itself (32 packets at most). The window is cut only while that rate is above 15 %, which takes
    three losses close
    together, and at most once a round trip. The Reno estimate starts at half the window and grows by a packet
    a round trip.
    The exit from slow start is simplified: the first cut, or a rise of the RTT by a quarter.
    """

    def __init__(self, config: Any) -> None:
        self.mss = config.mss
        self.window = config.initial_window / config.mss
        self.minimum_window = config.minimum_window / config.mss
        self.slow_start = True
        self.losses = 0.0
        self.w_max = self.previous_w_max = self.k = 0.0
        self.reno = self.window
        self.epoch = self.cut_at = 0

    def on_event(self, now: int, event: Any) -> int:
        """Process one event (an ACK with acknowledged and lost bytes) and return the window, bytes."""
        if event.kind == "mss":
            self.window *= self.mss / event.mss
            self.mss = event.mss
        elif event.kind == "timeout" or (event.kind == "ack" and event.persistent):
            self.window, self.slow_start, self.losses = self.minimum_window, True, 0.0
        elif event.kind == "ack":
            if self.has_frequent_losses(event.acked / self.mss, event.lost / self.mss) and self.may_cut(
                now, event
            ):
                self.cut(now)
            elif event.cwnd_limited:
                self.grow(now, event)
        return int(max(self.window, self.minimum_window) * self.mss)

    def has_frequent_losses(self, acked: float, lost: float) -> bool:
        """Return whether losses are frequent enough for a cut."""
        self.losses *= (1 - FACTOR) ** min(acked, SCOPE)
        for _ in range(min(round(lost), 64)):
            self.losses += (1 - self.losses) * FACTOR
        return lost > 0 and self.losses > LIMIT

    def may_cut(self, now: int, event: Any) -> bool:
        """Return whether the last cut is at least a round trip ago."""
        return bool(now - self.cut_at > event.smoothed_rtt_ns)

    def cut(self, now: int) -> None:
        """Reduce the window, with fast convergence."""
        self.w_max = self.window
        if self.w_max < self.previous_w_max:
            self.previous_w_max, self.w_max = self.w_max, self.w_max * BETA
        else:
            self.previous_w_max = self.w_max
        self.reno = self.window / 2
        self.begin(now)
        self.window = max(self.w_max * BETA, self.reno, self.minimum_window)
        self.cut_at = now

    def begin(self, now: int) -> None:
        """Start a new epoch of the cubic curve."""
        self.slow_start, self.epoch = False, now
        self.k = (self.w_max * (1 - BETA) / C) ** (1 / 3)

    def grow(self, now: int, event: Any) -> None:
        """Grow by slow start, or to the larger of the cubic curve and the Reno estimate."""
        acked = event.acked / self.mss
        if self.slow_start:
            self.window += acked
            if event.latest_rtt_ns and event.latest_rtt_ns > 1.25 * event.min_rtt_ns:
                self.w_max = self.previous_w_max = self.reno = self.window
                self.begin(now)
            return
        self.reno += acked / self.reno
        cubic = C * ((now - self.epoch) / 1e9 - self.k) ** 3 + self.w_max
        self.window = max(cubic, self.reno)


class LeapingCubic(FilteredCubic):
    """Filtered CUBIC with picoquic's start.

    The start is ``picoquic_cc_update_target_cwin_estimation`` of ``cc_common.c``. In slow start the window is
    at least half
    of the fastest ACK train times the smoothed RTT. A train is the bytes acknowledged in 1 to 15 ms
    (``PICOQUIC_MAX_BANDWIDTH_TIME_INTERVAL_MIN`` and ``_MAX``). On a path of 2 s a first flight sent in one
    burst fills half
    of the path.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.train: list[tuple[int, int]] = []
        self.peak = 0.0

    def grow(self, now: int, event: Any) -> None:
        """Grow as filtered CUBIC, and in slow start at least to half of what the fastest ACK train fills."""
        self.train = [one for one in self.train if now - one[0] <= TRAIN_NS[1]] + [(now, event.acked)]
        span = now - self.train[0][0]
        if span >= TRAIN_NS[0]:  # bytes of the first ACK arrived before the span
            self.peak = max(self.peak, sum(acked for _, acked in self.train[1:]) / span)
        super().grow(now, event)
        if self.slow_start:
            self.window = max(self.window, self.peak * event.smoothed_rtt_ns / 2 / self.mss)


class UnfrozenHybla:
    """Hybla that grows with every acknowledged byte, also with bytes sent before the last cut.

    Windows are in packets. RFC 9002 section 7.3.2 freezes a window for the round trip of a recovery. With rho
    of 20 a round
    trip is worth 400 packets, so at frequent losses the freeze removes most of the growth. The window is at
    least 2 rho
    packets. Slow start is that of bentpipe, at most a factor of 3 a round trip. It ends at a loss or at a
    rise of the RTT by
    a quarter.
    """

    def __init__(self, config: Any) -> None:
        self.mss = config.mss
        self.window = config.initial_window / config.mss
        self.slow_start = True
        self.rho = 0.0

    def on_event(self, _now: int, event: Any) -> int:
        """Process one event (an ACK with acknowledged and lost bytes) and return the window, bytes."""
        if event.kind == "mss":
            self.window *= self.mss / event.mss
            self.mss = event.mss
        elif event.kind == "timeout":
            self.window, self.slow_start = self.minimum_window(), True
        elif event.kind == "ack":
            self.on_ack(event)
        return int(self.window * self.mss)

    def minimum_window(self) -> float:
        """Return the minimum window, packets."""
        return 2 * max(self.rho, 1.0)

    def on_ack(self, event: Any) -> None:
        """Grow, or halve the window at most once a round trip."""
        rho = max(event.smoothed_rtt_ns / RTT0_NS, 1.0)
        if event.latest_rtt_ns and (self.rho == 0 or rho < self.rho):
            self.rho = rho
        if event.congestion or event.persistent:
            self.window, self.slow_start = max(self.window / 2, self.minimum_window()), False
            return
        if not event.cwnd_limited:
            return
        acked = event.acked / self.mss
        if self.slow_start:
            self.window += min(2 ** min(self.rho, 16) - 1, 2) * acked
            self.slow_start = not (event.latest_rtt_ns and event.latest_rtt_ns > 1.25 * event.min_rtt_ns)
        else:
            self.window += min(self.rho**2 / self.window, 2) * acked


class ScaledHybla(UnfrozenHybla):
    """Hybla with the initial window times rho at the first RTT sample (Caini and Firrincieli 2004), as ``hybla``."""

    def on_ack(self, event: Any) -> None:
        """Scale the initial window at the first RTT sample; then grow or cut."""
        if event.latest_rtt_ns and self.rho == 0:
            self.window *= max(event.smoothed_rtt_ns / RTT0_NS, 1.0)
        super().on_ack(event)
