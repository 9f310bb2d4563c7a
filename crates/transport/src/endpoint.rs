//! The boundary between a side of a flow and the carrier of its packets. The simulation loop uses endpoints, not
//! transports.

use cc::CongestionControl;
use units::{Direction, Ecn, SequenceNumbers, Time};

use crate::datagram::Datagram;
use crate::media::MediaReport;
use crate::perf_load::StreamReport;
use crate::{
    App, AppCommand, AppNotification, FlowCounters, FlowEvent, SenderGauges, quic::QuicEndpoint,
    tcp,
};

/// A side of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opens connections.
    Client,
    /// Accepts connections.
    Server,
}

impl Side {
    /// Returns the name used in results.
    pub fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }

    /// Returns the direction in which the side sends.
    pub fn send_direction(self) -> Direction {
        match self {
            Side::Client => Direction::Up,
            Side::Server => Direction::Down,
        }
    }
}

/// The source of the next deadline. Error messages name it when virtual time does not advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerSource {
    /// A congestion controller.
    Controller,
    /// An application.
    Application,
    /// The transport itself.
    Transport,
}

/// Builds the application of connection number `n` of a flow.
pub type AppBuilder = Box<dyn FnMut(u32) -> Box<dyn App> + Send>;
/// Builds the controller of a connection.
pub type ControllerBuilder = Box<dyn FnMut() -> Box<dyn CongestionControl> + Send>;

/// The payload of an IP packet.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A UDP datagram of QUIC.
    Datagram(Datagram),
    /// Any other UDP datagram.
    Udp(Datagram),
    /// A TCP segment.
    Segment(tcp::Segment),
}

impl Payload {
    /// Returns the sequence numbers of its data in the stream of a TCP connection, as in its header.
    pub fn sequence_numbers(&self) -> SequenceNumbers {
        match self {
            Payload::Datagram(_) | Payload::Udp(_) => SequenceNumbers::default(),
            Payload::Segment(segment) => SequenceNumbers {
                first: segment.sequence as u32,
                next: (segment.sequence + segment.data.len() as u64) as u32,
            },
        }
    }

    /// Returns the bytes of the whole IP packet.
    pub fn wire_bytes(&self) -> u32 {
        match self {
            Payload::Datagram(datagram) | Payload::Udp(datagram) => {
                datagram.payload_bytes() as u32 + u32::from(datagram.header_bytes)
            }
            Payload::Segment(segment) => segment.wire_bytes(),
        }
    }

    /// Returns the ECN field of the IP header.
    pub fn ecn(&self) -> Ecn {
        match self {
            Payload::Datagram(datagram) | Payload::Udp(datagram) => datagram.ecn,
            Payload::Segment(segment) => segment.ecn,
        }
    }

    /// Sets the ECN field, which queues on the path may have marked.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        match self {
            Payload::Datagram(datagram) | Payload::Udp(datagram) => datagram.ecn = ecn,
            Payload::Segment(segment) => segment.ecn = ecn,
        }
    }
}

/// One side of a flow: its connections and their applications. Calls come in the order of time. Outgoing packets are
/// pushed to `out`.
pub trait Endpoint: Send {
    /// Opens a connection with `app`, or with an application that the endpoint builds. Only clients do this.
    ///
    /// # Errors
    /// The error of the stack, in words.
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String>;
    /// Handles a packet that has arrived.
    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>);
    /// Does the work that is due at `now`.
    fn poll(&mut self, now: Time, out: &mut Vec<Payload>);
    /// Stops the host: all connections vanish without a packet to their peers. Counters stay, and later packets belong
    /// to no connection. Transports of hosts that can crash implement it.
    fn crash(&mut self, _now: Time) {}
    /// Sends a command to the application of a connection, by its number, if it has not ended. A call of
    /// [`Endpoint::poll`] must follow.
    fn send_command(&mut self, _connection: u32, _command: AppCommand) {}
    /// Appends the notifications of applications since the last call, with their connections.
    fn take_notifications(&mut self, _into: &mut Vec<(u32, AppNotification)>) {}
    /// Returns the time of the next [`Endpoint::poll`], or [`Time::MAX`].
    fn poll_at(&mut self) -> Time;
    /// Returns the next deadline and its source.
    fn poll_source(&mut self) -> (Time, TimerSource);
    /// Returns the counters over all connections so far.
    fn counters(&self) -> FlowCounters;
    /// Returns the state of the newest connection's sender.
    fn gauges(&self) -> SenderGauges;
    /// Returns the newest connection's controller.
    fn controller(&self) -> Option<&dyn CongestionControl>;
    /// Takes the events since the last call.
    fn take_events(&mut self) -> Vec<FlowEvent>;
    /// Returns the number of connections opened or accepted so far.
    fn opened(&self) -> u32;
    /// Returns the number of connections that were closed by agreement.
    fn completed(&self) -> u32;
    /// Returns the time of the first completed handshake on this side.
    fn connected_at(&self) -> Option<Time>;
    /// Returns the time at which the last connection to end was closed or lost.
    fn ended_at(&self) -> Option<Time>;
    /// Returns the streams of all connections, live or ended, in order of (connection, stream).
    fn stream_reports(&self) -> Vec<(u32, StreamReport)>;
    /// Returns the media statistics, if it is a side of a call.
    fn media_report(&self) -> Option<MediaReport> {
        None
    }
    /// Returns the QUIC stack, for qlog.
    fn quic(&self) -> Option<&QuicEndpoint> {
        None
    }
}
