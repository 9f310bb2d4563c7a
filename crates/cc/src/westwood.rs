//! TCP Westwood+ (Grieco and Mascolo 2004, doi:10.1145/997150.997155): Reno's growth, but after a
//! loss the window becomes the bandwidth-delay product that the ACKs have shown, so that a loss
//! without a queue costs nothing.

use serde::{Deserialize, Serialize};
use units::{Span, Time};

use crate::filter::bytes_in;
use crate::options::{Entry, Kind, Opt, defaults, parse};
use crate::slow_start::{self, SlowStart, SlowStartExit};
use crate::{Ack, Config, CongestionControl, Control, Event};

/// Its place in the catalogue.
pub const ENTRY: Entry = Entry {
    name: "westwood",
    alias: Some("westwood+"),
    title: "Westwood+",
    reference: "Grieco and Mascolo 2004, doi:10.1145/997150.997155, and Linux tcp_westwood",
    options: &[Opt {
        name: "slow_start_exit",
        kind: Kind::Choice(slow_start::WORDS),
        meaning: slow_start::MEANING,
    }],
    kernel: None,
    chance: false,
    defaults: defaults::<Options>,
    make: |options, config| Ok(Box::new(Westwood::new(parse(options)?, config))),
};

/// The scenario's options.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How slow start may end before a loss; none, as in Linux.
    pub slow_start_exit: SlowStartExit,
}

impl Default for Options {
    fn default() -> Options {
        Options { slow_start_exit: SlowStartExit::None }
    }
}

/// Linux TCP_WESTWOOD_RTT_MIN: the shortest measuring window.
const SHORTEST_WINDOW: Span = Span::from_millis(50);

/// The controller.
#[derive(Clone, Debug)]
pub struct Westwood {
    mss: u64,
    cwnd: u64,
    ssthresh: Option<u64>,
    credit: u64,
    slow_start: SlowStart,
    /// The bandwidth filter's two stages, bit/s.
    stages: Option<(u64, u64)>,
    window_start: Time,
    window_bytes: u64,
    rtt_min: Span,
    /// After a timeout the next sample replaces `rtt_min`.
    reset_rtt_min: bool,
    undo: Option<(u64, Option<u64>)>,
}

impl Westwood {
    /// A controller in slow start.
    pub fn new(options: Options, config: &Config) -> Westwood {
        Westwood {
            mss: config.mss,
            cwnd: config.initial_window,
            ssthresh: None,
            credit: 0,
            slow_start: SlowStart::new(options.slow_start_exit, config),
            stages: None,
            window_start: Time::ZERO,
            window_bytes: 0,
            rtt_min: Span::MAX,
            reset_rtt_min: false,
            undo: None,
        }
    }

    /// b_k = acked / delta over one RTT (at least 50 ms), low-pass filtered twice with 7/8, as in
    /// Linux; the first sample seeds both stages.
    fn measure(&mut self, now: Time, ack: &Ack) {
        if let Some(rtt) = ack.latest_rtt {
            let restart = std::mem::take(&mut self.reset_rtt_min);
            self.rtt_min = if restart { rtt } else { self.rtt_min.min(rtt) };
        }
        self.window_bytes += ack.acked;
        let delta = now.since(self.window_start);
        if delta < ack.smoothed_rtt.max(SHORTEST_WINDOW) {
            return;
        }
        let sample = (u128::from(self.window_bytes) * 8_000_000_000
            / u128::from(delta.nanos().max(1))) as u64;
        self.stages = Some(match self.stages {
            None => (sample, sample),
            Some((first, second)) => {
                let first = (7 * first + sample) / 8;
                (first, (7 * second + first) / 8)
            }
        });
        self.window_start = now;
        self.window_bytes = 0;
    }

    /// b * RTTmin, at least two packets; half the window before the first sample.
    fn bdp(&self) -> u64 {
        match self.stages {
            Some((_, rate)) if self.rtt_min != Span::MAX => bytes_in(rate, self.rtt_min.nanos()),
            _ => self.cwnd / 2,
        }
        .max(2 * self.mss)
    }

    fn reduce(&mut self, now: Time) {
        self.undo = Some((self.cwnd, self.ssthresh));
        // A loss never raises the threshold above the window that caused it.
        self.ssthresh = Some(self.bdp().min(self.cwnd.max(2 * self.mss)));
        self.credit = 0;
        self.slow_start.on_reduction(now, false);
    }

    fn collapse(&mut self, now: Time, window: u64) {
        self.reduce(now);
        self.cwnd = window;
        self.reset_rtt_min = true;
        self.slow_start.on_reduction(now, true);
    }

    /// Growth is Reno's (RFC 5681 section 3.1).
    fn grow(&mut self, now: Time, ack: &Ack) {
        let acked = ack.credited();
        if self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh) {
            let verdict = self.slow_start.on_ack(now, ack, self.cwnd);
            self.cwnd += verdict.growth(ack);
            if verdict.over {
                self.ssthresh = Some(self.cwnd);
            }
        } else {
            self.credit += acked;
            while self.credit >= self.cwnd {
                self.credit -= self.cwnd;
                self.cwnd += self.mss;
            }
        }
    }
}

impl CongestionControl for Westwood {
    fn initial(&mut self, now: Time) -> Control {
        self.window_start = now;
        Control::window(self.cwnd)
    }

    fn on_event(&mut self, now: Time, event: &Event) -> Control {
        match event {
            Event::Ack(ack) => {
                self.measure(now, ack);
                if ack.persistent {
                    self.collapse(now, 2 * self.mss);
                } else if ack.congestion {
                    self.reduce(now);
                    self.cwnd = self.ssthresh.unwrap_or(self.cwnd);
                } else {
                    self.grow(now, ack);
                }
            }
            Event::Timeout { .. } => self.collapse(now, self.mss),
            Event::Spurious => {
                if let Some((cwnd, ssthresh)) = self.undo.take() {
                    self.cwnd = self.cwnd.max(cwnd);
                    self.ssthresh = ssthresh;
                }
            }
            // Idle time is no measure of the path.
            Event::Restart => {
                self.window_start = now;
                self.window_bytes = 0;
            }
            Event::Idle { window } => self.cwnd = self.cwnd.min(*window),
            Event::Mss(mss) => self.mss = *mss,
            Event::Timer => {}
        }
        Control::window(self.cwnd)
    }

    fn ssthresh(&self) -> Option<u64> {
        self.ssthresh
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("bw_bit_s", self.stages.map_or(0.0, |(_, rate)| rate as f64));
        record("rtt_min_s", self.rtt_min.seconds());
    }
}
