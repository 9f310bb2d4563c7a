//! The loss response of the model (sections 5.5.10 and 5.5.11): loss lowers the short-term bounds. During a probe it
//! indicates a flight that is too high. [`LossRoundSignals`] are the signals of the current loss round: the latest
//! delivery, and loss (section 5.5.10). [`RecoveryState`] is the recovery (section 5.6.4.4). It lasts until a packet
//! sent after its last loss is acknowledged, and after a timeout until all losses are repaired.

use units::Time;

use super::Bbr3;
use super::model::{InflightBounds, higher_bound, lowered_bound};
use super::states::BbrState;
use crate::bbr_common::RoundCounter;
use crate::{AckEvent, LossSample, RateSample};

/// SaveStateUponLoss: the state that the undo of a spurious loss restores.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossUndoState {
    /// BBR.undo_state: the state that the loss ended.
    state: Option<BbrState>,
    bw_shortterm: Option<u64>,
    pub inflight: InflightBounds,
}

impl Bbr3 {
    /// UpdateCongestionSignals: once per loss round.
    pub(super) fn update_congestion_signals(&mut self, sample: &RateSample) {
        self.bandwidth.update_max(sample);
        if !self.signals.loss_round.is_round_start {
            return;
        }
        self.adapt_lower_bounds_from_congestion();
        self.signals.is_loss_in_round = false;
    }

    /// AdaptLowerBoundsFromCongestion: not while probing, when loss is expected.
    fn adapt_lower_bounds_from_congestion(&mut self) {
        let Bbr3 { bandwidth, inflight, signals, .. } = self;
        if self.state.is_probing() || !signals.is_loss_in_round {
            return;
        }
        let beta = self.options.beta;
        bandwidth.shortterm =
            lowered_bound(bandwidth.shortterm, bandwidth.max_bw, signals.bw_latest, beta);
        inflight.shortterm =
            lowered_bound(inflight.shortterm, self.cwnd.bytes, signals.inflight_latest, beta);
    }

    /// ResetShortTermModel: removes the short-term bounds at the start of a probe.
    pub(super) fn reset_short_term_model(&mut self) {
        self.bandwidth.shortterm = None;
        self.inflight.shortterm = None;
    }

    /// NoteLoss.
    fn note_loss(&mut self) {
        if self.signals.note_loss(self.delivered) {
            self.save_cwnd();
            self.save_state_upon_loss();
        }
    }

    /// SaveStateUponLoss, section 5.5.11.1. The caller calls SaveCwnd.
    pub(super) fn save_state_upon_loss(&mut self) {
        let bw_shortterm = self.bandwidth.shortterm;
        self.undo = Some(LossUndoState { state: None, bw_shortterm, inflight: self.inflight });
    }

    /// HandleLostPacket, section 5.5.10.2: a probe exceeded the capacity of the path.
    pub(super) fn handle_lost(&mut self, now: Time, ack: &AckEvent) {
        self.note_loss();
        self.signals.loss_events += 1;
        let Some(lost) = &ack.loss_sample else { return };
        if self.cycle.is_bw_probe_sample && self.is_inflight_too_high(lost.lost, lost.tx_in_flight)
        {
            let inflight = self.inflight_at_loss(lost, ack.lost);
            self.handle_inflight_too_high(now, lost.is_app_limited, inflight);
        }
    }

    /// Handles a CE mark as congestion (section 3.7); see the documentation of `mod.rs`.
    pub(super) fn handle_mark(&mut self, now: Time, ack: &AckEvent) {
        self.note_loss();
        if let Some(sample) = ack.rate_sample
            && self.cycle.is_bw_probe_sample
        {
            self.handle_inflight_too_high(now, sample.is_app_limited, sample.tx_in_flight);
        }
    }

    /// IsInflightTooHigh: more than LossThresh of the flight was lost.
    pub(super) fn is_inflight_too_high(&self, lost: u64, tx_in_flight: u64) -> bool {
        lost as f64 > tx_in_flight as f64 * self.options.loss_thresh
    }

    /// InflightAtLoss: the interpolated flight at which the loss rate crossed LossThresh: lost_prefix = (LossThresh *
    /// inflight_prev - lost_prev) / (1 - LossThresh).
    fn inflight_at_loss(&self, lost: &LossSample, newly_lost: u64) -> u64 {
        let thresh = self.options.loss_thresh;
        let inflight_prev = lost.tx_in_flight.saturating_sub(newly_lost) as f64;
        let lost_prev = lost.lost.saturating_sub(newly_lost) as f64;
        let lost_prefix = (thresh * inflight_prev - lost_prev) / (1.0 - thresh).max(1e-9);
        (inflight_prev + lost_prefix).max(0.0) as u64
    }

