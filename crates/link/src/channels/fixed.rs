//! White noise only: a constant state, equal for all users.

use units::Time;

use super::ChannelState;
use crate::Channel;

/// A constant channel.
#[derive(Clone, Copy, Debug)]
pub struct FixedChannel(ChannelState);

impl FixedChannel {
    /// A channel without noise, the default of a [`crate::Transmitter`].
    pub const PERFECT: FixedChannel = FixedChannel(ChannelState::PERFECT);

    /// Creates a channel with white noise at this Es/N0.
    pub fn new(snr_db: f64) -> FixedChannel {
        FixedChannel(ChannelState::from_db(snr_db))
    }
}

impl Channel for FixedChannel {
    fn at(&mut self, _user: u32, _at: Time) -> ChannelState {
        self.0
    }

    fn rates(&mut self, _at: Time, _users: &[u32], rates: &mut [f64]) {
        rates.fill(self.0.information);
    }
}
