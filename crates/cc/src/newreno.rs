//! NewReno in the form of RFC 9002 section 7.3, which restates RFC 5681 and RFC 6582 for transports that identify lost
//! packets. It reduces once per round trip and grows by acknowledged bytes.

use serde::Deserialize;
use serde_json::json;
use units::{Descriptor, Opt, Time};

use crate::options::{CatalogueEntry, KernelTwin, parse_options};
use crate::reno::RenoGrowth;
use crate::slow_start::{self, SlowStartExit};
use crate::window::CongestionWindow;
use crate::{AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "newreno",
        spec_kind: "newreno",
        aliases: &["reno"],
        title: "NewReno",
        reference: "RFC 9002 section 7.3, RFC 5681, RFC 6582",
        options: &[
            Opt::choice("slow_start_exit", slow_start::EXIT_VALUES, slow_start::EXIT_DESCRIPTION)
                .default_word("none"),
            Opt::integer(
                "abc_limit",
                1,
                1_000,
                "packets by which one ACK may grow the window in slow start (RFC 3465's L); \
                      default: no limit, as in QUIC",
            ),
            Opt::number(
                "beta",
                0.1,
                0.95,
                "factor of the window on congestion (kLossReductionFactor)",
            )
            .default_number(0.5),
        ],
        draws: false,
        live_name: "",
    },
    kernel: Some(KernelTwin {
        name: "reno",
        title: "Reno (tcp_cong.c)",
        options: || json!({"slow_start_exit": "none", "abc_limit": null, "beta": 0.5}),
    }),
    build: |options, config| Ok(Box::new(NewReno::new(parse_options(options)?, config))),
};

/// The scenario's options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The slow-start exit. RFC 9002 defines no early exit and NewReno is the reference controller, so the default is
    /// none.
    pub slow_start_exit: SlowStartExit,
    /// L of RFC 3465 in packets.
    pub abc_limit: Option<u64>,
    /// kLossReductionFactor of RFC 9002 appendix B.1.
    pub beta: f64,
}

/// The NewReno controller.
#[derive(Clone, Debug)]
pub struct NewReno {
    options: Options,
    reno: RenoGrowth,
}

impl NewReno {
    /// Returns a controller in slow start.
    pub fn new(options: Options, config: &ControllerConfig) -> NewReno {
        NewReno { reno: RenoGrowth::new(options.slow_start_exit, config), options }
    }

    fn on_ack(&mut self, now: Time, ack: &AckEvent) {
        let RenoGrowth { window: CongestionWindow { cwnd, mss, .. }, .. } = self.reno;
        self.reno.window.on_acknowledged(ack.acked);
        if ack.is_persistent_congestion {
            // RFC 9002 section 7.6.2: persistent congestion reduces the window to the minimum.
            self.reduce(now, cwnd);
            self.reno.restart(now, 2 * mss);
        } else if ack.is_congestion_event {
            // RFC 9002 section 7.3.2, appendix B.6. RFC 5681 halves the flight instead. The window here never exceeds
            // the use by the flight.
            self.reduce(now, cwnd);
        } else {
            let limit = self.options.abc_limit.map_or(u64::MAX, |limit| limit * mss);
            self.reno.grow(now, ack, limit);
        }
    }

    fn reduce(&mut self, now: Time, from: u64) {
        self.reno.reduce(now, (from as f64 * self.options.beta) as u64);
    }

    /// Applies RFC 5681 section 3.1: a threshold of half the flight and a loss window of one segment.
    fn on_timeout(&mut self, now: Time, flight_size: u64) {
        if self.reno.window.on_timeout() {
            self.reduce(now, flight_size);
        }
        self.reno.restart(now, self.reno.window.mss);
    }
}

impl CongestionControl for NewReno {
    fn start(&mut self, _now: Time) -> ControlOutput {
        self.reno.window.control()
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        match event {
            ControllerEvent::Ack(ack) => self.on_ack(now, ack),
            ControllerEvent::Timeout { flight_size, .. } => self.on_timeout(now, *flight_size),
            ControllerEvent::SpuriousLoss => self.reno.window.undo(),
            ControllerEvent::MssChanged(mss) => self.reno.window.set_mss(*mss),
            ControllerEvent::CwndRestart { window } => {
                self.reno.window.apply_restart_window(*window)
            }
            // RFC 9002 section 7.7: a paced sender need not reduce its window after idle.
            ControllerEvent::RestartFromIdle | ControllerEvent::Timer => {}
        }
        self.reno.window.control()
    }

    fn ssthresh(&self) -> Option<u64> {
        self.reno.window.ssthresh
    }
}
