//! What every controller must do, whatever its algorithm.

pub mod model;

use units::Span;

use crate::Ack;

/// An uneventful ACK, as a starting point for tests of one's own.
pub fn sample_ack() -> Ack {
    Ack {
        acked: 1200,
        acked_in_recovery: 0,
        lost: 0,
        ecn_ce: false,
        congestion: false,
        persistent: false,
        latest_rtt: Some(Span::from_millis(100)),
        smoothed_rtt: Span::from_millis(100),
        min_rtt: Span::from_millis(100),
        prior_in_flight: 12_000,
        in_flight: 10_800,
        delivered: 1200,
        total_lost: 0,
        sample: None,
        round_start: false,
        rounds: 0,
        cwnd_limited: true,
    }
}
