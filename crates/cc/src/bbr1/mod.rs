//! BBRv1 (Cardwell et al., CACM 2017, doi:10.1145/3009824) as in Linux's `tcp_bbr`. The pacing rate is the maximum
//! delivery rate of the last ten rounds, and the window two bandwidth-delay products. A loss causes only one round of
//! packet conservation.
//!
//! Differences from Linux (6.x):
//! - Recovery lasts until a whole round has passed without loss (`recover_or_restore`).
//! - Units are bytes instead of packets: no value is rounded to whole or to even numbers of packets.
//! - The gains are 2.885 and its inverse, not 739/256 and 88/256.
//! - The flight is the data outstanding now, not at the next paced departure.
//! - The window remains at four packets at least also during packet conservation and after a timeout. A burst has at
//!   least two packets also below 1.2 Mb/s.
//! - Delayed ACKs count as samples of the minimum RTT.
//! - The policer detector is off by default.
//!
//! As in Linux since 5.10, only a lower RTT postpones PROBE_RTT, not an equal one. ECN marks are not a signal.

mod model;
mod policer;
mod states;

use serde::Deserialize;
use serde_json::json;
use units::{Descriptor, Opt, RandomStream, Rate, Span, Time};

use crate::bbr_common::{Cwnd, FullPipe, PACING_MARGIN, PacingRate, ProbeRtt, RoundCounter};
use crate::max_filter::WindowedMax;
use crate::options::{CatalogueEntry, KernelTwin, parse_options};
use crate::{AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent};
use model::AckAggregation;
use policer::PolicerDetector;
use states::{Mode, PACING_GAIN_CYCLE};

/// The catalogue entry.
pub const ENTRY: CatalogueEntry = CatalogueEntry {
    descriptor: Descriptor {
        scenario_name: "bbr1",
        spec_kind: "bbr1",
        aliases: &[],
        title: "BBRv1",
        reference: "Cardwell et al. 2017, doi:10.1145/3009824, and Linux tcp_bbr",
        options: &[
            Opt::flag(
                "policer_detection",
                "estimate the long-term rate of a token-bucket policer (lt_bw)",
            )
            .default_flag(false),
            Opt::flag(
                "probe_rtt",
                "reduce the flight to four packets when the minimum RTT is 10 s old",
            )
            .default_flag(true),
        ],
        draws: true,
        live_name: "",
    },
    kernel: Some(KernelTwin {
        name: "bbr",
        title: "BBR version 1 (tcp_bbr.c)",
        // lt_bw and PROBE_RTT cannot be disabled in the kernel
        options: || json!({"policer_detection": true, "probe_rtt": true}),
    }),
    build: |options, config| Ok(Box::new(Bbr1::new(parse_options(options)?, config))),
};

/// The scenario's options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Whether to detect policers. Off by default, because random loss above 20 % also triggers the detection.
    pub policer_detection: bool,
    /// Whether to enter PROBE_RTT.
    pub probe_rtt: bool,
}

/// 2 / ln 2, as rounded by Linux: the lowest gain that doubles the rate each round.
const HIGH_GAIN: f64 = 2885.0 / 1000.0;
/// The inverse gain: drains the queue of STARTUP in one round.
const DRAIN_GAIN: f64 = 1000.0 / 2885.0;
const CWND_GAIN: f64 = 2.0;

/// The BBRv1 controller. Bandwidths are in bit/s.
#[derive(Clone, Debug)]
pub struct Bbr1 {
    options: Options,
    random: RandomStream,
    mode: Mode,
    cwnd: Cwnd,
    pacing: PacingRate,
    idle_restart: bool,
    // Model.
    rounds: RoundCounter,
    bw: WindowedMax,
    min_rtt: Span,
    min_rtt_stamp: Time,
    full_pipe: FullPipe,
    aggregation: AckAggregation,
    policer: PolicerDetector,
    // States.
    cycle_index: usize,
    cycle_stamp: Time,
    probe_rtt: ProbeRtt,
    // Recovery.
    is_in_recovery: bool,
    /// Bytes delivered when the last loss was detected.
    recovery_delivered: u64,
    delivered: u64,
    packet_conservation: bool,
}

