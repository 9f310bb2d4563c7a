//! A constant window, a constant pacing rate, or both, for tests and calibration. It does not react to congestion, so
//! it is unsuitable for shared paths.

use serde::{Deserialize, Serialize};
use units::{Rate, Time};

use crate::options::{CatalogueEntry, OptionKind, OptionSpec, default_options, parse_options};
use crate::{CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "fixed",
    alias: None,
    title: "Fixed window and/or rate (calibration; no congestion control)",
    reference: "none",
    options: &[
        OptionSpec {
            name: "window_bytes",
            kind: OptionKind::Integer(1, 1 << 50),
            description: "constant window, bytes; default: unlimited with a rate, else the initial window",
        },
        OptionSpec {
            name: "rate_bit_s",
            kind: OptionKind::Integer(1, 1 << 50),
            description: "constant pacing rate, bit/s; default: the shared pacer's 1.25 cwnd / srtt",
        },
    ],
    kernel: None,
    is_randomised: false,
    defaults: default_options::<Options>,
    build: |options, config| Ok(Box::new(Fixed::new(&parse_options(options)?, config))),
};

/// The scenario's options.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The constant window in bytes.
    pub window_bytes: Option<u64>,
    /// The constant pacing rate in bit/s.
    pub rate_bit_s: Option<u64>,
}

/// The fixed controller.
#[derive(Clone, Debug)]
pub struct Fixed(ControlOutput);

/// A window in bytes that exceeds the capacity of any path.
const UNLIMITED: u64 = 1 << 40;

impl Fixed {
    /// Returns a controller with constant output.
    pub fn new(options: &Options, config: &ControllerConfig) -> Fixed {
        let open = if options.rate_bit_s.is_some() { UNLIMITED } else { config.initial_window };
        Fixed(ControlOutput {
            cwnd: options.window_bytes.unwrap_or(open),
            pacing_rate: options.rate_bit_s.map(Rate),
            quantum: None,
            timer_at: Time::MAX,
        })
    }
}

impl CongestionControl for Fixed {
    fn start(&mut self, _now: Time) -> ControlOutput {
        self.0
    }

    fn on_event(&mut self, _now: Time, _event: &ControllerEvent) -> ControlOutput {
        self.0
    }
}
