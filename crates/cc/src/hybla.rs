//! TCP Hybla (Caini and Firrincieli 2004, doi:10.1002/sat.799). Every flow grows like a flow with RTT0, so that its
//! rate does not depend on its RTT.
//!
//! With rho = max(RTT / RTT0, 1), slow start adds 2^rho - 1 segments per segment acknowledged. Congestion avoidance
//! adds rho^2 / W. The initial window and the threshold are scaled by rho. The decrease is Reno's one half.
//!
//! # Growth cap
//! The closed form of slow start is W(t) = rho 2^(t / RTT0): a factor of 2^rho per round trip. On a GEO path rho is 24,
//! so the first ACK alone would add 16.8 million segments. The paper avoids this by an initial threshold from a
//! bandwidth estimate, which deployed senders do not have. Linux caps the exponent at 16, which still adds 65,535
//! segments. Two rules replace that here:
//! - The exponent is at most 16, as in Linux, so that the arithmetic remains finite.
//! - One acknowledged byte adds at most `growth_cap - 1` bytes in either phase. So the window grows by at most the
//!   factor `growth_cap` per round trip (NewReno: 2). With a busy bottleneck it grows by at most `growth_cap - 1` times
//!   the delivered bytes. The default of 3 is the factor of draft-kazuho-ccwg-rapid-start for a paced sender before its
//!   RTT rises. It is close to BBR's startup gain of 2.77. The paper's rate is reached a few round trips later. The
//!   test `hybla_slow_start_follows_the_closed_form` checks the uncapped form where it is finite,
//!   `hybla_does_not_explode_on_geo` the capped one.
//!
//! HyStart++ replaces the paper's threshold estimate by default.
//!
//! # Further differences from Linux's `tcp_hybla`
//! Growth counts acknowledged segments, as in the paper, which assumes one ACK per segment. Linux counts ACKs, so
//! delayed ACKs halve its growth. rho and the increments are not rounded to eighths and 128ths. The initial window is
//! rho times the transport's (Linux: rho segments). There is no maximum window (Linux: 65,535 segments). After a
//! reduction the window stays constant until a packet sent since is acknowledged (RFC 9002 section 7.3.2); Linux grows
//! like Reno.

use serde::Deserialize;
use units::{Descriptor, Opt, Span, Time};

use crate::options::{CatalogueEntry, parse_options};
use crate::slow_start::{self, SlowStart, SlowStartExit};
use crate::window::CongestionWindow;
use crate::{AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "hybla",
        spec_kind: "hybla",
        aliases: &[],
        title: "Hybla",
        reference: "Caini and Firrincieli 2004, doi:10.1002/sat.799",
        options: &[
            Opt::number(
                "rtt0_ms",
                1.0,
                1_000.0,
                "RTT0, the round-trip time of the reference connection, ms",
            )
            .default_number(25.0),
            Opt::choice(
                "rho_from",
                &["min", "smoothed"],
                "RTT of rho: the minimum of the connection, or the smoothed RTT at each new \
                      minimum (Linux)",
            )
            .default_word("min"),
            Opt::number(
                "growth_cap",
                1.1,
                1e9,
                "factor by which the window may grow in one round trip",
            )
            .default_number(3.0),
            Opt::integer(
                "initial_ssthresh",
                2,
                1 << 30,
                "initial slow-start threshold at RTT0, packets, scaled by rho; default: none",
            ),
            Opt::flag(
                "scale_initial_window",
                "multiply the initial window by rho at the first RTT sample",
            )
            .default_flag(true),
            Opt::choice("slow_start_exit", slow_start::EXIT_VALUES, slow_start::EXIT_DESCRIPTION)
                .default_word("hystart++"),
        ],
        draws: false,
        live_name: "",
    },
    kernel: None,
    build: |options, config| Ok(Box::new(Hybla::new(parse_options(options)?, config))),
};

/// The option `rho_from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RhoFrom {
    /// The minimum RTT.
    Min,
    /// The smoothed RTT at each new minimum.
    Smoothed,
}

/// The scenario's options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// RTT0 in ms; 25 ms in the paper and in Linux.
    pub rtt0_ms: f64,
    /// The RTT used for rho.
    pub rho_from: RhoFrom,
    /// The growth cap; see the module documentation.
    pub growth_cap: f64,
    /// The initial threshold at RTT0 in packets.
    pub initial_ssthresh: Option<u64>,
    /// Whether the initial window is scaled by rho.
    pub scale_initial_window: bool,
    /// The slow-start exit.
    pub slow_start_exit: SlowStartExit,
}

