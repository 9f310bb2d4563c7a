//! ProbeRTT (section 5.3.4): reduces the flight periodically to measure the RTT without the flow's queue.

use units::Time;

use super::{AckPhase, Bbr3, BbrState};
use crate::AckEvent;

impl Bbr3 {
    /// CheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, now: Time, ack: &AckEvent) {
        if self.state != BbrState::ProbeRtt
            && self.min_rtt.is_probe_rtt_expired
            && !self.idle_restart
        {
            // EnterProbeRTT precedes SaveCwnd, so that the larger of the current and the saved window is saved.
            self.state = BbrState::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt.begin();
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == BbrState::ProbeRtt {
            let low = self.probe_rtt_cwnd();
            if self.probe_rtt.update(now, ack, low, &mut self.rounds) {
                self.probe_rtt_done(now);
            }
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    /// The second part of CheckProbeRTTDone, and ExitProbeRTT.
    pub(super) fn probe_rtt_done(&mut self, now: Time) {
        self.min_rtt.on_probe_rtt_done(now);
        self.cwnd.restore();
        self.reset_short_term_model();
        if self.full_pipe.is_full_bw_reached {
            self.start_probe_bw_down(now);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }
}
