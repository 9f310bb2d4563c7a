//! Drain (section 5.3.2): drains the queue of Startup.

use units::Time;

use super::{Bbr3, BbrState};
use crate::AckEvent;

/// The maximum length of Drain in rounds.
const MAX_DRAIN_ROUNDS: u64 = 3;

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