/// Linux's cap of the exponent.
const EXPONENT_CAP: f64 = 16.0;

/// The Hybla controller.
#[derive(Clone, Debug)]
pub struct Hybla {
    options: Options,
    /// cwnd and ssthresh in segments.
    window: CongestionWindow<f64>,
    /// The RTT last used for rho; `None` before the first sample.
    rtt: Option<Span>,
    rho: f64,
    slow_start: SlowStart,
}

impl Hybla {
    /// Returns a controller in slow start.
    pub fn new(options: Options, config: &ControllerConfig) -> Hybla {
        let mut window = CongestionWindow::new_in_segments(config);
        window.ssthresh = options.initial_ssthresh.map(|ssthresh| ssthresh as f64);
        Hybla {
            window,
            slow_start: SlowStart::new(options.slow_start_exit, config),
            rtt: None,
            rho: 1.0,
            options,
        }
    }

    /// Updates rho = max(RTT / RTT0, 1) when the RTT reaches a new minimum.
    fn update_rho(&mut self, ack: &AckEvent) {
        let rtt = match self.options.rho_from {
            RhoFrom::Min => ack.min_rtt,
            RhoFrom::Smoothed => ack.smoothed_rtt,
        };
        if ack.latest_rtt.is_none() || self.rtt.is_some_and(|min_rtt| rtt >= min_rtt) {
            return;
        }
        self.rho = (rtt.millis() / self.options.rtt0_ms).max(1.0);
        if self.rtt.is_none() {
            // Scale the initial window and threshold by rho.
            self.window.ssthresh = self.window.ssthresh.map(|ssthresh| ssthresh * self.rho);
            if self.options.scale_initial_window {
                self.window.cwnd *= self.rho;
            }
        }
        self.rtt = Some(rtt);
    }

    fn on_ack(&mut self, now: Time, ack: &AckEvent) {
        self.update_rho(ack);
        self.window.on_acknowledged(ack.acked);
        if ack.is_persistent_congestion {
            self.reduce(now, self.window.cwnd);
            self.restart(now, 2.0);
        } else if ack.is_congestion_event {
            self.reduce(now, self.window.cwnd);
        } else {
            self.grow(now, ack);
        }
    }

    fn grow(&mut self, now: Time, ack: &AckEvent) {
        let window = &mut self.window;
        let max_growth = self.options.growth_cap - 1.0;
        if window.is_in_slow_start() {
            let verdict = self.slow_start.on_ack(now, ack, window.in_bytes());
            let acked = window.in_segments(verdict.growth(ack));
            let factor = (libm::exp2(self.rho.min(EXPONENT_CAP)) - 1.0).min(max_growth);
            let grown = window.cwnd + factor * acked;
            // Linux: slow start does not exceed the threshold.
            window.cwnd = grown.min(window.ssthresh.unwrap_or(f64::INFINITY));
            if verdict.is_finished {
                window.ssthresh = Some(window.cwnd);
            }
        } else {
            let acked = window.in_segments(ack.credited());
            window.cwnd += (self.rho * self.rho / window.cwnd).min(max_growth) * acked;
        }
    }

    /// Applies Reno's multiplicative decrease.
    fn reduce(&mut self, now: Time, from: f64) {
        self.window.cwnd = self.window.reduce(from / 2.0);
        self.slow_start.on_reduction(now, false);
    }

    fn restart(&mut self, now: Time, cwnd: f64) {
        self.window.cwnd = cwnd;
        self.slow_start.on_reduction(now, true);
    }
}

impl CongestionControl for Hybla {
    fn start(&mut self, _now: Time) -> ControlOutput {
        self.window.control()
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        match event {
            ControllerEvent::Ack(ack) => self.on_ack(now, ack),
            // RFC 5681 section 3.1.
            ControllerEvent::Timeout { flight_size, .. } => {
                if self.window.on_timeout() {
                    self.reduce(now, self.window.in_segments(*flight_size));
                }
                self.restart(now, 1.0);
            }
            ControllerEvent::SpuriousLoss => self.window.undo(),
            ControllerEvent::MssChanged(mss) => {
                self.window.set_mss(*mss);
            }
            ControllerEvent::CwndRestart { window } => self.window.apply_restart_window(*window),
            ControllerEvent::RestartFromIdle | ControllerEvent::Timer => {}
        }
        self.window.control()
    }

    fn ssthresh(&self) -> Option<u64> {
        self.window.ssthresh_in_bytes()
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("rho", self.rho);
    }
}
