//! The decision of an algorithm that ends slow start.

use crate::AckEvent;

/// The decision on one ACK in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowStartDecision {
    /// The window grows by the acknowledged bytes divided by this number.
    pub divisor: u64,
    /// The upper limit in bytes of the acknowledged data that counts.
    pub limit: u64,
    /// Whether slow start ends. The threshold becomes the current window.
    pub is_finished: bool,
}

impl SlowStartDecision {
    /// Returns the growth of the window in bytes for `ack`.
    pub fn growth(&self, ack: &AckEvent) -> u64 {
        ack.credited_in_slow_start().min(self.limit) / self.divisor
    }

    /// Continues slow start without limits.
    pub(super) const CONTINUE: SlowStartDecision =
        SlowStartDecision { divisor: 1, limit: u64::MAX, is_finished: false };
}
