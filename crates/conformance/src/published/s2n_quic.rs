//! CUBIC round by round, as the recovery simulation of s2n-quic (a33d369, snapshots of 2026-08-21) publishes it: a round
//! trip of 200 ms, packets of 1,200 bytes, an initial window of ten packets, no pacing, no HyStart. A round sends its
//! window at once, and all ACKs arrive together. A round with a loss sends nothing else.
//!
//! A window may differ by one packet. Otherwise it must lie between W(t - RTT) and W(t) of RFC 9438, because the RFC
//! leaves open at which instant of a round the curve is evaluated.

use cc::{
    AckEvent, CongestionControl, ControlOutput, ControllerConfig, ControllerEvent, Estimator,
};
use serde_json::json;
use units::{Span, Time};

use super::case::{BuildWithOptionsFn, CheckOutcome, PublishedCheck};

/// The checks.
pub const CHECKS: &[PublishedCheck] = &[
    PublishedCheck {
        name: "cubic-rounds-slow-start",
        source: "s2n-quic, simulation without loss",
        controller: "cubic",
        run: |make| vec![slow_start(make).into()],
    },
    PublishedCheck {
        name: "cubic-rounds-one-loss",
        source: "s2n-quic, simulation of a loss at 3 MB; RFC 9438 section 4.2",
        controller: "cubic",
        run: |make| vec![one_loss(make).into()],
    },
    PublishedCheck {
        name: "cubic-rounds-app-limited",
        source: "s2n-quic, simulation of 1 MB a round; RFC 9438 section 4.2",
        controller: "cubic",
        run: |make| vec![application_limited(make).into()],
    },
    PublishedCheck {
        name: "cubic-rounds-least-window",
        source: "s2n-quic, simulation from the minimum window; RFC 9438 section 4.3",
        controller: "cubic",
        run: |make| vec![minimum_window(make).into()],
    },
];

const MSS: u64 = 1200;
const RTT: Span = Span::from_millis(200);

/// A sender that sends the packets of a round at one instant. They are acknowledged at one instant.
struct RoundSender {
    controller: Box<dyn CongestionControl>,
    control: ControlOutput,
    estimator: Estimator,
    now: Time,
}

impl RoundSender {
    fn new(make: BuildWithOptionsFn) -> RoundSender {
        let config = ControllerConfig {
            mss: MSS,
            initial_window: 10 * MSS,
            initial_rtt: RTT,
            seed: 1,
            is_paced: false,
        };
        let mut controller = make(&config, &json!({"slow_start_exit": "none"}));
        let control = controller.start(Time::ZERO);
        let now = Time::ZERO + Span::from_millis(1);
        RoundSender { controller, control, estimator: Estimator::default(), now }
    }

    fn send(&mut self, bytes: u64) {
        self.estimator.set_window(self.control.cwnd, MSS);
        self.estimator.on_sent(self.now, bytes);
    }

    fn report(&mut self, at: Time) {
        let ack: Option<AckEvent> = self.estimator.flush(at, RTT, RTT, &*self.controller);
        if let Some(ack) = ack {
            self.control = self.controller.on_event(at, &ControllerEvent::Ack(ack));
        }
    }

    /// Loses a packet now.
    fn lose(&mut self, is_persistent: bool) {
        self.send(MSS);
        self.estimator.on_lost(self.now, self.now, MSS, is_persistent);
        self.report(self.now);
    }

    /// Sends the window, or `limit` bytes if they are fewer, and acknowledges each packet a round trip later.
    fn exchange(&mut self, limit: u64) {
        let bytes = self.control.cwnd.min(limit);
        let packets = bytes.div_ceil(MSS);
        let size = |packet| if packet + 1 < packets { MSS } else { bytes - packet * MSS };
        for packet in 0..packets {
            self.send(size(packet));
        }
        if bytes < self.control.cwnd {
            self.estimator.mark_app_limited();
        }
        for packet in 0..packets {
            let at = self.now + RTT;
            self.estimator.on_acked(at, self.now, size(packet));
            self.report(at);
        }
    }

    /// Returns the windows in packets at the starts of `rounds` rounds, with a loss in the first round with a
    /// window of `loss_at` bytes or more.
    fn run(mut self, rounds: usize, mut loss_at: Option<u64>, limit: u64) -> Vec<f64> {
        let mut windows = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            windows.push(self.control.cwnd as f64 / MSS as f64);
            self.now += RTT;
            if loss_at.is_some_and(|bytes| self.control.cwnd >= bytes) {
                loss_at = None;
                self.lose(false);
            } else {
                self.exchange(limit);
            }
        }
        windows
    }
}

