"""Controllers nearer to the testbed's stack: evidence for where a difference comes from, never a verdict.

Written from a reading of picoquic's ``cubic.c``, ``hybla.c`` and ``cc_common.c`` (github.com/private-octopus/picoquic),
without its code, and each no nearer to it than the one thing it is to show.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FilteredCubic", "LeapingCubic", "ScaledHybla", "UnfrozenHybla"]

FACTOR, SCOPE, LIMIT = 1 / 16, 32, 0.15
BETA, C = 7 / 8, 0.4
RTT0_NS = 25_000_000
TRAIN_NS = 1_000_000, 15_000_000


class FilteredCubic:
    """CUBIC that overlooks single losses; windows in packets.

    beta is 7/8. A lost packet raises a smoothed rate of losses by 1/16 of what is left to 1, every packet in between
    lets it fall by 1/16 of itself (32 packets at most); the window is cut only while that rate is above 15 %, which
    takes three losses close together, and at most once a round trip. The Reno estimate starts at half the window and
    grows by a packet a round trip. The way out of slow start is simplified: the first cut, or a rise of the RTT by a
    quarter.
    """

    def __init__(self, config: Any) -> None:
        self.mss = config.mss
        self.window = config.initial_window / config.mss
        self.least = config.minimum_window / config.mss
        self.slow_start = True
        self.losses = 0.0
        self.largest = self.former = self.k = 0.0
        self.reno = self.window
        self.epoch = self.cut_at = 0

    def on_event(self, now: int, event: Any) -> int:
        """One ACK, with what it acknowledged and what is lost by it."""
        if event.kind == "mss":
            self.window *= self.mss / event.mss
            self.mss = event.mss
        elif event.kind == "timeout" or (event.kind == "ack" and event.persistent):
            self.window, self.slow_start, self.losses = self.least, True, 0.0
        elif event.kind == "ack":
            if self.filtered(event.acked / self.mss, event.lost / self.mss) and self.may_cut(now, event):
                self.cut(now)
            elif event.cwnd_limited:
                self.grow(now, event)
        return int(max(self.window, self.least) * self.mss)

    def filtered(self, acked: float, lost: float) -> bool:
        """Whether losses are frequent enough to count."""
        self.losses *= (1 - FACTOR) ** min(acked, SCOPE)
        for _ in range(min(round(lost), 64)):
            self.losses += (1 - self.losses) * FACTOR
        return lost > 0 and self.losses > LIMIT

    def may_cut(self, now: int, event: Any) -> bool:
        """At most once a round trip."""
        return bool(now - self.cut_at > event.smoothed_rtt_ns)

    def cut(self, now: int) -> None:
        """A reduction, with fast convergence."""
        self.largest = self.window
        if self.largest < self.former:
            self.former, self.largest = self.largest, self.largest * BETA
        else:
            self.former = self.largest
        self.reno = self.window / 2
        self.begin(now)
        self.window = max(self.largest * BETA, self.reno, self.least)
        self.cut_at = now

    def begin(self, now: int) -> None:
        """A new epoch of the cubic curve."""
        self.slow_start, self.epoch = False, now
        self.k = (self.largest * (1 - BETA) / C) ** (1 / 3)

    def grow(self, now: int, event: Any) -> None:
        """Slow start, then the larger of the cubic curve and Reno's estimate."""
        acked = event.acked / self.mss
        if self.slow_start:
            self.window += acked
            if event.latest_rtt_ns and event.latest_rtt_ns > 1.25 * event.min_rtt_ns:
                self.largest = self.former = self.reno = self.window
                self.begin(now)
            return
        self.reno += acked / self.reno
        cubic = C * ((now - self.epoch) / 1e9 - self.k) ** 3 + self.largest
        self.window = max(cubic, self.reno)


class LeapingCubic(FilteredCubic):
    """The same with picoquic's start (``picoquic_cc_update_target_cwin_estimation`` of ``cc_common.c``).

    In slow start the window is at least half of the fastest train of ACKs times the smoothed RTT: bytes acknowledged in
    1 to 15 ms (``PICOQUIC_MAX_BANDWIDTH_TIME_INTERVAL_MIN`` and ``_MAX``). On a path of 2 s a first flight that left at
    once is enough for half of the path.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.train: list[tuple[int, int]] = []
        self.peak = 0.0

    def grow(self, now: int, event: Any) -> None:
        """As above, and no less than the train allows."""
        self.train = [one for one in self.train if now - one[0] <= TRAIN_NS[1]] + [(now, event.acked)]
        span = now - self.train[0][0]
        if span >= TRAIN_NS[0]:  # what the first ACK acknowledged came before the span
            self.peak = max(self.peak, sum(acked for _, acked in self.train[1:]) / span)
        super().grow(now, event)
        if self.slow_start:
            self.window = max(self.window, self.peak * event.smoothed_rtt_ns / 2 / self.mss)


class UnfrozenHybla:
    """Hybla that grows with every byte acknowledged, also those sent before the last cut; windows in packets.

    RFC 9002 section 7.3.2 lets a window rest for the round trip of a recovery. With rho of 20 a round trip is worth 400
    packets, so the rest is most of the growth there is at frequent losses. The window never falls below 2 rho packets.
    Slow start is bentpipe's, at most a factor of 3 a round trip, and ends at a loss or a rise of the RTT by a quarter.
    """

    def __init__(self, config: Any) -> None:
        self.mss = config.mss
        self.window = config.initial_window / config.mss
        self.slow_start = True
        self.rho = 0.0

    def on_event(self, _now: int, event: Any) -> int:
        """One ACK, with what it acknowledged and what is lost by it."""
        if event.kind == "mss":
            self.window *= self.mss / event.mss
            self.mss = event.mss
        elif event.kind == "timeout":
            self.window, self.slow_start = self.least(), True
        elif event.kind == "ack":
            self.on_ack(event)
        return int(self.window * self.mss)

    def least(self) -> float:
        """The smallest window."""
        return 2 * max(self.rho, 1.0)

    def on_ack(self, event: Any) -> None:
        """Growth, or half the window at most once a round trip."""
        rho = max(event.smoothed_rtt_ns / RTT0_NS, 1.0)
        if event.latest_rtt_ns and (self.rho == 0 or rho < self.rho):
            self.rho = rho
        if event.congestion or event.persistent:
            self.window, self.slow_start = max(self.window / 2, self.least()), False
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
    """The same with the initial window times rho at the first RTT sample (Caini and Firrincieli 2004), as ``hybla``."""

    def on_ack(self, event: Any) -> None:
        """As above."""
        if event.latest_rtt_ns and self.rho == 0:
            self.window *= max(event.smoothed_rtt_ns / RTT0_NS, 1.0)
        super().on_ack(event)
