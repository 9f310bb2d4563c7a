//! HTTP over an ordered byte stream, as TLS carries it.

use units::Time;

use crate::{AppCommand, AppNotification};

/// One side of HTTP on one connection.
pub(crate) trait HttpConnection: Send {
    /// Starts: data may be sent from now on.
    fn start(&mut self, now: Time);
    /// Handles a command of the browser; only on its side.
    fn on_command(&mut self, _command: AppCommand) {}
    /// Handles bytes of the peer, in order. Appends notifications for the browser to `notifications`.
    fn receive(&mut self, now: Time, bytes: &[u8], notifications: &mut Vec<AppNotification>);
    /// Appends data to send: control data and headers always, bodies until `out` holds `max_bytes`.
    fn send(
        &mut self,
        now: Time,
        max_bytes: usize,
        out: &mut Vec<u8>,
        notifications: &mut Vec<AppNotification>,
    );
    /// Returns whether there is data to send.
    fn has_data(&self) -> bool;
    /// Returns the time at which there will be data to send without input of the peer.
    fn poll_at(&self) -> Time;
}
