//! The output: pacing rate, quantum and window (section 5.6), and the window saved and restored around a recovery.

use units::Span;

use super::loss::RecoveryTransition;
use super::{Bbr3, BbrState};
use crate::AckEvent;

impl Bbr3 {
    /// UpdateControlParameters.
    pub(super) fn update_control_parameters(&mut self, ack: &AckEvent) {
        self.set_pacing_rate(self.state.pacing_gain());
        // SetSendQuantum, section 5.6.3.
        self.send_quantum = self.pacing.quantum(self.cwnd.mss);
        self.set_cwnd(ack);
    }

    /// Linux and section 5.6.2: the first RTT sample replaces the assumed 1 ms.
    pub(super) fn init_pacing_rate_once(&mut self, ack: &AckEvent) {
        let window = self.cwnd.initial_cwnd;
        self.pacing.init_once(ack, |rtt| initial_pacing_rate(window, rtt));
    }

    /// SetPacingRateWithGain.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        self.pacing.set(gain, self.bandwidth.bw, self.full_pipe.is_full_bw_reached);
    }

    /// SetCwnd, section 5.6.4.6.
    fn set_cwnd(&mut self, ack: &AckEvent) {
        let max_inflight = self.max_inflight();
        self.cwnd.grow(ack.acked, max_inflight, self.full_pipe.is_full_bw_reached, ack.delivered);
        self.cwnd.bytes = self.cwnd.bytes.max(self.cwnd.min_pipe_cwnd());
        if self.state == BbrState::ProbeRtt {
            self.cwnd.bytes = self.cwnd.bytes.min(self.probe_rtt_cwnd());
        }
        if let Some(cap) = self.inflight.cap(self.state, self.options.headroom, &self.cwnd) {
            self.cwnd.bytes = self.cwnd.bytes.min(cap);
        }
    }

    /// Fast recovery, section 5.6.4.4: the end of recovery restores the earlier window.
    pub(super) fn track_recovery(&mut self, ack: &AckEvent) {
        match self.recovery.on_ack(ack) {
            Some(RecoveryTransition::Enter) => self.enter_recovery(),
            Some(RecoveryTransition::Exit) => self.cwnd.restore(),
            None => {}
        }
    }

    /// OnEnterFastRecovery.
    fn enter_recovery(&mut self) {
        self.save_cwnd();
        self.save_state_upon_loss();
        self.recovery.begin(self.delivered);
    }

    /// OnEnterRTO, section 5.6.4.4: the window falls to the flight and one packet and grows by the acknowledged bytes.
    /// The end of recovery restores it.
    pub(super) fn on_enter_rto(&mut self, in_flight: u64) {
        self.enter_recovery();
        self.cwnd.bytes = in_flight + self.cwnd.mss;
    }

    /// SaveCwnd.
    pub(super) fn save_cwnd(&mut self) {
        self.cwnd.save(self.state == BbrState::ProbeRtt || self.recovery.is_active());
    }
}

/// InitPacingRate: the rate in bit/s of the initial window per RTT at the gain of Startup.
pub(super) fn initial_pacing_rate(window: u64, rtt: Span) -> u64 {
    let nominal = window as f64 * 8e9 / rtt.nanos().max(1) as f64;
    (BbrState::Startup.pacing_gain() * nominal) as u64
}
