//! The perf protocol over kernel TCP, with and without TLS: one connection per stream, with the simulation's
//! applications.
//!
//! Reading order: `options` (of a socket), `stream` (bytes of an application), `connection`, `client`, `server`.

mod client;
pub(crate) mod connection;
mod options;
mod server;
mod stream;

pub use client::TcpMeasuringClient;
pub use options::PerfTcpOptions;
pub use server::TcpPerfListener;
