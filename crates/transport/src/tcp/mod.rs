//! TCP, sans-IO (RFC 9293), with the same controllers, estimator and pacer as QUIC.
//!
//! Reading order: `spec` (the options), `segment`, `handshake` (negotiation); `sender` with `send_buffer`,
//! `scoreboard`, `ack`, `recovery`, `timers`, `rack`, `prr`, `rtt`; `receiver`; `connection` (the calling order),
//! `endpoint`.

mod ack;
mod connection;
mod endpoint;
mod handshake;
mod prr;
mod rack;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod send_buffer;
mod sender;
mod spec;
#[cfg(test)]
mod tests;
mod timers;

pub use connection::{TcpConnection, preestablished_pair};
pub use endpoint::TcpEndpoint;
pub use segment::{Flags, SackBlocks, Segment, SynOptions};
pub use spec::{AckCounting, DelayedAck, LossDetection, RtoEstimate, TcpSpec};

use units::Time;

/// Bytes of the timestamps option with its padding (RFC 7323 appendix A).
const TIMESTAMP_BYTES: u16 = 12;

/// Returns the payload of a full segment between ends with these options, bytes.
pub fn payload_bytes(client: &TcpSpec, server: &TcpSpec) -> u64 {
    let timestamps = client.timestamps && server.timestamps;
    let options = if timestamps { TIMESTAMP_BYTES } else { 0 };
    u64::from(client.mss_bytes.min(server.mss_bytes).saturating_sub(options).max(1))
}

/// Returns the timestamp clock (RFC 7323 section 5.4): 1 ms, as in Linux. It starts at 1, because an echo of 0 means
/// that there is none.
fn timestamp_ms(now: Time) -> u32 {
    (now.nanos() / 1_000_000 + 1) as u32
}

/// Returns whether timestamp `a` is before `b`, modulo 2^32 (RFC 7323 section 5.2).
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
