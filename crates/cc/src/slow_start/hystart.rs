//! HyStart (Ha and Rhee 2011, doi:10.1016/j.comnet.2011.01.014) with the constants and rules of Linux's `tcp_cubic`
//! (6.14 and later). Slow start ends when a train of closely spaced ACKs has lasted half the minimum RTT. It also ends
//! when the delay of a round has risen by an eighth of the minimum RTT.
//!
//! For a paced sender the train must last the whole minimum RTT, because pacing spreads it over the round. The minimum
//! RTT covers data packets only. Linux's controllers get no sample from the handshake, and on a path with variable
//! delay an additional sample would lower the minimum.
//!
//! One difference from Linux: samples of the first second after a recovery count.

use units::{Span, Time};

use super::decision::SlowStartDecision;
use crate::{AckEvent, ControllerConfig};

// Linux tcp_cubic: hystart_low_window, hystart_ack_delta_us, HYSTART_MIN_SAMPLES, and the clamp
// HYSTART_DELAY_THRESH.
const LOW_WINDOW: u64 = 16;
const ACK_DELTA: Span = Span::from_millis(2);
const MIN_SAMPLES: u32 = 8;
const DELAY_MIN: Span = Span::from_millis(4);
const DELAY_MAX: Span = Span::from_millis(16);
/// Upper limit of the time of four maximal bursts, which Linux adds to the train: 1 ms.
const ACK_DELAY: Span = Span::from_millis(1);

/// The HyStart state of one connection.
#[derive(Clone, Debug)]
pub struct HyStart {
    low_window: u64,
    paced: bool,
    /// `delay_min` of Linux.
    min_rtt: Span,
    round_start: Time,
    last_ack: Time,
    current_rtt: Span,
    samples: u32,
}

impl HyStart {
    /// Returns the state before the first round.
    pub fn new(config: &ControllerConfig) -> HyStart {
        HyStart {
            low_window: LOW_WINDOW * config.mss,
            paced: config.is_paced,
            min_rtt: Span::MAX,
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            current_rtt: Span::MAX,
            samples: 0,
        }
    }

    /// Resets the state after a timeout.
    pub fn restart(&mut self, now: Time) {
        self.min_rtt = Span::MAX;
        self.begin_round(now);
    }

    /// Starts a new round.
    fn begin_round(&mut self, now: Time) {
        self.round_start = now;
        self.last_ack = now;
        self.current_rtt = Span::MAX;
        self.samples = 0;
    }

    /// Processes one ACK of slow start.
    pub fn on_ack(&mut self, now: Time, ack: &AckEvent, cwnd: u64) -> SlowStartDecision {
        if ack.is_round_start {
            self.begin_round(now);
        }
        // Linux does not call HyStart without a sample.
        let Some(rtt) = ack.latest_rtt else { return SlowStartDecision::CONTINUE };
        self.min_rtt = self.min_rtt.min(rtt);
        let exit = SlowStartDecision { is_finished: true, ..SlowStartDecision::CONTINUE };
        if cwnd < self.low_window {
            return SlowStartDecision::CONTINUE;
        }
        // ACK train.
        if now.since(self.last_ack) <= ACK_DELTA {
            self.last_ack = now;
            let whole = self.min_rtt + ACK_DELAY;
            let threshold = if self.paced { whole } else { Span(whole.0 / 2) };
            if now.since(self.round_start) > threshold {
                return exit;
            }
        }
        // Delay increase.
        self.current_rtt = self.current_rtt.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            let threshold = Span(self.min_rtt.0 / 8).clamp(DELAY_MIN, DELAY_MAX);
            if self.current_rtt > self.min_rtt + threshold {
                return exit;
            }
        }
        SlowStartDecision::CONTINUE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::sample_ack;

    const MSS: u64 = 1200;

    fn classic(paced: bool) -> HyStart {
        let initial_rtt = Span::from_millis(333);
        HyStart::new(&ControllerConfig {
            mss: MSS,
            initial_window: 10 * MSS,
            initial_rtt,
            seed: 1,
            is_paced: paced,
        })
    }

    /// Returns the exit time of slow start in a round of ACKs with `rtt`, one every `gap_us`.
    fn exit_time(hystart: &mut HyStart, rtt: Span, gap_us: u64) -> Option<Span> {
        let begin = Time::ZERO + Span::from_secs(5);
        for step in 0..2_000 {
            let now = begin + Span::from_micros(gap_us) * step;
            let ack = AckEvent { is_round_start: step == 0, latest_rtt: Some(rtt), ..sample_ack() };
            if hystart.on_ack(now, &ack, 32 * MSS).is_finished {
                return Some(now.since(begin));
            }
        }
        None
    }

    /// With a minimum RTT of 100 ms: the first ACK after 50.5 ms, or after 101 ms if paced. A train with more than 2 ms
    /// between ACKs causes no exit.
    #[test]
    fn a_train_ends_slow_start_after_half_the_least_rtt_or_the_whole_if_paced() {
        let rtt = Span::from_millis(100);
        assert_eq!(exit_time(&mut classic(false), rtt, 1_000), Some(Span::from_millis(51)));
        assert_eq!(exit_time(&mut classic(true), rtt, 1_000), Some(Span::from_millis(102)));
        assert_eq!(exit_time(&mut classic(false), rtt, 2_100), None);
    }

    /// 700 / 8 exceeds the clamp: a ninth sample 17 ms above the minimum ends slow start, 16 ms do not. The transport's
    /// minimum RTT, which includes the handshake, does not count.
    #[test]
    fn a_round_that_is_later_by_more_than_16_ms_ends_slow_start() {
        let ms = Span::from_millis;
        let mut hystart = classic(false);
        assert_eq!(exit_time(&mut hystart, ms(700), 2_100), None);
        assert_eq!(exit_time(&mut hystart, ms(716), 2_100), None);
        assert_eq!(exit_time(&mut hystart, ms(717), 2_100), Some(Span::from_micros(8 * 2_100)));
    }
}
