//! Recovery (section 5.6.4.4). It lasts until a packet sent after its last loss is acknowledged, and after a timeout
//! until all losses are repaired.

use crate::AckEvent;

/// The recovery state: InLossRecovery.
#[derive(Clone, Debug, Default)]
pub(super) struct RecoveryState {
    /// Bytes delivered at the start of this recovery.
    pub start_delivered: Option<u64>,
    /// Bytes delivered when its last loss was detected.
    last_loss_delivered: u64,
    /// Whether the recovery had lasted a packet-timed round trip at this ACK.
    pub has_lasted_a_round: bool,
}

/// The transition of the recovery state at an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveryTransition {
    Enter,
    Exit,
}

impl RecoveryState {
    /// Returns whether a recovery is active.
    pub fn is_active(&self) -> bool {
        self.start_delivered.is_some()
    }

    /// Starts or restarts a recovery.
    pub fn begin(&mut self, delivered: u64) {
        self.start_delivered = Some(delivered);
        self.last_loss_delivered = delivered;
    }

    /// Ends a recovery that is complete or spurious.
    pub fn end(&mut self) {
        self.start_delivered = None;
    }

    /// Processes `ack` and returns the transition. The caller must call [`RecoveryState::begin`].
    pub fn on_ack(&mut self, ack: &AckEvent) -> Option<RecoveryTransition> {
        let sent_after =
            |delivered| ack.rate_sample.is_some_and(|s| s.prior_delivered >= delivered);
        self.has_lasted_a_round = self.start_delivered.is_some_and(sent_after);
        if ack.lost > 0 || ack.is_congestion_event {
            self.last_loss_delivered = ack.delivered;
            return (!self.is_active()).then_some(RecoveryTransition::Enter);
        }
        let ends =
            self.is_active() && !ack.is_in_rto_recovery && sent_after(self.last_loss_delivered);
        if ends {
            self.end();
        }
        ends.then_some(RecoveryTransition::Exit)
    }
}
