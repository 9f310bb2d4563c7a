//! The path model: rounds, bandwidth, ACK aggregation, and the derived volumes.

use units::{Span, Time};

use super::Bbr1;
use super::states::Mode;
use crate::AckEvent;
use crate::bbr_common::AckAggregationEpoch;
use crate::max_filter::bytes_in;

/// Window of the bandwidth filter in rounds: one PROBE_BW cycle and two more.
const BW_ROUNDS: u64 = 10;
/// The length of each of the two alternating windows of the aggregation filter, in rounds.
const AGGREGATION_ROUNDS: u32 = 5;
/// The upper limit of extra ACKs, as time at the estimated bandwidth.
const AGGREGATION_CAP: Span = Span::from_millis(100);

/// The bytes that aggregated ACKs acknowledge beyond the bandwidth.
#[derive(Clone, Debug, Default)]
pub(super) struct AckAggregation {
    windows: [u64; 2],
    current: usize,
    rounds: u32,
    epoch: AckAggregationEpoch,
}

impl AckAggregation {
    /// Starts a new epoch.
    pub fn restart(&mut self, now: Time) {
        self.epoch.restart(now);
    }

    /// Returns the maximum of the last five to ten rounds in bytes.
    pub fn extra(&self) -> u64 {
        self.windows[0].max(self.windows[1])
    }
}

impl Bbr1 {
    pub(super) fn update_bw(&mut self, now: Time, ack: &AckEvent) {
        self.rounds.is_round_start = false;
        let Some(sample) = &ack.rate_sample else { return };
        self.rounds.update(sample.prior_delivered, ack.delivered);
        if self.options.policer_detection {
            let probing = self.mode == Mode::ProbeBw;
            if self.policer.sample(now, ack, self.rounds.is_round_start, probing) {
                self.enter_probe_bw(now);
            }
        }
        // An application-limited sample counts only if it is higher.
        if !sample.is_app_limited || sample.rate.0 >= self.bw.max() {
            self.bw.update(self.rounds.count, BW_ROUNDS, sample.rate.0);
        }
    }

    /// Returns the bandwidth in use: the policer's rate if one was detected.
    pub(super) fn bandwidth(&self) -> u64 {
        self.policer.rate().unwrap_or(self.bw.max())
    }

    pub(super) fn update_aggregation(&mut self, now: Time, ack: &AckEvent) {
        let bw = self.bandwidth();
        let state = &mut self.aggregation;
        if self.rounds.is_round_start {
            state.rounds += 1;
            if state.rounds >= AGGREGATION_ROUNDS {
                state.rounds = 0;
                state.current ^= 1;
                state.windows[state.current] = 0;
            }
        }
        let extra = state.epoch.extra_acked(now, bw, ack.acked).min(self.cwnd.bytes);
        let window = &mut state.windows[state.current];
        *window = (*window).max(extra);
    }

    /// Returns `gain` bandwidth-delay products; the initial window before the first RTT.
    fn bdp(&self, gain: f64) -> u64 {
        if self.min_rtt == Span::MAX {
            return self.cwnd.initial_cwnd;
        }
        (gain * bytes_in(self.bandwidth(), self.min_rtt.nanos()) as f64) as u64
    }

    /// Adds a margin for bursts at sender, path and receiver, and two packets while probing up.
    fn with_quantum(&self, inflight: u64) -> u64 {
        let probing = self.mode == Mode::ProbeBw && self.cycle_index == 0;
        inflight + 3 * self.quantum() + if probing { 2 * self.cwnd.mss } else { 0 }
    }

    /// Returns the target flight for `gain`.
    pub(super) fn inflight(&self, gain: f64) -> u64 {
        self.with_quantum(self.bdp(gain))
    }

    /// Returns the window that the model permits.
    pub(super) fn target_cwnd(&self) -> u64 {
        let aggregated = if self.full_pipe.is_full_bw_reached {
            let max_extra = bytes_in(self.bandwidth(), AGGREGATION_CAP.nanos());
            self.aggregation.extra().min(max_extra)
        } else {
            0
        };
        self.with_quantum(self.bdp(self.cwnd_gain()) + aggregated)
    }
}
