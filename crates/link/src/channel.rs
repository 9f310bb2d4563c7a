//! The boundary of a radio channel.

use units::Time;

use crate::ChannelState;

/// A channel: a function of (seed, user, time) on a fixed time grid, independent of the traffic.
pub trait Channel: Send {
    /// Returns the channel of `user` at `at`, at most one second before the latest instant requested for that user.
    fn at(&mut self, user: u32, at: Time) -> ChannelState;

    /// Computes the mutual information per coded bit of each of `users` at `at`. A scheduler calls it frequently.
    fn rates(&mut self, at: Time, users: &[u32], rates: &mut [f64]) {
        for (user, rate) in users.iter().zip(rates) {
            *rate = self.at(*user, at).information;
        }
    }
}

impl<C: Channel + ?Sized> Channel for Box<C> {
    fn at(&mut self, user: u32, at: Time) -> ChannelState {
        (**self).at(user, at)
    }
    fn rates(&mut self, at: Time, users: &[u32], rates: &mut [f64]) {
        (**self).rates(at, users, rates);
    }
}
