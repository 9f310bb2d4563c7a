//! A constant window, a constant pacing rate, or both, for tests and calibration. It does not react to congestion, so
//! it is unsuitable for shared paths.

use serde::Deserialize;
use units::{Descriptor, Opt, Rate, Time};

use crate::options::{CatalogueEntry, parse_options};
use crate::{CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "fixed",
        spec_kind: "fixed",
        aliases: &[],
        title: "Fixed window, fixed rate, or both (calibration; no congestion control)",
        reference: "none",
        options: &[
            Opt::integer(
                "window_bytes",
                1,
                1 << 50,
                "constant window, bytes; default: unlimited with a rate, else the initial window",
            ),
            Opt::integer(
                "rate_bit_s",
                1,
                1 << 50,
                "constant pacing rate, bit/s; default: 1.25 cwnd / srtt, as of the shared pacer",
            ),
        ],
        draws: false,
        live_name: "",
    },
    kernel: None,
    build: |options, config| Ok(Box::new(Fixed::new(&parse_options(options)?, config))),
};

/// The scenario's options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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
