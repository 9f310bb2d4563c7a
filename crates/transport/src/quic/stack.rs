//! The boundary between the driver and a QUIC stack without I/O.
//!
//! A stack has the protocol: handshake, packets, streams, loss detection. The driver has window, pacing, applications
//! and counters. The stack's congestion controller is an adaptor of the driver's [`ControllerShim`]. The driver is
//! compiled for each stack, so no call is dynamic.

use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use units::{Ecn, Span, Time};

use super::controller_shim::ControllerShim;
use super::{Crypto, NetworkConfig, QuicRequirements, QuicSpec};
use crate::{PeerStreams, ReadStatus, Side};

/// Length of local connection ids, bytes: the value of most servers.
pub(super) const CID_LENGTH: usize = 8;

/// Input of a connection from its stack.
pub type ConnectionInput<S> = <<S as Stack>::Connection as StackConnection>::Input;
/// Output of a connection to its stack.
pub type ConnectionOutput<S> = <<S as Stack>::Connection as StackConnection>::Output;

/// An endpoint of a stack. The stack names connections by handles, small numbers that it uses again.
pub trait Stack: Sized + Send {
    /// A connection.
    type Connection: StackConnection;
    /// Options of a connection in the stack's terms.
    type ConnectionConfig;
    /// A connection that a client requests, before it is accepted.
    type Incoming;

    /// Number of the newest packet numbers that the stack remembers as received. It ignores older packets, which may be
    /// duplicates.
    const DEDUP_WINDOW: u64;

    /// Creates an endpoint of the simulation named `name`, which keys its random streams.
    ///
    /// # Errors
    /// The error of `spec`, in words.
    fn simulated(side: Side, spec: &QuicSpec, seed: u64, name: &str) -> Result<Self, String>;
    /// Creates an endpoint on a real network.
    ///
    /// # Errors
    /// The error of TLS, in words.
    fn with_network(network: &NetworkConfig) -> Result<Self, String>;
    /// Returns the smallest useful limit of open bidirectional streams, for a peer that opens one.
    fn few_bidi_streams(crypto: Crypto) -> u32;
    /// Returns whether `datagram` is a stateless reset (RFC 9000 section 10.3) of a simulated peer with this connection
    /// id.
    fn is_stateless_reset(connection_id: &[u8], datagram: &[u8]) -> bool;
    /// Translates the options of a connection.
    ///
    /// # Errors
    /// The option out of range, in words.
    fn connection_config(
        &self,
        config: ConnectionConfig<'_>,
    ) -> Result<Self::ConnectionConfig, String>;

    /// Opens a connection to `remote`; TLS uses `name`. Returns its handle too.
    ///
    /// # Errors
    /// The error of the stack, in words.
    fn connect(
        &mut self,
        now: Time,
        config: Self::ConnectionConfig,
        remote: SocketAddr,
        name: &str,
    ) -> Result<(usize, Self::Connection), String>;
    /// Handles a datagram. `deliver` gets the input of an existing connection with its handle, and `response` a
    /// response without a connection.
    fn receive(
        &mut self,
        now: Time,
        datagram: InboundDatagram,
        response: &mut Vec<u8>,
        deliver: impl FnOnce(usize, ConnectionInput<Self>),
    ) -> Reception<Self::Incoming>;
    /// Returns whether the address of the client is validated (RFC 9000 section 8.1).
    fn is_validated(incoming: &Self::Incoming) -> bool;
    /// Accepts a connection. Returns its handle too.
    ///
    /// # Errors
    /// The packet of the client is invalid.
    fn accept(
        &mut self,
        now: Time,
        incoming: Self::Incoming,
        config: Self::ConnectionConfig,
        response: &mut Vec<u8>,
    ) -> Result<(usize, Self::Connection), AcceptError>;
    /// Requests address validation, or ignores a client that cannot receive a second request.
    fn retry(&mut self, incoming: Self::Incoming, response: &mut Vec<u8>) -> Option<StackTransmit>;
    /// Refuses a connection.
    fn refuse(&mut self, incoming: Self::Incoming, response: &mut Vec<u8>) -> StackTransmit;
    /// Ignores a connection request. The client sends it again.
    fn ignore(&mut self, incoming: Self::Incoming);
    /// Handles the output of a connection. Returns its next input, if any.
    fn handle_output(
        &mut self,
        handle: usize,
        output: ConnectionOutput<Self>,
    ) -> Option<ConnectionInput<Self>>;
    /// Forgets a connection that was discarded.
    fn forget(&mut self, handle: usize);
}

