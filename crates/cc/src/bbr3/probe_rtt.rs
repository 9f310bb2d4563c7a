//! ProbeRTT (section 5.3.4): now and then send little, to see the path without one's own queue.

use units::{Span, Time};

use super::{AckPhase, Bbr, State};
use crate::Ack;

/// BBR.ProbeRTTDuration.
const PROBE_RTT_DURATION: Span = Span::from_millis(200);

impl Bbr {
    /// CheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, now: Time, ack: &Ack) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            // EnterProbeRTT, and only then SaveCwnd: the larger of this window and the one saved.
            self.state = State::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(now, ack);
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    /// HandleProbeRTT: at least 200 ms and one round at the low flight.
    fn handle_probe_rtt(&mut self, now: Time, ack: &Ack) {
        self.self_limited.mark(ack.delivered, ack.in_flight);
        if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(now);
            }
        } else if ack.in_flight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done_stamp = Some(now + PROBE_RTT_DURATION);
            self.probe_rtt_round_done = false;
            self.start_round();
        }
    }

    /// CheckProbeRTTDone.
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done_stamp.is_some_and(|stamp| now > stamp) {
            self.probe_rtt_min_stamp = now;
            self.restore_cwnd();
            self.exit_probe_rtt(now);
        }
    }

    /// ExitProbeRTT.
    fn exit_probe_rtt(&mut self, now: Time) {
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_probe_bw_down(now);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }

    /// ProbeRTTCwnd: half a BDP.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp_multiple(State::ProbeRtt.cwnd_gain()).max(self.min_pipe_cwnd())
    }
}
