//! Specification of datagram sources in a resolved run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MEDIA_HEADER_BYTES;
use crate::perf_load::PeriodsSpec;

/// Sources of datagrams at both ends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DatagramsSpec {
    /// Source at the client; `None`: it only receives.
    pub up: Option<SourceSpec>,
    /// Source at the server.
    pub down: Option<SourceSpec>,
    /// Duration of both from the flow's start.
    pub duration_ns: u64,
}

/// A source of datagrams, each of which is sent when it is full.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// Name in results: a codec, `live`, `on_off`.
    pub name: String,
    /// Payload type in RTP's header (RFC 3551 section 6).
    pub rtp_type: u8,
    /// Payload of a datagram, with the RTP header of 12 bytes.
    pub payload_bytes: u32,
    /// On time of the source per datagram.
    pub interval_ns: u64,
    /// Periods of sending and silence; `None`: always on.
    pub periods: Option<PeriodsSpec>,
}

/// The largest payload of UDP over IPv4 (RFC 768: a length of 16 bits).
const MAX_PAYLOAD_BYTES: u32 = 65_507;

impl DatagramsSpec {
    /// # Errors
    /// The invalid setting, in words.
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
        if !(MEDIA_HEADER_BYTES as u32..=MAX_PAYLOAD_BYTES).contains(&bytes) {
            let expected = format!("expected {MEDIA_HEADER_BYTES} to {MAX_PAYLOAD_BYTES}");
            return Err(format!("payload_bytes is {bytes}, {expected}"));
        }
        if self.interval_ns < 1000 {
            let found = self.interval_ns;
            return Err(format!("interval_ns is {found}, expected 1000 or more"));
        }
        self.periods.map_or(Ok(()), |periods| periods.distribution.check())
    }
}
