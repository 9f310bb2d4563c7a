//! QUIC without I/O: `now` is an argument, datagrams are values. A stack has the protocol; this crate adds window and
//! pacing.
//!
//! Reading order:
//! 1. `spec` (the options), `requirements`, `network_config` (a real network), `requested_controller`, `datagram_sink`,
//!    `endpoint`;
//! 2. `stack` (the boundary to stacks), `driver`;
//! 3. `controller_shim` (replaces a stack's controller), `modelled_tls` and `real_tls` (cryptography), `quinn` (the
//!    stack).

mod clock;
mod controller_shim;
mod datagram_sink;
mod driver;
mod endpoint;
mod modelled_tls;
mod network_config;
mod quinn;
mod real_tls;
mod requested_controller;
mod requirements;
mod simulated_address;
mod spec;
mod stack;

pub use datagram_sink::{DatagramBatch, DatagramSink};
pub use endpoint::{QuicEndpoint, prime_session};
pub(crate) use modelled_tls::TAG;
pub use network_config::{CloseReason, ClosedConnection, NetworkConfig, TlsConfig};
pub use requested_controller::RequestedControllerBuilder;
pub use requirements::QuicRequirements;
pub use spec::{Crypto, Handshake, QuicSpec};
pub use stack::InboundDatagram;

/// A connection of a [`QuicEndpoint`].
pub type QuicConnection = driver::ConnectionDriver<quinn::QuinnConnection>;
