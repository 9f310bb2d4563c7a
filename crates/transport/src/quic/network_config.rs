//! Configuration on real networks: real keys, a real clock, external certificates, and limits.

use std::net::SocketAddr;
use std::sync::Arc;

use units::Time;

use crate::perf_load::{ControllerResponse, StreamReport};
use crate::{FlowCounters, SenderGauges};

/// Configuration of an endpoint on a real network beyond [`super::QuicSpec`]. Keys of resets and tokens and connection
/// ids are then random and secret. Dates come from the system's clock.
#[derive(Clone)]
pub struct NetworkConfig {
    /// TLS of its sides, with certificates and ALPN.
    pub tls: TlsConfig,
    /// Maximum number of accepted connections of a server; it refuses more.
    pub max_connections: usize,
    /// Pending handshakes above which a server requests address validation of further clients (Retry, RFC 9000 section
    /// 8.1.2).
    pub handshakes_before_retry: usize,
}

/// TLS of the sides that open or accept connections.
#[derive(Clone)]
pub enum TlsConfig {
    /// Client only.
    Client(Arc<rustls::ClientConfig>),
    /// Server only.
    Server(Arc<rustls::ServerConfig>),
    /// Client and server at one address.
    ClientAndServer(Arc<rustls::ClientConfig>, Arc<rustls::ServerConfig>),
}

/// A connection that has ended.
#[derive(Clone, Debug)]
pub struct ClosedConnection {
    /// Its number, from 0.
    pub number: u32,
    /// The peer.
    pub remote: SocketAddr,
    /// Reason of the end.
    pub reason: CloseReason,
    /// Largest UDP payload at the end, bytes.
    pub mtu: u64,
    /// Time of the completed handshake; `None`: never.
    pub connected_at: Option<Time>,
    /// Its counters.
    pub counters: FlowCounters,
    /// State of its sender at the end.
    pub gauges: SenderGauges,
    /// Its streams.
    pub streams: Vec<StreamReport>,
    /// Name of its controller, if the client can request one.
    pub controller: Option<String>,
    /// The peer's report of its controller.
    pub peer_controller: Option<ControllerResponse>,
}

/// Reason for the end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// This side closed it.
    Local,
    /// The peer closed it with error code 0.
    Peer,
    /// Any other reason, in words.
    Lost(String),
}
