//! A sender of whole packets on a path with delay and loss only, independent of the controllers. There is one ACK per
//! packet, in order, and a loss is detected when its ACK would arrive. The window is cut once per round trip and does
//! not grow for packets sent before the cut (RFC 9002 section 7.3.2). The model includes the parts that the closed
//! forms neglect: the round of recovery and whole packets.

mod westwood;

use std::collections::VecDeque;

use units::RandomStream;
pub use westwood::Westwood;

/// Growth and reduction of a window in packets.
pub trait WindowAlgorithm {
    /// Returns the window after a packet sent after the last cut was acknowledged at `now`, in seconds.
    fn on_acked(&mut self, now: f64, window: f64) -> f64;
    /// Returns the window after a cut at `now`.
    fn on_cut(&mut self, now: f64, window: f64) -> f64;
    /// Records a packet delivered at `now`, in recovery or not.
    fn on_delivered(&mut self, _now: f64) {}
    /// Records that the ACK that ends a recovery of TCP also covers `packets` delivered before.
    fn on_repeated_ack(&mut self, _packets: u64) {}
    /// Returns the window after the round of recovery.
    fn on_recovered(&mut self, window: f64) -> f64 {
        window
    }
}

/// RFC 5681: growth by one packet per window, half on a loss.
pub struct Reno;

impl WindowAlgorithm for Reno {
    fn on_acked(&mut self, _now: f64, window: f64) -> f64 {
        window + 1.0 / window
    }

    fn on_cut(&mut self, _now: f64, window: f64) -> f64 {
        window / 2.0
    }
}

/// RFC 9438 with C = 0.4, beta = 0.7 and optional fast convergence.
#[derive(Default)]
pub struct Cubic {
    rtt: f64,
    fast_convergence: bool,
    epoch: Option<f64>,
    w_max: f64,
    k: f64,
    w_est: f64,
    prior: f64,
}

impl Cubic {
    /// Returns CUBIC at an RTT of `rtt` seconds.
    pub fn new(rtt: f64, fast_convergence: bool) -> Cubic {
        Cubic { rtt, fast_convergence, ..Cubic::default() }
    }
}

impl WindowAlgorithm for Cubic {
    fn on_acked(&mut self, now: f64, window: f64) -> f64 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.k = libm::cbrt((self.w_max - window).max(0.0) / 0.4);
            self.w_est = window;
            now
        });
        let cubic = |t: f64| 0.4 * (t - self.k) * (t - self.k) * (t - self.k) + self.w_max;
        let alpha = if self.w_est >= self.prior { 1.0 } else { 3.0 * 0.3 / 1.7 };
        self.w_est += alpha / window;
        if cubic(now - epoch) < self.w_est {
            return self.w_est.max(window);
        }
        let target = cubic(now - epoch + self.rtt).clamp(window, 1.5 * window);
        window + (target - window) / window
    }

    fn on_cut(&mut self, _now: f64, window: f64) -> f64 {
        let shrinks = self.fast_convergence && window < self.w_max;
        self.w_max = if shrinks { window * 0.85 } else { window };
        self.prior = window;
        self.epoch = None;
        window * 0.7
    }
}

/// Returns the mean packets delivered per round trip of `rtt` seconds, over `packets`, after a tenth of them. `lost(n)`
/// returns whether packet number `n` is lost.
pub fn window(
    law: &mut dyn WindowAlgorithm,
    rtt: f64,
    packets: u64,
    lost: &mut dyn FnMut(u64) -> bool,
) -> f64 {
    let mut flight = VecDeque::new();
    let (mut window, mut now, mut next, mut recovery, mut delivered) =
        (10.0f64, 0.0, 0u64, 0u64, 0u64);
    let (mut from, mut counted) = (0.0, 0);
    let mut recovering = false;
    while next < packets {
        while (flight.len() as f64) < window.floor().max(2.0) {
            flight.push_back((next, now));
            next += 1;
        }
        let Some((number, sent)) = flight.pop_front() else { break };
        now = sent + rtt;
        let lost = lost(number);
        if !lost {
            delivered += 1;
            law.on_delivered(now);
        }
        if number >= recovery && std::mem::take(&mut recovering) {
            window = law.on_recovered(window);
        }
        if lost {
            if number >= recovery {
                recovering = true;
                window = law.on_cut(now, window).max(2.0);
                recovery = next;
            }
            continue;
        }
        if number >= recovery {
            window = law.on_acked(now, window);
        }
        if number < packets / 10 {
            (from, counted) = (now, delivered);
        }
    }
    (delivered - counted) as f64 * rtt / (now - from)
}

/// Returns independent losses of probability `p`.
pub fn independent(p: f64) -> impl FnMut(u64) -> bool {
    let mut random = RandomStream::named(11, "recurrence", "loss");
    move |_| random.chance(p)
}

/// Returns the loss of every `n`-th packet.
pub fn every(n: u64) -> impl FnMut(u64) -> bool {
    move |number| number % n == n - 1
}
