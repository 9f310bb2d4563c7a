//! HyStart++ (RFC 9406). When the minimum RTT of a round has risen, slow start changes to the slower Conservative Slow
//! Start (CSS). It resumes if the rise was only jitter.
//!
//! On a GEO path the threshold is at its upper clamp: 16 ms are 2.7 % of 600 ms.

use units::Span;

use super::decision::SlowStartDecision;
use crate::{AckEvent, ControllerConfig};

// RFC 9406 section 4.3.
const MIN_RTT_THRESH: Span = Span::from_millis(4);
const MAX_RTT_THRESH: Span = Span::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
/// L of an unpaced sender: the maximum number of packets that one ACK counts for.
const L: u64 = 8;

/// The HyStart++ state of one connection.
#[derive(Clone, Debug)]
pub struct HyStartPlusPlus {
    last_round_min_rtt: Span,
    current_round_min_rtt: Span,
    rtt_sample_count: u32,
    /// The baseline RTT of CSS and the number of its rounds, while in CSS.
    css: Option<(Span, u32)>,
    /// L * SMSS in bytes. L is infinite for a paced sender.
    limit: u64,
}

impl HyStartPlusPlus {
    /// Returns the state in slow start before the first round.
    pub fn new(config: &ControllerConfig) -> HyStartPlusPlus {
        HyStartPlusPlus {
            limit: if config.is_paced { u64::MAX } else { L * config.mss },
            last_round_min_rtt: Span::MAX,
            current_round_min_rtt: Span::MAX,
            rtt_sample_count: 0,
            css: None,
        }
    }

    /// Processes one ACK (RFC 9406 section 4.2).
    pub fn on_ack(&mut self, ack: &AckEvent) -> SlowStartDecision {
        // "At the start of each round during standard slow start and CSS".
        if ack.is_round_start {
            self.last_round_min_rtt = self.current_round_min_rtt;
            self.current_round_min_rtt = Span::MAX;
            self.rtt_sample_count = 0;
            if let Some((_, rounds)) = &mut self.css {
                *rounds += 1;
            }
        }
        if let Some(rtt) = ack.latest_rtt {
            self.current_round_min_rtt = self.current_round_min_rtt.min(rtt);
            self.rtt_sample_count += 1;
        }
        let sampled = self.rtt_sample_count >= N_RTT_SAMPLE;
        match self.css {
            None => {
                if sampled && self.last_round_min_rtt != Span::MAX {
                    let thresh = Span(self.last_round_min_rtt.0 / MIN_RTT_DIVISOR)
                        .clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                    if self.current_round_min_rtt >= self.last_round_min_rtt + thresh {
                        self.css = Some((self.current_round_min_rtt, 0));
                    }
                }
            }
            // "if currentRoundMinRTT < cssBaselineMinRtt": the exit was spurious.
            Some((baseline, _)) if sampled && self.current_round_min_rtt < baseline => {
                self.css = None;
            }
            // "CSS lasts at most CSS_ROUNDS rounds": congestion avoidance.
            Some((_, rounds)) if rounds >= CSS_ROUNDS => {
                let divisor = CSS_GROWTH_DIVISOR;
                return SlowStartDecision { divisor, limit: self.limit, is_finished: true };
            }
            Some(_) => {}
        }
        let divisor = if self.css.is_some() { CSS_GROWTH_DIVISOR } else { 1 };
        SlowStartDecision { divisor, limit: self.limit, is_finished: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::sample_ack;

    fn config(paced: bool) -> ControllerConfig {
        let initial_rtt = Span::from_millis(333);
        ControllerConfig {
            mss: 1200,
            initial_window: 12_000,
            initial_rtt,
            seed: 1,
            is_paced: paced,
        }
    }

    fn round(hystart: &mut HyStartPlusPlus, rtt_ms: u64) -> SlowStartDecision {
        let mut verdict = SlowStartDecision::CONTINUE;
        for step in 0..10 {
            let ack = AckEvent {
                is_round_start: step == 0,
                latest_rtt: Some(Span::from_millis(rtt_ms)),
                ..sample_ack()
            };
            verdict = hystart.on_ack(&ack);
            if verdict.is_finished {
                break;
            }
        }
        verdict
    }

    #[test]
    fn a_lasting_rise_ends_slow_start_after_five_rounds() {
        let mut hystart = HyStartPlusPlus::new(&config(true));
        assert_eq!(round(&mut hystart, 100).divisor, 1);
        // 100/8 = 12.5 ms: a rise of 12 ms is below the threshold.
        assert_eq!(round(&mut hystart, 112).divisor, 1);
        assert_eq!(round(&mut hystart, 126).divisor, 4);
        for _ in 0..4 {
            let verdict = round(&mut hystart, 126);
            assert_eq!((verdict.divisor, verdict.is_finished), (4, false));
        }
        assert!(round(&mut hystart, 126).is_finished);
    }

    #[test]
    fn jitter_alone_returns_to_slow_start() {
        let mut hystart = HyStartPlusPlus::new(&config(true));
        round(&mut hystart, 600);
        assert_eq!(round(&mut hystart, 620).divisor, 4);
        assert_eq!(round(&mut hystart, 610).divisor, 1);
    }

    /// Section 4.3: L is 8 without pacing.
    #[test]
    fn an_ack_of_many_packets_counts_for_eight_unless_the_sender_is_paced() {
        let ack = AckEvent { acked: 20 * 1200, is_cwnd_limited: true, ..sample_ack() };
        for (paced, packets) in [(false, 8), (true, 20)] {
            let verdict = HyStartPlusPlus::new(&config(paced)).on_ack(&ack);
            assert_eq!(verdict.growth(&ack), packets * 1200);
        }
    }
}