/// The window of RFC 9438 after a loss at `w_max` packets, `rounds` rounds after the start of avoidance.
fn rfc_window(w_max: f64, rounds: f64) -> f64 {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;
    let start = (BETA * w_max).max(2.0);
    let k = libm::cbrt((w_max - start) / C);
    let x = rounds * RTT.seconds() - k;
    let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
    // Section 4.3: the factor is 1 beyond the window before the loss.
    let until_prior = (w_max - start) / alpha;
    let reno = start + alpha * rounds.min(until_prior) + (rounds - until_prior).max(0.0);
    (C * x * x * x + w_max).max(reno)
}

/// Compares windows with published ones. `rfc(n)` is RFC 9438's window at round n.
fn compare(windows: &[f64], published: &[(usize, f64)], rfc: &dyn Fn(f64) -> f64) -> CheckOutcome {
    let (mut largest, mut by_rfc, mut wrong) = ((0.0, 0), 0, None);
    for (round, expected) in published {
        let window = windows[*round];
        let error = (window - expected).abs();
        if error <= 1.0 {
            largest = if error > largest.0 { (error, *round) } else { largest };
        } else if (rfc(*round as f64 - 1.0)..=rfc(*round as f64)).contains(&window) {
            by_rfc += 1;
        } else {
            wrong.get_or_insert(format!("round {round}: {window:.1} packets, required {expected}"));
        }
    }
    let detail = wrong.clone().unwrap_or_else(|| {
        let within = published.len() - by_rfc;
        let (error, round) = largest;
        format!(
            "{within} of {} rounds within 1 packet (most {error:.2} at round {round}), {by_rfc} \
             between W(t - RTT) and W(t)",
            published.len()
        )
    });
    (wrong.is_none(), detail)
}

/// Doubling from ten packets.
fn slow_start(make: BuildWithOptionsFn) -> CheckOutcome {
    let windows = RoundSender::new(make).run(12, None, u64::MAX);
    let published: Vec<_> = (0..12).map(|round| (round, 10.0 * (1u64 << round) as f64)).collect();
    compare(&windows, &published, &|_| f64::NAN)
}

/// A loss in the first round with at least 3,000,000 bytes.
fn one_loss(make: BuildWithOptionsFn) -> CheckOutcome {
    const PUBLISHED: &[(usize, f64)] = &[
        (8, 2560.0),
        (9, 1792.0),
        (10, 1815.0),
        (15, 1975.0),
        (20, 2116.0),
        (30, 2327.0),
        (40, 2457.0),
        (50, 2526.0),
        (60, 2554.0),
        (70, 2559.0),
        (80, 2561.0),
        (90, 2579.0),
        (100, 2632.0),
        (110, 2739.0),
        (120, 2920.0),
        (130, 3193.0),
        (134, 3333.0),
    ];
    let windows = RoundSender::new(make).run(135, Some(3_000_000), u64::MAX);
    compare(&windows, PUBLISHED, &|round| rfc_window(2560.0, round - 9.0))
}

/// 1,000,000 bytes a round, and a loss in the first round with at least 750,000 bytes. The published window stands still
/// at 888 packets, since that stack lets it grow until some packets of it are unused. RFC 9002 section 7.8 forbids
/// growth once the window exceeds the application's 834 packets; the last of these rounds still grows.
fn application_limited(make: BuildWithOptionsFn) -> CheckOutcome {
    const PUBLISHED: &[(usize, f64)] = &[
        (6, 640.0),
        (7, 448.0),
        (10, 481.0),
        (20, 578.0),
        (30, 624.0),
        (40, 638.0),
        (50, 640.0),
        (60, 647.0),
        (70, 680.0),
        (80, 758.0),
    ];
    const LIMIT: u64 = 1_000_000;
    let windows = RoundSender::new(make).run(120, Some(750_000), LIMIT);
    let (passed, detail) = compare(&windows, PUBLISHED, &|round| rfc_window(640.0, round - 7.0));
    let used = LIMIT.div_ceil(MSS) as f64;
    let end = windows[91];
    let stands = windows[91..].iter().all(|window| (window - end).abs() < 1.0);
    (
        passed && stands && (used - 1.0..=889.0).contains(&end),
        format!(
            "{detail}; from round 91 on {end:.0} packets, required constant and from the \
             application's {used} to the published 888"
        ),
    )
}

/// A window of two packets after persistent congestion, and a loss that ends slow start. The published growth is that of
/// an earlier RFC 8312; RFC 9438 section 4.3 grows by a whole packet a round from the window before the loss on.
fn minimum_window(make: BuildWithOptionsFn) -> CheckOutcome {
    const PUBLISHED: [f64; 10] = [2.0, 2.0, 2.0, 2.0, 2.0, 3.0, 4.0, 4.0, 5.0, 5.0];
    let mut sender = RoundSender::new(make);
    sender.lose(true);
    sender.now += Span::from_millis(1);
    sender.lose(false);
    let windows = sender.run(10, None, u64::MAX);
    let published: Vec<_> = PUBLISHED.into_iter().enumerate().collect();
    compare(&windows, &published, &|round| rfc_window(2.0, round))
}
