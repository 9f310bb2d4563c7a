//! Real sockets: QUIC over UDP with controllers, pacer and applications of the simulation, and these applications over
//! kernel TCP.
//!
//! Reading order: `clock`, `stdio` and `result_file` (messages and results), `wakeup_lag`, `udp_socket` (batched
//! datagrams), `quic_driver` (the poll loop), `tls` (certificates), `peer_identity` (identity of a bundle neighbour),
//! `tcp_socket`, `byte_stream`, `poller`, `tcp_info` (kernel TCP), `host` (a connection manager on sockets), `dtn`
//! (bundle nodes), `sender_report` (statistics of a connection), `perf` (measuring server and client), `media`, `http`
//! (page server), `pep` (splitting proxy).

// `log_stderr` writes all messages: a failed write of a message must not end the process.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod byte_stream;
mod clock;
pub mod dtn;
pub mod host;
pub mod http;
pub mod kernel;
pub mod media;
pub mod peer_identity;
pub mod pep;
pub mod perf;
mod poller;
mod quic_driver;
mod result_file;
mod sender_report;
mod stdio;
mod stream_limit;
mod tcp_info;
mod tcp_socket;
pub mod tls;
mod udp_socket;
mod wakeup_lag;

pub use clock::Clock;
pub use quic_driver::QuicDriver;
pub use result_file::ResultFile;
pub use stdio::{Stdout, StdoutError, log_stderr, write_stderr};
pub use stream_limit::StreamLimit;
pub use udp_socket::{BatchedUdpSocket, DatagramObserver};
