//! CUBIC (RFC 9438). Windows are in segments, as in the RFC. The output converts them to bytes.

use serde::Deserialize;
use serde_json::json;
use units::{Descriptor, Opt, Span, Time};

use crate::options::{CatalogueEntry, KernelTwin, parse_options};
use crate::slow_start::{self, SlowStart, SlowStartExit};
use crate::window::CongestionWindow;
use crate::{AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "cubic",
        spec_kind: "cubic",
        aliases: &[],
        title: "CUBIC",
        reference: "RFC 9438",
        options: &[
            Opt::choice("slow_start_exit", slow_start::EXIT_VALUES, slow_start::EXIT_DESCRIPTION)
                .default_word("hystart++"),
            Opt::choice(
                "avoidance",
                AVOIDANCE_VALUES,
                "congestion avoidance of RFC 9438, or of Linux's tcp_cubic",
            )
            .default_word("rfc9438"),
            Opt::flag(
                "fast_convergence",
                "release capacity faster when the window at loss is falling (section 4.7)",
            )
            .default_flag(true),
            Opt::number("beta", 0.1, 0.95, "beta_cubic: factor of the window on congestion")
                .default_number(0.7),
            Opt::number(
                "c",
                0.001,
                100.0,
                "C: the aggressiveness of the cubic, segments per second cubed",
            )
            .default_number(0.4),
        ],
        draws: false,
        live_name: "",
    },
    kernel: Some(KernelTwin {
        name: "cubic",
        title: "CUBIC with HyStart (tcp_cubic.c)",
        // beta 717/1024, C 0.4 (bic_scale 41), HyStart with both detectors
        options: || {
            json!({
                "slow_start_exit": "classic", "avoidance": "linux", "fast_convergence": true,
                "beta": 0.7, "c": 0.4,
            })
        },
    }),
    build: |options, config| Ok(Box::new(Cubic::new(parse_options(options)?, config))),
};

const AVOIDANCE_VALUES: &[&str] = &["rfc9438", "linux"];

/// The option `avoidance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum CubicAvoidance {
    /// RFC 9438.
    #[serde(rename = "rfc9438")]
    Rfc9438,
    /// Linux's tcp_cubic (bictcp_update). alpha_cubic does not change when the Reno-friendly window reaches cwnd_prior.
    /// The larger growth of both curves applies. The cubic curve is evaluated one minimum RTT ahead. Before the first
    /// loss and after a timeout, the window grows by at least 5 % per round trip.
    #[serde(rename = "linux")]
    Linux,
}

/// Linux: one segment for every 20 acknowledged, while W_max is unknown.
const MIN_GROWTH: f64 = 1.0 / 20.0;

/// The scenario's options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The slow-start exit. RFC 9438 section 4.10: HyStart++ SHOULD be used in the initial slow start.
    pub slow_start_exit: SlowStartExit,
    /// The growth function of congestion avoidance.
    pub avoidance: CubicAvoidance,
    /// Fast convergence (section 4.7), which SHOULD be on.
    pub fast_convergence: bool,
    /// beta_cubic (section 4.6).
    pub beta: f64,
    /// C (section 5).
    pub c: f64,
}

/// The current congestion-avoidance stage.
#[derive(Clone, Copy, Debug)]
struct CubicEpoch {
    /// t_epoch. It advances while the application limits the sender (section 4.2).
    start: Time,
    /// K in seconds.
    k: f64,
    /// W_max of this stage in segments.
    w_max: f64,
    /// W_est, the Reno-friendly estimate, in segments.
    w_est: f64,
}

/// The state of the growth curve.
#[derive(Clone, Copy, Debug)]
struct CubicCurve {
    /// W_max of the last reduction. `None` before the first reduction and after a timeout.
    w_max: Option<f64>,
    /// cwnd_prior: the window when the threshold was last set.
    cwnd_prior: f64,
    epoch: Option<CubicEpoch>,
}

impl CubicCurve {
    /// Converts the state to segments of another size.
    fn rescale(&mut self, factor: f64) {
        self.cwnd_prior *= factor;
        self.w_max = self.w_max.map(|w| w * factor);
        if let Some(epoch) = &mut self.epoch {
            epoch.w_max *= factor;
            epoch.w_est *= factor;
        }
    }
}

