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
    pub met: bool,
    /// Largest flight, bytes (Linux: `max_packets_out`).
    largest: u64,
    /// The round ends once this many bytes are delivered or lost (Linux: `cwnd_usage_seq`).
    until: u64,
    /// Data ran short in the last round until this many bytes are delivered or lost.
    short_until: u64,
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
        if met || settled >= self.until || (!self.met && in_flight > self.largest) {
            self.met = met;
            self.largest = in_flight;
            self.until = settled + in_flight;
        }
    }

    /// Notes that window and pacer would have let more data pass than there was.
    pub fn on_short(&mut self, in_flight: u64, settled: u64) {
        self.short_until = settled + in_flight.max(1);
    }

    /// Whether window and pacer alone held the sender back in the last round. RFC 9002 section 7.8: a
    /// sender that would have used the window without pacing is not limited by its data.
    pub fn is_paced_alone(&self, settled: u64) -> bool {
        settled >= self.short_until
    }

    /// Bytes by which a window may still grow that the flight has not met: a pacer that spreads a growing
    /// window over the round trip keeps the flight above half of it.
    pub fn room(&self) -> u64 {
        (2 * self.largest).saturating_sub(self.cwnd)
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
        assert!(window.met);
        for settled in 1..10 {
            window.on_sent(6, settled);
            assert!(window.met, "{settled}");
        }
        window.on_sent(6, 10);
        assert!(!window.met);
        assert_eq!(window.room(), 2);
    }

    /// A burst of ACKs empties the flight; what is sent until the last of them is settled stays within
    /// the round in which the window was met.
    #[test]
    fn a_burst_of_acks_does_not_end_the_round_early() {
        let mut window = window(10);
        window.on_sent(10, 0);
        window.on_sent(3, 8);
        assert!(window.met);
        window.on_sent(10, 9);
        window.on_sent(2, 18);
        assert!(window.met);
    }

    /// Data ran short while 5 were in flight: the round is over when they are settled.
    #[test]
    fn a_sender_without_data_is_not_paced_alone_for_a_round() {
        let mut window = window(10);
        window.on_sent(5, 0);
        assert!(window.is_paced_alone(0));
        window.on_short(5, 0);
        assert!(!window.is_paced_alone(4) && window.is_paced_alone(5));
    }

    #[test]
    fn growth_stops_at_twice_the_largest_flight() {
        let mut window = window(100);
        window.on_sent(30, 0);
        window.on_sent(60, 0);
        window.on_sent(50, 20);
        assert_eq!((window.met, window.room()), (false, 20));
        window.set_window(120, 1);
        assert_eq!(window.room(), 0);
    }
}
