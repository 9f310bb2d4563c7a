//! The state machine: BBR.state with its gains (section 5.6.1) and the phase to which arriving ACKs belong. It has the
//! transitions of each state, and the cycle of bandwidth probing.

use units::{RandomStream, Span, Time};

use super::Bbr3;
use crate::bbr_common::Cwnd;
use crate::{AckEvent, RateSample};

/// BBR.state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BbrState {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

use BbrState::*;

impl BbrState {
    /// BBR.pacing_gain.
    pub fn pacing_gain(self) -> f64 {
        match self {
            Startup => 2.77, // 4 ln 2
            Drain => 0.5,
            ProbeBwDown => 0.9,
            ProbeBwCruise | ProbeBwRefill | ProbeRtt => 1.0,
            ProbeBwUp => 1.25,
        }
    }

    /// BBR.cwnd_gain.
    pub fn cwnd_gain(self) -> f64 {
        match self {
            ProbeBwUp => 2.25,
            ProbeRtt => 0.5,
            _ => 2.0,
        }
    }

    /// IsInAProbeBWState.
    pub fn is_probe_bw(self) -> bool {
        matches!(self, ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp)
    }

    /// IsProbingBW: these states expect loss, so that loss does not lower the short-term bounds.
    pub fn is_probing(self) -> bool {
        matches!(self, Startup | ProbeBwRefill | ProbeBwUp)
    }
}

/// BBR.ack_phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    ProbeStopping,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
}

/// BBR.StartupFullLossCnt: loss events per round.
const STARTUP_FULL_LOSS_CNT: u32 = 6;

/// Startup (section 5.3.1): doubles the delivery rate each round until it stops growing or the loss is too high.
impl Bbr3 {
    /// EnterStartup.
    pub(super) fn enter_startup(&mut self) {
        self.state = BbrState::Startup;
    }

    /// CheckFullBWReached, section 5.3.1.2.
    pub(super) fn check_full_bw_reached(&mut self, sample: &RateSample) {
        if !self.full_pipe.is_full_bw_now && self.rounds.is_round_start && !sample.is_app_limited {
            self.full_pipe.check(sample.rate.0);
        }
    }

    /// CheckStartupHighLoss, section 5.3.1.3: a full round in fast recovery with more loss than LossThresh, in at least
    /// StartupFullLossCnt events. The check runs at the end of a loss round, which its first loss started.
    fn check_startup_high_loss(&mut self, sample: &RateSample) {
        if !self.signals.loss_round.is_round_start {
            return;
        }
        let events = std::mem::take(&mut self.signals.loss_events);
        if self.state == BbrState::Startup
            && self.recovery.has_lasted_a_round
            && events >= STARTUP_FULL_LOSS_CNT
            && self.is_inflight_too_high(sample.lost, sample.tx_in_flight)
        {
            self.set_undo_state(BbrState::Startup);
            self.full_pipe.is_full_bw_now = true; // appendix A.2
            self.full_pipe.is_full_bw_reached = true;
            self.inflight.longterm = Some(self.bdp_multiple(1.0).max(self.signals.inflight_latest));
        }
    }

    /// CheckStartupDone.
    pub(super) fn check_startup_done(&mut self, sample: &RateSample) {
        self.check_startup_high_loss(sample);
        if self.state == BbrState::Startup && self.full_pipe.is_full_bw_reached {
            self.enter_drain();
        }
    }
}

/// The maximum length of Drain in rounds.
const MAX_DRAIN_ROUNDS: u64 = 3;

/// Drain (section 5.3.2): drains the queue of Startup.
impl Bbr3 {
    /// EnterDrain.
    pub(super) fn enter_drain(&mut self) {
        self.state = BbrState::Drain;
        self.drain_start_round = self.rounds.count;
    }

    /// CheckDrainDone.
    pub(super) fn check_drain_done(&mut self, now: Time, ack: &AckEvent) {
        if self.state != BbrState::Drain {
            return;
        }
        let drained = ack.in_flight <= self.inflight(1.0);
        if drained || self.rounds.count > self.drain_start_round + MAX_DRAIN_ROUNDS {
            // EnterProbeBW.
            self.start_probe_bw_down(now);
        }
    }
}

/// ProbeBW (section 5.3.3): cruise below the capacity of the path, refill, probe above, drain.
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

    /// ProbeInflightLongtermUpward, sections 5.3.3.5 and 5.3.3.9: raises the bound while it limits the flight. The
    /// steps are 1, 2, 4... packets per round, at most one packet per acknowledged packet.
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

/// The maximum number of rounds between probes, as Reno needs to recover: 62 or 63 rounds.
const RENO_ROUNDS: u64 = 63;
/// The maximum number of doublings of the growth of inflight_longterm.
const MAX_UP_ROUNDS: u32 = 30;

/// The current cycle of bandwidth probing (section 5.3.3): the next probe, the slope of the long-term bound, and the
/// result of the last probe.
#[derive(Clone, Debug)]
pub(super) struct ProbeCycle {
    /// BBR.ack_phase.
    pub ack_phase: AckPhase,
    /// BBR.cycle_stamp.
    pub stamp: Time,
    /// BBR.bw_probe_wait.
    pub bw_probe_wait: Span,
    /// BBR.rounds_since_probe_up.
    pub rounds_since_probe_up: u64,
    /// BBR.is_bw_probe_sample: a loss is attributed to the probe.
    pub is_bw_probe_sample: bool,
    /// BBR.prev_probe_too_high.
    pub prev_probe_too_high: bool,
    /// BBR.prev_probe_precautionary: the last probe stopped before its feedback arrived.
    pub prev_probe_precautionary: bool,
    /// The last round in which the flight filled the window.
    pub last_cwnd_limited_round: Option<u64>,
    /// BBR.bw_probe_up_rounds.
    up_rounds: u32,
    /// BBR.bw_probe_up_acked.
    up_acked: u64,
    /// BBR.probe_up_acked_per_inc: the acknowledged bytes per packet of growth of the bound.
    pub probe_up_acked_per_inc: u64,
}

