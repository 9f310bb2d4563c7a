//! The path's model: bandwidth, rounds, least RTT, aggregation, and the volumes that follow.

use units::{Span, Time};

use super::{Bbr, State};
use crate::filter::bytes_in;
use crate::{Ack, RateSample};

/// BBR.MaxBwFilterLen, probe cycles.
const MAX_BW_FILTER_LEN: u64 = 2;
/// BBR.ExtraAckedFilterLen, rounds; one until the pipe has been filled.
const EXTRA_ACKED_FILTER_LEN: u64 = 10;
/// BBR.MinRTTFilterLen.
const MIN_RTT_FILTER_LEN: Span = Span::from_secs(10);

impl Bbr {
    /// UpdateRound, section 5.5.1.
    pub(super) fn update_round(&mut self, sample: &RateSample) {
        self.round_start = sample.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
        }
    }

    /// StartRound: a round ends when a packet sent from now on is acknowledged.
    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
    }

    /// UpdateMaxBw, section 5.5.5: an application-limited sample counts only if it is higher.
    pub(super) fn update_max_bw(&mut self, sample: &RateSample) {
        let rate = sample.rate.0;
        if rate > 0 && (rate >= self.max_bw || !sample.app_limited) {
            self.max_bw = self.max_bw_filter.update(self.cycle_count, MAX_BW_FILTER_LEN, rate);
        }
    }

    /// AdvanceMaxBwFilter, section 5.5.6.
    pub(super) fn advance_max_bw_filter(&mut self) {
        self.cycle_count += 1;
    }

    /// UpdateMinRTT, section 5.3.4.3.
    pub(super) fn update_min_rtt(&mut self, now: Time, ack: &Ack) {
        let interval = Span::from_seconds(self.options.probe_rtt_interval_s);
        self.probe_rtt_expired = now > self.probe_rtt_min_stamp + interval;
        if let Some(rtt) = ack.latest_rtt
            && (rtt < self.probe_rtt_min_delay || self.probe_rtt_expired)
        {
            self.probe_rtt_min_delay = rtt;
            self.probe_rtt_min_stamp = now;
        }
        let min_rtt_expired = now > self.min_rtt_stamp + MIN_RTT_FILTER_LEN;
        if self.probe_rtt_min_delay < self.min_rtt || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    /// UpdateACKAggregation, section 5.5.9.
    pub(super) fn update_ack_aggregation(&mut self, now: Time, ack: &Ack) {
        let interval = now.since(self.extra_acked_interval_start);
        let mut expected = bytes_in(self.bw, interval.nanos());
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_interval_start = now;
            expected = 0;
        }
        self.extra_acked_delivered += ack.acked;
        let extra = (self.extra_acked_delivered - expected).min(self.cwnd);
        let window = if self.full_bw_reached { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra_acked = self.extra_acked_filter.update(self.round_count, window, extra);
    }

    /// BDPMultiple, section 5.6.4.2.
    pub(super) fn bdp_multiple(&self, gain: f64) -> u64 {
        self.bdp_at(self.bw, gain)
    }

    fn bdp_at(&self, bw: u64, gain: f64) -> u64 {
        if self.min_rtt == Span::MAX {
            return self.initial_cwnd;
        }
        (gain * bytes_in(bw, self.min_rtt.nanos()) as f64) as u64
    }

    /// QuantizationBudget, section 5.6.4.2: room for offloaded bursts and for the least pipe.
    pub(super) fn quantization_budget(&self, inflight: u64) -> u64 {
        let offload_budget = 3 * self.send_quantum;
        let inflight = inflight.max(offload_budget).max(self.min_pipe_cwnd());
        if self.state == State::ProbeBwUp { inflight + 2 * self.mss } else { inflight }
    }

    /// Inflight.
    pub(super) fn inflight(&self, gain: f64) -> u64 {
        self.quantization_budget(self.bdp_multiple(gain))
    }

    /// Inflight of BBR.max_bw, whatever the short-term bound.
    pub(super) fn inflight_at_max_bw(&self) -> u64 {
        self.quantization_budget(self.bdp_at(self.max_bw, 1.0))
    }

    /// UpdateMaxInflight.
    pub(super) fn max_inflight(&self) -> u64 {
        self.quantization_budget(self.bdp_multiple(self.state.cwnd_gain()) + self.extra_acked)
    }

    /// TargetInflight, section 5.3.3.8.3.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp_multiple(1.0).min(self.cwnd)
    }
}
