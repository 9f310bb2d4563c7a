//! ProbeRTT (section 5.3.4): now and then send little, to see the path without one's own queue.

use units::Time;

use super::{AckPhase, Bbr, State};
use crate::Ack;

impl Bbr {
    /// CheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, now: Time, ack: &Ack) {
        if self.state != State::ProbeRtt && self.min_rtt.probe_expired && !self.idle_restart {
            // EnterProbeRTT, and only then SaveCwnd: the larger of this window and the one saved.
            self.state = State::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt.begin();
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            let low = self.probe_rtt_cwnd();
            if self.probe_rtt.hold(now, ack, low, &mut self.rounds) {
                self.probe_rtt_done(now);
            }
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    /// The rest of CheckProbeRTTDone, and ExitProbeRTT.
    pub(super) fn probe_rtt_done(&mut self, now: Time) {
        self.min_rtt.probed(now);
        self.cwnd.restore();
        self.reset_short_term_model();
        if self.full_pipe.reached {
            self.start_probe_bw_down(now);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }
}
