//! What sends datagrams, resolved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HEAD_BYTES;
use crate::load::PeriodsSpec;

/// Sources of datagrams at both ends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DatagramsSpec {
    /// At the client; none: it only listens.
    pub up: Option<SourceSpec>,
    /// At the server.
    pub down: Option<SourceSpec>,
    /// They end this long after the flow's start.
    pub duration_ns: u64,
}

/// A source of datagrams, each of which leaves when it is full.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// What it is called in results: a codec, `live`, `on_off`.
    pub name: String,
    /// Payload type in RTP's header (RFC 3551 section 6).
    pub rtp_type: u8,
    /// What a datagram carries, RTP's header of 12 bytes included.
    pub payload_bytes: u32,
    /// How long the source is on until a datagram is full.
    pub interval_ns: u64,
    /// Periods of sending and silence; none: it is always on.
    pub periods: Option<PeriodsSpec>,
}

/// The largest payload of UDP over IPv4 (RFC 768: a length of 16 bits).
const MOST_BYTES: u32 = 65_507;

impl DatagramsSpec {
    /// # Errors
    /// What cannot be, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.up.is_none() && self.down.is_none() {
            return Err("neither side sends datagrams".to_owned());
        }
        self.up.iter().chain(&self.down).try_for_each(SourceSpec::check)
    }
}

impl SourceSpec {
    fn check(&self) -> Result<(), String> {
        let bytes = self.payload_bytes;
        if !(HEAD_BYTES as u32..=MOST_BYTES).contains(&bytes) {
            let expected = format!("expected {HEAD_BYTES} to {MOST_BYTES}");
            return Err(format!("payload_bytes is {bytes}, {expected}"));
        }
        if self.interval_ns < 1000 {
            let found = self.interval_ns;
            return Err(format!("interval_ns is {found}, expected 1000 or more"));
        }
        self.periods.map_or(Ok(()), |periods| periods.draw.check())
    }
}
