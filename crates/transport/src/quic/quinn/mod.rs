//! QUIC by quinn-proto. No other folder of this crate names the stack.
//!
//! Reading order: `config` (translation of the options), `controller_shim` (replaces the stack's controller),
//! `connection` (the calling order), `streams` and `datagrams`, `endpoint`, `modelled_tls` and `real_tls`
//! (cryptography), `session_priming` (0-RTT).

#[cfg(test)]
mod closing_tests;
mod config;
mod connection;
mod controller_shim;
mod datagrams;
mod endpoint;
#[cfg(test)]
mod endpoint_tests;
mod modelled_tls;
mod real_tls;
mod session_priming;
mod streams;

pub use connection::Connection;
pub(super) use endpoint::connection_number;
pub use endpoint::{Endpoint, InboundDatagram};
pub(crate) use modelled_tls::TAG;
pub use session_priming::prime_session;

use super::{
    CloseReason, ClosedConnection, Crypto, DatagramBatch, DatagramSink, Handshake, NetworkConfig,
    QuicRequirements, QuicSpec, TlsConfig,
};
use super::{clock, datagram_sink, requested_controller};
