//! Recovery (section 5.6.4.4): it lasts until a packet that was sent after its last loss is
//! acknowledged, and after a timeout until all losses are repaired.

use crate::AckEvent;

/// InLossRecovery.
#[derive(Clone, Debug, Default)]
pub(super) struct RecoveryState {
    /// Delivered when this recovery began.
    pub start_delivered: Option<u64>,
    /// Delivered when its last loss was found.
    last_loss_delivered: u64,
    /// This ACK found a recovery that has lasted for a packet-timed round trip.
    pub has_lasted_a_round: bool,
}

/// What an ACK does to recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveryTransition {
    Enter,
    Exit,
}

impl RecoveryState {
    /// Whether it is under way.
    pub fn is_active(&self) -> bool {
        self.start_delivered.is_some()
    }

    /// A recovery begins, or begins anew.
    pub fn begin(&mut self, delivered: u64) {
        self.start_delivered = Some(delivered);
        self.last_loss_delivered = delivered;
    }

    /// It is over, or was spurious.
    pub fn end(&mut self) {
        self.start_delivered = None;
    }

    /// What `ack` asks for; [`Recovery::begin`] is the caller's.
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
