//! The pacing rate and the send quantum: sections 5.6.2 and 5.6.3 of the draft, `bbr_set_pacing_rate` in Linux.

use units::Span;

use crate::AckEvent;

/// BBR.PacingMarginPercent as a factor: 1 % below the estimate, so that queues drain.
pub(crate) const PACING_MARGIN: f64 = 0.99;

/// The pacing rate BBR.pacing_rate.
#[derive(Clone, Debug)]
pub(crate) struct PacingRate {
    /// BBR.pacing_rate in bit/s.
    pub rate: u64,
    has_seen_rtt: bool,
}

impl PacingRate {
    /// Returns the rate before the first RTT sample.
    pub fn new(rate: u64) -> PacingRate {
        PacingRate { rate, has_seen_rtt: false }
    }

    /// Replaces the initial rate, which assumes an RTT of 1 ms, at the first RTT sample.
    pub fn init_once(&mut self, ack: &AckEvent, initial_rate: impl Fn(Span) -> u64) {
        if !self.has_seen_rtt && ack.latest_rtt.is_some() {
            self.has_seen_rtt = true;
            self.rate = initial_rate(ack.smoothed_rtt);
        }
    }

    /// SetPacingRateWithGain: until the pipe has been filled, the rate only rises.
    pub fn set(&mut self, gain: f64, bw: u64, full_bw_reached: bool) {
        let rate = (gain * bw as f64 * PACING_MARGIN) as u64;
        if rate > 0 && (full_bw_reached || rate > self.rate) {
            self.rate = rate;
        }
    }

    /// SetSendQuantum: returns the bytes of one millisecond, at most 64 KB, at least two packets.
    pub fn quantum(&self, mss: u64) -> u64 {
        (self.rate / 8_000).min(65_536).max(2 * mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::sample_ack;

    #[test]
    fn the_rate_falls_only_once_the_pipe_has_been_filled() {
        let mut pacing = PacingRate::new(1_000_000);
        let rates = [(0, true), (900_000, false), (2_000_000, false), (900_000, true)];
        let rates = rates.map(|(bw, full)| {
            pacing.set(1.0, bw, full);
            pacing.rate
        });
        assert_eq!(rates, [1_000_000, 1_000_000, 1_980_000, 891_000]);
        assert_eq!(pacing.quantum(1200), 2400);
    }

    #[test]
    fn the_first_rtt_sets_the_initial_rate_once() {
        let mut pacing = PacingRate::new(1);
        let ack = AckEvent { latest_rtt: Some(Span(7)), smoothed_rtt: Span(7), ..sample_ack() };
        for (latest_rtt, initial, rate) in
            [(None, 2, 1), (Some(Span(7)), 3, 3), (ack.latest_rtt, 4, 3)]
        {
            pacing.init_once(&AckEvent { latest_rtt, ..ack }, |_| initial);
            assert_eq!(pacing.rate, rate);
        }
    }
}
