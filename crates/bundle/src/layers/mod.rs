//! The convergence layers: which one, its options, and what each makes of a connection.
//!
//! Each gives a [`crate::Session`] from its options, what this node says of itself and its [`crate::Role`], and says
//! what it needs of a transport: QUIC with so many unidirectional streams and datagrams
//! ([`transport::quic::Needs`]), or TCP.
//!
//! Reading order: `messages` (bytes).

pub mod messages;
