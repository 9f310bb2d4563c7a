//! HTTP over an ordered byte stream: what TLS carries.

use units::Time;

use crate::{Notice, Order};

/// One side of HTTP on one connection.
pub(super) trait Speaker: Send {
    /// Data may be sent from now on.
    fn start(&mut self, now: Time);
    /// What the browser wants: of its own side only.
    fn hear(&mut self, _order: Order) {}
    /// Bytes of the peer, in order; what there is to tell the browser of them is appended to `said`.
    fn receive(&mut self, now: Time, bytes: &[u8], said: &mut Vec<Notice>);
    /// Appends what is to be sent: control data and heads always, bodies until `out` holds `most`
    /// bytes.
    fn send(&mut self, now: Time, most: usize, out: &mut Vec<u8>, said: &mut Vec<Notice>);
    /// Whether there is something to send.
    fn has_data(&self) -> bool;
    /// When there will be something to send without the peer's doing.
    fn wake_at(&self) -> Time;
}
