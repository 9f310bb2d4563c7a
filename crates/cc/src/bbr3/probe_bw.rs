//! ProbeBW (section 5.3.3): cruise below the capacity of the path, refill, probe above, drain.

use units::Time;

use super::{AckPhase, Bbr3, BbrState};
use crate::{AckEvent, RateSample};

impl Bbr3 {
    /// UpdateProbeBWCyclePhase, section 5.3.3.9.
    pub(super) fn update_probe_bw_cycle_phase(
        &mut self,
        now: Time,
        ack: &AckEvent,
        sample: &RateSample,
    ) {
        if !self.full_pipe.is_full_bw_reached {
            return;
        }
        if self.adapt_long_term_model(ack, sample) {
            return;
        }
        match self.state {
            BbrState::ProbeBwDown => {
                let probing = self.check_time_to_probe_bw(now);
                if !probing && self.is_time_to_cruise(ack) {
                    self.start_probe_bw_cruise();
                }
            }
            BbrState::ProbeBwCruise => {
                self.check_time_to_probe_bw(now);
            }
            // One round of REFILL precedes UP, so that UP begins with a full pipe.
            BbrState::ProbeBwRefill if self.rounds.is_round_start => {
                self.cycle.is_bw_probe_sample = true;
                self.start_probe_bw_up(sample.rate.0);
            }
            BbrState::ProbeBwUp => self.check_time_to_go_down(now, ack, sample),
            _ => {}
        }
    }

    /// AdaptLongTermModel: feedback of the probe arrives a round later. Returns whether the state has changed.
    fn adapt_long_term_model(&mut self, ack: &AckEvent, sample: &RateSample) -> bool {
        if self.cycle.ack_phase == AckPhase::ProbeStarting && self.rounds.is_round_start {
            self.cycle.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.cycle.ack_phase == AckPhase::ProbeStopping && self.rounds.is_round_start {
            self.cycle.is_bw_probe_sample = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !sample.is_app_limited {
                self.bandwidth.advance_filter();
            }
            // The probe stopped as a precaution and no loss followed: probe again at once.
            if self.state.is_probe_bw()
                && self.cycle.prev_probe_precautionary
                && !self.cycle.prev_probe_too_high
            {
                self.start_probe_bw_refill();
                return true;
            }
        }
        let Some(longterm) = self.inflight.longterm else { return false };
        if self.is_inflight_too_high(sample.lost, sample.tx_in_flight) {
            return false;
        }
        if sample.tx_in_flight > longterm {
            self.inflight.longterm = Some(sample.tx_in_flight);
        }
        if self.state == BbrState::ProbeBwUp {
            self.probe_inflight_longterm_upward(ack);
        }
        false
    }

    /// ProbeInflightLongtermUpward, sections 5.3.3.5 and 5.3.3.9: raises the bound by 1, 2, 4... packets per round
    /// while it limits the flight, at most by one packet per acknowledged packet.
    pub(super) fn probe_inflight_longterm_upward(&mut self, ack: &AckEvent) {
        let Some(longterm) = self.inflight.longterm else { return };
        if !self.is_cwnd_limited() || self.cwnd.bytes < longterm {
            return;
        }
        self.inflight.longterm =
            Some(longterm + self.cycle.bound_increments(ack.acked) * self.cwnd.mss);
        if self.rounds.is_round_start {
            self.cycle.raise_slope(&self.cwnd);
        }
    }

    /// C.is_cwnd_limited.
    fn is_cwnd_limited(&self) -> bool {
        self.cycle.is_cwnd_limited(self.rounds.count)
    }

    /// StartProbeBW_DOWN.
    pub(super) fn start_probe_bw_down(&mut self, now: Time) {
        self.signals.reset();
        self.cycle.stop_slope();
        self.cycle.pick_wait(now, &mut self.random);
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = BbrState::ProbeBwDown;
    }

    /// StartProbeBW_CRUISE.
    pub(super) fn start_probe_bw_cruise(&mut self) {
        self.state = BbrState::ProbeBwCruise;
    }

    /// StartProbeBW_REFILL.
    pub(super) fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        self.cycle.restart_slope();
        self.cycle.prev_probe_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = BbrState::ProbeBwRefill;
    }

    /// StartProbeBW_UP.
    fn start_probe_bw_up(&mut self, rate: u64) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.full_pipe.restart_at(rate);
        self.state = BbrState::ProbeBwUp;
        self.cycle.raise_slope(&self.cwnd);
    }

    /// IsTimeToProbeBW.
    fn check_time_to_probe_bw(&mut self, now: Time) -> bool {
        let due = self.cycle.is_time_to_probe(now, self.target_inflight() / self.cwnd.mss);
        if due {
            self.start_probe_bw_refill();
        }
        due
    }

    /// IsTimeToCruise: the queue is drained and the headroom is free.
    fn is_time_to_cruise(&self, ack: &AckEvent) -> bool {
        let with_headroom = self.inflight.with_headroom(self.options.headroom, &self.cwnd);
        with_headroom.is_none_or(|bound| ack.in_flight <= bound)
            && ack.in_flight <= self.inflight_at_max_bw()
    }

    /// IsTimeToGoDown. Loss ends the probe through the bounds instead.
    fn check_time_to_go_down(&mut self, now: Time, ack: &AckEvent, sample: &RateSample) {
        let at_bound = self.inflight.longterm.is_some_and(|bound| self.cwnd.bytes >= bound);
        let risky = self.cycle.prev_probe_too_high
            && self
                .inflight
                .longterm
                .is_some_and(|bound| ack.prior_in_flight + self.cwnd.mss > bound);
        if risky {
            // The previous probe lost too much at this flight: wait for the feedback of this probe.
            self.cycle.prev_probe_precautionary = true;
        } else if at_bound && self.is_cwnd_limited() {
            // The bound, not the path, limits the rate.
            self.full_pipe.restart_at(sample.rate.0);
            return;
        } else if !self.full_pipe.is_full_bw_now {
            return;
        }
        // No loss has occurred so far.
        self.cycle.prev_probe_too_high = false;
        self.start_probe_bw_down(now);
    }
}
