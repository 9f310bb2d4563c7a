//! What the sender is told: pacing rate, quantum and window (section 5.6), and the window that a recovery
//! keeps and gives back.

use units::Span;

use super::{Bbr, State};
use crate::Ack;

/// BBR.MinPipeCwnd, packets.
const MIN_PIPE_CWND: u64 = 4;
/// BBR.PacingMarginPercent, as a factor.
const PACING_MARGIN: f64 = 0.99;

impl Bbr {
    /// UpdateControlParameters.
    pub(super) fn update_control_parameters(&mut self, ack: &Ack) {
        self.set_pacing_rate(self.state.pacing_gain());
        // SetSendQuantum, section 5.6.3: one millisecond, at most 64 KB, at least two packets.
        self.send_quantum = (self.pacing_rate / 8_000).min(65_536).max(2 * self.mss);
        self.set_cwnd(ack);
    }

    /// Linux and section 5.6.2: the first RTT sample replaces the assumed millisecond.
    pub(super) fn init_pacing_rate_once(&mut self, ack: &Ack) {
        if !self.has_seen_rtt && ack.latest_rtt.is_some() {
            self.has_seen_rtt = true;
            self.pacing_rate = initial_pacing_rate(self.initial_cwnd, ack.smoothed_rtt);
        }
    }

    /// SetPacingRateWithGain.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = (gain * self.bw as f64 * PACING_MARGIN) as u64;
        if rate > 0 && (self.full_bw_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// SetCwnd, section 5.6.4.6.
    fn set_cwnd(&mut self, ack: &Ack) {
        let max_inflight = self.max_inflight();
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + ack.acked).min(max_inflight);
        } else if self.cwnd < max_inflight || ack.delivered < self.initial_cwnd {
            self.cwnd += ack.acked;
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    /// Fast recovery, section 5.6.4.4: the window of before comes back at its end.
    pub(super) fn track_recovery(&mut self, ack: &Ack) {
        let sent_after =
            |delivered: u64| ack.sample.is_some_and(|s| s.prior_delivered >= delivered);
        self.recovered_for_a_round = self.recovery_began.is_some_and(sent_after);
        if ack.lost > 0 || ack.congestion {
            if self.recovery_began.is_none() {
                self.enter_recovery();
            }
            self.recovery_delivered = ack.delivered;
        } else if self.recovery_began.is_some() && sent_after(self.recovery_delivered) {
            self.recovery_began = None;
            self.restore_cwnd();
        }
    }

    /// OnEnterFastRecovery.
    fn enter_recovery(&mut self) {
        self.save_cwnd();
        self.save_state_upon_loss();
        self.recovery_began = Some(self.delivered);
    }

    /// OnEnterRTO, section 5.6.4.4: the window falls to the flight and one packet, grows by what is
    /// acknowledged, and is restored when the recovery ends.
    pub(super) fn on_enter_rto(&mut self, in_flight: u64) {
        self.enter_recovery();
        self.recovery_delivered = self.delivered;
        self.cwnd = in_flight + self.mss;
    }

    /// SaveCwnd.
    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.state == State::ProbeRtt || self.recovery_began.is_some() {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    /// RestoreCwnd.
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    pub(super) fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_CWND * self.mss
    }
}

/// InitPacingRate: the initial window in one RTT, at the gain of Startup.
pub(super) fn initial_pacing_rate(window: u64, rtt: Span) -> u64 {
    let nominal = window as f64 * 8e9 / rtt.nanos().max(1) as f64;
    (State::Startup.pacing_gain() * nominal) as u64
}
