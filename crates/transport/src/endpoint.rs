//! The boundary between a flow's side and whatever carries its packets: the simulator's loop knows
//! endpoints, not transports.

use cc::CongestionControl;
use units::{Direction, Ecn, SequenceNumbers, Span, Time};

use crate::calls::CallSide;
use crate::datagram::Datagram;
use crate::event::Event;
use crate::load::StreamReport;
use crate::{App, Counters, Notice, Order, quic, tcp};

/// Which side of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opens connections.
    Client,
    /// Accepts them.
    Server,
}

impl Side {
    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }

    /// The way of what it sends.
    pub fn sends(self) -> Direction {
        match self {
            Side::Client => Direction::Up,
            Side::Server => Direction::Down,
        }
    }
}

/// Who on one side wants to be woken: for a message about time that does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// A congestion controller.
    Controller,
    /// An application.
    Application,
    /// The transport itself.
    Transport,
}

/// Makes the application of connection number `n` of a flow.
pub type MakeApp = Box<dyn FnMut(u32) -> Box<dyn App> + Send>;
/// Makes the controller of a connection.
pub type MakeController = Box<dyn FnMut() -> Box<dyn CongestionControl> + Send>;

/// What an IP packet carries.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A UDP datagram of QUIC.
    Datagram(Datagram),
    /// A UDP datagram of anything else.
    Udp(Datagram),
    /// A TCP segment.
    Segment(tcp::Segment),
}

impl Payload {
    /// Its data in the stream of a TCP connection, by the numbers that its header has of it.
    pub fn sequence(&self) -> SequenceNumbers {
        match self {
            Payload::Datagram(_) | Payload::Udp(_) => SequenceNumbers::default(),
            Payload::Segment(segment) => SequenceNumbers {
                first: segment.sequence as u32,
                next: (segment.sequence + segment.data.len() as u64) as u32,
            },
        }
    }

    /// Bytes of the whole IP packet.
    pub fn wire_bytes(&self) -> u32 {
        match self {
            Payload::Datagram(datagram) | Payload::Udp(datagram) => {
                datagram.payload_bytes() as u32 + u32::from(datagram.header_bytes)
            }
            Payload::Segment(segment) => segment.wire_bytes(),
        }
    }

    /// ECN field of its IP header.
    pub fn ecn(&self) -> Ecn {
        match self {
            Payload::Datagram(datagram) | Payload::Udp(datagram) => datagram.ecn,
            Payload::Segment(segment) => segment.ecn,
        }
    }

    /// Sets the ECN field, which queues on the way may have marked.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        match self {
            Payload::Datagram(datagram) | Payload::Udp(datagram) => datagram.ecn = ecn,
            Payload::Segment(segment) => segment.ecn = ecn,
        }
    }
}

/// State of a sender at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes.
    pub ssthresh: Option<u64>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed RTT; none before the first sample.
    pub smoothed_rtt: Option<Span>,
    /// Latest RTT.
    pub latest_rtt: Option<Span>,
    /// Least RTT.
    pub min_rtt: Option<Span>,
    /// Rate of the pacer, bit/s; 0 when nothing paces.
    pub pacing_rate_bit_s: u64,
}

/// One side of a flow: its connections and their applications. Calls come in the order of time;
/// packets that leave are pushed to `out`.
pub trait Endpoint: Send {
    /// Opens a connection, with this application or one that the endpoint makes: a client's only.
    ///
    /// # Errors
    /// The stack's, in words.
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String>;
    /// A packet arrived.
    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>);
    /// Whether it keeps more than a processor's caches do, see [`crate::Node::is_crowd`].
    fn is_crowd(&self) -> bool {
        false
    }
    /// A packet will arrive after `others`, see [`crate::Node::expect`].
    fn expect(&self, _payload: &Payload, _others: usize) {}
    /// Does what is due at `now`.
    fn wake(&mut self, now: Time, out: &mut Vec<Payload>);
    /// Its host stops: all connections are gone at once, without a word to their peers. What was counted stays; what comes
    /// later belongs to no connection. Transports of hosts that may stop have it.
    fn stop(&mut self, _now: Time) {}
    /// Says something to the application of a connection, by its number, if it has not ended: [`Endpoint::wake`] is to
    /// follow.
    fn say(&mut self, _connection: u32, _order: Order) {}
    /// Appends what applications have said since the last call, and on which connection.
    fn take_said(&mut self, _into: &mut Vec<(u32, Notice)>) {}
    /// When [`Endpoint::wake`] is due; [`Time::MAX`]: never.
    fn wake_at(&mut self) -> Time;
    /// The same, with whose wish it is.
    fn asker(&mut self) -> (Time, Asker);
    /// Counters over all connections so far.
    fn counters(&self) -> Counters;
    /// State of the newest connection's sender.
    fn gauges(&self) -> Gauges;
    /// The newest connection's controller.
    fn controller(&self) -> Option<&dyn CongestionControl>;
    /// What happened since the last call.
    fn take_events(&mut self) -> Vec<Event>;
    /// Connections opened or accepted so far.
    fn opened(&self) -> u32;
    /// Connections that were closed by agreement.
    fn completed(&self) -> u32;
    /// When the first handshake was done on this side.
    fn connected_at(&self) -> Option<Time>;
    /// When the last connection to end was closed or lost.
    fn ended_at(&self) -> Option<Time>;
    /// Streams of every connection, ended or not, in order of (connection, stream).
    fn streams(&self) -> Vec<(u32, StreamReport)>;
    /// What it has said and heard, if it is a side of a call.
    fn call(&self) -> Option<CallSide> {
        None
    }
    /// The QUIC stack behind it, for qlog.
    fn quic(&self) -> Option<&quic::Endpoint> {
        None
    }
}
