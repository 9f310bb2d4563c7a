//! The loss response of the model: loss lowers the short-term bounds and, during a probe, indicates a flight that is
//! too high (sections 5.5.10 and 5.5.11).

use units::Time;

use super::inflight::{InflightBounds, higher_bound, lowered_bound};
use super::{Bbr3, BbrState};
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
