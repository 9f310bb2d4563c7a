//! The output: the pacing rate, the congestion window, and the duration of ProbeRTT. The references are sections of the
//! draft and functions of Linux.
//! - [`PacingRate`], with the send quantum: sections 5.6.2 and 5.6.3, `bbr_set_pacing_rate`;
//! - [`Cwnd`], with its restoration after recovery or ProbeRTT: sections 5.6.4.4 and 5.6.4.6, `bbr_save_cwnd` and
//!   `bbr_set_cwnd`;
//! - [`ProbeRtt`]: section 5.3.4, `bbr_update_min_rtt`.

use units::{Span, Time};

use super::model::{AppLimitedMark, RoundCounter};
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

/// BBR.MinPipeCwnd in packets (Linux: bbr_cwnd_min_target).
const MIN_PIPE_CWND_PACKETS: u64 = 4;

/// The congestion window C.cwnd.
#[derive(Clone, Debug)]
pub(crate) struct Cwnd {
    /// SMSS in bytes.
    pub mss: u64,
    /// C.InitialCwnd in bytes.
    pub initial_cwnd: u64,
    /// C.cwnd in bytes.
    pub bytes: u64,
    /// BBR.prior_cwnd: the window to restore, in bytes.
    pub prior_cwnd: u64,
}

impl Cwnd {
    /// Returns the initial window.
    pub fn new(mss: u64, initial: u64) -> Cwnd {
        Cwnd { mss, initial_cwnd: initial, bytes: initial, prior_cwnd: 0 }
    }

    /// Returns the minimum window in bytes.
    pub fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_CWND_PACKETS * self.mss
    }

    /// SaveCwnd. `low` states that recovery or ProbeRTT may have reduced the window below the path's capacity.
    pub fn save(&mut self, low: bool) {
        self.prior_cwnd = if low { self.prior_cwnd.max(self.bytes) } else { self.bytes };
    }

    /// RestoreCwnd.
    pub fn restore(&mut self) {
        self.bytes = self.bytes.max(self.prior_cwnd);
    }

    /// SetCwnd: grows by the acknowledged bytes. `limit` applies only once the pipe has been filled.
    pub fn grow(&mut self, acked: u64, limit: u64, full_bw_reached: bool, delivered: u64) {
        if full_bw_reached {
            self.bytes = (self.bytes + acked).min(limit);
        } else if self.bytes < limit || delivered < self.initial_cwnd {
            self.bytes += acked;
        }
    }
}

/// BBR.ProbeRTTDuration.
const PROBE_RTT_DURATION: Span = Span::from_millis(200);

/// A period at a low flight that measures the RTT without the flow's queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeRtt {
    done_stamp: Option<Time>,
    round_done: bool,
    app_limited_mark: AppLimitedMark,
}

impl ProbeRtt {
    /// Starts ProbeRTT. The flight is not yet low.
    pub fn begin(&mut self) {
        self.done_stamp = None;
    }

    /// HandleProbeRTT: at least 200 ms and one round at a flight of `low` bytes. Returns whether ProbeRTT is over.
    pub fn update(
        &mut self,
        now: Time,
        ack: &AckEvent,
        low: u64,
        rounds: &mut RoundCounter,
    ) -> bool {
        // The low rates of ProbeRTT must not displace the estimate in the bandwidth filter.
        self.app_limited_mark.mark(ack.delivered, ack.in_flight);
        if self.done_stamp.is_some() {
            self.round_done |= rounds.is_round_start;
            return self.round_done && self.is_done(now);
        }
        if ack.in_flight <= low {
            self.done_stamp = Some(now + PROBE_RTT_DURATION);
            self.round_done = false;
            rounds.begin(ack.delivered);
        }
        false
    }

    /// CheckProbeRTTDone: returns whether the time is over. After idle no round is required.
    pub fn is_done(&self, now: Time) -> bool {
        self.done_stamp.is_some_and(|stamp| now > stamp)
    }

    /// Returns the event with the samples from ProbeRTT marked.
    pub fn mark_samples(&self, ack: &AckEvent) -> AckEvent {
        self.app_limited_mark.apply(ack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::sample_ack;

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

    #[test]
    fn restore_uses_the_larger_window() {
        let mut cwnd = Cwnd::new(1000, 10_000);
        cwnd.save(false);
        cwnd.bytes = 5_000;
        cwnd.save(true);
        cwnd.restore();
        assert_eq!(cwnd.bytes, 10_000);
        cwnd.bytes = 5_000;
        cwnd.save(false);
        cwnd.restore();
        assert_eq!(cwnd.bytes, 5_000);
    }

    #[test]
    fn the_window_is_limited_only_after_a_full_pipe() {
        let mut cwnd = Cwnd::new(1000, 10_000);
        cwnd.grow(1_000, 5_000, false, 9_000);
        assert_eq!(cwnd.bytes, 11_000);
        cwnd.grow(1_000, 5_000, false, 10_000);
        assert_eq!(cwnd.bytes, 11_000);
        cwnd.grow(1_000, 5_000, true, 10_000);
        assert_eq!(cwnd.bytes, 5_000);
    }

    #[test]
    fn probe_rtt_lasts_200_ms_and_one_round() {
        let (mut probe, mut rounds) = (ProbeRtt::default(), RoundCounter::default());
        let ms = |ms| Time::ZERO + Span::from_millis(ms);
        let ack = |in_flight| AckEvent { delivered: 100, in_flight, ..sample_ack() };
        probe.begin();
        assert!(!probe.update(ms(0), &ack(51), 50, &mut rounds));
        assert!(!probe.is_done(ms(1_000)));
        assert!(!probe.update(ms(10), &ack(50), 50, &mut rounds));
        assert_eq!(rounds.next_round_delivered, 100);
        rounds.is_round_start = true;
        assert!(!probe.update(ms(210), &ack(50), 50, &mut rounds));
        rounds.is_round_start = false;
        assert!(probe.update(ms(211), &ack(50), 50, &mut rounds));
    }
}
