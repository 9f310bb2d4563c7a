//! A constant rate, independent of the path: open-loop control for a link with a known rate and a round trip longer
//! than a transfer. Acknowledgements have no effect, and retransmissions share the rate.

use serde::Deserialize;
use units::{Descriptor, Opt, divide};

use crate::ControllerConfig;
use crate::fixed::{self, Fixed};
use crate::options::{CatalogueEntry, parse_options};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "open-loop",
        spec_kind: "open-loop",
        aliases: &[],
        title: "Open loop: a constant rate, independent of acknowledgements and losses (no congestion control)",
        reference: "draft-ietf-tiptop-quic-profile, \"Congestion Control\"; RFC 8085 section 3.1.9",
        options: &[Opt::integer(
            "rate_bit_s",
            1,
            1 << 50,
            "rate of UDP payloads (TCP: segments), bit/s; default: an initial window in each assumed initial round \
                  trip (RFC 9002 section 7.7)",
        )],
        draws: false,
        live_name: "",
    },
    kernel: None,
    build: |options, config| {
        let Options { rate_bit_s } = parse_options(options)?;
        let rate_bit_s = Some(rate_bit_s.unwrap_or_else(|| initial_rate(config)));
        Ok(Box::new(Fixed::new(&fixed::Options { window_bytes: None, rate_bit_s }, config)))
    },
};

/// The scenario's options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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
