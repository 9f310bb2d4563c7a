//! TCP Westwood+: Reno's growth, but a loss sets the window to the bandwidth-delay product measured from ACKs. So a
//! loss without a queue costs little.
//!
//! Two variants exist. The paper (Grieco and Mascolo 2004, doi:10.1145/997150.997155) sets the window when a loss is
//! detected, from one filter. Linux's tcp_westwood halves the window during recovery, as Reno does. It sets the window
//! when recovery ends, and filters twice.

use serde::Deserialize;
use serde_json::json;
use units::{Descriptor, Opt, Span, Time};

use crate::max_filter::bytes_in;
use crate::options::{CatalogueEntry, KernelTwin, parse_options};
use crate::reno::RenoGrowth;
use crate::slow_start::{self, SlowStartExit};
use crate::{AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "westwood",
        spec_kind: "westwood",
        aliases: &["westwood+"],
        title: "Westwood+",
        reference: "Grieco and Mascolo 2004, doi:10.1145/997150.997155, and Linux tcp_westwood",
        options: &[
            Opt::choice(
                "law",
                LAW_VALUES,
                "reaction to a loss and filter of the bandwidth: of the paper, or of Linux",
            )
            .default_word("paper"),
            Opt::choice("slow_start_exit", slow_start::EXIT_VALUES, slow_start::EXIT_DESCRIPTION)
                .default_word("none"),
        ],
        draws: false,
        live_name: "",
    },
    kernel: Some(KernelTwin {
        name: "westwood",
        title: "Westwood+ (tcp_westwood.c)",
        options: || json!({ "law": "linux", "slow_start_exit": "none" }),
    }),
    build: |options, config| Ok(Box::new(Westwood::new(parse_options(options)?, config))),
};

const LAW_VALUES: &[&str] = &["paper", "linux"];

/// The option `law`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WestwoodLaw {
    /// Window and threshold become b RTTmin when a loss is detected. The filter takes one sample per round trip.
    Paper,
    /// The window is halved during recovery and becomes b RTTmin at its end. The filter takes at most one sample per 50
    /// ms and filters twice. RTTmin is reset after a timeout.
    Linux,
}

/// The scenario's options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The variant of the algorithm.
    pub law: WestwoodLaw,
    /// The slow-start exit. The default is none, as in both variants.
    pub slow_start_exit: SlowStartExit,
}

/// Linux TCP_WESTWOOD_RTT_MIN: the shortest measurement interval.
const SHORTEST_WINDOW: Span = Span::from_millis(50);

/// The Westwood+ controller.
#[derive(Clone, Debug)]
pub struct Westwood {
    law: WestwoodLaw,
    /// Reno growth (RFC 5681 section 3.1).
    reno: RenoGrowth,
    /// The two filter stages in bit/s. The paper's variant has one stage and stores it twice.
    filter_values: Option<(u64, u64)>,
    window_start: Time,
    window_bytes: u64,
    latest_rtt: Span,
    rtt_min: Span,
    /// Whether the next sample replaces `rtt_min`, after a timeout.
    is_rtt_min_reset_pending: bool,
    /// Whether the end of recovery sets the window (Linux).
    is_recovering: bool,
}

impl Westwood {
    /// Returns a controller in slow start.
    pub fn new(options: Options, config: &ControllerConfig) -> Westwood {
        Westwood {
            law: options.law,
            reno: RenoGrowth::new(options.slow_start_exit, config),
            filter_values: None,
            window_start: Time::ZERO,
            window_bytes: 0,
            latest_rtt: config.initial_rtt,
            rtt_min: Span::MAX,
            is_rtt_min_reset_pending: false,
            is_recovering: false,
        }
    }

    /// Updates the bandwidth estimate from b_k = d_k / Delta_k, the bytes acknowledged in the last RTT over that time.
    /// The low-pass filter is that of the paper's section 2.2 with alpha = 0.9, or Linux's two stages with 7/8. The
    /// first nonzero sample initialises the filter, as in Linux.
    fn measure(&mut self, now: Time, ack: &AckEvent) {
        if let Some(rtt) = ack.latest_rtt {
            self.latest_rtt = rtt;
            let restart = std::mem::take(&mut self.is_rtt_min_reset_pending);
            self.rtt_min = if restart { rtt } else { self.rtt_min.min(rtt) };
        }
        let delta = now.since(self.window_start);
        let min_interval = match self.law {
            WestwoodLaw::Paper => self.latest_rtt,
            WestwoodLaw::Linux => self.latest_rtt.max(SHORTEST_WINDOW),
        };
        // The ACK that ends an interval counts for the next one.
        if delta >= min_interval.max(Span(1)) {
            let bits = u128::from(self.window_bytes) * 8_000_000_000;
            self.filter((bits / u128::from(delta.nanos())) as u64);
            self.window_start = now;
            self.window_bytes = 0;
        }
        self.window_bytes += ack.acked;
    }

