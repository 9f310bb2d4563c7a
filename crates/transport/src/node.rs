//! The boundary between the loop and the senders and receivers of packets: hosts, browsers, splitting proxies.

use units::Time;

use crate::{Payload, TimerSource};

/// Sends and receives packets at its interfaces, and has deadlines. An interface is the near end of a path to another
/// node's interface. It serves any number of connections of any transport, which exchange data through the node.
///
/// Calls come in the order of time. Outgoing packets are pushed to `out`, which has one list per interface.
pub trait Node: Send {
    /// Handles a packet that arrived at `interface`.
    fn receive(&mut self, now: Time, interface: usize, payload: Payload, out: &mut [Vec<Payload>]);
    /// Does the work that is due at `now`.
    fn poll(&mut self, now: Time, out: &mut [Vec<Payload>]);
    /// Returns the time of the next [`Node::poll`], or [`Time::MAX`].
    fn poll_at(&mut self) -> Time;
    /// Returns the source of that deadline, and its interface.
    fn poll_source(&mut self) -> (TimerSource, usize) {
        (TimerSource::Application, 0)
    }
}
