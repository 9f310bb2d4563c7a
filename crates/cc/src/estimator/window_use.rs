//! Whether the flight fills the window: Linux's `tcp_cwnd_validate` and `tcp_is_cwnd_limited`.
//!
//! A window that the sender does not fill confirms no capacity and must not grow (RFC 9002 section 7.8, RFC 7661). The
//! criterion is the largest flight of a round, not the flight at an ACK. Bursts of ACKs and pacing leave the flight
//! below the window for most of a round.

/// The use of the window in the current round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// The largest packet in bytes.
    mss: u64,
    /// Whether the flight filled the window (Linux: `is_cwnd_limited`).
    pub is_cwnd_limited: bool,
    /// The largest flight in bytes (Linux: `max_packets_out`).
    max_flight: u64,
    /// The sum of delivered and lost bytes that ends the round (Linux: `cwnd_usage_seq`).
    round_end: u64,
    /// The sum of delivered and lost bytes that ends the data-limited period.
    data_limited_until: u64,
}

impl WindowUse {
    /// Sets the window and the largest packet in bytes.
    pub fn set_window(&mut self, cwnd: u64, mss: u64) {
        self.cwnd = cwnd;
        self.mss = mss;
    }

    /// Records a sent packet. `in_flight` includes it; `settled` counts bytes delivered or lost.
    pub fn on_sent(&mut self, in_flight: u64, settled: u64) {
        let met = in_flight + self.mss > self.cwnd;
        if met
            || settled >= self.round_end
            || (!self.is_cwnd_limited && in_flight > self.max_flight)
        {
            self.is_cwnd_limited = met;
            self.max_flight = in_flight;
            self.round_end = settled + in_flight;
        }
    }

    /// Records that window and pacer permitted more data than was available.
    pub fn on_data_limited(&mut self, in_flight: u64, settled: u64) {
        self.data_limited_until = settled + in_flight.max(1);
    }

    /// Returns whether only window and pacer limited the sender in the last round. A sender that would fill the window
    /// without pacing is not data-limited (RFC 9002 section 7.8).
    pub fn is_pacing_limited(&self, settled: u64) -> bool {
        settled >= self.data_limited_until
    }

    /// Returns the bytes by which an unfilled window may still grow. A pacer that spreads a growing window over the
    /// round trip sustains a flight above half of it.
    pub fn growth_limit(&self) -> u64 {
        (2 * self.max_flight).saturating_sub(self.cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(cwnd: u64) -> WindowUse {
        let mut window = WindowUse::default();
        window.set_window(cwnd, 1);
        window
    }

    /// The flight reaches 10 of 10, then remains at 6: the round lasts until the 10 are settled.
    #[test]
    fn a_filled_window_counts_for_a_round() {
        let mut window = window(10);
        for in_flight in 1..=10 {
            window.on_sent(in_flight, 0);
        }
        assert!(window.is_cwnd_limited);
        for settled in 1..10 {
            window.on_sent(6, settled);
            assert!(window.is_cwnd_limited, "{settled}");
        }
        window.on_sent(6, 10);
        assert!(!window.is_cwnd_limited);
        assert_eq!(window.growth_limit(), 2);
    }

    /// A burst of ACKs empties the flight. Packets sent before the last of them is settled belong to the round in which
    /// the flight filled the window.
    #[test]
    fn a_burst_of_acks_does_not_end_the_round_early() {
        let mut window = window(10);
        window.on_sent(10, 0);
        window.on_sent(3, 8);
        assert!(window.is_cwnd_limited);
        window.on_sent(10, 9);
        window.on_sent(2, 18);
        assert!(window.is_cwnd_limited);
    }

    /// Data is short with 5 in flight: the data-limited period ends when they are settled.
    #[test]
    fn a_data_limited_sender_is_not_pacing_limited_for_a_round() {
        let mut window = window(10);
        window.on_sent(5, 0);
        assert!(window.is_pacing_limited(0));
        window.on_data_limited(5, 0);
        assert!(!window.is_pacing_limited(4) && window.is_pacing_limited(5));
    }

    #[test]
    fn growth_stops_at_twice_the_largest_flight() {
        let mut window = window(100);
        window.on_sent(30, 0);
        window.on_sent(60, 0);
        window.on_sent(50, 20);
        assert_eq!((window.is_cwnd_limited, window.growth_limit()), (false, 20));
        window.set_window(120, 1);
        assert_eq!(window.growth_limit(), 0);
    }
}
