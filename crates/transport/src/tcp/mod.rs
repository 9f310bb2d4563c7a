//! TCP, sans-IO (RFC 9293), with the controllers, the estimator and the pacer that QUIC has.
//!
//! Reading order: `spec` (the options), `segment`, `handshake` (what both ends agree on); `sender` with
//! `buffer`, `scoreboard`, `ack`, `recovery`, `timers`, `rack`, `prr`, `rtt`; `receiver`; `connection` (the
//! calling order), `endpoint`.

mod ack;
mod buffer;
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
mod sender;
mod spec;
#[cfg(test)]
mod tests;
mod timers;

pub use connection::{Connection, established_pair};
pub use endpoint::Endpoint;
pub use segment::{Flags, SackBlocks, Segment, SynOptions};
pub use spec::{AckCounting, DelayedAck, LossDetection, RtoEstimate, TcpSpec};

use units::Time;

/// Bytes of the timestamps option with its padding (RFC 7323 appendix A).
const TIMESTAMP_BYTES: u16 = 12;

/// Payload of a full segment on which ends with these options agree, bytes.
pub fn payload_bytes(client: &TcpSpec, server: &TcpSpec) -> u64 {
    let timestamps = client.timestamps && server.timestamps;
    let options = if timestamps { TIMESTAMP_BYTES } else { 0 };
    u64::from(client.mss_bytes.min(server.mss_bytes).saturating_sub(options).max(1))
}

/// The timestamp clock (RFC 7323 section 5.4): 1 ms, as Linux. It starts at 1, because an echo of 0
/// says that there is none.
fn milliseconds(now: Time) -> u32 {
    (now.nanos() / 1_000_000 + 1) as u32
}

/// Whether timestamp `a` is before `b`, modulo 2^32 (RFC 7323 section 5.2).
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
