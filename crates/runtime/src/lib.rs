//! Real sockets under the transports of the simulation: QUIC over UDP, kernel TCP, TLS, and a connection manager on
//! sockets. The poll loop of QUIC uses controllers and pacer of the simulation.
//!
//! Reading order:
//! 1. `clock`, `stdio` and `result_file` (messages and results), `wakeup_lag`;
//! 2. `udp_socket` (batched datagrams), `quic_driver` (the poll loop), `stream_limit`;
//! 3. `tls` (certificates), `peer_identity` (identity of a bundle neighbour), `tcp` and `poller` (kernel TCP);
//! 4. `sender_report` (statistics of a connection), `host` (a connection manager on sockets).

// `log_stderr` writes all messages: a failed write of a message must not end the process.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod clock;
pub mod host;
pub mod peer_identity;
mod poller;
mod quic_driver;
mod result_file;
mod sender_report;
mod stdio;
mod stream_limit;
pub mod tcp;
pub mod tls;
mod udp_socket;
mod wakeup_lag;

pub use clock::Clock;
pub use quic_driver::QuicDriver;
pub use result_file::ResultFile;
pub use sender_report::SenderReport;
pub use stdio::{Stdout, StdoutError, log_stderr, write_stderr};
pub use stream_limit::StreamLimit;
pub use udp_socket::{BatchedUdpSocket, DatagramObserver, ReceivedBatch};
pub use wakeup_lag::WakeupLag;