/// A connection of a stack.
pub trait StackConnection: StackStreams + Send {
    /// Input from the endpoint.
    type Input;
    /// Output to the endpoint.
    type Output;

    /// Returns the address of the peer.
    fn remote(&self) -> SocketAddr;
    /// Returns the smoothed RTT.
    fn rtt(&self) -> Span;
    /// Returns the minimum RTT.
    fn min_rtt(&self) -> Span;
    /// Returns the maximum UDP payload, bytes.
    fn mtu(&self) -> u64;
    /// Returns the negotiated ALPN, with TLS by rustls.
    fn alpn(&self) -> Option<Vec<u8>>;
    /// Returns whether the handshake is incomplete.
    fn is_handshaking(&self) -> bool;
    /// Returns whether early data is possible.
    fn has_early_data(&self) -> bool;
    /// Returns whether the connection is closing, draining or drained.
    fn is_closed(&self) -> bool;
    /// Returns whether the connection has drained.
    fn is_drained(&self) -> bool;
    /// Returns the counts of the connection so far.
    fn report(&self) -> StackReport;
    /// Returns the number of ack-eliciting frames sent: all kinds but ACK, PADDING and CONNECTION_CLOSE (RFC 9002
    /// section 2).
    fn ack_eliciting_frames(&self) -> u64;

    /// Returns the earliest deadline of the stack.
    fn timer_at(&mut self) -> Option<Time>;
    /// Runs the timers that are due.
    fn handle_timeout(&mut self, now: Time);
    /// Handles the input from the endpoint.
    fn handle_input(&mut self, input: Self::Input);
    /// Returns the next event.
    fn poll_event(&mut self) -> Option<StackEvent>;
    /// Returns the next output to the endpoint.
    fn poll_output(&mut self) -> Option<Self::Output>;
    /// Writes up to `max_packets` packets into the empty `buffer`.
    fn poll_transmit(
        &mut self,
        now: Time,
        max_packets: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<StackTransmit>;
    /// Sends a PING.
    fn ping(&mut self);
    /// Closes the connection at once, with an application error code and a reason.
    fn close(&mut self, now: Time, code: u64, reason: Bytes);
}

/// Streams and datagrams of a connection. A stream has the id of RFC 9000 section 2.1.
pub trait StackStreams {
    /// Opens a stream. Returns `None` if the peer allows no more.
    fn open(&mut self, direction: StreamDirection) -> Option<u64>;
    /// Returns the next stream that the peer has opened.
    fn accept(&mut self, direction: StreamDirection) -> Option<u64>;
    /// Returns the streams of the peer.
    fn peer_streams(&mut self, direction: StreamDirection) -> PeerStreams;
    /// Sets the number of streams that the peer may have open at once.
    fn set_max_peer_streams(&mut self, direction: StreamDirection, max: u32);
    /// Returns whether a stream has data that the peer has not acknowledged.
    fn has_send_streams(&mut self) -> bool;
    /// Sets the priority of a stream. Returns whether the stream exists.
    fn set_priority(&mut self, stream: u64, priority: i32) -> bool;
    /// Writes as much of `data` as fits. Returns the number of bytes.
    fn write(&mut self, stream: u64, data: Bytes) -> usize;
    /// Reads everything that has arrived, in any order, with offsets.
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus;
    /// Ends a stream after its data.
    fn finish(&mut self, stream: u64);
    /// Resets the sending side of a stream.
    fn reset(&mut self, stream: u64, code: u64);
    /// Requests that the peer stops sending on a stream.
    fn stop(&mut self, stream: u64, code: u64);
    /// Returns the code with which the peer stopped a stream.
    fn peer_stop_code(&mut self, stream: u64) -> Option<u64>;
    /// Takes a received datagram.
    fn take_datagram(&mut self) -> Option<Bytes>;
    /// Returns the size of the largest datagram that the connection can send.
    fn max_datagram_bytes(&mut self) -> Option<usize>;
    /// Returns the free bytes of the queue of datagrams.
    fn datagram_space(&mut self) -> usize;
    /// Queues a datagram.
    ///
    /// # Errors
    /// The datagram was not queued.
    fn send_datagram(&mut self, data: Bytes) -> Result<(), DatagramRejection>;
}

/// Direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamDirection {
    /// Bidirectional.
    Bi,
    /// Unidirectional.
    Uni,
}

