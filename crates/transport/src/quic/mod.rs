//! QUIC by quinn-proto, without I/O: `now` is an argument, datagrams are values, and this crate adds window and pacing.
//!
//! Reading order: `spec` (the options), `controller_shim` (replaces the stack's controller), `connection` (the calling
//! order), `streams` and `datagrams`, `endpoint`, `modelled_tls` and `real_tls` (cryptography).

mod capacity;
mod clock;
mod closing;
#[cfg(test)]
mod closing_tests;
mod config;
mod connect;
mod connection;
mod controller_shim;
mod datagram_sink;
mod datagrams;
mod draining;
mod endpoint;
#[cfg(test)]
mod endpoint_tests;
mod modelled_tls;
mod network_config;
mod parting;
mod real_tls;
mod requested_controller;
mod requirements;
mod session_priming;
mod spec;
mod streams;

pub use connect::InboundDatagram;
pub use connection::Connection;
pub use datagram_sink::{DatagramBatch, DatagramSink};
pub use endpoint::Endpoint;
pub(crate) use modelled_tls::TAG;
pub use network_config::{CloseReason, ClosedConnection, NetworkConfig, TlsConfig};
pub use requested_controller::RequestedControllerBuilder;
pub use requirements::QuicRequirements;
pub use session_priming::prime_session;
pub use spec::{Crypto, Handshake, QuicSpec};
