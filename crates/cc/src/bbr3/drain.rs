//! Drain (section 5.3.2): let the queue of Startup go.

use units::Time;

use super::{Bbr, State};
use crate::Ack;

/// The longest Drain, rounds.
const MAX_ROUNDS: u64 = 3;

impl Bbr {
    /// EnterDrain.
    pub(super) fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.drain_start_round = self.rounds.count;
    }

    /// CheckDrainDone.
    pub(super) fn check_drain_done(&mut self, now: Time, ack: &Ack) {
        if self.state != State::Drain {
            return;
        }
        let drained = ack.in_flight <= self.inflight(1.0);
        if drained || self.rounds.count > self.drain_start_round + MAX_ROUNDS {
            // EnterProbeBW.
            self.start_probe_bw_down(now);
        }
    }
}
