//! STARTUP, DRAIN, PROBE_BW and PROBE_RTT.

use units::{Span, Time};

use super::{Bbr1, CYCLE, MIN_CWND, Mode};
use crate::Ack;

/// The pipe is full when bandwidth has not grown by a quarter in three rounds.
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;
/// Age at which the least RTT is measured anew, and how long that takes.
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
const PROBE_RTT_DURATION: Span = Span::from_millis(200);

impl Bbr1 {
    pub(super) fn check_full_bw_reached(&mut self, ack: &Ack) {
        let app_limited = ack.sample.is_some_and(|sample| sample.app_limited);
        if self.full_bw_reached || !self.round_start || app_limited {
            return;
        }
        let bw = self.bw.max();
        if bw as f64 >= self.full_bw as f64 * FULL_BW_GROWTH {
            self.full_bw = bw;
            self.full_bw_count = 0;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_reached = self.full_bw_count >= FULL_BW_ROUNDS;
    }

    pub(super) fn check_drain(&mut self, now: Time, ack: &Ack) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.inflight(1.0) {
            self.enter_probe_bw(now);
        }
    }

    /// Anywhere in the cycle but in its draining phase.
    pub(super) fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        let last = CYCLE.len() - 1;
        self.cycle_index = last - self.random.below(last as u64) as usize;
        self.advance_cycle(now);
    }

    fn advance_cycle(&mut self, now: Time) {
        self.cycle_index = (self.cycle_index + 1) % CYCLE.len();
        self.cycle_stamp = now;
    }

    pub(super) fn update_cycle_phase(&mut self, now: Time, ack: &Ack) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let full_length = now.since(self.cycle_stamp) > self.min_rtt;
        let gain = self.pacing_gain();
        let done = if gain > 1.0 {
            // Probe until the flight has risen, or the path has refused.
            full_length && (ack.lost > 0 || ack.prior_in_flight >= self.inflight(gain))
        } else if gain < 1.0 {
            // Drain until the queue of the probe has gone.
            full_length || ack.prior_in_flight <= self.inflight(1.0)
        } else {
            full_length
        };
        if done {
            self.advance_cycle(now);
        }
    }

    pub(super) fn update_min_rtt(&mut self, now: Time, ack: &Ack) {
        let expired = now > self.min_rtt_stamp + MIN_RTT_WINDOW;
        if let Some(rtt) = ack.latest_rtt
            && (rtt < self.min_rtt || expired)
        {
            self.min_rtt = rtt;
            self.min_rtt_stamp = now;
        }
        if expired && self.options.probe_rtt && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_cwnd(self.cwnd);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done_stamp = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(now, ack);
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    /// At four packets in flight, 200 ms and one round.
    fn probe_rtt(&mut self, now: Time, ack: &Ack) {
        // Its low rates must not push the true one out of the filter, which spans ten rounds.
        self.self_limited.mark(ack.delivered, ack.in_flight);
        if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(now);
            }
        } else if ack.in_flight <= MIN_CWND * self.mss {
            self.probe_rtt_done_stamp = Some(now + PROBE_RTT_DURATION);
            self.probe_rtt_round_done = false;
            self.next_rtt_delivered = ack.delivered;
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done_stamp.is_none_or(|stamp| now <= stamp) {
            return;
        }
        self.min_rtt_stamp = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }
}