/// Options of a connection.
pub struct ConnectionConfig<'a> {
    /// Options of the flow.
    pub spec: &'a QuicSpec,
    /// Bidirectional streams that the peer may have open at once.
    pub max_bidi_streams: u32,
    /// Requirements of the application.
    pub requirements: QuicRequirements,
    /// Replaces the stack's congestion controller.
    pub shim: ControllerShim,
    /// The connection uses a real network.
    pub has_network: bool,
}

/// A datagram from the network.
pub struct InboundDatagram {
    /// The peer.
    pub remote: SocketAddr,
    /// The local address to which it was sent, if known.
    pub local: Option<IpAddr>,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// UDP payload.
    pub data: BytesMut,
}

/// Result of a received datagram.
pub enum Reception<I> {
    /// It belongs to an existing connection, which has its input.
    Delivered,
    /// A client requests a connection.
    New(I),
    /// The endpoint responds.
    Response(StackTransmit),
    /// It needs no response.
    Ignored,
}

/// The packet of a client is invalid.
pub struct AcceptError {
    /// The reason, in words.
    pub message: String,
    /// The response, if the protocol requires one.
    pub response: Option<StackTransmit>,
}

/// Packets of a stack to one peer, in a buffer of the caller.
#[derive(Clone, Copy, Debug)]
pub struct StackTransmit {
    /// The peer.
    pub destination: SocketAddr,
    /// The local address to which the peer sends, if known.
    pub src_ip: Option<IpAddr>,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Bytes of all packets.
    pub size: usize,
    /// Bytes of each packet but the last; `None`: there is one packet.
    pub segment_size: Option<usize>,
}

/// An event of a connection.
pub enum StackEvent {
    /// The handshake is complete on this side.
    Connected,
    /// The connection has ended.
    Ended(ConnectionEnd),
    /// The peer has opened streams.
    StreamsOpened(StreamDirection),
    /// The peer allows more streams.
    StreamsAvailable,
    /// A stream has data, or has ended.
    Readable(u64),
    /// The peer has acknowledged everything on a finished stream.
    Finished(u64),
    /// The peer requests that this side stops sending on a stream.
    Stopped(u64),
    /// Datagrams have arrived.
    DatagramsReceived,
}

/// Cause of the end of a connection.
pub enum ConnectionEnd {
    /// This side closed it.
    Local,
    /// The application of the peer closed it with a code; the reason in words.
    PeerApplication(u64, String),
    /// The transport of the peer closed it; the reason in words.
    PeerTransport(String),
    /// Any other cause, in words.
    Lost(String),
}

/// A datagram that was not queued.
pub enum DatagramRejection {
    /// The queue is full.
    Full(Bytes),
    /// The connection cannot send it.
    Unsendable,
}

/// Counts of a connection so far. `None`: the stack does not report the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackReport {
    /// UDP payload received, bytes.
    pub received_bytes: u64,
    /// Whether the peer has closed the connection.
    pub is_peer_closed: bool,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Bytes of those packets, without IP and UDP headers.
    pub lost_bytes: u64,
    /// Retransmitted stream bytes.
    pub retransmitted_bytes: Option<u64>,
}
