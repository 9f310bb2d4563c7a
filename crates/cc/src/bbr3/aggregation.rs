//! The allowance for aggregated ACKs (section 5.5.9).

use units::Time;

use crate::bbr_common::AckAggregationEpoch;
use crate::max_filter::WindowedMax;

/// BBR.ExtraAckedFilterLen in rounds. The length is one round until the pipe has been filled.
const EXTRA_ACKED_FILTER_LEN: u64 = 10;

/// The bytes that aggregated ACKs acknowledge beyond the bandwidth.
#[derive(Clone, Debug, Default)]
pub(super) struct AckAggregation {
    epoch: AckAggregationEpoch,
    filter: WindowedMax,
    /// BBR.extra_acked in bytes.
    pub extra: u64,
}

impl AckAggregation {
    /// Starts the interval at `now`.
    pub fn restart(&mut self, now: Time) {
        self.epoch.start = now;
    }

    /// UpdateACKAggregation: `acked` bytes in round `round`, at most `cwnd` of the surplus.
    pub fn update(
        &mut self,
        now: Time,
        (bw, acked, cwnd): (u64, u64, u64),
        round: u64,
        full: bool,
    ) {
        let extra = self.epoch.extra_acked(now, bw, acked).min(cwnd);
        let window = if full { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra = self.filter.update(round, window, extra);
    }
}
