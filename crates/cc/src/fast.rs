//! FAST TCP (Wei, Jin, Low and Hegde 2006, doi:10.1109/TNET.2006.886335). Each flow maintains `alpha` packets in the
//! queues of its path. Its equilibrium rate is alpha divided by the queueing delay, independent of the RTT.
//!
//! A flow that starts with existing queues mistakes their delay for propagation delay and gets more than its share.
//! This is a property of the algorithm, not of this implementation.

use serde::Deserialize;
use units::{Descriptor, Opt, Time};

use crate::options::{CatalogueEntry, parse_options};
use crate::window::CongestionWindow;
use crate::{AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "fast",
        spec_kind: "fast",
        aliases: &[],
        title: "FAST TCP",
        reference: "Wei et al. 2006, doi:10.1109/TNET.2006.886335",
        options: &[
            Opt::number("alpha", 1.0, 1e5, "packets that the flow keeps queued in the path")
                .default_number(20.0),
            Opt::number("gamma", 0.01, 1.0, "step towards the target window at each round trip")
                .default_number(0.5),
        ],
        draws: false,
        live_name: "",
    },
    kernel: None,
    build: |options, config| Ok(Box::new(Fast::new(parse_options(options)?, config))),
};

/// The scenario's options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The number of packets queued in equilibrium. The paper uses 200 at 1 Gb/s; 20 suits access links of 10 to 100
    /// Mb/s.
    pub alpha: f64,
    /// The step size. The paper uses 0.5.
    pub gamma: f64,
}

/// The FAST controller.
#[derive(Clone, Debug)]
pub struct Fast {
    options: Options,
    /// The window in packets. FAST has no threshold.
    window: CongestionWindow<f64>,
    /// The average RTT in seconds; `None` before the first sample.
    average_rtt: Option<f64>,
    /// Whether the window doubles each round trip, until half of alpha is queued.
    is_in_slow_start: bool,
}

impl Fast {
    /// Returns a controller in slow start.
    pub fn new(options: Options, config: &ControllerConfig) -> Fast {
        Fast {
            options,
            window: CongestionWindow::new_in_segments(config),
            average_rtt: None,
            is_in_slow_start: true,
        }
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        if let Some(rtt) = ack.latest_rtt {
            // Section III-A: an average with the weight min(3/W, 1/4).
            let weight = (3.0 / self.window.cwnd).min(0.25);
            let rtt = rtt.seconds();
            self.average_rtt = Some(self.average_rtt.map_or(rtt, |old| old + weight * (rtt - old)));
        }
        if ack.is_persistent_congestion {
            self.reduce(2.0);
        } else if ack.is_congestion_event {
            // Section III-C: a loss halves the window.
            self.reduce(self.window.cwnd / 2.0);
        } else {
            self.estimate(ack);
        }
    }

    fn reduce(&mut self, to: f64) {
        self.window.save();
        self.is_in_slow_start = false;
        self.window.cwnd = to.max(2.0);
    }

    fn estimate(&mut self, ack: &AckEvent) {
        let Some(average) = self.average_rtt else { return };
        let base = ack.min_rtt.seconds();
        let window = &mut self.window;
        if self.is_in_slow_start {
            window.cwnd += window.in_segments(ack.credited_in_slow_start());
            let queued = window.cwnd * (1.0 - base / average);
            self.is_in_slow_start = queued < self.options.alpha / 2.0;
        } else if ack.is_round_start {
            // W = min(2W, (1 - gamma) W + gamma (baseRTT / RTT W + alpha)), once a round trip.
            let Options { alpha, gamma } = self.options;
            let cwnd = window.cwnd;
            let target = (1.0 - gamma) * cwnd + gamma * (base / average * cwnd + alpha);
            let next = target.min(2.0 * cwnd).max(2.0);
            // An unused window does not grow (RFC 9002 section 7.8).
            if next < cwnd || ack.credited() > 0 {
                window.cwnd = next;
            }
        }
    }
}

impl CongestionControl for Fast {
    fn start(&mut self, _now: Time) -> ControlOutput {
        self.window.control()
    }

    fn on_event(&mut self, _now: Time, event: &ControllerEvent) -> ControlOutput {
        match event {
            ControllerEvent::Ack(ack) => self.on_ack(ack),
            ControllerEvent::Timeout { .. } => {
                self.reduce(2.0);
                self.window.cwnd = 1.0;
                self.is_in_slow_start = true;
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

    fn is_in_slow_start(&self, _cwnd: u64) -> bool {
        self.is_in_slow_start
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("average_rtt_s", self.average_rtt.unwrap_or(0.0));
        record("slow_start", f64::from(u8::from(self.is_in_slow_start)));
    }
}