impl Bbr1 {
    /// Returns a controller in STARTUP.
    pub fn new(options: Options, config: &ControllerConfig) -> Bbr1 {
        Bbr1 {
            options,
            random: RandomStream::named(config.seed, "bbr", "probe"),
            mode: Mode::Startup,
            cwnd: Cwnd::new(config.mss, config.initial_window),
            pacing: PacingRate::new(initial_rate(config.initial_window, Span::from_millis(1))),
            idle_restart: false,
            rounds: RoundCounter::default(),
            bw: WindowedMax::default(),
            min_rtt: Span::MAX,
            min_rtt_stamp: Time::ZERO,
            full_pipe: FullPipe::default(),
            aggregation: AckAggregation::default(),
            policer: PolicerDetector::default(),
            cycle_index: 0,
            cycle_stamp: Time::ZERO,
            probe_rtt: ProbeRtt::default(),
            is_in_recovery: false,
            recovery_delivered: 0,
            delivered: 0,
            packet_conservation: false,
        }
    }

    fn on_ack(&mut self, now: Time, ack: &AckEvent) {
        let ack = &self.probe_rtt.mark_samples(ack);
        self.delivered = ack.delivered;
        self.update_model(now, ack);
        self.set_pacing_rate(ack);
        self.set_cwnd(ack);
        if ack.is_persistent_congestion {
            self.on_collapse(ack.in_flight);
        }
    }

    fn update_model(&mut self, now: Time, ack: &AckEvent) {
        self.update_bw(now, ack);
        self.update_aggregation(now, ack);
        self.update_cycle_phase(now, ack);
        self.check_full_bw_reached(ack);
        self.check_drain(now, ack);
        self.update_min_rtt(now, ack);
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw if self.policer.is_in_use() => 1.0,
            Mode::ProbeBw => PACING_GAIN_CYCLE[self.cycle_index],
            Mode::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw => CWND_GAIN,
            Mode::ProbeRtt => 1.0,
        }
    }

    fn set_pacing_rate(&mut self, ack: &AckEvent) {
        let window = self.cwnd.initial_cwnd;
        self.pacing.init_once(ack, |rtt| initial_rate(window, rtt));
        self.pacing.set(self.pacing_gain(), self.bandwidth(), self.full_pipe.is_full_bw_reached);
    }

    fn quantum(&self) -> u64 {
        self.pacing.quantum(self.cwnd.mss)
    }

    fn set_cwnd(&mut self, ack: &AckEvent) {
        if !self.recover_or_restore(ack) && ack.acked > 0 {
            let target = self.target_cwnd();
            self.cwnd.grow(ack.acked, target, self.full_pipe.is_full_bw_reached, ack.delivered);
        }
        let min_cwnd = self.cwnd.min_pipe_cwnd();
        let probes = self.mode == Mode::ProbeRtt;
        self.cwnd.bytes = if probes { min_cwnd } else { self.cwnd.bytes.max(min_cwnd) };
    }

    /// Applies packet conservation in the first round of a recovery: the sender sends the number of bytes that arrive.
    /// Later rounds grow as usual, and the end of recovery restores the earlier window.
    ///
    /// A recovery lasts until a whole round has passed without loss. Random loss of more than a packet per round
    /// therefore causes one long recovery with one round of conservation. Linux (where lost retransmissions prolong
    /// recovery) and Chromium behave alike. A recovery that ended with the first ACK without loss would reduce the
    /// flight in every round.
    ///
    /// Returns true if the window is final for this event.
    fn recover_or_restore(&mut self, ack: &AckEvent) -> bool {
        if self.rounds.is_round_start {
            self.packet_conservation = false;
        }
        if ack.lost > 0 {
            self.recovery_delivered = ack.delivered;
            if self.is_in_recovery {
                self.cwnd.bytes = self.cwnd.bytes.saturating_sub(ack.lost).max(self.cwnd.mss);
            } else {
                self.save_cwnd();
                self.is_in_recovery = true;
                self.packet_conservation = true;
                self.rounds.begin(ack.delivered);
                self.cwnd.bytes = ack.in_flight + ack.acked;
            }
        } else if self.is_in_recovery
            && !ack.is_in_rto_recovery
            && ack
                .rate_sample
                .is_some_and(|sample| sample.prior_delivered >= self.recovery_delivered)
        {
            self.is_in_recovery = false;
            self.packet_conservation = false;
            self.cwnd.restore();
        }
        if self.packet_conservation {
            self.cwnd.bytes = self.cwnd.bytes.max(ack.in_flight + ack.acked);
        }
        self.packet_conservation
    }

    /// Saves the window for the end of recovery or PROBE_RTT.
    fn save_cwnd(&mut self) {
        self.cwnd.save(self.is_in_recovery || self.mode == Mode::ProbeRtt);
    }

    /// Handles a timeout or persistent congestion: the window falls to the flight and one packet, and the pipe counts
    /// as unfilled. The end of recovery restores the saved window.
    fn on_collapse(&mut self, in_flight: u64) {
        self.save_cwnd();
        self.full_pipe.full_bw = 0;
        self.is_in_recovery = true;
        self.recovery_delivered = self.delivered;
        self.packet_conservation = false;
        let window = (in_flight + self.cwnd.mss).min(self.cwnd.bytes);
        self.cwnd.bytes = window.max(self.cwnd.min_pipe_cwnd());
    }

    fn control(&self) -> ControlOutput {
        ControlOutput {
            cwnd: self.cwnd.bytes,
            pacing_rate: Some(Rate(self.pacing.rate)),
            quantum: Some(self.quantum()),
            timer_at: Time::MAX,
        }
    }
}

