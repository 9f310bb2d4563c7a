//! Long-term bandwidth ("lt_bw"). Two successive intervals of 4 to 16 rounds with more than 20 % loss and about the
//! same throughput indicate a token-bucket policer. The controller then uses its rate for 48 rounds.

use units::Time;

use crate::AckEvent;

const INTERVAL_MIN_ROUNDS: u32 = 4;
const INTERVAL_MAX_ROUNDS: u32 = 4 * INTERVAL_MIN_ROUNDS;
const LOSS_THRESHOLD: f64 = 50.0 / 256.0;
/// Two intervals agree within an eighth, or within 4 kb/s.
const RATIO: u64 = 8;
const DIFFERENCE: u64 = 4_000;
const LT_BW_MAX_ROUNDS: u32 = 48;

/// The policer detector of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicerDetector {
    is_sampling: bool,
    is_in_use: bool,
    rounds: u32,
    rate: Option<u64>,
    last_stamp: Time,
    last_delivered: u64,
    last_lost: u64,
}

impl PolicerDetector {
    /// Returns whether the policer's rate is in use.
    pub fn is_in_use(&self) -> bool {
        self.is_in_use
    }

    /// Returns the policer's rate in bit/s while it is in use.
    pub fn rate(&self) -> Option<u64> {
        self.rate.filter(|_| self.is_in_use)
    }

    /// Processes one event. Returns true when the hold period of the rate has ended and probing must resume.
    pub fn sample(&mut self, now: Time, ack: &AckEvent, round_start: bool, probing: bool) -> bool {
        if self.is_in_use {
            if probing && round_start {
                self.rounds += 1;
                if self.rounds >= LT_BW_MAX_ROUNDS {
                    *self = PolicerDetector::default();
                    return true;
                }
            }
            return false;
        }
        // Sampling begins with a loss, so that an interval starts with an empty bucket.
        if !self.is_sampling {
            if ack.lost == 0 {
                return false;
            }
            self.begin(now, ack);
            self.is_sampling = true;
        }
        if ack.rate_sample.is_some_and(|sample| sample.is_app_limited) {
            *self = PolicerDetector::default();
            return false;
        }
        self.rounds += u32::from(round_start);
        if self.rounds > INTERVAL_MAX_ROUNDS {
            *self = PolicerDetector::default();
            return false;
        }
        // An interval also ends with a loss.
        if self.rounds < INTERVAL_MIN_ROUNDS || ack.lost == 0 {
            return false;
        }
        let lost = (ack.total_lost - self.last_lost) as f64;
        let delivered = ack.delivered - self.last_delivered;
        let nanos = now.since(self.last_stamp).nanos();
        if delivered == 0 || lost < LOSS_THRESHOLD * delivered as f64 || nanos < 1_000_000 {
            return false;
        }
        let rate = (u128::from(delivered) * 8_000_000_000 / u128::from(nanos)) as u64;
        match self.rate {
            Some(last) if rate.abs_diff(last) <= (last / RATIO).max(DIFFERENCE) => {
                self.rate = Some(rate.midpoint(last));
                self.is_in_use = true;
                self.rounds = 0;
            }
            _ => {
                self.rate = Some(rate);
                self.begin(now, ack);
            }
        }
        false
    }

    fn begin(&mut self, now: Time, ack: &AckEvent) {
        self.rounds = 0;
        self.last_stamp = now;
        self.last_delivered = ack.delivered;
        self.last_lost = ack.total_lost;
    }
}
