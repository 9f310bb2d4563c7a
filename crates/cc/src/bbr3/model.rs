//! The path model.
//! - [`BandwidthModel`]: the maximum of the last two probe cycles, and the short-term bound (sections 5.5.5, 5.5.6 and
//!   5.5.10);
//! - [`MinRttFilter`]: the minimum RTT and the time of the next ProbeRTT (section 5.3.4.3);
//! - [`AckAggregation`]: the allowance for aggregated ACKs (section 5.5.9);
//! - [`InflightBounds`]: the long-term bound, which probing determines, and the short-term bound (sections 5.5.10 and
//!   5.6.4.7).

use units::{Span, Time};

use super::Bbr3;
use super::states::BbrState;
use crate::RateSample;
use crate::bbr_common::{AckAggregationEpoch, Cwnd};
use crate::max_filter::{WindowedMax, bytes_in};

/// BBR.MaxBwFilterLen in probe cycles.
const MAX_BW_FILTER_LEN: u64 = 2;

/// The bandwidth model. Bandwidths are in bit/s.
#[derive(Clone, Debug, Default)]
pub(super) struct BandwidthModel {
    filter: WindowedMax,
    cycle_count: u64,
    /// BBR.max_bw.
    pub max_bw: u64,
    /// BBR.bw_shortterm. `None` means infinity.
    pub shortterm: Option<u64>,
    /// BBR.bw: the bandwidth in use.
    pub bw: u64,
}

impl BandwidthModel {
    /// UpdateMaxBw: an application-limited sample counts only if it is higher.
    pub fn update_max(&mut self, sample: &RateSample) {
        let rate = sample.rate.0;
        if rate > 0 && (rate >= self.max_bw || !sample.is_app_limited) {
            self.max_bw = self.filter.update(self.cycle_count, MAX_BW_FILTER_LEN, rate);
        }
    }

    /// AdvanceMaxBwFilter.
    pub fn advance_filter(&mut self) {
        self.cycle_count += 1;
    }

    /// BoundBWForModel. The bound does not apply while `probing`.
    pub fn bound(&mut self, probing: bool) {
        self.bw = match self.shortterm {
            Some(bound) if !probing => self.max_bw.min(bound),
            _ => self.max_bw,
        };
    }
}

/// BBR.MinRTTFilterLen.
const MIN_RTT_FILTER_LEN: Span = Span::from_secs(10);

/// Two filters: a short one that triggers ProbeRTT, a long one for the model.
#[derive(Clone, Debug)]
pub(super) struct MinRttFilter {
    /// BBR.min_rtt.
    pub rtt: Span,
    stamp: Time,
    probe_delay: Span,
    probe_stamp: Time,
    /// BBR.probe_rtt_expired: ProbeRTT is due.
    pub is_probe_rtt_expired: bool,
}

impl MinRttFilter {
    /// Returns the state before the first sample. The filters' age counts from `now`.
    pub fn new(now: Time) -> MinRttFilter {
        let rtt = Span::MAX;
        MinRttFilter {
            rtt,
            stamp: now,
            probe_delay: rtt,
            probe_stamp: now,
            is_probe_rtt_expired: false,
        }
    }

    /// UpdateMinRTT. `interval` is BBR.ProbeRTTInterval.
    pub fn update(&mut self, now: Time, sample: Option<Span>, interval: Span) {
        self.is_probe_rtt_expired = now > self.probe_stamp + interval;
        if let Some(rtt) = sample
            && (rtt < self.probe_delay || self.is_probe_rtt_expired)
        {
            self.probe_delay = rtt;
            self.probe_stamp = now;
        }
        let expired = now > self.stamp + MIN_RTT_FILTER_LEN;
        if self.probe_delay < self.rtt || expired {
            self.rtt = self.probe_delay;
            self.stamp = self.probe_stamp;
        }
    }

    /// Ends ProbeRTT. The next one is due an interval after `now`.
    pub fn on_probe_rtt_done(&mut self, now: Time) {
        self.probe_stamp = now;
    }
}

