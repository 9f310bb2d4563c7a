//! HyStart (Ha and Rhee 2011, doi:10.1016/j.comnet.2011.01.014) with the constants and rules of
//! Linux's `tcp_cubic`: slow start ends when a train of closely spaced ACKs has lasted a whole
//! least RTT, or when the delay of a round has risen by an eighth of it.
//!
//! The paper ends the train after half the least RTT; Linux, since 2020, after the whole if the
//! sender is paced, because pacing spreads the train over the round. Every sender here is paced.
//!
//! Two differences: a round begins with the ACK that the shared estimator counts, also while the
//! window is below 16 packets (Linux begins one with the first ACK above them), and the samples of
//! the first second after a recovery count.

use units::{Span, Time};

use super::Verdict;
use crate::{Ack, Config};

// Linux tcp_cubic: hystart_low_window, hystart_ack_delta_us, HYSTART_MIN_SAMPLES, and the clamp
// HYSTART_DELAY_THRESH.
const LOW_WINDOW: u64 = 16;
const ACK_DELTA: Span = Span::from_millis(2);
const MIN_SAMPLES: u32 = 8;
const DELAY_MIN: Span = Span::from_millis(4);
const DELAY_MAX: Span = Span::from_millis(16);
/// Linux adds the time of four maximal bursts, at most 1 ms, to the train; we take the most.
const ACK_DELAY: Span = Span::from_millis(1);

/// HyStart of one connection.
#[derive(Clone, Debug)]
pub struct Classic {
    low_window: u64,
    round_start: Time,
    last_ack: Time,
    current_rtt: Span,
    samples: u32,
}

impl Classic {
    /// Before the first round.
    pub fn new(config: &Config) -> Classic {
        Classic {
            low_window: LOW_WINDOW * config.mss,
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            current_rtt: Span::MAX,
            samples: 0,
        }
    }

    /// A new round begins.
    pub fn reset(&mut self, now: Time) {
        self.round_start = now;
        self.last_ack = now;
        self.current_rtt = Span::MAX;
        self.samples = 0;
    }

    /// One ACK of slow start.
    pub fn on_ack(&mut self, now: Time, ack: &Ack, cwnd: u64) -> Verdict {
        if ack.round_start {
            self.reset(now);
        }
        let exit = Verdict { divisor: 1, over: true };
        if cwnd < self.low_window {
            return Verdict::GO_ON;
        }
        // ACK train.
        if now.since(self.last_ack) <= ACK_DELTA {
            self.last_ack = now;
            if now.since(self.round_start) > ack.min_rtt + ACK_DELAY {
                return exit;
            }
        }
        // Delay increase.
        if let Some(rtt) = ack.latest_rtt {
            self.current_rtt = self.current_rtt.min(rtt);
            if self.samples < MIN_SAMPLES {
                self.samples += 1;
            } else {
                let threshold = Span(ack.min_rtt.0 / 8).clamp(DELAY_MIN, DELAY_MAX);
                if self.current_rtt > ack.min_rtt + threshold {
                    return exit;
                }
            }
        }
        Verdict::GO_ON
    }
}
