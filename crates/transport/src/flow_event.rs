//! Events of the connections of a flow.

use units::Time;

/// An event of a connection, for the event table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowEvent {
    /// Time of the event.
    pub time: Time,
    /// Connection of the flow, from 0.
    pub connection: u32,
    /// Kind of the event.
    pub kind: FlowEventKind,
    /// Value of the event: bytes lost, stream id, error code.
    pub value: f64,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEventKind {
    /// The client opened a connection.
    Start,
    /// Call admission refused a start.
    Refused,
    /// The handshake is done on this side.
    Connected,
    /// The controller got a congestion signal.
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

impl FlowEventKind {
    /// Returns the name used in results.
    pub fn name(self) -> &'static str {
        match self {
            FlowEventKind::Start => "start",
            FlowEventKind::Refused => "refused",
            FlowEventKind::Connected => "connected",
            FlowEventKind::Congestion => "congestion",
            FlowEventKind::PersistentCongestion => "persistent_congestion",
            FlowEventKind::Pto => "pto",
            FlowEventKind::Timeout => "timeout",
            FlowEventKind::Closed => "closed",
            FlowEventKind::Lost => "lost",
        }
    }
}
