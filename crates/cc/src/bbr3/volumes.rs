//! The volumes derived from the model: bandwidth-delay products with an allowance for bursts (section 5.6.4.2).

use units::Span;

use super::{Bbr3, BbrState};
use crate::max_filter::bytes_in;

impl Bbr3 {
    /// BDPMultiple.
    pub(super) fn bdp_multiple(&self, gain: f64) -> u64 {
        self.bdp_at(self.bandwidth.bw, gain)
    }

    fn bdp_at(&self, bw: u64, gain: f64) -> u64 {
        if self.min_rtt.rtt == Span::MAX {
            return self.cwnd.initial_cwnd;
        }
        (gain * bytes_in(bw, self.min_rtt.rtt.nanos()) as f64) as u64
    }

    /// QuantizationBudget: adds the allowance for offloaded bursts and the minimum pipe.
    fn quantization_budget(&self, inflight: u64) -> u64 {
        let offload_budget = 3 * self.send_quantum;
        let inflight = inflight.max(offload_budget).max(self.cwnd.min_pipe_cwnd());
        if self.state == BbrState::ProbeBwUp { inflight + 2 * self.cwnd.mss } else { inflight }
    }

    /// Inflight.
    pub(super) fn inflight(&self, gain: f64) -> u64 {
        self.quantization_budget(self.bdp_multiple(gain))
    }

    /// Inflight at BBR.max_bw, independent of the short-term bound.
    pub(super) fn inflight_at_max_bw(&self) -> u64 {
        self.quantization_budget(self.bdp_at(self.bandwidth.max_bw, 1.0))
    }

    /// UpdateMaxInflight.
    pub(super) fn max_inflight(&self) -> u64 {
        let bdp = self.bdp_multiple(self.state.cwnd_gain());
        self.quantization_budget(bdp + self.aggregation.extra)
    }

    /// TargetInflight, section 5.3.3.8.3.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp_multiple(1.0).min(self.cwnd.bytes)
    }

    /// ProbeRTTCwnd: half a BDP.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp_multiple(BbrState::ProbeRtt.cwnd_gain()).max(self.cwnd.min_pipe_cwnd())
    }
}
