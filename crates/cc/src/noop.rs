//! A controller that does nothing: the window stays what the application set it to when the connection was made, and
//! whatever is held, late or lost on the way leaves it alone. It leaves paced (RFC 9002 section 7.7).

use serde::{Deserialize, Serialize};

use crate::fixed::{self, Fixed};
use crate::options::{Entry, Kind, Opt, defaults, parse};

/// Its place in the catalogue.
pub const ENTRY: Entry = Entry {
    name: "no-op",
    alias: None,
    title: "No-op: the window stays as it was set (no congestion control)",
    reference: "draft-ietf-tiptop-quic-profile, \"Congestion Control\" and \"Window Size\"",
    options: &[Opt {
        name: "window_bytes",
        kind: Kind::Integer(1, 1 << 50),
        meaning: "the window, bytes; default: the initial window",
    }],
    kernel: None,
    chance: false,
    defaults: defaults::<Options>,
    make: |options, config| {
        let Options { window_bytes } = parse(options)?;
        Ok(Box::new(Fixed::new(&fixed::Options { window_bytes, rate_bit_s: None }, config)))
    },
};

/// The scenario's options.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The window, bytes.
    pub window_bytes: Option<u64>,
}
