//! Startup (section 5.3.1): double the delivery rate each round until it stops growing, or until
//! the path loses too much.

use super::{Bbr, State};
use crate::RateSample;

/// BBR.StartupFullLossCnt: loss events in one round.
const STARTUP_FULL_LOSS_CNT: u32 = 6;
/// The pipe is full when bandwidth has grown by less than a quarter in three rounds.
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;

impl Bbr {
    /// EnterStartup.
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    /// ResetFullBW.
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// CheckFullBWReached, section 5.3.1.2.
    pub(super) fn check_full_bw_reached(&mut self, sample: &RateSample) {
        if self.full_bw_now || !self.round_start || sample.app_limited {
            return;
        }
        if sample.rate.0 as f64 >= self.full_bw as f64 * FULL_BW_GROWTH {
            self.reset_full_bw();
            self.full_bw = sample.rate.0;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= FULL_BW_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// CheckStartupHighLoss, section 5.3.1.3: a full round in fast recovery, in which more than
    /// LossThresh was lost, in at least StartupFullLossCnt places. A loss round ends here; the first
    /// of its losses began it.
    fn check_startup_high_loss(&mut self, sample: &RateSample) {
        if !self.loss_round_start {
            return;
        }
        let events = std::mem::take(&mut self.loss_events_in_round);
        if self.state == State::Startup
            && self.recovered_for_a_round
            && events >= STARTUP_FULL_LOSS_CNT
            && self.is_inflight_too_high(sample.lost, sample.tx_in_flight)
        {
            self.leaves_upon_loss(State::Startup);
            self.full_bw_now = true; // appendix A.2
            self.full_bw_reached = true;
            self.inflight_longterm = Some(self.bdp_multiple(1.0).max(self.inflight_latest));
        }
    }

    /// CheckStartupDone.
    pub(super) fn check_startup_done(&mut self, sample: &RateSample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.full_bw_reached {
            self.enter_drain();
        }
    }
}