/// Returns the rate in bit/s of the initial window per RTT at the gain of STARTUP.
fn initial_rate(window: u64, rtt: Span) -> u64 {
    (HIGH_GAIN * PACING_MARGIN * window as f64 * 8e9 / rtt.nanos().max(1) as f64) as u64
}

impl CongestionControl for Bbr1 {
    fn start(&mut self, now: Time) -> ControlOutput {
        self.min_rtt_stamp = now;
        self.aggregation.restart(now);
        self.control()
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        match event {
            ControllerEvent::Ack(ack) => self.on_ack(now, ack),
            ControllerEvent::Timeout { in_flight, .. } => self.on_collapse(*in_flight),
            // Linux: reset the plateau and the policer detector, and restore the window.
            ControllerEvent::SpuriousLoss => {
                self.full_pipe.reset();
                self.policer = PolicerDetector::default();
                self.cwnd.restore();
                self.is_in_recovery = false;
                self.packet_conservation = false;
            }
            ControllerEvent::RestartFromIdle => {
                self.idle_restart = true;
                self.aggregation.restart(now);
                match self.mode {
                    // Restart at the estimated rate, without a probe.
                    Mode::ProbeBw => {
                        self.pacing.rate =
                            ((self.bandwidth() as f64 * PACING_MARGIN) as u64).max(1);
                    }
                    Mode::ProbeRtt if self.probe_rtt.is_done(now) => self.probe_rtt_done(now),
                    _ => {}
                }
            }
            ControllerEvent::MssChanged(mss) => self.cwnd.mss = *mss,
            ControllerEvent::CwndRestart { .. } | ControllerEvent::Timer => {}
        }
        self.control()
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        record("mode", self.mode as u8 as f64);
        record("bw_bit_s", self.bandwidth() as f64);
        record("min_rtt_s", self.min_rtt.seconds());
        record("pacing_gain", self.pacing_gain());
        record("extra_acked", self.aggregation.extra() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RateSample;
    use crate::test_support::sample_ack;

    /// The window before a timeout returns with the ACK of later data that repairs the last of its losses, not earlier.
    #[test]
    fn the_window_returns_after_a_timeout() {
        let mss = 1200;
        let config = ControllerConfig {
            mss,
            initial_window: 100 * mss,
            initial_rtt: Span::from_millis(333),
            seed: 1,
            is_paced: true,
        };
        let mut bbr = Bbr1::new(ENTRY.default_options(), &config);
        let mut take = |event| bbr.on_event(Time::ZERO + Span::from_secs(1), &event).cwnd;
        let ack = |delivered, prior_delivered, is_in_rto_recovery| {
            let sample = RateSample {
                delivered: 50 * mss,
                interval: Span::from_millis(100),
                rate: Rate(4_800_000),
                prior_delivered,
                tx_in_flight: 50 * mss,
                lost: 0,
                is_app_limited: false,
            };
            let sample = Some(sample);
            ControllerEvent::Ack(AckEvent {
                delivered,
                rate_sample: sample,
                is_in_rto_recovery,
                ..sample_ack()
            })
        };
        let before = take(ack(50 * mss, 0, false));
        assert_eq!(take(ControllerEvent::Timeout { flight_size: 3 * mss, in_flight: 0 }), 4 * mss);
        assert_eq!(take(ack(51 * mss, 20 * mss, true)), 5 * mss);
        assert_eq!(take(ack(52 * mss, 50 * mss, true)), 6 * mss);
        assert!(take(ack(53 * mss, 50 * mss, false)) >= before);
    }
}