/// The CUBIC controller.
#[derive(Clone, Debug)]
pub struct Cubic {
    options: Options,
    /// cwnd and ssthresh in segments.
    window: CongestionWindow<f64>,
    curve: CubicCurve,
    /// The curve before the last reduction, for the undo.
    saved_curve: CubicCurve,
    last_event: Time,
    slow_start: SlowStart,
}

impl Cubic {
    /// Returns a controller in slow start.
    pub fn new(options: Options, config: &ControllerConfig) -> Cubic {
        let window = CongestionWindow::new_in_segments(config);
        let curve = CubicCurve { w_max: None, cwnd_prior: window.cwnd, epoch: None };
        Cubic {
            slow_start: SlowStart::new(options.slow_start_exit, config),
            options,
            window,
            curve,
            saved_curve: curve,
            last_event: Time::ZERO,
        }
    }

    fn on_ack(&mut self, now: Time, ack: &AckEvent) {
        self.window.on_acknowledged(ack.acked);
        if ack.is_persistent_congestion {
            // RFC 9002 section 7.6.2 and RFC 9438 section 4.8: the response is that of a timeout.
            self.reduce(now);
            self.restart(now, 2.0);
        } else if ack.is_congestion_event {
            self.reduce(now);
        } else if self.window.is_in_slow_start() {
            // Section 4.10.
            let window = &mut self.window;
            let verdict = self.slow_start.on_ack(now, ack, window.in_bytes());
            window.cwnd += window.in_segments(verdict.growth(ack));
            if verdict.is_finished {
                window.ssthresh = Some(window.cwnd);
                self.curve.cwnd_prior = window.cwnd;
            }
        } else {
            self.grow_in_avoidance(now, ack);
        }
        self.last_event = now;
    }

    /// Grows the window in congestion avoidance (sections 4.2 to 4.5).
    fn grow_in_avoidance(&mut self, now: Time, ack: &AckEvent) {
        let acked = self.window.in_segments(ack.credited());
        if acked <= 0.0 {
            // Section 4.2: the epoch excludes application-limited time.
            if !ack.is_cwnd_limited
                && let Some(epoch) = &mut self.curve.epoch
            {
                epoch.start += now.since(self.last_event);
            }
            return;
        }
        let cwnd = self.window.cwnd;
        let c = self.options.c;
        let CubicCurve { w_max, cwnd_prior, epoch } = &mut self.curve;
        let w_max = *w_max;
        let linux = self.options.avoidance == CubicAvoidance::Linux;
        let epoch = epoch.get_or_insert_with(|| {
            // Section 4.2, figure 2: K = cbrt((W_max - cwnd_epoch) / C). Without W_max the curve starts at its plateau:
            // K = 0 and W_max = cwnd. This applies after a timeout (section 4.8), after slow start without loss, and
            // above W_max.
            let w_max = w_max.unwrap_or(cwnd).max(cwnd);
            CubicEpoch { start: now, k: libm::cbrt((w_max - cwnd) / c), w_max, w_est: cwnd }
        });
        let t = now.since(epoch.start).seconds();
        // Section 4.3: W_est grows by alpha_cubic * segments_acked / cwnd; alpha_cubic becomes 1 once W_est has reached
        // cwnd_prior.
        let beta = self.options.beta;
        let reached = epoch.w_est >= *cwnd_prior && !linux;
        let alpha = if reached { 1.0 } else { 3.0 * (1.0 - beta) / (1.0 + beta) };
        epoch.w_est += alpha * acked / cwnd;
        if linux {
            let ahead = t + ack.min_rtt.seconds();
            let min_growth = if w_max.is_none() { MIN_GROWTH } else { 0.0 };
            let growth = (w_cubic(c, epoch, ahead).max(epoch.w_est) - cwnd) / cwnd;
            self.window.cwnd += growth.clamp(min_growth, 0.5) * acked.min(cwnd);
        } else if w_cubic(c, epoch, t) < epoch.w_est {
            // Section 4.3: the Reno-friendly region.
            self.window.cwnd = cwnd.max(epoch.w_est);
        } else {
            // Section 4.2: target = clamp(W_cubic(t + RTT), cwnd, 1.5 cwnd); sections 4.4 and 4.5:
            // (target - cwnd) / cwnd for every segment acknowledged.
            let ahead = t + ack.smoothed_rtt.seconds();
            let target = w_cubic(c, epoch, ahead).clamp(cwnd, 1.5 * cwnd);
            self.window.cwnd += (target - cwnd) / cwnd * acked.min(cwnd);
        }
    }