impl ProbeCycle {
    /// Returns the state before the first probe.
    pub fn new() -> ProbeCycle {
        ProbeCycle {
            ack_phase: AckPhase::Init,
            stamp: Time::ZERO,
            bw_probe_wait: Span::ZERO,
            rounds_since_probe_up: 0,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            last_cwnd_limited_round: None,
            up_rounds: 0,
            up_acked: 0,
            probe_up_acked_per_inc: u64::MAX,
        }
    }

    /// PickProbeWait, section 5.3.3.8.3: U(2, 3) seconds, and rounds counted from 0 or 1.
    pub fn pick_wait(&mut self, now: Time, random: &mut RandomStream) {
        self.stamp = now;
        self.rounds_since_probe_up = random.below(2);
        self.bw_probe_wait = Span::from_secs(2) + random.span_below(Span::from_secs(1));
    }

    /// IsTimeToProbeBW, including IsRenoCoexistenceProbeTime: one round per packet of the target.
    pub fn is_time_to_probe(&self, now: Time, target_packets: u64) -> bool {
        let elapsed = now > self.stamp + self.bw_probe_wait;
        elapsed || self.rounds_since_probe_up >= target_packets.min(RENO_ROUNDS)
    }

    /// C.is_cwnd_limited: returns whether the flight, not only the pacer, filled the window in the last round.
    pub fn is_cwnd_limited(&self, round: u64) -> bool {
        self.last_cwnd_limited_round.is_some_and(|met| met + 1 >= round)
    }

    /// Resets the slope to one packet per round before a probe.
    pub fn restart_slope(&mut self) {
        self.up_rounds = 0;
        self.up_acked = 0;
    }

    /// Stops the growth of the bound.
    pub fn stop_slope(&mut self) {
        self.probe_up_acked_per_inc = u64::MAX;
    }

    /// RaiseInflightLongtermSlope.
    pub fn raise_slope(&mut self, cwnd: &Cwnd) {
        let growth_this_round = 1 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.probe_up_acked_per_inc = (cwnd.bytes / growth_this_round).max(cwnd.mss);
    }

    /// Returns the packets by which the bound grows for `acked` bytes.
    pub fn bound_increments(&mut self, acked: u64) -> u64 {
        self.up_acked += acked;
        let steps = self.up_acked / self.probe_up_acked_per_inc;
        self.up_acked -= steps * self.probe_up_acked_per_inc;
        steps
    }
}

/// ProbeRTT (section 5.3.4): reduces the flight periodically to measure the RTT without the flow's queue.
impl Bbr3 {
    /// CheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, now: Time, ack: &AckEvent) {
        if self.state != BbrState::ProbeRtt
            && self.min_rtt.is_probe_rtt_expired
            && !self.idle_restart
        {
            // EnterProbeRTT precedes SaveCwnd, so that the larger of the current and the saved window is saved.
            self.state = BbrState::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt.begin();
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == BbrState::ProbeRtt {
            let low = self.probe_rtt_cwnd();
            if self.probe_rtt.update(now, ack, low, &mut self.rounds) {
                self.probe_rtt_done(now);
            }
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    /// The second part of CheckProbeRTTDone, and ExitProbeRTT.
    pub(super) fn probe_rtt_done(&mut self, now: Time) {
        self.min_rtt.on_probe_rtt_done(now);
        self.cwnd.restore();
        self.reset_short_term_model();
        if self.full_pipe.is_full_bw_reached {
            self.start_probe_bw_down(now);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A.15: the step doubles each round, up to one packet per acknowledged packet.
    #[test]
    fn the_slope_doubles_each_round() {
        let cwnd = Cwnd::new(1200, 1_200_000);
        let mut cycle = ProbeCycle::new();
        let steps: Vec<u64> = (0..20)
            .map(|_| {
                cycle.raise_slope(&cwnd);
                cwnd.bytes / cycle.probe_up_acked_per_inc
            })
            .collect();
        assert_eq!((&steps[..4], steps[19]), (&[1, 2, 4, 8][..], 1_000));
        assert_eq!(cycle.bound_increments(11_999), 9);
        assert_eq!(cycle.bound_increments(1), 1);
    }

    #[test]
    fn a_probe_is_due_after_its_wait_or_after_renos_rounds() {
        let mut cycle = ProbeCycle::new();
        cycle.pick_wait(Time::ZERO, &mut RandomStream::named(1, "bbr", "probe"));
        let second = |s| Time::ZERO + Span::from_secs(s);
        assert!(
            cycle.bw_probe_wait >= Span::from_secs(2) && cycle.bw_probe_wait < Span::from_secs(3)
        );
        assert!(cycle.rounds_since_probe_up < 2);
        assert!(!cycle.is_time_to_probe(second(2), 100) && cycle.is_time_to_probe(second(3), 100));
        cycle.rounds_since_probe_up = 62;
        assert!(!cycle.is_time_to_probe(second(1), 100) && cycle.is_time_to_probe(second(1), 62));
        cycle.rounds_since_probe_up = 63;
        assert!(cycle.is_time_to_probe(second(1), 100));
    }
}