/// BBR.ExtraAckedFilterLen in rounds. The length is one round until the pipe has been filled.
const EXTRA_ACKED_FILTER_LEN: u64 = 10;

/// The bytes that aggregated ACKs acknowledge beyond the bandwidth.
#[derive(Clone, Debug, Default)]
pub(super) struct AckAggregation {
    epoch: AckAggregationEpoch,
    filter: WindowedMax,
    /// BBR.extra_acked in bytes.
    pub extra: u64,
}

impl AckAggregation {
    /// Starts the interval at `now`.
    pub fn restart(&mut self, now: Time) {
        self.epoch.start = now;
    }

    /// UpdateACKAggregation: `acked` bytes in round `round`, at most `cwnd` of the surplus.
    pub fn update(
        &mut self,
        now: Time,
        (bw, acked, cwnd): (u64, u64, u64),
        round: u64,
        full: bool,
    ) {
        let extra = self.epoch.extra_acked(now, bw, acked).min(cwnd);
        let window = if full { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra = self.filter.update(round, window, extra);
    }
}

/// The bounds of the flight in bytes. `None` represents the draft's Infinity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InflightBounds {
    /// BBR.inflight_longterm.
    pub longterm: Option<u64>,
    /// BBR.inflight_shortterm.
    pub shortterm: Option<u64>,
}

impl InflightBounds {
    /// InflightWithHeadroom, section 5.3.3.9: leaves headroom for new flows.
    pub fn with_headroom(&self, headroom: f64, cwnd: &Cwnd) -> Option<u64> {
        self.longterm.map(|longterm| {
            let headroom = ((headroom * longterm as f64) as u64).max(cwnd.mss);
            longterm.saturating_sub(headroom).max(cwnd.min_pipe_cwnd())
        })
    }

    /// BoundCwndForModel, section 5.6.4.7: the column "volume cap" of the table.
    pub fn cap(&self, state: BbrState, headroom: f64, cwnd: &Cwnd) -> Option<u64> {
        let longterm = match state {
            BbrState::Startup => return None,
            BbrState::ProbeBwCruise | BbrState::ProbeRtt => self.with_headroom(headroom, cwnd),
            _ => self.longterm,
        };
        let cap = [longterm, self.shortterm].into_iter().flatten().min();
        cap.map(|cap| cap.max(cwnd.min_pipe_cwnd()))
    }
}

/// LossLowerBounds: reduces a short-term bound by Beta, but not below the latest delivery. An absent bound starts at
/// `initial` (InitLowerBounds).
pub(super) fn lowered_bound(
    bound: Option<u64>,
    initial: u64,
    latest: u64,
    beta: f64,
) -> Option<u64> {
    Some(latest.max((beta * bound.unwrap_or(initial) as f64) as u64))
}

/// Returns the higher of two bounds. An absent bound is the highest.
pub(super) fn higher_bound(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a.max(b))
}

/// The volumes derived from the model: bandwidth-delay products with an allowance for bursts (section 5.6.4.2).
impl Bbr3 {
    /// BDPMultiple.
    pub(super) fn bdp_multiple(&self, gain: f64) -> u64 {
        self.bdp_at(self.bandwidth.bw, gain)
    }

    fn bdp_at(&self, bw: u64, gain: f64) -> u64 {
        if self.min_rtt.rtt == Span::MAX {
            return self.cwnd.initial_cwnd;
        }
        (gain * bytes_in(bw, self.min_rtt.rtt.nanos()) as f64) as u64
    }

    /// QuantizationBudget: adds the allowance for offloaded bursts and the minimum pipe.
    fn quantization_budget(&self, inflight: u64) -> u64 {
        let offload_budget = 3 * self.send_quantum;
        let inflight = inflight.max(offload_budget).max(self.cwnd.min_pipe_cwnd());
        if self.state == BbrState::ProbeBwUp { inflight + 2 * self.cwnd.mss } else { inflight }
    }

    /// Inflight.
    pub(super) fn inflight(&self, gain: f64) -> u64 {
        self.quantization_budget(self.bdp_multiple(gain))
    }

