//! Startup (section 5.3.1): doubles the delivery rate each round until it stops growing or the loss is too high.

use super::{Bbr3, BbrState};
use crate::RateSample;

/// BBR.StartupFullLossCnt: loss events per round.
const STARTUP_FULL_LOSS_CNT: u32 = 6;

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
