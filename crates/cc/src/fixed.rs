//! A constant window, a constant pacing rate, or both: for tests and calibration. It reacts to
//! nothing, so it belongs on no path that is shared.

use serde::{Deserialize, Serialize};
use units::{Rate, Time};

use crate::options::{CatalogueEntry, OptionKind, OptionSpec, default_options, parse_options};
use crate::{CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};

/// Its place in the catalogue.
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
    /// Constant window, bytes.
    pub window_bytes: Option<u64>,
    /// Constant pacing rate, bit/s.
    pub rate_bit_s: Option<u64>,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Fixed(ControlOutput);

/// More than any path holds.
const UNLIMITED: u64 = 1 << 40;

impl Fixed {
    /// A controller that always says the same.
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
