//! The signals of the current loss round: the latest delivery, and loss (section 5.5.10).

use crate::RateSample;
use crate::bbr_common::RoundCounter;

/// The signals of one loss round.
#[derive(Clone, Debug, Default)]
pub(super) struct LossRoundSignals {
    /// BBR.loss_round_delivered, loss_round_start.
    pub loss_round: RoundCounter,
    /// BBR.bw_latest in bit/s.
    pub bw_latest: u64,
    /// BBR.inflight_latest in bytes.
    pub inflight_latest: u64,
    /// BBR.is_loss_in_round. A mark counts as loss.
    pub is_loss_in_round: bool,
    /// The number of events with loss, for StartupFullLossCnt.
    pub loss_events: u32,
}

impl LossRoundSignals {
    /// UpdateLatestDeliverySignals: the maximum delivery in the latest loss round.
    pub fn update_latest(&mut self, sample: &RateSample, delivered: u64) {
        self.bw_latest = self.bw_latest.max(sample.rate.0);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.loss_round.update(sample.prior_delivered, delivered);
    }

    /// AdvanceLatestDeliverySignals.
    pub fn advance_latest(&mut self, sample: &RateSample) {
        if self.loss_round.is_round_start {
            self.bw_latest = sample.rate.0;
            self.inflight_latest = sample.delivered;
        }
    }

    /// ResetCongestionSignals.
    pub fn reset(&mut self) {
        self.is_loss_in_round = false;
        self.loss_events = 0;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// NoteLoss. Returns true for the first loss of a round, which starts a loss round.
    pub fn note_loss(&mut self, delivered: u64) -> bool {
        let first = !self.is_loss_in_round;
        if first {
            self.loss_round.begin(delivered);
        }
        self.is_loss_in_round = true;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Rate, Span};

    /// The latest delivery is the maximum of the loss round, which the first loss starts.
    #[test]
    fn the_first_loss_begins_a_round() {
        let mut signals = LossRoundSignals::default();
        let sample = |rate, prior_delivered| RateSample {
            delivered: rate * 10,
            interval: Span::ZERO,
            rate: Rate(rate),
            prior_delivered,
            tx_in_flight: 0,
            lost: 0,
            is_app_limited: false,
        };
        assert!(signals.note_loss(100) && !signals.note_loss(200));
        for (rate, prior_delivered, most, start) in [(5, 99, 5, false), (3, 100, 5, true)] {
            signals.update_latest(&sample(rate, prior_delivered), 300);
            assert_eq!((signals.bw_latest, signals.loss_round.is_round_start), (most, start));
            signals.advance_latest(&sample(rate, prior_delivered));
        }
        assert_eq!((signals.bw_latest, signals.inflight_latest), (3, 30));
    }
}
