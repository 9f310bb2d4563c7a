//! The state of a connection, for measurements.

use std::borrow::Cow;
use std::net::SocketAddr;

use transport::ConnectionKey;
use transport::perf_load::{ControllerResponse, StreamReport};
use transport::quic::{CloseReason, ClosedConnection, QuicConnection};
use units::Time;

use crate::SenderReport;

/// The state of a connection. That of kernel TCP is as old as the last query ([`super::Host::update_report`]).
pub struct ConnectionReport<'a> {
    /// The connection.
    pub key: ConnectionKey,
    /// `quic`, `tcp` or `tls`.
    pub transport: &'static str,
    /// The local address.
    pub local: SocketAddr,
    /// The peer address.
    pub remote: SocketAddr,
    /// The peer has completed the handshake of TCP.
    pub tcp_established: bool,
    /// The time when all handshakes were complete.
    pub connected_at: Option<Time>,
    /// The reason and the time of the close.
    pub closed: Option<(CloseReason, Time)>,
    /// The negotiated ALPN.
    pub alpn: Option<String>,
    /// The controller, if the transport reports it.
    pub controller: Option<Cow<'a, str>>,
    /// The peer's report of its controller.
    pub peer_controller: Option<Cow<'a, ControllerResponse>>,
    /// The largest UDP payload of QUIC, or the segment of TCP, in bytes.
    pub mss: u64,
    /// The sender statistics.
    pub sender: SenderReport,
    /// The kernel had data to send: the sender statistics change without work of the program.
    pub is_sending: bool,
    /// The streams.
    pub streams: Cow<'a, [StreamReport]>,
}

impl<'a> ConnectionReport<'a> {
    /// Creates the report of a QUIC connection.
    pub(super) fn from_quic(
        interface: usize,
        local: SocketAddr,
        connection: &'a QuicConnection,
    ) -> ConnectionReport<'a> {
        let alpn = connection.alpn();
        ConnectionReport {
            key: ConnectionKey { interface, connection: connection.number() },
            transport: "quic",
            local,
            remote: canonical_addr(connection.remote()),
            tcp_established: false,
            connected_at: connection.connected_at(),
            closed: None,
            alpn: alpn.map(|alpn| String::from_utf8_lossy(&alpn).into_owned()),
            controller: connection.controller_name().map(Cow::Borrowed),
            peer_controller: connection.app().peer_controller().map(Cow::Borrowed),
            mss: connection.mtu(),
            sender: SenderReport::from_quic(&connection.gauges(), &connection.counters()),
            is_sending: false,
            streams: Cow::Borrowed(connection.app().stream_reports()),
        }
    }

    /// Creates the report of a QUIC connection that has ended at `now`.
    pub(super) fn from_closed_quic(
        interface: usize,
        local: SocketAddr,
        now: Time,
        ended: ClosedConnection,
    ) -> ConnectionReport<'static> {
        ConnectionReport {
            key: ConnectionKey { interface, connection: ended.number },
            transport: "quic",
            local,
            remote: canonical_addr(ended.remote),
            tcp_established: false,
            connected_at: ended.connected_at,
            closed: Some((ended.reason, now)),
            alpn: None,
            controller: ended.controller.map(Cow::Owned),
            peer_controller: ended.peer_controller.map(Cow::Owned),
            mss: ended.mtu,
            sender: SenderReport::from_quic(&ended.gauges, &ended.counters),
            is_sending: false,
            streams: Cow::Owned(ended.streams),
        }
    }

    /// Copies the borrowed parts.
    pub(super) fn into_owned(self) -> ConnectionReport<'static> {
        let ConnectionReport { key, transport, local, remote, tcp_established, .. } = self;
        let ConnectionReport { connected_at, closed, alpn, mss, sender, is_sending, .. } = self;
        let controller = self.controller.map(|name| Cow::Owned(name.into_owned()));
        let peer_controller = self.peer_controller.map(|name| Cow::Owned(name.into_owned()));
        ConnectionReport {
            key,
            transport,
            local,
            remote,
            tcp_established,
            connected_at,
            closed,
            alpn,
            controller,
            peer_controller,
            mss,
            sender,
            is_sending,
            streams: Cow::Owned(self.streams.into_owned()),
        }
    }
}

/// Converts an IPv4-mapped address of a dual-stack socket to IPv4.
pub fn canonical_addr(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
