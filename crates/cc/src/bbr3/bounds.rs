//! What loss teaches: the long-term bound that probing finds, the short-term bounds of the present
//! phase (sections 5.5.10 and 5.6.5).

use units::Time;

use super::{Bbr, State, Undo};
use crate::{Ack, RateSample};

impl Bbr {
    /// BBRUpdateLatestDeliverySignals: the most delivered in the latest loss round.
    pub(super) fn update_latest_delivery_signals(&mut self, sample: &RateSample) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(sample.rate.0);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        if sample.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = self.delivered;
            self.loss_round_start = true;
        }
    }

    /// BBRAdvanceLatestDeliverySignals.
    pub(super) fn advance_latest_delivery_signals(&mut self, sample: &RateSample) {
        if self.loss_round_start {
            self.bw_latest = sample.rate.0;
            self.inflight_latest = sample.delivered;
        }
    }

    /// BBRResetCongestionSignals.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.loss_events_in_round = 0;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// BBRUpdateCongestionSignals: once per loss round.
    pub(super) fn update_congestion_signals(&mut self, sample: &RateSample) {
        self.update_max_bw(sample);
        if !self.loss_round_start {
            return;
        }
        self.adapt_lower_bounds_from_congestion();
        // Startup still needs the count of this round.
        self.check_startup_high_loss(sample);
        self.loss_in_round = false;
        self.loss_events_in_round = 0;
    }

    /// BBRAdaptLowerBoundsFromCongestion: not while probing, which asks for loss.
    fn adapt_lower_bounds_from_congestion(&mut self) {
        if self.state.is_probing() || !self.loss_in_round {
            return;
        }
        // BBRInitLowerBounds, BBRLossLowerBounds.
        let beta = self.options.beta;
        let bw = self.bw_shortterm.unwrap_or(self.max_bw);
        let inflight = self.inflight_shortterm.unwrap_or(self.cwnd);
        self.bw_shortterm = Some(self.bw_latest.max((beta * bw as f64) as u64));
        self.inflight_shortterm = Some(self.inflight_latest.max((beta * inflight as f64) as u64));
    }

    /// BBRResetShortTermModel: a probe begins with the short-term bounds lifted.
    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = None;
        self.inflight_shortterm = None;
    }

    /// BBRBoundBWForModel.
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bw = match self.bw_shortterm {
            Some(bound) if !self.state.is_probing() => self.max_bw.min(bound),
            _ => self.max_bw,
        };
    }

    /// BBRBoundCwndForModel, section 5.6.4.7: the table's column "volume cap".
    pub(super) fn bound_cwnd_for_model(&mut self) {
        let longterm = match self.state {
            State::Startup => return,
            State::ProbeBwCruise | State::ProbeRtt => self.inflight_with_headroom(),
            _ => self.inflight_longterm,
        };
        let cap = [longterm, self.inflight_shortterm].into_iter().flatten().min();
        if let Some(cap) = cap {
            self.cwnd = self.cwnd.min(cap.max(self.min_pipe_cwnd()));
        }
    }

    /// BBRInflightWithHeadroom, section 5.5.10.1: room for others to enter.
    pub(super) fn inflight_with_headroom(&self) -> Option<u64> {
        self.inflight_longterm.map(|longterm| {
            let headroom = ((self.options.headroom * longterm as f64) as u64).max(self.mss);
            longterm.saturating_sub(headroom).max(self.min_pipe_cwnd())
        })
    }

    /// BBRNoteLoss: the first loss of a round begins a loss round.
    pub(super) fn note_loss(&mut self) {
        if !self.loss_in_round {
            // BBRSaveStateUponLoss.
            self.undo = Some(Undo {
                state: self.state,
                bw_shortterm: self.bw_shortterm,
                inflight_shortterm: self.inflight_shortterm,
                inflight_longterm: self.inflight_longterm,
            });
            self.loss_round_delivered = self.delivered;
        }
        self.loss_in_round = true;
        self.loss_events_in_round += 1;
    }

    /// BBRHandleLostPacket, section 5.5.10.2: a probe found the volume that the path refuses.
    pub(super) fn handle_lost(&mut self, now: Time, ack: &Ack) {
        let Some(sample) = &ack.sample else { return };
        if !self.bw_probe_samples || !self.is_inflight_too_high(sample) {
            return;
        }
        let inflight = self.inflight_at_loss(sample, ack.lost);
        self.handle_inflight_too_high(now, sample, inflight);
    }

    /// IsInflightTooHigh: more than LossThresh of the flight was lost.
    pub(super) fn is_inflight_too_high(&self, sample: &RateSample) -> bool {
        sample.lost as f64 > sample.tx_in_flight as f64 * self.options.loss_thresh
    }

    /// BBRInflightAtLoss: where in the flight the loss rate crossed LossThresh, interpolated:
    /// lost_prefix = (LossThresh * inflight_prev - lost_prev) / (1 - LossThresh).
    pub(super) fn inflight_at_loss(&self, sample: &RateSample, newly_lost: u64) -> u64 {
        let thresh = self.options.loss_thresh;
        let inflight_prev = sample.tx_in_flight.saturating_sub(newly_lost) as f64;
        let lost_prev = sample.lost.saturating_sub(newly_lost) as f64;
        let lost_prefix = (thresh * inflight_prev - lost_prev) / (1.0 - thresh).max(1e-9);
        (inflight_prev + lost_prefix.max(0.0)) as u64
    }

    /// BBRHandleInflightTooHigh.
    fn handle_inflight_too_high(&mut self, now: Time, sample: &RateSample, inflight: u64) {
        self.prev_probe_too_high = true;
        // Only one reaction per probe.
        self.bw_probe_samples = false;
        if !sample.app_limited {
            let floor = (self.target_inflight() as f64 * self.options.beta) as u64;
            self.inflight_longterm = Some(inflight.max(floor));
        }
        if self.state == State::ProbeBwUp {
            self.start_probe_bw_down(now);
        }
    }

    /// BBRHandleSpuriousLossDetection, section 5.5.10.3.
    pub(super) fn handle_spurious_loss(&mut self, now: Time) {
        let Some(undo) = self.undo.take() else { return };
        self.loss_in_round = false;
        self.reset_full_bw();
        // The higher of the two; an absent bound is the highest.
        let higher = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.max(b));
        self.bw_shortterm = higher(self.bw_shortterm, undo.bw_shortterm);
        self.inflight_shortterm = higher(self.inflight_shortterm, undo.inflight_shortterm);
        self.inflight_longterm = higher(self.inflight_longterm, undo.inflight_longterm);
        if self.state != State::ProbeRtt && self.state != undo.state {
            match undo.state {
                State::Startup => self.enter_startup(),
                State::ProbeBwUp => self.start_probe_bw_up(now, self.max_bw),
                _ => {}
            }
        }
    }
}
