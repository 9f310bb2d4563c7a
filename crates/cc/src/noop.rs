//! A controller without control. The window remains as the application set it when the connection was created.
//! Queueing, delay and loss do not change it. The sender is paced (RFC 9002 section 7.7).

use serde::Deserialize;

use crate::fixed::{self, Fixed};
use units::{Descriptor, Opt};

use crate::options::{CatalogueEntry, parse_options};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "no-op",
        spec_kind: "no-op",
        aliases: &[],
        title: "No-op: a constant window (no congestion control)",
        reference: "draft-ietf-tiptop-quic-profile, \"Congestion Control\" and \"Window Size\"",
        options: &[Opt::integer(
            "window_bytes",
            1,
            1 << 50,
            "the window, bytes; default: the initial window",
        )],
        draws: false,
        live_name: "",
    },
    kernel: None,
    build: |options, config| {
        let Options { window_bytes } = parse_options(options)?;
        Ok(Box::new(Fixed::new(&fixed::Options { window_bytes, rate_bit_s: None }, config)))
    },
};

/// The scenario's options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The window in bytes.
    pub window_bytes: Option<u64>,
}
