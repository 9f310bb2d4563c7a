//! What happens to a connection, for the event table.

use units::Time;

/// Something that happened, for the event table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub time: Time,
    /// Which connection of the flow, from 0.
    pub connection: u32,
    /// What.
    pub kind: EventKind,
    /// A number that goes with it: bytes lost, stream id, error code.
    pub value: f64,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The client began a connection.
    Start,
    /// Call admission refused to begin.
    Refused,
    /// The handshake is done on this side.
    Connected,
    /// The controller was told of congestion.
    Congestion,
    /// Persistent congestion was declared.
    PersistentCongestion,
    /// Probe packets were sent.
    Pto,
    /// TCP's retransmission timer expired.
    Timeout,
    /// The connection ended, by agreement.
    Closed,
    /// The connection was lost: idle timeout, reset, protocol error.
    Lost,
}

impl EventKind {
    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Start => "start",
            EventKind::Refused => "refused",
            EventKind::Connected => "connected",
            EventKind::Congestion => "congestion",
            EventKind::PersistentCongestion => "persistent_congestion",
            EventKind::Pto => "pto",
            EventKind::Timeout => "timeout",
            EventKind::Closed => "closed",
            EventKind::Lost => "lost",
        }
    }
}