    /// Reduces window and threshold (sections 4.6 and 4.7). The window represents the flight. It exceeds the flight
    /// only while data or flow control limits the sender: at most twofold, in slow start.
    fn reduce(&mut self, now: Time) {
        let cwnd = self.window.cwnd;
        let falling = self.curve.w_max.is_some_and(|w_max| cwnd < w_max);
        let w_max = if falling && self.options.fast_convergence {
            cwnd * (1.0 + self.options.beta) / 2.0
        } else {
            cwnd
        };
        self.saved_curve = self.curve;
        self.curve = CubicCurve { w_max: Some(w_max), cwnd_prior: cwnd, epoch: None };
        self.window.cwnd = self.window.reduce(cwnd * self.options.beta);
        self.slow_start.on_reduction(now, false);
    }

    /// Restarts slow start from `cwnd` (section 4.8). The next stage begins with K = 0 and W_max = cwnd.
    fn restart(&mut self, now: Time, cwnd: f64) {
        self.curve.w_max = None;
        self.window.cwnd = cwnd;
        self.slow_start.on_reduction(now, true);
    }
}

/// Returns W_cubic(t) = C (t - K)^3 + W_max (section 4.2, figure 1).
fn w_cubic(c: f64, epoch: &CubicEpoch, t: f64) -> f64 {
    let x = t - epoch.k;
    c * x * x * x + epoch.w_max
}

impl CongestionControl for Cubic {
    fn start(&mut self, now: Time) -> ControlOutput {
        self.last_event = now;
        self.window.control()
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        match event {
            ControllerEvent::Ack(ack) => self.on_ack(now, ack),
            ControllerEvent::Timeout { .. } => {
                if self.window.on_timeout() {
                    self.reduce(now);
                }
                self.restart(now, 1.0);
            }
            // Section 4.9: restore the state if the window is still below its saved value.
            ControllerEvent::SpuriousLoss => {
                if self.window.undo_if_below() {
                    self.curve = self.saved_curve;
                }
            }
            ControllerEvent::MssChanged(mss) => {
                let factor = self.window.set_mss(*mss);
                self.curve.rescale(factor);
            }
            // Section 5.8: the epoch excludes the idle time.
            ControllerEvent::RestartFromIdle => {
                let idle: Span = now.since(self.last_event);
                if let Some(epoch) = &mut self.curve.epoch {
                    epoch.start += idle;
                }
                self.last_event = now;
            }
            ControllerEvent::CwndRestart { window } => self.window.apply_restart_window(*window),
            ControllerEvent::Timer => {}
        }
        self.window.control()
    }

