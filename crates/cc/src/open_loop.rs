//! A constant rate, independent of the path: open-loop control for a link with a known rate and a round trip longer
//! than a transfer. Acknowledgements have no effect, and retransmissions share the rate.

use serde::{Deserialize, Serialize};
use units::divide;

use crate::ControllerConfig;
use crate::fixed::{self, Fixed};
use crate::options::{CatalogueEntry, OptionKind, OptionSpec, default_options, parse_options};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "open-loop",
    alias: None,
    title: "Open loop: a constant rate, whatever is acknowledged or lost (no congestion control)",
    reference: "draft-ietf-tiptop-quic-profile, \"Congestion Control\"; RFC 8085 section 3.1.9",
    options: &[OptionSpec {
        name: "rate_bit_s",
        kind: OptionKind::Integer(1, 1 << 50),
        description: "the rate, payloads of UDP (TCP: segments) in bit/s; default: an initial window in each round trip \
                  that is assumed before the first sample (RFC 9002 section 7.7)",
    }],
    kernel: None,
    is_randomised: false,
    defaults: default_options::<Options>,
    build: |options, config| {
        let Options { rate_bit_s } = parse_options(options)?;
        let rate_bit_s = Some(rate_bit_s.unwrap_or_else(|| initial_rate(config)));
        Ok(Box::new(Fixed::new(&fixed::Options { window_bytes: None, rate_bit_s }, config)))
    },
};

/// The scenario's options.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The rate in bit/s.
    pub rate_bit_s: Option<u64>,
}

/// Returns the rate in bit/s of one initial window per assumed initial RTT.
fn initial_rate(config: &ControllerConfig) -> u64 {
    let bits = u128::from(config.initial_window) * 8 * 1_000_000_000;
    let (rate, _) = divide(bits, config.initial_rtt.nanos().max(1));
    u64::try_from(rate).unwrap_or(u64::MAX).max(1)
}
