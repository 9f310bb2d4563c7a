//! The perf protocol over the kernel's TCP, with and without TLS: a connection for each stream, as in the
//! simulation, whose applications these are.
//!
//! Reading order: `options` (sockets and controllers of the kernel), `wire` (bytes, plain or in TLS), `stream` (the
//! same as an application sees them), `connection` (a socket and its application), `client`, `server`.

mod client;
mod connection;
mod exercise;
mod options;
mod server;
mod stream;
mod watch;
mod wire;

pub use client::Client;
#[doc(hidden)]
pub use exercise::exercise_tcp;
pub use options::Options;
pub use server::Side;
