//! What loss teaches: the long-term bound that probing finds, the short-term bounds of the present
//! phase (sections 5.5.10 and 5.6.4.7).

use units::Time;

use super::{Bbr, State, Undo};
use crate::{Ack, LostSample, RateSample};

impl Bbr {
    /// UpdateLatestDeliverySignals: the most delivered in the latest loss round.
    pub(super) fn update_latest_delivery_signals(&mut self, sample: &RateSample) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(sample.rate.0);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        if sample.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = self.delivered;
            self.loss_round_start = true;
        }
    }

    /// AdvanceLatestDeliverySignals.
    pub(super) fn advance_latest_delivery_signals(&mut self, sample: &RateSample) {
        if self.loss_round_start {
            self.bw_latest = sample.rate.0;
            self.inflight_latest = sample.delivered;
        }
    }

    /// ResetCongestionSignals.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.loss_events_in_round = 0;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// UpdateCongestionSignals: once per loss round.
    pub(super) fn update_congestion_signals(&mut self, sample: &RateSample) {
        self.update_max_bw(sample);
        if !self.loss_round_start {
            return;
        }
        self.adapt_lower_bounds_from_congestion();
        self.is_loss_in_round = false;
    }

    /// AdaptLowerBoundsFromCongestion: not while probing, which asks for loss.
    fn adapt_lower_bounds_from_congestion(&mut self) {
        if self.state.is_probing() || !self.is_loss_in_round {
            return;
        }
        // InitLowerBounds, LossLowerBounds.
        let beta = self.options.beta;
        let bw = self.bw_shortterm.unwrap_or(self.max_bw);
        let inflight = self.inflight_shortterm.unwrap_or(self.cwnd);
        self.bw_shortterm = Some(self.bw_latest.max((beta * bw as f64) as u64));
        self.inflight_shortterm = Some(self.inflight_latest.max((beta * inflight as f64) as u64));
    }

    /// ResetShortTermModel: a probe begins with the short-term bounds lifted.
    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = None;
        self.inflight_shortterm = None;
    }

    /// BoundBWForModel.
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bw = match self.bw_shortterm {
            Some(bound) if !self.state.is_probing() => self.max_bw.min(bound),
            _ => self.max_bw,
        };
    }

    /// BoundCwndForModel, section 5.6.4.7: the table's column "volume cap".
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

    /// InflightWithHeadroom, section 5.3.3.9: room for others to enter.
    pub(super) fn inflight_with_headroom(&self) -> Option<u64> {
        self.inflight_longterm.map(|longterm| {
            let headroom = ((self.options.headroom * longterm as f64) as u64).max(self.mss);
            longterm.saturating_sub(headroom).max(self.min_pipe_cwnd())
        })
    }

    /// NoteLoss: the first loss of a round begins a loss round.
    fn note_loss(&mut self) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = self.delivered;
            self.save_cwnd();
            self.save_state_upon_loss();
        }
        self.is_loss_in_round = true;
    }

    /// SaveStateUponLoss, section 5.5.11.1; its SaveCwnd is the caller's.
    pub(super) fn save_state_upon_loss(&mut self) {
        self.undo = Some(Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        });
    }

    /// HandleLostPacket, section 5.5.10.2: a probe found the volume that the path refuses.
    pub(super) fn handle_lost(&mut self, now: Time, ack: &Ack) {
        self.note_loss();
        self.loss_events_in_round += 1;
        let Some(lost) = &ack.lost_sample else { return };
        if self.is_bw_probe_sample && self.is_inflight_too_high(lost.lost, lost.tx_in_flight) {
            let inflight = self.inflight_at_loss(lost, ack.lost);
            self.handle_inflight_too_high(now, lost.app_limited, inflight);
        }
    }

    /// A mark is congestion (section 3.7): see the top of `mod.rs`.
    pub(super) fn handle_mark(&mut self, now: Time, ack: &Ack) {
        self.note_loss();
        if let Some(sample) = ack.sample
            && self.is_bw_probe_sample
        {
            self.handle_inflight_too_high(now, sample.app_limited, sample.tx_in_flight);
        }
    }

    /// IsInflightTooHigh: more than LossThresh of the flight was lost.
    pub(super) fn is_inflight_too_high(&self, lost: u64, tx_in_flight: u64) -> bool {
        lost as f64 > tx_in_flight as f64 * self.options.loss_thresh
    }

    /// InflightAtLoss: where in the flight the loss rate crossed LossThresh, interpolated:
    /// lost_prefix = (LossThresh * inflight_prev - lost_prev) / (1 - LossThresh).
    fn inflight_at_loss(&self, lost: &LostSample, newly_lost: u64) -> u64 {
        let thresh = self.options.loss_thresh;
        let inflight_prev = lost.tx_in_flight.saturating_sub(newly_lost) as f64;
        let lost_prev = lost.lost.saturating_sub(newly_lost) as f64;
        let lost_prefix = (thresh * inflight_prev - lost_prev) / (1.0 - thresh).max(1e-9);
        (inflight_prev + lost_prefix).max(0.0) as u64
    }

    /// HandleInflightTooHigh.
    fn handle_inflight_too_high(&mut self, now: Time, app_limited: bool, inflight: u64) {
        self.prev_probe_too_high = true;
        // Only one reaction per probe.
        self.is_bw_probe_sample = false;
        if !app_limited {
            let floor = (self.target_inflight() as f64 * self.options.beta) as u64;
            self.inflight_longterm = Some(inflight.max(floor));
        }
        if self.state == State::ProbeBwUp {
            self.leaves_upon_loss(State::ProbeBwUp);
            self.start_probe_bw_down(now);
        }
    }

    /// BBR.undo_state = `state`.
    pub(super) fn leaves_upon_loss(&mut self, state: State) {
        if let Some(undo) = &mut self.undo {
            undo.state = Some(state);
        }
    }

    /// HandleSpuriousLossDetection, section 5.5.11.2.
    pub(super) fn handle_spurious_loss(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.recovery_began = None;
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.reset_full_bw();
        // The higher of the two; an absent bound is the highest.
        let higher = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.max(b));
        self.bw_shortterm = higher(self.bw_shortterm, undo.bw_shortterm);
        self.inflight_shortterm = higher(self.inflight_shortterm, undo.inflight_shortterm);
        self.inflight_longterm = higher(self.inflight_longterm, undo.inflight_longterm);
        let probe_rtt = self.state == State::ProbeRtt;
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if !probe_rtt {
                    self.enter_startup();
                }
            }
            Some(State::ProbeBwUp) if self.state != State::ProbeBwUp && !probe_rtt => {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }
}
