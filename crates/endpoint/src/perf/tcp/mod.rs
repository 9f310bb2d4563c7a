//! The perf protocol over the kernel's TCP, with and without TLS: a connection for each stream, as in the
//! simulation, whose applications these are.
//!
//! Reading order: `options` (what a plan asks of sockets), `stream` (bytes as an application sees them), `connection` (a socket and its application), `client`, `server`.

mod client;
mod connection;
mod exercise;
mod options;
mod server;
mod stream;

pub use client::Client;
#[doc(hidden)]
pub use exercise::exercise_tcp;
pub use options::Options;
pub use server::Side;
