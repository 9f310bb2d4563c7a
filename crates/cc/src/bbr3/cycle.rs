//! The cycle of bandwidth probing (section 5.3.3): the time of the next probe, the slope of the long-term bound, and
//! the result of the last probe.

use units::{RandomStream, Span, Time};

use super::state::AckPhase;
use crate::bbr_common::Cwnd;

/// The maximum number of rounds between probes, as Reno needs to recover: 62 or 63 rounds.
const RENO_ROUNDS: u64 = 63;
/// The maximum number of doublings of the growth of inflight_longterm.
const MAX_UP_ROUNDS: u32 = 30;

/// The current probe cycle.
#[derive(Clone, Debug)]
pub(super) struct ProbeCycle {
    /// BBR.ack_phase.
    pub ack_phase: AckPhase,
    /// BBR.cycle_stamp.
    pub stamp: Time,
    /// BBR.bw_probe_wait.
    pub bw_probe_wait: Span,
    /// BBR.rounds_since_probe_up.
    pub rounds_since_probe_up: u64,
    /// BBR.is_bw_probe_sample: a loss is attributed to the probe.
    pub is_bw_probe_sample: bool,
    /// BBR.prev_probe_too_high.
    pub prev_probe_too_high: bool,
    /// BBR.prev_probe_precautionary: the last probe stopped before its feedback arrived.
    pub prev_probe_precautionary: bool,
    /// The last round in which the flight filled the window.
    pub last_cwnd_limited_round: Option<u64>,
    /// BBR.bw_probe_up_rounds.
    up_rounds: u32,
    /// BBR.bw_probe_up_acked.
    up_acked: u64,
    /// BBR.probe_up_acked_per_inc: the acknowledged bytes per packet of growth of the bound.
    pub probe_up_acked_per_inc: u64,
}

impl ProbeCycle {
    /// Returns the state before the first probe.
    pub fn new() -> ProbeCycle {
        ProbeCycle {
            ack_phase: AckPhase::Init,
            stamp: Time::ZERO,
            bw_probe_wait: Span::ZERO,
            rounds_since_probe_up: 0,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            last_cwnd_limited_round: None,
            up_rounds: 0,
            up_acked: 0,
            probe_up_acked_per_inc: u64::MAX,
        }
    }

    /// PickProbeWait, section 5.3.3.8.3: U(2, 3) seconds, and rounds counted from 0 or 1.
    pub fn pick_wait(&mut self, now: Time, random: &mut RandomStream) {
        self.stamp = now;
        self.rounds_since_probe_up = random.below(2);
        self.bw_probe_wait = Span::from_secs(2) + random.span_below(Span::from_secs(1));
    }

    /// IsTimeToProbeBW, including IsRenoCoexistenceProbeTime: one round per packet of the target.
    pub fn is_time_to_probe(&self, now: Time, target_packets: u64) -> bool {
        let elapsed = now > self.stamp + self.bw_probe_wait;
        elapsed || self.rounds_since_probe_up >= target_packets.min(RENO_ROUNDS)
    }

    /// C.is_cwnd_limited: returns whether the flight, not only the pacer, filled the window in the last round.
    pub fn is_cwnd_limited(&self, round: u64) -> bool {
        self.last_cwnd_limited_round.is_some_and(|met| met + 1 >= round)
    }

    /// Resets the slope to one packet per round before a probe.
    pub fn restart_slope(&mut self) {
        self.up_rounds = 0;
        self.up_acked = 0;
    }

    /// Stops the growth of the bound.
    pub fn stop_slope(&mut self) {
        self.probe_up_acked_per_inc = u64::MAX;
    }

    /// RaiseInflightLongtermSlope.
    pub fn raise_slope(&mut self, cwnd: &Cwnd) {
        let growth_this_round = 1 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.probe_up_acked_per_inc = (cwnd.bytes / growth_this_round).max(cwnd.mss);
    }

    /// Returns the packets by which the bound grows for `acked` bytes.
    pub fn bound_increments(&mut self, acked: u64) -> u64 {
        self.up_acked += acked;
        let steps = self.up_acked / self.probe_up_acked_per_inc;
        self.up_acked -= steps * self.probe_up_acked_per_inc;
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A.15: the step doubles each round, up to one packet per acknowledged packet.
    #[test]
    fn the_slope_doubles_each_round() {
        let cwnd = Cwnd::new(1200, 1_200_000);
        let mut cycle = ProbeCycle::new();
        let steps: Vec<u64> = (0..20)
            .map(|_| {
                cycle.raise_slope(&cwnd);
                cwnd.bytes / cycle.probe_up_acked_per_inc
            })
            .collect();
        assert_eq!((&steps[..4], steps[19]), (&[1, 2, 4, 8][..], 1_000));
        assert_eq!(cycle.bound_increments(11_999), 9);
        assert_eq!(cycle.bound_increments(1), 1);
    }

    #[test]
    fn a_probe_is_due_after_its_wait_or_after_renos_rounds() {
        let mut cycle = ProbeCycle::new();
        cycle.pick_wait(Time::ZERO, &mut RandomStream::named(1, "bbr", "probe"));
        let second = |s| Time::ZERO + Span::from_secs(s);
        assert!(
            cycle.bw_probe_wait >= Span::from_secs(2) && cycle.bw_probe_wait < Span::from_secs(3)
        );
        assert!(cycle.rounds_since_probe_up < 2);
        assert!(!cycle.is_time_to_probe(second(2), 100) && cycle.is_time_to_probe(second(3), 100));
        cycle.rounds_since_probe_up = 62;
        assert!(!cycle.is_time_to_probe(second(1), 100) && cycle.is_time_to_probe(second(1), 62));
        cycle.rounds_since_probe_up = 63;
        assert!(cycle.is_time_to_probe(second(1), 100));
    }
}
