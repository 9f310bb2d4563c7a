//! The states STARTUP, DRAIN, PROBE_BW and PROBE_RTT.

use units::{Span, Time};

use super::Bbr1;
use crate::AckEvent;

/// The age at which the minimum RTT is measured again.
const MIN_RTT_WINDOW: Span = Span::from_secs(10);

/// The cycle of pacing gains in PROBE_BW.
pub(super) const PACING_GAIN_CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

impl Bbr1 {
    pub(super) fn check_full_bw_reached(&mut self, ack: &AckEvent) {
        let app_limited = ack.rate_sample.is_some_and(|sample| sample.is_app_limited);
        if !self.full_pipe.is_full_bw_reached && self.rounds.is_round_start && !app_limited {
            self.full_pipe.check(self.bw.max());
        }
    }

    pub(super) fn check_drain(&mut self, now: Time, ack: &AckEvent) {
        if self.mode == Mode::Startup && self.full_pipe.is_full_bw_reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.inflight(1.0) {
            self.enter_probe_bw(now);
        }
    }

    /// Enters PROBE_BW at a random phase of the cycle except the draining one.
    pub(super) fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        let last = PACING_GAIN_CYCLE.len() - 1;
        self.cycle_index = last - self.random.below(last as u64) as usize;
        self.advance_cycle(now);
    }

    fn advance_cycle(&mut self, now: Time) {
        self.cycle_index = (self.cycle_index + 1) % PACING_GAIN_CYCLE.len();
        self.cycle_stamp = now;
    }

    pub(super) fn update_cycle_phase(&mut self, now: Time, ack: &AckEvent) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let full_length = now.since(self.cycle_stamp) > self.min_rtt;
        let gain = self.pacing_gain();
        let done = if gain > 1.0 {
            // Probe until the flight has risen or a loss occurs.
            full_length && (ack.lost > 0 || ack.prior_in_flight >= self.inflight(gain))
        } else if gain < 1.0 {
            // Drain until the queue of the probe is empty.
            full_length || ack.prior_in_flight <= self.inflight(1.0)
        } else {
            full_length
        };
        if done {
            self.advance_cycle(now);
        }
    }

    pub(super) fn update_min_rtt(&mut self, now: Time, ack: &AckEvent) {
        let expired = now > self.min_rtt_stamp + MIN_RTT_WINDOW;
        if let Some(rtt) = ack.latest_rtt
            && (rtt < self.min_rtt || expired)
        {
            self.min_rtt = rtt;
            self.min_rtt_stamp = now;
        }
        if expired && self.options.probe_rtt && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt.begin();
        }
        // ProbeRTT limits the flight to four packets.
        if self.mode == Mode::ProbeRtt
            && self.probe_rtt.update(now, ack, self.cwnd.min_pipe_cwnd(), &mut self.rounds)
        {
            self.probe_rtt_done(now);
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    pub(super) fn probe_rtt_done(&mut self, now: Time) {
        self.min_rtt_stamp = now;
        self.cwnd.restore();
        if self.full_pipe.is_full_bw_reached {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }
}