    fn ssthresh(&self) -> Option<u64> {
        self.window.ssthresh_in_bytes()
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        let CubicCurve { w_max, epoch, .. } = self.curve;
        record("w_max", epoch.map_or(w_max.unwrap_or(0.0), |epoch| epoch.w_max));
        record("w_est", epoch.map_or(0.0, |epoch| epoch.w_est));
        record("k_s", epoch.map_or(0.0, |epoch| epoch.k));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::sample_ack;

    const MSS: u64 = 1200;

    fn cubic() -> Cubic {
        let config = ControllerConfig {
            mss: MSS,
            initial_window: 100 * MSS,
            initial_rtt: Span::from_millis(333),
            seed: 1,
            is_paced: true,
        };
        Cubic::new(ENTRY.default_options(), &config)
    }

    fn loss(persistent: bool) -> ControllerEvent {
        ControllerEvent::Ack(AckEvent {
            lost: MSS,
            is_congestion_event: true,
            is_persistent_congestion: persistent,
            ..sample_ack()
        })
    }

    /// Sections 4.6 and 4.7: 100 -> 70 -> 49; the second W_max is 70 (1 + 0.7) / 2 = 59.5.
    #[test]
    fn reduces_and_converges_fast() {
        let mut cubic = cubic();
        assert_eq!(cubic.on_event(Time(1), &loss(false)).cwnd, 70 * MSS);
        assert_eq!(cubic.curve.w_max, Some(100.0));
        assert_eq!(cubic.on_event(Time(2), &loss(false)).cwnd, 49 * MSS);
        assert!((cubic.curve.w_max.unwrap() - 59.5).abs() < 1e-9);
    }

    /// Section 4.9: undo of a spurious reduction.
    #[test]
    fn undoes_a_spurious_reduction() {
        let mut cubic = cubic();
        cubic.on_event(Time(1), &loss(false));
        assert_eq!(cubic.on_event(Time(2), &ControllerEvent::SpuriousLoss).cwnd, 100 * MSS);
        assert_eq!((cubic.ssthresh(), cubic.curve.w_max), (None, None));
    }

    /// Acknowledges `windows` times the window at one instant, in steps of a hundredth.
    fn acknowledge(cubic: &mut Cubic, now: Time, windows: u32) {
        for _ in 0..windows {
            let acked = cubic.window.in_bytes() / 100;
            for _ in 0..100 {
                let ack = AckEvent { acked, is_cwnd_limited: true, ..sample_ack() };
                cubic.on_event(now, &ControllerEvent::Ack(ack));
            }
        }
    }

    /// After HyStart and before the first loss: a factor of 1.05 per acknowledged window. The RFC's curve is flat here.
    #[test]
    fn linux_grows_by_five_per_cent_before_the_first_loss() {
        for (avoidance, factor) in [(CubicAvoidance::Linux, 1.05), (CubicAvoidance::Rfc9438, 1.0)] {
            let mut cubic = cubic();
            cubic.options.avoidance = avoidance;
            cubic.window.ssthresh = Some(100.0);
            acknowledge(&mut cubic, Time(1), 1);
            assert!((cubic.window.cwnd / 100.0 - factor).abs() < 0.011, "{}", cubic.window.cwnd);
        }
    }

    /// Section 4.3: alpha is 0.53 up to the previous window of 100, then 1. In Linux it remains 0.53.
    #[test]
    fn linux_does_not_change_alpha_at_cwnd_prior() {
        let mut found = Vec::new();
        for avoidance in [CubicAvoidance::Rfc9438, CubicAvoidance::Linux] {
            let mut cubic = Cubic {
                options: Options { avoidance, c: 0.001, ..ENTRY.default_options() },
                ..cubic()
            };
            cubic.on_event(Time(1), &loss(false));
            acknowledge(&mut cubic, Time(2), 57);
            let reached = cubic.window.cwnd;
            acknowledge(&mut cubic, Time(2), 20);
            found.push((reached, cubic.window.cwnd - reached));
        }
        for (reached, _) in &found {
            assert!((reached - 100.0).abs() < 2.0, "{found:?}");
        }
        assert!((found[0].1 - 20.0).abs() < 1.5, "{found:?}");
        assert!((found[1].1 - 20.0 * 9.0 / 17.0).abs() < 1.0, "{found:?}");
    }

    /// Section 4.8: one or two segments, a threshold by beta_cubic, no W_max. A repeated timeout does not change the
    /// threshold.
    #[test]
    fn collapses_on_timeout_and_persistent_congestion() {
        let mut cubic = cubic();
        assert_eq!(cubic.on_event(Time(1), &loss(true)).cwnd, 2 * MSS);
        assert_eq!((cubic.ssthresh(), cubic.curve.w_max), (Some(70 * MSS), None));
        let mut cubic = self::cubic();
        for _ in 0..3 {
            let timeout = ControllerEvent::Timeout { flight_size: 100 * MSS, in_flight: 0 };
            assert_eq!(cubic.on_event(Time(1), &timeout).cwnd, MSS);
            assert_eq!(cubic.ssthresh(), Some(70 * MSS));
        }
    }
}