    fn filter(&mut self, sample: u64) {
        self.filter_values = Some(match (self.filter_values, self.law) {
            (None | Some((0, 0)), _) => (sample, sample),
            (Some((b, _)), WestwoodLaw::Paper) => {
                let b = (9 * b + sample) / 10;
                (b, b)
            }
            (Some((first, second)), WestwoodLaw::Linux) => {
                let first = (7 * first + sample) / 8;
                (first, (7 * second + first) / 8)
            }
        });
    }

    /// Returns b RTTmin in bytes, at least two packets; half the window before the first sample.
    fn bdp(&self) -> u64 {
        match self.filter_values {
            Some((_, rate)) if self.rtt_min != Span::MAX => bytes_in(rate, self.rtt_min.nanos()),
            _ => self.reno.window.cwnd / 2,
        }
        .max(2 * self.reno.window.mss)
    }

    fn reduce(&mut self, now: Time, timeout: bool) {
        // Consecutive recoveries are possible.
        self.end_recovery();
        self.is_recovering = self.law == WestwoodLaw::Linux && !timeout;
        let to = if self.is_recovering { self.reno.window.cwnd / 2 } else { self.bdp() };
        self.reno.reduce(now, to);
    }

    /// Ends recovery: Linux's tcp_westwood_event, CA_EVENT_COMPLETE_CWR.
    fn end_recovery(&mut self) {
        if std::mem::take(&mut self.is_recovering) {
            let bdp = self.bdp();
            self.reno.window.cwnd = bdp;
            self.reno.window.ssthresh = Some(bdp);
        }
    }

    fn collapse(&mut self, now: Time, window: u64) {
        self.is_recovering = false;
        self.reduce(now, true);
        self.reno.restart(now, window);
        self.is_rtt_min_reset_pending = self.law == WestwoodLaw::Linux;
    }

    fn grow(&mut self, now: Time, ack: &AckEvent) {
        if ack.acked > ack.acked_in_recovery {
            self.end_recovery();
        }
        self.reno.grow(now, ack, u64::MAX);
    }
}

impl CongestionControl for Westwood {
    fn start(&mut self, now: Time) -> ControlOutput {
        self.window_start = now;
        self.reno.window.control()
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        match event {
            ControllerEvent::Ack(ack) => {
                self.measure(now, ack);
                if ack.is_persistent_congestion {
                    self.collapse(now, 2 * self.reno.window.mss);
                } else if ack.is_congestion_event {
                    self.reduce(now, false);
                } else {
                    self.grow(now, ack);
                }
            }
            ControllerEvent::Timeout { .. } => self.collapse(now, self.reno.window.mss),
            ControllerEvent::SpuriousLoss => {
                self.is_recovering = false;
                self.reno.window.undo();
            }
            // Idle time must not lower the bandwidth estimate.
            ControllerEvent::RestartFromIdle => {
                self.window_start = now;
                self.window_bytes = 0;
            }
            ControllerEvent::CwndRestart { window } => {
                self.reno.window.apply_restart_window(*window)
            }
            ControllerEvent::MssChanged(mss) => self.reno.window.set_mss(*mss),
            ControllerEvent::Timer => {}
        }
        self.reno.window.control()
    }

    fn ssthresh(&self) -> Option<u64> {
        self.reno.window.ssthresh
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("bw_bit_s", self.filter_values.map_or(0.0, |(_, rate)| rate as f64));
        record("rtt_min_s", self.rtt_min.seconds());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::sample_ack;

    /// As in Linux's westwood_filter, the first round trip, without acknowledged bytes, gives no bandwidth sample.
    #[test]
    fn the_filter_is_seeded_by_the_first_bandwidth() {
        let config = ControllerConfig {
            mss: 1000,
            initial_window: 10_000,
            initial_rtt: Span::from_millis(100),
            seed: 1,
            is_paced: false,
        };
        for law in [WestwoodLaw::Paper, WestwoodLaw::Linux] {
            let options = Options { law, ..ENTRY.default_options() };
            let mut westwood = Westwood::new(options, &config);
            westwood.start(Time::ZERO);
            for round in 1..=2 {
                let rtt = Some(Span::from_millis(100));
                let ack = AckEvent { acked: 10_000, latest_rtt: rtt, ..sample_ack() };
                westwood.on_event(
                    Time::ZERO + Span::from_millis(100 * round),
                    &ControllerEvent::Ack(ack),
                );
            }
            assert_eq!(westwood.filter_values, Some((800_000, 800_000)), "{law:?}");
        }
    }
}
