//! ProbeBW (section 5.3.3): cruise below what the path holds, refill, probe above, go down.

use units::{Span, Time};

use super::{AckPhase, Bbr, State};
use crate::{Ack, RateSample};

/// Probe at least as often as Reno would need to recover: 62 or 63 rounds.
const RENO_ROUNDS: u64 = 63;
/// The growth of inflight_longterm doubles at most this often.
const MAX_UP_ROUNDS: u32 = 30;

impl Bbr {
    /// UpdateProbeBWCyclePhase, section 5.3.3.9.
    pub(super) fn update_probe_bw_cycle_phase(
        &mut self,
        now: Time,
        ack: &Ack,
        sample: &RateSample,
    ) {
        if !self.full_bw_reached {
            return;
        }
        if self.adapt_long_term_model(ack, sample) {
            return;
        }
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
                self.is_bw_probe_sample = true;
                self.start_probe_bw_up(sample.rate.0);
            }
            State::ProbeBwUp => self.check_time_to_go_down(now, ack, sample),
            _ => {}
        }
    }

    /// AdaptLongTermModel: feedback of the probe arrives a round later. True: the state has changed.
    fn adapt_long_term_model(&mut self, ack: &Ack, sample: &RateSample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !sample.app_limited {
                self.advance_max_bw_filter();
            }
            // The probe stopped as a precaution and nothing was lost: probe on at once.
            if self.state.is_probe_bw()
                && self.prev_probe_precautionary
                && !self.prev_probe_too_high
            {
                self.start_probe_bw_refill();
                return true;
            }
        }
        let Some(longterm) = self.inflight_longterm else { return false };
        if self.is_inflight_too_high(sample.lost, sample.tx_in_flight) {
            return false;
        }
        if sample.tx_in_flight > longterm {
            self.inflight_longterm = Some(sample.tx_in_flight);
        }
        if self.state == State::ProbeBwUp {
            self.probe_inflight_longterm_upward(ack);
        }
        false
    }

    /// ProbeInflightLongtermUpward, sections 5.3.3.5 and 5.3.3.9: 1, 2, 4... packets a round, while
    /// the bound is what limits, and at most a packet per packet acknowledged.
    pub(super) fn probe_inflight_longterm_upward(&mut self, ack: &Ack) {
        let Some(longterm) = self.inflight_longterm else { return };
        if !self.is_cwnd_limited() || self.cwnd < longterm {
            return;
        }
        self.bw_probe_up_acked += ack.acked;
        let steps = self.bw_probe_up_acked / self.probe_up_acked_per_inc;
        self.bw_probe_up_acked -= steps * self.probe_up_acked_per_inc;
        self.inflight_longterm = Some(longterm + steps * self.mss);
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// RaiseInflightLongtermSlope.
    pub(super) fn raise_inflight_longterm_slope(&mut self) {
        let growth_this_round = 1 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(MAX_UP_ROUNDS);
        self.probe_up_acked_per_inc = (self.cwnd / growth_this_round).max(self.mss);
    }

    /// C.is_cwnd_limited: the flight, not only the pacer, met the window in the last round.
    fn is_cwnd_limited(&self) -> bool {
        self.window_met_in.is_some_and(|round| round + 1 >= self.round_count)
    }

    /// StartProbeBW_DOWN.
    pub(super) fn start_probe_bw_down(&mut self, now: Time) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = u64::MAX;
        self.pick_probe_wait();
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::ProbeBwDown;
    }

    /// StartProbeBW_CRUISE.
    pub(super) fn start_probe_bw_cruise(&mut self) {
        self.state = State::ProbeBwCruise;
    }

    /// StartProbeBW_REFILL.
    pub(super) fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::ProbeBwRefill;
    }

    /// StartProbeBW_UP.
    fn start_probe_bw_up(&mut self, rate: u64) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.reset_full_bw();
        self.full_bw = rate;
        self.state = State::ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    /// PickProbeWait, section 5.3.3.8.3: U(2, 3) seconds, and rounds counted from 0 or 1.
    fn pick_probe_wait(&mut self) {
        self.rounds_since_probe_up = self.random.below(2);
        self.bw_probe_wait = Span::from_secs(2) + self.random.span_below(Span::from_secs(1));
    }

    /// IsTimeToProbeBW.
    fn check_time_to_probe_bw(&mut self, now: Time) -> bool {
        // IsRenoCoexistenceProbeTime: a round per packet of the target.
        let reno_rounds = (self.target_inflight() / self.mss).min(RENO_ROUNDS);
        let elapsed = now > self.cycle_stamp + self.bw_probe_wait;
        let due = elapsed || self.rounds_since_probe_up >= reno_rounds;
        if due {
            self.start_probe_bw_refill();
        }
        due
    }

    /// IsTimeToCruise: the queue has gone and the headroom is free.
    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        self.inflight_with_headroom().is_none_or(|bound| ack.in_flight <= bound)
            && ack.in_flight <= self.inflight_at_max_bw()
    }

    /// IsTimeToGoDown; loss takes the other way, through the bounds.
    fn check_time_to_go_down(&mut self, now: Time, ack: &Ack, sample: &RateSample) {
        let at_bound = self.inflight_longterm.is_some_and(|bound| self.cwnd >= bound);
        let risky = self.prev_probe_too_high
            && self.inflight_longterm.is_some_and(|bound| ack.prior_in_flight + self.mss > bound);
        if risky {
            // The previous probe lost too much here: wait for this one's feedback first.
            self.prev_probe_precautionary = true;
        } else if at_bound && self.is_cwnd_limited() {
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
