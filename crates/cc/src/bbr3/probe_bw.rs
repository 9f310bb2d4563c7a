//! ProbeBW (section 5.3.3): cruise below what the path holds, refill, probe above, go down.

use units::{Span, Time};

use super::{AckPhase, Bbr, State};
use crate::{Ack, RateSample};

/// Probe at least as often as Reno would need to recover: 62 or 63 rounds.
const RENO_ROUNDS: u64 = 63;
/// The growth of inflight_longterm doubles at most this often.
const MAX_UP_ROUNDS: u32 = 30;

impl Bbr {
    /// BBRUpdateProbeBWCyclePhase, section 5.3.3.6.
    pub(super) fn update_probe_bw_cycle_phase(
        &mut self,
        now: Time,
        ack: &Ack,
        sample: &RateSample,
    ) {
        if !self.full_bw_reached {
            return;
        }
        self.adapt_long_term_model(now, ack, sample);
        match self.state {
            State::ProbeBwDown => {
                let probing = self.check_time_to_probe_bw(now);
                if !probing && self.is_time_to_cruise(ack) {
                    self.start_probe_bw_cruise();
                }
            }
            State::ProbeBwCruise => {
                self.check_time_to_probe_bw(now);
            }
            // One round of REFILL, so that UP begins with a full pipe.
            State::ProbeBwRefill if self.round_start => {
                self.bw_probe_samples = true;
                self.start_probe_bw_up(now, sample.rate.0);
            }
            State::ProbeBwUp => self.check_time_to_go_down(now, ack, sample),
            _ => {}
        }
    }

    /// BBRAdaptLongTermModel: feedback of the probe arrives a round later.
    fn adapt_long_term_model(&mut self, now: Time, ack: &Ack, sample: &RateSample) {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.bw_probe_samples = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !sample.app_limited {
                self.advance_max_bw_filter();
            }
            // The probe stopped as a precaution and nothing was lost: probe on at once.
            if self.state == State::ProbeBwDown
                && self.stopped_risky_probe
                && !self.prev_probe_too_high
            {
                self.start_probe_bw_refill();
                return;
            }
        }
        if self.is_inflight_too_high(sample) {
            if self.bw_probe_samples {
                self.handle_lost(now, ack);
            }
            return;
        }
        let Some(longterm) = self.inflight_longterm else { return };
        if sample.tx_in_flight > longterm {
            self.inflight_longterm = Some(sample.tx_in_flight);
        }
        if self.state == State::ProbeBwUp {
            self.probe_inflight_longterm_upward(ack);
        }
    }

    /// BBRProbeInflightLongTermUpward, section 5.3.3.4: 1, 2, 4... packets a round, while the bound
    /// is what limits.
    fn probe_inflight_longterm_upward(&mut self, ack: &Ack) {
        let Some(longterm) = self.inflight_longterm else { return };
        if !self.is_cwnd_limited(ack) || self.cwnd < longterm {
            return;
        }
        let growth = self.bw_probe_up_growth as f64 * ack.acked as f64 / self.cwnd as f64
            + self.bw_probe_up_remainder;
        self.bw_probe_up_remainder = growth - libm::floor(growth);
        self.inflight_longterm = Some(longterm + growth as u64);
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// BBRRaiseInflightLongTermSlope.
    fn raise_inflight_longterm_slope(&mut self) {
        self.bw_probe_up_growth = self.mss << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(MAX_UP_ROUNDS);
    }

    /// C.is_cwnd_limited: the flight, not only the pacer, met the window.
    fn is_cwnd_limited(&self, ack: &Ack) -> bool {
        ack.cwnd_limited && ack.prior_in_flight + self.send_quantum >= self.cwnd
    }

    /// BBRStartProbeBW_DOWN.
    pub(super) fn start_probe_bw_down(&mut self, now: Time) {
        self.reset_congestion_signals();
        self.pick_probe_wait();
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::ProbeBwDown;
    }

    /// BBRStartProbeBW_CRUISE.
    pub(super) fn start_probe_bw_cruise(&mut self) {
        self.state = State::ProbeBwCruise;
    }

    /// BBRStartProbeBW_REFILL.
    fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_remainder = 0.0;
        self.stopped_risky_probe = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::ProbeBwRefill;
    }

    /// BBRStartProbeBW_UP.
    pub(super) fn start_probe_bw_up(&mut self, now: Time, rate: u64) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.cycle_stamp = now;
        self.reset_full_bw();
        self.full_bw = rate;
        self.state = State::ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    /// BBRPickProbeWait, section 5.3.3.5: U(2, 3) seconds, and rounds counted from 0 or 1.
    fn pick_probe_wait(&mut self) {
        self.rounds_since_bw_probe = self.random.below(2);
        self.bw_probe_wait = Span::from_secs(2) + self.random.span_below(Span::from_secs(1));
    }

    /// BBRIsTimeToProbeBW.
    fn check_time_to_probe_bw(&mut self, now: Time) -> bool {
        // BBRIsRenoCoexistenceProbeTime: a round per packet of the target.
        let reno_rounds = (self.target_inflight() / self.mss).min(RENO_ROUNDS);
        let elapsed = now > self.cycle_stamp + self.bw_probe_wait;
        let due = elapsed || self.rounds_since_bw_probe >= reno_rounds;
        if due {
            self.start_probe_bw_refill();
        }
        due
    }

    /// BBRIsTimeToCruise: the queue has gone and the headroom is free.
    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        self.inflight_with_headroom().is_none_or(|bound| ack.in_flight <= bound)
            && ack.in_flight <= self.inflight(1.0)
    }

    /// BBRIsTimeToGoDown; loss takes the other way, through the bounds.
    fn check_time_to_go_down(&mut self, now: Time, ack: &Ack, sample: &RateSample) {
        let at_bound = self.inflight_longterm.is_some_and(|bound| self.cwnd >= bound);
        let risky = self.prev_probe_too_high
            && self.inflight_longterm.is_some_and(|bound| ack.in_flight >= bound);
        if risky {
            // The previous probe lost too much here: wait for this one's feedback first.
            self.stopped_risky_probe = true;
        } else if at_bound && self.is_cwnd_limited(ack) {
            // The bound, not the path, limits the rate.
            self.reset_full_bw();
            self.full_bw = sample.rate.0;
            return;
        } else if !self.full_bw_now {
            return;
        }
        // No loss so far.
        self.prev_probe_too_high = false;
        self.start_probe_bw_down(now);
    }
}
