//! Kernel TCP sockets: options, statistics, and the byte stream with and without TLS.
//!
//! Reading order: `socket` (options), `kernel` (controllers and settings of Linux), `info` (TCP_INFO), `byte_stream`.

mod byte_stream;
mod info;
pub mod kernel;
pub mod socket;

pub(crate) use byte_stream::{ByteStream, ReadOutcome};
pub use info::{TcpInfo, TcpInfoLayout};
pub use socket::{SocketOptionError, TcpSocketOptions};