    /// Inflight at BBR.max_bw, independent of the short-term bound.
    pub(super) fn inflight_at_max_bw(&self) -> u64 {
        self.quantization_budget(self.bdp_at(self.bandwidth.max_bw, 1.0))
    }

    /// UpdateMaxInflight.
    pub(super) fn max_inflight(&self) -> u64 {
        let bdp = self.bdp_multiple(self.state.cwnd_gain());
        self.quantization_budget(bdp + self.aggregation.extra)
    }

    /// TargetInflight, section 5.3.3.8.3.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp_multiple(1.0).min(self.cwnd.bytes)
    }

    /// ProbeRTTCwnd: half a BDP.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp_multiple(BbrState::ProbeRtt.cwnd_gain()).max(self.cwnd.min_pipe_cwnd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    fn sample(rate: u64, app_limited: bool) -> RateSample {
        RateSample {
            delivered: 0,
            interval: Span::ZERO,
            rate: Rate(rate),
            prior_delivered: 0,
            tx_in_flight: 0,
            lost: 0,
            is_app_limited: app_limited,
        }
    }

    /// The maximum covers this cycle and the last. Application-limited samples can only raise it.
    #[test]
    fn the_maximum_lasts_for_two_cycles() {
        let mut bandwidth = BandwidthModel::default();
        for (rate, app_limited, max) in [(10, false, 10), (12, true, 12), (5, true, 12)] {
            bandwidth.update_max(&sample(rate, app_limited));
            assert_eq!(bandwidth.max_bw, max);
        }
        for max in [12, 8] {
            bandwidth.advance_filter();
            bandwidth.update_max(&sample(8, false));
            assert_eq!(bandwidth.max_bw, max);
        }
    }

    #[test]
    fn the_short_term_bound_holds_unless_probing() {
        let mut bandwidth =
            BandwidthModel { max_bw: 10, shortterm: Some(7), ..BandwidthModel::default() };
        for (probing, bw) in [(false, 7), (true, 10)] {
            bandwidth.bound(probing);
            assert_eq!(bandwidth.bw, bw);
        }
    }

    /// A higher RTT enters the short filter after 5 s, and the model once the long filter is 10 s old.
    #[test]
    fn the_model_uses_the_minimum_of_ten_seconds() {
        let second = |s| Time::ZERO + Span::from_secs(s);
        let mut filter = MinRttFilter::new(Time::ZERO);
        let seen = [(0, 30, 30, false), (5, 50, 30, false), (6, 50, 30, true), (11, 60, 50, false)];
        for (at, rtt, model, expired) in seen {
            let interval = Span::from_secs(5);
            filter.update(second(at), Some(Span::from_millis(rtt)), interval);
            assert_eq!(
                (filter.rtt, filter.is_probe_rtt_expired),
                (Span::from_millis(model), expired),
                "{at}"
            );
        }
    }

    #[test]
    fn the_cap_depends_on_the_state() {
        let cwnd = Cwnd::new(1_000, 10_000);
        let inflight = InflightBounds { longterm: Some(100_000), shortterm: Some(90_000) };
        let cap = |state| inflight.cap(state, 0.15, &cwnd);
        assert_eq!(cap(BbrState::Startup), None);
        assert_eq!(cap(BbrState::ProbeBwCruise), Some(85_000));
        assert_eq!(cap(BbrState::ProbeBwDown), Some(90_000));
        assert_eq!(InflightBounds::default().cap(BbrState::ProbeBwUp, 0.15, &cwnd), None);
        let bounds = InflightBounds { shortterm: Some(1), ..InflightBounds::default() };
        assert_eq!(bounds.cap(BbrState::Drain, 0.15, &cwnd), Some(4_000));
    }

    #[test]
    fn bounds_fall_to_the_delivered_bytes_and_rise_to_the_higher_one() {
        assert_eq!(lowered_bound(None, 1_000, 0, 0.7), Some(700));
        assert_eq!(lowered_bound(Some(700), 1_000, 600, 0.7), Some(600));
        assert_eq!((higher_bound(Some(1), Some(2)), higher_bound(Some(1), None)), (Some(2), None));
    }
}
