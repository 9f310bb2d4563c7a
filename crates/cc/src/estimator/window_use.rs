//! Whether the flight has used the window: Linux's `tcp_cwnd_validate` and `tcp_is_cwnd_limited`.
//!
//! A window that the sender does not use proves nothing about the path and must not grow (RFC 9002
//! section 7.8, RFC 7661). The largest flight of a round decides, not the flight at an ACK: ACKs that
//! come in bursts, and a pacer, leave the flight below the window for most of a round.

/// The use of the window in the round under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Largest packet, bytes.
    mss: u64,
    /// The flight met the window (Linux: `is_cwnd_limited`).
    pub is_cwnd_limited: bool,
    /// Largest flight, bytes (Linux: `max_packets_out`).
    max_flight: u64,
    /// The round ends once this many bytes are delivered or lost (Linux: `cwnd_usage_seq`).
    round_end: u64,
    /// Data ran short in the last round until this many bytes are delivered or lost.
    data_limited_until: u64,
}

impl WindowUse {
    /// Takes over the window in force and the largest packet, bytes.
    pub fn set_window(&mut self, cwnd: u64, mss: u64) {
        self.cwnd = cwnd;
        self.mss = mss;
    }

    /// Notes a sent packet. `in_flight` includes it; `settled` counts bytes delivered or lost.
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

    /// Notes that window and pacer would have let more data pass than there was.
    pub fn on_data_limited(&mut self, in_flight: u64, settled: u64) {
        self.data_limited_until = settled + in_flight.max(1);
    }

    /// Whether window and pacer alone held the sender back in the last round. RFC 9002 section 7.8: a
    /// sender that would have used the window without pacing is not limited by its data.
    pub fn is_pacing_limited(&self, settled: u64) -> bool {
        settled >= self.data_limited_until
    }

    /// Bytes by which a window may still grow that the flight has not met: a pacer that spreads a growing
    /// window over the round trip keeps the flight above half of it.
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

    /// The flight meets 10 of 10, then stays at 6: the round lasts until the 10 are settled.
    #[test]
    fn a_window_that_was_met_counts_for_a_round() {
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

    /// A burst of ACKs empties the flight; what is sent until the last of them is settled stays within
    /// the round in which the window was met.
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

    /// Data ran short while 5 were in flight: the round is over when they are settled.
    #[test]
    fn a_sender_without_data_is_not_paced_alone_for_a_round() {
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