    /// HandleInflightTooHigh.
    fn handle_inflight_too_high(&mut self, now: Time, app_limited: bool, inflight: u64) {
        self.cycle.prev_probe_too_high = true;
        // Only one reaction per probe.
        self.cycle.is_bw_probe_sample = false;
        if !app_limited {
            let floor = (self.target_inflight() as f64 * self.options.beta) as u64;
            self.inflight.longterm = Some(inflight.max(floor));
        }
        if self.state == BbrState::ProbeBwUp {
            self.set_undo_state(BbrState::ProbeBwUp);
            self.start_probe_bw_down(now);
        }
    }

    /// Sets BBR.undo_state.
    pub(super) fn set_undo_state(&mut self, state: BbrState) {
        if let Some(undo) = &mut self.undo {
            undo.state = Some(state);
        }
    }

    /// HandleSpuriousLossDetection, section 5.5.11.2.
    pub(super) fn handle_spurious_loss(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.recovery.end();
        self.cwnd.restore();
        self.signals.is_loss_in_round = false;
        self.full_pipe.reset();
        self.bandwidth.shortterm = higher_bound(self.bandwidth.shortterm, undo.bw_shortterm);
        self.inflight = InflightBounds {
            longterm: higher_bound(self.inflight.longterm, undo.inflight.longterm),
            shortterm: higher_bound(self.inflight.shortterm, undo.inflight.shortterm),
        };
        let probe_rtt = self.state == BbrState::ProbeRtt;
        match undo.state {
            Some(BbrState::Startup) if self.state != BbrState::Startup => {
                self.full_pipe.is_full_bw_reached = false;
                if !probe_rtt {
                    self.enter_startup();
                }
            }
            Some(BbrState::ProbeBwUp) if self.state != BbrState::ProbeBwUp && !probe_rtt => {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }
}

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

/// The recovery state: InLossRecovery.
#[derive(Clone, Debug, Default)]
pub(super) struct RecoveryState {
    /// Bytes delivered at the start of this recovery.
    pub start_delivered: Option<u64>,
    /// Bytes delivered when its last loss was detected.
    last_loss_delivered: u64,
    /// Whether the recovery had lasted a packet-timed round trip at this ACK.
    pub has_lasted_a_round: bool,
}

/// The transition of the recovery state at an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveryTransition {
    Enter,
    Exit,
}

impl RecoveryState {
    /// Returns whether a recovery is active.
    pub fn is_active(&self) -> bool {
        self.start_delivered.is_some()
    }

    /// Starts or restarts a recovery.
    pub fn begin(&mut self, delivered: u64) {
        self.start_delivered = Some(delivered);
        self.last_loss_delivered = delivered;
    }

    /// Ends a recovery that is complete or spurious.
    pub fn end(&mut self) {
        self.start_delivered = None;
    }

    /// Processes `ack` and returns the transition. The caller must call [`RecoveryState::begin`].
    pub fn on_ack(&mut self, ack: &AckEvent) -> Option<RecoveryTransition> {
        let sent_after =
            |delivered| ack.rate_sample.is_some_and(|s| s.prior_delivered >= delivered);
        self.has_lasted_a_round = self.start_delivered.is_some_and(sent_after);
        if ack.lost > 0 || ack.is_congestion_event {
            self.last_loss_delivered = ack.delivered;
            return (!self.is_active()).then_some(RecoveryTransition::Enter);
        }
        let ends =
            self.is_active() && !ack.is_in_rto_recovery && sent_after(self.last_loss_delivered);
        if ends {
            self.end();
        }
        ends.then_some(RecoveryTransition::Exit)
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
        for (rate, prior_delivered, max_bw, start) in [(5, 99, 5, false), (3, 100, 5, true)] {
            signals.update_latest(&sample(rate, prior_delivered), 300);
            assert_eq!((signals.bw_latest, signals.loss_round.is_round_start), (max_bw, start));
            signals.advance_latest(&sample(rate, prior_delivered));
        }
        assert_eq!((signals.bw_latest, signals.inflight_latest), (3, 30));
    }
}
