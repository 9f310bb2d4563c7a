//! White noise alone: every user has the same quality for ever.

use units::Time;

use super::Quality;
use crate::Channel;

/// A channel that never changes.
#[derive(Clone, Copy, Debug)]
pub struct FixedChannel(Quality);

impl FixedChannel {
    /// No noise at all, the default of a [`crate::Transmitter`].
    pub const PERFECT: FixedChannel = FixedChannel(Quality::PERFECT);

    /// White noise at this Es/N0.
    pub fn new(snr_db: f64) -> FixedChannel {
        FixedChannel(Quality::of_db(snr_db))
    }
}

impl Channel for FixedChannel {
    fn at(&mut self, _user: u32, _at: Time) -> Quality {
        self.0
    }

    fn rates(&mut self, _at: Time, _users: &[u32], rates: &mut [f64]) {
        rates.fill(self.0.information);
    }
}
