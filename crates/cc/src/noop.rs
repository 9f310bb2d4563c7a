//! A controller that does nothing: the window stays what the application set it to when the connection was made, and
//! whatever is held, late or lost on the way leaves it alone.

use serde::{Deserialize, Serialize};
use units::Time;

use crate::options::{Entry, Kind, Opt, defaults, parse};
use crate::{Config, CongestionControl, Control, Event};

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
    make: |options, config| Ok(Box::new(NoOp::new(&parse(options)?, config))),
};

/// The scenario's options.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The window, bytes.
    pub window_bytes: Option<u64>,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct NoOp(Control);

impl NoOp {
    /// A controller that always says the same; its window leaves paced (RFC 9002 section 7.7).
    pub fn new(options: &Options, config: &Config) -> NoOp {
        NoOp(Control::window(options.window_bytes.unwrap_or(config.initial_window)))
    }
}

impl CongestionControl for NoOp {
    fn initial(&mut self, _now: Time) -> Control {
        self.0
    }

    fn on_event(&mut self, _now: Time, _event: &Event) -> Control {
        self.0
    }
}
