//! Recovery (section 5.6.4.4): it lasts until a packet that was sent after its last loss is
//! acknowledged, and after a timeout until all losses are repaired.

use crate::Ack;

/// InLossRecovery.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    /// Delivered when this recovery began.
    pub began: Option<u64>,
    /// Delivered when its last loss was found.
    last_loss: u64,
    /// This ACK found a recovery that has lasted for a packet-timed round trip.
    pub lasted_a_round: bool,
}

/// What an ACK does to recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Begins,
    Ends,
}

impl Recovery {
    /// Whether it is under way.
    pub fn is_on(&self) -> bool {
        self.began.is_some()
    }

    /// A recovery begins, or begins anew.
    pub fn begin(&mut self, delivered: u64) {
        self.began = Some(delivered);
        self.last_loss = delivered;
    }

    /// It is over, or was spurious.
    pub fn end(&mut self) {
        self.began = None;
    }

    /// What `ack` asks for; [`Recovery::begin`] is the caller's.
    pub fn on_ack(&mut self, ack: &Ack) -> Option<Turn> {
        let sent_after = |delivered| ack.sample.is_some_and(|s| s.prior_delivered >= delivered);
        self.lasted_a_round = self.began.is_some_and(sent_after);
        if ack.lost > 0 || ack.congestion {
            self.last_loss = ack.delivered;
            return (!self.is_on()).then_some(Turn::Begins);
        }
        let ends = self.is_on() && !ack.is_in_rto_recovery && sent_after(self.last_loss);
        if ends {
            self.end();
        }
        ends.then_some(Turn::Ends)
    }
}
