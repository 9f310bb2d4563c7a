//! QUIC by quinn-proto, without I/O: `now` is an argument, datagrams are values, and this crate adds window and pacing.
//!
//! Reading order: `spec` (the options), `requirements`, `network_config` (a real network), `requested_controller`,
//! `datagram_sink`, `clock`; then `quinn`, which has the stack.

mod clock;
mod datagram_sink;
mod network_config;
mod quinn;
mod requested_controller;
mod requirements;
mod spec;

pub use datagram_sink::{DatagramBatch, DatagramSink};
pub use network_config::{CloseReason, ClosedConnection, NetworkConfig, TlsConfig};
pub(crate) use quinn::TAG;
pub use quinn::{
    Connection as QuicConnection, Endpoint as QuicEndpoint, InboundDatagram, prime_session,
};
pub use requested_controller::RequestedControllerBuilder;
pub use requirements::QuicRequirements;
pub use spec::{Crypto, Handshake, QuicSpec};
