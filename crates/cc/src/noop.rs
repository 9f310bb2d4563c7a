//! A controller without control. The window remains as the application set it when the connection was created.
//! Queueing, delay and loss do not change it. The sender is paced (RFC 9002 section 7.7).

use serde::{Deserialize, Serialize};

use crate::fixed::{self, Fixed};
use crate::options::{CatalogueEntry, OptionKind, OptionSpec, default_options, parse_options};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "no-op",
    alias: None,
    title: "No-op: the window stays as it was set (no congestion control)",
    reference: "draft-ietf-tiptop-quic-profile, \"Congestion Control\" and \"Window Size\"",
    options: &[OptionSpec {
        name: "window_bytes",
        kind: OptionKind::Integer(1, 1 << 50),
        description: "the window, bytes; default: the initial window",
    }],
    kernel: None,
    is_randomised: false,
    defaults: default_options::<Options>,
    build: |options, config| {
        let Options { window_bytes } = parse_options(options)?;
        Ok(Box::new(Fixed::new(&fixed::Options { window_bytes, rate_bit_s: None }, config)))
    },
};

/// The scenario's options.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The window in bytes.
    pub window_bytes: Option<u64>,
}
