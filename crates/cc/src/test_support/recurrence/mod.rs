//! A sender of whole packets on a path with delay and loss only. It shares no code with the controllers. There is one
//! ACK per packet, in order. The window is cut once per round trip and does not grow for packets sent before the cut
//! (RFC 9002 section 7.3.2). The model includes the parts that the closed forms neglect: the round of recovery and
//! whole packets.

mod hybla;
mod westwood;

use std::collections::VecDeque;

pub use hybla::HyblaRecurrence;
use units::RandomStream;
pub use westwood::WestwoodRecurrence;

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
    /// Returns the initial window after the first RTT sample.
    fn on_first_sample(&mut self, window: f64) -> f64 {
        window
    }
    /// Returns the window after an acknowledged packet in slow start.
    fn on_acked_in_slow_start(&mut self, window: f64) -> f64 {
        window + 1.0
    }
}

/// Growth by one whole packet per window (RFC 5681 section 3.1 counts bytes).
#[derive(Clone, Copy, Debug, Default)]
struct WholePackets {
    acked: f64,
}

impl WholePackets {
    fn grow(&mut self, window: f64) -> f64 {
        self.acked += 1.0;
        if self.acked < window {
            return window;
        }
        self.acked -= window;
        window + 1.0
    }
}

/// RFC 5681: growth by one packet per window, half on a loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenoRecurrence {
    growth: WholePackets,
}

impl WindowAlgorithm for RenoRecurrence {
    fn on_acked(&mut self, _now: f64, window: f64) -> f64 {
        self.growth.grow(window)
    }

    fn on_cut(&mut self, _now: f64, window: f64) -> f64 {
        self.growth = WholePackets::default();
        window / 2.0
    }
}

/// RFC 9438 with C = 0.4, beta = 0.7 and optional fast convergence.
#[derive(Default)]
pub struct CubicRecurrence {
    rtt: f64,
    fast_convergence: bool,
    epoch: Option<f64>,
    w_max: f64,
    k: f64,
    w_est: f64,
    prior: f64,
}

impl CubicRecurrence {
    /// Returns CUBIC at an RTT of `rtt` seconds.
    pub fn new(rtt: f64, fast_convergence: bool) -> CubicRecurrence {
        CubicRecurrence { rtt, fast_convergence, ..CubicRecurrence::default() }
    }
}

impl WindowAlgorithm for CubicRecurrence {
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

/// One processed packet.
#[derive(Clone, Copy, Debug)]
pub struct ProcessedPacket {
    /// The number of the packet.
    pub number: u64,
    /// The time in seconds at which its ACK arrives or would arrive.
    pub now: f64,
    /// Whether it was delivered.
    pub is_delivered: bool,
    /// The window after it in packets.
    pub window: f64,
}

/// The sender.
pub struct PacketSender {
    rtt: f64,
    /// A loss is detected when the ACK of this many later packets has arrived; 0: when its own ACK would arrive.
    threshold: u64,
    /// Whether the window grows in slow start until the first cut.
    is_in_slow_start: bool,
    flight: VecDeque<(u64, f64)>,
    undetected: VecDeque<u64>,
    window: f64,
    next: u64,
    /// The first packet after the current recovery.
    recovery: u64,
    is_recovering: bool,
    has_sample: bool,
}

impl PacketSender {
    /// Returns a sender with a window of ten packets in congestion avoidance.
    pub fn new(rtt: f64) -> PacketSender {
        PacketSender {
            rtt,
            threshold: 0,
            is_in_slow_start: false,
            flight: VecDeque::new(),
            undetected: VecDeque::new(),
            window: 10.0,
            next: 0,
            recovery: 0,
            is_recovering: false,
            has_sample: false,
        }
    }

    /// Returns a sender in slow start that detects a loss by the packet threshold of RFC 9002 section 6.1.1.
    pub fn in_slow_start(rtt: f64) -> PacketSender {
        PacketSender { threshold: 3, is_in_slow_start: true, ..PacketSender::new(rtt) }
    }

    /// Fills the window and processes the oldest packet. `lost(n)` returns whether packet number `n` is lost.
    pub fn step(
        &mut self,
        law: &mut dyn WindowAlgorithm,
        lost: &mut dyn FnMut(u64) -> bool,
    ) -> Option<ProcessedPacket> {
        if self.next == 0 {
            self.fill(0.0);
        }
        let (number, sent) = self.flight.pop_front()?;
        let now = sent + self.rtt;
        let is_delivered = !lost(number);
        if is_delivered {
            self.deliver(law, now, number);
        } else {
            self.undetected.push_back(number);
        }
        let is_cut = self.detect(law, now, number);
        if is_delivered && !is_cut && number >= self.recovery {
            self.window = if self.is_in_slow_start {
                law.on_acked_in_slow_start(self.window)
            } else {
                law.on_acked(now, self.window)
            };
        }
        self.fill(now);
        Some(ProcessedPacket { number, now, is_delivered, window: self.window })
    }

    fn fill(&mut self, now: f64) {
        while ((self.flight.len() + self.undetected.len()) as f64) < self.window.floor().max(2.0) {
            self.flight.push_back((self.next, now));
            self.next += 1;
        }
    }

    fn deliver(&mut self, law: &mut dyn WindowAlgorithm, now: f64, number: u64) {
        law.on_delivered(now);
        if !std::mem::replace(&mut self.has_sample, true) {
            self.window = law.on_first_sample(self.window);
        }
        if number >= self.recovery && std::mem::take(&mut self.is_recovering) {
            self.window = law.on_recovered(self.window);
        }
    }

    /// Detects losses. Returns whether one of them cut the window.
    fn detect(&mut self, law: &mut dyn WindowAlgorithm, now: f64, number: u64) -> bool {
        let mut is_cut = false;
        while let Some(lost) = self.undetected.front().filter(|l| **l + self.threshold <= number) {
            if *lost >= self.recovery {
                if std::mem::replace(&mut self.is_recovering, true) {
                    self.window = law.on_recovered(self.window);
                }
                self.window = law.on_cut(now, self.window).max(2.0);
                self.recovery = self.next;
                self.is_in_slow_start = false;
                is_cut = true;
            }
            self.undetected.pop_front();
        }
        is_cut
    }
}

/// Returns the mean packets delivered per round trip of `rtt` seconds, over `packets`, after a tenth of them. `lost(n)`
/// returns whether packet number `n` is lost, which its ACK would show.
pub fn window(
    law: &mut dyn WindowAlgorithm,
    rtt: f64,
    packets: u64,
    lost: &mut dyn FnMut(u64) -> bool,
) -> f64 {
    let mut sender = PacketSender::new(rtt);
    let (mut delivered, mut from, mut counted, mut now) = (0u64, 0.0, 0, 0.0);
    while sender.next < packets
        && let Some(packet) = sender.step(law, lost)
    {
        now = packet.now;
        delivered += u64::from(packet.is_delivered);
        if packet.is_delivered && packet.number < packets / 10 {
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
