//! An endpoint among strangers: real keys, a real clock, certificates from outside, and limits.

use std::net::SocketAddr;
use std::sync::Arc;

use units::Time;

use crate::load::{Answer, StreamReport};
use crate::{Counters, Gauges};

/// What an endpoint on a real network needs beyond [`super::QuicSpec`]. Keys of resets and tokens and
/// connection ids are then random and secret, and dates come from the system's clock.
#[derive(Clone)]
pub struct Live {
    /// TLS of its side or sides, with certificates and ALPN.
    pub tls: LiveTls,
    /// Connections a server has accepted at once; more are refused.
    pub connections: usize,
    /// Handshakes a server has under way before it asks further clients to prove their address
    /// (Retry, RFC 9000 section 8.1.2).
    pub handshakes: usize,
}

/// TLS of those who may begin a connection: of who dials, of who answers.
#[derive(Clone)]
pub enum LiveTls {
    /// A client's.
    Client(Arc<rustls::ClientConfig>),
    /// A server's.
    Server(Arc<rustls::ServerConfig>),
    /// Of one who does both, from one address.
    Both(Arc<rustls::ClientConfig>, Arc<rustls::ServerConfig>),
}

/// A connection that is gone.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its number, from 0.
    pub index: u32,
    /// The peer.
    pub remote: SocketAddr,
    /// Why it ended.
    pub end: End,
    /// Largest UDP payload at the end, bytes.
    pub mtu: u64,
    /// When its handshake was done; none: never.
    pub connected_at: Option<Time>,
    /// What it counted.
    pub counters: Counters,
    /// State of its sender at the end.
    pub gauges: Gauges,
    /// Its streams.
    pub streams: Vec<StreamReport>,
    /// The name of its controller, where its client has a say in it.
    pub controller: Option<String>,
    /// What the peer said of its own.
    pub told: Option<Answer>,
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// This side closed it.
    Here,
    /// The peer closed it with error code 0.
    There,
    /// Something else, in words.
    Lost(String),
}
