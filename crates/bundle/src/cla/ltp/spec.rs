//! Options of LTP, and its identifiers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt};

use crate::cla::parameters::{INCOMING_BYTES, TRANSFER_BYTES};

/// The client service ID of bundles (RFC 7116 section 3.2).
pub(super) const BUNDLE_PROTOCOL: u64 = 1;

/// The reliability of blocks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Red blocks: retransmitted until the peer has them.
    #[default]
    Red,
    /// Green blocks: sent once.
    Green,
}

/// Options of LTP.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct LtpSpec {
    /// The reliability of blocks.
    pub colour: Colour,
    /// The maximum length of a sent segment: the link MTU without IP and UDP headers.
    pub segment_bytes: u16,
    /// The length of IP and UDP headers, which the rate includes.
    pub header_bytes: u16,
    /// The rate without a planned contact.
    pub rate_bit_s: Option<u64>,
    /// The minimum one-way light time.
    pub owlt_ns: u64,
    /// The maximum response time of the peer, for its store and for data that it sends before the response.
    pub margin_ns: u64,
    /// The maximum retransmissions of a checkpoint, a report or a cancellation before the session ends.
    pub max_retransmissions: u32,
    /// The maximum retransmission cycles of a block before the session ends.
    pub max_retransmission_cycles: u32,
    /// The maximum concurrent sessions of this side.
    pub max_outgoing_sessions: u32,
    /// The maximum concurrent sessions of the peer.
    pub max_incoming_sessions: u32,
    /// The maximum length of a received bundle.
    pub transfer_bytes: u64,
    /// The limit of partially received bundles in bytes.
    pub incoming_bytes: u64,
}

impl Default for LtpSpec {
    fn default() -> LtpSpec {
        LtpSpec {
            colour: Colour::Red,
            segment_bytes: 1452,
            header_bytes: 28,
            rate_bit_s: None,
            owlt_ns: 0,
            margin_ns: 2_000_000_000,
            max_retransmissions: 10,
            max_retransmission_cycles: 30,
            max_outgoing_sessions: 1 << 16,
            max_incoming_sessions: 1 << 16,
            transfer_bytes: TRANSFER_BYTES,
            incoming_bytes: INCOMING_BYTES,
        }
    }
}

impl LtpSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "ltp",
        spec_kind: "ltp",
        aliases: &["ltp-green"],
        title: "LTP over UDP: a block for each bundle",
        reference: "RFC 5326 and RFC 7122",
        options: &[
            Opt::by_name(
                "colour",
                &["red", "green"],
                "blocks that are retransmitted, or sent once",
            ),
            Opt::rate("rate", "rate_bit_s", "rate without a planned contact").omitted(),
            Opt::duration("owlt", "owlt_ns", "one-way light time without a planned contact")
                .omitted(),
        ],
        draws: false,
        live_name: "",
    };
}

/// Returns the engine ID of a node: N for `ipn:N.0`, otherwise 63 bits of the FNV-1a hash of the node ID.
pub fn engine_id(node: &str) -> u64 {
    let number = node.strip_prefix("ipn:").and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| {
        let hash = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash >> 1
    })
}
