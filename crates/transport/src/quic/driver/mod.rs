//! The driver of a QUIC stack: connections with their applications, controllers and pacers, for any [`Stack`].
//!
//! Reading order: `connection` (the calling order), `streams` and `datagram_queue`, `endpoint`, `session_priming`
//! (0-RTT).
//!
//! [`Stack`]: super::stack::Stack

#[cfg(test)]
mod closing_tests;
mod connection;
mod datagram_queue;
mod endpoint;
#[cfg(test)]
mod endpoint_tests;
mod session_priming;
mod streams;

pub use connection::ConnectionDriver;
pub(super) use endpoint::EndpointDriver;
pub(super) use session_priming::prime_session;
