//! AIMD in integers: a minimal controller and the template for new ones.
//!
//! Other languages can reproduce it bit for bit. Every quantity is a non-negative integer number of bytes, and `/`
//! rounds down. The rules apply in this order to every event:
//! - `Timeout` or persistent congestion: `ssthresh = max(cwnd / 2, 2 mss)`, `cwnd = 2 mss`, `credit = 0`;
//! - congestion: `cwnd = max(cwnd / 2, 2 mss)`, `ssthresh = cwnd`, `credit = 0`;
//! - window-limited, with `n = min(acked - acked_in_recovery, growth_limit)`: slow start (`cwnd < ssthresh`, or no
//!   `ssthresh` yet) adds `n` to `cwnd`. Congestion avoidance adds `n` to `credit`. As soon as `credit >= cwnd`,
//!   `credit -= cwnd`, then `cwnd += mss` (once per event).

use serde::Deserialize;
use units::{Descriptor, Time};

use crate::options::{CatalogueEntry, parse_options};
use crate::{CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "aimd",
        spec_kind: "aimd",
        aliases: &[],
        title: "AIMD: one additional packet per round trip, half of the window on congestion (a worked example)",
        reference: "Chiu and Jain 1989, doi:10.1016/0169-7552(89)90019-6",
        options: &[],
        draws: false,
        live_name: "",
    },
    kernel: None,
    build: |options, config| {
        parse_options::<Options>(options)?;
        Ok(Box::new(Aimd::new(config)))
    },
};

/// The scenario's options. There are none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {}

/// The AIMD controller.
#[derive(Clone, Debug)]
pub struct Aimd {
    mss: u64,
    cwnd: u64,
    ssthresh: Option<u64>,
    credit: u64,
}

impl Aimd {
    /// Returns a controller in slow start.
    pub fn new(config: &ControllerConfig) -> Aimd {
        Aimd { mss: config.mss, cwnd: config.initial_window, ssthresh: None, credit: 0 }
    }

    fn reduce(&mut self, collapse: bool) {
        let half = (self.cwnd / 2).max(2 * self.mss);
        self.ssthresh = Some(half);
        self.cwnd = if collapse { 2 * self.mss } else { half };
        self.credit = 0;
    }

    fn grow(&mut self, acked: u64) {
        if self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh) {
            self.cwnd += acked;
        } else {
            self.credit += acked;
            if self.credit >= self.cwnd {
                self.credit -= self.cwnd;
                self.cwnd += self.mss;
            }
        }
    }
}

impl CongestionControl for Aimd {
    fn start(&mut self, _now: Time) -> ControlOutput {
        ControlOutput::from_window(self.cwnd)
    }

    fn on_event(&mut self, _now: Time, event: &ControllerEvent) -> ControlOutput {
        match event {
            ControllerEvent::Ack(ack) if ack.is_persistent_congestion => self.reduce(true),
            ControllerEvent::Ack(ack) if ack.is_congestion_event => self.reduce(false),
            ControllerEvent::Ack(ack) => self.grow(ack.credited()),
            ControllerEvent::Timeout { .. } => self.reduce(true),
            ControllerEvent::MssChanged(mss) => self.mss = *mss,
            ControllerEvent::SpuriousLoss
            | ControllerEvent::RestartFromIdle
            | ControllerEvent::CwndRestart { .. }
            | ControllerEvent::Timer => {}
        }
        ControlOutput::from_window(self.cwnd)
    }

    fn ssthresh(&self) -> Option<u64> {
        self.ssthresh
    }
}
