//! NewReno as RFC 9002 section 7.3 restates RFC 5681 and RFC 6582 for a transport that knows which
//! packets were lost: one reduction a round trip, and growth by acknowledged bytes.

use serde::{Deserialize, Serialize};
use serde_json::json;
use units::Time;

use crate::options::{Entry, Kernel, Kind, Opt, defaults, parse};
use crate::slow_start::{self, SlowStart, SlowStartExit, Verdict};
use crate::{Ack, Config, CongestionControl, Control, Event};

/// Its place in the catalogue.
pub const ENTRY: Entry = Entry {
    name: "newreno",
    alias: Some("reno"),
    title: "NewReno",
    reference: "RFC 9002 section 7.3, RFC 5681, RFC 6582",
    options: &[
        Opt {
            name: "slow_start_exit",
            kind: Kind::Choice(slow_start::WORDS),
            meaning: slow_start::MEANING,
        },
        Opt {
            name: "abc_limit",
            kind: Kind::Integer(1, 1_000),
            meaning: "packets by which one ACK may grow the window in slow start (RFC 3465's L); \
                      default: no limit, as in QUIC",
        },
        Opt {
            name: "beta",
            kind: Kind::Number(0.1, 0.95),
            meaning: "the window is multiplied by this on congestion (kLossReductionFactor)",
        },
    ],
    kernel: Some(Kernel {
        name: "reno",
        title: "Reno (tcp_cong.c)",
        options: || json!({"slow_start_exit": "none", "abc_limit": null, "beta": 0.5}),
    }),
    chance: false,
    defaults: defaults::<Options>,
    make: |options, config| Ok(Box::new(NewReno::new(parse(options)?, config))),
};

/// The scenario's options.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How slow start may end before a loss. RFC 9002 knows no early exit, and NewReno is the
    /// yardstick: none.
    pub slow_start_exit: SlowStartExit,
    /// RFC 3465's L, packets.
    pub abc_limit: Option<u64>,
    /// kLossReductionFactor of RFC 9002 appendix B.1.
    pub beta: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { slow_start_exit: SlowStartExit::None, abc_limit: None, beta: 0.5 }
    }
}

/// The controller.
#[derive(Clone, Debug)]
pub struct NewReno {
    options: Options,
    mss: u64,
    cwnd: u64,
    ssthresh: Option<u64>,
    /// Bytes acknowledged in congestion avoidance since the window last grew (RFC 3465 section 2.1).
    credit: u64,
    slow_start: SlowStart,
    /// Window and threshold before the last reduction, should it prove spurious.
    undo: Option<(u64, Option<u64>)>,
    /// The timer has expired and nothing has been acknowledged since.
    timed_out: bool,
}

impl NewReno {
    /// A controller in slow start.
    pub fn new(options: Options, config: &Config) -> NewReno {
        NewReno {
            slow_start: SlowStart::new(options.slow_start_exit, config),
            options,
            mss: config.mss,
            cwnd: config.initial_window,
            ssthresh: None,
            credit: 0,
            undo: None,
            timed_out: false,
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        if ack.acked > 0 {
            self.timed_out = false;
        }
        // RFC 9002 section 7.6.2: persistent congestion reduces the window to the minimum.
        if ack.persistent {
            self.reduce(now, self.cwnd);
            self.cwnd = 2 * self.mss;
            self.slow_start.on_reduction(now, true);
        } else if ack.congestion {
            // RFC 9002 section 7.3.2, appendix B.6. RFC 5681 halves the flight instead; the window
            // here never grows beyond what the flight has used.
            self.reduce(now, self.cwnd);
            self.cwnd = self.ssthresh.unwrap_or(self.cwnd);
        } else {
            self.grow(now, ack);
        }
    }

    fn reduce(&mut self, now: Time, from: u64) {
        self.undo = Some((self.cwnd, self.ssthresh));
        let reduced = (from as f64 * self.options.beta) as u64;
        self.ssthresh = Some(reduced.max(2 * self.mss));
        self.credit = 0;
        self.slow_start.on_reduction(now, false);
    }

    fn grow(&mut self, now: Time, ack: &Ack) {
        let acked = ack.credited();
        if self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh) {
            // RFC 9002 section 7.3.1: the window grows by the bytes acknowledged.
            let verdict = self.slow_start.on_ack(now, ack, self.cwnd);
            let limit = self.options.abc_limit.map_or(u64::MAX, |limit| limit * self.mss);
            self.cwnd += Verdict { limit: verdict.limit.min(limit), ..verdict }.growth(ack);
            if verdict.over {
                self.ssthresh = Some(self.cwnd);
            }
        } else {
            // RFC 9002 section 7.3.3: at most one packet per window acknowledged. RFC 5681
            // section 3.1 recommends counting bytes, which loses no fraction.
            self.credit += acked;
            while self.credit >= self.cwnd {
                self.credit -= self.cwnd;
                self.cwnd += self.mss;
            }
        }
    }

    /// RFC 5681 section 3.1: half the flight, and a loss window of one segment. A timer that
    /// expires again for the same data leaves the threshold alone.
    fn on_timeout(&mut self, now: Time, in_flight: u64) {
        if !self.timed_out {
            self.reduce(now, in_flight);
        }
        self.timed_out = true;
        self.cwnd = self.mss;
        self.slow_start.on_reduction(now, true);
    }
}

impl CongestionControl for NewReno {
    fn initial(&mut self, _now: Time) -> Control {
        Control::window(self.cwnd)
    }

    fn on_event(&mut self, now: Time, event: &Event) -> Control {
        match event {
            Event::Ack(ack) => self.on_ack(now, ack),
            Event::Timeout { in_flight } => self.on_timeout(now, *in_flight),
            // RFC 4015 section 3.4 brings the threshold back and lets the window slow-start to it;
            // a paced sender can have both at once, unless growth has overtaken them.
            Event::Spurious => {
                if let Some((cwnd, ssthresh)) = self.undo.take() {
                    self.cwnd = self.cwnd.max(cwnd);
                    self.ssthresh = ssthresh;
                }
            }
            Event::Mss(mss) => self.mss = *mss,
            Event::Idle { window } => self.cwnd = self.cwnd.min(*window),
            // RFC 9002 section 7.7: a paced sender need not shrink its window after idle.
            Event::Restart | Event::Timer => {}
        }
        Control::window(self.cwnd)
    }

    fn ssthresh(&self) -> Option<u64> {
        self.ssthresh
    }
}
