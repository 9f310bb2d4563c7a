//! QUIC by quinn-proto, driven without I/O: `now` is an argument, datagrams go in and come out, and
//! window and pacing are ours.
//!
//! Reading order: `spec` (the options), `gate` (how a controller of our own takes the place of the
//! stack's), `connection` (the calling order), `streams` and `datagrams`, `endpoint`, `modelled` and `tls`
//! (cryptography).

mod choice;
mod clock;
mod config;
mod connection;
mod datagrams;
mod dial;
mod draining;
mod endpoint;
#[cfg(test)]
mod endpoint_tests;
mod farewell;
#[cfg(test)]
mod farewell_tests;
mod gate;
mod live;
mod modelled;
mod needs;
mod outlet;
mod parting;
mod room;
mod spec;
mod streams;
mod tls;
mod warm_up;

pub use choice::Chooser;
pub use connection::Connection;
pub use dial::Arrival;
pub use endpoint::Endpoint;
pub use live::{End, Ended, Live, LiveTls};
pub(crate) use modelled::TAG;
pub use needs::Needs;
pub use outlet::{Batch, Outlet};
pub use spec::{Crypto, Handshake, QuicSpec};
pub use warm_up::warm_up;
